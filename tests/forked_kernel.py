"""A kernel that is forked from a warm process, which `multiprocessing` calls a fork server.

A module of its own, which imports nothing of the tests: the kernel itself loads it.
"""

import gc
import multiprocessing
import os
import runpy
import sys
from multiprocessing import forkserver
from unittest import mock

# What a kernel imports; then what most notebooks import, and what that imports late.
# Left out, on purpose:
# - the book's own packages, which take a tenth of a second and are what the tests are about;
# - pyplot, which chooses its backend when it is imported, and a kernel's is IPython's;
# - transformers, whose tqdm chooses its kind of bar, and warns, by where it is imported.
WARM = """
ipykernel.kernelapp ipykernel.ipkernel ipykernel.zmqshell ipykernel.debugger
IPython.core.completer IPython.core.history comm
numpy sympy sympy.stats torch torch._dynamo torch.distributed torch.func torch.utils.data
matplotlib matplotlib.axes matplotlib.backends.backend_agg matplotlib.colorbar matplotlib.figure
matplotlib.font_manager matplotlib.style matplotlib.widgets
""".split()

CONTEXT = multiprocessing.get_context("forkserver")


def warm_up():
    """Start the server of this process; it imports while other things go on."""
    CONTEXT.set_forkserver_preload(WARM)
    with mock.patch.dict(
        os.environ, PYDEVD_DISABLE_FILE_VALIDATION="1"
    ):  # a warning of the debugger
        forkserver.ensure_running()


class ForkedKernel(CONTEXT.Process):
    """The process that a kernel's command would have been; jupyter_client sees a Popen."""

    stdin = stdout = stderr = None

    def __init__(self, arguments, folder, environment):
        super().__init__(daemon=True)  # it ends with the process that asked for it
        self.arguments, self.folder, self.environment = arguments, folder, environment

    def poll(self):
        return self.exitcode

    def wait(self):
        self.join()
        return self.exitcode

    def send_signal(self, number):
        os.kill(self.pid, number)

    def run(self):
        os.close(forkserver._forkserver._forkserver_alive_fd)  # or it would keep the server alive
        self.daemon = False  # a notebook may start processes
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for standard in range(3):
            os.dup2(null, standard)
        os.chdir(self.folder)
        os.environ.clear()  # what is imported sets some
        os.environ.update(self.environment)
        given = filter(None, self.environment.get("PYTHONPATH", "").split(os.pathsep))
        installed = [p for p in sys.path if p.startswith((sys.prefix, sys.base_prefix))]
        sys.path[:] = [os.getcwd(), *given, *installed]
        # With its parent, the server, it ends as well: a plain one reads that from its environment.
        sys.argv[1:] = [*self.arguments, f"--IPKernelApp.parent_handle={os.getppid()}"]
        # At random, as a new process begins: sisters would draw the same numbers.
        sys.modules["numpy"].random.seed()
        sys.modules["torch"].default_generator.seed()
        gc.freeze()  # what is shared stays out of the kernel's collections
        runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)
