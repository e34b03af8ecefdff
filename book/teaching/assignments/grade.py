"""Grade submitted notebooks: points for each part of a question, with the reason.

    python grade.py submitted/ann/part-2.ipynb            # one submission
    python grade.py submitted --csv marks.csv             # a whole class, folder by folder
    python grade.py submitted --feedback feedback         # and a text for each student

The assignments are read from the folder ``source`` beside this file, or from ``--source``.  A file
belongs to the student in whose folder it is, as in ``submitted/ann/part-2.ipynb``, or whose name
is part of the file's, as in ``ann-part-2.ipynb``.

Only the answers, and the code cells that the student added, are taken from a submission.  They run
in a process that knows no test, behind a wall where the system offers one (``walls.py``).  Setup
and tests come from the source, and run in another process (``judging.py``).  Only numbers, texts,
lists and tensors pass from the answers to the tests; answers in formulas, such as proofs, are not
run but read (``formula_reader.py``).  A cell that runs too long, needs too much memory or ends Python
loses only the points of its own question.
"""

import argparse
import ast
import contextlib
import csv
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import namedtuple
from pathlib import Path

import nbformat
import psutil
from walls import keep_to_itself, wall

HERE = Path(__file__).resolve().parent
ASSIGNMENT = re.compile(r"(?:part|sheet)-\d+")
LARGEST_NOTEBOOK = 20 << 20  # bytes
SETUP_SECONDS = 180  # the limit for the assignment's own cells, which load torch
UNANSWERED = re.compile(r"YOUR CODE HERE|raise NotImplementedError\(\)|YOUR ANSWER HERE|^\s*$")
HIDDEN = re.compile(r"^ *### BEGIN HIDDEN TESTS\n.*?### END HIDDEN TESTS *$", re.S | re.M)
KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
#: How ``judging.py`` begins its report of a setup that fails only in the answers' process.
SPOILT = "was spoilt by a cell of the student"
HOMES = ("HOME", "USERPROFILE", "TMPDIR", "TEMP")
FIXED = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg"}
FIXED |= {"PYTHONUTF8": "1", "PYTHONHASHSEED": "0", "UNTRIED_VERSIONS": "quiet"}

#: ``kind`` is "setup", "answer", "formulas", "tests", "text", or "person": graded by a person.
Cell = namedtuple("Cell", "name kind points source")
#: The result for a part of a question: ``points`` out of ``of``; None if a person grades it.
Verdict = namedtuple("Verdict", "question points of reason")
Report = namedtuple("Report", "student assignment file verdicts notes")
#: Seconds for a cell, minutes for a notebook, megabytes for a process.
Limits = namedtuple("Limits", "seconds minutes megabytes", defaults=(60, 10, 4096))


class CannotGrade(Exception):
    """A submission cannot be graded; the message says why."""


# ---- what is in a notebook ------------------------------------------------------------------


def read(path):
    """The notebook in a file; raises CannotGrade if the file is not a notebook."""
    try:
        size = path.stat().st_size
        if not path.is_file() or size > LARGEST_NOTEBOOK:
            raise ValueError(f"it is no file of at most {LARGEST_NOTEBOOK >> 20} megabytes")
        return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except Exception as error:  # a broken file can raise any error
        raise CannotGrade(f"the file cannot be read as a notebook: {error}") from None


def cells_of(notebook):
    """Yield each cell of a notebook as a Cell; without nbgrader's metadata its name is empty."""
    for cell in notebook.cells:
        mark, kind = cell.metadata.get("nbgrader"), "text"
        mark = mark if isinstance(mark, dict) else {}
        if mark.get("solution"):
            kind = "formulas" if cell.metadata.get("answer") == "formulas" else "answer"
            kind = "person" if mark.get("grade") else kind
        elif cell.cell_type == "code":
            kind = "tests" if mark.get("grade") else "setup"
        yield Cell(str(mark.get("grade_id", "")), kind, mark.get("points"), cell.source)


def sorted_out(names, submission):
    """({name: sources}, {name: code added after the cell}) of a submission's cells."""
    found, added, last = {}, {}, ""
    for cell in submission:
        if cell.name in names:
            found.setdefault(last := cell.name, []).append(cell.source)
        elif cell.kind != "text" and cell.source.strip():
            added.setdefault(last, []).append(cell.source)
    return found, added


