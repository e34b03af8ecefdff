"""The assignments: what is written of each, and which sources are refused."""

import ast
import re

import pytest
from assignments import MARKER, STUBS, versions
from files import Fault
from submissions import PARTS, answers_to, cell, kinds_of, small_source

each_part = pytest.mark.parametrize("part", PARTS)


@each_part
def test_each_question_has_parts_and_wrong_half_right_and_other_answers(course, part):
    kinds, answers = kinds_of(course.read("source", part)), answers_to(part)
    assert answers.keys() == {name for name, kind in kinds.items() if kind == "answer"}
    assert len(answers) >= 5 and list(kinds.values()).count("person") == 1
    for name, stored in answers.items():
        parts = [other for other, kind in kinds.items() if kind == "tests" and name in other]
        assert len(parts) >= 2 and all(len(part) <= len("q1a-tests") for part in parts)
        assert len(stored["wrong"]) >= 2 and stored["half"] and stored["otherwise"], name


@each_part
def test_students_get_no_solution_and_no_hidden_test(course, part):
    source, student = course.read("source", part), course.read("student", part)
    kinds, hidden = kinds_of(source), 0
    for kept, given in zip(source.cells, student.cells, strict=True):
        assert not MARKER.search(given.source)
        if kinds[kept.metadata.nbgrader.grade_id] in ("answer", "person"):
            assert all(line in given.source for line in STUBS[given.cell_type])
        hidden += "### BEGIN HIDDEN TESTS" in kept.source and len(given.source) < len(kept.source)
    assert hidden >= 5


@each_part
def test_an_assertion_says_what_is_wrong(course, part):
    tests = [
        name for name, kind in kinds_of(course.read("source", part)).items() if kind == "tests"
    ]
    for name in tests:
        tree = ast.parse(cell(course.read("source", part), name).source)
        assert all(node.msg for node in ast.walk(tree) if isinstance(node, ast.Assert)), name


@each_part
def test_its_cells_are_marked_as_nbgrader_has_it(course, part):
    source, answered = course.read("source", part), "no answer yet"
    assert source.metadata.assignment.id == part
    for one in source.cells:
        mark = one.metadata.get("nbgrader", {})
        assert mark or one.cell_type == "markdown", "a code cell is setup, answer or tests"
        assert bool(mark.get("solution")) == ("### BEGIN SOLUTION" in one.source)
        assert bool(mark.get("grade")) == bool(mark.get("points")), "a graded cell has points"
        if mark.get("grade") and not mark.get("solution"):
            assert mark["grade_id"].startswith(answered), "tests follow their answer"
            said = re.match(r"# (\w+) · (\d) points?: ", one.source)
            assert said and f"q{said[1]}-tests" == mark["grade_id"], "a part says what it asks for"
            assert int(said[2]) == mark["points"], mark["grade_id"]
        if mark.get("solution"):
            answered = mark["grade_id"]


def test_a_solution_without_an_end_is_handed_out_to_nobody():
    notebook = small_source()
    cell(notebook, "q2").source = cell(notebook, "q2").source.replace("### END SOLUTION", "")
    with pytest.raises(Fault, match="small.ipynb: cell q2: each ### BEGIN needs its ### END"):
        versions("small.ipynb", notebook)
