"""Grade submitted notebooks: points for each question, with the reason.

    python grade.py submission.ipynb                      # one
    python grade.py submissions/*.ipynb --csv marks.csv   # a class

The assignments are read from the folder ``source`` beside this file; ``--source`` names another.
It needs Python 3.11 or newer, nbclient, ipykernel, and what the assignments need.

Of a submission only the answers count, and the code cells that the student added, which run in
their place.  Everything else comes from the source: setup and tests, the hidden ones too.  A
submission runs in a kernel of its own, in an empty folder that is removed, on the CPU, with no
variable of yours but the search path; what it prints is thrown away.  Before each answer and each
test the names of the setup and of Python get their meaning back, so an answer that overwrites one
costs its own question only.  So does a cell that runs too long (60 s, ``--seconds``) or ends
Python, as one does that needs more memory than the system lets it have (2048 MB,
``--megabytes``): the rest is run again without it.

**This is no wall against a submission written to deceive.**  It runs as you: it can read the hidden
tests and your files, and use the network.  Strangers' code belongs into a container without
network; the guide's page on grading shows one.
"""

import argparse
import csv
import os
import re
import sys
import tempfile
from collections import namedtuple
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

SETUP_SECONDS = 180  # for the assignment's own cells, which load torch
MOST_RUNS = 8  # of one submission: each but the last stopped at another cell
UNANSWERED = re.compile(r"YOUR CODE HERE|raise NotImplementedError\(\)|YOUR ANSWER HERE")
HIDDEN = re.compile(r"^ *### BEGIN HIDDEN TESTS\n.*?### END HIDDEN TESTS *\n?", re.S | re.M)
KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
FIRST = """
import builtins as _builtins
_print = _builtins.print
def _print_to_files(*words, file=None, **options):
    if file is not None:
        _print(*words, file=file, **options)
_builtins.print = _print_to_files
try:
    import resource as _resource
    _resource.setrlimit(_resource.RLIMIT_DATA, ({megabytes} << 20,) * 2)
    _resource.setrlimit(_resource.RLIMIT_FSIZE, (32 << 20,) * 2)
except (ImportError, ValueError, OSError):
    pass
_given, _before = {{}}, {{}}
def _restore():
    for name in [n for n in dir(_builtins) if n in globals() and n[:2] != "__"]:
        del globals()[name]
    globals().update(_given)
"""
RESTORE = "_restore()"
BEFORE_SETUP = "_restore(); _before = dict(globals())"
AFTER_SETUP = "_given |= {k: v for k, v in globals().items() if _before.get(k, _given) is not v}"

#: Points for a question, and why; ``points`` is None where a person gives them.
Verdict = namedtuple("Verdict", "question points of reason")
Report = namedtuple("Report", "file assignment verdicts notes")


class CannotGrade(Exception):
    """This submission cannot be graded; says why."""


# ── What is to be run ─────────────────────────────────────────────────────────────────────


def read(path):
    """A notebook file; CannotGrade says what is wrong with it."""
    try:
        return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except OSError as error:
        raise CannotGrade(f"the file cannot be read: {error.strerror}") from None
    except Exception:  # whatever JSON can hold that is no notebook
        raise CannotGrade("the file is not a notebook of format 4") from None


def mark(cell):
    """nbgrader's metadata of a cell, by which it is setup, an answer or tests."""
    return cell.metadata.get("nbgrader") or {}


def name_of(cell):
    return mark(cell).get("grade_id", "")


def kind_of(cell):
    """setup, tests, answer, or text; and person, for an answer that a person grades."""
    if mark(cell).get("solution"):
        return "person" if mark(cell).get("grade") else "answer"
    return "text" if cell.cell_type != "code" else "tests" if mark(cell).get("grade") else "setup"


def sorted_out(source, submission):
    """({name: submitted cell}, {name: code cells added after it}); the last cell of a name counts.

    A cell whose metadata was lost is known by its id.
    """
    names = {name_of(cell) for cell in source.cells} - {""}
    by_id = {cell.get("id"): name_of(cell) for cell in source.cells}
    found, added, last = {}, {}, ""
    for cell in submission.cells:
        name = name_of(cell) or by_id.get(cell.get("id"))
        if name in names:
            found[name], last = cell, name
        elif cell.cell_type == "code" and cell.source.strip():
            added.setdefault(last, []).append(cell.source)
    return found, added


