"""What a reader may write by mistake, or has not written yet, is answered in a sentence."""

import pytest
import sympy as sp
from derivation.kernel import normal
from shared_letters import *

z, W, V = sequence("z"), Heads("W", h, k, d), matrix("V", m, n)
PROOF = Derivation("T", A + A).by(2 * A)
lookalike = sp.Symbol("e", nonnegative=True)


def nested(times, of, x=A):
    for _ in range(times):
        x = of(x)
    return x


MISTAKES = {
    "no expression in a mean": (lambda: expectation(3), "expectation needs an expression"),
    "no expression in a word": (lambda: exp(3), "exp needs an expression"),
    "a number beside a matrix": (lambda: A + 1, "+ needs an expression of the book, not 1"),
    "numbers for positions": (lambda: entry_of(A, 1, 2), "the positions that tabulate"),
    "an entry of nothing": (lambda: entry_of(3), "entry_of needs an expression"),
    "sides that are none": (lambda: proves(PROOF.qed(), 3, 4), "proves: an expression"),
    "a counterexample of two shapes": (lambda: counterexample(X, X.T), "one shape"),
    "a claim that is none": (lambda: counterexample(A, 3), "counterexample needs an expression"),
    "a foreign start": (lambda: Derivation("t", sp.Symbol("x")), "an expression of the book is wanted"),
    "a foreign line": (lambda: line(A, sp.MatrixSymbol("A", n, n)), "wanted, not A"),
    "no names": (lambda: sizes(""), "names stand in one string"),
    "hypotheses that are no text": (lambda: proves(PROOF.qed(), A, A, needs=3), "in plain text"),
    "no function": (lambda: refusal(3), "refusal takes a function"),
    # sizes and shapes
    "no size": (lambda: ones(None), "a size is a whole number"),
    "a slice": (lambda: z[1:3], "a size is a whole number"),
    "a sum without an order": (lambda: matrix("X", n + m, d), "write join(n, m) or join(m, n)"),
    "a product that does not conform": (lambda: S @ V, "do not conform: (m, n) @ (m, n)"),
    "an entrywise product": (lambda: X * X.T, "do not agree: (n, d) ⊙ (d, n)"),
    "diag of a matrix": (lambda: diag(X), "diag takes a column"),
    "a mask of another shape": (lambda: masked_softmax(M, A), "one shape, not (m, n) and (n, n)"),
    "another shape": (lambda: line(X, X.T), "shapes differ: (n, d) = (d, n)"),
    # numbers
    "a float": (lambda: 0.5 * A, "is a float: a derivation takes exact numbers only"),
    "an infinite number": (lambda: sp.oo * A, "oo is not a scalar"),
    "a position": (lambda: a * A, "a is not a scalar: it depends on a position"),
    "a function": (lambda: sp.sin(r) * A, "sin(r) is not a scalar"),
    "a sum of SymPy": (lambda: sp.Sum(c, (sp.Symbol("q"), 1, 3)) * A, "is not a scalar"),
    "a symbol without assumptions": (lambda: sp.Symbol("c") * A, "c is not a scalar of the book"),
    "a promise of SymPy's": (lambda: lookalike * A, "e is not a scalar of the book"),
    # words, heads, functions
    "a norm without eps": (lambda: layer_norm(X), "LN takes 1 expression and a scalar"),
    "weights for a mask": (lambda: masked_softmax(A * A, B), "takes a mask first"),
    "heads without columns": (lambda: Heads("b", h, k), "needs a number of heads, rows and columns"),
    "a head by a number": (lambda: W[1], "takes indices made by head"),
    "a sum over a number": (lambda: over(3, A), "over needs an index made by head"),
    "no name": (lambda: entrywise(None), "cannot be called None"),
    "no index form": (lambda: tabulate(3), "written as a function"),
    "an index form of one index": (lambda: tabulate(lambda i: 1, n, n), "of 2 arguments"),
    "no definition": (lambda: define("f", None)(A), "written as a function"),
    "a definition of too much": (lambda: define("f", lambda x, y: x)(A), "of 1 argument here"),
    "a step of too little": (
        lambda: recursion("r", lambda: ones(1), lambda row: row)(n), "of 2 arguments here"),
    "a letter that is not named": (lambda: PROOF.qed()(A), "say which letter"),
    "an induction without a name": (lambda: Induction(3, n, A, A), "words in one row"),
    # too deep
    "four thousand exponentials": (
        lambda: tabulate(lambda i, j: nested(4000, exp_of, entry_of(A, i, j)), n, n), "nested so"),
    "four hundred transposes": (lambda: nested(400, lambda x: x.T), "nested so deeply"),
    "a thousand words": (lambda: nested(1000, softmax), "nested so deeply"),
}  # fmt: skip
for along in (n, tau, 2 * s, s + r, sp.Integer(1), "s"):
    MISTAKES[f"a slope along {along!r}"] = (
        lambda along=along: derivative(X, along), "a real scalar symbol")  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_in_a_sentence(mistake):
    refuse(*MISTAKES[mistake])


