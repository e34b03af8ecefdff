"""Each deliberate mistake is the one it says it is, and what nothing notices is told from the rest."""

import ast
import json

import pytest
from files import Fault
from mutants import run
from mutants.mistakes import KINDS, Mutant, mutants_of
from mutants.places import Module, Notebook, mutants_in
from mutants_page import RECORD

#: {kind: (source, every text that this kind makes of it)}
MADE = {
    "an operator exchanged": ("a @ b * c", ["a * b * c", "a @ b / c"]),
    "a sign": ("-x + y @ z", ["x + y @ z", "-x + -(y @ z)"]),
    "a transpose": ("q @ k.mT", ["q @ k", "q.mT @ k.mT"]),
    "an axis": ("torch.softmax(x, 0)", ["torch.softmax(x, 1)"]),
    "arguments swapped": ("attend(q, k, *v)", ["attend(k, q, *v)"]),
    "a term or factor dropped": ("x - y * z", ["x", "-(y * z)", "x - y", "x - z"]),
    "off by one": ("x[1:n] + x[-1]", ["x[2:n] + x[-1]", "x[1:n + 1] + x[-1]", "x[1:n] + x[0]"]),
    "a bias left out": ("f(bias=False) + b_K", ["f(bias=True) + b_K", "f(bias=False)"]),
    "a mask inverted": ("f(~x, tril(x))", ["f(x, tril(x))", "f(~x, triu(x))"]),
    "eval for train": ("norm.eval()(x)", ["norm.train()(x)"]),
    "a comparison turned": ("assert a < b <= c", ["assert not a < b <= c"]),
    "a tolerance": ("x < 1e-12, y > 1e-12", ["(x < 1e-06, y > 1e-12)"]),
    "a statement deleted": ("if x:\n    f(1)", ["pass", "if x:\n    pass"]),
}
#: Words, seeds, what loses its sign or has no order: any other is as good.
LEFT = (
    "'''a - b'''\nnormal(8, seed=1)\n(a - b).abs()\nattempt(-x, ...)\nerror(a, b)\nassert p and q"
)

RULES = Module("notebooks/derivation/kernel/rules.py"), ["tests/derivation/test_kernel.py"]
EXERCISES = Notebook("notebooks/00-exercises.ipynb")


@pytest.mark.parametrize("kind", KINDS)
def test_it_makes_exactly_this(kind):
    source, expected = MADE[kind]
    made = [mutant.source for mutant in mutants_of(source) if mutant.kind == kind]
    assert sorted(made) == sorted(expected)


def test_what_says_nothing_is_left_alone():
    made = [mutant.after for mutant in mutants_of(LEFT) if "deleted" not in mutant.kind]
    assert made == ["(a + b).abs()", "a.abs()", "(-b).abs()", "assert not (p and q)"]


@pytest.mark.nightly
@pytest.mark.parametrize("place, judge", [RULES, (EXERCISES, EXERCISES.judge)])
def test_what_is_noticed_is_told_from_what_is_not(place, judge):
    """A mistake, and the same piece without one, written as a mutant is."""
    mistake = next(one for one in mutants_in(place) if one[1].kind == "a comparison turned")
    same = ast.unparse(ast.parse(place.pieces[mistake[0]]))
    none = (mistake[0], Mutant("none", "", "", same))
    assert list(run.unnoticed(place, [mistake, none], judge)) == [none]


@pytest.mark.nightly
def test_tests_that_fail_anyway_are_no_judge():
    with pytest.raises(Fault, match="Without a mistake these tests fail: tests/none.py"):
        list(run.unnoticed(RULES[0], [], ["tests/none.py"]))


def test_whatever_the_record_did_not_notice_has_a_reason():
    for part, there in json.loads(RECORD.read_text(encoding="utf-8")).items():
        assert len(there["survivors"]) <= sum(there["made"].values()) / 10, part
        assert all(one["why"].endswith(".") for one in there["survivors"]), part
