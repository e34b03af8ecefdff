"""The copies for Colab run alone, in an empty folder, and say what the originals say."""

import ast
import re
import sys

import nbformat
import pytest
from colab import NOTEBOOKS, colab_copy, companions, imported
from execute_notebooks import own_sockets
from nbclient import NotebookClient

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
#: All that a copy may count on, beside Python.
IN_COLAB = {"torch", "sympy", "mpmath", "matplotlib", "numpy", "transformers"}

each_copy = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


@each_copy
def test_it_leads_to_the_site_or_nowhere(path):
    for site in ("", "https://example.org/book"):
        notebook = nbformat.reads(colab_copy(path, site), as_version=4)
        nbformat.validate(notebook)
        text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
        for target in re.findall(r"\]\(([^)\s]+\.(?:ipynb|md|html)[^)]*)\)", text):
            assert site and target.startswith(f"{site}/"), target
    opening = code_cells(notebook)[0]
    assert notebook.metadata["accelerator"] == "GPU" and opening.metadata["cellView"] == "form"


def test_it_carries_what_it_imports_and_names_and_no_more():
    code = "from derivation import *\nimport torch\nplt.style.use('figures.mplstyle')\n'no.json'"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    checker = {*(NOTEBOOKS / "derivation").rglob("*.py")}
    assert {*companions(notebook)} == checker | {NOTEBOOKS / "figures.mplstyle"}


# ---- run alone --------------------------------------------------------------------


def told(notebook):
    """What each code cell of a notebook printed or showed, its pictures by their number."""
    for cell in code_cells(notebook):
        printed = "".join(o.text for o in cell.outputs if o.output_type == "stream")
        shown = [dict(o.data) for o in cell.outputs if "data" in o]
        pictures = sum("image/png" in data for data in shown)
        words = [data.get("text/latex", data.get("text/plain")) for data in shown]
        yield cell.source, printed, words, pictures


def modules(*sources):
    """The modules that code imports, those of Python aside."""
    found = {name for source in sources for name in imported(ast.parse(source))}
    return frozenset(found - sys.stdlib_module_names)


def needs(path):
    """What a copy needs beside its cells: the packages it imports and the files it carries."""
    notebook = nbformat.read(path, as_version=4)
    cells = [cell.source for cell in code_cells(notebook)]
    return modules(*cells), frozenset(companions(notebook))


@each_copy
def test_it_needs_nothing_but_what_colab_has_and_what_it_carries(path):
    own, carried = needs(path)
    sources = [p.read_text(encoding="utf-8") for p in carried if p.suffix == ".py"]
    names = {p.relative_to(NOTEBOOKS).parts[0].removesuffix(".py") for p in carried}
    assert (own | modules(*sources)) - names <= IN_COLAB


#: One copy for each set of needs is run whole, the smallest.  Of the others, whose cells are
#: those that `make test` runs, the imports are run.
SMALLEST_LAST = sorted(PATHS, key=lambda path: -path.stat().st_size)
WHOLE = set({needs(path): path for path in SMALLEST_LAST}.values())


@each_copy
def test_it_runs_alone_and_says_the_same(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.delenv("MPLBACKEND", raising=False)  # figures as in Colab, inline
    copy = nbformat.reads(colab_copy(path), as_version=4)
    original = list(told(nbformat.read(path, as_version=4)))
    if path not in WHOLE:
        copy.cells, original = code_cells(copy)[:2], original[:1]
    NotebookClient(
        copy,
        timeout=120,
        kernel_name="python3",
        config=own_sockets(),
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    first, *rest = told(copy)
    assert first[1:] == ("", [], 0) and rest == original
    written = {p.relative_to(NOTEBOOKS).parts[0] for p in companions(copy)}
    assert {p.name for p in tmp_path.iterdir()} <= written and "derivation" in written
