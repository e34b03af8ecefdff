"""The value of an expression at concrete sizes, in NumPy or in 60 digits.

This evaluator reads the tree of an expression and computes with matrices.  It uses neither the
kernel nor the entries, neither the operations' torch code nor the package's own interpreter.
What it shares with the checker: the classes that hold an expression and, for an index form, the
one that holds a term.
"""

import itertools
import math
import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Callable

import mpmath
import numpy as np
from derivation import operations as ops
from derivation import vocabulary
from derivation.hypotheses import Condition
from derivation.letters import Bijection, End, Family, Index, Join, scalar_letter, size_term
from derivation.matrices import NonZero, identity

MOST_SIGNS = 6  # random entries under a mean: all their patterns are run through
NEAR_ZERO = 1e-2  # a divisor below it is not tried
FLOAT_TOLERANCE, TOLERANCE = 1e-9, 1e-15


class Undefined(Exception):
    """The expression has no value here, or a hypothesis does not hold: draw another world."""


class Inexact(Exception):
    """A number that is no rational, where rationals are wanted."""


@dataclass(frozen=True)
class Domain:
    """The numbers to compute with, and their functions, which take arrays."""

    number: Callable
    dtype: type
    exp: Callable
    tanh: Callable
    cos: Callable
    sin: Callable
    sqrt: Callable
    step: float | None  # None: no difference is near enough to a derivative


_context = mpmath.MPContext()
_context.dps = 60
_lifted = [np.frompyfunc(getattr(_context, f), 1, 1) for f in ("exp", "tanh", "cos", "sin", "sqrt")]
FLOATS = Domain(float, float, np.exp, np.tanh, np.cos, np.sin, np.sqrt, 1e-3)
DIGITS = Domain(
    lambda f: _context.mpf(f.numerator) / f.denominator if isinstance(f, Fraction) else +_context.mpf(f),
    object, *_lifted, _context.mpf(10) ** -12,
)  # fmt: skip


