"""A draw occurs only inside a mean and has its own law, of which two moments are known."""

import pytest
from derivation.proving import proofs
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_torch")
fixed, draw = matrix("x", 1, n), random_matrix("R", 1, n, sigma**2)
square, bias, Q = expectation(draw @ draw.T), matrix("b", 1), random_matrix("Q", n, n, 1)
W_1, W_2 = random_matrix("W_1", k, d, sigma**2), random_matrix("W_2", k, d, sigma**2)
x, y = matrix("x", 1, d), matrix("y", 1, d)
divided = lambda divisor: expectation(normalise(divisor) @ one @ draw @ draw.T)
score, width = x @ W_1.T @ W_2 @ y.T, x @ W_1.T @ W_1 @ y.T
mean_of_what_is_fixed = theorem(expectation(fixed @ fixed.T), fixed @ fixed.T)
no_mean = lambda of: theorem(expectation(of), zeros(*of.shape), SECOND_MOMENTS)


def hypothesis_that_hides_a_random_letter():
    other, hidden, rows = random_matrix("S", 1, n, sigma**2), matrix("R", m, k), matrix("B", 1, d)
    one_row = softmax(rows) @ ones(d)
    first = Derivation("T0", one_row)
    first.by(normalise(ones(1, m) @ hidden) @ ones(k), unfold(normalise), unfold(softmax))
    lemma = first.by(ones(1), unfold(normalise)).qed()
    return line(expectation(draw @ other.T) + one_row, ones(1), SECOND_MOMENTS, lemma)


def bound_in_a_mean_of_what_is_fixed():
    mean = expectation(fixed @ (J / n) @ fixed.T)
    return theorem(expectation(fixed @ fixed.T), mean, given(fixed, fixed @ (J / n)))


test_it_is_refused = refused({
    "only inside a mean": lambda: line(draw.T @ fixed, draw.T @ fixed),
    "a draw may occur only inside a mean": {
        "an assumption about it": lambda: given(draw, draw @ J / n).proved,
        "an assumption about it, under its mean": lambda: line(
            bias, expectation(bias)).by(square, given(bias, draw @ draw.T)),
    },
    "not random": {
        "what is random in part": lambda: mean_of_what_is_fixed(x=draw + fixed),
        "a draw for what is assumed": lambda: bound_in_a_mean_of_what_is_fixed()(x=draw),
    },
    "not random, not for U": lambda: no_mean(x @ W_1.T)(x=random_matrix("U", 1, d, sigma**2)),
    "independent letters cannot be replaced by the same letter": lambda: no_mean(score)(W_1=W_2),
    "W_1 has variance sigma**2, U another": lambda: theorem(
        expectation(width), k * sigma**2 * x @ y.T, SECOND_MOMENTS)(
            W_1=random_matrix("U", k, d, 4 * sigma**2)),
    "which c is not": lambda: random_matrix("R", 1, 1, c),
    "the name R is used": hypothesis_that_hides_a_random_letter,
    "mean of a quotient": lambda: line(divided(draw), square, unfold(normalise)),
})  # fmt: skip


def test_assumptions_on_draws_are_kept_in_citations():
    rows = theorem(softmax(fixed) @ one, ones(1), unfold(softmax))
    mean = theorem(square, n * sigma**2 * ones(1), SECOND_MOMENTS)
    assert "are independent" in repr(mean) and "are independent" not in repr(rows)
    both = theorem(square + softmax(fixed) @ one, (n * sigma**2) * ones(1) + ones(1), mean, rows)
    assert "are independent" in repr(both)
    for x in (rows, both):
        refuse(lambda x=x: x(x=draw), "not random")


def test_a_divisor_inside_a_mean_may_be_a_fixed_matrix():
    proof = line(divided(fixed), square, unfold(normalise))
    assert shown(proof) == ["no row of x sums to zero"]


def test_assumptions_on_draws_are_kept_through_a_hypothesis():
    U = random_matrix("U", n, n, sigma**2)
    first = theorem(A, sigma**2 * J, given(A, expectation(U * U)), SECOND_MOMENTS)
    second = theorem(expectation(U * U), sigma**2 * J, first(A=expectation(U * U)))
    assert not second.hypotheses and "the entries of U are independent" in repr(second)
    assert "of variance σ^2" in repr(second)
    assert not proofs.proves(second, expectation(U * U), sigma**2 * J)


def apart():
    """Draws of equal mean and variance may differ in E(exp R), as their laws are unknown."""
    one, two = expectation(exp(R)), expectation(exp(Q))
    return line(expectation(exp(R) - exp(Q)), one - two, LINEARITY)


def squares_times(x):
    squares = expectation(R * R * expectation(R * R))
    return table(lambda i, j: entry_of(x, i, j) * entry_of(squares, i, j))


V, key = random_matrix("V", n, n, 1), random_matrix("k", n, n, 4)
other = random_matrix("V", 1, n, sigma**2)
test_prints_of_draws = printed({
    "two laws of one variance": (
        apart, ["needs E(exp(R[k,l])) exists", "needs E(exp(Q[k,l])) exists"]),
    "the law of what stands for it": (lambda: apart().qed()(R=V), ["E(exp(V))"], ["E(exp(R"]),
    "its name in a condition": (
        lambda: line(expectation(exp(key) + R), expectation(exp(key)), LINEARITY, SECOND_MOMENTS),
        ["needs E(exp(k[l,p])) exists for every l, p"]),
    "what is assumed of what stands for it": (
        lambda: theorem(expectation(other) @ X, zeros(1, n) @ X, no_mean(draw)(R=other)),
        ["the entries of V are independent"]),
    "what is assumed at a mean": (
        lambda: theorem(A + A, 2 * A)(A=expectation(R * R)),
        ["the entries of R are independent,\n  of mean 0 and of variance 1"]),
    "one inside another mean, and a letter": (
        lambda: squares_times(matrix("R'", n, n)), ["R⁽²⁾[i,j]^2", "R'[i,j]"]),
})  # fmt: skip