def assembled(source, found, added, megabytes):
    """[(name, code)] in the order to run; the grader's own cells have no name."""
    steps = [("", FIRST.format(megabytes=int(megabytes)))]
    for cell in source.cells:
        name, kind = name_of(cell), kind_of(cell)
        if kind == "answer":
            steps += [("", RESTORE), (name, found[name].source if name in found else "")]
        elif kind == "tests":
            steps += [("", RESTORE), (name, cell.source)]
        elif kind == "setup":
            steps += [("", BEFORE_SETUP), (name, cell.source), ("", AFTER_SETUP)]
        steps += [(f"a cell added after {name}", text) for text in added.get(name, ())]
    return steps


def run(steps, setup, seconds):
    """{name: the error of a cell}: run again without a cell that had to be stopped."""
    stopped = {}
    for _ in range(MOST_RUNS):
        errors, culprit, why = run_once([s for s in steps if s[0] not in stopped], setup, seconds)
        errors |= stopped
        if wrong := [name for name in errors.keys() | {culprit} if name in setup]:
            raise CannotGrade(f"the assignment's own cell {wrong[0]} {errors.get(wrong[0], why)}: "
                              "is everything installed that it needs?")  # fmt: skip
        if culprit is None:
            return errors
        stopped[culprit] = why
    raise CannotGrade(f"it had to be stopped {MOST_RUNS} times")


def run_once(steps, setup, seconds):
    """(errors by name, the cell that ended the run or None, how it did)."""
    notebook, errors = nbformat.v4.new_notebook(), {}
    with tempfile.TemporaryDirectory(prefix="grading-", ignore_cleanup_errors=True) as folder:
        quiet = ["--log-level=CRITICAL"]
        client = NotebookClient(notebook, allow_errors=True, extra_arguments=quiet)
        with client.setup_kernel(cwd=folder, env=environment(folder)):
            for name, code in steps:
                client.timeout = SETUP_SECONDS if name in setup | {""} else seconds
                notebook.cells = [cell := nbformat.v4.new_code_cell(code)]
                try:
                    client.execute_cell(cell, 0)
                except CellTimeoutError:
                    return errors, name, f"ran longer than {client.timeout:g} s and was stopped"
                except DeadKernelError:
                    return errors, name, "ended Python, or ran out of memory"
                if error := error_of(cell):
                    errors[name] = error
    return errors, None, ""


def environment(folder):
    """The search paths, and a home of its own; no other variable of the teacher's."""
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    own = dict.fromkeys(("HOME", "USERPROFILE", "TMPDIR", "TEMP", "IPYTHONDIR"), folder)
    fixed = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg"}
    return kept | own | fixed | {"PYTHONUTF8": "1", "PYTHONHASHSEED": "0"}


def error_of(cell):
    """The error that a cell ended with, in words; empty where it ran."""
    for output in cell.outputs:
        if output.output_type == "error":
            asserted = output.ename == "AssertionError" and output.evalue
            return asserted or f"stops with {output.ename}: {output.evalue}"
    return ""


# ── What it is worth ──────────────────────────────────────────────────────────────────────


def grade(path, source, assignment, seconds=60, megabytes=2048):
    """The Report on one submission."""
    found, added = sorted_out(source, read(path))
    setup = {name_of(cell) for cell in source.cells if kind_of(cell) == "setup"}
    errors = run(assembled(source, found, added, megabytes), setup, seconds)
    verdicts, answers = [], []
    for cell in source.cells:
        kind = kind_of(cell)
        if kind == "person":
            given = "not answered" if unanswered(found.get(name_of(cell))) else "see the rubric"
            verdicts.append(Verdict(name_of(cell), None, mark(cell)["points"], given))
        elif kind == "answer":
            answers.append(name_of(cell))
        elif kind == "tests":
            verdicts.append(verdict(cell, answers, found, errors))
            answers = []
    return Report(str(path), assignment, verdicts, list(notes(source, found, errors)))


