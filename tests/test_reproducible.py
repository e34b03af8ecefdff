"""A notebook that depends on its surroundings is found, and so is one that fails."""

import nbformat
import pytest
import reproducible
from execute_notebooks import run_in_place

STEADY, HASHED, FAILING = "print(6 * 7)", "print(hash('a'))", "import os\nos.environ['THERE']"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three notebooks, executed here and stored."""
    monkeypatch.setenv("THERE", "1")
    for name, source in (("steady", STEADY), ("hashed", HASHED), ("failing", FAILING)):
        cell = nbformat.v4.new_code_cell(source, id=name)
        path = tmp_path / f"{name}.ipynb"
        path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[cell])) + "\n")
        run_in_place(path)
    monkeypatch.delenv("THERE")
    monkeypatch.setattr(reproducible, "FOLDER", tmp_path)
    monkeypatch.setattr(reproducible, "SURROUNDINGS", ({"PYTHONHASHSEED": "7", "LC_ALL": "C"},))
    return tmp_path


def test_what_differs_elsewhere_is_named(folder, capfd):
    assert reproducible.main([]) == 1
    said = capfd.readouterr().out
    assert "hashed.ipynb comes out otherwise with PYTHONHASHSEED=7 LC_ALL=C" in said
    assert "failing.ipynb comes out otherwise" in said and "steady.ipynb comes" not in said
    assert "1 of 3 notebooks come out the same." in said


def test_what_is_the_same_is_not(folder, capfd):
    assert reproducible.main([str(folder / "steady.ipynb")]) == 0
