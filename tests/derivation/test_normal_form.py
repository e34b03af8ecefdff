"""Random sum expressions: a normal form has the value of what it came from.

Both are evaluated by the package's interpreter of terms, which shares nothing with normal forms.
"""

import math
import random
from itertools import product

from derivation.evaluation import FLOAT, Instance
from derivation.kernel.normal import ANGLE, COUNT, EXP, ORDER, REINDEX, SPLIT, Normal
from derivation.kernel.terms import *
from derivation.letters import exact_number, letter
from hypothesis import given, settings
from hypothesis import strategies as st

c, N, M = letter("c", NUM), letter("n", SIZE), letter("m", SIZE)
BOTH = Term("join", N, M)
#: The letters by the ranges of their two axes, and the permutations of each range.
LETTERS = {
    letter(name, fun(*map(pos, axes))): axes
    for name, axes in (("A", (N, N)), ("B", (M, N)), ("u", (N, UNIT)), ("w", (M, UNIT)))
}
A, B, u, w = LETTERS
PERMUTATIONS = {
    size: [letter(name, fun(pos(size), kind="perm", result=pos(size))) for name in names]
    for size, names in ((N, "pq"), (M, "r"), (BOTH, ""))
}


@st.composite
def terms(draw, depth=5, scope=()):
    """A random term whose free indices are those in scope: pairs of an index and its range."""
    part = lambda: draw(terms(depth - 1, scope))

    def at(size):
        """An index of that range, moved by some of its permutations."""
        if size == UNIT:
            return ONLY
        where = draw(st.sampled_from([index for index, its in scope if its == size]))
        for permutation in PERMUTATIONS[size]:
            way = draw(st.sampled_from((1, 0, -1)))
            where = Term("move", permutation, way, where) if way else where
        return where

    def summed(size):
        index = fresh(pos(size))
        return Term("sum", abstract([index], draw(terms(depth - 1, (*scope, (index, size))))))

    def stacked():
        return Term("case", at(BOTH), *(row(f, size) for f, size in ((u, N), (w, M))))

    there = {UNIT, *(size for _, size in scope)}
    choices = [lambda: c, lambda: exact_number(draw(st.sampled_from((-2, -1, 1, 2, 3))))]
    for f, axes in LETTERS.items():
        if there >= {*axes}:
            choices.append(lambda f=f, axes=axes: Term("app", f, *map(at, axes)))
    for size, op in product((N, M), ("delta", "delta", "le")):
        if size in there:
            choices.append(lambda size=size, op=op: Term(op, at(size), at(size)))
    if BOTH in there:
        choices.append(stacked)
    if depth:
        choices += [
            lambda: Term("add", part(), part()),
            lambda: Term("mul", part(), part()),
            lambda: Term("exp", part()),
            lambda: Term("inv", Term("exp", part())),
            lambda: Term("call", "cos", Term("add", part(), part())),
            lambda: Term("pow", part(), 2),
            *2 * [lambda: summed(N), lambda: summed(M), lambda: summed(BOTH)],
        ]
    return draw(st.sampled_from(choices))()


def row(f, size):
    index = fresh(pos(size))
    return abstract([index], Term("app", f, index, ONLY))


def world(seed):
    """The value of a term at concrete sizes, entries and permutations, as a function."""
    draw = random.Random(seed)
    n, m = draw.choice([(1, 2), (2, 1), (2, 3), (3, 2), (1, 1)])
    sizes, meant = {N: n, M: m, UNIT: 1}, {N: n, M: m, c: draw.uniform(-1, 1)}
    for f, axes in LETTERS.items():
        table = {at: draw.uniform(-1, 1) for at in product(*(range(1, sizes[s] + 1) for s in axes))}
        meant[f] = lambda i, j, table=table: table[i, j]
    for size in (N, M):
        for permutation in PERMUTATIONS[size]:
            images = [*range(1, sizes[size] + 1)]
            meant[permutation] = tuple(draw.sample(images, len(images)))
    return lambda term: float(Instance(meant, {**FLOAT, "cos": cosine}).value(term))


def cosine(angle):
    """A cosine; of an angle so large that rounding decides it, an OverflowError."""
    if abs(angle) > 1e6:
        raise OverflowError(angle)
    return math.cos(angle)


LAWS = [(), (REINDEX,), (EXP,), (SPLIT,), (ANGLE,), (COUNT,), (ORDER,),
        (REINDEX, EXP, SPLIT, ANGLE, COUNT, ORDER)]  # fmt: skip


@settings(max_examples=500, deadline=None, derandomize=True)
@given(terms(), st.sampled_from(LAWS), st.integers(0, 10**6))
def test_a_normal_form_keeps_the_value_and_says_nothing_of_names(term, laws, seed):
    value = world(seed)
    try:
        expected = value(term)
        form = Normal((), laws).canonical(term)
        assert form == Normal((), laws).canonical(term), "indices get other names each time"
        found = value(form)
    except OverflowError:
        return
    except ProofError as refusal:
        assert "split" in str(refusal)  # too large a step is refused, never mistaken
        return
    assert math.isclose(found, expected, rel_tol=1e-8, abs_tol=1e-8) or abs(expected) > 1e6


def test_a_delta_between_two_summed_positions_has_one_form():
    """It may fix either of them, and the names of the two, which are accidental, do not say which."""
    p, forms = PERMUTATIONS[N][0], set()
    for _ in range(3):
        k, l = fresh(pos(N)), fresh(pos(N))
        there = Term("delta", k, Term("move", p, 1, l))
        body = Term("mul", there, Term("app", u, k, ONLY), Term("app", A, l, l))
        for order in ((k, l), (l, k)):
            forms.add(Normal().canonical(Term("sum", abstract(order, body))))
    assert len(forms) == 1


def test_rationals_inside_opened_sums_multiply():
    """Σ 2 c Σ 3 c is 6 c² for each pair of indices."""
    of = lambda q: Term("sum", abstract([fresh(pos(N))], Term("mul", exact_number(q), c)))
    product_of_sums = frozenset([(of(2), 1), (of(3), 1)])
    [(indices, inside, q)] = Normal().unpacked(product_of_sums, frozenset([c]))
    assert (len(indices), inside, q) == (2, frozenset([(c, 2)]), 6)


def test_a_wrong_form_would_be_seen():
    """The control: a form with a sum dropped has another value."""
    term, value = Term("sum", row(u, N)), world(3)
    right = Normal().canonical(term)
    wrong = put(right.args[0].args[0], (Term("last", N),))
    assert math.isclose(value(right), value(term))
    assert not math.isclose(value(wrong), value(term))
