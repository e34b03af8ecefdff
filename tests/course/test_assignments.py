"""The generator: what it writes of each assignment, and which sources it refuses."""

import ast
import json
import sys

import assignments
import grade
import nbformat
import pytest
from assignments import SOURCES, BrokenRule, versions
from execute_notebooks import own_sockets
from nbclient import NotebookClient
from submissions import (
    ANSWERS,
    PARTS,
    answers_to,
    cell,
    small_source,
)

#: All that an assignment may import, beside Python's own modules.
LEAN = {"torch", "sympy", "matplotlib", "numpy", "derivation", "redundancy"}

each_part = pytest.mark.parametrize("part", PARTS)


def marks(notebook):
    return [c.metadata.nbgrader for c in notebook.cells if "nbgrader" in c.metadata]


def test_there_are_four():
    assert [path.stem for path in sorted(SOURCES.glob("*.ipynb"))] == list(PARTS)
    assert [path.stem for path in sorted(ANSWERS.glob("*.yml"))] == list(PARTS)


def test_writing_them_again_changes_nothing(course, tmp_path):
    assert assignments.main([str(tmp_path)]) == 0
    written = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert len(written) == 3 * len(PARTS)
    for path in written:
        assert path.read_bytes() == (course.folder / path.relative_to(tmp_path)).read_bytes()


@each_part
def test_it_has_questions_for_tests_and_one_for_a_person(course, part):
    graded = [mark for mark in marks(course.read("source", part)) if mark.grade]
    assert len([mark for mark in graded if not mark.solution]) >= 5
    assert len([mark for mark in graded if mark.solution]) == 1


@each_part
def test_each_question_has_wrong_answers_and_one_written_otherwise(course, part):
    asked = {m.grade_id for m in marks(course.read("source", part)) if m.solution and not m.grade}
    answers = answers_to(part)
    assert answers.keys() == asked
    for name, kinds in answers.items():
        assert len(kinds["wrong"]) >= 2, f"{part}, {name}: fewer than two wrong answers"
        assert kinds["otherwise"], f"{part}, {name}: no answer that is written otherwise"


@each_part
def test_students_get_no_solution_and_no_hidden_test(course, part):
    for given, kept in zip(
        course.read("student", part).cells, course.read("source", part).cells, strict=True
    ):
        for begin, end in (grade.SOLUTION, grade.HIDDEN):
            assert begin not in given.source and end not in given.source
        mark = kept.metadata.get("nbgrader", {})
        if mark.get("solution"):
            stub = grade.STUBS[given.cell_type][0]
            assert stub in given.source and given.source != kept.source
            assert given.metadata.get("editable", True)
        elif mark:
            assert given.metadata.editable is False
        if "BEGIN HIDDEN TESTS" in kept.source:
            assert len(given.source) < len(kept.source)


@each_part
def test_its_three_versions_import_what_every_notebook_has(course, part):
    for cells in (course.read("source", part).cells, course.read("student", part).cells):
        for one in cells[1:]:
            if one.cell_type == "code":
                found = {name.split(".")[0] for name in grade.imported(ast.parse(one.source))}
                assert found <= LEAN | sys.stdlib_module_names, found
    assert course.read("student", part).cells[0].metadata.cellView == "form"
    assert course.read("student", part).metadata.accelerator == "GPU"


