"""What the tests of the assignments share: a small assignment, and submissions to it."""

import copy
import textwrap
from pathlib import Path

import assignments
import grade
import nbformat
import yaml

ANSWERS = Path(__file__).resolve().parent / "answers"
PARTS = ("part-1", "part-2", "part-3", "part-4")
SETUP = """
    import math

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


def marked(name, source, kind="code", **mark):
    """A cell with nbgrader's metadata."""
    flags = {"grade": False, "solution": False, "locked": True, "task": False}
    mark = {**flags, **mark, "grade_id": name, "schema_version": 3, "cell_type": kind}
    new = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    return new(textwrap.dedent(source).strip(), metadata={"nbgrader": mark}, id=name)


def answer(name, source, kind="code", **mark):
    return marked(name, source, kind, solution=True, locked=False, **mark)


def tests(name, source, points):
    return marked(f"{name}-tests", source, grade=True, points=points)


def small_source():
    """An assignment with three questions for tests and one for a person."""
    cells = [
        marked("about", "# An assignment", "markdown"), marked("setup", SETUP),
        answer("q1", Q1), tests("q1", Q1_TESTS, 1),
        answer("q2", Q2), tests("q2", Q2_TESTS, 2),
        answer("q3", Q3), tests("q3", Q3_TESTS, 4),
        answer("q4", Q4, "markdown", grade=True, points=3),
    ]  # fmt: skip
    metadata = {
        "assignment": {"id": "small", "title": "An assignment"},
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def cell(notebook, name):
    """The cell of that name."""
    return next(c for c in notebook.cells if grade.name_of(c) == name)


def with_answers(solution, **sources):
    """A solved notebook in which some cells hold something else."""
    notebook = copy.deepcopy(solution)
    for name, source in sources.items():
        cell(notebook, name).source = textwrap.dedent(source).strip("\n")
    return notebook


def in_the_place_of_the_solution(source, code):
    """The source of an answer in which ``code`` stands where the solution stood."""
    code = textwrap.dedent(code).strip("\n")
    put = lambda found: textwrap.indent(code, found[1]) + "\n"
    return assignments.SOLUTION.sub(put, source + "\n").rstrip("\n")


def answers_to(part):
    """{question: {"wrong": [code], "otherwise": [code]}} of an assignment."""
    stored = yaml.safe_load((ANSWERS / f"{part}.yml").read_text(encoding="utf-8"))
    code = lambda entry: entry["code"] if isinstance(entry, dict) else entry
    return {
        name: {kind: [code(entry) for entry in entries] for kind, entries in kinds.items()}
        for name, kinds in stored.items()
    }


def graded(notebook, folder, source, **options):
    """The report on a notebook that is handed in; ``source`` is the assignment's notebook."""
    path = folder / "submission.ipynb"
    nbformat.write(notebook, path)
    return grade.grade(path, source, "an assignment", **options)


def points(report):
    return {v.question: v.points for v in report.verdicts if v.points is not None}


def reason(report, question):
    return next(v.reason for v in report.verdicts if v.question == question)
