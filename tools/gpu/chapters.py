"""Every notebook of the book, run where the record is taken, against its stored outputs.

As in `make test`, every printed word and every formula has to be the same; pictures and the
traces of errors are not compared.  The notebooks are run in a copy of their folder.
"""

import shutil
import tempfile
import time
from collections import defaultdict
from itertools import zip_longest
from pathlib import Path

import nbformat
from execute_notebooks import CellFailed, execute, normalise

NOT_COMPARED = ("image/png", "image/jpeg", "traceback", "output_type", "metadata", "name")


def steps(folder):
    """{name of the notebook: what to call}"""
    return {path.stem: lambda path=path: run(path) for path in sorted(folder.glob("*.ipynb"))}


def run(path):
    """Whether the notebook says what is stored; its PASS lines; the first difference."""
    stored = nbformat.read(path, as_version=4)
    fresh = without_outputs(nbformat.read(path, as_version=4))
    start, complaint = time.perf_counter(), None
    try:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder, "notebooks")
            shutil.copytree(path.parent, copy, ignore=shutil.ignore_patterns("__pycache__"))
            execute(fresh, copy)
        normalise(fresh)
        complaint = first_difference(stored, fresh)
    except CellFailed as failed:
        complaint = " ".join(str(failed).split())
    return {
        "passed": complaint is None,
        "lines": pass_lines(fresh) or None,
        "seconds": time.perf_counter() - start,
        "complaint": complaint,
    }


def without_outputs(notebook):
    """Nothing stored may pass for something said here, in cells that a failure leaves out."""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def first_difference(stored, fresh):
    """In words, the first cell whose outputs differ; None if there is none."""
    for number, (before, after) in enumerate(zip_longest(stored.cells, fresh.cells)):
        old, new = outputs(before), outputs(after)
        for kind in sorted(old | new):
            if old.get(kind) != new.get(kind):
                return (
                    f"cell {number}, {kind}: stored {shortened(old.get(kind))}, "
                    f"here {shortened(new.get(kind))}"
                )
    return None


def outputs(cell):
    """{kind of output: what is said in it}, as nbval compares them."""
    said = defaultdict(list)
    for output in cell.get("outputs", []):
        for kind, value in {**output, **output.get("data", {})}.items():
            if kind not in (*NOT_COMPARED, "data", "execution_count"):
                said[kind].append(value)
    return dict(said)


def shortened(values):
    text = " ".join(map(str, values)) if values else "nothing"
    return f"“{text[:80]}…”" if len(text) > 80 else f"“{text}”"


def pass_lines(notebook):
    return [
        line
        for cell in notebook.cells
        for text in outputs(cell).get("text", [])
        for line in text.splitlines()
        if line.startswith("PASS  ")
    ]