class World:
    """Concrete sizes, letters, permutations and scalars; calling it evaluates an expression.

    Everything is drawn from the seed and its own name, so that two worlds of one seed agree
    whatever is asked first, and in whatever numbers.
    """

    most_signs = MOST_SIGNS

    def __init__(self, seed, sizes, domain=FLOATS, fixed=None):
        self.seed, self.sizes, self.domain = seed, sizes, domain
        self.fixed, self._values = fixed or {}, {}

    def having(self, fixed):
        """The same world with values for some letters, scalars and indices."""
        return type(self)(self.seed, self.sizes, self.domain, {**self.fixed, **fixed})

    def __call__(self, x):
        if x not in self._values:
            self._values[x] = self._value(x)
        return self._values[x]

    # -- what is drawn

    def _random(self, *key):
        return random.Random("/".join(map(str, (self.seed, *key))))

    def size(self, size):
        """A size as an int."""
        if isinstance(size, Join) or size.is_Mul:
            parts = list(map(self.size, size.args))
            return sum(parts) if isinstance(size, Join) else math.prod(parts)
        return int(size) if size.is_Integer else self.sizes[size]

    def array(self, rows):
        """Fractions as an array."""
        return np.array(
            [list(map(self.domain.number, row)) for row in rows], dtype=self.domain.dtype
        )

    def letter(self, family, at=()):
        """The matrix that a letter stands for; ``at`` says which of a family."""
        if family in self.fixed:
            return self.fixed[family]
        draw = self._random(family.name, *at)
        rows, columns = self.size(family.sizes[-2]), self.size(family.sizes[-1])
        if family.kind == "mask":
            cells = [[draw.randint(0, 1) for _ in range(columns)] for _ in range(rows)]
            if self.seed % 8:
                for row in cells:
                    row[draw.randrange(columns)] = 1
            return self.array([map(Fraction, row) for row in cells])
        return self.array([[self._number(draw) for _ in range(columns)] for _ in range(rows)])

    def _number(self, draw):
        if self.seed % 3 == 1:
            return Fraction(draw.choice((0, 1, -1, 2, 3)))
        return Fraction(draw.choice([k for k in range(-13, 14) if k]), 8)

    def images(self, permutation):
        """Where a permutation sends 1, 2, …, as a list from 0."""
        if permutation in self.fixed:
            return self.fixed[permutation]
        found = list(range(self.size(permutation.size)))
        self._random(permutation.name).shuffle(found)
        if len(found) == 3 and self.seed % 2:
            return [1, 2, 0]  # the smallest permutation that is not its own inverse
        return found

    def row_of(self, family, t):
        """The t-th row of a sequence."""
        draw = self._random(family.name, t)
        return self.array([[self._number(draw) for _ in range(self.size(family.sizes[1]))]])

    def scalar(self, s):
        """A scalar."""
        if s in self.fixed:
            return self.fixed[s]
        if s.is_Rational:
            return self.domain.number(Fraction(int(s.p), int(s.q)))
        if isinstance(s, Join) or s in self.sizes:
            return self.domain.number(Fraction(self.size(s)))
        if s.is_Symbol:
            drawn = Fraction(self._random(s.name).choice(range(2, 15)), 8)
            negative = not s.is_positive and self._random(s.name, "sign").randint(0, 1)
            return self.domain.number(-drawn if negative else drawn)
        if s.is_Pow and not s.exp.is_Integer:
            base = self.array([[Fraction(0)]]) + self.scalar(s.base)
            return self.domain.sqrt(base)[0, 0] ** int(2 * s.exp)
        if s.is_Pow:
            base, exponent = self.scalar(s.base), s.exp
            if exponent.is_Integer:
                if exponent < 0 and abs(base) < NEAR_ZERO:
                    raise Undefined
                return base ** int(exponent)
            return base ** self.scalar(exponent)
        parts = [self.scalar(a) for a in s.args]
        return sum(parts) if s.is_Add else math.prod(parts)

    # -- expressions

    def _value(self, x):
        kind, args, params = x.operation, x.args, x.params
        if kind in (ops.OVER, ops.DERIVATIVE, ops.EXPECTATION):
            return {ops.OVER: self._over, ops.DERIVATIVE: self._derivative}.get(kind, self._mean)(x)
        if kind.word is not None and kind.word not in WORDS:
            return self._defined(x)
        rows, columns = map(self.size, x.shape)
        if kind is ops.LETTER:
            return self.letter(params[0], tuple(map(self.place, params[1:])))
        if kind is ops.TERM:
            return self.row_of(params[0], self.size(params[1]))
        if kind is ops.PREFIX:
            return np.concatenate([self.row_of(params[0], t + 1) for t in range(rows)])
        if kind is ops.TABULATED:
            entry = self.term(params[0].function, params[0].uses)
            return np.array(
                [[entry(i, j) for j in range(1, columns + 1)] for i in range(1, rows + 1)],
                dtype=self.domain.dtype,
            )
        if kind is ops.POSITIONS:
            return self.array([[Fraction(i + 1)] for i in range(rows)])
        ones_where = {
            ops.ONES: lambda i, j: True, ops.ZEROS: lambda i, j: False,
            ops.IDENTITY: lambda i, j: i == j, ops.CAUSAL: lambda i, j: j <= i,
            ops.PERMUTATION: lambda i, j: self.images(params[0])[i] == j,
        }.get(kind)  # fmt: skip
        if ones_where:
            return self.array(
                [[Fraction(int(ones_where(i, j))) for j in range(columns)] for i in range(rows)]
            )
        values = [self(y) for y in args]
        plain = {
            ops.PRODUCT_OF: lambda first, *rest: _chain(first, rest), ops.SUM_OF: lambda *v: sum(v[1:], v[0]),
            ops.SCALED: lambda v: self.scalar(params[0]) * v, ops.TRANSPOSE: lambda v: v.T,
            ops.HADAMARD: lambda v, w: v * w, ops.STACK: lambda v, w: np.concatenate([v, w]),
            ops.LAST_ROW: lambda v: v[-1:],
            ops.DIAG: lambda v: self(identity(x.shape[0])) * v,
        }.get(kind)  # fmt: skip
        if plain:
            return plain(*values)
        return self._word(kind, values, params)

    def _word(self, kind, values, params):
        if kind.word in WORDS:
            return WORDS[kind.word](self, *values, *params)
        return self.function(kind.name.removeprefix("entrywise "))(*values)

    def _defined(self, x):
        """A word that a reader has defined, written out; a recursion row by row."""
        if x.operation.expand is not None:
            return self(x.operation.expand(x))
        row = None
        for before, after in x.operation.rows(x, self.size(x.params[0])):
            world = self.having({})
            world._values = {} if before is None else {before: row}
            row = world(after)
        return row

    def function(self, name):
        """A function of one number, on arrays; an unspecified one by a formula of its own."""
        f = self.domain
        known = {
            "exp": f.exp, "tanh": f.tanh, "cos": f.cos, "sin": f.sin, "relu": lambda v: v * (v > 0),
            "sigmoid": lambda v: 1 / (1 + f.exp(-v)),
        }  # fmt: skip
        a, b, c = (
            self.domain.number(Fraction(self._random(name, k).randint(4, 12), 8)) for k in range(3)
        )
        return known.get(name, lambda v: f.tanh(a * v) + b * v * v + c)

    def _over(self, x):
        index = x.params[0]
        values = [self.having({index: k})(x.args[0]) for k in range(self.size(index.size))]
        return sum(values[1:], values[0])

    def _derivative(self, x):
        step = self.domain.step
        if step is None:
            raise Inexact
        f = {c: self.having({x.params[0]: c * step})(x.args[0]) for c in (-2, -1, 1, 2)}
        return (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * step)

    def _mean(self, x):
        """Over two distributions that the moments allow, by the seed: signs, or signs and zero."""
        families = sorted((f for f in x.atoms(Family) if f.kind == "random"), key=str)
        shapes = [tuple(map(self.size, f.sizes)) for f in families]
        count = sum(r * c for r, c in shapes)
        if count > (self.most_signs if self.seed % 2 else self.most_signs - 2):
            raise Undefined
        # values and weights: ±1, or ±2 with an eighth each and else 0; both of variance 1
        points = [(1, Fraction(1, 2)), (-1, Fraction(1, 2))]
        if self.seed % 2 == 0:
            points = [(2, Fraction(1, 8)), (-2, Fraction(1, 8)), (0, Fraction(3, 4))]
        mean = 0
        for pattern in itertools.product(points, repeat=count):
            drawn, fixed = iter(pattern), {}
            for f, (rows, columns) in zip(families, shapes):
                cells = [[Fraction(next(drawn)[0]) for _ in range(columns)] for _ in range(rows)]
                variance = np.array([[self.scalar(f.variance)]], dtype=self.domain.dtype)
                fixed[f] = self.array(cells) * self.domain.sqrt(variance)
            weight = self.domain.number(math.prod((w for _, w in pattern), start=Fraction(1)))
            mean = mean + weight * self.having(fixed)(x.args[0])
        return mean

    # -- index forms

    def place(self, p):
        """An index of the reader as an int, from 0."""
        if isinstance(p, End):
            return 0
        found = self.fixed.get(p)
        return self._random(p.args[0]).randrange(self.size(p.size)) if found is None else found

    def term(self, t, uses):
        """The value of a term of the kernel, made of some of the reader's letters."""
        return Terms(self, uses).value(t, ())


