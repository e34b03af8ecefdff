"""Runs a notebook with one mistake at a time, and says whether it is noticed.

A notebook notices a mistake when a cell raises, or prints, shows or sets something other than
what is stored, as nbval compares it: every word and formula, no picture.  One process runs the
cells in order; before a cell it forks a child for each mutant of it, which runs the mutated cell
and those after it.  So a mutant costs no more than what comes after its place.

Mutants are made of the cells that hold a proof, a check, or what these use.  Not mutated are

- the first cell, of imports and the seed: there is nothing in it to prove;
- a cell that draws (it calls plt.show): what it says is a picture, and pictures are not compared.

Nothing can be said about the notebooks of a system that cannot fork.
"""

import ast
import contextlib
import json
import math
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from operator import itemgetter
from pathlib import Path

import nbformat
from nbval.plugin import coalesce_streams, transform_streams_for_comparison
from test_notebooks import loose_bounds

from .operators import mutants_of
from .record import KILLED, ROOT, SURVIVED, TIMED_OUT, Tried, digest, place

FOLDER = ROOT / "notebooks"
#: A child may use so many seconds of CPU, as a cell may in the tests, beside so many times what the
#: rest of the notebook uses.
SECONDS, TIMES = 120, 2
#: Pictures, the traces of errors, and what says which output it is.
NOT_COMPARED = ("image/png", "image/jpeg", "traceback", "output_type", "metadata", "name", "data",
                "execution_count")  # fmt: skip
WAIT = 10  # for a child that sleeps, or does not come to its turn: so many times that
MORE_MEMORY = 6 << 30  # bytes that a child may ask for


class NotebookFails(Exception):
    """The notebook as it is does not pass; says which cell, and how."""


@dataclass(frozen=True)
class Cell:
    """A code cell: its id, its text, and what it is to say."""

    id: str
    source: str
    stored: list
    mutated: bool


def cells_of(path):
    """The code cells of a notebook."""
    cells = [c for c in nbformat.read(path, as_version=4).cells if c.cell_type == "code"]
    return [
        Cell(cell.id, cell.source, cell.outputs, number > 0 and not draws(cell.source))
        for number, cell in enumerate(cells)
    ]


def draws(source):
    """Whether a cell ends in a picture."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return any(ast.unparse(call.func) == "plt.show" for call in calls)


def pieces(path):
    """{id of a cell: its text}"""
    return {cell.id: cell.source for cell in cells_of(path)}


def source_of(path):
    """A digest of what is tried: the notebook, and the book's code beside it."""
    code = sorted(FOLDER.rglob("*.py"))
    return digest(*(file.read_text(encoding="utf-8") for file in [path, *code]))


def draw(cells, count, seed):
    """(how many mutants there are, {number of a cell: those that were drawn}).

    Each kind in its turn, so that a rare mistake is tried as often as a frequent one.  The lot of
    a mutant depends on itself alone: an edited cell hardly changes what is drawn elsewhere.
    """
    by_kind = {}
    for number, cell in enumerate(cells):
        for mutant in mutants_of(cell.source) if cell.mutated else ():
            lot = digest(seed, cell.id, mutant.kind, mutant.before, mutant.after)
            by_kind.setdefault(mutant.kind, []).append((lot, number, mutant))
    queues = [sorted(by_kind[kind], key=itemgetter(0, 1))
              for kind in sorted(by_kind, key=partial(digest, seed))]  # fmt: skip
    in_turn = [one for turn in zip_longest(*queues) for one in turn if one]
    drawn = {}
    for _, number, mutant in in_turn[:count]:
        drawn.setdefault(number, []).append(mutant)
    return len(in_turn), drawn


# ---- running cells -----------------------------------------------------------------------------


def new_shell():
    """An IPython without a kernel, which keeps what a cell shows."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import CapturingDisplayPublisher
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Hook(DisplayHook):
        """Keeps the value of a cell's last line, as a kernel would send it."""

        def write_output_prompt(self):
            pass

        def write_format_data(self, format_dict, md_dict=None):
            self.shell.display_pub.outputs.append({"data": format_dict})

        def finish_displayhook(self):
            pass

    class Shell(InteractiveShell):
        def __init__(self, **options):
            self.displayhook_class = Hook
            self.display_pub_class = CapturingDisplayPublisher
            super().__init__(**options)

    # a history would start a thread, and a thread does not survive a fork
    shell = Shell(config=Config(HistoryManager={"enabled": False}))
    InteractiveShell._instance = shell
    return shell


def complaint(shell, cell, source=None):
    """Runs a cell, or another source in its place; how it differs from what is stored, or nothing."""
    from IPython.utils.capture import capture_output

    shell.display_pub.outputs = shown = []
    with capture_output(display=False) as captured:
        result = shell.run_cell(cell.source if source is None else source, store_history=True)
    error = result.error_before_exec or result.error_in_exec
    if error:
        return f"{type(error).__name__}: {error}"
    streams = [
        {"output_type": "stream", "name": name, "text": text}
        for name, text in (("stdout", captured.stdout), ("stderr", captured.stderr))
        if text
    ]
    fresh = [{"output_type": "display_data", "data": one["data"]} for one in shown] + streams
    said, stored = compared(fresh), compared(cell.stored)
    differ = [kind for kind in {**said, **stored} if said.get(kind) != stored.get(kind)]
    return f"other {' and '.join(sorted(differ))}" if differ else ""


