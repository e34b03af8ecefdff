"""Draws are bound by their mean, have a law of their own, and no more than two moments."""

import pytest
from derivation import proofs
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_alarm")
fixed, draw = matrix("x", 1, n), random_matrix("R", 1, n, sigma**2)
square, bias, Q = expectation(draw @ draw.T), matrix("b", 1), random_matrix("Q", n, n, 1)
W_1, W_2 = random_matrix("W_1", k, d, sigma**2), random_matrix("W_2", k, d, sigma**2)
x, y = matrix("x", 1, d), matrix("y", 1, d)
score, width = x @ W_1.T @ W_2 @ y.T, x @ W_1.T @ W_1 @ y.T


def mean_of_what_is_fixed():
    return theorem(expectation(fixed @ fixed.T), fixed @ fixed.T)


def hypothesis_that_hides_a_random_letter():
    other, hidden, rows = random_matrix("S", 1, n, sigma**2), matrix("R", m, k), matrix("B", 1, d)
    one_row = softmax(rows) @ ones(d)
    first = Derivation("T0", one_row)
    first.by(normalise(ones(1, m) @ hidden) @ ones(k), unfold(normalise), unfold(softmax))
    lemma = first.by(ones(1), unfold(normalise)).qed()
    return line(expectation(draw @ other.T) + one_row, ones(1), SECOND_MOMENTS, lemma)


def index_and_draw_of_one_name():
    at, u = head("R", h), Heads("u", h, 1, 1)
    return line(expectation(fixed @ draw.T) + u[at], u[at], SECOND_MOMENTS)


def bound_in_a_mean_of_what_is_fixed():
    mean = J / n
    assumed = theorem(
        expectation(fixed @ fixed.T),
        expectation(fixed @ mean @ fixed.T),
        given(fixed, fixed @ mean),
    )
    return assumed(x=draw)


REFUSED = {
    "a draw outside a mean": (lambda: line(draw.T @ fixed, draw.T @ fixed), "bound by a mean"),
    "an assumption about a draw": (lambda: given(draw, draw @ J / n).proved, "a draw is bound"),
    "an assumption about a draw, under its mean": (
        lambda: Derivation("T", bias).by(expectation(bias)).by(square, given(bias, draw @ draw.T)),
        "a draw is bound"),
    "a draw for what is fixed": (lambda: mean_of_what_is_fixed()(x=draw), "not random"),
    "what is random in part": (lambda: mean_of_what_is_fixed()(x=draw + fixed), "not random"),
    "a draw for what is assumed": (bound_in_a_mean_of_what_is_fixed, "not random"),
    "a draw for another factor": (
        lambda: theorem(expectation(x @ W_1.T), zeros(1, k), SECOND_MOMENTS)(
            x=random_matrix("U", 1, d, sigma**2)), "not random, not for U"),
    "one draw for two": (
        lambda: theorem(expectation(score), zeros(1), SECOND_MOMENTS)(W_1=W_2),
        "independent letters cannot stand for the same one"),
    "another variance": (
        lambda: theorem(expectation(width), k * sigma**2 * x @ y.T, SECOND_MOMENTS)(
            W_1=random_matrix("U", k, d, 4 * sigma**2)), "W_1 has variance sigma**2, U another"),
    "a negative variance": (lambda: random_matrix("R", 1, 1, -1), "which -1 is not"),
    "a variance of any sign": (lambda: random_matrix("R", 1, 1, c), "which c is not"),
    "an index of the draw's name": (index_and_draw_of_one_name, "the name R of an index"),
    "a hypothesis that hides a draw": (hypothesis_that_hides_a_random_letter, "the name R is used"),
}  # fmt: skip


@pytest.mark.parametrize("attack", REFUSED)
def test_it_is_refused(attack):
    refuse(*REFUSED[attack])


