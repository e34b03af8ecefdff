"""Random sum expressions: a normal form has the value of what it came from.

Both are evaluated by the package's interpreter of terms, which shares nothing with normal forms.
"""

import math
import random
from fractions import Fraction
from itertools import product

from derivation.evaluation import FLOAT, Instance
from derivation.kernel.normal import ANGLE, COUNT, EXP, ORDER, REINDEX, SPLIT, Normal
from derivation.kernel.terms import *
from derivation.letters import exact_number, letter
from hypothesis import given, settings
from hypothesis import strategies as st

N, M = letter("n", SIZE), letter("m", SIZE)
RANGES = {"n": N, "m": M, "n+m": Term("join", N, M)}
PERMUTATIONS = {
    name: letter(name, fun(pos(RANGES[size]), kind="perm", result=pos(RANGES[size])))
    for name, size in (("p", "n"), ("q", "n"), ("r", "m"))
}
LETTERS = {
    name: letter(name, fun(*map(pos, axes)))
    for name, axes in (("A", (N, N)), ("B", (M, N)), ("u", (N, UNIT)), ("w", (M, UNIT)))
}
BLOCKS = (("u", N), ("w", M))  # of a stack
c = letter("c", NUM)

# ── A term as plain data: ("sum", range, body), ("index", depth, word), … ─────────────────


def positions(scope, size):
    """A position of a range: an index in scope, moved by a word of permutations."""
    depths = [d for d, s in enumerate(scope) if s == size]
    if not depths:
        return None
    names = [name for name, p in PERMUTATIONS.items() if p.args[1].args[1] == pos(RANGES[size])]
    letters = st.tuples(st.sampled_from(names or ["p"]), st.sampled_from((1, -1)))
    word = st.lists(letters, max_size=2 if names else 0)
    return st.tuples(st.sampled_from(depths), word)


def terms(scope, depth):
    """A strategy for terms whose free indices are those in scope (the sizes of their ranges)."""
    leaves = [
        st.tuples(st.just("number"), st.sampled_from((-2, -1, 1, 2, 3))),
        st.just(("scalar",)),
    ]
    n, m, joined = (positions(scope, size) for size in ("n", "m", "n+m"))
    for name, axes in (("A", (n, n)), ("B", (m, n)), ("u", (n,)), ("w", (m,))):
        if all(a is not None for a in axes):
            leaves.append(st.tuples(st.just("entry"), st.just(name), st.tuples(*axes)))
    for p in (n, m):
        if p is not None:
            leaves.append(st.tuples(st.just("delta"), p, p))
            leaves.append(st.tuples(st.just("at most"), p, p))
    if joined is not None:
        leaves.append(st.tuples(st.just("stack"), joined))
    if depth == 0:
        return st.one_of(leaves)
    inner = terms(scope, depth - 1)
    options = [
        *leaves,
        st.tuples(st.just("add"), inner, inner),
        st.tuples(st.just("mul"), inner, inner),
        st.tuples(st.just("exp"), inner),
        st.tuples(st.just("reciprocal of exp"), inner),
        st.tuples(st.just("cos"), inner, inner),
        st.tuples(st.just("square"), inner),
    ]
    options += [
        st.tuples(st.just("sum"), st.just(size), terms((*scope, size), depth - 1))
        for size in RANGES
    ] * 2
    return st.one_of(options)


ON_PARTS = {
    "add": lambda *parts: Term("add", *parts),
    "mul": lambda *parts: Term("mul", *parts),
    "exp": lambda part: Term("exp", part),
    "square": lambda part: Term("pow", part, 2),
    "reciprocal of exp": lambda part: Term("inv", Term("exp", part)),
    "cos": lambda *parts: Term("call", "cos", Term("add", *parts)),
}


def build(data, scope):
    """The term that plain data describe; scope holds its indices."""
    kind, *rest = data
    if kind in ("number", "scalar"):
        return exact_number(*rest) if rest else c
    if kind == "entry":
        axes = [at(p, scope) for p in rest[1]]
        return Term("app", LETTERS[rest[0]], *axes, *[ONLY][: 2 - len(axes)])
    if kind in ("delta", "at most"):
        return Term("delta" if kind == "delta" else "le", *(at(p, scope) for p in rest))
    if kind == "stack":
        blocks = [made(lambda k, f=LETTERS[f]: Term("app", f, k, ONLY), r) for f, r in BLOCKS]
        return Term("case", at(rest[0], scope), *blocks)
    if kind == "sum":
        return Term("sum", made(lambda k: build(rest[1], (*scope, k)), RANGES[rest[0]]))
    return ON_PARTS[kind](*(build(part, scope) for part in rest))


