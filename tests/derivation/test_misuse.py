"""A reader's mistakes, and unfinished proofs, are reported in a sentence."""

import dataclasses
from types import SimpleNamespace

import pytest
import sympy as sp
from shared_letters import *

z, V = sequence("z"), matrix("V", m, n)
PROOF = Derivation("T", A + A).by(2 * A)
kind, family = type(A), R.params[0].func


def nested(times, of, x=A):
    for _ in range(times):
        x = of(x)
    return x


def shown_as_b(x):
    """The expression with its operation replaced by an operation that prints as B."""
    other = dataclasses.replace(x.operation, show=lambda x, style, show: ("B", 9))
    return kind(other, x.args, x.params, x.axes)


test_a_mistake_is_answered_in_a_sentence = refused({
    "+ needs an expression of the book, not 1": lambda: A + 1,
    "'x' is not a scalar": lambda: A * "x",
    "s**(1/3) is not a scalar of the book": lambda: sp.cbrt(s) * A,
    "a row and a column": lambda: tabulate(lambda i, j: entry_of(A, i), n, n),
    "proves: expected an expression": lambda: proves(PROOF.qed(), 3, 4),
    "one shape": lambda: counterexample(X, X.T),
    "expected an expression of the book": {
        "a foreign line": lambda: line(A, sp.MatrixSymbol("A", n, n)),
    },
    "refusal takes a function": lambda: refusal(3),
    # sizes and shapes
    "a size is an integer": {"no size": lambda: ones(None), "a slice": lambda: z[1:3]},
    "write join(n, m) or join(m, n)": lambda: matrix("X", n + m, d),
    "do not conform: (m, n) @ (m, n)": lambda: S @ V,
    "diag takes a column": lambda: diag(X),
    "do not agree: (m, n) and (n, n)": lambda: masked_softmax(M, A),
    "shapes differ: (n, d) = (d, n)": lambda: line(X, X.T),
    # numbers
    "is a float: a derivation takes exact numbers only": lambda: 0.5 * A,
    "a is not a scalar: it depends on a position": lambda: a * A,
    "is not a scalar": {
        "a function of SymPy's": lambda: sp.sin(r) * A,
        "a number of another class": lambda: type("Zero", (sp.Integer,), {})(5) * A,
        "a symbol without assumptions": lambda: sp.Symbol("c") * A},
    "a real scalar symbol": {
        repr(along): lambda along=along: derivative(X, along) for along in (n, tau, 2 * s, "s")},
    # words, heads, functions
    "LN takes 1 expression and a scalar": lambda: layer_norm(X),
    "needs a number of heads, rows and columns": lambda: Heads("b", h, k),
    "over needs an index made by head": lambda: over(3, A),
    "must be a function": lambda: define("f", None)(A),
    "of 2 arguments": {
        "an index form of one index": lambda: tabulate(lambda i: 1, n, n),
        "a step of too little": lambda: recursion("r", lambda: ones(1), lambda row: row)(n),
    },
    "name the letter that it replaces": lambda: PROOF.qed()(A),
    "one line of words": lambda: Induction(3, n, A, A),
    "one formula": lambda: tabulate(lambda i, j: type(i + j)((i + j).term), n, n),
    # constructors and words accept no imitations, and refuse what the builders refuse
    "one of matrix": lambda: kind(A.operation, [], [family("R", "draw", (n, n))]),
    "a random one has a variance": lambda: family("R", "matrix", (n, n), 7),
    "takes 1 expression": lambda: kind(softmax(A).operation, [A, A]),
    "not a size": lambda: kind(z[1].operation, [], [z[1].params[0], sp.S.Half]),
    "and nothing else": lambda: kind(causal(n).operation, [A], [s], wanted=(n, n)),
    "two sizes": lambda: kind(ones(n).operation),
    "keeps its shown": lambda: setattr(softmax, "shown", 0),
    "a word that has a definition": {
        "an imitation": lambda: unfold(SimpleNamespace(name="softmax", terms=layer_norm.terms)),
        "a word without one": lambda: unfold(log)},
    "Operation has no subclasses": {
        "changed": lambda: shown_as_b(A),
        "of a reader's word": lambda: shown_as_b(define("w", lambda X: X + X)(A))},
    "nested too deeply": lambda: nested(400, lambda x: x.T),
})  # fmt: skip


