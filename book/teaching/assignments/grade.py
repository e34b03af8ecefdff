"""Grade a submitted notebook: points for each question, with the reason.

    python grade.py submission.ipynb                      # one
    python grade.py submissions/*.ipynb --csv marks.csv   # a class

The assignments themselves are read from the folder ``source`` beside this file (``--source`` names
another). It needs Python 3.11 or newer and what the assignments need: IPython and torch.

Of a submission only the answers count, and the code cells that the student added, which run in
their place. Everything else comes from the source: the book's code, the setup, the tests, the
hidden ones too. What was changed there is undone and reported.

The cells run in a process of their own, in an empty folder of its own, with an environment that
holds no variable of yours but the search paths, and without keyboard input.
They run on the CPU, with one thread.
Before each answer the names of the setup get their meaning back, so that an answer which overwrites
one costs its own question only.

    time        a cell: 60 s (--seconds); a submission: ten times that, and two minutes
    memory      2048 MB of data in each process (--megabytes); 2560 MB in all of them together,
                which is looked at several times a second
    output      32 MB for a cell; it is measured and thrown away
    files       32 MB each, 256 open at once
    processes   64

A cell that exceeds one of these is stopped; where the process has to be ended for it, the
submission is run again without that cell, so that the other questions still count. Afterwards
every process that it started is ended and the folder removed. On macOS a limit of memory holds for
all processes together only, and a process that starts a session of its own outlives the grader; on
Windows neither memory nor the number of processes is limited.

**This is no wall against a submission written to deceive.** It runs as you, on your machine, so it
can read what you can read (the source with its hidden tests, your files), write where you can
write, and use the network. It shares its process with the tests: a test looks names up as the
setup defined them, and functions of the book that were replaced are put back and reported, but the
inside of an object can be changed, an answer can be an object that equals everything, and the
checker can be made to accept a false theorem by code that reaches into its private names. Answers
with words that such code needs are reported as "read it". Strangers' code belongs into a container
without network, and its answers before your eyes.
"""

import argparse
import ast
import builtins
import contextlib
import csv
import ctypes
import errno
import importlib
import json
import os
import queue
import re
import secrets
import shutil
import signal
import site
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

try:
    import resource
except ImportError:  # Windows
    resource = None

SECONDS, MEGABYTES = 60, 2048
#: A submission as a whole may run so many times as long as one cell.
CELLS_WORTH = 10
#: The assignment's own cells, which load torch, get at least this long.
SETUP_SECONDS = 120
#: How long a cell that was told to stop may take over it.
GRACE = 2
#: How often a submission is run again after its process had to be ended.
RESTARTS = 5
PROCESSES, OPEN_FILES = 64, 256
PRINTED, MUCH = 32 << 20, 100_000
LARGEST = 20 << 20
LONGEST_REPLY = 64_000
LOOK_EVERY = 0.1
CHILD = "--run-the-cells"

SETUP, ANSWER, EXTRA, TESTS = "setup", "answer", "extra", "tests"
NOT_REACHED = "NotReached"
STUBS = {
    "code": ("# YOUR CODE HERE", "raise NotImplementedError()"),
    "markdown": ("YOUR ANSWER HERE",),
}
SOLUTION, HIDDEN = ("BEGIN SOLUTION", "END SOLUTION"), ("BEGIN HIDDEN TESTS", "END HIDDEN TESTS")

#: What a package loads on first use only, replacing functions of its own when it does.
LATE = {"torch": "torch._dynamo"}

#: Words that an honest answer hardly needs.
READ_IT = re.compile(
    r"\b(_GENUINE|_NORMAL_FORMS|_BY_QED|_getframe|__eq__|__import__|__setattr__|__class__|__main__"
    r"|builtins|ctypes|exec|eval|gc|globals|importlib|inspect|os|signal|socket|subprocess"
    r"|settrace|setprofile|setattr|sys|threading|urllib|requests)\b"
)


class Misuse(Exception):
    """The command makes no sense; says why."""


class CannotGrade(Exception):
    """This submission cannot be graded; says why."""


# ── The command ───────────────────────────────────────────────────────────────────────────


