"""Letters for the checker's tests, and helpers that prove lines and test refusals and output."""

import pytest
from derivation import *
from derivation.printing.latex_and_text import Text
from derivation.proving import proofs

n, m, d, k, h, t = sizes("n m d k h t")
c, r, s = scalars("c r s")
tau, eps, sigma = scalars("tau epsilon sigma", positive=True)
A, B, X, Y = matrix("A", n, n), matrix("B", n, n), matrix("X", n, d), matrix("Y", n, d)
S, v, w = matrix("S", m, n), matrix("v", n), matrix("w", n)
M, P = mask("M", m, n), permutation("Π", n)
J, one = ones(n, n), ones(n)
a, b = head("a", h), head("b", h)
R = random_matrix("R", n, n, 1)


@pytest.fixture
def without_torch(monkeypatch):
    """Skip the runs in torch, so that only the kernel or the notation can refuse a line."""
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)


def line(before, claim, *reasons):
    return Derivation("T", before).by(claim, *reasons)


def theorem(before, claim, *reasons):
    return line(before, claim, *reasons).qed()


def table(entry, rows=n, columns=n):
    return tabulate(entry, rows, columns)


def entries(x):
    """An index form that equals ``x``."""
    return tabulate(lambda i, j: entry_of(x, i, j), *x.shape)


def shown(proof):
    """The hypotheses of a proof, as they are printed."""
    return [str(hypothesis.show(Text())) for hypothesis in proof.hypotheses]


def refuse(write, words):
    """Require that the checker or Python refuses ``write()`` with these words."""
    with pytest.raises((ProofError, AttributeError, TypeError)) as found:
        write()
    assert words in str(found.value)


def refused(rows):
    """Make a test from {words of a refusal: a function, or {title: function}}."""
    cases = [
        pytest.param(write, words, id=name)
        for words, those in rows.items()
        for name, write in ({words: those} if callable(those) else those).items()
    ]

    @pytest.mark.parametrize("write, words", cases)
    def test(write, words):
        refuse(write, words)

    return test
