"""grade.py gives points for right answers, none for wrong ones, and explains other faults."""

import csv
import re
from types import SimpleNamespace

import grade
import nbformat
import pytest
from assignments import versions
from submissions import (
    PARTS,
    answers_to,
    by_question,
    cell,
    graded,
    in_the_place_of_the_solution,
    points,
    reason,
    small_source,
    with_answers,
)

each_part = pytest.mark.parametrize("part", PARTS)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A small assignment: the path to its source, and its student and solution versions."""
    path = tmp_path_factory.mktemp("small") / "small.ipynb"
    made = versions(path.name, small_source())
    path.write_text(made["source"], encoding="utf-8")
    student, solution = (nbformat.reads(made[v], as_version=4) for v in ("student", "solution"))
    return SimpleNamespace(path=path, student=student, solution=solution)


@pytest.fixture
def hand_in(small, tmp_path):
    """A function that grades a notebook as a submission to the small assignment."""
    return lambda notebook, **options: graded(notebook, tmp_path, small.path, **options)


# ── The assignments of the course ─────────────────────────────────────────────────────────


@each_part
def test_a_solution_scores_full_marks_and_the_untouched_version_zero(course, part, tmp_path):
    source = course.path("source", part)
    right = graded(course.read("solution", part), tmp_path, source)
    full = {v.question: v.of for v in right.verdicts if v.points is not None}
    assert points(right) == full and right.notes == []
    untouched = graded(course.read("student", part), tmp_path, source)
    assert len(untouched.verdicts) > 5 and not any(points(untouched).values())
    assert {v.reason for v in untouched.verdicts} == {"not answered"} and untouched.notes == []


#: {kind of answer: whether such an answer may earn these points out of the maximum}
EARNS = {
    "wrong": lambda points, of: points == 0,
    "half": lambda points, of: 0 < points < of,
    "otherwise": lambda points, of: points == of,
}


@each_part
def test_wrong_answers_score_zero_half_right_ones_some_and_right_ones_all(course, part, tmp_path):
    """Each submission mixes right and wrong answers, which must not affect each other's points."""
    listed = {
        name: [(code, kind) for kind in EARNS for code in kinds[kind]]
        for name, kinds in answers_to(part).items()
    }
    source, student = course.read("source", part), course.read("student", part)
    for number in range(max(map(len, listed.values()))):
        kinds, answers = {}, {}
        for shift, (name, several) in enumerate(listed.items()):
            code, kinds[name] = several[(number + shift) % len(several)]
            answers[name] = in_the_place_of_the_solution(cell(source, name).source, code)
        report = graded(with_answers(student, **answers), tmp_path, course.path("source", part))
        for name, (got, of) in by_question(report).items():
            assert EARNS[kinds[name]](got, of), (name, got, of, answers[name], report.verdicts)
        said = " ".join(verdict.reason for verdict in report.verdicts)
        assert not re.search("SyntaxError|IndentationError", said), said


# ── Faults of a submission ────────────────────────────────────────────────────────────────

