"""A run in torch draws suitable samples, finds false lines, and objects to no true line."""

from unittest.mock import Mock

import pytest
import sympy as sp
import torch
from derivation.language.nonzero import NonZero
from derivation.proving import proofs
from derivation.refuting import torch_runs
from derivation.refuting.torch_runs import RUNS, Sample, run_in_torch
from shared_letters import *


def test_a_sample_has_distinct_sizes_scalars_of_both_signs_and_masks_that_let_something_through():
    samples = [Sample(seed, {n, m, d, c, r, tau}) for seed in range(RUNS)]
    shapes = [tuple(s.size(x) for x in (n, m, d)) for s in samples]
    assert all(len(set(shape)) == 3 for shape in shapes) and len(set(shapes)) == RUNS
    assert any(1 in shape for shape in shapes) and any(1 not in shape for shape in shapes)
    assert {shape[0] < shape[1] for shape in shapes} == {True, False}
    scalars_ = [(s.scalar(c), s.scalar(r), s.scalar(tau)) for s in samples]
    assert {x > 0 for x, _, _ in scalars_} == {True, False}
    assert all(x * y < 0 and positive > 0 for x, y, positive in scalars_)
    assert all((s.family(M.params[0]).sum(1) > 0).all() for s in samples)


def test_an_arbitrary_function_is_sampled_without_special_properties():
    """Because φ is not additive, even, odd, monotone or 0 at 0, no line is true by accident."""
    f = Sample(0, {n}).function("φ")
    x, y = torch.tensor([3.0, 2.0], dtype=torch.float64)
    assert abs(f(x + y) - f(x) - f(y)) > 0.1 and abs(f(0 * x)) > 0.1
    assert abs(f(x) - f(-x)) > 0.1 and abs(f(x) + f(-x)) > 0.1
    assert f(-x) > f(0 * x) < f(x)


PERMUTED = tabulate(lambda i, j: entry_of(P @ X, i, j), n, d)
z = sequence("z", d)
large = 10**4 * A + B
divided_by_0 = lambda x: normalise(layer_norm(softmax(x), eps))
HEARD = {
    "a mean at sizes beyond one": (expectation(R @ R.T), J @ expectation(R @ R.T)),
    "a permutation in an index form, turned": (P.T @ X, PERMUTED),
}
UNHEARD = {
    "a mean": (expectation(R @ R.T), n * identity(n)),
    "a permutation in an index form": (P @ X, PERMUTED),
    # true lines that rounding or a coarse difference quotient could make look false
    "a steep slope": (derivative(exp(100 * s * A), s), 100 * A),
    "a large shift": (softmax(A + 10**8 * J), softmax(A)),
    "large numbers that cancel": (large * large - 10**8 * (A * A) - 2 * 10**4 * (A * B), B * B),
    "sides without a value": (divided_by_0(S), divided_by_0(S + matrix("s", m) @ one.T)),
}


@pytest.mark.parametrize("case", HEARD | UNHEARD)
def test_a_run_finds_a_false_line_and_accepts_a_true_one(case):
    complaint = run_in_torch(*(HEARD | UNHEARD)[case])
    assert "torch finds it false" in complaint if case in HEARD else complaint is None


def test_failing_torch_code_is_reported(monkeypatch):
    monkeypatch.setattr(torch, "softmax", Mock(side_effect=RuntimeError("no such kernel")))
    refuse(lambda: line(softmax(X), 1 * softmax(X)), "the torch run failed")


def test_a_line_that_is_not_run_says_why():
    large = random_matrix("R", 3, 5, 1)
    nearly = X + sp.Rational(1, 10**9) * Y
    for proof in (
        theorem(one, 2 * one, given(one, 2 * one)),
        theorem(expectation(large), zeros(3, 5), SECOND_MOMENTS),
    ):
        [reason] = proof.not_run
        assert "no sample met its hypotheses" in reason and reason in repr(proof)
    assert theorem(z[33] * 2, 2 * z[33]).not_run, "so late a term is not drawn"
    huge = ones(10**9)
    assert "too large" in str(theorem(huge + huge, 2 * huge))
    refuse(lambda: line(huge + huge, 3 * huge), "no instance could be evaluated")
    narrowed = theorem(P @ X, X, given(P, identity(n)))  # some samples satisfy P = I
    assert narrowed.not_run == ()
    sample = Sample(0, X.free_scalars())
    assert given(X, X).met_in(sample) and not given(X, nearly).met_in(sample), "almost is not met"


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_condition_on_every_index_is_checked_at_each(place):
    W, values = Heads("W", h, 1, 2), torch.ones(3, 1, 2, dtype=torch.float64)
    for there, not_zero, positive in ((1, True, True), (0, False, False), (-1, True, False)):
        values[place, 0, 1] = there
        sample = Sample(0, {h}).fixing({W.family: values})
        sample._sizes[h] = 3
        assert NonZero(W[a], bound=(a,)).met_in(sample) is not_zero
        assert NonZero(W[a], positive=True, bound=(a,)).met_in(sample) is positive


@pytest.mark.parametrize("equation", [given(X.T @ X, identity(d)), given(X.T @ v, zeros(d))])
def test_letters_that_satisfy_an_equation_are_found(equation):
    """True and false lines that assume the equation are run, including at sizes above 1."""
    lhs, rhs = equation.lhs, equation.rhs
    assert run_in_torch(lhs, rhs, [equation]) is None
    assert "torch finds it false" in run_in_torch(lhs + ones(*lhs.shape), rhs, [equation])
    sizes_heard = []
    for seed in range(20):
        try:
            sample = torch_runs._meeting(Sample(seed, X.free_scalars() | {d}), [equation])
        except torch_runs.HypothesesNotMet:
            continue
        sizes_heard.append((sample.size(n), sample.size(d)))
    assert any(rows >= 2 and columns >= 2 for rows, columns in sizes_heard)


def test_every_line_is_run(monkeypatch):
    heard = []
    monkeypatch.setattr(proofs, "run_in_torch", lambda *line: heard.append(line))
    line(X + X, 2 * X).by(3 * X - X).qed()
    assert len(heard) == 2 and torch_runs.torch_is_here()


def test_a_condition_on_every_position_is_checked_at_each():
    inverse = tabulate(lambda i, j: 1 / entry_of(v, i), n)
    [condition], family = theorem(inverse * v, one).hypotheses, v.params[0]
    sample = Sample(0, {n}, basics={family})
    zero_at_last = sample.family(family) * (torch.arange(sample.size(n)) == 0)[:, None]
    assert condition.met_in(sample)
    assert not condition.met_in(sample.fixing({family: zero_at_last}))
