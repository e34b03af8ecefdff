"""A missing, old or untried SymPy or torch is named in a sentence before anything else runs."""

import os
import sys
from types import SimpleNamespace

import nbformat
import pytest
from derivation import versions

from tools import colab
from tools.execute_notebooks import FAILURES, run

UNTRIED = [("sympy", "2.0"), ("torch", "2.14.0a0+git1"), ("torch", "2.6.0")]
KNOWN = [("sympy", "1.13.3"), ("torch", "2.13.0+cu130")]


@pytest.mark.parametrize("quiet", [False, True])
@pytest.mark.parametrize("name, version", UNTRIED + KNOWN)
def test_an_untried_version_is_named_unless_told(monkeypatch, capsys, name, version, quiet):
    monkeypatch.setenv(versions.VARIABLE, "quiet" if quiet else "")
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(__version__=version))
    versions.require(name)
    out, err = capsys.readouterr()
    named = version in err and "It continues" in err and err.count("\n") == 1
    assert out == "" and (err == "" if quiet or (name, version) in KNOWN else named)


def test_a_missing_library_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "sympy", None)
    said = "^SymPy is not installed here; this book needs SymPy 1.13 or newer: .*pip"
    with pytest.raises(versions.Unsuitable, match=said):
        versions.require("sympy")


def test_the_first_cell_of_a_copy_names_an_old_library_without_a_traceback(tmp_path):
    (tmp_path / "sympy.py").write_text("__version__ = '1.12'", encoding="utf-8")
    copy = nbformat.reads(colab.colab_copy(colab.NOTEBOOKS / "00-exercises.ipynb"), as_version=4)
    copy.cells = [cell for cell in copy.cells if cell.cell_type == "code"][:2]
    # These variables would silence a warning, or load other modules before the stub.
    dropped = (versions.VARIABLE, "PYTHONPATH", "PYTHONSTARTUP")
    with pytest.raises(FAILURES):
        run(copy, tmp_path, {k: v for k, v in os.environ.items() if k not in dropped})
    said = copy.cells[1].outputs[-1]
    assert said.ename == "Unsuitable" and said.traceback == [said.evalue]
    assert said.evalue.startswith("SymPy 1.12 is too old for this book")