def unanswered(cell):
    return cell is None or not cell.source.strip() or bool(UNANSWERED.search(cell.source))


def verdict(tests, answers, found, errors):
    """The points for one question: only tests that ran and passed give any."""
    name, of = name_of(tests).removesuffix("-tests"), mark(tests)["points"]
    if any(unanswered(found.get(answer)) for answer in answers):
        return Verdict(name, 0, of, "not answered")
    if name_of(tests) not in errors:
        return Verdict(name, of, of, "right")
    reasons = [f"the answer {errors[answer]}" for answer in answers if answer in errors]
    return Verdict(name, 0, of, (reasons or [errors[name_of(tests)]])[0])


def notes(source, found, errors):
    """What was changed that is not the student's to change; what went wrong in added cells."""
    for cell in source.cells:
        name = name_of(cell)
        if kind_of(cell) in ("setup", "tests"):
            allowed = tidy(cell.source), tidy(HIDDEN.sub("", cell.source))
            if name not in found or tidy(found[name].source) not in allowed:
                yield f"{name} was changed or is missing; the original was used"
    yield from (f"{name} {why}" for name, why in errors.items() if name.startswith("a cell added"))


def tidy(text):
    """A source without markers, and without the blanks that an editor changes."""
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return "\n".join(line for line in lines if not line.lstrip().startswith("### "))


# ── The command ───────────────────────────────────────────────────────────────────────────


def told(report):
    """The report in words; what a submission made up stays on its line."""
    counted = [v for v in report.verdicts if v.points is not None]
    total = Verdict("total", sum(v.points for v in counted), sum(v.of for v in counted), "")
    lines = [f"{report.file}: {report.assignment}"]
    for name, points, of, reason in [*report.verdicts, total]:
        shown = f"{'?' if points is None else f'{points:g}'} of {of:g}"
        lines.append(f"  {name:<8} {shown:>10}   {' '.join(reason.split())[:1000]}".rstrip())
    return "\n".join([*lines, *(f"  note: {' '.join(n.split())[:400]}" for n in report.notes), ""])


def main(arguments=None):
    """0: everything was graded. 1: something could not be. 2: the command makes no sense."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("submissions", nargs="+", type=Path, metavar="submission.ipynb")
    parser.add_argument("--source", type=Path, default=Path(__file__).resolve().parent / "source")
    parser.add_argument("--assignment", help="which one, as in part-2, where a file does not say")
    parser.add_argument("--seconds", type=float, default=60, help="for one cell (60)")
    parser.add_argument("--megabytes", type=float, default=2048, help="of memory (2048)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a table of the points")
    options = parser.parse_args(arguments)
    if not options.source.is_dir():
        parser.error(f"there are no assignments in {options.source}: --source names their folder")
    reports = []
    for path in options.submissions:
        try:
            reports.append(report_on(path, options))
            print(told(reports[-1]), flush=True)
        except CannotGrade as why:
            print(f"{path}\n  not graded: {' '.join(str(why).split())[:1000]}\n", flush=True)
    if options.csv:
        write_table(reports, options.csv)
    return int(len(reports) < len(options.submissions))


def report_on(path, options):
    """The report on one file, whichever assignment it is."""
    about = read(path).metadata.get("assignment", {})
    said = re.search(r"part-\d+", path.name)
    name = options.assignment or about.get("id") or (said and said[0])
    if not (options.source / f"{name}.ipynb").is_file():
        raise CannotGrade(f"there is no assignment {name} in {options.source}: say --assignment")
    source = read(options.source / f"{name}.ipynb")
    return grade(path, source, name, options.seconds, options.megabytes)


def write_table(reports, path):
    """A row for each submission: its points, question by question, then the reasons."""
    rows = []
    for r in reports:
        row = {"file": r.file, "assignment": r.assignment}
        row["points"] = sum(v.points or 0 for v in r.verdicts)
        row |= {v.question: v.points for v in r.verdicts}
        rows.append(row | {f"{v.question}: why": v.reason for v in r.verdicts})
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
