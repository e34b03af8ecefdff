"""Also run every proved line in torch float64, at several random sizes.

A run proves nothing.  But if the two sides of an accepted line differ in torch, and still differ
when they are recomputed with many digits, then a fault in the checker let a false line pass.
"""

import copy
import importlib.util
import itertools
import math
import random
import zlib

import mpmath
import sympy as sp

from .. import kernel as k
from ..kernel import KNOWN
from ..language import (Expression, DERIVATIVE, EXPECTATION, Bijection, End, Family, Index, NotRun, Operation,
                        kernel_letter, number, torch)  # fmt: skip
from .evaluation import FLOAT, PRECISE, Instance, TooLong, Undefined

RUNS = 4
ATTEMPTS = 100
STEPS = 60  # the most Gauss–Newton steps towards letters that satisfy an equation
TINY = 1e-9  # after Gauss–Newton steps, a smaller |entry| counts as 0
MOST_UNSOLVED = 6  # the most samples that may fail to satisfy the equations
FARTHEST = 20.0  # a larger |entry| is rejected, because it can make exp(A) = 0 seem to hold
NEAR = 1e-5  # the tolerance after Gauss–Newton steps, whose remaining error may grow
LONGEST_SEQUENCE = 32
LARGEST_TABLE = 1024  # the most entries that an index form may have
MOST_RANDOM_ENTRIES = 12
MOST_ENTRIES = 10**6  # the most entries of a matrix
DIGITS = 60  # the precision of a second evaluation, if the sides differ in torch


def torch_is_here() -> bool:
    """Whether torch can be imported; without it, lines are not run."""
    return importlib.util.find_spec("torch") is not None


class HypothesesNotMet(Exception):
    """A sample violates a hypothesis of the line or is too large; a new sample has to be drawn."""


class NotSolved(HypothesesNotMet):
    """No letters were found that satisfy the equations of a line."""


