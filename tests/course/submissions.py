"""What the tests of the assignments share: a small assignment, submissions, the grader's command."""

import copy
import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import assignments
import grade
import nbformat
import yaml

PYTHON = sys.executable
GRADER = Path(grade.__file__)
ANSWERS = Path(__file__).resolve().parent / "answers"
PARTS = ("part-1", "part-2", "part-3", "part-4")


# ---- a small assignment -------------------------------------------------------------


def marked(name, source, kind="code", **mark):
    """A cell with nbgrader's metadata."""
    flags = {"grade": False, "solution": False, "locked": True, "task": False}
    mark = {**flags, **mark, "grade_id": name, "schema_version": 3, "cell_type": kind}
    new = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    return new(textwrap.dedent(source).strip(), metadata={"nbgrader": mark}, id=name)


def answer(name, source, kind="code", **mark):
    return marked(name, source, kind, solution=True, locked=False, **mark)


def graded_by(name, source, points):
    return marked(name, source, grade=True, points=points)


SETUP = """
    import math

    import torch
    from derivation import Derivation, attempt, matrix, proves, sizes

    m, n = sizes("m n")
    S = matrix("S", m, n)


    def close(measured, expected):
        return abs(measured - expected) < 1e-9
"""
Q1 = """
    def double(x):
        '''Twice x.'''
        ### BEGIN SOLUTION
        return 2 * x
        ### END SOLUTION
"""
Q1_TESTS = """
    assert double(3) == 6, "double(3) must be 6"
    ### BEGIN HIDDEN TESTS
    assert double(-5) == -10, "double(-5) must be -10"
    ### END HIDDEN TESTS
"""
Q2 = """
    # Define half_turn, in radians.
    ### BEGIN SOLUTION
    half_turn = math.pi
    ### END SOLUTION
"""
Q2_TESTS = 'assert close(half_turn, 3.141592653589793), "half_turn is half a turn, in radians"'
Q3 = """
    # Define twice, the theorem that S + S equals 2 S.
    ### BEGIN SOLUTION
    twice = attempt(lambda: Derivation("twice", S + S).by(2 * S).qed())
    ### END SOLUTION
"""
Q3_TESTS = 'assert proves(twice, S + S, 2 * S), f"no such theorem: {twice!r}"'
Q4 = "### BEGIN SOLUTION\nIn words.\n### END SOLUTION"


def small_source():
    """An assignment with three questions for tests and one for a person."""
    return assignment(
        "small",
        answer("q1", Q1),
        graded_by("q1-tests", Q1_TESTS, 1),
        answer("q2", Q2),
        graded_by("q2-tests", Q2_TESTS, 2),
        answer("q3", Q3),
        graded_by("q3-tests", Q3_TESTS, 4),
        answer("q4", Q4, "markdown", grade=True, points=3),
    )


def wide_source(count):
    """An assignment that asks question 2 so often, each time for another name, and between them
    for a right answer: the theorem of question 3."""
    cells = []
    for number in range(count):
        for name, asked, tested in (("q", Q2, Q2_TESTS), ("right", Q3, Q3_TESTS)):
            cells.append(answer(f"{name}{number}", numbered(asked, number)))
            cells.append(graded_by(f"{name}{number}-tests", numbered(tested, number), 1))
    return assignment("wide", *cells)


def numbered(text, number):
    """A question or an answer with its number in the names that it asks for."""
    return re.sub(r"\b(half_turn|twice)\b", rf"\1_{number}", text)


def assignment(name, *cells):
    """An assignment of these cells, behind a setup."""
    cells = [marked("about", "# An assignment", "markdown"), marked("setup", SETUP), *cells]
    metadata = {
        "assignment": {"id": name, "title": "An assignment"},
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def write_versions(source, folder):
    """The three versions of an assignment below a folder; {version: path}."""
    paths = {}
    for version, text in assignments.versions(source).items():
        paths[version] = folder / version / source.name
        paths[version].parent.mkdir(parents=True, exist_ok=True)
        paths[version].write_text(text, encoding="utf-8")
    return paths


# ---- submissions --------------------------------------------------------------------


def cell(notebook, name):
    """The cell of that name."""
    return next(c for c in notebook.cells if c.metadata.get("nbgrader", {}).get("grade_id") == name)


def with_answers(solution, **sources):
    """A solved notebook in which some cells hold something else."""
    notebook = copy.deepcopy(solution)
    for name, source in sources.items():
        cell(notebook, name).source = textwrap.dedent(source).strip("\n")
    return notebook


def in_the_place_of_the_solution(source, code):
    """The source of an answer in which ``code`` stands where the solution stood."""
    lines = textwrap.dedent(code).strip("\n").split("\n")
    return grade.without(source, grade.SOLUTION, lines)[0]


def answers_to(part):
    """{question: {"wrong": [code], "otherwise": [code]}} of an assignment."""
    stored = yaml.safe_load((ANSWERS / f"{part}.yml").read_text(encoding="utf-8"))
    code = lambda entry: entry["code"] if isinstance(entry, dict) else entry
    return {
        name: {kind: [code(entry) for entry in entries] for kind, entries in kinds.items()}
        for name, kinds in stored.items()
    }


# ---- the grader's command -----------------------------------------------------------


@dataclass
class Graded:
    """What the command said, what it took, and what it left behind."""

    code: int
    text: str
    errors: str
    seconds: float
    megabytes: float
    left: list
    report: dict

    def points(self):
        return {v["question"]: v["points"] for v in self.report["verdicts"]}

    def reason(self, question):
        return next(v["reason"] for v in self.report["verdicts"] if v["question"] == question)

    @property
    def notes(self):
        return "\n".join(self.report["notes"])


#: Runs a command and writes down its seconds and its largest size.  It is a small process itself:
#: to Linux a process has been as large as the one that started it, and the tests' own is large.
MEASURED = """
import json, resource, subprocess, sys, time
start = time.monotonic()
code = subprocess.call(sys.argv[2:])
took = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
with open(sys.argv[1], "w") as file:
    json.dump(took, file)
sys.exit(code)
"""


def run_grader(folder, *arguments, **variables):
    """Run ``grade.py`` as a teacher would, with a folder of its own for temporary files."""
    temporary, told, took = folder / "temporary", folder / "told.json", folder / "took.json"
    temporary.mkdir(exist_ok=True)
    command = [PYTHON, str(GRADER), "--json", str(told), *map(str, arguments)]
    with (folder / "out").open("w+") as out, (folder / "err").open("w+") as err:
        process = subprocess.run(
            [PYTHON, "-c", MEASURED, str(took), *command],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env={**os.environ, "TMPDIR": str(temporary), **variables},
        )
        texts = [(file.seek(0), file.read())[1] for file in (out, err)]
    reports = json.loads(told.read_text()) if told.exists() else [None]
    left = [path.name for path in temporary.iterdir()]
    seconds, size = json.loads(took.read_text())
    megabytes = size / (1024 if sys.platform == "linux" else 1 << 20)
    return Graded(process.returncode, *texts, seconds, megabytes, left, reports[0])


def grade_notebook(notebook, folder, source, *options, **variables):
    """Hand in a notebook and grade it."""
    path = folder / "submission.ipynb"
    nbformat.write(notebook, path)
    return run_grader(folder, path, "--source", source, *options, **variables)
