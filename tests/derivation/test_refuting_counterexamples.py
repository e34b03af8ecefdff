"""`counterexample` refutes a false claim by a smallest exact instance, and no true claim."""

from fractions import Fraction

import pytest
from derivation.kernel import terms
from derivation.language.letters import letter
from derivation.refuting.counterexamples import NoCounterexample
from derivation.refuting.evaluation import EXACT, FLOAT, Instance
from shared_letters import *

W, z, phi = Heads("W", m, n, n), sequence("z"), entrywise("φ")
#: (left side, right side, the sizes of the smallest counterexample)
SMALLEST = [
    (A @ B, B @ A, {"n": 2}),
    (P @ P, identity(n), {"n": 3}),
    (layer_norm(X, eps), zeros(n, d), {"d": 2, "n": 1}),
    (c * A, A, {"n": 1}),
]


@pytest.mark.parametrize(("lhs", "rhs", "sizes_"), SMALLEST, ids=str)
def test_a_counterexample_has_the_smallest_possible_sizes(lhs, rhs, sizes_):
    assert counterexample(lhs, rhs).sizes == sizes_


def test_a_true_claim_has_no_counterexample_which_is_not_called_a_proof():
    for lhs, rhs in (((A @ B).T, B.T @ A.T), (softmax(A) @ one, one)):
        found = counterexample(lhs, rhs, most_instances=400)
        assert isinstance(found, NoCounterexample) and not found
        assert "not a proof" in repr(found)


x, y, flags, Z, g = (
    *(matrix(q, 1) for q in "xy"),
    mask("F", n, 1),
    matrix("Z", 768, 768),
    scalars("e"),
)
slope, e = derivative(relu(x + s * y), s), sizes("e")
inverse = tabulate(lambda i, j: 1 / entry_of(flags, i, j), n, 1)
#: {title: (left side, right side, whether the claim is false)}
SEARCHED = {
    "no slope at a kink": (slope * slope, y * slope, False),
    "a small difference": (A / 10**10, zeros(n, n), True),
    "a term far away": (z[10], z[9], False),
    "a letter e beside no exponential": (g * A, A, True),
    "a side that is undefined where they differ": (inverse @ one.T @ flags, n * one, False),
    "a side that is undefined elsewhere": (inverse @ one.T @ flags, 2 * n * one, True),
}


@pytest.mark.parametrize("claim", SEARCHED)
def test_a_search_finds_a_counterexample_only_if_there_is_one(claim):
    lhs, rhs, false = SEARCHED[claim]
    assert bool(counterexample(lhs, rhs, most_instances=60)) == false


test_it_is_refused = refused({
    "too large": lambda: counterexample(Z, 2 * Z),
    "Euler": lambda: counterexample(softmax(g * A), softmax(A)),
    "a claim: ": {
        "a size e": lambda: counterexample(exp(ones(1)), e * ones(1)),
        "two letters of one name": lambda: counterexample(matrix("K", n, n), mask("K", n, n))},
})  # fmt: skip
SHOWN = [
    # the texts show a sequence's entries, a permutation's images, and the place where sides differ
    (ones(t).T @ z.prefix(t), z[1], "t = 2; z = (0, 1)ᵀ: 1 ≠ 0"),
    (over(head("a", m), W[head("a", m)]), W[head("a", m)],
     "m = 2, n = 1; W = [[[0]], [[1]]], a = 1: 1 ≠ 0"),
    (A, A.T, "at row 1, column 2"),
    (softmax(S + ones(m) @ w.T), softmax(S),
     "m = 1, n = 2; S = (0, 0), w = (0, 1)ᵀ: 1/(1 + e) ≠ 1/2"),
    (phi(A + B), phi(A) + phi(B), "φ = x ↦ x²"),
    (expectation(R * R), 2 * J, "n = 1; 1 ≠ 2 (R: ± the deviation, by fair coins)"),
]  # fmt: skip


@pytest.mark.parametrize(("lhs", "rhs", "shown"), SHOWN, ids=str)
def test_letters_and_the_place_are_shown(lhs, rhs, shown):
    assert shown in repr(counterexample(lhs, rhs))


def test_the_dropped_hypothesis_and_the_claim_are_printed():
    found = counterexample(A, A.T, without="a symmetric A, say")
    assert repr(found).startswith("without “a symmetric A, say”: A = Aᵀ is false: n = ")
    of_norms = counterexample(layer_norm(A, eps), layer_norm(2 * A, eps))
    assert repr(of_norms).startswith("LN(A) = LN(2 A); with LN(…; ε) is false: n = ")
    assert r"\text{without “a symmetric A, say”:}" in found._repr_latex_()
    refuse(lambda: counterexample(A, A.T, without="$A$"), "without a backslash")


@pytest.mark.parametrize("name", sorted(EXACT.keys() - {"number"}))
def test_exact_functions_agree_with_floats(name):
    at = Fraction(5, 7)  # rounding affects `at`, the function and at most two operations
    exact = EXACT[name](EXACT["number"](at))
    assert float(exact) == pytest.approx(FLOAT[name](float(at)), rel=8 * 2**-52, abs=0)


def test_a_permutation_maps_three_positions_and_its_inverse_maps_them_back():
    i = letter("i", terms.pos(size := letter("n", terms.SIZE)))
    turn = letter("π", terms.fun(i.args[1], kind="perm", result=i.args[1]))
    moved = lambda way: terms.Term("place", terms.Term("move", turn, way, i))
    world = Instance({size: 3, turn: [2, 3, 1]}, FLOAT)
    for way, images in ((1, [2, 3, 1]), (-1, [3, 1, 2])):
        place = world.value(terms.abstract([i], moved(way)))
        assert [place(at) for at in (1, 2, 3)] == images


@pytest.mark.parametrize("functions", [FLOAT, EXACT], ids=["floats", "exact"])
def test_a_slope_is_taken_at_the_given_point(functions):
    f, x = letter("f", terms.fun(terms.NUM)), letter("x", terms.NUM)
    of_f = terms.abstract([x], terms.Term("app", f, x))
    slope = terms.Term("deriv", of_f, terms.Term("num", Fraction(2)))
    assert abs(Instance({f: lambda v: v**3}, functions).value(slope) - 12) < 1e-9
