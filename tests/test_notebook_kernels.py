"""A forked kernel ends as a plain one does.

That it begins as one does, every notebook shows: what is stored in it, a plain kernel has printed.
"""

import os
import re
import time

from small_notebooks import nbval, written

from tests.notebook_kernels import FORKS

FORKED = (
    "import os, sys\nprint('torch' in sys.modules)\nprint(os.getpid(), file=open('kernel', 'w'))"
)
SLOW = "import time\nfor _ in range(600): time.sleep(0.1)"
DEADLY = "import os\nos.kill(os.getpid(), 9)"


def test_a_slow_cell_and_a_kernel_that_dies_are_named_and_nothing_is_left_running(tmp_path):
    written(tmp_path / "forked.ipynb", FORKED, said=[f"{FORKS}\n"])
    written(tmp_path / "slow.ipynb", SLOW, "3")
    written(tmp_path / "dead.ipynb", "x = 6 * 7", DEADLY)
    said, verdicts = nbval(tmp_path, "--nbval-cell-timeout=10")
    assert verdicts == {
        ("forked", "Cell 0"): "PASSED",
        ("slow", "Cell 0"): "FAILED",
        ("slow", "Cell 1"): "XFAIL",
        ("dead", "Cell 0"): "PASSED",
        ("dead", "Cell 1"): "FAILED",
    }
    assert re.search("Timeout of 10 seconds exceeded.*KeyboardInterrupt", said, re.S)
    assert "the kernel died" in said
    assert is_gone_soon(int((tmp_path / "kernel").read_text()))


def is_gone_soon(process):
    for _ in range(100):
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.1)
    return False
