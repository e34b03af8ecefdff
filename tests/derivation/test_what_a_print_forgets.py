"""The checker refuses true lines whose printed text would be false, as when a letter is missing."""

import dataclasses

import pytest
import sympy as sp
from shared_letters import *


def without_uses(entry):
    """The entry without its record of letters, which printed text would therefore lack."""
    return dataclasses.replace(entry, uses=frozenset())


def two_kinds_of_a_word():
    """An index form of w(A) = 2 A without its record of w, a word that is used at two shapes."""
    double = define("w", lambda X: 2 * X)
    double(matrix("x", 1, 1))
    letters = lambda e: frozenset(x for x in e.uses if not isinstance(x, operations.Operation))
    forgets = lambda e: dataclasses.replace(e, uses=letters(e))
    return tabulate(lambda i, j: forgets(entry_of(double(A), i, j)), n, n)


SIZE_S = sizes("s")
FORGOTTEN = {
    "a size": lambda: tabulate(lambda i, j: without_uses(entry_of(SIZE_S * ones(1, 1))), 1, 1),
    "a word": two_kinds_of_a_word,
}


@pytest.mark.parametrize("what", FORGOTTEN)
def test_an_index_form_without_its_letters_is_refused(what):
    refuse(FORGOTTEN[what], "forgets what")


def test_two_recursions_of_one_name_in_conditions_are_refused():
    """Two recursions called r, a running sum and 0, would print the same condition r ≠ 0."""
    y, q, t = sequence("y", m), sequence("q"), sizes("t")
    total_ = recursion("r", lambda z: z[1], lambda row, t, z: row + z[join(t, 1)])
    nothing = recursion("r", lambda z: z[1] - z[1], lambda row, t, z: row + row)
    total_(t, y), nothing(t, q)
    sums = total_(t, y) @ ones(m), nothing(t, y) @ ones(m)
    x, words, known = (
        matrix("x", 1, 1),
        {k: define(f"w_{k}", lambda X, k=k: k * X) for k in (2, 3)},
        [],
    )
    for (k, word), s in zip(words.items(), sums):
        one = s @ tabulate(lambda i, j, s=s: 1 / entry_of(s), 1, 1)
        known.append(Derivation(f"{k} x", word(x)).by(k * x @ one, unfold(word)).by(k * x).qed())
    proof = Derivation("T", words[2](x) + words[3](x)).by(2 * x + words[3](x), known[0]())
    refuse(lambda: proof.by(5 * x, known[1]()), "two words r")


def test_the_only_position_of_an_axis_of_1_prints_as_1():
    draw = random_matrix("G", 1, n, 1)
    mean = expectation(exp(draw * (position_numbers(1) @ one.T - position_numbers(n).T)))
    assert shown(theorem(mean - mean, 0 * mean)) == ["E(exp(G[k] (1 - k))) exists for every k"]


E, x_1 = sizes("e"), matrix("x", 1, 1)
MISLEADING = {
    "a size e beside Euler's number": (exp(ones(1, 1)), E * ones(1, 1)),
    "a size e in an exponent": (exp(E * ones(1, 1)), E * exp(ones(1, 1))),
    "a number and a matrix of one name": (scalars("a") * x_1, matrix("a", 1, 1) @ x_1),
    "a mask and a matrix of one name": (matrix("K", n, n), mask("K", n, n)),
}


@pytest.mark.parametrize("claim", MISLEADING)
def test_a_counterexample_has_one_meaning_for_a_name(claim):
    refuse(lambda: counterexample(*MISLEADING[claim]), "a claim: ")


def changed(x):
    """The expression with its operation replaced by an operation that prints as B."""
    other = dataclasses.replace(x.operation, show=lambda x, style, show: ("B", 9))
    return type(x)(other, x.args, x.params, x.axes)


OTHERS = {
    "made": lambda: type(A)(type(A.operation)("zero", None, None, None, None), (), (), A.axes),
    "changed": lambda: changed(A),
    "of a reader's word": lambda: changed(define("w", lambda X: X + X)(A)),
    "of a function": lambda: changed(entrywise("g")(A)),
    "of a word of one's own": lambda: type(softmax)(
        "softmax", (1, 0), lambda X: X.shape, None, run=None, show=None
    )(A),
}


@pytest.mark.parametrize("other", OTHERS)
def test_no_operation_can_be_made_or_changed(other):
    with pytest.raises(TypeError, match="Operation has no subclasses"):
        OTHERS[other]()


def test_an_instance_with_an_undefined_side_is_no_counterexample():
    flags = mask("F", n, 1)
    inverse = tabulate(lambda i, j: 1 / entry_of(flags, i, j), n, 1)
    assert not counterexample(inverse @ one.T @ flags, n * one)
    assert counterexample(inverse @ one.T @ flags, 2 * n * one)


def test_zero_times_a_row_prints_unlike_a_column_of_zeros():
    """Before a row u, the number 0 prints as 0*u, and a column of zeros as 0 u."""
    u = matrix("u", 1, d)
    assert "0*u" in str(theorem(exp(0 * u), exp(zeros(1, d)))) and str(1 * u) == "u"
    assert r"0 \times u" in theorem(exp(0 * u), exp(zeros(1, d)))._repr_latex_()
    assert "0 u" in str(theorem(zeros(n, 1) @ u, zeros(n, d)))


def test_a_refusal_mentions_conditions_of_earlier_lines():
    flags = mask("F", n, 1)
    divided = tabulate(lambda i, j: entry_of(flags, i, j) / entry_of(flags, i, j), n, 1)
    proof = Derivation("T", divided).by(one)  # needs F[i] ≠ 0, and then F is 1
    refuse(
        lambda: proof.by(flags), "It is false, unless the conditions of the lines before exclude"
    )
    refuse(lambda: line(one, flags), "It is false: n = 1; F = 0: 1 ≠ 0")


def test_an_unevaluated_number_is_evaluated():
    halved = sp.Pow(sp.Rational(1, 2), -1, evaluate=False)
    assert str(sp.Mul(-1, halved, evaluate=False) * v) == "-2 v"
