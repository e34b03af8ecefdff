"""Another SymPy or torch than was tried, or none: a sentence says so before anything else."""

import os
import re
import sys
from types import SimpleNamespace

import colab
import nbformat
import pytest
from derivation import versions
from files import ROOT
from run_notebook import FAILURES, run

REFUSED = {
    ("sympy", "1.12.1"): "^SymPy 1.12.1 is too old for this book, which needs 1.13 or newer: .*pip",
    ("torch", "2.5.1+cpu"): "^torch 2.5.1.cpu is too old for this book, which needs 2.6 or newer",
    ("sympy", None): "^SymPy is not installed here; this book needs SymPy 1.13 or newer: .*pip",
}
UNTRIED = [("sympy", "1.15.0"), ("sympy", "2.0"), ("torch", "2.14.0a0+git1"), ("torch", "2.6.0")]
KNOWN = [("sympy", "1.13.3"), ("sympy", "1.14.0"), ("torch", "2.13.0+cu130"), ("torch", "2.13.1")]


def installed(monkeypatch, name, version):
    found = version and SimpleNamespace(__version__=version)
    monkeypatch.setitem(sys.modules, name, found)
    monkeypatch.delenv(versions.VARIABLE, raising=False)


@pytest.mark.parametrize("name, version", REFUSED)
def test_too_old_or_missing_is_refused_in_a_sentence(monkeypatch, name, version):
    installed(monkeypatch, name, version)
    with pytest.raises(versions.Unsuitable, match=REFUSED[name, version]):
        versions.require(name)


@pytest.mark.parametrize("name, version", UNTRIED + KNOWN)
def test_what_is_untried_is_named_and_what_is_known_is_silent(monkeypatch, capsys, name, version):
    installed(monkeypatch, name, version)
    versions.require(name)
    out, err = capsys.readouterr()
    named = version in err and "It goes on" in err and err.count("\n") == 1
    assert out == "" and (err == "" if (name, version) in KNOWN else named)
    monkeypatch.setenv(versions.VARIABLE, "quiet")
    versions.require(name)
    assert capsys.readouterr() == ("", "")


def test_what_is_pinned_has_been_tried():
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    for name, tried in versions.TRIED.items():
        pinned = re.search(rf"^{name}==(\d+)\.(\d+)", pins, re.M)
        assert tuple(map(int, pinned.groups())) in tried


def test_the_first_cell_of_a_copy_says_so_without_a_traceback(tmp_path):
    """A copy for Colab, beside an old SymPy."""
    (tmp_path / "sympy.py").write_text("__version__ = '1.12'", encoding="utf-8")
    copy = nbformat.reads(colab.colab_copy(colab.NOTEBOOKS / "00-exercises.ipynb"), as_version=4)
    copy.cells = [cell for cell in copy.cells if cell.cell_type == "code"][:2]
    # What starts in a kernel by itself would hide the stubs.
    dropped = (versions.VARIABLE, "PYTHONPATH", "PYTHONSTARTUP")
    with pytest.raises(FAILURES):
        run(copy, tmp_path, env={k: v for k, v in os.environ.items() if k not in dropped})
    said = copy.cells[1].outputs[-1]
    assert copy.cells[0].outputs == []
    assert said.ename == "Unsuitable" and said.traceback == [said.evalue]
    assert said.evalue.startswith("SymPy 1.12 is too old for this book")
