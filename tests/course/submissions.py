"""A small assignment for the tests of the course, and functions that make and grade submissions."""

import textwrap
from pathlib import Path

import grade
import nbformat
import yaml
from walls import wall

from tools.course import assignments

ANSWERS = Path(__file__).resolve().parent / "answers"
PARTS = [path.stem for path in sorted(assignments.SOURCES.glob("*.ipynb"))]

SETUP = """
    import math

    def close(measured, expected):
        return abs(measured - expected) < 1e-9
"""
HALF_TURN = """
    # Define half_turn, in radians.
    ### BEGIN SOLUTION
    half_turn = math.pi
    ### END SOLUTION
"""
DOUBLE = """
    def double(x):
        ### BEGIN SOLUTION
        return 2 * x
        ### END SOLUTION
"""
DOUBLE_TESTS = """
    assert double(3) == 6, "double(3) must be 6"
    ### BEGIN HIDDEN TESTS
    assert double(-5) == -10, "double(-5) must be -10"
    ### END HIDDEN TESTS
"""
WORDS = "### BEGIN SOLUTION\nIn words.\n### END SOLUTION"


def small_source():
    """An assignment with three questions that tests grade and one that a person grades."""
    square = DOUBLE.replace("double", "square").replace("2 * x", "x * x")
    cells = [
        marked("about", "# An assignment", "markdown"),
        marked("setup", SETUP),
        marked("q1", HALF_TURN, solution=True),
        marked("q1-tests", 'assert close(half_turn, 3.141592653589793), "half a turn"', points=2),
        marked("q2", DOUBLE, solution=True),
        marked("q2-tests", DOUBLE_TESTS, points=4),
        marked("q3", square, solution=True),
        marked("q3-tests", 'assert square(x=4) == 16, "the square of 4 is 16"', points=1),
        marked("q4", WORDS, "markdown", solution=True, points=3),
    ]
    cells[6].metadata["answer"] = "formulas"
    return nbformat.v4.new_notebook(cells=cells, metadata={"assignment": {"id": "part-0"}})


def marked(name, source, kind="code", **mark):
    """A cell with nbgrader's metadata; it is graded if ``mark`` contains points."""
    mark = {"solution": False, "grade": "points" in mark, "grade_id": name, **mark}
    new = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
    return new(textwrap.dedent(source).strip(), metadata={"nbgrader": mark}, id=name)


def grade_id(cell):
    return cell.metadata.get("nbgrader", {}).get("grade_id")


def cell(notebook, name):
    return next(c for c in notebook.cells if grade_id(c) == name)


def with_answers(notebook, **sources):
    """A copy of a notebook with these new sources, {grade_id: source}, in some of its cells."""
    return assignments.changed(notebook, lambda c: sources.get(grade_id(c), c.source))


def with_solutions(student, source, **codes):
    """A copy of a student's notebook, answered with {grade_id: code in place of the solution}."""
    put = lambda code: lambda found: textwrap.indent(code.strip("\n"), found[1]) + "\n"
    put_in = lambda name: assignments.SOLUTION.sub(
        put(codes[name]), cell(source, name).source + "\n"
    )
    return with_answers(student, **{name: put_in(name) for name in codes})


def answers_to(part):
    """The stored answers, {question: [(kind, code)]}; "otherwise" means right in another way."""
    stored = yaml.safe_load((ANSWERS / f"{part}.yml").read_text(encoding="utf-8"))
    code = lambda entry: entry if isinstance(entry, str) else entry["code"]
    return {
        name: [(kind, code(entry)) for kind, entries in kinds.items() for entry in entries]
        for name, kinds in stored.items()
    }


def graded(notebook, folder, source, hidden=(), **limits):
    """Grade a notebook as ann's submission; ``source`` is the path to the assignment's source."""
    path = folder / "ann" / source.name
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)
    return grade.grade(path, source, grade.Limits(**limits), wall(hidden)[0])


def points(report):
    """{part of a question: points} for all parts that are graded by tests."""
    return {v.question: v.points for v in report.verdicts if v.points is not None}


def reason(report, question):
    return next(v.reason for v in report.verdicts if v.question == question)
