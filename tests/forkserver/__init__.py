"""A pytest plugin, ``-p tests.forkserver``: nbval's kernels are forked from one warm process.

Every notebook gets a kernel of its own, as ever; it only need not import torch, SymPy and
Matplotlib again.  Each pytest process that runs notebooks starts one server (``server.py``).
Where that cannot be, or with ``FORK=0`` in the environment, the kernels are plain ones, and the
last lines of the report say why.

On Linux, kernels of either kind are spoken to through sockets that have a name of their own and no
file.  Jupyter's default are ports that were free when they were chosen: where another program takes
one before the kernel has started, the kernel dies.
"""

import json
import os
import select
import signal
import socket
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from ipykernel.kernelspec import make_ipkernel_cmd
from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

SERVER = Path(__file__).with_name("server.py")
LAUNCH = make_ipkernel_cmd()
MODULE = LAUNCH.index("-m")
NAME = "forked-from-the-tests"


class Server:
    """The warm process, seen from the pytest process that starts it."""

    process = None

    def __init__(self):
        self.reason = why_not_here()

    def start(self):
        self.channel, theirs = socket.socketpair()
        # A session of its own: Ctrl-C is for pytest, which then ends the kernels itself.
        self.process = subprocess.Popen(
            [*LAUNCH[:MODULE], SERVER],
            stdin=theirs,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        theirs.close()

    def ready(self):
        """Whether a kernel can be forked; waits for the imports, the first time."""
        if self.reason is None and self.process is None:
            self.start()
        if self.reason is None:
            said = self.channel.makefile().readline()
            self.reason = said.rstrip("\n") if said else "the fork server ended"
        return not self.reason

    def fork(self, argv, cwd, env, errors):
        """The process of a new kernel, or None where the server has died."""
        own, theirs = socket.socketpair()
        request = {"argv": argv, "cwd": str(cwd or Path.cwd()), "env": dict(env)}
        try:
            with own:
                with theirs:
                    socket.send_fds(self.channel, [b"k"], [theirs.fileno(), 1, errors])
                own.sendall(f"{json.dumps(request)}\n".encode())
                return ForkedProcess(int(own.makefile().readline()))
        except (OSError, ValueError):
            self.reason = "the fork server died"
            return None

    def stop(self):
        if self.process is not None:
            self.channel.close()
            self.process.wait()


class ForkedProcess:
    """What a provisioner asks of a Popen, for a process that is another's child."""

    stdin = stdout = stderr = returncode = None

    def __init__(self, pid):
        self.pid = pid
        self.descriptor = os.pidfd_open(pid)

    def poll(self):
        return self.wait(0)

    def wait(self, seconds=None):
        if self.returncode is None and select.select([self.descriptor], [], [], seconds)[0]:
            os.close(self.descriptor)
            self.returncode = 1  # which one, only its parent could tell
        return self.returncode

    def send_signal(self, number):
        if self.poll() is None:
            signal.pidfd_send_signal(self.descriptor, number)

    def terminate(self):
        self.send_signal(signal.SIGTERM)

    def kill(self):
        self.send_signal(signal.SIGKILL)


class ForkedKernel(LocalProvisioner):
    """Starts a kernel by a fork; whatever else is asked for, as the local one does it."""

    async def pre_launch(self, **kwargs):
        if sys.platform == "linux":
            self.parent.transport, self.parent.ip = "ipc", f"@{self.kernel_id}"
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd, **kwargs):
        forkable = cmd[: MODULE + 2] == LAUNCH[: MODULE + 2] and SERVER_OF_THIS_RUN.ready()
        errors = getattr(kwargs.get("stderr"), "fileno", lambda: 2)()
        process = forkable and SERVER_OF_THIS_RUN.fork(
            cmd[MODULE + 2 :], kwargs.get("cwd"), kwargs["env"], errors
        )
        if not process:
            return await super().launch_kernel(cmd, **kwargs)
        self.process = process
        self.pid = self.pgid = process.pid
        self.cwd = kwargs.get("cwd") or Path.cwd()
        return self.connection_info


def why_not_here():
    """Why no kernels are forked here; None where that is still open."""
    if os.environ.get("FORK") == "0":
        return "FORK=0 asks for them"
    if sys.platform != "linux":
        return f"forking is tried on Linux only, and this is {sys.platform}"
    try:
        os.close(os.pidfd_open(os.getpid()))
    except (AttributeError, OSError):
        return "this Linux has no pidfd_open"
    return None


SERVER_OF_THIS_RUN = Server()
REASONS = set()


def pytest_configure(config):
    factory = KernelProvisionerFactory.instance()
    factory.provisioners[NAME] = EntryPoint(NAME, f"{__name__}:ForkedKernel", factory.GROUP_NAME)
    factory.default_provisioner_name = NAME
    # It imports while pytest collects.  xdist's first process runs no notebook.
    runs_notebooks = hasattr(config, "workerinput") or not config.getoption("numprocesses", None)
    if SERVER_OF_THIS_RUN.reason is None and config.option.nbval and runs_notebooks:
        SERVER_OF_THIS_RUN.start()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session):
    SERVER_OF_THIS_RUN.stop()
    if SERVER_OF_THIS_RUN.reason:
        REASONS.add(SERVER_OF_THIS_RUN.reason)
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["plain kernels"] = sorted(REASONS)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    REASONS.update(getattr(node, "workeroutput", {}).get("plain kernels", ()))


def pytest_terminal_summary(terminalreporter):
    for reason in sorted(REASONS):
        terminalreporter.write_line(f"Plain kernels, not forked ones: {reason}.")
