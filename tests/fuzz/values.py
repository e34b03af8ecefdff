"""The value of an expression at concrete sizes, in NumPy or in 60 digits.

This evaluator reads the tree of an expression and computes with matrices.  It uses neither the
normal form nor the generic entries, neither the operations' torch code nor the package's own
interpreter.  What it shares with the checker: the classes that hold an expression and, for an
index form, those that hold a term.
"""

import itertools
import math
import random
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Callable

import mpmath
import numpy as np
import sympy as sp
from derivation import matrices as ops
from derivation import sums, vocabulary
from derivation.proofs import NonZero

MOST_SIGNS = 6  # random entries under a mean: all their patterns are run through
NEAR_ZERO = 1e-2  # a divisor below it is not tried
FLOAT_TOLERANCE, TOLERANCE = 1e-9, 1e-15


class Undefined(Exception):
    """The expression has no value here, or a hypothesis does not hold: draw another world."""


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
    step: float


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

    def __init__(self, seed, sizes, domain=FLOATS, fixed=None):
        self.seed, self.sizes, self.domain = seed, sizes, domain
        self.fixed, self._values = fixed or {}, {}

    def having(self, fixed):
        """The same world with values for some letters, scalars and indices."""
        return World(self.seed, self.sizes, self.domain, {**self.fixed, **fixed})

    def __call__(self, x):
        if x not in self._values:
            self._values[x] = self._value(x)
        return self._values[x]

    # -- what is drawn

    def _random(self, *key):
        return random.Random("/".join(map(str, (self.seed, *key))))

    def size(self, size):
        """A size as an int."""
        if isinstance(size, sums.Join) or size.is_Mul:
            parts = list(map(self.size, size.args))
            return sum(parts) if isinstance(size, sums.Join) else math.prod(parts)
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
        if isinstance(s, sums.Join) or s in self.sizes:
            return self.domain.number(Fraction(self.size(s)))
        if s.is_Symbol:
            drawn = Fraction(self._random(s.name).choice(range(2, 15)), 8)
            negative = not s.is_positive and self._random(s.name, "sign").randint(0, 1)
            return self.domain.number(-drawn if negative else drawn)
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
        rows, columns = map(self.size, x.shape)
        if kind is ops.LETTER:
            return self.letter(params[0], tuple(self.place(p, {}) for p in params[1:]))
        if kind is ops.TERM:
            return self.row_of(params[0], self.size(params[1]))
        if kind is ops.PREFIX:
            return np.concatenate([self.row_of(params[0], t + 1) for t in range(rows)])
        if kind is ops.TABULATED:
            return self._table(params[0], rows, columns)
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
            ops.DIAG: lambda v: self(ops.identity(x.shape[0])) * v,
        }.get(kind)  # fmt: skip
        if plain:
            return plain(*values)
        return self._word(kind, values, params)

    def _word(self, kind, values, params):
        if kind.word in WORDS:
            return WORDS[kind.word](self, *values, *params)
        return self.function(kind.name.removeprefix("entrywise "))(*values)

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
        values = [self.having({index: k})(x.args[0]) for k in range(self.size(index.args[1]))]
        return sum(values[1:], values[0])

    def _derivative(self, x):
        step = self.domain.step
        f = {c: self.having({x.params[0]: c * step})(x.args[0]) for c in (-2, -1, 1, 2)}
        return (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * step)

    def _mean(self, x):
        """Over two distributions that the moments allow, by the seed: signs, or signs and zero."""
        families = sorted((f for f in x.atoms(sums.Family) if f.kind == "random"), key=str)
        shapes = [tuple(map(self.size, f.sizes)) for f in families]
        count = sum(r * c for r, c in shapes)
        if count > (MOST_SIGNS if self.seed % 2 else MOST_SIGNS - 2):
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

    def place(self, p, bound):
        """A position as an int, from 0."""
        if isinstance(p, sums.Index):
            found = bound.get(p, self.fixed.get(p))
            return (
                self._random(p.args[0]).randrange(self.size(p.args[1])) if found is None else found
            )
        if isinstance(p, sums.End):
            return self.size(p.args[0]) - 1
        if isinstance(p, sums.Part):
            return self.place(p.args[1], bound) + (self.size(p.args[2].args[0]) if p.args[0] else 0)
        k = self.place(p.args[1], bound)
        for permutation, sign in reversed(p.args[0]):
            images = self.images(permutation)
            k = images[k] if sign > 0 else images.index(k)
        return k

    def _table(self, function, rows, columns):
        body, *indices = function.args
        cells = [[self.term(body, dict(zip(indices, at))) for at in itertools.product([i], range(columns))]
                 for i in range(rows)]  # fmt: skip
        return np.array(cells, dtype=self.domain.dtype)

    def term(self, t, bound):
        """The value of a term of an index form."""
        value = lambda u: self.term(u, bound)  # noqa: E731
        if isinstance(t, sums.Sigma):
            body, *indices = t.args
            ranges = [range(self.size(k.args[1])) for k in indices]
            return sum(
                self.term(body, {**bound, **dict(zip(indices, at))})
                for at in itertools.product(*ranges)
            )
        if isinstance(t, sums.Entry):
            family, *positions = t.args
            if family.kind == "sequence":
                return self.row_of(family, int(value(positions[0])))[
                    0, self.place(positions[1], bound)
                ]
            *at, i, j = [self.place(p, bound) for p in positions]
            return self.letter(family, tuple(at))[i, j]
        if isinstance(t, (sums.Index, sums.End, sums.Part, sums.Moved)):
            return self.domain.number(Fraction(self.place(t, bound) + 1))
        if isinstance(t, (sums.Delta, sums.AtMost)):
            a, b = (self.place(p, bound) for p in t.args)
            return int(a == b if isinstance(t, sums.Delta) else a <= b)
        if isinstance(t, sums.Cases):
            k, first = self.place(t.args[0], bound), self.size(sums.range_of(t.args[1].args[1]))
            block = t.args[1] if k < first else t.args[2]
            return self.term(block.args[0], {**bound, block.args[1]: k if k < first else k - first})
        if isinstance(t, sums.Opaque):
            return self._opaque(t, bound)
        if isinstance(t, (sums.Exp, sums.Apply)):
            name = "exp" if isinstance(t, sums.Exp) else t.args[0].name
            return self.function(name)(np.array([value(t.args[-1])], dtype=self.domain.dtype))[0]
        if isinstance(t, (sums.Reciprocal, sums.ReciprocalRoot)):
            inner = value(t.args[0])
            if abs(inner) < NEAR_ZERO:
                raise Undefined
            return (
                1 / inner
                if isinstance(t, sums.Reciprocal)
                else inner ** self.domain.number(Fraction(-1, 2))
            )
        if t.is_Add or t.is_Mul:
            parts = [value(a) for a in t.args]
            return sum(parts) if t.is_Add else math.prod(parts)
        if t.is_Pow and t.exp.is_Integer and t.exp > 0:
            return value(t.base) ** int(t.exp)
        return self.scalar(t)

    def _opaque(self, t, bound):
        name, serial, params, shapes, (i, j), *arguments = t.args
        word = next(w for w in WORDS if any(o.serial == int(serial) for o in w.operations))
        values = []
        for function, shape in zip(arguments, list(shapes)[1:]):
            rows, columns = map(self.size, shape)
            body, *indices = function.args
            values.append(np.array(
                [[self.term(body, {**bound, **dict(zip(indices, (r, c)))}) for c in range(columns)]
                 for r in range(rows)], dtype=self.domain.dtype))  # fmt: skip
        return WORDS[word](self, *values, *params)[self.place(i, bound), self.place(j, bound)]


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


