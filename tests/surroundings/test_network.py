"""No network at all: the notebooks, the tests and the book need none; what does, says so."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from namespaces import OFFLINE, needed

pytestmark = needed
ROOT = Path(__file__).resolve().parents[2]
#: One notebook that needs torch, one that makes models of `transformers`.
NOTEBOOKS = ("02c-masks-and-pytorch-traps", "11x-exercises-on-models")


def offline(checkout, *command):
    process = checkout.start(*OFFLINE, *command)
    said = process.communicate(timeout=300)[0]
    return process.returncode, said


def test_it_is_really_offline(checkout):
    look_up = "import socket; socket.create_connection(('1.1.1.1', 53), timeout=5)"
    status, said = offline(checkout, sys.executable, "-c", look_up)
    assert status == 1 and "unreachable" in said


def test_the_book_and_the_suite(checkout):
    for target in ("book", "test"):
        status, said = offline(checkout, "make", target)
        assert status == 0, said
    assert checkout.is_whole()


def test_two_notebooks_of_the_book(tmp_path):
    shutil.copytree(ROOT / "notebooks", tmp_path / "notebooks")
    suite = [
        sys.executable,
        "-m",
        "pytest",
        "--nbval",
        "--nbval-current-env",
        "-p",
        "no:cacheprovider",
    ]
    suite += [
        "--nbval-cell-timeout=120",
        "-p",
        "tests.notebook_reports",
        f"-c{ROOT / 'pytest.ini'}",
    ]
    paths = [tmp_path / "notebooks" / f"{name}.ipynb" for name in NOTEBOOKS]
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    own = {"IPYTHONDIR": str(tmp_path), "MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    done = subprocess.run(
        [*OFFLINE, *suite, *paths], cwd=ROOT, env=clean | own, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_every_tool_can_be_imported():
    tools = [path.stem for path in sorted((ROOT / "tools").glob("*.py"))]
    done = subprocess.run(
        [*OFFLINE, sys.executable, "-c", f"import {', '.join(tools)}"],
        cwd=ROOT / "tools",
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(ROOT / "notebooks")},
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_an_installation_says_that_it_needs_one(checkout):
    (checkout.folder / ".venv").unlink()
    no_help = ["env", "-u", "PIP_FIND_LINKS", "PIP_CONFIG_FILE=/dev/null", "PIP_RETRIES=0"]
    status, said = offline(checkout, *no_help, "make", "test")
    assert status != 0 and "Traceback" not in said
    *_, sentence, makes_own = said.strip().splitlines()
    assert sentence.startswith("pip could not install what requirements.txt names"), said
    assert "needs a network" in sentence and makes_own.startswith("make: ***")
