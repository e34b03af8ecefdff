"""Evaluate an expression in a world, which gives a value to every letter, size and scalar.

This evaluator reads the tree of an expression and computes with matrices.  It does not use the
kernel, the operations' entry formulas or their torch code.  It shares with the checker the classes
of expressions and, for matrices that are given entry by entry, the interpreter of terms.
"""

import itertools
import math
import random
from fractions import Fraction
from functools import reduce

import numpy as np
from derivation.language import operations as ops
from derivation.language import vocabulary
from derivation.language.letters import End, Family, Join

from .arithmetic import FUNCTIONS, Undefined, array, difference, divided, root, slope
from .index_forms import Terms

MOST_SIGNS = 9  # the most random entries in a mean, as all their patterns are evaluated
#: (value, probability) pairs of two distributions with mean 0 and variance 1.
SIGNS = ((1, Fraction(1, 2)), (-1, Fraction(1, 2)))
SIGNS_OR_ZERO = ((2, Fraction(1, 8)), (-2, Fraction(1, 8)), (0, Fraction(3, 4)))


class World:
    """Concrete sizes, letters, permutations and scalars; calling it evaluates an expression.

    A letter's value depends only on the seed and the letter's name, so that the order in which
    letters are evaluated makes no difference.
    """

    def __init__(self, seed, sizes, fixed=None):
        self.seed, self.sizes, self.fixed, self._values = seed, sizes, fixed or {}, {}

    def having(self, fixed, values=None):
        """The same world with other values of letters, scalars and indices, or of expressions."""
        world = World(self.seed, self.sizes, {**self.fixed, **fixed})
        world._values.update(values or {})
        return world

    def __call__(self, x):
        if x not in self._values:
            self._values[x] = self._value(x)
        return self._values[x]

    def _value(self, x):
        if x.operation in OPERATIONS:
            return OPERATIONS[x.operation](self, x)
        if x.operation.word in WORDS:
            return WORDS[x.operation.word](self, *map(self, x.args), *x.params)
        if x.operation.word is not None:
            return self._defined(x)
        return self.function(x.operation.name.removeprefix("entrywise "))(*map(self, x.args))

    def _defined(self, x):
        """The value of a word that a reader defined; a recursion is computed row by row."""
        if x.operation.expand is not None:
            return self(x.operation.expand(x))
        row = None
        for before, after in x.operation.word.rows(x, self.size(x.params[0])):
            row = self.having({}, {} if before is None else {before: row})(after)
        return row

    # -- random values

    def _random(self, *key):
        return random.Random("/".join(map(str, (self.seed, *key))))

    def _matrix(self, draw, rows, columns):
        if self.seed % 3 == 1:
            numbers, unit = (0, 1, -1, 2, 3), 1
        else:
            numbers, unit = [k for k in range(-13, 14) if k], 8
        return array(
            [[Fraction(draw.choice(numbers), unit) for _ in range(columns)] for _ in range(rows)]
        )

    def _mask(self, draw, rows, columns):
        """A random mask; in most worlds, every row has a 1."""
        cells = [[draw.randint(0, 1) for _ in range(columns)] for _ in range(rows)]
        for row in cells if self.seed % 8 else ():
            row[draw.randrange(columns)] = 1
        return array(cells)

    def letter(self, family, at=()):
        """The matrix that a letter stands for; ``at`` holds the letter's indices, if it has any."""
        if family in self.fixed:
            return self.fixed[family]
        make = self._mask if family.kind == "mask" else self._matrix
        return make(self._random(family.name, *at), *map(self.size, family.sizes[-2:]))

    def row_of(self, family, t):
        return self._matrix(self._random(family.name, t), 1, self.size(family.sizes[1]))

    def images(self, permutation):
        """The images of the positions under a permutation, as a list of ints counted from 0."""
        if permutation in self.fixed:
            return self.fixed[permutation]
        found = list(range(self.size(permutation.size)))
        self._random(permutation.name).shuffle(found)
        if len(found) == 3 and self.seed % 2:
            return [1, 2, 0]  # the smallest permutation that is not its own inverse
        return found

    def place(self, p):
        """The position that an index stands for, as an int counted from 0."""
        if isinstance(p, End):
            return 0
        if p in self.fixed:
            return self.fixed[p]
        return self._random(p.args[0]).randrange(self.size(p.size))

    def size(self, size):
        if isinstance(size, Join):
            return sum(map(self.size, size.args))
        if size.is_Mul:
            return math.prod(map(self.size, size.args))
        return int(size) if size.is_Integer else self.sizes[size]

    def scalar(self, s):
        """The value of a scalar built from rationals and letters by +, *, powers and roots."""
        if s in self.fixed:
            return self.fixed[s]
        if s.is_Rational:
            return Fraction(int(s.p), int(s.q))
        if isinstance(s, Join) or s in self.sizes:
            return Fraction(self.size(s))
        if s.is_Symbol:
            drawn = Fraction(self._random(s.name).choice(range(2, 15)), 8)
            negative = not s.is_positive and self._random(s.name, "sign").randint(0, 1)
            return -drawn if negative else drawn
        if not s.is_Pow:
            parts = map(self.scalar, s.args)
            return sum(parts) if s.is_Add else math.prod(parts)
        base, exponent = self.scalar(s.base), s.exp
        if not exponent.is_Integer:
            base, exponent = root(base).item(), 2 * exponent
        if exponent > 0:
            return base ** int(exponent)
        return divided(Fraction(1), base ** -int(exponent))

    def function(self, name):
        """The function of this name, on each entry; a random formula if the name is unknown."""
        if name in FUNCTIONS:
            return FUNCTIONS[name]
        if name == "relu":
            return lambda v: v * (v > 0)
        a, b, c = (Fraction(self._random(name, k).randint(4, 12), 8) for k in range(3))
        return lambda v: FUNCTIONS["tanh"](a * v) + b * v * v + c


