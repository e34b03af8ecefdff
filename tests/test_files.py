"""A file that is no notebook, a full disk: a sentence each, and nothing half-written."""

import errno
import os
import re

import colab
import execute_notebooks
import files
import nbformat
import pytest
import ready
from small_notebooks import written

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

BROKEN = {
    "it is empty": lambda text: "",
    r"it is not JSON from line \d+ on": lambda text: text[: len(text) // 2],
    r"line \d+ is the mark of a git conflict": lambda text: text.replace("\n", "\n<<<<<<< HEAD\n"),
    "it is JSON without cells": lambda text: "{}",
    "it is not text in UTF-8": lambda text: "\udcff",
}


@pytest.mark.parametrize("expected", BROKEN)
def test_a_file_that_is_no_notebook_is_named_in_a_sentence(tmp_path, monkeypatch, capsys, expected):
    (tmp_path / "notebooks").mkdir()
    path = tmp_path / "notebooks" / "03.ipynb"
    spoilt = BROKEN[expected](written(path, "1"))
    path.write_text(spoilt, encoding="utf-8", errors="surrogateescape")
    monkeypatch.setattr(colab, "NOTEBOOKS", path.parent)
    monkeypatch.chdir(tmp_path)
    for main, argument in (
        (ready.main, tmp_path),  # before `make test` and `make book`
        (execute_notebooks.main, ["notebooks/03.ipynb"]),
        (colab.main, [str(tmp_path / "copies")]),
    ):
        assert main(argument) == 1
        said = capsys.readouterr().err
        assert re.fullmatch(rf"notebooks/03\.ipynb is no notebook: {expected}.*\.\n", said), said


def half_of_it(path, text, **_):
    """A disk that takes half of what it is given."""
    path.write_bytes(text.encode()[: len(text) // 2])
    raise FULL


def test_a_full_disk_leaves_the_notebook_as_it_was(tmp_path, monkeypatch, capsys):
    path = tmp_path / "03.ipynb"
    before = written(path, "print(1)")
    monkeypatch.setattr(files.Path, "write_text", half_of_it)
    printed = nbformat.v4.new_output("stream", text="1\n")
    run = lambda found, *_, **__: found.cells[0].outputs.append(printed)
    monkeypatch.setattr(execute_notebooks, "run", run)
    assert execute_notebooks.main([str(path)]) == 1
    assert capsys.readouterr().err == (
        f"{path} cannot be written: no space left on device; what was there is unchanged.\n"
    )
    assert path.read_text(encoding="utf-8") == before and os.listdir(tmp_path) == ["03.ipynb"]


def raising(code):
    @files.in_a_sentence
    def main():
        raise OSError(code, os.strerror(code), "/some/where")

    return main


def test_what_the_system_refuses_is_named_and_a_mistake_keeps_its_traceback(capsys):
    assert raising(errno.EROFS)() == 1
    assert capsys.readouterr().err == "/some/where cannot be written: read-only file system.\n"
    with pytest.raises(FileNotFoundError):
        raising(errno.ENOENT)()


def test_a_link_leads_to_the_file_that_is_written(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    files.write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


def test_a_checkout_that_cannot_be_written_is_named_once(tmp_path, monkeypatch, capsys):
    (tmp_path / "_build").mkdir()
    monkeypatch.setattr(ready.os, "access", lambda *_: False)
    assert ready.main(tmp_path) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"{tmp_path} cannot be written, and `make` keeps its work there: copy")
    assert said.count("\n") == 1