def defined_in(source):
    """The names that an answer of the assignment defines, with its solution or without."""
    names = set()
    for node in ast.parse(source).body:
        names |= {getattr(node, "name", "")}
        for part in ast.walk(node) if isinstance(node, (ast.Assign, ast.AnnAssign)) else ():
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                names.add(part.id)
    return sorted(names - {""})


def steps_for(cells, found, added):
    """The steps to run, in order: {"name", "kind", "source", "names"}."""
    names, number = [], 0
    for name, kind, _, source in cells:
        if kind in ("answer", "formulas"):
            names = defined_in(source)
            source = found.get(name, [""])[-1]
        if kind in ("setup", "tests", "answer", "formulas"):
            yield {"name": name, "kind": kind, "source": source, "names": names}
        for code in added.get(name, ()):
            number += 1
            shared = [] if kind == "formulas" else names
            told = f"added cell {number}, after {name},"
            yield {"name": told, "kind": "added", "source": code, "names": shared}


# ---- one submission -------------------------------------------------------------------------


def grade(path, source, limits=None, words=()):
    """The Report on the submission at ``path``, graded against the assignment at ``source``.

    ``words`` come before the command that starts the answers' process: see ``walls.wall``.
    """
    cells = list(cells_of(read(source)))
    found, added = sorted_out({cell.name for cell in cells} - {""}, cells_of(read(path)))
    steps = list(steps_for(cells, found, added))
    errors = {k: e for k, e in run(steps, limits or Limits(), list(words)).items() if e}
    for name in [cell.name for cell in cells if cell.kind == "setup" and cell.name in errors]:
        if not errors[name].startswith(SPOILT):
            raise CannotGrade(f"the assignment's cell {name} {errors[name]}: is all installed?")
    verdicts, told = verdicts_on(cells, found, errors), notes(cells, found, errors)
    return Report(student_of(path), source.stem, str(path), list(verdicts), list(told))


def run(steps, limits, words):
    """Run the steps, again without each one that had to be stopped; return {name: error}."""
    stopped, end = {}, time.monotonic() + 60 * limits.minutes
    while True:
        left = [step for step in steps if step["name"] not in stopped]
        errors, ended = run_once(left, limits, words, end)
        stopped |= ended
        if not ended or time.monotonic() > end:
            return errors | stopped


def run_once(steps, limits, words, end):
    """({name: error} of the steps that ended, {name: reason} for what ended the run early)."""
    with tempfile.TemporaryDirectory(prefix="grading-", ignore_cleanup_errors=True) as folder:
        judges, answers = (Path(folder, name) for name in ("judge", "answers"))
        judges.mkdir(mode=0o700), answers.mkdir()
        os.chmod(folder, 0o711), os.chmod(answers, 0o777)  # nobody's programs write there
        kept = {name: value for name, value in os.environ.items() if name in KEPT}
        judge = subprocess.Popen(
            [sys.executable, str(HERE / "judging.py")], stdin=subprocess.PIPE, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=judges, start_new_session=True,
            env=kept | dict.fromkeys(HOMES, str(answers)) | FIXED, encoding="utf-8",
        )  # fmt: skip
        task = {"steps": steps, "megabytes": limits.megabytes, "folder": str(answers)}
        try:
            return followed(judge, task | {"wall": hiding(words, judges, answers)}, limits, end)
        finally:
            end_all(judge)


def hiding(words, *folders):
    """The words of a wall, which puts an empty folder over each of these, if it does so at all."""
    at = words.index("--") if "--" in words else None
    return words if at is None else [*words[:at], *map(str, folders), *words[at:]]


def followed(judge, task, limits, end):
    """What ``run_once`` returns, from the events that the judging process writes."""
    events, errors, now = queue.Queue(), {}, None
    threading.Thread(target=listen, args=(judge, task, events), daemon=True).start()
    own = {step["name"] for step in task["steps"] if step["kind"] == "setup"}
    while True:
        seconds = SETUP_SECONDS if now is None or now in own else limits.seconds
        try:
            event = events.get(timeout=max(0, min(seconds, end - time.monotonic())))
        except queue.Empty:
            if time.monotonic() < end:
                return errors, {now: f"ran longer than {seconds:g} s and was stopped"}
            late = f"was not run to its end within {limits.minutes:g} minutes for one notebook"
            names = [step["name"] for step in task["steps"] if step["name"] not in own]
            return errors, {name: late for name in names if name not in errors}
        if event is None or "finished" in event:
            if len(errors) == len(task["steps"]):
                return {name: error for name, error in errors.items() if error}, {}
            if now is None or now in own:
                raise CannotGrade(f"the assignment does not run, cell {now}: is all installed?")
            return errors, {now: "ended Python, or ran out of memory"}
        now = event.get("begun", now)
        if "ended" in event:
            errors[event["ended"]] = event["error"]