# ── The operations ────────────────────────────────────────────────────────────────────────


def _entry_by_entry(entry):
    """Make an evaluator from a formula for the entry (i, j), where i and j start at 0."""

    def value(world, x):
        rows, columns = map(world.size, x.axes)
        return array([[int(entry(world, x, i, j)) for j in range(columns)] for i in range(rows)])

    return value


def _of_values(rule):
    return lambda world, x: rule(*map(world, x.args))


def _prefix(world, x):
    rows = world.size(x.axes[0])
    return np.concatenate([world.row_of(x.params[0], t + 1) for t in range(rows)])


def _tabulated(world, x):
    rows, columns = map(world.size, x.axes)
    terms, form = Terms(world, x.params[0].uses), x.params[0].function
    cells = [[terms.at(form, i + 1, j + 1) for j in range(columns)] for i in range(rows)]
    return np.array(cells, dtype=object)


def _diagonal(world, x):
    size = world.size(x.axes[0])
    return array(np.eye(size, dtype=int).tolist()) * world(x.args[0])


def _over(world, x):
    index = x.params[0]
    return sum(world.having({index: k})(x.args[0]) for k in range(world.size(index.size)))


def _derivative(world, x):
    return slope(lambda step: world.having({x.params[0]: step})(x.args[0]))


def _mean(world, x):
    """The mean over all patterns of random entries; the seed chooses one of two distributions."""
    families = sorted((f for f in x.atoms(Family) if f.kind == "random"), key=str)
    shapes = [tuple(map(world.size, f.sizes)) for f in families]
    count = sum(rows * columns for rows, columns in shapes)
    if count > (MOST_SIGNS if world.seed % 2 else MOST_SIGNS - 2):
        raise Undefined
    scales = [root(world.scalar(f.variance)).item() for f in families]
    mean = 0
    for pattern in itertools.product(SIGNS if world.seed % 2 else SIGNS_OR_ZERO, repeat=count):
        values, fixed = iter(pattern), {}
        for family, (rows, columns), scale in zip(families, shapes, scales):
            cells = [[next(values)[0] for _ in range(columns)] for _ in range(rows)]
            fixed[family] = array(cells) * scale
        weight = math.prod((w for _, w in pattern), start=Fraction(1))
        mean = mean + weight * world.having(fixed)(x.args[0])
    return mean


#: {operation: function of (world, expression) that returns the expression's value}
OPERATIONS = {
    ops.LETTER: lambda world, x: world.letter(x.params[0], tuple(map(world.place, x.params[1:]))),
    ops.TERM: lambda world, x: world.row_of(x.params[0], world.size(x.params[1])),
    ops.PREFIX: _prefix,
    ops.TABULATED: _tabulated,
    ops.POSITIONS: _entry_by_entry(lambda world, x, i, j: i + 1),
    ops.ONES: _entry_by_entry(lambda world, x, i, j: 1),
    ops.ZEROS: _entry_by_entry(lambda world, x, i, j: 0),
    ops.IDENTITY: _entry_by_entry(lambda world, x, i, j: i == j),
    ops.CAUSAL: _entry_by_entry(lambda world, x, i, j: j <= i),
    ops.PERMUTATION: _entry_by_entry(lambda world, x, i, j: world.images(x.params[0])[i] == j),
    ops.PRODUCT_OF: _of_values(lambda *values: reduce(np.matmul, values)),
    ops.SUM_OF: _of_values(lambda *values: sum(values)),
    ops.SCALED: lambda world, x: world.scalar(x.params[0]) * world(x.args[0]),
    ops.TRANSPOSE: _of_values(lambda v: v.T),
    ops.HADAMARD: _of_values(lambda v, w: v * w),
    ops.STACK: _of_values(lambda v, w: np.concatenate([v, w])),
    ops.LAST_ROW: _of_values(lambda v: v[-1:]),
    ops.DIAG: _diagonal,
    ops.OVER: _over,
    ops.DERIVATIVE: _derivative,
    ops.EXPECTATION: _mean,
}


# ── The words, by formulas written for this evaluator ─────────────────────────────────────


def _normalised(values):
    return divided(values, values.sum(1, keepdims=True))


def _softmax_one(world, scores):
    exps = FUNCTIONS["exp"](scores)
    return exps / (1 + exps.sum(1, keepdims=True))


def _rms(world, values, axis, eps):
    """The values / √(mean square + eps), where the mean is taken along an axis."""
    square = (values * values).sum(axis, keepdims=True) / values.shape[axis]
    return divided(values, root(square + world.scalar(eps)))


def _standard(world, values, axis, eps):
    mean = values.sum(axis, keepdims=True) / values.shape[axis]
    return _rms(world, difference(values, mean), axis, eps)


WORDS = {
    vocabulary.sigmoid: lambda world, s: 1 / (1 + FUNCTIONS["exp"](-s)),
    vocabulary.softmax: lambda world, s: _normalised(FUNCTIONS["exp"](s)),
    vocabulary.masked_softmax: lambda world, mask, s: _normalised(mask * FUNCTIONS["exp"](s)),
    vocabulary.softmax_one: _softmax_one,
    vocabulary.normalise: lambda world, s: _normalised(s),
    vocabulary.layer_norm: lambda world, s, eps: _standard(world, s, 1, eps),
    vocabulary.batch_norm: lambda world, s, eps: _standard(world, s, 0, eps),
    vocabulary.rms_norm: lambda world, s, eps: _rms(world, s, 1, eps),
}
