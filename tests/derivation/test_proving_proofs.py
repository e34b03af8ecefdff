"""An induction needs a base and a step; `proves` compares a proof with what is asked for."""

import pytest
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_torch")
x, y, z, after = matrix("x", 1), matrix("y", 1), sequence("z"), join(t, 1)
first, sums = z[1], lambda t: ones(t).T @ z.prefix(t)
count = lambda t: ones(1, t) @ ones(t, 1)
total_is_the_first = lambda: Induction("I", t, sums(t), first)


def step_that_assumes_what_it_needs_for_every_t():
    left = lambda t: (count(t) - ones(1)) @ (count(t) - 6 * ones(1)) @ x
    induction = Induction("I", t, left(t), zeros(1)).base(lambda line: line.by(zeros(1)))
    return induction.step(lambda line, claim: line.by(zeros(1), given(left(after), zeros(1)))).qed()


test_a_faulty_use_is_refused = refused({
    "a proof needs at least one line": lambda: Derivation("t", A).qed(),
    "needs a base and a step": lambda: total_is_the_first().qed(),
    "base: ends with softmax(x), not with 1": lambda: Induction(
        "I", t, softmax(x), ones(1, 1)).base(lambda line: line.by(softmax(x))),
    "step, line 2 is not justified": lambda: total_is_the_first().step(
        lambda line, claim: line.by(sums(t) + z[after], SPLIT).by(first, claim)),
    "a part of an induction is not a theorem by itself": lambda: Induction("I", t, x, y).step(
        lambda line, claim: line.by(y, claim).qed()),
    "not the statement at 1": step_that_assumes_what_it_needs_for_every_t,
})  # fmt: skip


def test_proves_asks_for_the_statement_and_for_its_hypotheses():
    twice = theorem(S + S, 2 * S)
    unfinished = attempt(lambda: line(S + S, ...))
    assert proves(twice, S + S, 2 * S) and proves(twice, 2 * S, S + S)  # in either direction
    assert proves(twice, S + S, 2 * S, needs=None) and not proves(twice, S + S, 3 * S)
    assert not proves("twice", S + S, 2 * S) and not proves(unfinished, S + S, 2 * S)
    needy = theorem(A, B, given(A, B))
    assert proves(needy, A, B, needs="A = B") and not proves(needy, A, B)
    rows = theorem(normalise(2 * S), normalise(S), unfold(normalise))
    said = shown(rows)
    assert said and not proves(rows, normalise(2 * S), normalise(S), needs=said[1:])
    assert proves(rows, normalise(2 * S), normalise(S), needs=said)