def main(arguments=None):
    """0: everything was graded. 1: something could not be. 2: the command makes no sense."""
    options = parsed(arguments)
    with contextlib.suppress(AttributeError, ValueError):
        sys.stdout.reconfigure(errors="replace")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    withdraw()
    if resource is None:
        print("Memory is not limited here: this system has no limits for a process.")
    reports = []
    try:
        for path in options.submissions:
            reports.append(report_on(path, options))
            print(reports[-1].text, flush=True)
        written(reports, options)
    except Misuse as misuse:
        print(misuse, file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    return 1 if any(report.trouble for report in reports) else 0


def parsed(arguments):
    """The options of the command."""
    parser = argparse.ArgumentParser(
        description="Grade submitted notebooks: points for each question, with the reason.",
        epilog="Strangers' code belongs into a container: read the top of this file.",
    )
    parser.add_argument("submissions", nargs="+", type=Path, metavar="submission.ipynb")
    parser.add_argument("--source", type=Path, help="folder with the assignments (./source)")
    parser.add_argument("--assignment", help="which one, as in part-2, where a file does not say")
    parser.add_argument("--seconds", type=positive, default=SECONDS, help="for one cell (60)")
    parser.add_argument("--megabytes", type=positive, default=MEGABYTES, help="of memory (2048)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a table of the points")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write everything")
    return parser.parse_args(arguments)


def positive(text):
    """A number above zero."""
    number = float(text)
    if not 0 < number < 1e6:
        raise ValueError
    return number


def report_on(path, options):
    """What to say of one file, whatever is in it."""
    try:
        submission, metadata = read_notebook(path)
        name = which_assignment(path, metadata, options.assignment)
        source = read_source(source_folder(path, options.source), name)
        return grade(path, name, source, submission, options.seconds, options.megabytes)
    except CannotGrade as trouble:
        return Report(str(path), trouble=str(trouble))


def which_assignment(path, metadata, said):
    """The name of the assignment: said, or in the notebook, or the name of the file."""
    stored = metadata.get("assignment")
    stored = stored.get("id") if isinstance(stored, dict) else None
    name = said or stored or next(iter(re.findall(r"part-\d+", path.name)), "")
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise CannotGrade("it does not say which assignment it is: add --assignment part-1")
    return name


def source_folder(path, said):
    """Where the assignments are."""
    places = (
        [said] if said else [Path(__file__).resolve().parent / "source", path.parent / "source"]
    )
    for place in places:
        if place.is_dir():
            return place
    looked = " and ".join(map(str, places))
    raise Misuse(f"There are no assignments in {looked}: name their folder, as in --source FOLDER")


def read_source(folder, name):
    """The cells of an assignment."""
    path = folder / f"{name}.ipynb"
    if not path.is_file():
        raise CannotGrade(f"there is no assignment {name} in {folder}")
    try:
        cells, _ = read_notebook(path)
    except CannotGrade as trouble:
        raise Misuse(f"{path}: {trouble}") from None
    return cells


def written(reports, options):
    """Write the tables that were asked for."""
    try:
        if options.json:
            told = [asdict(report) for report in reports]
            options.json.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        if options.csv:
            write_table(reports, options.csv)
    except OSError as error:
        raise Misuse(f"{error.filename} cannot be written: {error.strerror}") from None


def write_table(reports, path):
    """A row for each submission: the points of each question, and the sum."""
    rows = [report.row() for report in reports]
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, columns)
        table.writeheader()
        table.writerows(rows)


# ── Notebooks ─────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Cell:
    """A cell of a notebook, as far as grading looks at it."""

    kind: str
    source: str
    mark: dict
    id: str

    name = property(lambda self: self.mark.get("grade_id", ""))
    code = property(lambda self: self.kind == "code")
    answer = property(lambda self: bool(self.mark.get("solution")))
    graded = property(lambda self: bool(self.mark.get("grade")))
    tests = property(lambda self: self.graded and not self.answer)
    by_a_person = property(lambda self: self.graded and self.answer)
    points = property(lambda self: float(self.mark.get("points", 0)))

    @classmethod
    def of(cls, stored):
        """The cell as a file has it, whatever that is."""
        stored = stored if isinstance(stored, dict) else {}
        metadata = stored.get("metadata")
        mark = metadata.get("nbgrader") if isinstance(metadata, dict) else None
        lines = stored.get("source", "")
        lines = lines if isinstance(lines, list) else [lines]
        source = "".join(line for line in lines if isinstance(line, str))
        mark = mark if isinstance(mark, dict) else {}
        name = mark.get("grade_id")
        mark = {**mark, "grade_id": name if isinstance(name, str) else ""}
        return cls(str(stored.get("cell_type")), source, mark, str(stored.get("id", "")))

    def for_students(self):
        """Its source in the student's version."""
        source, found = without(self.source, SOLUTION, STUBS.get(self.kind, ()))
        if self.answer and not found:
            source = "\n".join(STUBS[self.kind])
        return without(source, HIDDEN)[0]


def read_notebook(path):
    """(cells, metadata) of a notebook file; CannotGrade says what is wrong with it."""
    if not path.is_file():
        raise Misuse(f"There is no file {path}")
    size = path.stat().st_size
    if not size:
        raise CannotGrade("the file is empty")
    if size > LARGEST:
        raise CannotGrade(
            f"the file has {size / 1e6:.0f} MB, more than {LARGEST / 1e6:.0f}: "
            "clear its outputs and hand it in again"
        )
    try:
        stored = json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        raise CannotGrade("the file is not a notebook: it holds no JSON") from None
    except OSError as error:
        raise CannotGrade(f"the file cannot be read: {error.strerror}") from None
    cells = stored.get("cells") if isinstance(stored, dict) else None
    if not isinstance(cells, list):
        raise CannotGrade("the file is not a notebook of format 4: it has no list of cells")
    metadata = stored.get("metadata")
    return [Cell.of(cell) for cell in cells], metadata if isinstance(metadata, dict) else {}


