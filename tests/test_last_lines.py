"""What failed early is said again at the end; a green run ends with one line of numbers."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).resolve().parent.parent
GREEN = "def test_of_a_kind():\n    assert True\n"
RED = """import pytest
def test_of_two():
    assert 1 + 1 == 3, "so it is not"
def test_left_out():
    pytest.skip("not here")
@pytest.fixture
def broken():
    raise OSError("no disk")
def test_with(broken):
    pass
"""


def pytest_run(folder, *options):
    """pytest on a folder, as the recipe runs it; its exit status and its outcome's path."""
    outcome = folder / "outcomes" / f"{folder.name}.json"
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    command += ["-p", "tests.last_lines", f"--rootdir={folder}", f"-c{folder / 'pytest.ini'}"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    clean |= {"OUTCOME": str(outcome), "FORK": "0", "IPYTHONDIR": str(folder / "ipython")}
    run = subprocess.run([*command, folder], cwd=ROOT, env=clean, capture_output=True, check=False)
    return run.returncode, outcome


def last_lines(*outcomes):
    run = subprocess.run(
        [sys.executable, ROOT / "tests" / "last_lines.py", *outcomes],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.stderr == ""
    return run.returncode, run.stdout.splitlines()


def samples(tmp_path, **texts):
    for name, text in texts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / f"test_{name}.py").write_text(text)
    return [tmp_path / name for name in texts]


def test_a_failure_in_the_first_run_stands_in_the_last_lines(tmp_path):
    red, green = samples(tmp_path, red=RED, green=GREEN)
    (first, one), (second, two) = pytest_run(red, "-n1"), pytest_run(green)
    assert (first, second) == (1, 0)
    status, said = last_lines(one, two)
    assert status == 1 and said[0] == ""
    assert sorted(said[1:-1]) == [
        "FAILED test_red.py::test_of_two - AssertionError: so it is not",
        "FAILED test_red.py::test_with - OSError: no disk",
    ]
    assert said[-1] == "1 tests passed, 2 failed, 1 skipped."


def test_green_runs_end_with_one_line(tmp_path):
    runs = [pytest_run(folder) for folder in samples(tmp_path, one=GREEN, two=GREEN)]
    status, said = last_lines(*(outcome for _, outcome in runs))
    assert (status, said) == (0, ["", "2 tests passed, 0 failed, 0 skipped."])


def test_a_cell_is_named_with_what_it_raised(tmp_path):
    sources = ["x = 1", "1 + 1", "assert x == 2, 'x is one'\nx"]
    cells = [nbformat.v4.new_code_cell(each, execution_count=1) for each in sources]
    for number, cell in enumerate(cells):
        cell.id = str(number)
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "some.ipynb")
    status, outcome = pytest_run(tmp_path, "-n1", "--nbval", "--nbval-current-env")
    assert status == 1
    assert last_lines(outcome)[1][1:] == [
        "FAILED some.ipynb::Cell 1 - Cell outputs differ",
        "FAILED some.ipynb::Cell 2 - AssertionError: x is one",
        "1 cells of notebooks passed, 2 failed, 0 skipped.",
    ]


def test_a_run_that_ended_early_has_failed(tmp_path):
    cut, wrong = samples(
        tmp_path,
        cut="def test_it():\n    raise KeyboardInterrupt\n",
        wrong="import no_such_module\n",
    )
    (interrupted, one), (uncollected, two) = pytest_run(cut), pytest_run(wrong)
    assert interrupted == uncollected == 2
    status, said = last_lines(one, two, tmp_path / "never.json")
    assert status == 1
    assert said[1:] == [
        "FAILED cut: the run stopped early (status 2 of pytest)",
        "FAILED test_wrong.py - ModuleNotFoundError: No module named 'no_such_module'",
        "FAILED wrong: the run stopped early (status 2 of pytest)",
        "FAILED never: the run ended before its last test",
        "nothing passed, 1 failed, 0 skipped.",
    ]
