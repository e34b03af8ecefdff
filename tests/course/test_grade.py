"""grade.py: points for what is right, none for what is wrong, and a sentence for everything else."""

import csv
import re

import grade
import nbformat
import pytest
from submissions import (
    PARTS,
    answers_to,
    cell,
    graded,
    in_the_place_of_the_solution,
    points,
    reason,
    with_answers,
)

each_part = pytest.mark.parametrize("part", PARTS)


# ── The assignments of the course ─────────────────────────────────────────────────────────


@each_part
def test_a_solution_scores_full_marks_and_the_untouched_version_zero(course, part, tmp_path):
    source = course.read("source", part)
    right = graded(course.read("solution", part), tmp_path, source)
    assert right.notes == [] and points(right) == {
        v.question: v.of for v in right.verdicts if v.points is not None
    }
    untouched = graded(course.read("student", part), tmp_path, source)
    assert len(untouched.verdicts) > 5 and not any(points(untouched).values())
    assert {v.reason for v in untouched.verdicts} == {"not answered"}


@each_part
def test_wrong_answers_score_zero_and_right_ones_full_marks(course, part, tmp_path):
    """Every variant of every answer, in each submission another of each question.

    So right and wrong ones stand side by side, and none may change what another gets.
    """
    source, listed = course.read("source", part), {}
    for name, kinds in answers_to(part).items():
        listed[name] = [(code, False) for code in kinds["wrong"]]
        listed[name] += [(code, True) for code in kinds["otherwise"]]
    seen, mistaken = set(), []
    for number in range(max(map(len, listed.values()))):
        chosen = {name: (number + shift) % len(several)
                  for shift, (name, several) in enumerate(listed.items())}  # fmt: skip
        answers = {
            name: in_the_place_of_the_solution(cell(source, name).source, listed[name][at][0])
            for name, at in chosen.items()
        }
        report = graded(with_answers(course.read("student", part), **answers), tmp_path, source)
        for name, at in chosen.items():
            seen.add((name, at))
            verdict = next(v for v in report.verdicts if v.question == name)
            meant = verdict.of * listed[name][at][1]
            if verdict.points != meant or re.search(r"\w*(Syntax|Indent)\w*", verdict.reason):
                mistaken.append(f"{name}, variant {at}, should score {meant}: {verdict}")
    assert seen == {(name, at) for name, several in listed.items() for at in range(len(several))}
    assert not mistaken, "\n".join(mistaken)


# ── What can go wrong in a submission ─────────────────────────────────────────────────────

