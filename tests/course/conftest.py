"""Fixtures that the tests of the course share: the written assignments, and the browser."""

from types import SimpleNamespace

import nbformat
import pytest
from browser import address, browser, visit  # noqa: F401

from tools.course import assignments


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    """Write all assignments; ``path`` and ``read`` take the version and part of an assignment."""
    folder = tmp_path_factory.mktemp("course")
    assignments.write_assignments(folder)
    path = lambda version, part: folder / version / f"{part}.ipynb"
    read = lambda version, part: nbformat.read(path(version, part), as_version=4)
    return SimpleNamespace(path=path, read=read)
