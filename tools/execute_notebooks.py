"""Execute notebooks in place and write them in one normal form.

    python tools/execute_notebooks.py                       # all of them
    python tools/execute_notebooks.py notebooks/03*.ipynb   # some

A notebook that comes out as it went in is not touched, and neither is one that fails.
"""

import os
import sys
import time
from pathlib import Path

import nbformat
from files import NOTEBOOKS, Fault, in_a_sentence, notebook_text, write
from run_notebook import FAILURES, run

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


@in_a_sentence
def main(names):
    paths = [Path(name) for name in names] or sorted(NOTEBOOKS.glob("*.ipynb"))
    for path in paths:
        if not path.is_file():
            raise Fault(f"There is no notebook {path}.")
        notebook_text(path)  # before minutes of work: is each of them a notebook?
    failed = False
    for number, path in enumerate(paths, 1):
        print(f"[{number}/{len(paths)}] {path.name}", end=" ", flush=True)
        start = time.perf_counter()
        try:
            outcome = "written" if run_in_place(path) else "unchanged"
        except FAILURES as why:
            failed, outcome = True, f"failed\n{why}\n"
        print(f"... {time.perf_counter() - start:.1f} s, {outcome}", flush=True)
    return int(failed)


def run_in_place(path):
    """Execute one notebook; whether that changed its file."""
    before = notebook_text(path)
    notebook = nbformat.reads(before, as_version=4)
    run(notebook, path.resolve().parent, env=os.environ | {"UNTRIED_VERSIONS": "quiet"})
    normalise(notebook)
    after = nbformat.writes(notebook).rstrip("\n") + "\n"
    if after != before:
        write(path, after)
    return after != before


def normalise(notebook):
    """Keep what a reader sees, and nothing that differs from one run to the next."""
    notebook.metadata["kernelspec"] = KERNEL
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        for passing in ("execution", "ExecuteTime", "collapsed", "scrolled"):
            cell.metadata.pop(passing, None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
