"""A file that is no notebook, a full disk: a sentence each, and nothing half-written."""

import errno
import os
import re

import colab
import execute_notebooks
import files
import nbformat
import ready
from small_notebooks import written

BROKEN = {
    r"no JSON from line \d+ on": lambda text: text[: len(text) // 2],
    r"line \d+ is a git conflict": lambda text: text.replace("\n", "\n<<<<<<< HEAD\n"),
    "it is JSON without cells": lambda text: "{}",
}


def test_what_is_no_notebook_or_cannot_be_written_is_named(tmp_path, monkeypatch, capsys):
    (tmp_path / "notebooks").mkdir()
    path = tmp_path / "notebooks" / "03.ipynb"
    monkeypatch.setattr(colab, "NOTEBOOKS", path.parent)
    for expected, broken in BROKEN.items():
        path.write_text(broken(written(path, "1")), encoding="utf-8")
        for main, argument in (
            (ready.main, tmp_path),  # before `make test` and `make book`
            (execute_notebooks.main, [str(path)]),
            (colab.main, [str(tmp_path / "copies")]),
        ):
            assert main(argument) == 1
            said = capsys.readouterr().err
            assert re.fullmatch(rf".*03\.ipynb is no notebook: {expected}.*\.\n", said), said
    monkeypatch.setattr(ready.os, "access", lambda *_: False)
    assert ready.main(tmp_path) == 1
    assert capsys.readouterr().err.startswith(f"{tmp_path} cannot be written, and `make` keeps")


def half_of_it(path, content):
    """A disk that takes half of what it is given."""
    with open(path, "wb") as file:
        file.write(content[: len(content) // 2])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def test_a_full_disk_leaves_the_notebook_as_it_was(tmp_path, monkeypatch, capsys):
    path = tmp_path / "03.ipynb"
    before = written(path, "print(1)")
    monkeypatch.setattr(files.Path, "write_bytes", half_of_it)
    printed = nbformat.v4.new_output("stream", text="1\n")
    run = lambda found, *_, **__: found.cells[0].outputs.append(printed)
    monkeypatch.setattr(execute_notebooks, "run", run)
    assert execute_notebooks.main([str(path)]) == 1
    assert "cannot be written: no space left on device.\n" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == before and os.listdir(tmp_path) == ["03.ipynb"]
