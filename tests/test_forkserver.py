"""A forked kernel is a plain one: it starts in the same state and fails in the same words."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import tests.forkserver as plugin

ROOT = Path(__file__).resolve().parent.parent
NBVAL = ["--nbval", "--nbval-current-env"]
pytestmark = pytest.mark.nightly
forks = pytest.mark.skipif(plugin.why_not_here() is not None, reason="kernels are plain here")

STATE = """
import gc, json, os, random, signal, sys, threading, warnings
import matplotlib, numpy, sympy, torch
import matplotlib.pyplot as plt
from ipykernel.connect import get_connection_info
state = {
    "backend": matplotlib.get_backend(),
    "rc": {name: repr(value) for name, value in matplotlib.rcParams.items()},
    "argv": [sys.argv[0], *sys.argv[1:2]],
    "folder": os.getcwd(),
    "path": sys.path,
    "flags": [repr(sys.flags), str(sys._xoptions)],
    "environment": {k: v for k, v in os.environ.items() if k not in OF_THE_RUN},
    "filters": sorted({repr(each) for each in warnings.filters}),
    "handlers": {s.name: repr(signal.getsignal(s)).split(" at ")[0] for s in signal.Signals},
    "threads": sorted(re_number(thread.name) for thread in threading.enumerate()),
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
"""
HELPERS = """
import re
OF_THE_RUN = {"FORK", "JPY_PARENT_PID", "PYTEST_XDIST_TESTRUNUID", "PYTEST_XDIST_WORKER"}
def re_number(name):
    return re.sub(r"[0-9]+", "N", name)
"""
DUMP = """
with open("state.json", "w") as file:
    json.dump([state, draws, os.getpid(), os.getppid()], file)
"""

FAILING = {
    "wrong": ["1 + 1", "(lambda x: 1 / x)(0)", "2"],
    "slow": ["import time\nfor _ in range(600): time.sleep(0.1)", "3"],
    "dead": ["import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", "4"],
}


def write(folder, **notebooks):
    folder.mkdir(parents=True, exist_ok=True)
    for name, sources in notebooks.items():
        cells = [nbformat.v4.new_code_cell(each, execution_count=1) for each in sources]
        for cell in cells:
            cell.id = str(cells.index(cell))
        nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / f"{name}.ipynb")


def pytest_on(folder, *options, **variables):
    """pytest on a folder of notebooks, started; it and its kernels write under the folder only."""
    (folder / "tmp").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\n")
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")},
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "300",  # no line is cut short, by the length of a folder's name
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(folder / "runtime"),
        "TMPDIR": str(folder / "tmp"),
        **variables,
    }
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "-rA"]
    command += ["-p", "tests.forkserver", *NBVAL, f"--rootdir={folder}"]
    command += [f"-c{folder / 'pytest.ini'}", *options, str(folder)]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


KINDS = {"plain": "0", "forked": ""}  # and what FORK says there


def both(factory, notebooks, *options):
    """Notebooks on plain and on forked kernels, at the same time: folders and reports."""
    folders = {kind: factory.mktemp(kind) / "same-name" for kind in KINDS}
    runs = {}
    for kind, folder in folders.items():
        write(folder, **notebooks)
        runs[kind] = pytest_on(folder, *options, FORK=KINDS[kind])
    said = {kind: run.communicate(timeout=240)[0] for kind, run in runs.items()}
    line = "Plain kernels, not forked ones: FORK=0 asks for them.\n"
    assert "Plain kernels" not in said["forked"] and said["plain"].count(line) == 1
    return folders, {kind: each.replace(line, "") for kind, each in said.items()}


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """What a notebook finds of either kind: [state, draws, process, parent]; and the folders."""
    folders, said = both(tmp_path_factory, {"state": [HELPERS, STATE, DUMP]})
    for each in said.values():
        assert "3 passed" in each
    found = {}
    for kind, folder in folders.items():
        text = (folder / "state.json").read_text().replace(str(folder.parent), "FOLDER")
        found[kind] = json.loads(text)
    return found, folders


def comparable(report, folder):
    """A report without what differs from run to run: times, workers, the order of the tests."""
    for path in (str(folder.parent), os.path.relpath(folder.parent, ROOT)):
        report = report.replace(path, "FOLDER")
    report = re.sub(r"\[gw\d\] linux.*\n", "", report)
    report = re.sub(r"in [\d.]+s.*|^.* +\[ *\d+%\]$|0x[0-9a-f]+", "", report, flags=re.M)
    return sorted(line for line in report.splitlines() if line.strip("=_ "))


@forks
def test_failures_timeouts_and_deaths_are_reported_alike(tmp_path_factory):
    folders, said = both(tmp_path_factory, FAILING, "--nbval-cell-timeout=3")
    plain, forked = (comparable(said[kind], folders[kind]) for kind in ("plain", "forked"))
    assert plain == forked
    for words in (
        "Unexpected output fields",
        "ZeroDivisionError",
        "Timeout of 3 seconds exceeded executing cell",
        "KeyboardInterrupt",
        "Failed to interrupt kernel",
    ):
        assert words in said["plain"], words


@forks
def test_the_state_that_a_notebook_finds_is_the_same(state):
    (plain, plain_draws, *_), (forked, forked_draws, *_) = state[0]["plain"], state[0]["forked"]
    assert list(plain) == list(forked)
    for name in plain:
        assert plain[name] == forked[name], name
    assert not set(plain_draws) & set(forked_draws)
    assert plain["transport"] == "ipc"  # a port could be taken before the kernel has it


@forks
def test_nothing_is_left_behind(state):
    found, folders = state
    kernel, server = found["forked"][2:]
    assert gone(kernel) and gone(server)
    assert left(folders["forked"]) == left(folders["plain"]) == []


def left(folder):
    """What the run left: torch's cache aside, whose folder has one name for every run of a user."""
    return [
        path.name
        for place in ("tmp", "runtime")
        for path in (folder / place).glob("*")
        if not path.name.startswith("torchinductor_")
    ]


def gone(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return False
