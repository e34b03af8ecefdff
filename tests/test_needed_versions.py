"""Another SymPy or torch than was tried, or none: a sentence says so before anything else."""

import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import colab
import nbformat
import pytest
from derivation import versions
from run_notebook import CellFailed, run

ROOT = Path(__file__).resolve().parent.parent
#: A version, and what is said of it: refused, taken with a line, or not mentioned.
REFUSED = [("sympy", "1.12.1", "1.13"), ("torch", "2.5.1+cpu", "2.6"), ("torch", "1.13.1", "2.6")]
UNTRIED = [("sympy", "1.15.0"), ("sympy", "2.0"), ("torch", "2.14.0a0+git1"), ("torch", "2.6.0")]
KNOWN = [("sympy", "1.13.3"), ("sympy", "1.14.0"), ("torch", "2.13.0+cu130"), ("torch", "2.13.1")]


def installed(monkeypatch, name, version):
    found = version and SimpleNamespace(__version__=version)
    monkeypatch.setitem(sys.modules, name, found)
    monkeypatch.delenv(versions.VARIABLE, raising=False)


@pytest.mark.parametrize("name, version, needed", REFUSED)
def test_too_old_is_refused_in_a_sentence(monkeypatch, name, version, needed):
    installed(monkeypatch, name, version)
    with pytest.raises(versions.Unsuitable) as refused:
        versions.require(name)
    said = str(refused.value)
    assert (
        f"{versions.SHOWN[name]} {version} is too old for this book, which needs {needed} or newer"
        in said
    )
    assert f"pip install --upgrade {name}" in said


@pytest.mark.parametrize("name", versions.SHOWN)
def test_missing_is_refused_in_a_sentence(monkeypatch, name):
    installed(monkeypatch, name, None)
    with pytest.raises(
        versions.Unsuitable, match=f"{versions.SHOWN[name]} is not installed here; this book needs"
    ):
        versions.require(name)


@pytest.mark.parametrize("name, version", UNTRIED + KNOWN)
def test_what_is_untried_is_named_and_taken_and_what_is_known_is_silent(
    monkeypatch, capsys, name, version
):
    installed(monkeypatch, name, version)
    versions.require(name)
    out, err = capsys.readouterr()
    if (name, version) in KNOWN:
        assert (out, err) == ("", "")
        return
    assert out == "" and version in err and "It goes on" in err and err.count("\n") == 1
    monkeypatch.setenv(versions.VARIABLE, "quiet")
    versions.require(name)
    assert capsys.readouterr() == ("", "")


def test_what_is_pinned_and_what_is_tested_has_been_tried():
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    tested = (ROOT / "tests" / "versions" / "test_versions.py").read_text(encoding="utf-8")
    found = re.findall(r"^(sympy|torch)==(\d+)\.(\d+)", pins, re.M)
    found += [("sympy", *pair) for pair in re.findall(r'\("3\.\d+", "(\d+)\.(\d+)', tested)]
    assert found
    for name, *version in found:
        assert tuple(map(int, version)) in versions.TRIED[name], (name, version)


def first_cells(tmp_path, stubs):
    """What a copy for Colab says in its first two cells beside these modules, by their source."""
    for name, source in stubs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(source, encoding="utf-8")
    copy = nbformat.reads(colab.colab_copy(colab.NOTEBOOKS / "00-exercises.ipynb"), as_version=4)
    copy.cells = [cell for cell in copy.cells if cell.cell_type == "code"][:2]
    # What starts in a kernel by itself would hide the stubs.
    dropped = (versions.VARIABLE, "PYTHONPATH", "PYTHONSTARTUP")
    env = {k: v for k, v in os.environ.items() if k not in dropped}
    with pytest.raises(CellFailed):
        run(copy, tmp_path, env=env)
    assert copy.cells[0].outputs == []
    return copy.cells[1].outputs[-1]


OLD_SYMPY = {"sympy": "__version__ = '1.12'", "torch": "__version__ = '2.13.0'\nnn = None"}
OLD_TORCH = {"torch": "__version__ = '2.1.0'\nnn = None"}


@pytest.mark.parametrize("stubs, name", [(OLD_SYMPY, "SymPy 1.12"), (OLD_TORCH, "torch 2.1.0")])
def test_the_first_cell_of_a_copy_says_so_without_a_traceback(tmp_path, stubs, name):
    said = first_cells(tmp_path, stubs)
    assert said.ename == "Unsuitable" and said.traceback == [said.evalue]
    assert said.evalue.startswith(f"{name} is too old for this book")
