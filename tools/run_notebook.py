"""Run the cells of a notebook in a fresh process: what they print is then in the notebook."""

import os
import sys
import uuid

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from traitlets.config import Config

#: What `run` raises where a cell fails: each says which, and how.
FAILURES = CellExecutionError, CellTimeoutError, DeadKernelError


def run(notebook, folder, env=None):
    """Execute every cell, in this folder and with this environment, or raise one of FAILURES.

    The outputs of the cells up to a failure stand in the notebook, and so do those of the cell
    that failed.
    """
    NotebookClient(
        notebook,
        timeout=120,  # seconds for a cell
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,  # one output for what was printed in pieces
        config=own_sockets(),
        extra_arguments=["--log-level=CRITICAL"],  # Ctrl-C is no news
        resources={"metadata": {"path": str(folder)}},
    ).execute(env=dict(os.environ) if env is None else env)


def own_sockets():
    """What tells nbclient to speak to its kernel through sockets of a name of their own, on Linux.

    Its default are ports that were free when they were chosen: where another program takes one
    before the kernel has started, the kernel dies.
    """
    if sys.platform != "linux":
        return Config()
    return Config(KernelManager={"transport": "ipc", "ip": f"@{uuid.uuid4()}"})
