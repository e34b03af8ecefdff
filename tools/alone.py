"""Run a command while no other of its kind runs in this checkout; a second one waits.

    python tools/alone.py NAME COMMAND [ARGUMENT ...]

The lock is the operating system's, on a file in _build: it goes with the process that holds it,
however that ends, so no lock is ever stale.  This needs nothing but Python: `make` calls it before
anything is installed.
"""

import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / "_build"


@contextmanager
def alone(name, folder=BUILD):
    """While this is entered, whoever else enters it under this name waits, and says so.

    It gives the descriptors to pass on to a process that has to be waited for too, even when this
    one is killed: the lock is theirs together.
    """
    try:
        import fcntl
    except ImportError:  # Windows has none: there two at once are the caller's to avoid
        yield ()
        return
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f".{name}.lock", "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"Another {name} is under way in this checkout: waiting for it.", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield (lock.fileno(),)


def main(name, *command):
    with alone(name) as held:
        return subprocess.run(command, check=False, pass_fds=held).returncode


if __name__ == "__main__":
    try:
        code = main(*sys.argv[1:])
    except KeyboardInterrupt:
        code = 130
    sys.exit(code if code >= 0 else 128 - code)
