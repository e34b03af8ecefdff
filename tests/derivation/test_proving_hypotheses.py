"""A theorem prints its assumptions, and its conditions on divisors, roots and slopes."""

import pytest
import sympy as sp
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_torch")
Z, V = Heads("Z", h, n, d), Heads("V", h, n, d)


def head_taken_for_all_by_a_citation():
    """The first theorem needs a condition for every head, the second for one head only."""
    rows = lambda Z, i: Z[i] @ ones(Z.family.sizes[2]) @ ones(1, Z.family.sizes[2])
    body = lambda Z, i: normalise(Z[i]) * rows(Z, i)
    index = lambda Z: head("a", Z.family.sizes[0])
    f = define("f", lambda x, Z: over(index(Z), body(Z, index(Z))) + 0 * x)
    first = theorem(f(X, Z), over(a, body(Z, a)), unfold(f))
    second = theorem(body(Z, a), Z[a], unfold(normalise))
    return line(f(X, Z) + V[a], over(b, Z[b]) + V[a], first, second)


test_a_faulty_use_is_refused = refused({
    "which never holds": lambda: line(derivative(relu(s * A), s) * zeros(n, n), zeros(n, n)),
    "no row of 0*X sums to zero, which never holds": lambda: line(
        derivative(normalise(s * X) @ ones(d), s), zeros(n), unfold(normalise)),
    "a hypothesis contains a": lambda: line(
        over(a, Z[a]), over(a, zeros(n, d)), given(Z[a], zeros(n, d))),
    "used free and bound": head_taken_for_all_by_a_citation,
})  # fmt: skip


# ── Conditions as they are printed ───────────────────────────────────────────────────────────

twice = define("k", lambda x: 2 * x)
flat = normalise(derivative(s * entrywise("f")(s * A), s))
roots = theorem(sp.sqrt(r) * A + sp.sqrt(r) * A, 2 * sp.sqrt(r) * A)


#: {title: (function that proves a theorem, the conditions that it prints)}
NEEDED = {
    "a smooth function and a divisor": (
        lambda: line(flat, (1 / n) * J, unfold(normalise)),
        ["f is smooth", "no row of d/ds|₀ s f(s A) sums to zero"]),
    "a root": (lambda: roots, ["r ≥ 0"]),
    "a root of what is positive": (lambda: roots(r=tau), []),
    "every head": (
        lambda: line(over(a, normalise(Z[a]) @ ones(d)), h * one, unfold(normalise)),
        ["no row of Z[a] sums to zero, for every a"]),
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDED)
def test_the_conditions_of_a_theorem_are_printed(name):
    prove, needed = NEEDED[name]
    assert sorted(shown(prove())) == needed


def test_a_condition_contains_only_the_printed_letters():
    x_1, x1 = scalars("x_1 x1")
    divided = tabulate(lambda i, j: entry_of(X, i, j) * (2 / x_1) * x_1, n, d)
    hidden = line(twice(X), divided, unfold(twice)).by(2 * X).qed()
    refuse(lambda: line(x1 * twice(X), 2 * x1 * X, hidden), "another x_1 than the printed one")
    assert shown(theorem(c * twice(X), 2 * c * X, hidden)) == ["x_1 ≠ 0"]
    draw = random_matrix("G", 1, n, 1)
    mean = expectation(exp(draw * (position_numbers(1) @ one.T - position_numbers(n).T)))
    assert shown(theorem(mean - mean, 0 * mean)) == ["E(exp(G[k] (1 - k))) exists for every k"]


def test_proves_refuses_conditions_on_letters_outside_the_statement():
    """A condition, as text, does not say that C is a permutation or that c is positive."""
    C, same = permutation("C", n), scalars("c", positive=True)
    for of, back, need in (
        (lambda x: C @ x, lambda x: C.T @ x, "C X = C Y"),
        (lambda x: same * x, lambda x: (1 / same) * x, "c X = c Y"),
    ):
        proof = line(X, back(of(X))).by(back(of(Y)), given(of(X), of(Y))).by(Y).qed()
        assert shown(proof) == [need] and not proves(proof, X, Y, needs=[need])
    W = matrix("W", n, d)
    assert proves(theorem(X + W, Y + W, given(X, Y)), X + W, Y + W, needs=["X = Y"])
