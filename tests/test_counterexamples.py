"""The smallest exact instance of a false claim, and no instance of a true one."""

from fractions import Fraction

import pytest
import sympy as sp
from derivation import *
from derivation.counterexamples import NoCounterexample
from derivation.evaluation import EXACT, FLOAT, Instance
from derivation.kernel import terms as k
from derivation.letters import letter

n, m, d = sizes("n m d")
tau, eps = scalars("tau epsilon", positive=True)
c = scalars("c")
A, B, X, S = matrix("A", n, n), matrix("B", n, n), matrix("X", n, d), matrix("S", m, n)
P = permutation("Π", n)


def test_sizes_entries_and_both_exact_values():
    found = counterexample(softmax(S + ones(m) @ matrix("w", n).T), softmax(S))
    assert found.sizes == {"m": 1, "n": 2}
    assert found.values["S"] == sp.zeros(1, 2) and found.values["w"] == sp.Matrix([0, 1])
    assert found.lhs == 1 / (1 + sp.E) and found.rhs == sp.Rational(1, 2)
    assert found.at == (1, 1)
    assert repr(found) == "m = 1, n = 2; S = (0, 0), w = (0, 1)ᵀ: 1/(1 + e) ≠ 1/2"
    assert r"\frac{1}{1 + e} \neq \frac{1}{2}" in found._repr_latex_()


@pytest.mark.parametrize(
    ("lhs", "rhs", "sizes_"),
    [
        (A @ B, B @ A, {"n": 2}),
        (P @ P, identity(n), {"n": 3}),
        (P @ P @ P, P, {"n": 3}),
        (A, A.T, {"n": 2}),
        (2 * A, A, {"n": 1}),
        (ones(n) @ ones(n).T, identity(n), {"n": 2}),
        (layer_norm(X, eps), zeros(n, d), {"d": 2, "n": 1}),
        (c * A, A, {"n": 1}),
        (causal(n), ones(n, n), {"n": 2}),
    ],
    ids=str,
)
def test_no_smaller_size_would_do(lhs, rhs, sizes_):
    assert counterexample(lhs, rhs).sizes == sizes_


def test_the_two_values_are_those_of_the_two_sides():
    found = counterexample(exp(A) @ exp(B), exp(A + B))
    a, b = found.values["A"], found.values["B"]
    i, j = (k - 1 for k in found.at)
    left = sum(sp.exp(a[i, k]) * sp.exp(b[k, j]) for k in range(a.cols))
    assert sp.simplify(left - found.lhs) == 0
    assert sp.simplify(sp.exp(a[i, j] + b[i, j]) - found.rhs) == 0


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    [((A @ B).T, B.T @ A.T), (P.T @ P, identity(n)), (softmax(A) @ ones(n), ones(n))],
    ids=str,
)
def test_a_true_claim_has_none_and_that_is_called_no_proof(lhs, rhs):
    found = counterexample(lhs, rhs, most_instances=800)
    assert isinstance(found, NoCounterexample) and not found
    assert "not a proof" in repr(found)


def test_instances_where_a_side_is_undefined_do_not_count():
    w = matrix("w", 1, n)
    found = counterexample(normalise(w), w)
    assert found and sum(found.values["w"]) != 0


def test_shapes_must_agree():
    with pytest.raises(ProofError, match="one shape"):
        counterexample(X, X.T)


def test_functions_that_stand_for_any_are_named():
    phi = entrywise("φ")
    found = counterexample(phi(A + B), phi(A) + phi(B))
    assert found.values["φ"] == "x ↦ x²"


def test_of_a_sequence_those_entries_are_shown_that_were_read():
    z, t = sequence("z"), sizes("t")
    found = counterexample(ones(t).T @ z.prefix(t), z[1])
    assert repr(found) == "t = 2; z = (0, 1)ᵀ: 1 ≠ 0"


def test_a_permutation_is_shown_by_its_images():
    assert repr(counterexample(P @ A, A)).startswith("n = 2; A = ((0, 0), (0, 1)), Π = (2, 1): ")


def test_heads_and_the_place_where_the_sides_differ_are_shown():
    W, a = Heads("W", m, n, n), head("a", m)
    found = counterexample(over(a, W[a]), W[a])
    assert repr(found) == "m = 2, n = 1; W = [[[0]], [[1]]], a = 1: 1 ≠ 0"
    assert "at row 1, column 2" in repr(counterexample(A, A.T))


@pytest.mark.parametrize("functions", [FLOAT, EXACT], ids=["floats", "exact"])
def test_a_slope_is_taken_where_it_is_asked_for(functions):
    f, t = letter("f", k.fun(k.NUM)), letter("t", k.NUM)
    slope = k.Term("deriv", k.abstract([t], k.Term("app", f, t)), k.Term("num", Fraction(2)))
    assert abs(Instance({f: lambda v: v**3}, functions).value(slope) - 12) < 1e-9
