"""A draw occurs only inside a mean and has its own law, of which two moments are known."""

import pytest
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_torch")
fixed, draw = matrix("x", 1, n), random_matrix("R", 1, n, sigma**2)
square, bias = expectation(draw @ draw.T), matrix("b", 1)
W_1, W_2 = random_matrix("W_1", k, d, sigma**2), random_matrix("W_2", k, d, sigma**2)
x, y = matrix("x", 1, d), matrix("y", 1, d)
divided = lambda divisor: expectation(normalise(divisor) @ one @ draw @ draw.T)
score, width = x @ W_1.T @ W_2 @ y.T, x @ W_1.T @ W_1 @ y.T
mean_of_what_is_fixed = theorem(expectation(fixed @ fixed.T), fixed @ fixed.T)
no_mean = lambda of: theorem(expectation(of), zeros(*of.shape), SECOND_MOMENTS)


test_a_faulty_use_is_refused = refused({
    "only inside a mean": lambda: line(draw.T @ fixed, draw.T @ fixed),
    "a draw may occur only inside a mean": {
        "an assumption about it": lambda: given(draw, draw @ J / n).proved,
        "an assumption about it, under its mean": lambda: line(
            bias, expectation(bias)).by(square, given(bias, draw @ draw.T)),
    },
    "not random": lambda: mean_of_what_is_fixed(x=draw + fixed),
    "not random, not for U": lambda: no_mean(x @ W_1.T)(x=random_matrix("U", 1, d, sigma**2)),
    "independent letters cannot be replaced by the same letter": lambda: no_mean(score)(W_1=W_2),
    "W_1 has variance sigma**2, U another": lambda: theorem(
        expectation(width), k * sigma**2 * x @ y.T, SECOND_MOMENTS)(
            W_1=random_matrix("U", k, d, 4 * sigma**2)),
    "which c is not": lambda: random_matrix("R", 1, 1, c),
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


def test_a_quotient_inside_an_expectation_may_have_a_fixed_divisor():
    proof = line(divided(fixed), square, unfold(normalise))
    assert shown(proof) == ["no row of x sums to zero"]