def made(body, size):
    """A function of the positions of a range."""
    k = fresh(pos(size))
    return abstract([k], body(k))


def at(position, scope):
    depth, word = position
    where = scope[depth]
    for name, sign in word:
        where = Term("move", PERMUTATIONS[name], sign, where)
    return where


def world(seed):
    """The value of a term at concrete sizes, entries and permutations, as a function."""
    draw = random.Random(seed)
    n, m = draw.choice([(1, 2), (2, 1), (2, 3), (3, 2), (1, 1)])
    sizes, meant = {N: n, M: m, UNIT: 1}, {N: n, M: m, c: draw.uniform(-1, 1)}
    for family in LETTERS.values():
        axes = [range(1, sizes[axis.args[0]] + 1) for axis in family.args[1].args[2:]]
        table = {at: draw.uniform(-1, 1) for at in product(*axes)}
        meant[family] = lambda i, j, table=table: table[i, j]
    for permutation in PERMUTATIONS.values():
        images = [*range(1, sizes[permutation.args[1].args[1].args[0]] + 1)]
        meant[permutation] = tuple(draw.sample(images, len(images)))
    return lambda term: float(Instance(meant, {**FLOAT, "cos": cosine}).value(term))


def cosine(angle):
    """A cosine; of an angle so large that rounding decides it, an OverflowError."""
    if abs(angle) > 1e6:
        raise OverflowError(angle)
    return math.cos(angle)


LAWS = [(), (REINDEX,), (EXP,), (SPLIT,), (ANGLE,), (COUNT,), (ORDER,),
        (REINDEX, EXP, SPLIT, ANGLE, COUNT, ORDER)]  # fmt: skip


@settings(max_examples=400, deadline=None, derandomize=True)
@given(terms((), 4), st.sampled_from(LAWS), st.integers(0, 10**6))
def test_a_normal_form_keeps_the_value(data, laws, seed):
    value = world(seed)
    try:
        term = build(data, ())
        expected = value(term)
    except OverflowError:
        return
    if not abs(expected) < 1e6:
        return
    try:
        form = Normal((), laws).canonical(term)
    except ProofError as refusal:
        assert "split" in str(refusal)  # too large a step is refused, never mistaken
        return
    try:
        found = value(form)
    except OverflowError:
        return
    assert math.isclose(found, expected, rel_tol=1e-8, abs_tol=1e-8)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(terms((), 3), terms((), 3), st.sampled_from(LAWS), st.integers(0, 10**6))
def test_equal_normal_forms_have_equal_values(left, right, laws, seed):
    """Random pairs are seldom equal; those that the checker calls equal must be so."""
    value = world(seed)
    try:
        left, right = build(left, ()), build(right, ())
        if not Normal((), laws).same(left, right):
            return
        values = value(left), value(right)
    except (ProofError, OverflowError):
        return
    assert math.isclose(*values, rel_tol=1e-8, abs_tol=1e-8)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(terms((), 4))
def test_a_normal_form_does_not_depend_on_the_names_of_indices(data):
    try:
        first, second = (Normal((), (REINDEX,)).poly(build(data, ())) for _ in range(2))
    except ProofError:
        return
    assert first == second


def test_a_delta_between_two_summed_positions_has_one_form():
    """It may fix either of them, and the names of the two, which are accidental, do not say which."""
    p, u, A = PERMUTATIONS["p"], LETTERS["u"], LETTERS["A"]
    forms = set()
    for _ in range(3):
        k, l = fresh(pos(N)), fresh(pos(N))
        there = Term("delta", k, Term("move", p, 1, l))
        body = Term("mul", there, Term("app", u, k, ONLY), Term("app", A, l, l))
        for order in ((k, l), (l, k)):
            forms.add(Normal().canonical(Term("sum", abstract(order, body))))
    assert len(forms) == 1


def test_rationals_inside_opened_sums_multiply():
    """Σ 2 c Σ 3 c is 6 c² for each pair of indices."""

    def times(q):
        number = Term("num", Fraction(q))
        return Term("sum", abstract([fresh(pos(N))], Term("mul", number, c)))

    product = frozenset([(times(2), 1), (times(3), 1)])
    [(indices, inside, q)] = Normal().unpacked(product, frozenset([c]))
    assert (len(indices), inside, q) == (2, frozenset([(c, 2)]), 6)


def test_a_wrong_form_would_be_seen():
    """The control: a form with a sum dropped has another value."""
    term, value = build(("sum", "n", ("entry", "u", ((0, []),))), ()), world(3)
    right = Normal().canonical(term)
    wrong = put(right.args[0].args[0], (Term("last", N),))
    assert math.isclose(value(right), value(term))
    assert not math.isclose(value(wrong), value(term))
