"""Surroundings that only a namespace of Linux can make: no network, a full disk, nothing to write.

What is mounted in one is seen by nobody else, and is gone with the last process in it.
"""

import shutil
import subprocess
import sys

import pytest

UNSHARE = ["unshare", "--map-root-user"]
#: A machine that is offline has its loopback device all the same, through which kernels talk.
LOOPBACK = """
import fcntl, os, socket, struct, sys
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh", b"lo", IFF_UP))
os.execvp(sys.argv[1], sys.argv[1:])
"""
OFFLINE = [*UNSHARE, "--net", sys.executable, "-c", LOOPBACK]


def script(text):
    """A shell script in a namespace where it may mount; its arguments follow."""
    return [*UNSHARE, "--mount", "sh", "-euc", text, "sh"]


def why_not():
    """Why there are no namespaces here; empty where there are."""
    if not shutil.which("unshare"):
        return "there is no unshare here"
    for tried in ([*OFFLINE, "true"], script("mount -t tmpfs tmpfs /mnt")):
        done = subprocess.run(tried, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"no namespace can be made here: {done.stderr.strip()}"
    return ""


WHY_NOT = why_not()
needed = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
