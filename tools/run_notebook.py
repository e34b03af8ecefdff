"""Run the cells of a notebook in a fresh process: what they print is then in the notebook."""

import os
import re
import sys
import uuid

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from traitlets.config import Config

TERMINAL_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class CellFailed(Exception):
    """What went wrong in which cell, in a few lines."""


def run(notebook, folder, seconds=120, env=None, kernel="python3"):
    """Execute every cell, in this folder; CellFailed says which failed, and how.

    ``seconds`` is what a cell may take, ``env`` the environment of the process.  The outputs of the
    cells up to a failure stand in the notebook, and so do those of the cell that failed.
    """
    client = NotebookClient(
        notebook,
        timeout=seconds,
        kernel_name=kernel,
        record_timing=False,
        coalesce_streams=True,  # one output for what was printed in pieces
        config=own_sockets(),
        extra_arguments=["--log-level=CRITICAL"],  # Ctrl-C is no news
        resources={"metadata": {"path": str(folder)}},
    )
    with client.setup_kernel(env=dict(os.environ) if env is None else env):
        for number, cell in enumerate(notebook.cells):
            try:
                client.execute_cell(cell, number)
            except CellExecutionError as error:
                raise CellFailed(report(number, *explain(error))) from None
            except CellTimeoutError:
                raise CellFailed(report(number, f"did not end within {seconds} s")) from None
            except DeadKernelError:
                raise CellFailed(report(number, "its kernel died")) from None


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
    return [line, *message[:12]]


def report(number, *lines):
    return "\n".join([f"  cell {number}:", *(f"    {line}" for line in lines if line)])
