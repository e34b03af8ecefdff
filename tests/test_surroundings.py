"""Faults of the surroundings, in little: each gets one sentence, and nothing is half-written.

What has to be interrupted, filled up or made read-only for this stands in tests/surroundings.
"""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import alone
import build_book
import colab
import course
import derivation.checks
import execute_notebooks
import files
import nbformat
import pytest
import ready
import torch
from derivation import Derivation, matrix, sizes, versions
from jupyter_client.provisioning import KernelProvisionerFactory
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from redundancy import jacobian, nullity

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


# ---- a kernel that dies, a file that is no notebook -----------------------------------

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


# ---- a disk that is full, a folder that cannot be written -----------------------------


def half_of_it(path, text, **_):
    """A disk that takes half of what it is given."""
    with open(path, "wb") as file:
        file.write(text.encode()[: len(text) // 2])
    raise FULL


@pytest.fixture
def full_disk(monkeypatch):
    monkeypatch.setattr(files.Path, "write_text", half_of_it)


def test_a_full_disk_leaves_the_notebook_as_it_was(tmp_path, monkeypatch, capsys, full_disk):
    path = tmp_path / "03.ipynb"
    monkeypatch.undo()
    before = notebook(path, "print(1)")
    monkeypatch.setattr(files.Path, "write_text", half_of_it)
    printed = nbformat.v4.new_output("stream", text="1\n")
    monkeypatch.setattr(
        execute_notebooks, "execute", lambda found, folder: found.cells[0].outputs.append(printed)
    )
    assert execute_notebooks.main([str(path)]) == 1
    said = capsys.readouterr().err
    assert (
        said == f"{path} cannot be written: no space left on device; what was there is unchanged.\n"
    )
    assert path.read_text(encoding="utf-8") == before and os.listdir(tmp_path) == ["03.ipynb"]


def test_a_full_disk_leaves_no_half_of_a_copy_or_an_archive(
    tmp_path, monkeypatch, capsys, full_disk
):
    assert colab.main([str(tmp_path / "copies")]) == 1
    assert os.listdir(tmp_path / "copies") == []
    course.write_zip(tmp_path / "student.zip", "student", {"a": b"old"})
    monkeypatch.setattr(zipfile.ZipFile, "writestr", raising(FULL))
    with pytest.raises(files.Fault, match=r"student\.zip cannot be written: no space left"):
        course.write_zip(tmp_path / "student.zip", "student", {"a": b"new"})
    assert sorted(os.listdir(tmp_path)) == ["copies", "student.zip"]
    monkeypatch.undo()
    with zipfile.ZipFile(tmp_path / "student.zip") as archive:
        assert archive.read("student/a") == b"old"
    assert capsys.readouterr().err.count("\n") == 1


def test_a_limit_of_the_system_is_one_sentence_too(tmp_path):
    limited = (
        "import resource, runpy, sys; sys.path.insert(0, 'tools'); sys.argv[0] = 'tools/colab.py'\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, resource.RLIM_INFINITY))\n"
        "runpy.run_path('tools/colab.py', run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-c", limited, str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert re.fullmatch(r"\S+\.ipynb cannot be written: file too large; .*\.\n", done.stderr)
    for path in tmp_path.iterdir():  # those that came before it; no draft
        assert path.suffix == ".ipynb" and json.loads(path.read_text(encoding="utf-8"))


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


# ---- two at once, and a build that does not come to its end ---------------------------


def test_the_second_waits_and_a_lock_dies_with_its_holder(tmp_path):
    here = "import sys; sys.path.insert(0, 'tools'); import alone, pathlib\n"
    here += f"with alone.alone('build', pathlib.Path({str(tmp_path)!r})):\n    print('in', flush=True)\n"
    command = [sys.executable, "-c"]
    pipes = {"cwd": ROOT, "stdout": subprocess.PIPE, "text": True}
    holder = subprocess.Popen([*command, here + "    import time; time.sleep(60)"], **pipes)
    assert holder.stdout.readline() == "in\n"
    second = subprocess.Popen([*command, here], **pipes)
    waiting = second.stdout.readline()
    assert waiting == "Another build is under way in this checkout: waiting for it.\n"
    holder.send_signal(signal.SIGKILL)
    assert second.communicate(timeout=30)[0] == "in\n"
    assert holder.wait() == -signal.SIGKILL
    holder.stdout.close()


def test_a_command_gives_its_own_status(tmp_path, monkeypatch):
    monkeypatch.setattr(alone, "BUILD", tmp_path)
    assert alone.main("a test", sys.executable, "-c", "raise SystemExit(3)") == 3


@pytest.fixture
def sphinx(tmp_path, monkeypatch):
    """A Sphinx that writes a page, and ends as its test says; beside it, what else was built."""
    for module in (alone, build_book):
        monkeypatch.setattr(module, "BUILD", tmp_path)
    monkeypatch.setattr(build_book, "UNFINISHED", tmp_path / ".unfinished")
    monkeypatch.setattr(build_book.live_assets, "main", lambda: None)
    (tmp_path / "book.pdf").touch()
    (tmp_path / ".doctrees").mkdir()

    def ending(how):
        def run(*_, **__):
            (tmp_path / "html").mkdir()
            (tmp_path / "html" / "index.html").touch()
            return SimpleNamespace(returncode=how()) if callable(how) else how

        monkeypatch.setattr(build_book.subprocess, "run", run)
        return tmp_path

    return ending


def test_a_build_that_fails_forgets_what_it_read_and_nothing_else(sphinx):
    folder = sphinx(lambda: 1)
    assert build_book.main() == 1
    assert sorted(p.name for p in folder.iterdir() if p.suffix != ".lock") == ["book.pdf"]


def test_a_build_that_is_interrupted_does_too(sphinx):
    folder = sphinx(raising(KeyboardInterrupt()))
    assert build_book.main() == 130
    assert sorted(p.name for p in folder.iterdir() if p.suffix != ".lock") == ["book.pdf"]


def test_a_build_that_was_killed_is_forgotten_by_the_next(sphinx):
    folder = sphinx(lambda: 0)
    (folder / ".unfinished").touch()
    (folder / ".doctrees" / "from the one that was killed").touch()
    assert build_book.main() == 0
    assert not (folder / ".doctrees").exists() and not (folder / ".unfinished").exists()
    assert (folder / "html" / "index.html").exists()


def test_a_build_that_is_whole_keeps_what_it_read(sphinx):
    folder = sphinx(lambda: 0)
    assert build_book.main() == 0
    assert (folder / ".doctrees").exists() and not (folder / ".unfinished").exists()


def test_a_build_that_filled_the_disk_says_so(sphinx, monkeypatch, capsys):
    sphinx(lambda: 1)
    left = SimpleNamespace(free=300_000)
    monkeypatch.setattr(build_book.shutil, "disk_usage", lambda _: left)
    assert build_book.main() == 1
    assert "Only 0.3 MB are left on the disk of" in capsys.readouterr().out


# ---- another SymPy, another torch, or none --------------------------------------------

SAID = {
    ("sympy", "1.12.1"): "SymPy 1.12.1 is too old for this book, which needs 1.13 or newer",
    (
        "torch",
        "2.5.1+cpu",
    ): r"torch 2\.5\.1\+cpu is too old for this book, which needs 2.6 or newer",
    ("torch", "1.13.1"): "torch 1.13.1 is too old",
}
UNTRIED = [("sympy", "1.15.0"), ("sympy", "2.0"), ("torch", "2.14.0a0+git1"), ("torch", "2.6.0")]
KNOWN = [("sympy", "1.13.3"), ("sympy", "1.14.0"), ("torch", "2.13.0+cu130"), ("torch", "2.13.1")]


@pytest.mark.parametrize("name, version", SAID)
def test_too_old_is_refused_in_a_sentence(monkeypatch, name, version):
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(__version__=version))
    with pytest.raises(versions.Unsuitable, match=SAID[name, version]) as refused:
        versions.require(name)
    assert f"pip install --upgrade {name}" in str(refused.value)


@pytest.mark.parametrize("name, shown", versions.SHOWN.items())
def test_missing_is_refused_in_a_sentence(monkeypatch, name, shown):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        versions.Unsuitable, match=f"{shown} is not installed here; this book needs"
    ):
        versions.require(name)


@pytest.mark.parametrize("name, version", UNTRIED)
def test_what_is_untried_is_named_and_taken(monkeypatch, capsys, name, version):
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(__version__=version))
    monkeypatch.setenv(versions.VARIABLE, "quiet")
    versions.require(name)
    assert capsys.readouterr() == ("", "")
    monkeypatch.delenv(versions.VARIABLE)
    versions.require(name)
    out, err = capsys.readouterr()
    assert out == "" and version in err and "It goes on" in err and err.count("\n") == 1


