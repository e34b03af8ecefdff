"""Random sum expressions: a normal form has the value of what it came from.

The evaluator of these tests is written here and shares no code with the normal form, nor with
the package's own interpreter: it works on plain Python data that the expressions are built from.
"""

import itertools
import math
import random

import sympy as sp
from derivation import sums
from derivation.sums import (
    ANGLE_ADDITION,
    COUNT,
    EXP_OF_SUM,
    REINDEX,
    SPLIT,
    Apply,
    AtMost,
    Bijection,
    Cases,
    Delta,
    Entry,
    Exp,
    Family,
    Join,
    Normaliser,
    Reciprocal,
    Sigma,
    abstraction,
    equal,
    fresh,
    moved,
)
from hypothesis import given, settings
from hypothesis import strategies as st

N, M = sp.symbols("n m", integer=True, positive=True)
JOINED = Join(N, M)
RANGES = {"n": N, "m": M, "n+m": JOINED}
PERMUTATIONS = {
    name: Bijection(name, RANGES[size]) for name, size in (("p", "n"), ("q", "n"), ("r", "m"))
}
LETTERS = {
    "A": Family("A", "matrix", (N, N)), "B": Family("B", "matrix", (M, N)),
    "u": Family("u", "matrix", (N, 1)), "w": Family("w", "matrix", (M, 1)),
}  # fmt: skip
c = sp.Symbol("c", real=True)

# ── A term as plain data: ("sum", range, body), ("index", depth, word), … ─────────────────


def positions(scope, size):
    """A position of a range: an index in scope, moved by a word of permutations."""
    depths = [d for d, s in enumerate(scope) if s == size]
    if not depths:
        return None
    names = [name for name in PERMUTATIONS if sp.sympify(PERMUTATIONS[name].size) == RANGES[size]]
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


def build(data, scope):
    """The term of the package that plain data describe; scope holds its indices."""
    kind, *rest = data
    if kind == "number":
        return sp.Integer(rest[0])
    if kind == "scalar":
        return c
    if kind == "entry":
        axes = [at(p, scope) for p in rest[1]]
        return Entry(LETTERS[rest[0]], *axes, *([sums.End(1)] if len(axes) == 1 else []))
    if kind == "delta":
        return Delta(at(rest[0], scope), at(rest[1], scope))
    if kind == "at most":
        return AtMost(at(rest[0], scope), at(rest[1], scope))
    if kind == "stack":
        blocks = [abstraction(lambda k, f=f: Entry(f, k, sums.End(1)), f.sizes[0])
                  for f in (LETTERS["u"], LETTERS["w"])]  # fmt: skip
        return Cases(at(rest[0], scope), *blocks)
    if kind == "sum":
        k = fresh(RANGES[rest[0]])
        return Sigma(build(rest[1], (*scope, k)), k)
    parts = [build(r, scope) for r in rest]
    return {
        "add": lambda: parts[0] + parts[1], "mul": lambda: parts[0] * parts[1], "exp": lambda: Exp(parts[0]),
        "reciprocal of exp": lambda: Reciprocal(Exp(parts[0])), "square": lambda: parts[0] ** 2,
        "cos": lambda: Apply("cos", parts[0] + parts[1]),
    }[kind]()  # fmt: skip


def at(position, scope):
    depth, word = position
    where = scope[depth]
    for name, sign in word:
        where = moved(PERMUTATIONS[name], where, sign)
    return where


def wave(name, angle):
    """A sine or cosine; of an angle so large that rounding decides it, an OverflowError."""
    if abs(angle) > 1e6:
        raise OverflowError(angle)
    return getattr(math, name)(angle)