def listen(judge, task, events):
    """Send the task and put each event into the queue, and None at the end."""
    with judge.stdout as said, contextlib.suppress(OSError, ValueError):
        with judge.stdin as file:
            json.dump(task, file)
        for line in said:
            events.put(json.loads(line))
    events.put(None)


def end_all(judge):
    """Kill the judging process and all that it started."""
    with contextlib.suppress(psutil.Error):
        for process in psutil.Process(judge.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                process.kill()
    judge.kill()
    judge.wait()


# ---- the verdicts ---------------------------------------------------------------------------


def verdicts_on(cells, found, errors):
    """Yield a Verdict for each part of a question; only tests that ran and passed give points."""
    answers, tested = [], False  # names of the answers that the next tests grade
    for name, kind, of, _ in cells:
        if kind in ("answer", "formulas"):
            answers, tested = [*([] if tested else answers), name], False
        elif kind == "person":
            reason = "see the rubric" if answered(name, found) else "not answered"
            yield Verdict(name, None, of, reason)
        elif kind == "tests":
            reason = shortcoming(name, answers, found, errors)
            yield Verdict(name.removesuffix("-tests"), 0 if reason else of, of, reason or "right")
            tested = True


def answered(name, found):
    return not UNANSWERED.search(found.get(name, [""])[-1])


def shortcoming(tests, answers, found, errors):
    """Why a part of a question scores no points, or "" if it scores them."""
    if not all(answered(answer, found) for answer in answers):
        return "not answered"
    reasons = [f"the answer {errors[answer]}" for answer in answers if answer in errors]
    return [*reasons, errors.get(tests, "")][0]


def notes(cells, found, errors):
    """Yield notes on changed, missing or repeated cells, and on errors in added cells."""
    visible = lambda source: HIDDEN.sub("", source).split()  # editors may change white space
    for name, kind, _, source in cells:
        sources = found.get(name, [])
        if kind in ("setup", "tests") and visible([*sources, ""][0]) != visible(source):
            yield f"{name} was changed or is missing; the original was used"
        elif kind in ("answer", "formulas", "person") and len(sources) > 1:
            yield f"{name} is there {len(sources)} times; only the last of these cells counts"
    told = lambda name, error: name.startswith("added cell") or error.startswith(SPOILT)
    yield from (f"{name} {error}" for name, error in errors.items() if told(name, error))


# ---- a class --------------------------------------------------------------------------------


def main(arguments=None):
    """Grade the submissions; return 1 if any of them could not be graded, else 0."""
    options = asked(arguments)
    keep_to_itself()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that all processes are ended
    paths = submissions(options.submissions)
    words, said = wall(hidden_from_answers(options, paths))
    print(said, file=sys.stderr, flush=True)
    limits, graded = Limits(options.seconds, options.minutes, options.megabytes), 0
    with table(options) as add:
        for path in paths:
            try:
                report = grade(path, source_for(path, options), limits, words)
            except CannotGrade as why:
                print(f"{path}\n  not graded: {plain(str(why))}\n", flush=True)
                continue
            graded += 1
            print(told(report), flush=True)
            add(report)
            keep_feedback(report, options.feedback)
    return int(graded < len(paths))


def asked(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("submissions", nargs="+", type=Path, metavar="file-or-folder")
    parser.add_argument("--source", type=Path, default=HERE / "source")
    parser.add_argument("--seconds", type=float, default=60, help="for one cell (60)")
    parser.add_argument("--minutes", type=float, default=10, help="for one notebook (10)")
    parser.add_argument("--megabytes", type=int, default=4096, help="of memory (4096)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a table of the points")
    parser.add_argument("--feedback", type=Path, metavar="FOLDER", help="write a text for each")
    return parser.parse_args(arguments)


def submissions(given):
    """The notebooks among the given files and, in order, in the given folders."""
    inside = lambda folder: sorted(p for p in folder.rglob("*.ipynb") if ".ipynb_" not in str(p))
    return [path for one in given for path in (inside(one) if one.is_dir() else [one])]


def hidden_from_answers(options, paths):
    """Folders that answers must not see, without those that Python needs."""
    folders = {HERE, HERE.parent / "nbgrader", options.source.resolve()}
    folders |= {path.resolve().parent for path in paths}
    folders |= {path.resolve() for path in options.submissions if path.is_dir()}
    needed = [Path(p).resolve() for p in (sys.prefix, sys.base_prefix, tempfile.gettempdir())]
    holds = lambda folder: any(path.is_relative_to(folder) for path in needed)
    folders = {folder for folder in folders if folder.is_dir() and not holds(folder)}
    return sorted(folder for folder in folders if not folders & {*folder.parents})


def source_for(path, options):
    """The assignment that a submission names: in its file's name, its folder's or its metadata."""
    names = [ASSIGNMENT.search(path.name), ASSIGNMENT.fullmatch(path.parent.name)]
    names = [found[0] for found in names if found]
    inside = read(path).metadata.get("assignment")
    inside = str(inside.get("id", "")) if isinstance(inside, dict) else ""
    names += [inside] if ASSIGNMENT.fullmatch(inside) else []
    if len({*names}) > 1:
        raise CannotGrade(f"it names two assignments, {names[0]} and {names[-1]}: rename the file")
    if not names:
        raise CannotGrade("it names no assignment: rename the file as in ann-part-2.ipynb")
    source = options.source / f"{names[0]}.ipynb"
    if not source.is_file():
        raise CannotGrade(f"there is no {source}: say with --source where the assignments are")
    return source


def student_of(path):
    """The student's name: what the file's name adds to the assignment's, else the folder's."""
    own = ASSIGNMENT.search(path.stem) and ASSIGNMENT.sub("", path.stem).strip(" -_.")
    above = [p for p in reversed(path.resolve().parent.parts) if not ASSIGNMENT.fullmatch(p)]
    return own or [*above, "somebody"][0]


@contextlib.contextmanager
def table(options):
    """A function that adds a report to the table at once, so that a later failure loses none."""
    if options.csv is None:
        yield lambda report: None
        return
    parts = {}
    for source in sorted(options.source.glob("*.ipynb")):
        graded = [c for c in cells_of(read(source)) if c.kind in ("tests", "person")]
        parts |= dict.fromkeys(c.name.removesuffix("-tests") for c in graded)
    header = ["student", "assignment", "points", "of", *sorted(parts), "notes", "file"]
    with options.csv.open("w", newline="", encoding="utf-8") as file:
        rows = csv.DictWriter(file, header)
        rows.writeheader()

        def add(report):
            counted = [v for v in report.verdicts if v.points is not None]
            row = {v.question: v.points for v in counted}
            row |= {"student": report.student, "assignment": report.assignment}
            row |= {"points": sum(v.points for v in counted), "of": sum(v.of for v in counted)}
            row |= {"notes": "; ".join(map(plain, report.notes)), "file": report.file}
            rows.writerow({k: no_formula(v) for k, v in row.items()})
            file.flush()

        yield add


def no_formula(value):
    """A table's entry that a spreadsheet does not take for a formula."""
    starts_one = isinstance(value, str) and value.startswith(("=", "+", "-", "@"))
    return f"'{value}" if starts_one else value


def keep_feedback(report, folder):
    """Write the report into ``folder/student/assignment.txt``."""
    if folder:
        path = folder / report.student / f"{report.assignment}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(told(report), encoding="utf-8")


def plain(words):
    """Words of a submission on one line, cut short, without signs that steer a terminal."""
    return "".join(c if c.isprintable() else " " for c in " ".join(words.split()))[:1000]


def told(report):
    """The report as text."""
    counted = [v for v in report.verdicts if v.points is not None]
    total = Verdict("total", sum(v.points for v in counted), sum(v.of for v in counted), "")
    lines = [f"{report.student}: {report.assignment} ({report.file})"]
    for name, points, of, reason in [*report.verdicts, total]:
        shown = f"{'?' if points is None else f'{points:g}'} of {of:g}"
        lines.append(f"  {name:<8} {shown:>10}   {plain(reason)}".rstrip())
    return "\n".join([*lines, *(f"  note: {plain(note)}" for note in report.notes), ""])


if __name__ == "__main__":
    sys.exit(main())