@pytest.mark.parametrize("name, version", KNOWN)
def test_what_is_known_is_silent(monkeypatch, capsys, name, version):
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(__version__=version))
    monkeypatch.delenv(versions.VARIABLE, raising=False)
    versions.require(name)
    assert capsys.readouterr() == ("", "")


def test_what_is_pinned_and_what_is_tested_has_been_tried():
    pins = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    tested = (ROOT / "tests" / "versions" / "test_versions.py").read_text(encoding="utf-8")
    found = re.findall(r"^(sympy|torch)==(\d+)\.(\d+)", pins, re.M)
    found += [("sympy", *pair) for pair in re.findall(r'\("3\.\d+", "(\d+)\.(\d+)', tested)]
    assert found
    for name, *version in found:
        assert tuple(map(int, version)) in versions.TRIED[name], (name, version)


def first_cells(tmp_path, stubs):
    """What a copy for Colab says in its first two cells beside these modules, by their source."""
    for name, source in stubs.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(source, encoding="utf-8")
    copy = nbformat.reads(colab.colab_copy(colab.NOTEBOOKS / "00-exercises.ipynb"), as_version=4)
    copy.cells = [cell for cell in copy.cells if cell.cell_type == "code"][:2]
    resources = {"metadata": {"path": str(tmp_path)}}
    client = NotebookClient(
        copy, timeout=60, config=execute_notebooks.own_sockets(), resources=resources
    )
    # What starts in a kernel by itself, or a fork that has torch, would hide the stubs.
    dropped = (versions.VARIABLE, "PYTHONPATH", "PYTHONSTARTUP")
    hidden = {k: v for k, v in os.environ.items() if k not in dropped}
    factory = KernelProvisionerFactory.instance()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factory, "default_provisioner_name", "local-provisioner")
        with client.setup_kernel(env=hidden), pytest.raises(CellExecutionError):
            for number, cell in enumerate(copy.cells):
                client.execute_cell(cell, number)
    assert copy.cells[0].outputs == []
    return copy.cells[1].outputs[-1]


