"""Letters as a reader writes them: sizes, scalars, matrices, masks, draws, heads, sequences."""

from __future__ import annotations

import sympy as sp
from sympy import S

from .kernel.terms import ProofError
from .letters import Bijection, End, Family, Index, Join, as_size, exact
from .matrices import Expression
from .operations import LETTER, PERMUTATION, PREFIX, TERM


def sizes(names):
    """Symbolic sizes, each at least 1: ``n, d = sizes("n d")``."""
    return _symbols(names, integer=True, positive=True)


def join(first, second):
    """The size of a first block followed by a second one."""
    return Join(first, second)


def scalars(names, positive=False):
    """Real scalars; a positive one may be divided by and may stand for positive ones only."""
    return _symbols(names, positive=True) if positive else _symbols(names, real=True)


def _symbols(names, **assumptions):
    if not (isinstance(names, str) and names.strip(" ,")):
        raise ProofError(f'names stand in one string, as in sizes("n d"), not {names!r}')
    return sp.symbols(names, **assumptions)


def matrix(name, rows, columns=1):
    """An arbitrary real matrix of symbolic shape; a column vector without ``columns``."""
    return _letter(Family(name, "matrix", (rows, columns)))


def mask(name, rows, columns):
    """A matrix of zeros and ones."""
    return _letter(Family(name, "mask", (rows, columns)))


def random_matrix(name, rows, columns, variance):
    """A matrix of independent entries, of mean 0 and of the variance given.

    Random matrices of different names are independent of each other.
    """
    variance = exact(variance)
    if not variance.is_nonnegative:
        raise ProofError(f"a variance is provably at least 0, which {variance} is not")
    return _letter(Family(name, "random", (rows, columns), variance))


def permutation(name, n):
    """The matrix of an arbitrary permutation: row i of ``P @ X`` is row π(i) of X."""
    return Expression(PERMUTATION, params=[Bijection(name, n)], shape=(n, n))


def _letter(family, *heads):
    return Expression(LETTER, params=[family, *heads], shape=family.sizes[-2:])


class Heads:
    """A family of matrices, one for each head: ``W_Q[a]`` is the a-th.

    ``heads("W_Q", h, k, d)`` has h matrices of shape k × d; more leading sizes give more indices.
    """

    def __init__(self, name, *shape):
        if len(shape) < 3:
            raise ProofError(
                f"{name} needs a number of heads, rows and columns: heads({name!r}, h, k, 1)"
            )
        self.family = Family(name, "matrix", shape)

    @classmethod
    def of(cls, family):
        """The heads that a family stands for."""
        return _wrapped(cls, family)

    def __getitem__(self, heads):
        heads = heads if isinstance(heads, tuple) else (heads,)
        counts = self.family.sizes[:-2]
        if len(heads) != len(counts) or not all(
            isinstance(a, (Index, End)) and a.size == n for a, n in zip(heads, counts)
        ):
            raise ProofError(
                f"{self.family.name} takes indices made by head(name, count), not {heads}"
            )
        return _letter(self.family, *heads)


heads = Heads


def _wrapped(cls, family):
    made = cls.__new__(cls)
    made.family = family
    return made


def head(name, count):
    """An index over heads, to be summed over with ``over``."""
    return Index(name, count)


class Sequence:
    """A sequence of rows, one for each natural number: ``z[t]`` is the t-th, of shape 1 × width."""

    def __init__(self, name, width=1):
        self.family = Family(name, "sequence", (S.Naturals, width))

    @classmethod
    def of(cls, family):
        """The sequence that a family stands for."""
        return _wrapped(cls, family)

    def __getitem__(self, t):
        return Expression(TERM, params=[self.family, as_size(t)], shape=(1, self.family.sizes[1]))

    def prefix(self, t):
        """The first t rows, a matrix of shape t × width."""
        return Expression(PREFIX, params=[self.family], shape=(t, self.family.sizes[1]))


sequence = Sequence