class World:
    """Concrete sizes, entries and permutations, and the value of plain data in them."""

    def __init__(self, seed):
        draw = random.Random(seed)
        n, m = draw.choice([(1, 2), (2, 1), (2, 3), (3, 2), (1, 1)])
        self.sizes = {"n": n, "m": m, "n+m": n + m}
        self.letters = {name: {at: draw.uniform(-1, 1) for at in itertools.product(range(n if name != "w" else m),
                               range(n) if name in "A" else range(1))} for name in ("A", "u", "w")}  # fmt: skip
        self.letters["B"] = {
            at: draw.uniform(-1, 1) for at in itertools.product(range(m), range(n))
        }
        self.permutations = {}
        for name, size in (("p", n), ("q", n), ("r", m)):
            images = list(range(size))
            draw.shuffle(images)
            self.permutations[name] = images
        self.c = draw.uniform(-1, 1)

    def where(self, position, scope):
        depth, word = position
        k = scope[depth]
        for name, sign in word:
            images = self.permutations[name]
            k = images[k] if sign > 0 else images.index(k)
        return k

    def value(self, data, scope=()):
        kind, *rest = data
        if kind == "number":
            return float(rest[0])
        if kind == "scalar":
            return self.c
        if kind == "entry":
            axes = tuple(self.where(p, scope) for p in rest[1])
            return self.letters[rest[0]][axes if len(axes) == 2 else (*axes, 0)]
        if kind == "delta":
            return float(self.where(rest[0], scope) == self.where(rest[1], scope))
        if kind == "at most":
            return float(self.where(rest[0], scope) <= self.where(rest[1], scope))
        if kind == "stack":
            k, n = self.where(rest[0], scope), self.sizes["n"]
            return self.letters["u"][k, 0] if k < n else self.letters["w"][k - n, 0]
        if kind == "sum":
            return sum(self.value(rest[1], (*scope, k)) for k in range(self.sizes[rest[0]]))
        parts = [self.value(r, scope) for r in rest]
        return {"add": lambda: parts[0] + parts[1], "mul": lambda: parts[0] * parts[1],
                "exp": lambda: math.exp(parts[0]), "reciprocal of exp": lambda: math.exp(-parts[0]),
                "square": lambda: parts[0] ** 2, "cos": lambda: wave("cos", parts[0] + parts[1])}[kind]()  # fmt: skip

    def of_term(self, term, bound=None):
        """The value of a term of the package, by a reader of its own."""
        bound = bound or {}
        f = lambda e: self.of_term(e, bound)  # noqa: E731
        if isinstance(term, Sigma):
            body, *ks = term.args
            spans = [range(self.span(k.args[1])) for k in ks]
            return sum(
                self.of_term(body, {**bound, **dict(zip(ks, at))})
                for at in itertools.product(*spans)
            )
        if isinstance(term, Entry):
            family, *axes = term.args
            return self.letters[family.name][tuple(self.place(p, bound) for p in axes)]
        if isinstance(term, Delta):
            return float(self.place(term.args[0], bound) == self.place(term.args[1], bound))
        if isinstance(term, AtMost):
            return float(self.place(term.args[0], bound) <= self.place(term.args[1], bound))
        if isinstance(term, Cases):
            k, n = self.place(term.args[0], bound), self.sizes["n"]
            return self.letters["u"][k, 0] if k < n else self.letters["w"][k - n, 0]
        if isinstance(term, Exp):
            return math.exp(f(term.args[0]))
        if isinstance(term, Apply):
            return wave(term.args[0].name, f(term.args[1]))
        if isinstance(term, (sums.Index, sums.Moved, sums.Part, sums.End)):
            return self.place(term, bound) + 1.0
        if term.is_Add:
            return sum(map(f, term.args))
        if term.is_Mul:
            return math.prod(map(f, term.args))
        if term.is_Pow:
            return f(term.base) ** float(term.exp)
        return {N: float(self.sizes["n"]), M: float(self.sizes["m"]), c: self.c}.get(term) or float(
            term
        )

    def span(self, size):
        named = {N: "n", M: "m", JOINED: "n+m"}
        return self.sizes[named[size]] if size in named else int(size)

    def place(self, p, bound):
        if isinstance(p, sums.End):
            return self.span(p.args[0]) - 1
        if isinstance(p, sums.Part):
            return self.place(p.args[1], bound) + (self.sizes["n"] if p.args[0] else 0)
        if isinstance(p, sums.Moved):
            k = self.place(p.args[1], bound)
            for letter, sign in reversed(p.args[0]):
                images = self.permutations[letter.name]
                k = images[k] if sign > 0 else images.index(k)
            return k
        return bound[p]


LAWS = [(), (REINDEX,), (EXP_OF_SUM,), (SPLIT,), (ANGLE_ADDITION,), (COUNT,),
        (REINDEX, EXP_OF_SUM, SPLIT, ANGLE_ADDITION, COUNT)]  # fmt: skip


@settings(max_examples=400, deadline=None, derandomize=True)
@given(terms((), 4), st.sampled_from(LAWS), st.integers(0, 10**6))
def test_a_normal_form_keeps_the_value(data, laws, seed):
    world = World(seed)
    try:
        expected = world.value(data)
    except OverflowError:
        return
    if not abs(expected) < 1e6:
        return
    try:
        form = Normaliser(laws)(build(data, ()))
    except sums.ProofError as refusal:
        assert "split" in str(refusal)  # too large a step is refused, never mistaken
        return
    try:
        found = world.of_term(form)
    except OverflowError:
        return
    assert math.isclose(found, expected, rel_tol=1e-8, abs_tol=1e-8)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(terms((), 3), terms((), 3), st.sampled_from(LAWS), st.integers(0, 10**6))
def test_equal_normal_forms_have_equal_values(left, right, laws, seed):
    """Random pairs are seldom equal; those that the checker calls equal must be so."""
    normalise, world = Normaliser(laws), World(seed)
    try:
        if not equal(normalise(build(left, ())), normalise(build(right, ()))):
            return
        values = world.value(left), world.value(right)
    except (sums.ProofError, OverflowError):
        return
    assert math.isclose(*values, rel_tol=1e-8, abs_tol=1e-8)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(terms((), 4))
def test_a_normal_form_does_not_depend_on_the_names_of_indices(data):
    normalise = Normaliser((REINDEX,))
    try:
        first, second = normalise(build(data, ())), Normaliser((REINDEX,))(build(data, ()))
    except sums.ProofError:
        return
    assert first == second


def test_a_delta_between_two_summed_positions_has_one_form():
    """It may fix either of them, and the names of the two, which are accidental, do not say which."""
    p, u, A = PERMUTATIONS["p"], LETTERS["u"], LETTERS["A"]
    forms = set()
    for _ in range(3):
        k, l = fresh(N), fresh(N)
        body = Delta(k, moved(p, l)) * Entry(u, k, sums.End(1)) * Entry(A, l, l)
        forms |= {Normaliser()(Sigma(body, k, l)), Normaliser()(Sigma(body, l, k))}
    assert len(forms) == 1


def test_the_reader_of_these_tests_can_tell_a_wrong_form():
    """The control: a form with a sum dropped has another value."""
    data = ("sum", "n", ("entry", "u", ((0, []),)))
    world = World(3)
    right = Normaliser()(build(data, ()))
    wrong = right.args[0].xreplace({right.args[1]: sums.End(N)})
    assert math.isclose(world.of_term(right), world.value(data))
    assert not math.isclose(world.of_term(wrong), world.value(data))
