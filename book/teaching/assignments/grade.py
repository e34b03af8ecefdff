"""Grade submitted notebooks: points for each part of a question, with the reason.

    python grade.py submission.ipynb                      # one submission
    python grade.py submissions/*.ipynb --csv marks.csv   # a whole class

The assignments are read from the folder ``source`` beside this file, or from ``--source``.

Only the answers and the code cells that the student added to a submission are run, in order; setup
and tests come from the source.  A submission runs in its own kernel, in an empty temporary folder,
on the CPU, with few of your environment variables, and its output is discarded.  Before each cell,
the names of the setup and Python's built-in names are restored.  A cell that runs too long, needs
too much memory or ends Python loses only the points of its own question.

**This does not protect you from a submission written to deceive.**  The code runs as you: it can
read the hidden tests and your files, and use the network.  Grade strangers' code in a container
without a network; the guide's page on grading shows one.
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

SETUP_SECONDS = 180  # the limit for the assignment's own cells, which load torch
UNANSWERED = re.compile(r"YOUR CODE HERE|raise NotImplementedError\(\)|YOUR ANSWER HERE|^\s*$")
HIDDEN = re.compile(r"^ *### BEGIN HIDDEN TESTS\n.*?### END HIDDEN TESTS *$", re.S | re.M)
KEPT = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
HOMES = ("HOME", "USERPROFILE", "TMPDIR", "TEMP", "IPYTHONDIR")
FIXED = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "MPLBACKEND": "agg"}
FIXED |= {"PYTHONUTF8": "1", "PYTHONHASHSEED": "0"}
#: Code that runs first: it drops output, sets limits, and restores names before each cell.
FIRST = """
import builtins as _builtins, contextlib as _contextlib, os as _os, sys as _sys
_sys.stdout = _sys.stderr = open(_os.devnull, "w")
with _contextlib.suppress(ImportError, ValueError, OSError):
    import resource as _resource
    _resource.setrlimit(_resource.RLIMIT_DATA, ({megabytes} << 20,) * 2)
    _resource.setrlimit(_resource.RLIMIT_FSIZE, (32 << 20,) * 2)
_given, _before = {{}}, {{}}
def _restore(cell):
    global _before
    for name in [n for n in dir(_builtins) if n in globals() and n[:2] != "__"]:
        del globals()[name]
    globals().update(_given)
    _before = dict(globals())
def _remember():
    _given.update({{k: v for k, v in globals().items() if _before.get(k, _given) is not v}})
get_ipython().events.register("pre_run_cell", _restore)
"""

#: ``kind`` is "setup", "answer", "tests", "text", or "person": an answer that a person grades.
Cell = namedtuple("Cell", "name kind points source")
#: The result for a part of a question: ``points`` out of ``of``; None if a person grades it.
Verdict = namedtuple("Verdict", "question points of reason")
Report = namedtuple("Report", "file assignment verdicts notes")


class CannotGrade(Exception):
    """A submission cannot be graded; the message says why."""


def read(path):
    """The notebook in a file; raises CannotGrade if the file is not a notebook."""
    try:
        return nbformat.reads(path.read_text(encoding="utf-8"), as_version=4)
    except Exception as error:  # a broken file can raise any error
        raise CannotGrade(f"the file cannot be read as a notebook: {error}") from None


def cells_of(notebook):
    """Yield each cell of a notebook as a Cell; without nbgrader's metadata its name is empty."""
    for cell in notebook.cells:
        mark, kind = cell.metadata.get("nbgrader") or {}, "text"
        if mark.get("solution"):
            kind = "person" if mark.get("grade") else "answer"
        elif cell.cell_type == "code":
            kind = "tests" if mark.get("grade") else "setup"
        yield Cell(mark.get("grade_id", ""), kind, mark.get("points"), cell.source)


def sorted_out(names, submission):
    """({name: source}, {name: code added after the cell}); if names repeat, the last counts."""
    found, added, last = {}, {}, ""
    for cell in submission:
        if cell.name in names:
            found[last := cell.name] = cell.source
        elif cell.kind != "text" and cell.source.strip():
            added.setdefault(last, []).append(cell.source)
    return found, added


def grade(path, source, seconds=60, megabytes=2048):
    """The Report on the submission at ``path``, graded against the assignment at ``source``."""
    cells = list(cells_of(read(source)))
    found, added = sorted_out({cell.name for cell in cells} - {""}, cells_of(read(path)))
    own = {"limits", *(cell.name for cell in cells if cell.kind == "setup")}
    steps = assembled(cells, found, added, megabytes)
    errors = run(steps, lambda name: SETUP_SECONDS if name in own else seconds)
    for name in errors.keys() & own:
        raise CannotGrade(f"the assignment's cell {name} {errors[name]}: is all installed?")
    verdicts, changes = verdicts_on(cells, found, errors), notes(cells, found, errors)
    return Report(str(path), source.stem, list(verdicts), list(changes))


def assembled(cells, found, added, megabytes):
    """The code cells to run, in order, each with its name in its metadata."""
    steps = [("limits", FIRST.format(megabytes=int(megabytes)))]
    for name, kind, _, source in cells:
        code = {"setup": f"{source}\n_remember()", "tests": source, "answer": found.get(name, "")}
        steps += [(name, code[kind])] if kind in code else []
        steps += [(f"a cell added after {name}", code) for code in added.get(name, ())]
    return [nbformat.v4.new_code_cell(code, metadata={"name": name}) for name, code in steps]


