"""A forked kernel is a plain one: it starts in the same state, and ends as that one does."""

import json
import os
import re
import time

import pytest
from small_notebooks import nbval, written

STATE = """
import gc, json, os, random, re, signal, sys, threading, warnings
import matplotlib, numpy, sympy, torch
import matplotlib.pyplot as plt
from ipykernel.connect import get_connection_info
OF_THE_RUN = ("FORK", "JPY_PARENT_PID", "PYDEVD_")  # the last are the debugger's
state = {
    "backend": matplotlib.get_backend(),
    "rc": {name: repr(value) for name, value in matplotlib.rcParams.items()},
    "argv": [sys.argv[0], *sys.argv[1:2]],
    "folder": os.getcwd(),
    "path": sys.path,
    "flags": [repr(sys.flags), str(sys._xoptions)],
    "environment": {k: v for k, v in os.environ.items() if not k.startswith(OF_THE_RUN)},
    "filters": sorted({repr(each) for each in warnings.filters}),
    "handlers": {s.name: repr(signal.getsignal(s)).split(" at ")[0] for s in signal.Signals},
    "threads": sorted(re.sub(r"[0-9]+", "N", t.name) for t in threading.enumerate()),
    "group": os.getpgid(0) == os.getsid(0) == os.getpid(),
    "main": sorted(vars(sys.modules["__main__"]))[:5],
    "garbage": [gc.isenabled(), gc.get_threshold()],
    "torch": [torch.get_num_threads(), str(torch.get_default_dtype()), torch.is_grad_enabled(),
              torch.initial_seed() == 67280421310721],  # the seed that older versions begin with
    "numpy": str(numpy.geterr()),
    "recursion": sys.getrecursionlimit(),
    "displays": type(sys.displayhook).__name__,
    "transport": json.loads(get_connection_info())["transport"],
}
draws = [random.random(), float(numpy.random.rand()), float(torch.rand(1))]
with open("state.json", "w") as file:
    json.dump([state, draws, [os.getpid(), os.getppid()]], file)
"""
SLOW = "import time\nfor _ in range(600): time.sleep(0.1)"
DEADLY = "import os\nos.kill(os.getpid(), 9)"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """{kind: (what pytest said, its verdicts, [state, draws, processes])}"""
    found = {}
    for kind, fork in {"plain": "0", "forked": "1"}.items():
        folder = tmp_path_factory.mktemp(kind) / "same"
        folder.mkdir()
        written(folder / "state.ipynb", STATE)
        written(folder / "slow.ipynb", SLOW, "3")
        written(folder / "dead.ipynb", "x = 6 * 7", DEADLY)
        said, verdicts = nbval(folder, "--nbval-cell-timeout=10", FORK=fork)
        text = (folder / "state.json").read_text().replace(str(folder.parent), "FOLDER")
        found[kind] = said, verdicts, json.loads(text)
    assert "kernels: plain, as FORK=0" in found["plain"][0]
    if "kernels: plain" in found["forked"][0]:
        pytest.skip(re.search("kernels: plain.*", found["forked"][0])[0])
    return found


def test_the_state_that_a_notebook_finds_is_the_same(runs):
    (plain, plain_draws, _), (forked, forked_draws, _) = (runs[k][2] for k in ("plain", "forked"))
    for name in plain | forked:
        assert plain[name] == forked[name], name
    assert not set(plain_draws) & set(forked_draws)
    assert plain["transport"] == "ipc"  # a port could be taken before the kernel has it


@pytest.mark.parametrize("kind", ["plain", "forked"])
def test_a_cell_that_takes_too_long_and_a_kernel_that_dies_are_named(runs, kind):
    said, verdicts, _ = runs[kind]
    assert verdicts == {
        ("state", "Cell 0"): "PASSED",
        ("slow", "Cell 0"): "FAILED",
        ("slow", "Cell 1"): "XFAIL",
        ("dead", "Cell 0"): "PASSED",
        ("dead", "Cell 1"): "FAILED",
    }
    assert re.search("Timeout of 10 seconds exceeded.*KeyboardInterrupt", said, re.S)
    assert "the kernel died" in said


def test_nothing_is_left_running(runs):
    end = time.monotonic() + 10  # a server sees that its pytest is gone, and a kernel that one
    processes = runs["forked"][2][2]
    while any(map(runs_still, processes)) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(map(runs_still, processes))


def runs_still(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