def without(source, markers, stub=()):
    """(source, number of regions found), each region between the markers replaced by the stub.

    It is what nbgrader does; ValueError where a region is left open or opened twice.
    """
    begin, end = markers
    lines, inside, found = [], False, 0
    for line in source.split("\n"):
        if begin in line:
            if inside:
                raise ValueError(f"a second {begin} before {end}")
            indent = re.match(r"\s*", line)[0]
            lines += [indent + words for words in stub]
            inside, found = True, found + 1
        elif end in line:
            inside = False
        elif not inside:
            lines.append(line)
    if inside:
        raise ValueError(f"{begin} without {end}")
    return "\n".join(lines), found


def without_markers(source):
    """A source as the solution shows it: nothing missing but the markers themselves."""
    markers = (*SOLUTION, *HIDDEN)
    return "\n".join(
        line for line in source.split("\n") if not any(marker in line for marker in markers)
    )


def bound(tree):
    """The names that code gives a value at its top level."""
    names, blocks = set(), list(tree.body)
    while blocks:
        node = blocks.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name):
            names |= {node.id} if isinstance(node.ctx, ast.Store) else set()
        elif not isinstance(node, ast.Lambda | SCOPES):
            blocks += ast.iter_child_nodes(node)
    return names


SCOPES = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


def imported(tree):
    """The modules that code imports, and what may be a module of them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


# ── What is to be run ─────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Step:
    """A cell to run: the assignment's own, an answer, one that the student added, or tests."""

    kind: str
    name: str
    source: str
    #: The names that it defines (setup), or that the answers to its question define (tests).
    names: tuple = ()


@dataclass(frozen=True)
class Question:
    """The tests of a question and the answers before them."""

    name: str
    tests: str
    points: float
    answers: tuple


def questions_of(source):
    """The questions that tests grade, in order."""
    questions, answers = [], []
    for cell in source:
        if cell.code and cell.answer:
            answers.append(cell.name)
        elif cell.code and cell.tests:
            name = cell.name.removesuffix("-tests")
            questions.append(Question(name, cell.name, cell.points, tuple(answers)))
            answers = []
    return questions


def sorted_out(source, submission):
    """(the submitted cell of each name, the cells added after each name, notes).

    A cell whose metadata got lost is known by its id. Of two cells with one name the last counts,
    as in nbgrader.
    """
    names = {cell.name for cell in source if cell.name}
    by_id = {cell.id: cell.name for cell in source if cell.id and cell.name}
    found, added, notes, last = {}, {}, [], None
    last_of = {}
    for number, cell in enumerate(submission):
        last_of[named(cell, names, by_id)] = number
    for number, cell in enumerate(submission):
        name = named(cell, names, by_id)
        if name and number == last_of[name]:
            found[name], last = cell, name
            continue
        if name:
            notes.append(f"there is more than one cell {name}: the last one counts")
        if cell.code and cell.source.strip():
            added.setdefault(last, []).append(cell.source)
    return found, added, list(dict.fromkeys(notes))


def named(cell, names, by_id):
    """Which cell of the assignment this is; empty for one that the student added."""
    return cell.name if cell.name in names else by_id.get(cell.id, "") if not cell.name else ""


def steps_of(source, found, added):
    """What to run, in order: first the setup up to the first answer, then cell by cell."""
    numbers = iter(range(1, 1 << 30))
    extra = lambda name: [
        Step(EXTRA, f"added cell {next(numbers)}", text) for text in added.get(name, ())
    ]
    steps, waiting, started, answers = [], extra(None), False, []
    for cell in source:
        if cell.code and (cell.answer or cell.tests) and not started:
            steps, waiting, started = steps + waiting, [], True
        if cell.code:
            step = step_of(cell, found.get(cell.name), answers)
            answers = [] if cell.tests else answers + [cell.source] * cell.answer
            steps += [step] if step else []
        (steps if started else waiting).extend(extra(cell.name))
    return steps + waiting


def step_of(cell, submitted, answers):
    """The step of one code cell of the assignment; None for an answer that is missing."""
    if cell.answer:
        return Step(ANSWER, cell.name, submitted.source) if submitted else None
    sources = answers if cell.tests else [cell.source]
    names = set().union(*(bound(ast.parse(without_markers(text))) for text in sources))
    return Step(TESTS if cell.tests else SETUP, cell.name, cell.source, tuple(sorted(names)))


def tampering(source, found):
    """What was changed in the cells that are not the student's to change."""
    for cell in source:
        submitted = found.get(cell.name)
        if submitted and submitted.kind != cell.kind:
            yield f"the cell {cell.name} had become {submitted.kind}: it was read as {cell.kind}"
        if not cell.code or cell.answer:
            continue
        if cell.tests:
            name = f"the tests of {cell.name.removesuffix('-tests')}"
            verb = "were"
        else:
            name, verb = f"the assignment's cell {cell.name}", "was"
        if not submitted:
            yield f"{name} {verb} missing in the submission; the original was used"
        elif tidy(submitted.source) not in (tidy(cell.for_students()), tidy(solved(cell))):
            yield f"{name} {verb} changed in the submission; the original was used"