#: An answer to question 2, and what is said of it.
WRONG = {
    "another value": ("half_turn = 3", "half_turn is half a turn, in radians"),
    "no value": ("turn = math.pi", "NameError: name 'half_turn' is not defined"),
    "not Python": ("half_turn = = 3", "the answer stops with SyntaxError: invalid syntax"),
    "an error": ("half_turn = 1 / 0", "the answer stops with ZeroDivisionError"),
    "a package that is missing": ("import nothing_like_it", "ModuleNotFoundError"),
    "a question": ("half_turn = float(input())", "StdinNotImplementedError"),
    "all memory": ("half_turn = bytearray(10**11)", "MemoryError"),
    "a large file": ("open('large', 'wb').write(bytes(10**8)); half_turn = 3", "File too large"),
    "an end": ("import os\nos._exit(0)", "the answer ended Python"),
    "a loop": ("while True:\n    half_turn = 3", "the answer ran longer than 8 s"),
    "printing without end": ("while True:\n    print('x' * 10**5)", "ran longer than 8 s"),
    "what is left to do": ("raise NotImplementedError()", "not answered"),
    "many lines": ("raise ValueError('a\\n  q3   4 of 4   right')", "ValueError: a"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_costs_its_own_points_only(name, small, hand_in):
    code, why = WRONG[name]
    report = hand_in(with_answers(small.solution, q2=code), seconds=8)
    assert points(report) == {"q1": 1, "q2": 0, "q3": 4}, report
    assert why in reason(report, "q2") and reason(report, "q3") == "right"
    assert len(grade.told(report).splitlines()) == 1 + 4 + 1 + len(report.notes)


#: Answers that overwrite what others need, and still are right or wrong by themselves.
@pytest.mark.parametrize(
    "code, right",
    [("half_turn = math.pi\nclose = S = len = str = abs = None", True),
     ("half_turn = 3\nclose = lambda measured, expected: True", False),
     ("half_turn = 3\nabs = lambda x: 0", False)],
)  # fmt: skip
def test_names_of_the_setup_and_of_python_are_put_back(code, right, small, hand_in):
    report = hand_in(with_answers(small.solution, q2=code))
    assert points(report) == {"q1": 1, "q2": 2 * right, "q3": 4}


def test_what_is_not_the_students_is_put_back_and_reported(small, hand_in):
    changed = with_answers(small.solution, **{"q1-tests": "pass"}, q1="def double(x): return 6")
    cell(changed, "setup").source = "proves = close = lambda *_: True"
    changed.cells.remove(cell(changed, "q2-tests"))
    report = hand_in(changed)
    assert points(report) == {"q1": 0, "q2": 2, "q3": 4}
    assert reason(report, "q1") == "double(-5) must be -10"  # the hidden test
    assert [note.split()[0] for note in report.notes] == ["setup", "q1-tests", "q2-tests"]


def test_cells_that_are_missing_doubled_unmarked_or_added(small, hand_in):
    mixed = with_answers(small.solution)
    mixed.cells.remove(cell(mixed, "q1"))
    del cell(mixed, "q3").metadata["nbgrader"]  # known by its id
    first = with_answers(small.solution, q2="half_turn = 3")
    at = mixed.cells.index(cell(mixed, "q2"))
    cell(first, "q2").id = "another"
    mixed.cells.insert(at, cell(first, "q2"))
    mixed.cells.insert(at, nbformat.v4.new_code_cell("helper = 1"))
    mixed.cells.append(nbformat.v4.new_code_cell("1 / 0"))
    report = hand_in(mixed)
    assert points(report) == {"q1": 0, "q2": 2, "q3": 4} and reason(report, "q1") == "not answered"
    assert report.notes == ["a cell added after q4 stops with ZeroDivisionError: division by zero"]


def test_an_answer_for_a_person_is_left_to_one(small, hand_in):
    assert reason(hand_in(small.solution), "q4") == "see the rubric"
    assert reason(hand_in(small.student), "q4") == "not answered"


def test_no_variable_of_the_teacher_is_handed_on(small, hand_in, monkeypatch):
    monkeypatch.setenv("SECRET", "5")
    code = "import os\nassert 'SECRET' not in os.environ, 'seen'\nhalf_turn = math.pi"
    assert points(hand_in(with_answers(small.solution, q2=code)))["q2"] == 2


def test_an_assignment_that_does_not_run_here_is_nobody_s_fault(small, tmp_path):
    source = with_answers(small.source, setup="import nothing_like_it")
    with pytest.raises(grade.CannotGrade, match="own cell setup .* everything installed"):
        graded(small.solution, tmp_path, source)


# ── The command ───────────────────────────────────────────────────────────────────────────


def test_a_class_becomes_a_table(small, tmp_path, capsys):
    for name, notebook in (("ann", small.solution), ("bob", small.student)):
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    (tmp_path / "cy.ipynb").write_text("no notebook")
    files = [str(tmp_path / f"{name}.ipynb") for name in ("ann", "bob", "cy", "nobody")]
    table = tmp_path / "marks.csv"
    assert grade.main([*files, "--source", str(small.folder), "--csv", str(table)]) == 1
    rows = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert [row["points"] for row in rows] == ["7", "0"] and rows[1]["q1: why"] == "not answered"
    said = capsys.readouterr().out
    assert "total        7 of 7" in said and "not a notebook of format 4" in said
    assert "the file cannot be read: No such file or directory" in said


def test_a_command_that_makes_no_sense_is_answered(small, tmp_path, capsys):
    nbformat.write(small.solution, path := tmp_path / "x.ipynb")
    with pytest.raises(SystemExit, match="2"):
        grade.main([str(path), "--source", str(tmp_path / "nowhere")])
    assert "there are no assignments in" in capsys.readouterr().err
    assert grade.main([str(path), "--source", str(small.folder), "--assignment", "part-9"]) == 1
    assert "there is no assignment part-9 in" in capsys.readouterr().out