class Sample:
    """Random sizes, and random values of these sizes for every letter."""

    def __init__(self, seed, symbols, largest=7, basics=()):
        self._random = random.Random(seed)
        self._generator = torch.Generator().manual_seed(seed)
        self._sign = 1 if seed % 2 else -1
        sizes = sorted((s for s in symbols if s.is_integer), key=str)
        self._sizes = self._drawn_sizes(sizes, seed, largest)
        self._symbols, self._basics = symbols, basics
        self._drawn, self._fixed, self.values = {}, {}, {}
        self._averaged = 0  # how many random entries the enclosing expectations average over

    def _drawn_sizes(self, symbols, seed, largest):
        """Distinct sizes if possible, reversed by half of the seeds; odd seeds set one to 1."""
        pool, drawn = range(2, largest + 1), []
        while len(drawn) < len(symbols):
            drawn += self._random.sample(pool, len(pool))
        drawn = drawn[: len(symbols)]
        if seed % 2 and drawn:
            drawn[self._random.randrange(len(drawn))] = 1
        return dict(zip(symbols, drawn if seed % 4 < 2 else drawn[::-1]))

    def fixing(self, values):
        """The same sample, with values for some indices, scalars or families.

        Whatever is drawn later is shared by the two samples, so that nothing else differs.
        """
        child = copy.copy(self)
        child._fixed, child.values = {**self._fixed, **values}, {}
        return child

    def holding(self, expression, value):
        """The same sample, with a given value for one expression."""
        child = self.fixing({})
        child.values[expression] = value
        return child

    def size(self, size):
        """A size as an int."""
        return int(number(size).xreplace(self._sizes))

    def shape(self, x):
        """The shape of x as ints; raises NotRun if a matrix of that shape is too large."""
        return _kept(map(self.size, x.axes))

    def scalar(self, scalar):
        """A scalar as a float; symbols take alternating signs unless they are positive."""
        symbols = sorted(scalar.free_symbols - set(self._sizes), key=str)
        known = self._sizes | {symbol: self._value(symbol, self._draw_scalar) for symbol in symbols}
        return float(known[scalar] if scalar in known else number(scalar).subs(known))

    def _draw_scalar(self, symbol):
        drawn, sign = self._random.uniform(0.3, 1.5), self._sign
        self._sign = -sign
        return drawn if symbol.is_positive else sign * drawn

    def _value(self, letter, draw):
        """The fixed value of a letter, or the one that ``draw`` chose for it at its first use."""
        if letter in self._fixed:
            return self._fixed[letter]
        if letter not in self._drawn:
            self._drawn[letter] = draw(letter)
        return self._drawn[letter]

    def position(self, p):
        """A position as an int, counted from 0."""
        if isinstance(p, End):
            return self.size(p.args[0]) - 1
        return self._value(p, lambda p: self._random.randrange(self.size(p.size)))

    def family(self, family):
        """A tensor for a letter: normal entries, or zeros and ones with at least one 1 in each row."""
        return self._value(family, self._draw_entries)

    def _draw_entries(self, family):
        sizes = [LONGEST_SEQUENCE if s is sp.S.Naturals else self.size(s) for s in family.sizes]
        shape = _kept(sizes)
        values = torch.randn(shape, generator=self._generator, dtype=torch.float64)
        if family.kind == "mask":
            values = (values > 0).double()
            allowed = [self._random.randrange(shape[1]) for _ in range(shape[0])]
            values[range(shape[0]), allowed] = 1
        return values

    def terms(self, family, count):
        """The first terms of a sequence."""
        if count > LONGEST_SEQUENCE:
            raise IndexError
        return self.family(family)[:count]

    def permutation(self, permutation):
        """A random permutation matrix: row i has its 1 in column π(i)."""
        n = self.size(permutation.size)
        order = lambda _: torch.randperm(n, generator=self._generator)
        return torch.eye(n, dtype=torch.float64)[self._value(permutation, order)]

    def function(self, name):
        """The function with that name; an unknown function is drawn at random."""
        return getattr(torch, name) if name in KNOWN else self._value(name, self._draw_function)

    def _draw_function(self, name):
        own = [random.Random(zlib.crc32(f"{name}{k}".encode())) for k in range(3)]
        a, b, c = [r.uniform(0.5, 1.5) * self._random.uniform(0.5, 1.5) for r in own]
        return lambda x: torch.tanh(a * x) + b * x * x + c

    def expectation(self, x):
        """The exact mean over independent random signs, a distribution with the right moments."""
        families = sorted((f for f in x.atoms(Family) if f.kind == "random"), key=str)
        shapes = [[self.size(s) for s in f.sizes] for f in families]
        counts = [shape[0] * shape[1] for shape in shapes]
        if self._averaged + sum(counts) > MOST_RANDOM_ENTRIES:
            raise HypothesesNotMet
        total, patterns = 0, list(itertools.product((1.0, -1.0), repeat=sum(counts)))
        for signs in patterns:
            values, rest = {}, list(signs)
            for f, shape, count in zip(families, shapes, counts):
                entries = torch.tensor(rest[:count], dtype=torch.float64).reshape(shape)
                values[f], rest = self.scalar(f.variance) ** 0.5 * entries, rest[count:]
            drawn = self.fixing(values)
            drawn._averaged = self._averaged + sum(counts)
            total = total + x.run(drawn)
        return total / len(patterns)

    def table(self, x):
        """The entries of an index form, computed with ``evaluation``."""
        table = x.params[0]
        entry, (rows, columns) = self.value(table.function, table.uses), self.shape(x)
        if rows * columns > LARGEST_TABLE:
            raise NotRun("its index form is too large")
        cells = [[entry(r + 1, c + 1) for c in range(columns)] for r in range(rows)]
        return torch.tensor(cells, dtype=torch.float64)

    def value(self, term, uses=None, functions=FLOAT):
        """The value of a term of the kernel, computed with ``evaluation``."""
        meant, number_of = {}, mpmath.mpf if functions is PRECISE else float
        for used in self._basics | self._symbols if uses is None else uses:
            if not isinstance(used, Operation):  # the term contains an operation's definition
                meant[kernel_letter(used)] = self._meant(used, number_of)
        as_tensor = lambda x: torch.tensor(x, dtype=torch.float64)
        for letter in term.letters - meant.keys():
            if letter.args[1] == k.fun(k.NUM):
                meant[letter] = lambda x, f=letter.args[0]: float(self.function(f)(as_tensor(x)))
        return Instance(meant, functions).value(term)

    def _meant(self, letter, number_of):
        """The value of a letter, as an `Instance` needs it."""
        if isinstance(letter, Family):
            at_zero = lambda at: tuple(int(p) - 1 for p in at)
            return lambda *at: number_of(self.family(letter).detach()[at_zero(at)].item())
        if isinstance(letter, Bijection):
            return tuple(int(p) + 1 for p in self.permutation(letter).argmax(1))
        if isinstance(letter, Index):
            return self.position(letter) + 1
        return self.size(letter) if letter.is_integer else number_of(self.scalar(letter))


def _kept(shape):
    shape = tuple(shape)
    if math.prod(shape) > MOST_ENTRIES:
        raise NotRun("its matrices are too large")
    return shape


