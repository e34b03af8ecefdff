"""Execute notebooks in place and write them in one normal form.

    python -m tools execute-notebooks notebooks/03*.ipynb

If a notebook fails, or its outputs do not change, its file is left untouched.
"""

import os
import sys
import uuid
from collections.abc import Mapping
from pathlib import Path

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode
from traitlets.config import Config

from tools.files import as_text, read_notebook, write

KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
#: The errors that `run` raises if a cell fails; their messages name the cell and the failure.
FAILURES = CellExecutionError, CellTimeoutError, DeadKernelError


def main(*names):
    failed = False
    for path in map(Path, names):
        print(path.name, end=" ", flush=True)
        try:
            print("written" if run_in_place(path) else "unchanged")
        except FAILURES as why:
            failed = True
            print(f"failed\n{why}\n")
    return int(failed)


def run_in_place(path: Path) -> bool:
    """Execute one notebook; return whether its file changed."""
    notebook = read_notebook(path)
    run(notebook, path.resolve().parent, os.environ | {"UNTRIED_VERSIONS": "quiet"})
    normalise(notebook)
    after = as_text(notebook)
    changed = after != path.read_text(encoding="utf-8")
    if changed:
        write(path, after)
    return changed


def run(notebook: NotebookNode, folder: Path, environment: Mapping[str, str]) -> None:
    """Execute all cells in one fresh process.  Raises one of FAILURES if a cell fails.

    In that case the notebook contains the outputs up to and including that cell's.
    """
    NotebookClient(
        notebook,
        timeout=120,  # seconds for a cell
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,  # join text that was printed in pieces
        config=own_sockets(),
        extra_arguments=["--log-level=CRITICAL"],  # do not report Ctrl-C
        resources={"metadata": {"path": str(folder)}},
    ).execute(env=dict(environment))


def own_sockets() -> Config:
    """A configuration in which nbclient and its kernel use sockets with a unique name, on Linux.

    By default nbclient chooses ports that are free; if another program takes one of these before
    the kernel has started, the kernel dies.
    """
    if sys.platform != "linux":
        return Config()
    return Config(KernelManager={"transport": "ipc", "ip": f"@{uuid.uuid4()}"})


def normalise(notebook: NotebookNode) -> None:
    """Remove metadata that differs from run to run, and name the standard kernel."""
    notebook.metadata["kernelspec"] = KERNEL
    notebook.metadata["language_info"] = {"name": "python"}
    for cell in notebook.cells:
        for passing in ("execution", "ExecuteTime", "collapsed", "scrolled"):
            cell.metadata.pop(passing, None)