def run(steps, seconds_for):
    """Run the cells, then rerun them without any that were stopped; return {name: error}."""
    notebook, stopped = nbformat.v4.new_notebook(cells=steps), {}
    while ended := run_once(notebook, seconds_for):
        stopped |= ended
        notebook.cells = [cell for cell in steps if cell.metadata.name not in stopped]
    return {cell.metadata.name: e for cell in notebook.cells if (e := error_of(cell))} | stopped


def run_once(notebook, seconds_for):
    """Run the cells; return {name: reason} for the cell that ended the run, or {} if all ran."""
    client = NotebookClient(notebook, allow_errors=True, extra_arguments=["--log-level=CRITICAL"])
    begun = []
    client.timeout_func = lambda cell: seconds_for(cell.metadata.name)
    client.on_cell_start = lambda cell, cell_index: begun.append(cell.metadata.name)
    with tempfile.TemporaryDirectory(prefix="grading-", ignore_cleanup_errors=True) as folder:
        kept = {name: value for name, value in os.environ.items() if name in KEPT}
        try:
            client.execute(cwd=folder, env=kept | dict.fromkeys(HOMES, folder) | FIXED)
        except CellTimeoutError:
            return {begun[-1]: f"ran longer than {seconds_for(begun[-1]):g} s and was stopped"}
        except DeadKernelError:
            return {begun[-1]: "ended Python, or ran out of memory"}
    return {}


def error_of(cell):
    for output in cell.outputs:
        if output.output_type == "error":
            asserted = output.ename == "AssertionError" and output.evalue
            return asserted or f"stops with {output.ename}: {output.evalue}"
    return ""


def verdicts_on(cells, found, errors):
    """Yield a Verdict for each part of a question; only tests that ran and passed give points."""
    answers, tested = [], False  # names of the answers that the next tests grade
    for name, kind, of, _ in cells:
        if kind == "answer":
            answers, tested = [*([] if tested else answers), name], False
        elif kind == "person":
            reason = "not answered" if UNANSWERED.search(found.get(name, "")) else "see the rubric"
            yield Verdict(name, None, of, reason)
        elif kind == "tests":
            reason = shortcoming(name, answers, found, errors)
            yield Verdict(name.removesuffix("-tests"), 0 if reason else of, of, reason or "right")
            tested = True


def shortcoming(tests, answers, found, errors):
    """Why a part of a question scores no points, or "" if it scores them."""
    if any(UNANSWERED.search(found.get(answer, "")) for answer in answers):
        return "not answered"
    reasons = [f"the answer {errors[answer]}" for answer in answers if answer in errors]
    return [*reasons, errors[tests]][0] if tests in errors else ""


def notes(cells, found, errors):
    """Yield notes on changed or missing setup and tests, and on errors in added cells."""
    visible = lambda source: HIDDEN.sub("", source).split()  # editors may change white space
    for name, kind, _, source in cells:
        if kind in ("setup", "tests") and visible(found.get(name, "")) != visible(source):
            yield f"{name} was changed or is missing; the original was used"
    yield from (f"{name} {why}" for name, why in errors.items() if name.startswith("a cell added"))


def main(arguments=None):
    """Grade the submissions; return 1 if any of them could not be graded, else 0."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("submissions", nargs="+", type=Path, metavar="submission.ipynb")
    parser.add_argument("--source", type=Path, default=Path(__file__).resolve().parent / "source")
    parser.add_argument("--seconds", type=float, default=60, help="for one cell (60)")
    parser.add_argument("--megabytes", type=float, default=2048, help="of memory (2048)")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write a table of the points")
    options = parser.parse_args(arguments)
    reports, limits = [], (options.seconds, options.megabytes)
    for path in options.submissions:
        try:
            reports.append(grade(path, source_for(path, options), *limits))
            print(told(reports[-1]), flush=True)
        except CannotGrade as why:
            print(f"{path}\n  not graded: {why}\n", flush=True)
    if options.csv:
        write_table(reports, options.csv)
    return int(len(reports) < len(options.submissions))


def source_for(path, options):
    """The path of the assignment that a submission names in its metadata or its file name."""
    named = [read(path).metadata.get("assignment", {}).get("id")]
    named += re.findall(r"(?:part|sheet)-\d+", path.name)
    source = options.source / f"{next(filter(None, named), None)}.ipynb"
    if not source.is_file():
        raise CannotGrade(f"there is no {source}: say --source, or name the file as in ann-part-2")
    return source


def told(report):
    """The report as text; each passage from the submission is put on one line and cut short."""
    in_a_line = lambda words: " ".join(words.split())[:1000]
    counted = [v for v in report.verdicts if v.points is not None]
    total = Verdict("total", sum(v.points for v in counted), sum(v.of for v in counted), "")
    lines = [f"{report.file}: {report.assignment}"]
    for name, points, of, reason in [*report.verdicts, total]:
        shown = f"{'?' if points is None else f'{points:g}'} of {of:g}"
        lines.append(f"  {name:<8} {shown:>10}   {in_a_line(reason)}".rstrip())
    return "\n".join([*lines, *(f"  note: {in_a_line(note)}" for note in report.notes), ""])


def write_table(reports, path):
    """Write a CSV row for each submission: its points by question, then the reasons."""
    rows = [
        {"file": file, "assignment": assignment, "points": sum(v.points or 0 for v in verdicts)}
        | {v.question: v.points for v in verdicts}
        | {f"{v.question}: why": v.reason for v in verdicts}
        for file, assignment, verdicts, _ in reports
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(dict.fromkeys(name for row in rows for name in row)))
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
