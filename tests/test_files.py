"""A broken notebook or a full disk is reported in a sentence, and no file is half-written."""

import errno
import os

import nbformat
import pytest
from small_notebooks import written

from tools import execute_notebooks, files
from tools.__main__ import main


@pytest.mark.parametrize("broken", ["{", "\n<<<<<<< HEAD\n"])
def test_a_broken_notebook_is_named(tmp_path, capsys, broken):
    path = tmp_path / "03.ipynb"
    path.write_text(written(path, "1").replace("\n", broken, 1), encoding="utf-8")
    assert main("execute-notebooks", str(path)) == 1
    assert f"{path} is no notebook: no JSON from line " in capsys.readouterr().err


def test_a_full_disk_leaves_the_notebook_as_it_was(tmp_path, monkeypatch, capsys):
    def half_of_it(path, content):
        with open(path, "wb") as file:
            file.write(content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    path = tmp_path / "03.ipynb"
    before = written(path, "print(1)")
    monkeypatch.setattr(files.Path, "write_bytes", half_of_it)
    printed = nbformat.v4.new_output("stream", text="1\n")
    run = lambda found, *_: found.cells[0].outputs.append(printed)
    monkeypatch.setattr(execute_notebooks, "run", run)
    assert main("execute-notebooks", str(path)) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert path.read_text(encoding="utf-8") == before and os.listdir(tmp_path) == ["03.ipynb"]
