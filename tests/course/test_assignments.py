"""Every test in an assignment names its question; random sheets accept only full solutions."""

import ast
import re

import nbformat
import pytest
from assignments import families, sheet, solved, versions
from files import Fault
from submissions import PARTS, cell, in_the_place_of_the_solution, small_source


@pytest.mark.parametrize("part", PARTS)
def test_a_part_follows_its_answer_with_its_question_and_messages(course, part):
    answered = "no answer yet"
    for one in course.read("source", part).cells:
        mark = one.metadata.get("nbgrader", {})
        if mark.get("solution"):
            answered = mark["grade_id"]
        elif mark.get("grade"):
            said = re.match(r"# (\w+) · (\d) points?: ", one.source)
            assert (f"q{said[1]}-tests", int(said[2])) == (mark["grade_id"], mark["points"])
            assert mark["grade_id"].startswith(answered)
            asserts = [n for n in ast.walk(ast.parse(one.source)) if isinstance(n, ast.Assert)]
            assert all(node.msg for node in asserts), mark["grade_id"]


def test_a_solution_without_an_end_mark_is_refused():
    notebook = small_source()
    cell(notebook, "q2").source = cell(notebook, "q2").source.replace("### END SOLUTION", "")
    with pytest.raises(Fault, match="small.ipynb: cell q2: each ### BEGIN needs its ### END"):
        versions("small.ipynb", notebook)


# ── The sheets ────────────────────────────────────────────────────────────────────────────

SEEDS = ("1", pytest.param("autumn", marks=pytest.mark.nightly))
#: {kind of answer: (function body, a digit for each of parts a and b: 1 if it passes, else 0)}
ANSWERS = {
    "assumed": ("return Derivation('it', left).by(right, given(left, right)).qed()", "00"),
    "guessed": ("return claim == 'A'", "00"),
    "found": ("return counterexample(left, right, 1000)", "10"),
}


def passed(cells, number, answer):
    """A digit for each part of a question: 1 if the answer passes its test, else 0."""
    names, result = {}, ""
    for one in cells:
        if one.cell_type != "code" or one.id[0] == "q" and one.id[1] != str(number):
            continue
        try:
            exec(answer if one.id == f"q{number}" else one.source, names)
            result += "1" * one.id.endswith("-tests")
        except AssertionError:
            result += "0"
    return result


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("chapter", sorted(families()))
def test_solutions_pass_and_assumed_or_partial_answers_fail(chapter, seed):
    cells = sheet(chapter, seed).cells
    for number in (1, 2):
        answer = next(c for c in cells if c.id == f"q{number}")
        assert passed(cells, number, solved(answer)) == "11"
        for kind, (code, parts) in ANSWERS.items():
            if kind == "assumed" and "SECOND_MOMENTS" in answer.source:
                continue  # comparing all pairs of assumed moments takes minutes
            put = in_the_place_of_the_solution(answer.source, code)
            assert passed(cells, number, put) == parts


def test_the_letters_of_a_family_differ_and_so_do_the_sheets_of_two_seeds():
    for family in sum(families().values(), []):
        letters = [letter for pool in family["letters"].values() for letter in pool]
        assert len(set(letters)) == len(letters), family["name"]
    assert len({nbformat.writes(sheet(3, str(seed))) for seed in range(12)}) > 6
