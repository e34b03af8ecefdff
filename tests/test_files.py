"""A file that is no notebook, a kernel that dies, a full disk: one sentence each, nothing half-written."""

import errno
import os
import re
import subprocess
import sys
from pathlib import Path

import colab
import execute_notebooks
import files
import nbformat
import pytest
import ready

ROOT = Path(__file__).resolve().parent.parent
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def notebook(path, *sources):
    """A notebook with these cells, which have printed nothing."""
    new = nbformat.v4.new_code_cell
    cells = [new(s, id=str(i), execution_count=i + 1) for i, s in enumerate(sources)]
    text = nbformat.writes(nbformat.v4.new_notebook(cells=cells))
    path.write_text(text, encoding="utf-8")
    return text


def raising(error):
    def fail(*_, **__):
        raise error

    return fail


DEADLY = "x = 6 * 7\nimport os\nos.kill(os.getpid(), 9)"
BROKEN = {
    "empty": (lambda text: "", "it is empty"),
    "half": (lambda text: text[: len(text) // 2], r"it is not JSON from line \d+ on"),
    "conflict": (
        lambda text: text.replace("\n", "\n<<<<<<< HEAD\n", 1),
        r"line \d+ is the mark of a git conflict",
    ),
    "list": (lambda text: "[1, 2]", "it is JSON without cells"),
    "object": (lambda text: "{}", "it is JSON without cells"),
}


@pytest.mark.parametrize("fork", [pytest.param("0", id="plain"), pytest.param("1", id="forked")])
def test_the_suite_names_the_cell_that_killed_its_kernel_and_the_file_that_is_broken(
    tmp_path, fork
):
    good = notebook(tmp_path / "dead.ipynb", "y = 1", DEADLY, "z = 3")
    (tmp_path / "half.ipynb").write_text(good[:99], encoding="utf-8")
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT / 'tools'}\n")
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    suite = [
        sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=120",
        "-p", "tests.forkserver", "-p", "tests.notebook_reports", "-p", "no:cacheprovider", "--color=no", "-rA",
        "--continue-on-collection-errors", f"-c{tmp_path / 'pytest.ini'}", str(tmp_path),
    ]  # fmt: skip
    done = subprocess.run(
        suite, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False,
        env=clean | {"OMP_NUM_THREADS": "1", "IPYTHONDIR": str(tmp_path / "ipython"), "FORK": fork},
    )  # fmt: skip
    assert done.returncode == 1
    assert "Cell 1: the kernel died in dead.ipynb, in “x = 6 * 7”" in done.stdout
    assert re.search(r"^FAILED \S*dead\.ipynb::Cell 1", done.stdout, re.M)
    assert re.search(r"^XFAIL \S*dead\.ipynb::Cell 2", done.stdout, re.M)  # not a second death
    assert "half.ipynb is no notebook: it is not JSON from line" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.parametrize("fault", BROKEN)
def test_a_file_that_is_no_notebook_is_named_in_a_sentence(tmp_path, monkeypatch, capsys, fault):
    spoil, expected = BROKEN[fault]
    (tmp_path / "notebooks").mkdir()
    path = tmp_path / "notebooks" / "03.ipynb"
    path.write_text(spoil(notebook(path, "1")), encoding="utf-8")
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


def test_what_is_no_text_is_no_notebook(tmp_path):
    (tmp_path / "a.ipynb").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(files.Fault, match="it is not text in UTF-8"):
        files.notebook_text(tmp_path / "a.ipynb")


def test_every_notebook_of_the_book_is_one():
    assert [*ready.not_readable(ROOT)] == []


def half_of_it(path, text, **_):
    """A disk that takes half of what it is given."""
    with open(path, "wb") as file:
        file.write(text.encode()[: len(text) // 2])
    raise FULL


def test_a_full_disk_leaves_the_notebook_as_it_was(tmp_path, monkeypatch, capsys):
    path = tmp_path / "03.ipynb"
    before = notebook(path, "print(1)")
    monkeypatch.setattr(files.Path, "write_text", half_of_it)
    printed = nbformat.v4.new_output("stream", text="1\n")
    execute = lambda found, folder: found.cells[0].outputs.append(printed)
    monkeypatch.setattr(execute_notebooks, "execute", execute)
    assert execute_notebooks.main([str(path)]) == 1
    assert capsys.readouterr().err == (
        f"{path} cannot be written: no space left on device; what was there is unchanged.\n"
    )
    assert path.read_text(encoding="utf-8") == before and os.listdir(tmp_path) == ["03.ipynb"]


def test_a_mistake_of_the_program_keeps_its_traceback():
    with pytest.raises(FileNotFoundError):
        files.in_a_sentence(raising(FileNotFoundError(errno.ENOENT, "no such file", "x")))()


def test_a_folder_that_cannot_be_made_is_named(capsys):
    refused = PermissionError(errno.EROFS, os.strerror(errno.EROFS), "/some/where")
    assert files.in_a_sentence(raising(refused))() == 1
    assert capsys.readouterr().err == "/some/where cannot be written: read-only file system.\n"


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
