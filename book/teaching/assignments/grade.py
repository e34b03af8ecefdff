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
import contextlib
import csv
import json
import os
import queue
import re
import signal
import subprocess
import symtable
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
        if not path.is_file() or path.stat().st_size > LARGEST_NOTEBOOK:
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


def steps_for(cells, found, added):
    """The steps to run, in order: {"name", "kind", "source", "names" that an answer defines}."""
    names, number = [], 0
    for name, kind, _, source in cells:
        if kind in ("answer", "formulas"):
            table = symtable.symtable(source, name, "exec")
            names = [known.get_name() for known in table.get_symbols() if known.is_assigned()]
            source = found.get(name, [""])[-1]
        if kind not in ("text", "person"):
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
    errors = run(list(steps_for(cells, found, added)), limits or Limits(), list(words))
    verdicts, told = verdicts_on(cells, found, errors), notes(cells, found, errors)
    return Report(student_of(path), source.stem, str(path), list(verdicts), list(told))


def run(steps, limits, words):
    """{name: what is wrong, or ""} of all steps; they run again without one that was stopped.

    Raises CannotGrade if a step of the assignment's own setup fails.
    """
    stopped, end = {}, time.monotonic() + 60 * limits.minutes
    late = f"was not run to its end within {limits.minutes:g} minutes for one notebook"
    own = [step["name"] for step in steps if step["kind"] == "setup"]
    while True:
        left = [step for step in steps if step["name"] not in stopped]
        errors, why = run_once(left, limits, words, end)
        missing = [step["name"] for step in left if step["name"] not in errors]
        if missing and time.monotonic() > end:
            return stopped | errors | dict.fromkeys(missing, late)
        stopped |= dict.fromkeys(missing[:1], why)
        for name, error in (stopped | errors).items():
            if error and name in own:
                raise CannotGrade(f"the assignment's cell {name} {error}: is all installed?")
        if not missing:
            return stopped | errors


def run_once(steps, limits, words, end):
    """({name: error} of the steps that ended, why the next one did not end)."""
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
        if "--" in words:
            at = words.index("--")
            words = [*words[:at], str(judges), str(answers), *words[at:]]
        task = {"steps": steps, "wall": words, "folder": str(answers)}
        try:
            return followed(judge, task | {"megabytes": limits.megabytes}, limits.seconds, end)
        finally:
            end_all(judge)


def followed(judge, task, seconds, end):
    """What ``run_once`` returns, from the errors that the judging process writes."""
    events, errors = queue.Queue(), {}
    threading.Thread(target=listen, args=(judge, task, events), daemon=True).start()
    for step in task["steps"]:
        patience = SETUP_SECONDS if step["kind"] == "setup" or not errors else seconds
        try:
            error = events.get(timeout=max(0, min(patience, end - time.monotonic())))
        except queue.Empty:
            return errors, f"ran longer than {patience:g} s and was stopped"
        if error is None:
            return errors, "ended Python, or ran out of memory"
        errors[step["name"]] = error
    return errors, ""


def listen(judge, task, events):
    """Send the task and put the error of each step into the queue, and None at the end."""
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
    answered = lambda name: not UNANSWERED.search(found.get(name, [""])[-1])
    for name, kind, of, _ in cells:
        if kind in ("answer", "formulas"):
            answer = name
        elif kind == "person":
            yield Verdict(name, None, of, "see the rubric" if answered(name) else "not answered")
        elif kind == "tests":
            reason = f"the answer {errors[answer]}" if errors[answer] else errors[name]
            reason = reason if answered(answer) else "not answered"
            yield Verdict(name.removesuffix("-tests"), 0 if reason else of, of, reason or "right")