def solved(cell):
    """The source of a cell in the solution."""
    return without_markers(cell.source)


def tidy(source):
    """A source without the blanks that an editor changes."""
    return "\n".join(line.rstrip() for line in source.strip().splitlines())


def to_be_read(steps):
    """Which answers hold words that call for a reader."""
    for step in steps:
        words = sorted(set(READ_IT.findall(step.source))) if step.kind in (ANSWER, EXTRA) else []
        if words:
            yield f"{step.name} uses {', '.join(words)}: read it"


# ── Grading ───────────────────────────────────────────────────────────────────────────────


@dataclass
class Verdict:
    """Points for a question, and why."""

    question: str
    points: float
    of: float
    reason: str


@dataclass
class Report:
    """What a teacher gets to see of one submission."""

    file: str
    assignment: str = ""
    verdicts: list = field(default_factory=list)
    by_hand: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    seconds: float = 0.0
    trouble: str = ""

    points = property(lambda self: sum(verdict.points for verdict in self.verdicts))
    of = property(lambda self: sum(verdict.of for verdict in self.verdicts))

    @property
    def text(self):
        """The report in words; what a submission made up stands behind a bar."""
        if self.trouble:
            return f"{self.file}\n  not graded: {barred(self.trouble)}\n"
        lines = [f"{self.file}: {self.assignment}"]
        for verdict in self.verdicts:
            points = f"{verdict.points:g} of {verdict.of:g}"
            lines.append(f"  {verdict.question:<8} {points:>10}   {barred(verdict.reason)}")
        for name, (points, answered) in self.by_hand.items():
            what = "for a person to grade: see the rubric" if answered else "not answered"
            lines.append(f"  {name:<8} {f'? of {points:g}':>10}   {what}")
        waiting = sum(points for points, answered in self.by_hand.values() if answered)
        more = f"   and up to {waiting:g} from a person" if waiting else ""
        lines.append(f"  {'total':<8} {f'{self.points:g} of {self.of:g}':>10}{more}")
        lines += [f"  note: {barred(note)}" for note in self.notes]
        return "\n".join(lines) + "\n"

    def row(self):
        """A row of the table of a class."""
        row = {"file": self.file, "assignment": self.assignment}
        row |= {"points": "" if self.trouble else f"{self.points:g}", "of": f"{self.of:g}"}
        waiting = [points for points, answered in self.by_hand.values() if answered]
        row |= {"waiting for a person": f"{sum(waiting):g}"}
        row |= {verdict.question: f"{verdict.points:g}" for verdict in self.verdicts}
        return row | {"not graded": self.trouble}


def barred(text):
    """A text that cannot pass for lines of the report: no control characters, a bar before lines."""
    lines = text.strip().splitlines()
    lines = ["".join(c if c.isprintable() else " " for c in line) for line in lines]
    return "\n           | ".join(lines[:30])


def grade(path, name, source, submission, seconds=SECONDS, megabytes=MEGABYTES):
    """The report on one submission."""
    start = time.monotonic()
    found, added, notes = sorted_out(source, submission)
    steps = steps_of(source, found, added)
    ran, said = run(steps, modules_of(source), Limits(seconds, megabytes))
    notes = list(dict.fromkeys([*notes, *tampering(source, found), *said, *to_be_read(steps)]))
    by_name = {cell.name: cell for cell in source}
    verdicts = [verdict(question, by_name, found, ran) for question in questions_of(source)]
    by_hand = {
        cell.name: (cell.points, answered(cell, found.get(cell.name)))
        for cell in source
        if cell.by_a_person
    }
    seconds = round(time.monotonic() - start, 1)
    return Report(str(path), name, verdicts, by_hand, notes, seconds)


def answered(cell, submitted):
    """Whether an answer differs from what the student was given."""
    return bool(submitted) and tidy(submitted.source) != tidy(cell.for_students())


def verdict(question, by_name, found, ran):
    """The points for one question, and why: only tests that ran and passed give any."""
    outcome = ran[question.tests]
    if outcome.ok:
        return Verdict(question.name, question.points, question.points, "right")
    reasons = []
    for name in question.answers:
        if name not in found:
            reasons.append(f"the cell {name} is missing")
        elif not answered(by_name[name], found[name]):
            reasons.append("not answered")
        elif name in ran and not ran[name].ok and ran[name].type != NOT_REACHED:
            reasons.append(f"the answer {ran[name].of_a_cell()}")
    if not reasons or (outcome.type == "AssertionError" and "not answered" not in reasons):
        asked = bound_by(by_name[name] for name in question.answers)
        reasons.insert(0, outcome.of_tests(asked))
    return Verdict(question.name, 0.0, question.points, "; ".join(dict.fromkeys(reasons)))


def bound_by(cells):
    """The names that the answers are asked to define."""
    return set().union(*(bound(ast.parse(solved(cell))) for cell in cells))


def modules_of(source):
    """The modules that the assignment's own cells import: they are loaded before any answer."""
    cells = [cell for cell in source if cell.code and not cell.answer]
    return sorted({name for cell in cells for name in imported(ast.parse(solved(cell)))})


