"""A forked kernel ends as a plain one does.

That it begins as one does, every notebook shows: what is stored in it, a plain kernel has printed.
"""

import contextlib

import psutil
from small_notebooks import nbval, written

from tests.notebook_kernels import FORKS

FORKED = (
    "import os, sys\nprint('torch' in sys.modules)\nprint(os.getpid(), file=open('kernel', 'w'))"
)
SLOW = "import time\nfor _ in range(600): time.sleep(0.1)"


def test_a_slow_cell_is_named_and_nothing_is_left_running(tmp_path):
    written(tmp_path / "slow.ipynb", FORKED, SLOW, "3", said=[f"{FORKS}\n", "", "3\n"])
    _, verdicts = nbval(tmp_path, "--nbval-cell-timeout=10")
    assert [verdicts["slow", f"Cell {n}"] for n in range(3)] == ["PASSED", "FAILED", "XFAIL"]
    with contextlib.suppress(psutil.NoSuchProcess):  # it may end after the run, and soon
        psutil.Process(int((tmp_path / "kernel").read_text())).wait(timeout=10)
