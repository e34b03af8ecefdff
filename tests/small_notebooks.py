"""Write small notebooks, and run nbval on them in a separate process."""

import os
import re
import subprocess
import sys

import nbformat
from nbformat.v4 import new_code_cell, new_notebook, new_output

from tools.files import ROOT

SUITE = (
    "-m pytest -rA -n 0 -p no:cacheprovider --color=no -p tests.notebook_kernels --nbval".split()
)
VERDICT = re.compile(r"^(PASSED|FAILED|XFAIL) .*?([\w-]+)\.ipynb::(Cell \d+)", re.M)


def written(path, *sources, said=()):
    """Write a notebook of code cells, the last of which printed ``said``; return its text."""
    cells = [new_code_cell(s, id=str(n), execution_count=n + 1) for n, s in enumerate(sources)]
    for cell, text in zip(cells[len(cells) - len(said) :], said):
        cell.outputs = [new_output("stream", text=text)]
    text = nbformat.writes(new_notebook(cells=cells))
    path.write_text(text, encoding="utf-8")
    return text


def nbval(folder, *options, **variables):
    """Run nbval on a folder; return its output and {(notebook, test): verdict}."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")} | {
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "PYTHONPATH": str(ROOT / "notebooks"),
        "IPYTHONDIR": str(folder / "ipython"),
        "COLUMNS": "200",
    }
    command = [sys.executable, *SUITE, "--nbval-current-env", *options, "-c/dev/null", str(folder)]
    run = subprocess.run(
        command, cwd=ROOT, env=environment | variables, capture_output=True, text=True
    )
    found = VERDICT.findall(run.stdout)
    return run.stdout, {(notebook, test): verdict for verdict, notebook, test in found}