def test_what_is_assumed_of_draws_is_remembered_when_theorems_are_cited():
    rows = theorem(softmax(fixed) @ one, ones(1), unfold(softmax))
    mean = theorem(square, n * sigma**2 * ones(1), SECOND_MOMENTS)
    assert mean.assumptions and not rows.assumptions
    both = theorem(square + softmax(fixed) @ one, (n * sigma**2) * ones(1) + ones(1), mean, rows)
    assert both.assumptions
    for x in (rows, both):
        refuse(lambda x=x: x(x=draw), "not random")


def test_what_is_divided_by_under_a_mean_may_be_fixed_and_not_random():
    of = lambda divisor: expectation(normalise(divisor) @ one @ draw @ draw.T)
    assert shown(line(of(fixed), square, unfold(normalise))) == ["no row of x sums to zero"]
    refuse(lambda: line(of(draw), square, unfold(normalise)), "mean of a quotient")


def test_a_mean_in_an_index_form():
    form = tabulate(lambda i, j: entry_of(square))
    assert theorem(form, n * sigma**2 * ones(1), SECOND_MOMENTS).assumptions


def test_what_is_assumed_of_draws_comes_through_a_hypothesis():
    U = random_matrix("U", n, n, sigma**2)
    first = theorem(A, sigma**2 * J, given(A, expectation(U * U)), SECOND_MOMENTS)
    second = theorem(expectation(U * U), sigma**2 * J, first(A=expectation(U * U)))
    assert not second.hypotheses and "the entries of U are independent" in repr(second)
    assert "of variance sigma**2" in repr(second)
    assert not proofs.proves(second, expectation(U * U), sigma**2 * J)


def test_draws_of_one_variance_may_have_different_laws():
    """Mean 0 and a variance do not settle E(exp R): a law is a letter of the kernel."""
    one, two = expectation(exp(R)), expectation(exp(Q))
    apart = line(expectation(exp(R) - exp(Q)), one - two, LINEARITY)
    for name in "RQ":
        assert f"needs E(exp({name}[k,l])) exists" in repr(apart)
    cited = apart.qed()(R=random_matrix("V", n, n, 1))
    assert "E(exp(V))" in repr(cited) and "E(exp(R" not in repr(cited)


def test_a_draw_keeps_its_name_in_a_condition():
    key = random_matrix("k", n, n, 4)
    needy = line(expectation(exp(key) + R), expectation(exp(key)), LINEARITY, SECOND_MOMENTS)
    assert "needs E(exp(k[l,p])) exists for every l, p" in repr(needy)


def test_a_condition_that_moments_fulfil_says_whose():
    """The row sums of E(R ⊙ R) do not vanish because of the variance, which is printed."""
    drawn = random_matrix("R", n, n, sigma**2)
    rows = line(normalise(expectation(drawn * drawn)) @ one, one, unfold(normalise))
    assert "the entries of R are independent, of mean 0 and of variance sigma**2" in repr(rows)


def test_what_is_assumed_of_a_draw_is_printed_of_the_one_that_stands_for_it():
    other = random_matrix("V", 1, n, sigma**2)
    nothing = theorem(expectation(draw), zeros(1, n), SECOND_MOMENTS)
    assert "the entries of R are independent, of mean 0" in repr(nothing)
    cited = theorem(expectation(other) @ X, zeros(1, n) @ X, nothing(R=other))
    assert "the entries of V are independent" in repr(cited)
    at_a_mean = theorem(A + A, 2 * A)(A=expectation(R * R))
    assert "(the entries of R are independent, of mean 0 and of variance 1)" in repr(at_a_mean)


def test_a_draw_inside_another_mean_is_called_by_its_own_law_and_like_no_letter():
    squares = expectation(R * R * expectation(R * R))
    printed = repr(tabulate(lambda i, j: 1 * entry_of(squares, i, j), n, n))
    assert "R⁽²⁾[i,j]^2" in printed and "S[" not in printed
    primed = matrix("R'", n, n)
    printed = repr(tabulate(lambda i, j: entry_of(primed, i, j) * entry_of(squares, i, j), n, n))
    assert "R⁽²⁾[i,j]^2" in printed and "R'[i,j]" in printed