def run_in_torch(lhs: Expression, rhs: Expression, hypotheses: tuple = ()) -> str | None:
    """Run a line in torch; return None, or a sentence with the sizes at which it fails.

    Each sample satisfies the ``hypotheses``; letters are moved until assumed equations hold.
    Raises NotRun if no sample could be made, which says nothing about the line.
    """
    everything = [lhs, rhs, *[x for h in hypotheses for x in h.sides()]]
    symbols = set().union(*[x.free_scalars() for x in everything])
    kinds = Family, Bijection, Index
    basics = set().union(*[x.atoms(kind) for x in everything for kind in kinds])
    operations = {x.operation for e in everything for x in e.walk()}
    tolerance = 1e-7 if DERIVATIVE in operations else 1e-9
    runs = unsolved = 0
    for seed in range(ATTEMPTS):
        largest = 7 if EXPECTATION not in operations else 2 + (seed % 3 == 0)
        sample = Sample(seed, symbols, largest if seed < ATTEMPTS / 2 else 2, basics)
        try:
            met = _meeting(sample, hypotheses)
            left, right = lhs.run(met), rhs.run(met)
            if not torch.stack([left.sum(), right.sum()]).isfinite().all():
                raise HypothesesNotMet  # a divisor was moved to 0, or a number is too large
        except IndexError:
            raise NotRun(f"sequences are run up to their term {LONGEST_SEQUENCE}") from None
        except TooLong:
            raise NotRun("it takes too long") from None
        except (HypothesesNotMet, ZeroDivisionError, OverflowError) as error:
            unsolved += isinstance(error, NotSolved)
            if unsolved == MOST_UNSOLVED:
                break
            continue
        if _differ(lhs, rhs, met, tolerance if met is sample else NEAR):
            sizes = ", ".join(f"{s} = {n}" for s, n in sample._sizes.items()) or "its only size"
            return f"torch finds it false at {sizes}"
        runs += 1
        if runs == RUNS:
            break
    if not runs:
        raise NotRun("no sample met its hypotheses")
    return None


def _differ(lhs, rhs, sample, allowed):
    """Whether the two sides differ by more than rounding explains.

    Rounding is larger where large numbers cancel or a slope is steep, so if the floats differ, both
    sides are computed again with many digits.
    """
    left, right = lhs.run(sample), rhs.run(sample)
    if left.shape != right.shape:
        return True
    scale = max(1.0, left.abs().max().item(), right.abs().max().item())
    if (left - right).abs().max().item() <= allowed * scale:
        return False
    with mpmath.workdps(DIGITS):
        try:
            left, right = (sample.value(x.function, functions=PRECISE) for x in (lhs, rhs))
            places = itertools.product(*[range(1, n + 1) for n in sample.shape(lhs)])
            pairs = [(left(*at), right(*at)) for at in places]
        except Undefined:
            return False  # a side has no value, and torch has divided by a rounding error
        except (TooLong, ZeroDivisionError, OverflowError, KeyError):
            return True  # the values cannot be computed with many digits, so torch's result stands
        return any(not abs(a - b) <= allowed * max(1, abs(a), abs(b)) for a, b in pairs)


def _meeting(sample, hypotheses):
    """The sample, moved until equations hold; raises HypothesesNotMet if a hypothesis fails."""
    equations = [h for h in hypotheses if len(h.sides()) == 2]
    met = lambda some: all(h.met_in(sample) for h in some)
    if not met(equations):
        sample = _solved(sample, equations)
        if not met(equations):
            raise NotSolved
    if not met(hypotheses):
        raise HypothesesNotMet
    return sample


def _solved(sample, equations):
    """The sample, with its matrices moved by Gauss–Newton steps until the equations hold."""
    sides = [x for h in equations for x in h.sides()]
    families = sorted({f for x in sides for f in x.atoms(Family) if f.kind == "matrix"}, key=str)
    start = [sample.family(f) for f in families]
    counts = [x.numel() for x in start]

    def at(flat):
        parts = [p.reshape(x.shape) for p, x in zip(flat.split(counts), start)]
        return sample.fixing(dict(zip(families, parts)))

    def gaps(flat):
        found = at(flat)
        return torch.cat([(h.lhs.run(found) - h.rhs.run(found)).flatten() for h in equations])

    if not families:
        raise HypothesesNotMet
    flat = torch.cat([x.flatten() for x in start])
    for _ in range(STEPS):
        gap, slopes = gaps(flat), torch.autograd.functional.jacobian(gaps, flat)
        if gap.abs().max().item() < 1e-13 or not slopes.isfinite().all():
            break
        flat = flat - torch.linalg.pinv(slopes) @ gap
    if flat.abs().max().item() > FARTHEST:  # an equation such as exp(A) = 0 holds only at infinity
        raise NotSolved
    return at(torch.where(flat.abs() < TINY, 0.0, flat).detach())
