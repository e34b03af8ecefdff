"""The torch run of every line: what it draws, and that it rings."""

import pytest
import sympy as sp
import torch
from derivation import *
from derivation import alarm, proofs
from derivation.alarm import RUNS, Sample, listen
from derivation.matrices import NonZero
from derivation.vocabulary import word

n, m, d, h = sizes("n m d h")
c = scalars("c")
tau = scalars("tau", positive=True)
X, Y, S = matrix("X", n, d), matrix("Y", n, d), matrix("S", m, n)


def samples():
    return [Sample(seed, {n, m, d, c, tau}) for seed in range(RUNS)]


def test_sizes_are_distinct_and_one_is_among_them_in_some_draws():
    drawn = [tuple(s.size(x) for x in (n, m, d)) for s in samples()]
    assert all(len(set(shape)) == 3 for shape in drawn) and len(set(drawn)) == RUNS
    assert any(1 in shape for shape in drawn) and any(1 not in shape for shape in drawn)


def test_sizes_come_in_both_orders():
    drawn = [(s.size(n), s.size(m)) for s in (Sample(seed, {n, m}) for seed in range(12))]
    assert any(a < b for a, b in drawn) and any(a > b for a, b in drawn)


def test_free_scalars_have_both_signs_and_positive_ones_are_positive():
    values = [(s.scalar(c), s.scalar(tau)) for s in samples()]
    assert {v > 0 for v, _ in values} == {True, False}
    assert all(v > 0 for _, v in values)


def test_two_free_scalars_of_one_sample_have_opposite_signs():
    other = scalars("r")
    assert all(sample.scalar(c) * sample.scalar(other) < 0 for sample in samples())


def test_a_mask_leaves_every_query_a_key():
    for s in samples():
        assert (s.family(mask("M", m, n).params[0]).sum(1) > 0).all()


def test_a_function_that_may_be_any_has_no_property_of_its_own():
    """Not additive, even, odd, zero at zero or monotone: else a line could pass for that alone."""
    f = Sample(0, {n}).function("φ")
    x, y = torch.tensor([3.0, 2.0], dtype=torch.float64)
    assert abs(f(x + y) - f(x) - f(y)) > 0.1 and abs(f(0 * x)) > 0.1
    assert abs(f(x) - f(-x)) > 0.1 and abs(f(x) + f(-x)) > 0.1
    assert f(-x) > f(0 * x) < f(x)


def test_it_rings_for_a_false_line_and_not_for_a_true_one():
    assert listen(X + Y, Y + X) is None
    assert "torch finds it false" in listen(X + Y, X - Y)
    assert listen(softmax(S), softmax(S + matrix("c", m) @ ones(n).T)) is None


def test_a_definition_whose_torch_code_is_another_function_is_heard():
    lying = word("lying", entry=lambda x, i, j, s: 2 * s(i, j), run=lambda s: 3 * s)
    with pytest.raises(ProofError, match="torch finds it false"):
        Derivation("lie", lying(X)).by(2 * X, unfold(lying))


def test_an_exception_while_running_is_a_refusal():
    def broken(s):
        raise RuntimeError("no such kernel")

    crashing = word("crashing", entry=lambda x, i, j, s: 2 * s(i, j), run=broken)
    with pytest.raises(ProofError, match="the torch run failed"):
        Derivation("crash", crashing(X)).by(2 * X, unfold(crashing))


def test_hypotheses_that_no_sample_meets_are_said_to_be_so():
    theorem = Derivation("empty", ones(n)).by(2 * ones(n), given(ones(n), 2 * ones(n))).qed()
    assert theorem.not_run == ("not run in torch: no sample met its hypotheses",)
    assert "not run in torch: no sample met its hypotheses" in repr(theorem)


def test_a_hypothesis_that_holds_almost_is_not_met():
    nearly = X + sp.Rational(1, 10**9) * Y
    sample = Sample(0, X.free_scalars())
    assert given(X, X).met_in(sample) and not given(X, nearly).met_in(sample)


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_must_not_vanish_for_every_index_is_asked_of_each(place):
    """A vector that vanishes in one place only, or is negative there."""
    W, a = Heads("W", h, 1, 1), head("a", h)
    values = torch.ones(3, 1, 1, dtype=torch.float64)
    for there, not_zero, positive in ((1, True, True), (0, False, False), (-1, True, False)):
        values[place] = there
        sample = Sample(0, {h}).fixing({W.family: values})
        sample._sizes[h] = 3
        assert NonZero(W[a], bound=(a,)).met_in(sample) is not_zero
        assert NonZero(W[a], positive=True, bound=(a,)).met_in(sample) is positive


ASSUMED = {
    "two letters": given(X, Y),
    "orthonormal columns": given(X.T @ X, identity(d)),
    "a weighted sum that vanishes": given(X.T @ matrix("v", n), zeros(d)),
    "two equations": given(X @ X.T @ X, X),
}


@pytest.mark.parametrize("name", ASSUMED)
def test_letters_are_found_that_fulfil_an_equation(name):
    """A line that uses it is run, at sizes beyond 1; one that is false beside it is heard."""
    equation = ASSUMED[name]
    assert listen(equation.lhs, equation.rhs, [equation]) is None
    assert "torch finds it false" in listen(
        equation.lhs + ones(*equation.lhs.shape), equation.rhs, [equation]
    )
    sizes_heard = []
    for seed in range(20):
        try:
            sample = alarm._meeting(Sample(seed, X.free_scalars() | {d}), [equation])
        except alarm.HypothesesNotMet:
            continue
        sizes_heard.append((sample.size(n), sample.size(d)))
    assert any(a >= 2 and b >= 2 for a, b in sizes_heard)


def test_a_mean_is_run_at_sizes_beyond_one(monkeypatch):
    R, sizes_heard = random_matrix("R", n, n, 1), []
    run = Sample.expectation
    monkeypatch.setattr(
        Sample, "expectation", lambda s, x: sizes_heard.append(s.size(n)) or run(s, x)
    )
    assert listen(expectation(R @ R.T), n * identity(n)) is None and max(sizes_heard) >= 2
    assert listen(expectation(R @ R.T), ones(n, n) @ expectation(R @ R.T))


def test_a_draw_too_large_to_enumerate_is_no_refusal():
    R = random_matrix("R", 3, 5, 1)
    theorem = Derivation("T", expectation(R)).by(zeros(3, 5), SECOND_MOMENTS).qed()
    assert theorem.not_run == ("not run in torch: no sample met its hypotheses",)


def test_a_hypothesis_narrows_the_samples():
    order = permutation("Π", n)
    theorem = Derivation("fixed", order @ X).by(X, given(order, identity(n))).qed()
    assert theorem.not_run == ()


def test_the_alarm_runs_for_every_line(monkeypatch):
    heard = []
    monkeypatch.setattr(proofs, "listen", lambda *line: heard.append(line))
    Derivation("two", X + X).by(2 * X).by(3 * X - X).qed()
    assert len(heard) == 2 and alarm.torch_is_here()


def test_an_index_form_reads_the_permutation_that_torch_has():
    P, Z = permutation("Π", n), matrix("Z", n, d)
    table = tabulate(lambda i, j: entry_of(P @ Z, i, j), n, d)
    assert listen(P @ Z, table) is None
    assert "torch finds it false" in listen(P.T @ Z, table)
