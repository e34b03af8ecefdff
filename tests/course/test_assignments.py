"""Tests name their questions; drawn sheets can be solved, and wrong answers earn nothing."""

import ast
import itertools
import re
from unittest import mock

import nbformat
import pytest
from derivation import *
from submissions import PARTS, cell, small_source
from torch.utils._pytree import tree_map

from tools.course.assignments import families, sheet, solved, versions
from tools.files import Fault

SEEDS = ("1", *(pytest.param(seed, marks=pytest.mark.nightly) for seed in ("autumn", "27")))
each_chapter = pytest.mark.parametrize("chapter", sorted(families()))

#: Enough to prove each claim whose missing hypothesis is put in.
REASONS = [(), (SECOND_MOMENTS,), (REINDEX,), (unfold(softmax), EXP_OF_SUM)]
REASONS += [(unfold(word),) for word in (softmax, softmax_one, layer_norm, batch_norm)]
REASONS += [(unfold(softmax), REINDEX), (unfold(layer_norm), unfold(rms_norm))]


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
    with pytest.raises(Fault, match="cell q2"):
        versions("small.ipynb", notebook)


def ran(cells, *parts, **names):
    """The names that the cells of these parts define; answers run as solved."""
    for one in cells:
        if one.cell_type == "code" and one.id in parts:
            exec(solved(one), names)
    return names


def error_of(code, names):
    """The error that code raises, or None."""
    try:
        exec(code, dict(names))
    except Exception as error:
        return error


def earned(cells, names):
    """The points of each part, for the answers in ``names``."""
    tests = [one for one in cells if one.id.endswith("-tests")]
    return [t.metadata.nbgrader.points * (error_of(t.source, names) is None) for t in tests]


@pytest.mark.parametrize("seed", SEEDS)
@each_chapter
def test_solutions_earn_all_points_and_wrong_answers_none(chapter, seed):
    cells = sheet(chapter, seed).cells
    given = ran(cells, "setup", "given")
    right = ran(cells, "q1a", "q1b", "q1c", **given)
    assert earned(cells, right) == [1, 2, 3] and earned(cells, given) == [0, 0, 0]
    number, numbers, roles = (right[name] for name in ("hypothesis", "instance", "roles"))
    times = lambda factor, numbers: tree_map(lambda x: factor * x, numbers)
    for answers in (
        (number % 5 + 1, times(10**17, numbers), times(0, roles)),
        ([number], times(0, numbers), roles | {"A": 2 * roles["A"]}),
    ):
        names = given | dict(zip(("hypothesis", "instance", "roles"), answers))
        assert earned(cells, names) == [0, 0, 0], answers


@each_chapter
def test_fifty_seeds_draw_claims_that_can_be_read_and_are_false(chapter):
    setup = ran(sheet(chapter, "0").cells, "setup")
    for seed in range(50):
        cells = sheet(chapter, str(seed)).cells
        unproved = {"Derivation": mock.MagicMock()}  # takes no time
        names = ran(cells, "given", "q1b", "q1c", **setup | unproved)
        for side in (*names["claim_T"], *names["claim_F"]):
            Derivation("it can be read", side)
        assert earned(cells, names)[1] == 2, seed


def follows(left, right, *reasons):
    line = attempt(lambda: Derivation("now true", left).by(right, *reasons).qed())
    return isinstance(line, Theorem)


@each_chapter
def test_one_hypothesis_of_five_makes_a_false_claim_true(chapter):
    family = families()[chapter]
    put = lambda text: text.format_map({name: pool[0] for name, pool in family["letters"].items()})
    given = "from derivation import *\n" + family["lemma"] + put(family["given"])
    for fails in family["fails"]:
        for words, code in (fails["needs"], *fails["useless"]):
            exec(f"{given}\n{put(code)}", names := {})
            left, right = (eval(put(side), names) for side in fails["claim"])
            if words == fails["needs"][0]:
                assert any(follows(left, right, *reasons) for reasons in REASONS), words
            else:
                assert counterexample(left, right), words


def test_no_letter_has_two_meanings_and_two_seeds_draw_different_sheets():
    for family in families().values():
        letters = [letter for pool in family["letters"].values() for letter in pool]
        assert len(set(letters)) == len(letters), family["name"]
        code = re.sub(r"{\w+}|#.*|\.\w+|Derivation\(.*?,", "", family["lemma"] + family["given"])
        assert not {*letters} & {"e", *re.findall(r"\w+", code)}, family["name"]
    assert len({nbformat.writes(sheet(3, str(seed))) for seed in range(12)}) > 6


def test_no_points_for_letting_the_checker_subtract_the_right_side_from_the_left():
    """Whatever lies inside both sides of the true claim, its difference is too long a formula."""
    cells = {one.id: one for one in sheet(5, "1").cells}
    names, refusals = ran(cells.values(), "setup", "given"), []
    for x, y in itertools.product(*(list(side.walk()) for side in names["claim_T"])):
        if x.axes == y.axes and x is not y:
            n = x.axes[1]
            names["roles"] = {"A": y, "s": (x - y) @ names["ones"](n) / n}
            refusals.append(error_of(cells["q1c-tests"].source, names))
    assert all(isinstance(refused, (AssertionError, KeyError)) for refused in refusals)
    assert "twice as long" in str(refusals)  # the right expression, written in too many signs
