"""What the tests of the course share: the assignments written out, and a small one."""

from types import SimpleNamespace

import assignments
import nbformat
import pytest
from submissions import grade_notebook, small_source, write_versions


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A small assignment: its folder, its three versions, and a way to hand something in."""
    folder = tmp_path_factory.mktemp("small")
    nbformat.write(small_source(), folder / "small.ipynb")
    paths = write_versions(folder / "small.ipynb", folder)
    read = {name: nbformat.read(path, as_version=4) for name, path in paths.items()}
    return SimpleNamespace(folder=folder / "source", paths=paths, **read)


@pytest.fixture
def hand_in(small, tmp_path):
    """Grades a notebook as an answer to the small assignment."""

    def hand_in(notebook, *options, **variables):
        return grade_notebook(notebook, tmp_path, small.folder, *options, **variables)

    return hand_in


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    """All assignments, written out: their folder, and ``read(version, part)``."""
    folder = tmp_path_factory.mktemp("course")
    assert assignments.main([str(folder)]) == 0, "the assignments could not be written"
    read = lambda version, part: nbformat.read(folder / version / f"{part}.ipynb", as_version=4)
    return SimpleNamespace(folder=folder, read=read)