# ── Running, seen from the grader ─────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Limits:
    """What a submission may use."""

    seconds: float = SECONDS
    megabytes: float = MEGABYTES

    total = property(lambda self: CELLS_WORTH * self.seconds + SETUP_SECONDS)
    all_megabytes = property(lambda self: self.megabytes * 1.25)

    def of(self, step):
        """How many seconds a cell has."""
        return max(SETUP_SECONDS, self.seconds) if step.kind == SETUP else self.seconds


@dataclass(frozen=True)
class Outcome:
    """What came of a cell.

    An error has a ``type``; without one ``text`` goes on after "the answer".
    """

    ok: bool = False
    type: str = ""
    text: str = ""
    line: int = 0
    #: What the submission had replaced before the tests ran.
    replaced: tuple = ()
    #: The process is gone; the cell must not run again.
    ended: bool = False
    stopped: bool = False

    def of_a_cell(self):
        """What went wrong, to go on after "the answer"."""
        if not self.type:
            return self.text
        where = f"stops in line {self.line}" if self.line else "stops"
        return f"{where} with {self.type}" + (f": {self.text}" if self.text else "")

    def of_tests(self, asked):
        """What went wrong in tests that an answer to define the names ``asked`` did not pass."""
        if not self.type:
            return f"when it is tested, the answer {self.text}"
        if self.type == NOT_REACHED:
            return self.text
        if self.type == "AssertionError":
            return self.text or "a test failed"
        if self.type == "NotImplementedError":
            return "not answered, or not wholly: NotImplementedError"
        missing = re.match(r"name '(\w+)' is not defined", self.text)
        if self.type == "NameError" and missing and missing[1] in asked:
            return f"the answer defines no {missing[1]}"
        return f"the tests stop with {self.type}" + (f": {self.text}" if self.text else "")


def run(steps, modules, limits):
    """({name: outcome}, notes): the steps run, again without the cell that ended the process."""
    ran, notes, until = {}, [], time.monotonic() + limits.total
    for _ in range(RESTARTS + 1):
        left = [step for step in steps if not settled(step, ran)]
        with Child(limits, until) as child:
            if run_through(child, left, modules, ran, notes):
                return ran, notes
        if time.monotonic() > until:
            why = f"the submission as a whole ran longer than {limits.total:g} s"
            break
    else:
        why = f"the submission had to be ended {RESTARTS + 1} times"
    for step in steps:
        ran.setdefault(step.name, Outcome(type=NOT_REACHED, text=f"not reached: {why}"))
    return ran, [*notes, f"{why}: what was not reached counts zero"]


def settled(step, ran):
    """Whether a step need not, or must not, run again."""
    outcome = ran.get(step.name)
    return bool(outcome) and step.kind != SETUP and (step.kind == TESTS or outcome.stopped)


def run_through(child, steps, modules, ran, notes):
    """Run the steps in one process; whether it came through to the end."""
    prepared = False
    needed(child.do({"kind": "hello"}, SETUP_SECONDS), "IPython")
    for step in steps:
        if step.kind != SETUP and not prepared:
            needed(child.do({"kind": "prepare", "modules": modules}, SETUP_SECONDS), "its modules")
            prepared = True
        outcome = child.do(asdict(step), child.limits.of(step))
        if step.kind == SETUP and not prepared:
            needed(outcome, f"its cell {step.name}")
        ran[step.name] = outcome
        notes += [*remarks(step, outcome), *child.remarks(step)]
        if outcome.ended:
            return False
    return True


def needed(outcome, what):
    """Insists on what has nothing to do with the submission."""
    if not outcome.ok:
        raise CannotGrade(
            f"the assignment does not run here: {what} {outcome.of_a_cell()}. Is everything "
            "installed that it needs, and is --source the folder that was handed out?"
        )


def remarks(step, outcome):
    """What a teacher should know of a cell that has run."""
    if outcome.replaced:
        what = ", ".join(map(str, outcome.replaced))
        yield f"before {step.name}, {what} had been replaced; the original was put back"
    if step.kind == SETUP and not outcome.ok:
        yield f"the assignment's own cell {step.name} {outcome.of_a_cell()}, after cells of the student"


