"""A proof that somebody is still writing gets an answer, and a finished one is known by what it says."""

import pytest
from derivation import Derivation, Theorem, attempt, matrix, normalise, proves, sizes, unfold
from derivation.printing import Text

m, n = sizes("m n")
S = matrix("S", m, n)


def doubled(line, *reasons):
    return lambda: Derivation("twice", S + S).by(line, *reasons).qed()


@pytest.mark.parametrize(
    ("write", "sentence"),
    [
        (doubled(...), "twice, line 1: the expression is still to be written, in place of ..."),
        (doubled(2 * S, ...), "twice, line 1: a reason is still to be written, in place of ..."),
        (
            lambda: Derivation("twice", ...),
            "twice: the expression is still to be written, in place of ...",
        ),
        (
            lambda: Derivation("twice", S + S).by(S + ...),
            "what stands beside + is still to be written, in place of ...",
        ),
        (
            lambda: Derivation("twice", S + S).by(... - S),
            "what stands beside - is still to be written, in place of ...",
        ),
        (
            lambda: Derivation("twice", S @ S.T).by(... @ S.T),
            "what stands beside @ is still to be written, in place of ...",
        ),
    ],
)
def test_an_attempt_says_what_is_missing(write, sentence):
    assert repr(attempt(write)) == sentence


def test_an_attempt_gives_the_theorem_or_the_refusal():
    assert isinstance(attempt(doubled(2 * S)), Theorem)
    assert "line 1 is not justified" in repr(attempt(doubled(3 * S)))


def test_proves_asks_for_the_statement_and_for_its_hypotheses():
    twice = doubled(2 * S)()
    assert proves(twice, S + S, 2 * S) and proves(twice, 2 * S, S + S)  # equal by algebra
    assert not proves(twice, S + S, 3 * S)
    assert not proves("twice", S + S, 2 * S) and not proves(attempt(doubled(...)), S + S, 2 * S)
    rows = Derivation("scale", normalise(2 * S)).by(normalise(S), unfold(normalise)).qed()
    said = [h.show(Text()) for h in rows.hypotheses]
    assert said and not proves(rows, normalise(2 * S), normalise(S), needs=said[1:])
    assert proves(rows, normalise(2 * S), normalise(S), needs=said)
