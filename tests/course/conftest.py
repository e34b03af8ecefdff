"""What the tests of the course share: the assignments written out, and a small one."""

from types import SimpleNamespace

import assignments
import nbformat
import pytest
from submissions import graded, small_source


@pytest.fixture(scope="session")
def small(tmp_path_factory):
    """A small assignment: its folder, and its three versions."""
    folder = tmp_path_factory.mktemp("small")
    nbformat.write(small_source(), folder / "small.ipynb")
    made = assignments.versions(folder / "small.ipynb")
    (folder / "small.ipynb").write_text(made["source"], encoding="utf-8")
    read = {name: nbformat.reads(text, as_version=4) for name, text in made.items()}
    return SimpleNamespace(folder=folder, **read)


@pytest.fixture
def hand_in(small, tmp_path):
    """Grades a notebook as an answer to the small assignment."""
    return lambda notebook, **options: graded(notebook, tmp_path, small.source, **options)


@pytest.fixture(scope="session")
def course(tmp_path_factory):
    """All assignments, written out: their folder, and ``read(version, part)``."""
    folder = tmp_path_factory.mktemp("course")
    assert assignments.main([str(folder)]) == 0, "the assignments could not be written"
    read = lambda version, part: nbformat.read(folder / version / f"{part}.ipynb", as_version=4)
    return SimpleNamespace(folder=folder, read=read)