def compared(given):
    """What nbval compares of outputs: {kind: what is said in it}."""
    given = [nbformat.from_dict(dict(one)) for one in given]
    said = defaultdict(list)
    for output in transform_streams_for_comparison(coalesce_streams(given)):
        for kind, value in {**output, **output.get("data", {})}.items():
            if kind not in NOT_COMPARED:
                said[kind].append(value)
    return dict(said)


def in_a_child(work, seconds):
    """(fate, words) of what `work` complains about, in a forked child with so much CPU time."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        _be_the_child(work, theirs, seconds)
    os.close(theirs)
    try:
        ready, _, _ = select.select([ours], [], [], WAIT * seconds)
        said = os.read(ours, 1 << 16) if ready else None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # with what it may have started
        _, status, used = os.wait4(child, 0)
        os.close(ours)
    late = used.ru_utime + used.ru_stime > 0.9 * seconds  # the system ended it
    if said is None or (not said and late):
        return TIMED_OUT, f"not done in {seconds:.0f} s"
    words = json.loads(said) if said else f"the process ended with {status}"
    return (KILLED if words else SURVIVED), words


def _be_the_child(work, pipe, seconds):
    """Says on the pipe what `work` complains about, and ends without cleaning up."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    try:
        memory_in_use = (
            int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        )
        resource.setrlimit(resource.RLIMIT_AS, (memory_in_use + MORE_MEMORY,) * 2)
    except (OSError, ValueError):
        pass
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(seconds),) * 2)
    try:
        words = work()
    except BaseException as error:
        words = f"{type(error).__name__}: {error}"
    os.write(pipe, json.dumps(words[:2000]).encode())
    os._exit(0)


def try_notebook(path, count, seed):
    """(the entry of a notebook in the record, what was tried, how each was noticed)."""
    begun = os.times()
    cells = cells_of(path)
    possible, drawn = draw(cells, count, f"{seed}:{path.stem}")
    with tempfile.TemporaryDirectory() as folder:
        there = Path(folder, "notebooks")
        shutil.copytree(path.parent, there, ignore=shutil.ignore_patterns("__pycache__"))
        with working_in(there):
            fates = run_all(cells, drawn)
    tried = [
        (Tried(cells[n].id, digest(cells[n].source), mutant, fate), words)
        for n, mutant, fate, words in fates
    ]
    seconds = sum(os.times()[:4]) - sum(begun[:4])
    return place(source_of(path), possible, seconds, [one for one, _ in tried]), tried


@contextlib.contextmanager
def working_in(folder):
    before, path = os.getcwd(), list(sys.path)
    os.chdir(folder)
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        os.chdir(before)
        sys.path[:] = path


def run_all(cells, drawn):
    """(number of the cell, mutant, fate, words) of each mutant; NotebookFails for what fails alone.

    This process becomes the notebook's: call it in one of its own.
    """
    shell, found, used = new_shell(), [], {}
    for number, cell in enumerate(cells):
        mutants = drawn.get(number, ())
        if mutants and not used:
            used = unmutated(shell, cells, number)
        elif mutants:  # what a fork does to the cell as it is, nothing, is no mutant's doing
            accept(in_a_child(partial(rest, shell, [cell]), 10 * SECONDS), "forked")
        limit = SECONDS + TIMES * sum(used.get(n, 0) for n in range(number, len(cells)))
        for mutant in mutants:
            outcome = KILLED, "tests/test_notebooks.py: a wider tolerance"
            if not widened(mutant, cell):
                work = partial(rest, shell, cells[number:], mutant.source)
                outcome = in_a_child(work, limit)
            found.append((number, mutant, *outcome))
        wrong = complaint(shell, cell)
        if wrong:
            raise NotebookFails(f"cell {cell.id}: {wrong}")
    return found


def widened(mutant, cell):
    """Whether `make test` says that a tolerance is too wide, whatever the notebook then says."""
    if mutant.kind != "a tolerance":
        return False
    return loose_bounds(mutant.source) != loose_bounds(cell.source)


def unmutated(shell, cells, first):
    """{number of a cell: the CPU seconds it uses}, from the first that is mutated on, in a child."""
    with tempfile.NamedTemporaryFile("r") as times:

        def work():
            for number, cell in list(enumerate(cells))[first:]:
                start = time.process_time()
                wrong = complaint(shell, cell)
                if wrong:
                    return f"cell {cell.id}: {wrong}"
                with open(times.name, "a") as file:
                    print(number, time.process_time() - start, file=file)
            return ""

        accept(in_a_child(work, 10 * SECONDS), "as it is")
        lines = map(str.split, times.read().splitlines())
        return {int(number): float(seconds) for number, seconds in lines}


def accept(outcome, when):
    fate, words = outcome
    if fate != SURVIVED:
        raise NotebookFails(f"{when}: {words}")


def rest(shell, cells, source=None):
    """The first complaint of these cells, the first of which may have another source."""
    for number, cell in enumerate(cells):
        wrong = complaint(shell, cell, source if number == 0 else None)
        if wrong:
            return f"cell {cell.id}: {wrong}"
    return ""
