"""Execute the notebooks anew under other circumstances: do the same files come out?

    make reproducible                                     # all of them, in two surroundings
    python tools/reproducible.py notebooks/03*.ipynb      # some

Each surrounding has its own hash seed, number of threads, locale, time zone and folder.  The
notebooks are copied there, with what they import, and executed; every byte of the files has to
be that of the committed ones, the pictures among them.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "notebooks"
EXECUTE = ROOT / "tools" / "execute_notebooks.py"

SURROUNDINGS = (
    {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1", "LC_ALL": "C", "TZ": "UTC"},
    {
        "PYTHONHASHSEED": "20261",
        "OMP_NUM_THREADS": "2",
        "LC_ALL": "C.UTF-8",
        "TZ": "Asia/Kathmandu",
    },
)


def main(names):
    paths = [Path(name).resolve() for name in names] or sorted(FOLDER.glob("*.ipynb"))
    differing = {}
    for surrounding in SURROUNDINGS:
        said = " ".join(f"{name}={value}" for name, value in surrounding.items())
        print(said, flush=True)
        for name in differing_in(surrounding, paths):
            differing.setdefault(name, []).append(said)
    for name, where in differing.items():
        print(f"{name} comes out otherwise with {'; '.join(where)}")
    print(f"{len(paths) - len(differing)} of {len(paths)} notebooks come out the same.")
    return int(bool(differing))


def differing_in(surrounding, paths):
    """The names of the notebooks that fail, or whose files differ, in one surrounding."""
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder) / "elsewhere"
        shutil.copytree(FOLDER, there, ignore=shutil.ignore_patterns("__pycache__"))
        copies = [there / path.name for path in paths]
        for copy in copies:
            empty(copy)
        subprocess.run(
            [sys.executable, str(EXECUTE), *map(str, copies)], env={**os.environ, **surrounding},
            cwd=folder, check=False,
        )  # fmt: skip
        return [p.name for p, c in zip(paths, copies) if c.read_bytes() != p.read_bytes()]


def empty(path):
    """Take the outputs away: a notebook that then fails cannot pass for one that came out the same."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    nbformat.write(notebook, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
