"""The assignments: what is written of each, and which sources are refused."""

import ast

import nbformat
import pytest
from assignments import MARKER, STUBS, versions
from files import Fault
from submissions import PARTS, answers_to, cell, kinds_of, small_source

each_part = pytest.mark.parametrize("part", PARTS)


@each_part
def test_each_question_has_wrong_answers_and_one_written_otherwise(course, part):
    kinds, answers = kinds_of(course.read("source", part)), answers_to(part)
    assert answers.keys() == {name for name, kind in kinds.items() if kind == "answer"}
    assert list(kinds.values()).count("tests") >= 5 and list(kinds.values()).count("person") == 1
    assert all(len(a["wrong"]) >= 2 and a["otherwise"] for a in answers.values())


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


def replaced(name, old, new):
    def change(notebook):
        one = cell(notebook, name)
        assert old in one.source
        one.source = one.source.replace(old, new)

    return change


def remarked(name, **changes):
    return lambda notebook: cell(notebook, name).metadata.nbgrader.update(changes)


@pytest.mark.parametrize(
    "change, sentence",
    [
        (
            lambda n: cell(n, "setup").metadata.pop("nbgrader"),
            "setup: a code cell needs nbgrader's",
        ),
        (replaced("q2", "### END SOLUTION", ""), "q2: each ### BEGIN needs its ### END"),
        (replaced("q1", "###", "#"), "q1: an answer, and nothing else, has a ### BEGIN SOLUTION"),
        (remarked("q1", solution=False), "q1: an answer, and nothing else"),
        (remarked("q1-tests", points=0), "q1-tests: a graded cell needs points"),
        (lambda n: n.cells.remove(cell(n, "q1")), "q1-tests: tests without an answer"),
        (lambda n: n.metadata.assignment.update(id="large"), 'must say "assignment": id "small"'),
    ],
)
def test_a_source_that_breaks_a_rule_is_refused(change, sentence, tmp_path):
    notebook, path = small_source(), tmp_path / "small.ipynb"
    nbformat.write(notebook, path)
    assert set(versions(path)) == {"source", "student", "solution"}  # as it is, it keeps them
    change(notebook)
    nbformat.write(notebook, path)
    with pytest.raises(Fault, match="small.ipynb: .*" + sentence):
        versions(path)
