"""What a reader may write by mistake is answered in a sentence, and never by a stack trace."""

import pytest
from derivation import *  # noqa: F403
from derivation import ProofError

n, m, s = *sizes("n m"), scalars("s")
A, a, z = matrix("A", n, n), head("a", n), sequence("z")
theorem = Derivation("T", A + A).by(2 * A).qed()


def nested(times, of, x=A):
    for _ in range(times):
        x = of(x)
    return x


MISTAKES = {
    "no expression in a mean": (lambda: expectation(3), "expectation needs an expression"),
    "no expression in a sum": (lambda: over(a, 3), "over needs an expression"),
    "no expression in a slope": (lambda: derivative(3, s), "derivative needs an expression"),
    "no expression to end": (lambda: last_row(3), "last_row needs an expression"),
    "numbers for positions": (lambda: entry_of(A, 1, 2), "the positions that tabulate"),
    "an entry of nothing": (lambda: entry_of(3), "entry_of needs an expression"),
    "no size": (lambda: ones(None), "a size is a whole number"),
    "a size in words": (lambda: ones("n("), "a size is a whole number"),
    "no size of a letter": (lambda: matrix("A", None), "a size is a whole number"),
    "a slice": (lambda: z[1:3], "a size is a whole number"),
    "no name": (lambda: entrywise(None), "cannot be called None"),
    "no index form": (lambda: tabulate(3), "written as a function"),
    "an index form of one index": (lambda: tabulate(lambda i: 1, n, n), "of 2 arguments"),
    "a sum of nothing": (lambda: tabulate(lambda i, j: total(3, n), n, n), "written as a function"),
    "no definition": (lambda: define("f", None)(A), "written as a function"),
    "a definition of too much": (lambda: define("f", lambda x, y: x)(A), "of 1 argument here"),
    "a step of too little": (
        lambda: recursion("r", lambda: ones(1), lambda row: row)(n), "of 2 arguments here"),
    "a letter that is not named": (lambda: theorem(A), "say which letter"),
    "sides that are none": (lambda: proves(theorem, 3, 4), "proves: an expression"),
    "a claim that is none": (lambda: counterexample(A, 3), "counterexample needs an expression"),
    "a base of no line": (
        lambda: Induction("I", n, A, A).base(lambda line: line), "at least one line"),
    "four hundred exponentials": (
        lambda: tabulate(lambda i, j: nested(4000, exp_of, entry_of(A, i, j)), n, n), "nested so"),
    "no base": (lambda: Induction("I", n, A, A).base(None), "written as a function"),
    "an induction without a name": (lambda: Induction(3, n, A, A), "words in one row"),
    "four hundred transposes": (lambda: nested(400, lambda x: x.T), "nested so deeply"),
    "a thousand words": (lambda: nested(1000, softmax), "nested so deeply"),
}  # fmt: skip


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_answered_in_a_sentence(mistake):
    write, answer = MISTAKES[mistake]
    with pytest.raises(ProofError, match=answer):
        write()


def test_what_is_nested_as_deeply_as_allowed_is_read():
    deep = nested(98, lambda x: x.T)
    theorem = Derivation("T", deep + deep).by(2 * A).qed()
    assert repr(theorem).count("ᵀ") == 98  # where it has a name
    assert Derivation("T", nested(95, softmax) - nested(95, softmax)).by(0 * A).qed()


def test_needs_may_be_one_text_or_none():
    assert proves(theorem, A + A, 2 * A, needs=None)
    B = matrix("B", n, n)
    needy = Derivation("T", A).by(B, given(A, B)).qed()
    assert proves(needy, A, B, needs="A = B") and not proves(needy, A, B)
