"""The other way to prove an equation: at one size n, every matrix written out, entry by entry.

Every size of the equation becomes n and every letter a matrix (or a column) of symbols.  Both
sides are worked out, operation by operation, each part once, and SymPy decides for each entry
whether the difference is zero.  There are two ways to ask it, and neither is always the quicker
one; on other equations `cancel` came close to them, and `simplify` was never clearly quicker.

A permutation is tried as a swap and as a cycle.  All others are composed of these two; that the
equation then holds for all n! of them is an argument of its own, which is granted here.
"""

from __future__ import annotations

import itertools
import math
import signal
from contextlib import contextmanager

import sympy as sp
from derivation import matrix
from derivation.evaluation import EXACT, Instance
from derivation.kernel.terms import NUM, fun
from derivation.letters import Bijection, Family, number, scalar_letter, size_term
from derivation.matrices import Expression
from derivation.operations import DERIVATIVE, EXPECTATION, LETTER, OVER, PRODUCT_OF, SUM_OF


class Stopped(BaseException):  # an `except Exception` on the way must not catch it
    """It took longer than it was allowed to."""


def over_one_denominator(difference):
    """Whether it is zero: the numerator over one denominator expands to zero."""
    return sp.expand(sp.numer(sp.together(difference))) == 0


def expanded_first(difference):
    """Whether it is zero: so that what cancels is gone before a denominator is sought."""
    difference = sp.expand(difference)
    return difference == 0 or over_one_denominator(difference)


WAYS = {"over one denominator": over_one_denominator, "expanded first": expanded_first}


@contextmanager
def at_most(seconds):
    """Raises Stopped as soon as the code inside has used that much CPU time."""

    def stop(*_):
        raise Stopped(f"stopped after {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def holds_at(n, lhs, rhs, is_zero=over_one_denominator):
    """Whether SymPy finds lhs = rhs where every size is n.  True is a proof, False is none."""
    return all(
        is_zero(left - right)
        for written in every_way(n, lhs, rhs)
        for left, right in zip(written.out(lhs), written.out(rhs), strict=True)
    )


def every_way(n, *expressions):
    """The expressions at size n: once with each permutation a swap, once with it a cycle."""
    permutations = sorted(set().union(*[x.atoms(Bijection) for x in expressions]), key=str)
    swap, cycle = (2, 1, *range(3, n + 1)), (*range(2, n + 1), 1)
    for images in itertools.product(sorted({swap, cycle}), repeat=len(permutations)):
        yield Written(n, dict(zip(permutations, images)))


class Written:
    """Expressions written out as SymPy matrices.

    ``n`` is what every size becomes, ``images`` maps a permutation to the tuple of images of
    1, 2, …, ``at`` an index such as a head's to its place.
    """

    def __init__(self, n, images, at=None):
        self.n, self.images, self.at = n, images, at or {}
        self._known = {}

    def out(self, x):
        """The matrix of an expression."""
        if x not in self._known:
            self._known[x] = self._worked_out(x)
        return self._known[x]

    def _worked_out(self, x):
        if x.operation is LETTER:
            return self._letter(x)
        if x.operation is OVER:
            return self._added([y.out(x.args[0]) for y in self._at_each(x.params[0])])
        if x.operation is SUM_OF:
            return self._added(map(self.out, x.args))
        if x.operation is PRODUCT_OF:
            return math.prod(map(self.out, x.args[1:]), start=self.out(x.args[0]))
        if x.operation.expand is not None:
            return self.out(x.operation.expand(x))
        return self._by_entries(x)

    def _letter(self, x):
        """A symbol for each entry, real as the letters of the book are."""
        family, *indices = x.params
        if family.kind != "matrix":
            raise ValueError(
                f"{family.name} is no plain matrix: a {family.kind} is not written out"
            )
        name = "_".join([family.name, *[str(self.at[k]) for k in indices]])
        return sp.Matrix(
            *self._shape(x), lambda i, j: sp.Symbol(f"{name}_{i + 1}_{j + 1}", real=True)
        )

    def _at_each(self, index):
        """The same at each place of an index that a sum binds."""
        for place in range(1, self._size(index.size) + 1):
            yield Written(self.n, self.images, {**self.at, index: place})

    @staticmethod
    def _added(matrices):
        first, *rest = matrices
        return sum(rest, start=first)

    def _by_entries(self, x):
        """By the formula of the operation for an entry, with the entries of its arguments."""
        if x.operation in (DERIVATIVE, EXPECTATION) or any(p.atoms(Family) for p in x.params):
            raise ValueError(f"{x.operation.name} depends on more than entries: not written out")
        letters = [matrix(f"argumentʼ{k}", *y.shape) for k, y in enumerate(x.args)]
        alone = Expression(x.operation, letters, x.params, x.shape)
        meant = {y.params[0].term: _reader(self.out(z)) for y, z in zip(letters, x.args)}
        meant |= {p.term: images for p, images in self.images.items()}
        meant |= {k.term: place for k, place in self.at.items()}
        for s in alone.free_scalars():
            meant |= {size_term(s): self.n} if s.is_integer else {scalar_letter(s): s}
        for letter in alone.function.letters - meant.keys():
            if letter.args[1] == fun(NUM):  # a function that stands for any
                meant[letter] = sp.Function(letter.args[0])
        entry = Instance(meant, EXACT).value(alone.function)
        return sp.Matrix(*self._shape(x), lambda i, j: entry(i + 1, j + 1))

    def _shape(self, x):
        return map(self._size, x.shape)

    def _size(self, size):
        found = number(size)
        return int(found.subs({s: self.n for s in found.free_symbols}))


def _reader(written):
    return lambda i, j: written[i - 1, j - 1]