def notes(cells, found, errors):
    """Yield notes on changed, missing or repeated cells, and on errors in added cells."""
    visible = lambda source: HIDDEN.sub("", source).split()  # editors may change white space
    for name, kind, _, source in cells:
        sources = found.get(name, [])
        if kind in ("setup", "tests") and visible([*sources, ""][0]) != visible(source):
            yield f"{name} was changed or is missing; the original was used"
        elif kind in ("answer", "formulas", "person") and len(sources) > 1:
            yield f"{name} is there {len(sources)} times; only the last of these cells counts"
    yield from (f"{k} {error}" for k, error in errors.items() if error and k.startswith("added "))


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
    add = table(options)
    for path in paths:
        try:
            report = grade(path, source_for(path, options), limits, words)
        except CannotGrade as why:
            print(f"{path}\n  not graded: {plain(str(why))}\n", flush=True)
            continue
        graded += 1
        print(told(report), flush=True)
        add(report)
        if options.feedback:
            text = options.feedback / report.student / f"{report.assignment}.txt"
            text.parent.mkdir(parents=True, exist_ok=True)
            text.write_text(told(report), encoding="utf-8")
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
    return [one for one in folders if not any(path.is_relative_to(one) for path in needed)]


def source_for(path, options):
    """The assignment that a submission names: in its file's name, its folder's or its metadata."""
    inside = read(path).metadata.get("assignment")
    inside = inside.get("id") if isinstance(inside, dict) else ""
    said = [ASSIGNMENT.search(str(name)) for name in (path.name, path.parent.name, inside)]
    names = {found[0] for found in said if found}
    if len(names) != 1:
        several = " and ".join(sorted(names)) or "no assignment"
        raise CannotGrade(f"it names {several}: rename the file as in ann-part-2.ipynb")
    source = options.source / f"{names.pop()}.ipynb"
    if not source.is_file():
        raise CannotGrade(f"there is no {source}: say with --source where the assignments are")
    return source


def student_of(path):
    """The student's name: what the file's name adds to the assignment's, else the folder's."""
    own = ASSIGNMENT.search(path.stem) and ASSIGNMENT.sub("", path.stem).strip(" -_.")
    above = [p for p in reversed(path.resolve().parent.parts) if not ASSIGNMENT.fullmatch(p)]
    return own or [*above, "somebody"][0]


def table(options):
    """A function that adds a report to the table at once, so that a later failure loses none."""
    if options.csv is None:
        return lambda report: None
    cells = [c for source in options.source.glob("*.ipynb") for c in cells_of(read(source))]
    parts = {c.name.removesuffix("-tests") for c in cells if c.kind in ("tests", "person")}
    parts = sorted(parts)

    def write(row, mode="a"):
        with options.csv.open(mode, newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(map(no_formula, row))

    def add(report):
        got, notes = {v.question: v.points for v in report.verdicts}, map(plain, report.notes)
        points = [*total(report), *(got.get(part) for part in parts)]
        write([report.student, report.assignment, *points, "; ".join(notes), report.file])

    write(["student", "assignment", "points", "of", *parts, "notes", "file"], "w")
    return add


def no_formula(value):
    """A table's entry that a spreadsheet does not take for a formula."""
    starts_one = isinstance(value, str) and value.startswith(("=", "+", "-", "@"))
    return f"'{value}" if starts_one else value


def total(report):
    """The points that the program awards, and their maximum."""
    counted = [verdict for verdict in report.verdicts if verdict.points is not None]
    return sum(verdict.points for verdict in counted), sum(verdict.of for verdict in counted)


def plain(words):
    """Words of a submission on one line, cut short, without signs that steer a terminal."""
    return "".join(c if c.isprintable() else " " for c in " ".join(words.split()))[:1000]


def told(report):
    """The report as text."""
    lines = [f"{report.student}: {report.assignment} ({report.file})"]
    for name, points, of, reason in [*report.verdicts, Verdict("total", *total(report), "")]:
        shown = f"{'?' if points is None else f'{points:g}'} of {of:g}"
        lines.append(f"  {name:<8} {shown:>10}   {plain(reason)}".rstrip())
    return "\n".join([*lines, *(f"  note: {plain(note)}" for note in report.notes), ""])


if __name__ == "__main__":
    sys.exit(main())
