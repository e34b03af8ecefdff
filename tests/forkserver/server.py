"""One warm process: it imports what is slow to import, then forks a kernel for each request.

The client (``__init__.py``) holds the other end of the socket that is this process's standard
input.  The socket has no name, so two runs cannot meet and nothing is left in a folder; when the
client goes, however it goes, the socket closes, and this process ends with all its kernels.

A request is one byte and three descriptors: a socket of the kernel's own, its standard output, its
standard error.  The rest is a line of JSON in that socket, which the kernel reads itself.
"""

import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys

# What a kernel imports; then what most notebooks import, and what that imports late.
# Left out, on purpose:
# - the book's own packages, which take a tenth of a second and are what the tests are about;
# - pyplot, which chooses its backend when it is imported, and a kernel's is IPython's;
# - transformers, whose tqdm chooses its kind of bar, and warns, by where it is imported.
KERNEL = (
    "ipykernel.kernelapp",
    "ipykernel.ipkernel",
    "ipykernel.zmqshell",
    "ipykernel.debugger",
    "IPython.core.completer",
    "IPython.core.history",
    "comm",
)
MODULES = (
    "numpy",
    "sympy",
    "sympy.stats",
    "torch",
    "torch._dynamo",
    "torch.distributed",
    "torch.func",
    "torch.utils.data",
    "matplotlib",
    "matplotlib.axes",
    "matplotlib.backends.backend_agg",
    "matplotlib.colorbar",
    "matplotlib.figure",
    "matplotlib.font_manager",
    "matplotlib.style",
    "matplotlib.widgets",
)


def main():
    channel = socket.socket(fileno=os.dup(0))
    # ipykernel reads it when it is imported: a kernel ends with its parent, which is this process.
    os.environ["JPY_PARENT_PID"] = str(os.getpid())
    before = set(os.environ)
    try:
        for module in KERNEL:
            importlib.import_module(module)
        # A debugger sets one when it is imported; a kernel has it, so the forked one gets it.
        variables = {name: os.environ[name] for name in set(os.environ) - before}
        for module in MODULES:
            importlib.import_module(module)
        reason = why_not()
    except ImportError as error:
        reason = f"{error.name} cannot be imported"
    channel.sendall(f"{reason}\n".encode())
    if reason:
        return
    gc.collect()
    gc.freeze()  # what is shared stays out of every kernel's collections
    kernel = serve(channel)
    if kernel:
        run_kernel(variables, *kernel)


def why_not():
    """Why this process must not be forked; empty where it may be."""
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        return f"importing started {threads - 1} threads (is OMP_NUM_THREADS=1 set?)"
    return "there is an accelerator" if accelerator() else ""


def accelerator():
    """Whether torch sees one.  A child asks: a driver must not be started before the fork."""
    child = os.fork()
    if child == 0:
        seen = True
        try:
            seen = sys.modules["torch"].accelerator.is_available()
        finally:
            os._exit(int(seen))
    return os.waitpid(child, 0)[1] != 0


def serve(channel):
    """Fork for each request, till the client goes; return what was sent, but in kernels only."""
    kernels = set()

    def reap(*_):
        for kernel in list(kernels):
            if os.waitpid(kernel, os.WNOHANG)[0]:
                kernels.remove(kernel)

    signal.signal(signal.SIGCHLD, reap)
    while True:
        _, descriptors, _, _ = socket.recv_fds(channel, 1, 3)
        if not descriptors:
            break
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        kernel = os.fork()
        if kernel == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        else:
            kernels.add(kernel)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        if kernel == 0:
            channel.close()
            return descriptors
        for descriptor in descriptors:
            os.close(descriptor)

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for kernel in kernels:
        os.kill(kernel, signal.SIGKILL)
        os.waitpid(kernel, 0)
    return None


def run_kernel(variables, own, output, errors):
    """Be the process that ``python -m ipykernel_launcher`` would have been."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    for standard, descriptor in enumerate((null, output, errors)):
        os.dup2(descriptor, standard)
        os.close(descriptor)

    with socket.socket(fileno=own) as client:
        request = json.loads(client.makefile().readline())
        client.sendall(f"{os.getpid()}\n".encode())
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update({**variables, **request["env"]}, JPY_PARENT_PID=str(os.getppid()))
    sys.path[0] = os.getcwd()
    sys.argv[1:] = request["argv"]
    # At random, as a new process begins: sisters would draw the same numbers.
    sys.modules["numpy"].random.seed()
    sys.modules["torch"].default_generator.seed()
    runpy.run_module("ipykernel_launcher", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