# ── Lines ─────────────────────────────────────────────────────────────────────────────────

TRIES = 60  # worlds drawn for a line, at most


def _sizes(symbols, seed):
    """All 1, all 2, all 3; then distinct and mixed ones."""
    symbols = sorted(symbols, key=str)
    if seed < 3:
        return dict.fromkeys(symbols, (2, 1, 3)[seed])
    draw = random.Random(f"sizes/{seed}")
    pool = draw.sample((1, 2, 3, 4), 4) if seed % 2 else [draw.randint(1, 3) for _ in range(4)]
    return {s: pool[k % 4] for k, s in enumerate(symbols)}


def _meets(world, hypothesis):
    if isinstance(hypothesis, NonZero):
        ranges = [
            range(world.size(k.args[1])) for k in hypothesis.bound if isinstance(k, sums.Index)
        ]
        if len(ranges) < len(hypothesis.bound):
            return False
        for at in itertools.product(*ranges):
            values = world.having(dict(zip(hypothesis.bound, at)))(hypothesis.expression)
            if not np.all((values if hypothesis.positive else abs(values)) > NEAR_ZERO):
                return False
        return True
    difference = world(hypothesis.lhs) - world(hypothesis.rhs)
    return bool(np.all(abs(difference) < 1e-10))


def _differ(world, line, tolerance):
    left, right = world(line.before), world(line.claim)
    scale = max(1, abs(left).max(), abs(right).max())
    gap = abs(left - right).max() / scale
    if not math.isfinite(gap):
        raise Undefined
    return gap > tolerance


def _prepared(seed, symbols, line, domain):
    world = World(seed, _sizes(symbols, seed), domain)
    for repair in line.repairs:
        world = world.having(repair(world))
    return world


@dataclass(frozen=True)
class Verdict:
    """``worlds`` that were tried; ``refuted`` is a sentence that says where it fails, or empty."""

    worlds: int
    refuted: str = ""


def evaluated(line, hypotheses=(), wanted=7):
    """Whether both sides of a line have equal values, in the worlds that meet the hypotheses.

    A difference found in float64 counts when 60 digits confirm it.
    """
    everything = [line.before, line.claim, *[side for h in hypotheses for side in h.sides()]]
    everything += [x for repair in line.repairs for x in getattr(repair, "uses", ())]
    symbols = {s for x in everything for s in x.free_scalars() | x.atoms(sp.Symbol) if s.is_integer}
    done = 0
    for seed in range(TRIES):
        if done == wanted:
            break
        try:
            with np.errstate(all="ignore"):
                world = _prepared(seed, symbols, line, FLOATS)
                if not all(_meets(world, h) for h in hypotheses):
                    continue
                differ = _differ(world, line, FLOAT_TOLERANCE)
                done += 1
                if not differ:
                    continue
                world = _prepared(seed, symbols, line, DIGITS)
                if _differ(world, line, TOLERANCE):
                    sizes = (
                        ", ".join(f"{s} = {k}" for s, k in world.sizes.items()) or "its only size"
                    )
                    return Verdict(done, f"world {seed}, at {sizes}")
        except (Undefined, ZeroDivisionError, OverflowError):
            continue
    return Verdict(done)


def exchanged(line, before, claim):
    """The line with other sides."""
    return replace(line, before=before, claim=claim)