class Terms:
    """Terms of the kernel in a world.  Positions count from 1; what is bound stands in a tuple."""

    def __init__(self, world, uses):
        self.world, self.meant = world, {}
        for b in uses:
            if isinstance(b, (Family, Bijection, Index)):
                self.meant[b.term] = b
            elif not isinstance(b, ops.Operation):  # its term says what a word does
                self.meant[size_term(b) if b.is_integer else scalar_letter(b)] = b

    def value(self, t, bound):
        """A number, a size, a position or a function."""
        of, args = (lambda u: self.value(u, bound)), t.args
        if t.op == "abs":
            return lambda *more: self.value(args[0], (*bound, *more))
        if t.op == "var":
            return bound[len(bound) - 1 - args[0]]
        if t.op == "let":
            return self.letter(t)
        if t.op in ("sum", "mean", "app"):
            return {"sum": self.sum, "mean": self.mean, "app": self.entry}[t.op](of, *args)
        return SIMPLE[t.op](self, of, *args)

    def letter(self, t):
        b, world = self.meant.get(t), self.world
        if b is None:  # a function that may be any
            return lambda x: world.function(t.args[0])(np.array([x], dtype=world.domain.dtype))[0]
        if isinstance(b, Index):
            return world.place(b) + 1
        if isinstance(b, Bijection):
            return [k + 1 for k in world.images(b)]
        if not isinstance(b, Family):
            return world.size(b) if b.is_integer else world.scalar(b)
        if b.kind == "sequence":
            return lambda t, j: world.row_of(b, int(t))[0, j - 1]
        return lambda *at: world.letter(b, tuple(k - 1 for k in at[:-2]))[at[-2] - 1, at[-1] - 1]

    def entry(self, of, head, *arguments):
        if head.op == "rec":
            raise Undefined
        return of(head.args[1] if head.op == "word" else head)(*map(of, arguments))

    def sum(self, of, f):
        ranges = [range(1, of(sort.args[0]) + 1) for sort in f.args[1:]]
        return sum(of(f)(*at) for at in itertools.product(*ranges))

    def mean(self, of, f):
        raise Undefined

    def inverse(self, value):
        if abs(value) < NEAR_ZERO:
            raise Undefined
        return self.world.domain.number(Fraction(1)) / value

    def of_function(self, name, x):
        return self.world.function(name)(np.array([x], dtype=self.world.domain.dtype))[0]

    def slope(self, f, at):
        step = self.world.domain.step
        if step is None:
            raise Inexact
        g = {c: f(at + c * step) for c in (-2, -1, 1, 2)}
        return (8 * (g[1] - g[-1]) - (g[2] - g[-2])) / (12 * step)

    def root(self, x):
        if x < 0:
            raise Undefined
        return self.world.domain.sqrt(np.array([x], dtype=self.world.domain.dtype))[0]


