"""A missing, old or untried SymPy or torch is named in a sentence before anything else runs."""

import os
import sys
from types import SimpleNamespace

import nbformat
import pytest
from derivation import versions

from tools import colab
from tools.execute_notebooks import FAILURES, run


def required(monkeypatch, name, version):
    found = version and SimpleNamespace(__version__=version)
    monkeypatch.setitem(sys.modules, name, found)
    versions.require(name)


def test_a_missing_library_is_refused_in_a_sentence(monkeypatch):
    said = "^SymPy is not installed here; this book needs SymPy 1.13 or newer: .*pip"
    with pytest.raises(versions.Unsuitable, match=said):
        required(monkeypatch, "sympy", None)


UNTRIED = [("sympy", "2.0"), ("torch", "2.14.0a0+git1"), ("torch", "2.6.0")]
KNOWN = [("sympy", "1.13.3"), ("torch", "2.13.0+cu130")]


@pytest.mark.parametrize("name, version", UNTRIED + KNOWN)
def test_an_untried_version_is_named_and_a_tried_one_is_not(monkeypatch, capsys, name, version):
    monkeypatch.delenv(versions.VARIABLE, raising=False)
    required(monkeypatch, name, version)
    out, err = capsys.readouterr()
    named = version in err and "It continues" in err and err.count("\n") == 1
    assert out == "" and (err == "" if (name, version) in KNOWN else named)
    monkeypatch.setenv(versions.VARIABLE, "quiet")
    required(monkeypatch, name, version)
    assert capsys.readouterr() == ("", "")


def test_the_first_cell_of_a_copy_names_an_old_library_without_a_traceback(tmp_path):
    (tmp_path / "sympy.py").write_text("__version__ = '1.12'", encoding="utf-8")
    copy = nbformat.reads(colab.colab_copy(colab.NOTEBOOKS / "00-exercises.ipynb"), as_version=4)
    copy.cells = [cell for cell in copy.cells if cell.cell_type == "code"][:2]
    # These variables would silence a warning, or load other modules before the stub.
    dropped = (versions.VARIABLE, "PYTHONPATH", "PYTHONSTARTUP")
    with pytest.raises(FAILURES):
        run(copy, tmp_path, {k: v for k, v in os.environ.items() if k not in dropped})
    said = copy.cells[1].outputs[-1]
    assert copy.cells[0].outputs == []
    assert said.ename == "Unsuitable" and said.traceback == [said.evalue]
    assert said.evalue.startswith("SymPy 1.12 is too old for this book")
