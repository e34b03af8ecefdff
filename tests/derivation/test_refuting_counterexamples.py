"""`counterexample` refutes a false claim by a smallest exact instance, and no true claim."""

from fractions import Fraction

import pytest
from derivation.refuting.counterexamples import NoCounterexample
from derivation.refuting.evaluation import EXACT, FLOAT
from shared_letters import *

W, z, phi = Heads("W", m, n, n), sequence("z"), entrywise("φ")


x, y, flags, g = matrix("x", 1), matrix("y", 1), mask("F", n, 1), scalars("e")
slope, e, Z = derivative(relu(x + s * y), s), sizes("e"), matrix("Z", 768, 768)
inverse = tabulate(lambda i, j: 1 / entry_of(flags, i, j), n, 1)
#: {title: (left side, right side, whether the claim is false)}
SEARCHED = {
    "a product turned": ((A @ B).T, B.T @ A.T, False),
    "no slope at a kink": (slope * slope, y * slope, False),
    "a small difference": (A / 10**10, zeros(n, n), True),
    "a term far away": (z[10], z[9], False),
    "a side that is undefined elsewhere": (inverse @ one.T @ flags, 2 * n * one, True),
}


@pytest.mark.parametrize("claim", SEARCHED)
def test_a_search_finds_a_counterexample_only_if_there_is_one(claim):
    lhs, rhs, false = SEARCHED[claim]
    found = counterexample(lhs, rhs, most_instances=60)
    assert bool(found) == false and isinstance(found, NoCounterexample) != false


test_a_faulty_use_is_refused = refused({
    "too large": lambda: counterexample(Z, 2 * Z),
    "Euler": lambda: counterexample(softmax(g * A), softmax(A)),
    "a claim: ": {
        "a size e": lambda: counterexample(exp(ones(1)), e * ones(1)),
        "two letters of one name": lambda: counterexample(matrix("K", n, n), mask("K", n, n))},
})  # fmt: skip
SHOWN = [
    (ones(t).T @ z.prefix(t), z[1], "t = 2; z = (0, 1)ᵀ: 1 ≠ 0"),
    (over(head("a", m), W[head("a", m)]), W[head("a", m)],
     "m = 2, n = 1; W = [[[0]], [[1]]], a = 1: 1 ≠ 0"),
    (P @ P, identity(n), "n = 3;"),
    (softmax(S + ones(m) @ w.T), softmax(S),
     "m = 1, n = 2; S = (0, 0), w = (0, 1)ᵀ: 1/(1 + e) ≠ 1/2"),
    (phi(A + B), phi(A) + phi(B), "φ = x ↦ x²"),
    (expectation(R * R), 2 * J, "n = 1; 1 ≠ 2 (R: ± the deviation, by fair coins)"),
]  # fmt: skip


@pytest.mark.parametrize(("lhs", "rhs", "shown"), SHOWN, ids=str)
def test_a_smallest_counterexample_is_shown(lhs, rhs, shown):
    assert shown in repr(counterexample(lhs, rhs))


@pytest.mark.parametrize("name", sorted(EXACT.keys() - {"number"}))
def test_exact_functions_agree_with_floats(name):
    at = Fraction(5, 7)  # rounding affects `at`, the function and at most two operations
    exact = EXACT[name](EXACT["number"](at))
    assert float(exact) == pytest.approx(FLOAT[name](float(at)), rel=8 * 2**-52, abs=0)