def test_an_expression_of_the_greatest_depth_is_accepted():
    deep = nested(98, lambda x: x.T)
    assert repr(theorem(deep + deep, 2 * A)).count("ᵀ") == 98  # printed once, under a name
    assert theorem(nested(95, softmax) - nested(95, softmax), 0 * A)


def test_a_number_is_read_as_what_it_is():
    halved = sp.Pow(sp.Rational(1, 2), -1, evaluate=False)
    assert (str(sp.Mul(-1, halved, evaluate=False) * v), str(1 * v)) == ("-2 v", "v")


def test_a_refusal_names_hypotheses_and_conditions_of_earlier_lines():
    rests = Derivation("T", A @ B).by(identity(n), given(A @ B, identity(n)))
    assert "rests on hypotheses" in str(refusal(lambda: rests.by(B @ A)))
    flags = mask("F", n, 1)
    divided = tabulate(lambda i, j: entry_of(flags, i, j) / entry_of(flags, i, j), n, 1)
    proof = line(divided, one)  # needs F[i] ≠ 0, and then F is 1
    refuse(lambda: proof.by(flags), "unless the conditions of the lines before exclude")
    refuse(lambda: line(one, flags), "It is false: n = 1; F = 0: 1 ≠ 0")


def test_a_refusal_gives_place_claim_definition_law_and_counterexample():
    Q, K, bias = matrix("Q", m, d), matrix("K", n, d), matrix("b", d)
    proof = Derivation("query bias", softmax(Q @ K.T)).by(softmax(Q @ K.T), note="nothing")
    biased = softmax((Q + ones(m) @ bias.T) @ K.T)
    said = str(refusal(lambda: proof.by(biased, unfold(softmax), EXP_OF_SUM)))
    for part in ("query bias, line 2", "softmax(Q Kᵀ) = softmax((Q + 1 bᵀ) Kᵀ)", "It is false",
                 "definition of softmax", "exponential of a sum", "1/2 ≠"):  # fmt: skip
        assert part in said


def test_a_step_that_is_too_large_says_so():
    big = sum(scalars("p q r s t u v w x y z"))
    refuse(
        lambda: line(big**4 * ones(1), (big - 1) ** 4 * ones(1)), "The line is too large to decide"
    )


# ── Unfinished proofs ─────────────────────────────────────────────────────────────────────


def doubled(line, *reasons):
    return lambda: Derivation("twice", S + S).by(line, *reasons).qed()


MISSING = {
    "twice, line 1: the expression": doubled(...),
    "twice, line 1: a reason": doubled(2 * S, ...),
    "twice: the expression": lambda: Derivation("twice", ...),
    "the operand beside +": lambda: Derivation("twice", S + S).by(S + ...),
    "the operand beside @": lambda: Derivation("twice", S @ S.T).by(... @ S.T),
}


@pytest.mark.parametrize("what", MISSING)
def test_an_attempt_says_what_is_missing(what):
    assert repr(attempt(MISSING[what])) == f"{what} is still to be written, in place of ..."


def test_an_attempt_gives_the_theorem_or_the_refusal():
    assert isinstance(attempt(doubled(2 * S)), Theorem)
    assert "line 1 is not justified" in repr(attempt(doubled(3 * S)))


def test_proves_asks_for_the_statement_and_for_its_hypotheses():
    twice = doubled(2 * S)()
    assert proves(twice, S + S, 2 * S) and proves(twice, 2 * S, S + S)  # in either direction
    assert proves(twice, S + S, 2 * S, needs=None) and not proves(twice, S + S, 3 * S)
    assert not proves("twice", S + S, 2 * S) and not proves(attempt(doubled(...)), S + S, 2 * S)
    needy = theorem(A, B, given(A, B))
    assert proves(needy, A, B, needs="A = B") and not proves(needy, A, B)
    rows = theorem(normalise(2 * S), normalise(S), unfold(normalise))
    said = shown(rows)
    assert said and not proves(rows, normalise(2 * S), normalise(S), needs=said[1:])
    assert proves(rows, normalise(2 * S), normalise(S), needs=said)