class Child:
    """The process that runs the cells, in a folder of its own, watched."""

    def __init__(self, limits, until):
        self.limits, self.until = limits, until
        self.folder = Path(tempfile.mkdtemp(prefix="grading-"))
        for name in ("work", "home"):
            (self.folder / name).mkdir()
        self.printed = (self.folder / "printed").open("ab+")
        self.before = {pid for pid, *_ in processes()}
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                str(Path(__file__).resolve()),
                CHILD,
                json.dumps(asdict(limits)),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.printed,
            cwd=self.folder / "work",
            env=environment(self.folder / "home"),
            start_new_session=True,
        )
        self.replies = queue.Queue(maxsize=4)
        threading.Thread(target=self._read, daemon=True).start()
        self.size = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
        self.printed.close()
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError, ValueError):
                stream.close()
        shutil.rmtree(self.folder, onerror=insist)

    def _read(self):
        with contextlib.suppress(OSError, ValueError):
            while line := self.process.stdout.readline(LONGEST_REPLY):
                self.replies.put(line)
        self.replies.put(None)

    def _write(self, line):
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(line)
            self.process.stdin.flush()

    def do(self, command, seconds):
        """The outcome of a command; ends the process where the command takes too much."""
        nonce = secrets.token_hex(16)
        line = json.dumps({"nonce": nonce, "seconds": seconds, **command}) + "\n"
        threading.Thread(target=self._write, args=(line.encode(),), daemon=True).start()
        late = time.monotonic() + seconds + GRACE
        while True:
            try:
                reply = self.replies.get(timeout=LOOK_EVERY)
            except queue.Empty:
                if why := self.too_late(late, seconds) or self.too_much():
                    return self.ended(why)
                continue
            if reply is None:
                return self.ended(self.how_it_ended())
            outcome = genuine(reply, nonce)
            return self.judged(outcome, seconds) if outcome else self.ended(INTRUDER)

    def judged(self, outcome, seconds):
        """The outcome, in words where a limit was behind it."""
        if outcome.type == "TimeUp":
            return Outcome(text=longer_than(seconds), stopped=True)
        if outcome.type == "OSError" and self.measure() >= PRINTED:
            return self.ended(TOO_MUCH_PRINTED)
        if outcome.type == "MemoryError" or "can't allocate memory" in outcome.text:
            text = f"asks for more memory than the {self.limits.megabytes:g} MB that it may use"
            return Outcome(text=text, line=outcome.line)
        why = self.too_much()  # in what it has left running
        return self.ended(why) if why else outcome

    def too_late(self, late, seconds):
        """Which time is over at this moment; empty if none."""
        now = time.monotonic()
        if now > late:
            return longer_than(seconds)
        if now > self.until:
            return f"was stopped: the submission as a whole ran longer than {self.limits.total:g} s"
        return ""

    def too_much(self):
        """What a submission takes too much of at this moment; empty if nothing."""
        if self.measure() >= PRINTED:
            return TOO_MUCH_PRINTED
        family = self.family()
        if len(family) > PROCESSES:
            return f"started more than {PROCESSES} processes and was stopped"
        megabytes = sum(family.values()) / 1024
        if megabytes > self.limits.all_megabytes and own_memory(family) > self.limits.all_megabytes:
            return f"used more than {self.limits.all_megabytes:g} MB of memory and was stopped"
        return ""

    def measure(self):
        """How many bytes were printed since the last cell."""
        self.size = max(self.size, os.fstat(self.printed.fileno()).st_size)
        return self.size

    def remarks(self, step):
        """A note on a cell that printed much; what it printed is thrown away."""
        size, self.size = self.measure(), 0
        with contextlib.suppress(OSError):
            os.truncate(self.printed.fileno(), 0)
        return [f"{step.name} printed {size:,} bytes"] if size > MUCH else []

    def how_it_ended(self):
        """Why there is no process any more."""
        try:
            status = self.process.wait(timeout=GRACE)
        except subprocess.TimeoutExpired:
            return "closed the grader's own channel; the process was ended"
        if status == -getattr(signal, "SIGKILL", 9):
            return "was killed by the system, probably for want of memory"
        if status < 0:
            return f"crashed the process ({signal.Signals(-status).name})"
        return f"ended the process (exit code {status})"

    def ended(self, why):
        """The outcome of a cell whose process is ended now, if it is not gone."""
        self.end()
        return Outcome(text=why, ended=True, stopped=True)

    def family(self):
        """{pid: kB} of every process that the submission has started and that still runs.

        On Linux what has left its group is found too: its parent is this process at the latest.
        """
        root = os.getpid() if sys.platform == "linux" else self.process.pid
        running = [one for one in processes() if one[0] not in self.before]
        family = {pid: size for pid, _, leader, size in running if leader == self.process.pid}
        grown = True
        while grown:
            grown = {
                pid: size
                for pid, parent, _, size in running
                if pid not in family and (parent == root or parent in family)
            }
            family |= grown
        return family

    def end(self):
        """End the process and all that it has started."""
        if os.name == "nt":
            kill = ["taskkill", "/T", "/F", "/PID", str(self.process.pid)]
            subprocess.run(kill, capture_output=True, check=False)
            return self.process.wait()
        with contextlib.suppress(OSError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        late = time.monotonic() + 10
        while (family := self.family()) and time.monotonic() < late:
            for pid in family:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            for pid in family:
                with contextlib.suppress(OSError):
                    os.waitpid(pid, os.WNOHANG)
            time.sleep(0.01)


INTRUDER = "wrote into the grader's own channel, so its process was ended"
TOO_MUCH_PRINTED = f"printed more than {PRINTED >> 20} MB and was stopped"


def genuine(line, nonce):
    """The outcome that a reply holds, if it is one: it has the number that its command had."""
    try:
        reply = json.loads(line)
        return Outcome(**reply) if reply.pop("nonce") == nonce else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def longer_than(seconds):
    """What to say of a cell that took too long."""
    return f"ran longer than {seconds:g} s and was stopped"


def insist(function, path, _):
    """Remove what a submission has locked."""
    with contextlib.suppress(OSError):
        os.chmod(Path(path).parent, 0o700)
        os.chmod(path, 0o700)
        shutil.rmtree(path) if Path(path).is_dir() else function(path)


def environment(home):
    """Search paths and the folders of its own; no other variable of the teacher's."""
    kept = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT")
    own = ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "TMP", "IPYTHONDIR", "MPLCONFIGDIR")
    own += ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "TORCH_HOME")
    variables = {name: os.environ[name] for name in kept if name in os.environ}
    variables |= dict.fromkeys(own, str(home))
    variables |= {"PYTHONUTF8": "1", "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    variables |= {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg"}
    if site.ENABLE_USER_SITE:
        variables["PYTHONUSERBASE"] = site.getuserbase()
    return variables