#: {title: (answer to the first of two questions, words in the reason given for its points)}
ANSWERS = {
    "names overwritten": ("half_turn = math.pi\nclose = len = str = abs = None", "right"),
    "no variable of ours": ("import os\nhalf_turn = math.pi + len(os.getenv('OURS', ''))", "right"),
    "another value": ("half_turn = 3", "half a turn"),
    "the tests' helper": ("half_turn = 3\nclose = lambda measured, expected: True", "half a turn"),
    "Python's own": ("half_turn = 3\nabs = lambda x: 0", "half a turn"),
    "no value": ("turn = math.pi", "NameError: name 'half_turn' is not defined"),
    "not Python": ("half_turn = = 3", "the answer stops with SyntaxError: invalid syntax"),
    "a question": ("half_turn = float(input())", "StdinNotImplementedError"),
    "all memory": ("half_turn = bytearray(10**11)", "MemoryError"),
    "a large file": ("open('large', 'wb').write(bytes(10**8)); half_turn = 3", "File too large"),
    "an end": ("import os\nos._exit(0)", "the answer ended Python"),
    "a loop": ("while True:\n    half_turn = 3", "the answer ran longer than 8 s"),
    # depending on the machine, memory or time runs out first
    "printing without end": (
        "while True:\n    print('x' * 10**5)",
        "ran longer than 8 s|MemoryError",
    ),
    "many lines": ("raise ValueError('a\\n  q2   4 of 4   right')", "ValueError: a"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_counts_for_its_own_points_only(name, small, hand_in, monkeypatch):
    monkeypatch.setenv("OURS", "a secret")
    code, why = ANSWERS[name]
    report = hand_in(with_answers(small.solution, q1=code), seconds=8)
    assert points(report) == {"q1": 2 if why == "right" else 0, "q2": 4}, report
    assert any(said in reason(report, "q1") for said in why.split("|"))
    assert reason(report, "q3") == "see the rubric"
    assert len(grade.told(report).splitlines()) == 1 + 3 + 1


def test_changed_setup_and_tests_are_restored_and_reported(small, hand_in):
    changed = with_answers(small.solution, **{"q2-tests": "pass"}, q2="def double(x): return 6")
    cell(changed, "setup").source = "close = lambda *_: True"
    changed.cells.remove(cell(changed, "q1-tests"))
    report = hand_in(changed)
    assert points(report) == {"q1": 2, "q2": 0}
    assert reason(report, "q2") == "double(-5) must be -10"  # only the hidden test fails
    assert [note.split()[0] for note in report.notes] == ["setup", "q1-tests", "q2-tests"]


def test_missing_duplicate_and_added_cells_are_graded_correctly(small, hand_in):
    mixed = with_answers(small.solution, q1="half_turn = helper")
    first = cell(with_answers(small.solution, q1="half_turn = 3"), "q1")
    first.id = "another"
    at = mixed.cells.index(cell(mixed, "q1"))
    mixed.cells[at:at] = [nbformat.v4.new_code_cell("helper = math.pi"), first]
    mixed.cells.remove(cell(mixed, "q2"))
    mixed.cells.append(nbformat.v4.new_code_cell("1 / 0"))
    report = hand_in(mixed)
    assert points(report) == {"q1": 2, "q2": 0} and reason(report, "q2") == "not answered"
    assert report.notes == ["a cell added after q3 stops with ZeroDivisionError: division by zero"]


def test_an_assignment_that_does_not_run_grades_nobody(small, tmp_path):
    source = nbformat.read(small.path, as_version=4)
    nbformat.write(with_answers(source, setup="import nothing_like_it"), tmp_path / "small.ipynb")
    with pytest.raises(grade.CannotGrade, match="cell setup stops with ModuleNotFoundError"):
        graded(small.solution, tmp_path, tmp_path / "small.ipynb")


# ── The command ───────────────────────────────────────────────────────────────────────────


def test_a_class_becomes_a_table(small, tmp_path, capsys):
    for name, notebook in (("ann", small.solution), ("bob", small.student)):
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    (tmp_path / "cy.ipynb").write_text("no notebook")
    files = [str(tmp_path / f"{name}.ipynb") for name in ("ann", "bob", "cy", "nobody")]
    table = tmp_path / "marks.csv"
    assert grade.main([*files, "--source", str(small.path.parent), "--csv", str(table)]) == 1
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert [row["points"] for row in rows] == ["6", "0"] and rows[1]["q1: why"] == "not answered"
    said = capsys.readouterr().out
    assert "total        6 of 6" in said and "does not appear to be JSON" in said
    assert "cannot be read as a notebook: [Errno 2] No such file" in said
    assert grade.main([files[0], "--source", str(tmp_path / "nowhere")]) == 1
    assert "nowhere/small.ipynb: say --source" in capsys.readouterr().out
