"""The short control of ``make nightly ONLY=device``: the device works, and what it should find is found."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from tests.pretended_device.plugin import REASONS, complaints

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
QUIET = ["-q", "-n", "0", "-p", "no:cacheprovider", "--color=no"]
PLUGINS = ["-p", "tests.forkserver", "-p", "tests.pretended_device.plugin"]

START = "from derivation.checks import normal, start\n\ndevice = start()"
THERE = "x = normal(4, 4, device=device).square()"
PRINTS = "print(bool((x @ x.T).trace() > 0))"
#: Notebooks of three cells, what the last of them has printed, and which tests of them must fail.
TRIED = {
    "moves everything": ((START, THERE, PRINTS), "True\n", {}),
    "prints something else": ((START, THERE, PRINTS), "False\n", {"Cell 2"}),
    "mixes the devices": (
        (START, THERE, PRINTS.replace("x.T", "normal(4, 4)")),
        "True\n",
        {"Cell 2"},
    ),
    "moves nothing": ((START, "x = normal(4, 4)", PRINTS), "True\n", {"the device was used"}),
    "asks for the CPU": (
        (START.replace("()", '(device="cpu")'), THERE, PRINTS),
        "True\n",
        {"the device was used"},
    ),
}


def pytest_says(*arguments):
    command = [sys.executable, "-m", "pytest", *QUIET, *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def notebook(sources, said):
    """A notebook of these cells, the last of which has printed this."""
    cells = [new_code_cell(source, execution_count=1) for source in sources]
    cells[-1].outputs = [nbformat.v4.new_output("stream", text=said)]
    return new_notebook(cells=cells)


@pytest.fixture(scope="module")
def nbval_says(tmp_path_factory):
    """What a run of nbval on the device says of these notebooks."""
    folder = tmp_path_factory.mktemp("tried")
    for name, (sources, said, _) in TRIED.items():
        nbformat.write(notebook(sources, said), folder / f"{name}.ipynb")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FOLDER))
        patch.setenv("COLUMNS", "200")
        return pytest_says("--nbval", "--nbval-current-env", *PLUGINS, folder).stdout


@pytest.mark.parametrize("name", TRIED)
def test_a_notebook_fails_where_it_should(nbval_says, name):
    failed = re.findall(
        rf"^FAILED .*{name}\.ipynb::(Cell \d|the device was used)", nbval_says, re.M
    )
    assert set(failed) == set(TRIED[name][2])
    assert "4 failed, 16 passed" in nbval_says


def test_it_says_why(nbval_says):
    assert "Expected all tensors to be on the same device" in nbval_says
    assert "notebook: nothing ran on the device, and unused.yml" in nbval_says


def test_the_device_refuses_and_computes_what_it_should():
    said = pytest_says(Path(__file__).with_name("on_the_device.py"))
    assert re.search(r"^\d\d passed in", said.stdout, re.M) and said.returncode == 0, said.stdout


MEASURES = [new_code_cell(START, id="a"), new_code_cell("judge(theorem, measure, [4])", id="b")]
MEASURES += [new_code_cell("x = 1", id="c")]


@pytest.mark.parametrize(
    "counts, reasons, said",
    [
        ([3, 5, 0], {}, []),
        ([3, 0, 5], {}, ["b: nothing ran"]),
        ([3, 0, 5], {"b": "it is about integers"}, []),
        ([3, 0, 0], {"b": "it is about integers"}, ["notebook: nothing ran"]),
        ([3, 5, 0], {"b": "it is about integers"}, ["b: unused.yml gives a reason"]),
        ([3, 5, 0], {"z": "there is no such cell"}, ["z: unused.yml gives a reason"]),
    ],
)
def test_what_is_idle_needs_a_reason_and_a_reason_needs_what_is_idle(counts, reasons, said):
    found = complaints(MEASURES, counts, reasons)
    assert len(found) == len(said) and all(f.startswith(s) for f, s in zip(found, said))


@pytest.mark.parametrize("name", REASONS)
def test_a_reason_is_about_a_cell_that_exists(name):
    cells = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4).cells
    assert REASONS[name].keys() <= {"notebook", *(cell.id for cell in cells)}
    assert all(len(reason.split()) >= 3 for reason in REASONS[name].values())
