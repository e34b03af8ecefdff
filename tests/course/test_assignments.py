"""The assignments: what is written of each, and which sources are refused."""

import nbformat
import pytest
from assignments import MARKER, SOURCES, STUBS, main, versions
from files import Fault
from grade import kind_of
from submissions import ANSWERS, PARTS, answers_to, cell, small_source

each_part = pytest.mark.parametrize("part", PARTS)


def test_there_are_four():
    assert [path.stem for path in sorted(SOURCES.glob("*.ipynb"))] == list(PARTS)
    assert [path.stem for path in sorted(ANSWERS.glob("*.yml"))] == list(PARTS)


@each_part
def test_each_question_has_wrong_answers_and_one_written_otherwise(course, part):
    kinds = {c.metadata.nbgrader.grade_id: kind_of(c) for c in course.read("source", part).cells
             if "nbgrader" in c.metadata}  # fmt: skip
    answers = answers_to(part)
    assert answers.keys() == {name for name, kind in kinds.items() if kind == "answer"}
    assert list(kinds.values()).count("tests") >= 5 and list(kinds.values()).count("person") == 1
    assert all(len(a["wrong"]) >= 2 and a["otherwise"] for a in answers.values())


@each_part
def test_students_get_no_solution_and_no_hidden_test(course, part):
    versions_ = (course.read(name, part).cells for name in ("source", "student", "solution"))
    for kept, given, solved in zip(*versions_, strict=True):
        assert not MARKER.search(given.source) and not MARKER.search(solved.source)
        if kind_of(kept) in ("answer", "person"):
            assert all(line in given.source for line in STUBS[given.cell_type])
            assert STUBS[given.cell_type][0] not in solved.source
        if "BEGIN HIDDEN TESTS" in kept.source:
            assert len(given.source) < len(solved.source) < len(kept.source)


# ── What is refused ───────────────────────────────────────────────────────────────────────


def replaced(name, old, new):
    def change(notebook):
        one = cell(notebook, name)
        assert old in one.source
        one.source = one.source.replace(old, new)

    return change


def remarked(name, **changes):
    return lambda notebook: cell(notebook, name).metadata.nbgrader.update(changes)


BROKEN = {
    "a grade_id twice": (remarked("q2", grade_id="q1"), "q1: this grade_id is there already"),
    "a grade_id with a dot": (remarked("q2", grade_id="q.2"), "needs nbgrader's metadata"),
    "no points": (remarked("q1-tests", points=0), "q1-tests: a graded cell needs points"),
    "code without a mark": (
        lambda n: cell(n, "setup").metadata.pop("nbgrader"), "needs nbgrader's metadata"),
    "BEGIN without END": (replaced("q1", "### END SOLUTION", ""), "each ### BEGIN needs its"),
    "BEGIN twice": (replaced("q1", "### END", "### BEGIN"), "q1: an answer without a solution"),
    "no solution": (replaced("q2", "###", "#"), "q2: an answer without a solution"),
    "a solution in the setup": (
        replaced("setup", "import math", "### BEGIN SOLUTION\nimport math\n### END SOLUTION"),
        "setup: a solution stands in a cell that is no answer"),
    "an answer without tests": (
        lambda n: n.cells.remove(cell(n, "q3-tests")), "q3: an answer without tests"),
    "tests without an answer": (
        lambda n: n.cells.remove(cell(n, "q1")), "q1-tests: tests without an answer"),
    "an assert that says nothing": (
        replaced("q1-tests", ', "double(3) must be 6"', ""), "an assert without a message"),
    "tests that show a value": (
        lambda n: cell(n, "q2-tests").update(source="half_turn"), "tests end with a value"),
    "no Python": (replaced("q1", "return 2 * x", "return 2 *"), "q1: not Python"),
    "no Python for students": (replaced("q2", "### BEGIN", "    ### BEGIN"), "q2: not Python"),
    "no title": (lambda n: n.metadata.assignment.pop("title"), "its metadata must say"),
    "another name": (lambda n: n.metadata.assignment.update(id="large"), '"small"'),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_source_that_breaks_a_rule_is_refused(name, tmp_path):
    change, sentence = BROKEN[name]
    notebook, path = small_source(), tmp_path / "small.ipynb"
    nbformat.write(notebook, path)
    assert set(versions(path)) == {"source", "student", "solution"}  # as it is, it keeps them
    change(notebook)
    nbformat.write(notebook, path)
    with pytest.raises(Fault) as refused:
        versions(path)
    assert sentence in str(refused.value) and str(refused.value).startswith("small.ipynb: ")


def test_where_one_is_refused_nothing_is_written(tmp_path, monkeypatch, capsys):
    (tmp_path / "sources").mkdir()
    (tmp_path / "sources" / "small.ipynb").write_text("no notebook")
    monkeypatch.setattr("assignments.SOURCES", tmp_path / "sources")
    assert main([str(tmp_path / "copies")]) == 1
    assert "small.ipynb: not a notebook" in capsys.readouterr().err
    assert not (tmp_path / "copies").exists()
