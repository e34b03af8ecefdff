"""Ctrl-C, or worse, in the middle of `make`: nothing is half-written, and the next run is right."""

import shutil
import signal
import sys

import pytest

linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked up in /proc")
pytestmark = linux
#: Sphinx warns of it when it reads the page, and not when it writes it.
UNEVEN = "# One\n\n### Two levels below\n"


@pytest.mark.parametrize(
    "by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda s: s.name
)
@pytest.mark.parametrize("moment", ["reading", "writing"])
def test_a_book_that_is_interrupted_is_built_anew_and_strictly(checkout, moment, by):
    checkout.write("book/one.md", UNEVEN)
    checkout.interrupted(moment, "book", by=by)
    assert checkout.is_quiet()
    if by != signal.SIGKILL:
        assert not (checkout.folder / "_build" / "html").exists()
    status, said = checkout.make("book")  # the warning is not forgotten with the build that gave it
    assert status != 0 and "Non-consecutive header level" in said
    assert not (checkout.folder / "_build" / "html").exists()
    checkout.git("checkout", "book/one.md")
    status, said = checkout.make("book")
    assert status == 0 and checkout.is_whole(), said
    assert checkout.git("status", "--porcelain") == ""


@pytest.mark.parametrize("moment", ["a cell", "a test"])
def test_tests_that_are_interrupted_end_there_and_leave_nothing(checkout, moment):
    said = checkout.interrupted(moment, "test")
    assert said.count("test session starts") == ["a cell", "a test"].index(moment) + 1
    assert checkout.is_quiet()
    assert checkout.git("status", "--porcelain") == ""
    assert "Traceback" not in said


def test_a_suite_that_is_killed_leaves_no_kernel(checkout):
    checkout.interrupted("a cell", "test", by=signal.SIGKILL)
    assert checkout.is_quiet()
    assert checkout.git("status", "--porcelain") == ""
    status, said = checkout.make("test")
    assert status == 0, said


def test_notebooks_that_are_interrupted_are_as_they_were(checkout):
    said = checkout.interrupted("a cell", "notebooks")
    assert checkout.is_quiet()
    assert checkout.git("status", "--porcelain") == ""
    assert "Traceback" not in said and "Stopped; nothing is half-written." in said


def test_an_environment_that_was_not_finished_is_made_anew(checkout):
    """As after Ctrl-C in the first `make`."""
    (checkout.folder / ".venv").unlink()
    (checkout.folder / ".venv" / "bin").mkdir(parents=True)
    status, said = checkout.make(".venv/bin/python")
    assert status == 0, said
    assert (checkout.folder / ".venv" / "bin" / "pip").exists()
    shutil.rmtree(checkout.folder / ".venv")
