"""A small assignment for the tests of the course, and functions that make and grade submissions."""

import functools
import textwrap
from pathlib import Path

import grade
import nbformat
import yaml
from walls import wall

from tools.course import assignments

ANSWERS = Path(__file__).resolve().parent / "answers"
PARTS = [path.stem for path in sorted(assignments.SOURCES.glob("*.ipynb"))]

SETUP = """\
import math

def close(measured, expected):
    return abs(measured - expected) < 1e-9
"""
SOLVED = "### BEGIN SOLUTION\n{}\n### END SOLUTION\n"
FUNCTION = "def {}(x):\n    ### BEGIN SOLUTION\n    return {}\n    ### END SOLUTION\n"
DOUBLE_TESTS = """\
assert double(3) == 6, "double(3) must be 6"
### BEGIN HIDDEN TESTS
assert double(-5) == -10, "double(-5) must be -10"
### END HIDDEN TESTS
"""
grade_id = lambda cell: cell.metadata.get("nbgrader", {}).get("grade_id")
cell = lambda notebook, name: next(c for c in notebook.cells if grade_id(c) == name)

#: The words of a wall around answers, which takes seconds to try.
walled = functools.cache(lambda *hidden: wall(hidden)[0])
reason = lambda report, question: next(v.reason for v in report.verdicts if v.question == question)


def small_source():
    """An assignment with three questions that tests grade and one that a person grades."""
    made = lambda name, points=None, **source: assignments.cell_of({}, name, points, **source)
    cells = [
        made("about", markdown="# An assignment"),
        made("setup", code=SETUP),
        made("q1", answer=SOLVED.format("half_turn = math.pi")),
        made("q1-tests", 2, code='assert close(half_turn, 3.141592653589793), "half a turn"'),
        made("q2", answer=FUNCTION.format("double", "2 * x")),
        made("q2-tests", 4, code=DOUBLE_TESTS),
        made("q3", formulas=FUNCTION.format("square", "x * x")),
        made("q3-tests", 1, code='assert square(x=4) == 16, "the square of 4 is 16"'),
        made("q4", markdown=SOLVED.format("In words.")),
    ]
    cells[-1].metadata["nbgrader"] |= {"solution": True, "grade": True, "points": 3}
    return nbformat.v4.new_notebook(cells=cells, metadata={"assignment": {"id": "part-0"}})


def with_answers(notebook, **sources):
    """A copy of a notebook with these new sources, {grade_id: source}, in some of its cells."""
    return assignments.changed(notebook, lambda c: sources.get(grade_id(c), c.source))


def with_solutions(student, source, **codes):
    """A copy of a student's notebook, answered with {grade_id: code in place of the solution}."""

    def answered(name):
        put = lambda found: textwrap.indent(codes[name].strip("\n"), found[1]) + "\n"
        return assignments.SOLUTION.sub(put, cell(source, name).source + "\n")

    return with_answers(student, **{name: answered(name) for name in codes})


def answers_to(part):
    """The stored answers, {question: [(kind, code)]}; "otherwise" means right in another way."""
    stored = yaml.safe_load((ANSWERS / f"{part}.yml").read_text(encoding="utf-8"))
    code = lambda entry: entry if isinstance(entry, str) else entry["code"]
    return {
        name: [(kind, code(entry)) for kind, entries in kinds.items() for entry in entries]
        for name, kinds in stored.items()
    }


def graded(notebook, folder, source, *hidden, **limits):
    """Grade a notebook as ann's submission; ``source`` is the path to the assignment's source."""
    path = folder / "ann" / source.name
    path.parent.mkdir(exist_ok=True)
    nbformat.write(notebook, path)
    return grade.grade(path, source, grade.Limits(**limits), walled(*hidden))


def points(report):
    """{part of a question: points} for all parts that are graded by tests."""
    return {v.question: v.points for v in report.verdicts if v.points is not None}