def processes():
    """(pid, pid of its parent, pid of its group's leader, kB in memory) of what runs here."""
    if sys.platform == "linux":
        page = os.sysconf("SC_PAGE_SIZE") // 1024
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                words = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
                yield int(name), int(words[1]), int(words[2]), int(words[21]) * page
    elif os.name == "posix":
        told = subprocess.run(
            ["ps", "-axo", "pid=,ppid=,pgid=,rss="], capture_output=True, text=True, check=False
        )
        yield from (tuple(map(int, line.split())) for line in told.stdout.splitlines())


def own_memory(family):
    """MB that the processes have, what they share counted once where the system says."""
    total = 0
    for pid, kilobytes in family.items():
        with contextlib.suppress(OSError):
            told = re.search(r"^Pss:\s+(\d+)", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M)
            kilobytes = int(told[1]) if told else kilobytes
        total += kilobytes
    return total / 1024


def withdraw():
    """On Linux: inherit what a submission leaves running, and hide this process's variables."""
    adopt_orphans, be_dumpable = 36, 4
    with contextlib.suppress(OSError, AttributeError):
        prctl = ctypes.CDLL(None).prctl
        prctl(adopt_orphans, 1, 0, 0, 0)
        prctl(be_dumpable, 0, 0, 0, 0)


# ── Running, seen from the process that runs the cells ────────────────────────────────────


class TimeUp(BaseException):
    """The cell has run too long."""


def serve(limits):
    """Run what comes in, and say what came of it, until nothing comes in any more."""
    commands, results = os.fdopen(os.dup(0), "rb"), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    limit(limits)
    sys.argv[1:] = []
    sys.path.insert(0, "")
    cells, me = Cells(), os.getpid()
    for line in commands:
        command = json.loads(line)
        reply = {"nonce": command.pop("nonce"), **cells.do(**command)}
        if os.getpid() != me:  # a copy of this process that a cell has made
            os._exit(0)
        line = json.dumps(reply).encode() + b"\n"
        while line:
            line = line[os.write(results, line) :]
    os._exit(0)  # without what a submission has left to be done at the end


def limit(limits):
    """Tell the system what this process and those it starts may use."""
    with contextlib.suppress(OSError, AttributeError):
        end_with_parent = 1
        ctypes.CDLL(None).prctl(end_with_parent, signal.SIGKILL, 0, 0, 0)
    wanted = {
        "RLIMIT_DATA": int(limits.megabytes) << 20,
        "RLIMIT_FSIZE": PRINTED,
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_CORE": 0,
        "RLIMIT_CPU": int(limits.total) + SETUP_SECONDS,
        "RLIMIT_NPROC": threads_here() + 4 * PROCESSES if sys.platform == "linux" else None,
    }
    for name, value in wanted.items():
        with contextlib.suppress(AttributeError, ValueError, OSError):
            which = getattr(resource, name)
            hard = resource.getrlimit(which)[1]
            value = hard if value is None else value
            least = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(which, (least, least))


def threads_here():
    """How many threads this user runs: what the system counts against its limit of processes."""
    count = 0
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            if os.stat(f"/proc/{name}").st_uid == os.getuid():
                count += len(os.listdir(f"/proc/{name}/task"))
    return count


@contextlib.contextmanager
def at_most(seconds):
    """TimeUp once it has taken so long, where the system has such an alarm."""
    if not hasattr(signal, "setitimer"):
        yield
        return

    def ring(*_):
        raise TimeUp

    signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def no_input(*_):
    raise EOFError("it asks for input(): when it is graded, nobody is there to type")


