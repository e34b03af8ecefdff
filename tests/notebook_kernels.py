"""A pytest plugin, ``-p tests.notebook_kernels``, that starts nbval's kernels safely.

On Linux, Jupyter talks to these kernels through sockets with unique names.  By default it would use
ports that were free when it chose them; if another program took one before the kernel had started,
the kernel would die.
"""

import sys
import uuid

import nbval.kernel
from jupyter_client import KernelManager


def with_own_sockets(**options):
    return KernelManager(transport="ipc", ip=f"@{uuid.uuid4()}", **options)


def pytest_configure():
    if sys.platform == "linux":
        nbval.kernel.KernelManager = with_own_sockets
