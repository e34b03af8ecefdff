"""Execute notebooks in place and write them in one normal form.

    python tools/execute_notebooks.py                       # all of them
    python tools/execute_notebooks.py notebooks/03*.ipynb   # some

A notebook that comes out as it went in is not touched, and neither is one that fails.
"""

import os
import re
import sys
import time
import uuid
from itertools import islice
from pathlib import Path

import nbformat
from files import in_a_sentence, notebook_text, write
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from traitlets.config import Config

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
LANGUAGE = {"name": "python"}
SECONDS_PER_CELL = 120
TERMINAL_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class CellFailed(Exception):
    """What went wrong in which cell, in a few lines."""


@in_a_sentence
def main(names):
    paths = [Path(name) for name in names] or sorted(FOLDER.glob("*.ipynb"))
    missing = [str(path) for path in paths if not path.is_file()]
    if missing or not paths:
        print("There is no notebook", ", ".join(missing) or f"in {FOLDER}")
        return 1
    for path in paths:
        notebook_text(path)  # before minutes of work: is each of them a notebook?
    failures = 0
    for number, path in enumerate(paths, 1):
        print(f"[{number}/{len(paths)}] {path.name}", end=" ", flush=True)
        start = time.perf_counter()
        try:
            outcome = "written" if run_in_place(path) else "unchanged"
        except CellFailed as failed:
            failures += 1
            outcome = f"failed\n{failed}\n"
        print(f"... {time.perf_counter() - start:.1f} s, {outcome}", flush=True)
    return min(failures, 1)


def run_in_place(path):
    """Execute one notebook; whether that changed its file."""
    before = notebook_text(path)
    notebook = nbformat.reads(before, as_version=4)
    execute(notebook, folder=path.resolve().parent)
    normalise(notebook)
    after = nbformat.writes(notebook).rstrip("\n") + "\n"
    if after != before:
        write(path, after)
    return after != before


def execute(notebook, folder):
    notebook.metadata["kernelspec"] = KERNEL
    client = NotebookClient(
        notebook,
        timeout=SECONDS_PER_CELL,
        record_timing=False,
        config=own_sockets(),
        extra_arguments=["--log-level=CRITICAL"],  # Ctrl-C is no news
        resources={"metadata": {"path": str(folder)}},
    )
    with client.setup_kernel(env=os.environ | {"UNTRIED_VERSIONS": "quiet"}):
        for number, cell in enumerate(notebook.cells):
            try:
                client.execute_cell(cell, number)
            except CellExecutionError as error:
                raise CellFailed(report(number, explain(error))) from None
            except CellTimeoutError:
                what = [f"did not end within {SECONDS_PER_CELL} s"]
                raise CellFailed(report(number, what)) from None
            except DeadKernelError:
                raise CellFailed(report(number, ["its kernel died"])) from None


def own_sockets():
    """What tells nbclient to speak to its kernel through sockets of a name of their own, on Linux.

    Its default are ports that were free when they were chosen: where another program takes one
    before the kernel has started, the kernel dies.
    """
    if sys.platform != "linux":
        return Config()
    return Config(KernelManager={"transport": "ipc", "ip": f"@{uuid.uuid4()}"})


def explain(error):
    """The line of the cell, then the message."""
    trace = TERMINAL_COLOUR.sub("", error.traceback).splitlines()
    line = next((line for line in trace if re.match("-+> ", line)), "")
    message = TERMINAL_COLOUR.sub("", f"{error.ename}: {error.evalue}").splitlines()
    return [line, *islice(message, 12)]


def report(number, lines):
    return "\n".join([f"  cell {number}:", *(f"    {line}" for line in lines if line)])


def normalise(notebook):
    """Keep what a reader sees, and nothing that differs from one run to the next."""
    notebook.metadata["kernelspec"] = KERNEL
    notebook.metadata["language_info"] = LANGUAGE
    for cell in notebook.cells:
        for passing in ("execution", "ExecuteTime", "collapsed", "scrolled"):
            cell.metadata.pop(passing, None)
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)


def merge_streams(outputs):
    """One output for what was printed in pieces."""
    merged = []
    for output in outputs:
        stream = output.get("name") if output.output_type == "stream" else None
        if stream and merged and merged[-1].get("name") == stream:
            merged[-1].text += output.text
        else:
            merged.append(output)
    return merged


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