class Cells:
    """The cells as a notebook runs them, and the tests with the names that the setup gave them."""

    def __init__(self):
        #: The setup has a world of its own: what an answer names stands not in its way either.
        self.world = {"__name__": "__main__", "__builtins__": builtins}
        self.defined, self.given = dict(self.world), {}
        self.modules, self.attributes, self.book = {}, [], []
        self.shell, self.streams = None, (sys.stdout, sys.stderr)
        self.commands = {"setup": self.setup, "answer": self.answer, "extra": self.cell}
        self.commands |= {"tests": self.tests, "prepare": self.prepare, "hello": self.hello}

    def do(self, kind, seconds, **what):
        """The outcome of one command, as plain data."""
        what.pop("name", None)
        try:
            with at_most(seconds):
                reply = self.commands[kind](**what)
        except BaseException as error:
            reply = failure(error)
        for stream in self.streams:
            with contextlib.suppress(BaseException):
                stream.flush()
        return reply

    def hello(self):
        """Start IPython."""
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        config = Config()
        config.HistoryManager.enabled = False
        self.shell = InteractiveShell.instance(config=config)
        self.shell.showtraceback = self.shell.showsyntaxerror = lambda *_, **__: None
        self.shell.ask_exit = lambda: None
        builtins.input = no_input
        return {"ok": True}

    def cell(self, source, names=()):
        """Run a cell as a notebook does."""
        result = self.shell.run_cell(source)
        error = result.error_before_exec or result.error_in_exec
        return failure(error, self.shell.user_ns) if error else {"ok": True}

    def answer(self, source, names):
        """Run an answer: what an earlier one made of the names of the setup does not reach it."""
        self.shell.user_ns.update(self.given)
        return self.cell(source)

    def setup(self, source, names):
        """Run a cell of the assignment; students get what it defines."""
        self.restore()
        exec(compile(source, "<setup>", "exec", dont_inherit=True), self.world)
        self.defined = dict(self.world)
        self.given |= {name: self.world[name] for name in names if name in self.world}
        self.shell.user_ns.update(self.given)
        return {"ok": True}

    def prepare(self, modules):
        """Load what the assignment uses and record what it is, before any answer runs."""
        for name in [*modules, *(LATE[name] for name in modules if name in LATE)]:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        self.modules = {name: module for name, module in sys.modules.items() if module}
        here = os.path.join(os.getcwd(), "")
        self.book = [
            module
            for module in self.modules.values()
            if str(getattr(module, "__file__", None)).startswith(here)
        ]
        watched = [builtins, *self.book, *filter(None, map(self.modules.get, modules))]
        for module in dict.fromkeys(watched):
            self.attributes += [(module, dict(vars(module)))]
            classes = [value for value in vars(module).values() if isinstance(value, type)]
            family = module.__name__.partition(".")[0]
            self.attributes += [
                (one, dict(vars(one)))
                for one in classes
                if one.__module__.partition(".")[0] == family and family != "builtins"
            ]
        return {"ok": True}

    def restore(self):
        """Put back what the submission has replaced; the names of it."""
        sys.settrace(None)
        sys.setprofile(None)
        changed = []
        for name in {**self.defined, **self.world}:
            if self.defined.get(name) is not self.world.get(name):
                changed.append(f"{name} of the setup")
        self.world.clear()
        self.world.update(self.defined)
        for name, module in self.modules.items():
            if sys.modules.get(name) is not module:
                changed.append(name)
                sys.modules[name] = module
        for holder, before in self.attributes:
            now = vars(holder)
            for name, value in before.items():
                if now.get(name) is not value:
                    with contextlib.suppress(AttributeError, TypeError):
                        setattr(holder, name, value)
                        changed.append(f"{holder.__name__}.{name}")
            if holder in self.book:
                changed += self.removed(holder, [name for name in now if name not in before])
        return changed

    def removed(self, module, names):
        """Take names out of a module of the book, except modules of it that were loaded late."""
        names = [
            n for n in names if sys.modules.get(f"{module.__name__}.{n}") is not vars(module)[n]
        ]
        for name in names:
            delattr(module, name)
        return [f"{module.__name__}.{name}" for name in names]

    def tests(self, source, names):
        """Run tests in a world of their own: nothing that an answer names stands in their way."""
        replaced = self.restore()
        hidden = set(dir(builtins)) - set(names)
        mine = self.shell.user_ns
        world = {name: value for name, value in mine.items() if name not in hidden} | self.world
        try:
            exec(compile(source, "<tests>", "exec", dont_inherit=True), world)
        except Exception as error:
            return failure(error) | noted(replaced)
        if meanwhile := self.restore():
            return {"ok": False, "text": f"replaces {', '.join(meanwhile[:5])}"}
        for name, value in world.items():
            mine.setdefault(name, value)
        return {"ok": True} | noted(replaced)


def noted(replaced):
    """The first few things that had been replaced, for the report."""
    return {"replaced": replaced[:5]} if replaced else {}


def failure(error, world=None):
    """An error as plain data: its type, its words, the line of the cell."""
    try:
        text = str(error)[:3000]
    except Exception:
        text = ""
    if isinstance(error, SyntaxError):
        text, line = str(error.msg), error.lineno or 0
    else:
        line = line_of(error.__traceback__, world)
    if isinstance(error, OSError) and error.errno == errno.EFBIG:
        text = f"a file has more than {PRINTED >> 20} MB"
    return {"ok": False, "type": type(error).__name__[:80], "text": text, "line": line}


def line_of(trace, world):
    """The line of the cell that an error comes from; 0 if none does."""
    while trace:
        if trace.tb_frame.f_globals is world:
            return trace.tb_lineno
        trace = trace.tb_next
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == [CHILD]:
        serve(Limits(**json.loads(sys.argv[2])))
    sys.exit(main())
