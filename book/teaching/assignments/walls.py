"""Walls between students' programs and the computer that grades them, where the system offers any.

In namespaces of its own (Linux), a program has no network and no other process to look at or end,
can write no file, and finds the given folders empty.  If root starts the grader, the program runs
as the user ``nobody`` besides.
"""

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

#: Makes every file read-only, demands that the paths before ``-`` are, mounts an empty folder over
#: each folder before ``--`` that is there, and then runs what follows it.
HIDE = """
while read -r _ _ _ _ place _; do mount -o remount,bind,ro "$place" 2> /dev/null; done \\
    < /proc/self/mountinfo
while [ "$1" != - ]; do [ ! -w "$1" ] || exit 9; shift; done; shift
while [ "$1" != -- ]; do
    [ ! -d "$1" ] || mount -t tmpfs -o size=1g none "$1" || exit 9
    shift
done; shift
cd "$PWD"
exec "$@"
"""
NAMESPACES = ["--net", "--pid", "--mount", "--mount-proc", "--fork", "--kill-child"]
POWERLESS = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
AS_NOBODY = ["--reuid=65534", "--regid=65534", "--clear-groups"]
#: Code that fails unless this very Python runs it, with torch.
CHECK = f"import sys, torch; sys.exit(sys.version != {sys.version!r})"


def wall(hidden):
    """(words to put before a command, a sentence on what they keep out), the best that works.

    The folders ``hidden`` are empty behind the wall; more can be added before the word ``--``.
    """
    read_only = [tempfile.gettempdir(), os.getcwd(), str(Path.home()), "-"]
    for words, who in _walls(["sh", "-c", HIDE, "sh", *read_only, *map(str, hidden), "--"]):
        if _works([*words, sys.executable, "-c", CHECK]):
            return words, f"Answers run in processes of their own, {who}."
    return [], (
        "Answers run in processes of their own, with all your rights: this system offers no wall. "
        "Grade strangers in a container, as the guide shows."
    )


def _walls(hide):
    apart = "without a network, your folders of this course, or the right to write your files"
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        yield ["unshare", "--user", "--map-root-user", *NAMESPACES, *hide, *POWERLESS], apart
        return
    yield ["unshare", *NAMESPACES, *hide, *POWERLESS, *AS_NOBODY], f"as the user nobody, {apart}"
    yield ["unshare", *NAMESPACES, *hide, *POWERLESS], apart
    yield [*POWERLESS, *AS_NOBODY], "as the user nobody, with the network of this computer"


def _works(command):
    """Whether a command is there and ends well."""
    with contextlib.suppress(OSError):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
        return done.returncode == 0


def keep_to_itself():
    """Forbid other processes of this user to look into this one (Linux)."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE
