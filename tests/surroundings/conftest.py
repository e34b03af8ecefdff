"""A small checkout that may be interrupted, filled up and taken away: two pages, one notebook."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest
import yaml
from execute_notebooks import KERNEL, LANGUAGE

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.ipynb", "test_*.py", "teaching")
#: Stops where a test wants it to: `WAIT_IN` names the moment, a file says that it has come, and
#: lets go when it is taken away.
WAITING = """
import os, pathlib, time

def wait_in(moment):
    here = pathlib.Path(os.environ.get("HERE", "nowhere"))
    if os.environ.get("WAIT_IN") == moment:
        here.touch()
        for _ in range(600):
            if not here.exists():
                break
            time.sleep(0.1)

def setup(app):
    app.connect("source-read", lambda *_: wait_in("reading"))
    app.connect("html-page-context", lambda *_: wait_in("writing"))
"""
TEST = f"{WAITING}\ndef test_waits():\n    wait_in('a test')\n"
#: What a process of ours is told by who started it, and a user's own would not be.
NOT_PASSED_ON = ("PYTEST_", "MAKE", "MFLAGS", "PYTHONPATH", "IPYTHONDIR", "MPLBACKEND")


def minds_ctrl_c():
    """As in a terminal: what a script starts in the background would ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Checkout:
    """A folder under git with the Makefile and the tools of this one."""

    def __init__(self, folder):
        self.folder = folder
        self.moment = folder.parent / "the-moment"
        for name in ("book", "tools", "tests", "notebooks/derivation"):
            shutil.copytree(ROOT / name, folder / name, ignore=LEFT_OUT)
        for name in ("Makefile", "requirements.txt", "constraints.txt", "pytest.ini", ".gitignore"):
            shutil.copy2(ROOT / name, folder)
        (folder / ".venv").symlink_to(Path(sys.executable).parent.parent)
        config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
        config["sphinx"]["local_extensions"]["waiting"] = "book/extensions"
        config["sphinx"]["config"]["extensions"].append("waiting")
        self.write("_config.yml", yaml.safe_dump(config))
        self.write("book/extensions/waiting.py", WAITING)
        self.write(
            "_toc.yml", "format: jb-book\nroot: book/one\nchapters:\n- file: notebooks/two\n"
        )
        self.write("book/one.md", "# One\n\nThe first page.\n")
        self.notebook("two", WAITING + "\nwait_in('a cell')\nprint(6 * 7)", "42\n")
        self.write("tests/test_waits.py", TEST)
        self.git("init", "--quiet")
        (folder / ".git" / "info" / "exclude").write_text(".venv\n")
        self.git("add", "--all")
        self.git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "--quiet", "--message=A")

    def write(self, name, text):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text, encoding="utf-8")

    def notebook(self, name, source, printed):
        output = nbformat.v4.new_output("stream", text=printed)
        code = nbformat.v4.new_code_cell(source, id="a", execution_count=1, outputs=[output])
        title = nbformat.v4.new_markdown_cell("# Two", id="t")
        metadata = {"kernelspec": KERNEL, "language_info": LANGUAGE}
        made = nbformat.v4.new_notebook(cells=[title, code], metadata=metadata)
        self.write(f"notebooks/{name}.ipynb", nbformat.writes(made).rstrip("\n") + "\n")

    def git(self, *words):
        return subprocess.check_output(["git", *words], cwd=self.folder, text=True)

    def start(self, *command, wait_in=""):
        """A command that runs in this folder, in a process group of its own."""
        mine = {k: v for k, v in os.environ.items() if not k.startswith(NOT_PASSED_ON)}
        environment = {**mine, "WAIT_IN": wait_in, "HERE": str(self.moment), "OMP_NUM_THREADS": "1"}
        self.moment.unlink(missing_ok=True)
        return subprocess.Popen(
            command, cwd=self.folder, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=minds_ctrl_c,
        )  # fmt: skip

    def make(self, *words):
        """(exit status, what was said) of `make` with these words."""
        run = self.start("make", *words)
        said = run.communicate(timeout=300)[0]
        return run.returncode, said

    def at(self, moment, *words):
        """`make` with these words, started, when it has come to that moment."""
        run = self.start("make", *words, wait_in=moment)
        end = time.monotonic() + 120
        while not self.moment.exists():
            assert run.poll() is None and time.monotonic() < end, run.communicate()[0]
            time.sleep(0.1)
        return run

    def interrupted(self, moment, *words, by=signal.SIGINT):
        """What `make` said, interrupted at that moment as by Ctrl-C: all of its processes."""
        run = self.at(moment, *words)
        os.killpg(run.pid, by)
        said = run.communicate(timeout=60)[0]
        assert run.returncode != 0
        return said

    def processes(self):
        """{its number: its command} for each process that was started for this folder."""
        found, mark = {}, f"HERE={self.moment}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    command = (process / "cmdline").read_bytes().replace(b"\0", b" ")
                    found[int(process.name)] = command.decode()
            except OSError:  # it has ended, or is another's
                continue
        return found

    def is_quiet(self, seconds=10):
        """Whether every process that was started for this folder ends within this time."""
        end = time.monotonic() + seconds
        while self.processes() and time.monotonic() < end:
            time.sleep(0.2)
        return not self.processes()

    def is_whole(self):
        """Whether the built book holds both pages, to their end."""
        pages = [
            self.folder / "_build" / "html" / f"{p}.html" for p in ("book/one", "notebooks/two")
        ]
        return all(p.exists() and "</html>" in p.read_text(encoding="utf-8") for p in pages)


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "checkout").mkdir()
    checkout = Checkout(tmp_path / "checkout")
    yield checkout
    for number in checkout.processes():  # of a test that failed
        os.kill(number, signal.SIGKILL)
