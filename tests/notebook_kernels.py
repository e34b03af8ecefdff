"""A pytest plugin, ``-p tests.notebook_kernels``: how nbval's kernels start, and how they end.

Each notebook gets a kernel of its own, forked from one process that has imported torch, SymPy and
Matplotlib (``forked_kernel``); with ``FORK=0`` in the environment it imports them itself.  A kernel
that dies is noticed within a second; nbval would wait as long as a cell may take.

On Linux, kernels of either kind are spoken to through sockets that have a name of their own and no
file.  Jupyter's default are ports that were free when they were chosen: where another program takes
one before the kernel has started, the kernel dies.
"""

import os
import sys
import time
from importlib.metadata import EntryPoint
from pathlib import Path
from queue import Empty

import nbval.plugin
import pytest
from ipykernel.kernelspec import make_ipkernel_cmd
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

from tests.forked_kernel import ForkedKernel, warm_up

MODULE = make_ipkernel_cmd().index("-m")
NAME = "forked-from-the-tests"
SECONDS_BETWEEN_LOOKS = 0.5
#: The notebooks that take longest begin, or one worker would be left with them at the end.
LONGEST = ("13-an-audit", "16-", "12c", "11b", "01b", "12-")


def why_plain():
    """Why kernels are not forked here; None where they are."""
    if os.environ.get("FORK") == "0":
        return "FORK=0 asks for them"
    if sys.platform != "linux":
        return "forking is tried on Linux only"
    if os.environ.get("OMP_NUM_THREADS") != "1":
        return "libraries start threads where OMP_NUM_THREADS is not 1"
    if any(Path("/dev", driver).exists() for driver in ("nvidiactl", "kfd")):
        return "there is an accelerator, whose driver must not be started before a fork"
    return None


class Provisioner(LocalProvisioner):
    async def pre_launch(self, **kwargs):
        if sys.platform == "linux":
            self.parent.transport, self.parent.ip = "ipc", f"@{self.kernel_id}"
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd, **kwargs):
        if why_plain():
            return await super().launch_kernel(cmd, **kwargs)
        self.cwd = kwargs.get("cwd") or Path.cwd()
        self.process = ForkedKernel(cmd[MODULE + 2 :], self.cwd, dict(kwargs["env"]))
        self.process.start()
        self.pid = self.pgid = self.process.pid
        return self.connection_info


class WatchedKernel(nbval.plugin.RunningKernel):
    def get_message(self, stream, timeout=None):
        end = time.monotonic() + (float("inf") if timeout is None else timeout)
        while True:
            left = end - time.monotonic()
            try:
                return super().get_message(stream, max(0, min(left, SECONDS_BETWEEN_LOOKS)))
            except Empty:
                if not self.is_alive():
                    pytest.fail("the kernel died", pytrace=False)
                if left <= SECONDS_BETWEEN_LOOKS:
                    raise


def pytest_configure(config):
    nbval.plugin.RunningKernel = WatchedKernel
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[NAME] = EntryPoint(NAME, f"{__name__}:Provisioner", factory.GROUP_NAME)
    factory.default_provisioner_name = NAME
    # xdist's first process runs no notebook.
    runs_notebooks = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    if config.option.nbval and runs_notebooks and not why_plain():
        warm_up()


def pytest_report_header():
    return f"kernels: {'plain, as ' + why_plain() if why_plain() else 'forked from a warm process'}"


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not item.path.name.startswith(LONGEST))