def _moved(images, way, p):
    return images[p - 1] if way > 0 else images.index(p) + 1


#: op: (the evaluator, the value of what is below, what is below) to a value
SIMPLE = {
    "lit": lambda self, of, k: k,
    "times": lambda self, of, *sizes: math.prod(map(of, sizes)),
    "join": lambda self, of, a, b: of(a) + of(b),
    "only": lambda self, of: 1,
    "last": lambda self, of, s: of(s),
    "inl": lambda self, of, other, p: of(p),
    "inr": lambda self, of, other, p: of(other) + of(p),
    "move": lambda self, of, images, way, p: _moved(of(images), way, of(p)),
    "num": lambda self, of, q: self.world.domain.number(q),
    "size": lambda self, of, s: self.world.domain.number(Fraction(of(s))),
    "place": lambda self, of, p: self.world.domain.number(Fraction(of(p))),
    "add": lambda self, of, *terms: sum(map(of, terms)),
    "mul": lambda self, of, *factors: math.prod(map(of, factors)),
    "pow": lambda self, of, x, e: of(x) ** e,
    "inv": lambda self, of, x: self.inverse(of(x)),
    "sqrt": lambda self, of, x: self.root(of(x)),
    "exp": lambda self, of, x: self.of_function("exp", of(x)),
    "call": lambda self, of, name, x: self.of_function(name, of(x)),
    "delta": lambda self, of, p, q: int(of(p) == of(q)),
    "le": lambda self, of, p, q: int(of(p) <= of(q)),
    "deriv": lambda self, of, f, at: self.slope(of(f), of(at)),
    "case": lambda self, of, at, f, g: (
        of(f)(of(at)) if of(at) <= of(f.args[1].args[0]) else of(g)(of(at) - of(f.args[1].args[0]))),
}  # fmt: skip


def _chain(first, rest):
    for other in rest:
        first = first @ other
    return first


def divided(values, by):
    """A quotient; Undefined where a divisor is near zero."""
    if np.any(abs(by) < NEAR_ZERO):
        raise Undefined
    return values / by


def _rows(values):
    return values.sum(1, keepdims=True)


def _standard(world, values, axis, eps):
    centred = values - values.sum(axis, keepdims=True) / values.shape[axis]
    variance = (centred * centred).sum(axis, keepdims=True) / values.shape[axis]
    return centred / world.domain.sqrt(variance + world.scalar(eps))


#: The words of the vocabulary, by formulas written for this evaluator.
WORDS = {
    vocabulary.softmax: lambda world, s: divided(world.domain.exp(s), _rows(world.domain.exp(s))),
    vocabulary.masked_softmax: lambda world, m, s: divided(m * world.domain.exp(s), _rows(m * world.domain.exp(s))),
    vocabulary.softmax_one: lambda world, s: world.domain.exp(s) / (1 + _rows(world.domain.exp(s))),
    vocabulary.normalise: lambda world, s: divided(s, _rows(s)),
    vocabulary.layer_norm: lambda world, s, eps: _standard(world, s, 1, eps),
    vocabulary.batch_norm: lambda world, s, eps: _standard(world, s, 0, eps),
    vocabulary.rms_norm: lambda world, s, eps: s / world.domain.sqrt(_rows(s * s) / s.shape[1] + world.scalar(eps)),
}  # fmt: skip


# ── Hypotheses ────────────────────────────────────────────────────────────────────────────


def _meets(world, hypothesis, uses):
    if isinstance(hypothesis, Condition):
        return _meets_condition(world, hypothesis, uses)
    if isinstance(hypothesis, NonZero):
        ranges = [range(world.size(k.size)) for k in hypothesis.bound if isinstance(k, Index)]
        if len(ranges) < len(hypothesis.bound):
            return False
        for at in itertools.product(*ranges):
            values = world.having(dict(zip(hypothesis.bound, at)))(hypothesis.expression)
            if not np.all((values if hypothesis.positive else abs(values)) > NEAR_ZERO):
                return False
        return True
    difference = world(hypothesis.lhs) - world(hypothesis.rhs)
    return bool(np.all(abs(difference) < 1e-10))


def _meets_condition(world, condition, uses):
    """At every position; that a function is smooth, those of a world are."""
    f = condition.about
    if condition.relation in ("is smooth", "exists"):
        return True
    if any(sort.op != "POS" for sort in f.args[1:]):
        return False
    terms = Terms(world, uses)
    ranges = [range(1, terms.value(sort.args[0], ()) + 1) for sort in f.args[1:]]
    values = [terms.value(f, ())(*at) for at in itertools.product(*ranges)]
    return all(v >= 0 if condition.relation == "≥ 0" else abs(v) > NEAR_ZERO for v in values)
