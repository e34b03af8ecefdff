"""A pytest plugin, ``-p tests.notebook_kernels``, that starts nbval's kernels quickly and safely.

Each notebook gets its own kernel, forked from one process that has imported torch, SymPy and
Matplotlib; these imports would otherwise take a quarter of the time of all notebooks.

On Linux, Jupyter talks to kernels through sockets with unique names.  By default it would use
ports that were free when it chose them; if another program took one before the kernel had
started, the kernel would die.
"""

import multiprocessing
import os
import runpy
import sys
from importlib.metadata import EntryPoint
from multiprocessing import forkserver
from pathlib import Path

from jupyter_client.provisioning import KernelProvisionerFactory, LocalProvisioner

#: Kernels are forked only where no threads or accelerator drivers would be forked with them.
FORKS = (
    sys.platform == "linux"
    and os.environ.get("OMP_NUM_THREADS") == "1"
    and not any(Path("/dev", driver).exists() for driver in ("nvidiactl", "kfd"))
)
#: Imports of most notebooks, but not the book's own packages, which are under test, or pyplot and
#: transformers, which adapt to the process that imports them.
WARM = """
tests.notebook_kernels ipykernel.kernelapp ipykernel.ipkernel ipykernel.zmqshell IPython.core.history
numpy sympy.stats torch._dynamo torch.distributed torch.func torch.utils.data
matplotlib.backends.backend_agg matplotlib.figure matplotlib.style matplotlib.widgets
""".split()
CONTEXT = multiprocessing.get_context("forkserver" if FORKS else None)
#: The slowest notebooks run first; if they ran last, the other workers would have to wait for them.
LONGEST = ("13-", "16-", "12b", "14-the", "15-", "11b")


class ForkedKernel(CONTEXT.Process):
    """A forked process that replaces a kernel's command, with the interface of a Popen."""

    stdin = stdout = stderr = None

    def __init__(self, arguments, folder, environment):
        super().__init__(daemon=True)  # to end with the process that started it
        self.arguments, self.folder, self.environment = arguments, folder, environment

    def poll(self):
        return self.exitcode

    def wait(self):
        self.join()
        return self.exitcode

    def run(self):
        """Start the kernel in the new process, as its command would have done."""
        os.close(forkserver._forkserver._forkserver_alive_fd)  # else the fork server stays alive
        self.daemon = False  # a daemon could not start processes
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        os.chdir(self.folder)
        os.environ.clear()  # the preloaded imports may have set variables
        os.environ.update(self.environment)
        given = filter(None, self.environment.get("PYTHONPATH", "").split(os.pathsep))
        installed = [p for p in sys.path if p.startswith((sys.prefix, sys.base_prefix))]
        sys.path[:] = [os.getcwd(), *given, *installed]
        # With this argument, the kernel ends when its parent, the fork server, ends.
        sys.argv[1:] = [*self.arguments, f"--IPKernelApp.parent_handle={os.getppid()}"]
        runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)


class Provisioner(LocalProvisioner):
    async def pre_launch(self, **kwargs):
        if sys.platform == "linux":
            self.parent.transport, self.parent.ip = "ipc", f"@{self.kernel_id}"
        return await super().pre_launch(**kwargs)

    async def launch_kernel(self, cmd, **kwargs):
        if not FORKS:
            return await super().launch_kernel(cmd, **kwargs)
        arguments = cmd[cmd.index("-m") + 2 :]
        self.process = ForkedKernel(arguments, kwargs.get("cwd", "."), dict(kwargs["env"]))
        self.process.start()
        self.pid = self.pgid = self.process.pid
        return self.connection_info


def pytest_configure():
    factory = KernelProvisionerFactory.instance()
    name = factory.default_provisioner_name = "forked-from-the-tests"
    factory.provisioners[name] = EntryPoint(name, f"{__name__}:Provisioner", factory.GROUP_NAME)
    CONTEXT.set_forkserver_preload(WARM)
    os.environ["PYDEVD_DISABLE_FILE_VALIDATION"] = "1"  # silences a warning about frozen modules


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: not item.path.name.startswith(LONGEST))
