"""What the tests of the course share: the assignments written out, a small one, the browser."""

from types import SimpleNamespace

import assignments
import nbformat
import pytest
from browser import browser  # noqa: F401
from submissions import graded, small_source


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    """All assignments, written out: ``path(version, part)`` and ``read(version, part)``."""
    folder = tmp_path_factory.mktemp("course")
    assignments.write_assignments(folder)
    path = lambda version, part: folder / version / f"{part}.ipynb"
    read = lambda version, part: nbformat.read(path(version, part), as_version=4)
    return SimpleNamespace(path=path, read=read)


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A small assignment: the path of its source, and the versions that are handed out."""
    path = tmp_path_factory.mktemp("small") / "small.ipynb"
    made = assignments.versions(path.name, small_source())
    path.write_text(made["source"], encoding="utf-8")
    student, solution = (nbformat.reads(made[v], as_version=4) for v in ("student", "solution"))
    return SimpleNamespace(path=path, student=student, solution=solution)


@pytest.fixture
def hand_in(small, tmp_path):
    """Grades a notebook as an answer to the small assignment."""
    return lambda notebook, **options: graded(notebook, tmp_path, small.path, **options)
