"""A reader's mistakes are reported in a sentence."""

from types import SimpleNamespace

import sympy as sp
from shared_letters import *

z, V = sequence("z"), matrix("V", m, n)


def nested(times, of, x=A):
    return nested(times - 1, of, of(x)) if times else x


test_a_mistake_is_answered_in_a_sentence = refused({
    "+ needs an expression of the book, not 1": lambda: A + 1,
    "s**(1/3) is not a scalar of the book": lambda: sp.cbrt(s) * A,
    "a row and a column": lambda: tabulate(lambda i, j: entry_of(A, i), n, n),
    # sizes and shapes
    "give the names in one string": lambda: sizes(3),
    "a size is an integer": {"no size": lambda: ones(None), "a slice": lambda: z[1:3]},
    "write join(n, m) or join(m, n)": lambda: matrix("X", n + m, d),
    "do not conform: (m, n) @ (m, n)": lambda: S @ V,
    "shapes differ: (n, d) = (d, n)": lambda: line(X, X.T),
    # numbers
    "is a float: a derivation takes exact numbers only": lambda: 0.5 * A,
    "a is not a scalar: it depends on a position": lambda: a * A,
    "c is not a scalar of the book": lambda: sp.Symbol("c") * A,  # it has no assumptions
    "a real scalar symbol": {
        repr(along): lambda along=along: derivative(X, along) for along in (n, tau, 2 * s, "s")},
    # words, heads, functions
    "the operand beside + is still to be written": lambda: S + ...,
    "LN takes 1 expression and a scalar": lambda: layer_norm(X),
    "over needs an index made by head": lambda: over(3, A),
    "name the letter that it replaces": lambda: theorem(A + A, 2 * A)(A),
    "one formula": lambda: tabulate(lambda i, j: type(i + j)((i + j).term), n, n),
    # constructors and words accept no imitations, and refuse what the builders refuse
    "a random one has a variance": lambda: R.params[0].func("R", "matrix", (n, n), 7),
    "a word that has a definition": {
        "an imitation": lambda: unfold(SimpleNamespace(name="softmax", terms=layer_norm.terms)),
        "a word without one": lambda: unfold(log)},
    "nested too deeply": lambda: nested(400, lambda x: x.T),
})  # fmt: skip


def test_an_expression_of_maximum_depth_is_accepted():
    deep = nested(98, lambda x: x.T)
    assert repr(theorem(deep + deep, 2 * A)).count("ᵀ") == 98  # printed once, under a name
    assert theorem(nested(95, softmax) - nested(95, softmax), 0 * A)


def test_a_refusal_names_hypotheses_and_conditions_of_earlier_lines():
    rests = Derivation("T", A @ B).by(identity(n), given(A @ B, identity(n)))
    assert "rests on hypotheses" in str(refusal(lambda: rests.by(B @ A)))
    flags = mask("F", n, 1)
    divided = tabulate(lambda i, j: entry_of(flags, i, j) / entry_of(flags, i, j), n, 1)
    proof = line(divided, one)  # needs F[i] ≠ 0, and then F is 1
    refuse(lambda: proof.by(flags), "unless the conditions of the lines before exclude")
    refuse(lambda: line(one, flags), "It is false: n = 1; F = 0: 1 ≠ 0")