def test_a_number_of_an_index_form_does_not_forget_its_letters():
    def again(i, j):
        entry = entry_of(A, i, j)
        return type(entry)(entry.term)

    refuse(lambda: tabulate(again, n, n), "uses")


def test_what_is_nested_as_deeply_as_allowed_is_read():
    deep = nested(98, lambda x: x.T)
    assert repr(theorem(deep + deep, 2 * A)).count("ᵀ") == 98  # where it has a name
    assert theorem(nested(95, softmax) - nested(95, softmax), 0 * A)


def test_a_refused_line_names_all_there_is_to_know():
    Q, K, bias = matrix("Q", m, d), matrix("K", n, d), matrix("b", d)
    proof = Derivation("query bias", softmax(Q @ K.T)).by(softmax(Q @ K.T), note="nothing")
    with pytest.raises(ProofError) as refusal:
        proof.by(softmax((Q + ones(m) @ bias.T) @ K.T), unfold(softmax), EXP_OF_SUM)
    for part in ("query bias, line 2", "softmax(Q Kᵀ) = softmax((Q + 1 bᵀ) Kᵀ)", "It is false",
                 "definition of softmax", "exponential of a sum", "1/2 ≠"):  # fmt: skip
        assert part in str(refusal.value)


def test_a_step_that_is_too_large_says_so(monkeypatch):
    monkeypatch.setattr(normal, "MOST_STEPS", 20)
    shifted = layer_norm(X + w @ ones(d).T, eps)
    refuse(lambda: line(layer_norm(X, eps), shifted, unfold(layer_norm)), "line 1: the step is too")


# ── A proof that somebody is still writing ────────────────────────────────────────────────


def doubled(line, *reasons):
    return lambda: Derivation("twice", S + S).by(line, *reasons).qed()


MISSING = {
    "twice, line 1: the expression": doubled(...),
    "twice, line 1: a reason": doubled(2 * S, ...),
    "twice: the expression": lambda: Derivation("twice", ...),
    "what stands beside +": lambda: Derivation("twice", S + S).by(S + ...),
    "what stands beside -": lambda: Derivation("twice", S + S).by(... - S),
    "what stands beside @": lambda: Derivation("twice", S @ S.T).by(... @ S.T),
}


@pytest.mark.parametrize("what", MISSING)
def test_an_attempt_says_what_is_missing(what):
    assert repr(attempt(MISSING[what])) == f"{what} is still to be written, in place of ..."


def test_an_attempt_gives_the_theorem_or_the_refusal():
    assert isinstance(attempt(doubled(2 * S)), Theorem)
    assert "line 1 is not justified" in repr(attempt(doubled(3 * S)))


def test_proves_asks_for_the_statement_and_for_its_hypotheses():
    twice = doubled(2 * S)()
    assert proves(twice, S + S, 2 * S) and proves(twice, 2 * S, S + S)  # equal by algebra
    assert proves(twice, S + S, 2 * S, needs=None) and not proves(twice, S + S, 3 * S)
    assert not proves("twice", S + S, 2 * S) and not proves(attempt(doubled(...)), S + S, 2 * S)
    needy = theorem(A, B, given(A, B))
    assert proves(needy, A, B, needs="A = B") and not proves(needy, A, B)
    rows = theorem(normalise(2 * S), normalise(S), unfold(normalise))
    said = shown(rows)
    assert said and not proves(rows, normalise(2 * S), normalise(S), needs=said[1:])
    assert proves(rows, normalise(2 * S), normalise(S), needs=said)