OLD_SYMPY = {"sympy": "__version__ = '1.12'", "torch": "__version__ = '2.13.0'\nnn = None"}
OLD_TORCH = {"torch": "__version__ = '2.1.0'\nnn = None"}


@pytest.mark.parametrize("stubs, name", [(OLD_SYMPY, "SymPy 1.12"), (OLD_TORCH, "torch 2.1.0")])
def test_the_first_cell_of_a_copy_says_so_without_a_traceback(tmp_path, stubs, name):
    said = first_cells(tmp_path, stubs)
    assert said.ename == "Unsuitable" and said.traceback == [said.evalue]
    assert said.evalue.startswith(f"{name} is too old for this book")


# ---- a device without memory. None of this has run on one: its errors are raised by hand --

OUT = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.\nMore")


def test_a_check_without_room_says_what_to_do():
    n = sizes("n")
    twice = matrix("A", n) + matrix("A", n)
    theorem = Derivation("Doubling", twice).by(2 * matrix("A", n)).qed("Theorem 9.9")
    for check, what in ((derivation.checks.judge, theorem), (derivation.checks.control, "a claim")):
        with pytest.raises(derivation.checks.NoRoom, match="out of memory in float64") as refused:
            check(what, raising(OUT), sums=(4,))
        assert 'start(seed=0, device="cpu")' in str(refused.value)
        assert refused.value._render_traceback_() == [str(refused.value)]


def test_a_jacobian_without_room_takes_fewer_rows_at_a_time(monkeypatch, capsys):
    layer = torch.nn.Linear(4, 5, dtype=torch.float64)
    draw = lambda seed: (torch.randn(6, 4, generator=torch.Generator().manual_seed(seed)).double(),)
    expected = jacobian(layer, draw).nullity()
    real, most = nullity._rows, []

    def rows(found, pull_back, parameters, start, stop):
        most.append(stop - start)
        if stop - start > 8:
            raise OUT
        return real(found, pull_back, parameters, start, stop)

    monkeypatch.setattr(nullity, "_rows", rows)
    assert jacobian(layer, draw).nullity() == expected
    assert max(most) == 30 and "No room for so many rows at a time: 8 from here on." in (
        capsys.readouterr().err
    )
    monkeypatch.setattr(nullity, "_rows", raising(OUT))
    with pytest.raises(torch.OutOfMemoryError):
        jacobian(layer, draw)