@each_part
def test_the_solution_runs_alone_from_top_to_bottom(course, part, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")
    notebook = nbformat.from_dict(course.read("solution", part))
    assert not any(marker in c.source for c in notebook.cells for marker in assignments.MARKERS)
    resources = {"metadata": {"path": str(tmp_path)}}
    options = {"timeout": 120, "kernel_name": "python3", "config": own_sockets()}
    NotebookClient(notebook, resources=resources, **options).execute()


# ---- what the generator refuses -----------------------------------------------------


def mark_of(notebook, name):
    return cell(notebook, name).metadata.nbgrader


def replaced(name, old, new):
    def change(notebook):
        one = cell(notebook, name)
        assert old in one.source
        one.source = one.source.replace(old, new)

    return change


def remarked(name, **changes):
    return lambda notebook: mark_of(notebook, name).update(changes)


def unmarked(name):
    return lambda notebook: cell(notebook, name).metadata.pop("nbgrader")


def removed(name):
    return lambda notebook: notebook.cells.remove(cell(notebook, name))


def added(at, new):
    return lambda notebook: notebook.cells.insert(at, new)


BROKEN = {
    "a grade_id twice": (remarked("q2", grade_id="q1"), "q1: this grade_id is there already"),
    "no grade_id": (remarked("q2", grade_id=""), "a grade_id is made of"),
    "a grade_id with a dot": (remarked("q2", grade_id="q.2"), "q.2: a grade_id is made of"),
    "no points": (lambda n: mark_of(n, "q1-tests").pop("points"), "a graded cell needs points"),
    "zero points": (remarked("q1-tests", points=0), "q1-tests: a graded cell needs points"),
    "another schema": (remarked("q1", schema_version=2), "must say schema_version 3"),
    "a flag missing": (lambda n: mark_of(n, "q1").pop("task"), "grade, solution, locked, task"),
    "another type": (remarked("q1", cell_type="markdown"), "calls it markdown, but it is code"),
    "an answer that is locked": (remarked("q1", locked=True), "an answer (solution) or locked"),
    "tests that are not locked": (remarked("q1-tests", locked=False), "or locked"),
    "graded code": (remarked("q1", grade=True, points=1), "an answer in code is not graded"),
    "tests in Markdown": (remarked("about", grade=True, points=1), "a Markdown cell is a graded"),
    "code without a mark": (unmarked("setup"), "a code cell without nbgrader's metadata"),
    "BEGIN without END": (replaced("q1", "### END SOLUTION", ""), "each BEGIN SOLUTION needs"),
    "END without BEGIN": (
        replaced("q1-tests", "### BEGIN HIDDEN TESTS\n", ""),
        "each BEGIN HIDDEN TESTS needs",
    ),
    "BEGIN twice": (replaced("q1", "### END", "### BEGIN"), "each BEGIN SOLUTION needs its END"),
    "a marker behind code": (
        replaced("q2", "math.pi\n### END", "math.pi  ### END"),
        "a marker is a line of its own",
    ),
    "no solution": (
        lambda n: cell(n, "q2").update(source="half_turn = 3"),
        "q2: an answer without a solution",
    ),
    "a solution in the setup": (
        replaced("setup", "import math", "### BEGIN SOLUTION\nimport math\n### END SOLUTION"),
        "setup: BEGIN SOLUTION stands in a cell that is not an answer",
    ),
    "hidden tests in an answer": (
        replaced("q2", "# Define", "### BEGIN HIDDEN TESTS\n### END HIDDEN TESTS\n# Define"),
        "q2: BEGIN HIDDEN TESTS stands in a cell that is not tests",
    ),
    "an answer without tests": (removed("q3-tests"), "q3: an answer without tests"),
    "tests without an answer": (removed("q1"), "q1-tests: tests without an answer"),
    "an assert that says nothing": (
        replaced("q1-tests", ', "double(3) must be 6"', ""),
        "q1-tests: an assert without a message",
    ),
    "tests that end with a value": (
        replaced("q2-tests", "assert", "half_turn; assert"),
        None,
    ),
    "tests that show a value": (
        lambda n: cell(n, "q2-tests").update(source="half_turn"),
        "q2-tests: tests end with a value",
    ),
    "no Python": (replaced("q1", "return 2 * x", "return 2 *"), "q1: not Python"),
    "no Python for students": (
        replaced("q2", "### BEGIN", "    ### BEGIN"),
        "q2: not Python",
    ),
    "import *": (replaced("setup", "import math", "from math import *"), "import * hides"),
    "an answer that rebinds": (replaced("q2", "half_turn", "m = half_turn"), "it rebinds m"),
    "a question that leans on another": (
        replaced("q2-tests", "close(half_turn,", "close(double(half_turn),"),
        "q2-tests: it uses double, which the answer q1 defines",
    ),
    "an output": (
        lambda n: cell(n, "q1").update(execution_count=1),
        "q1: a source is stored without outputs",
    ),
    "a word of nbgrader's": (replaced("q2", "# Define", "# AUTOTEST"), "AUTOTEST means something"),
    "no title": (lambda n: n.metadata.assignment.pop("title"), "its metadata must say"),
    "another name": (lambda n: n.metadata.assignment.update(id="large"), '"id": "small"'),
    "no kernel": (lambda n: n.metadata.pop("kernelspec"), "the kernel python3"),
    "an id twice": (lambda n: cell(n, "q2").update(id="q1"), "Non-unique cell id"),
    "an older format": (lambda n: n.update(nbformat_minor=4), "small.ipynb: "),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_source_that_breaks_a_rule_is_refused(name, tmp_path):
    change, sentence = BROKEN[name]
    notebook = small_source()
    change(notebook)
    path = tmp_path / "small.ipynb"
    path.write_text(json.dumps(notebook) if name != "an older format" else older(notebook))
    if sentence is None:
        versions(path)
        return
    with pytest.raises(BrokenRule) as refused:
        versions(path)
    assert sentence in str(refused.value) and str(refused.value).startswith("small.ipynb: ")


def older(notebook):
    """A notebook of format 4.4, whose cells have no ids."""
    for one in notebook.cells:
        one.pop("id")
    return nbformat.writes(notebook)


def test_a_source_that_keeps_the_rules_is_not_refused(tmp_path):
    nbformat.write(small_source(), tmp_path / "small.ipynb")
    assert set(versions(tmp_path / "small.ipynb")) == {"source", "student", "solution"}


def test_what_is_no_notebook_is_refused(tmp_path):
    (tmp_path / "small.ipynb").write_text("no notebook")
    with pytest.raises(BrokenRule, match="not a notebook"):
        versions(tmp_path / "small.ipynb")


def test_where_one_is_refused_nothing_is_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "sources").mkdir()
    notebook = small_source()
    mark_of(notebook, "q2")["grade_id"] = "q1"
    nbformat.write(notebook, tmp_path / "sources" / "small.ipynb")
    monkeypatch.setattr(assignments, "SOURCES", tmp_path / "sources")
    assert assignments.main([str(tmp_path / "copies")]) == 1
    assert "q1: this grade_id is there already" in capsys.readouterr().out
    assert not (tmp_path / "copies").exists()
