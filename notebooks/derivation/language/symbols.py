"""Letters as a reader writes them: sizes, scalars, matrices, masks, draws, heads, sequences."""

import itertools
from typing import Any

import sympy as sp
from sympy import S

from ..kernel import must
from .letters import (Bijection, End, ExactNumber, Family, Index, Join, Scalar, Sealed, Size,
                      as_size, exact, is_size, unsealed)  # fmt: skip
from .matrices import Expression
from .operations import LETTER, PERMUTATION, PREFIX, TERM


def sizes(names: str) -> Any:
    """Symbolic sizes, each at least 1: ``n, d = sizes("n d")``."""
    return _symbols(names, integer=True, positive=True)


def join(first: Size, second: Size) -> Join | Scalar:
    """The size of a range made of a first block followed by a second block."""
    return _sealed_like(Join(first, second), first, second)


def scalars(names: str, positive: bool = False) -> Any:
    """Real scalars; a positive scalar may be a divisor, and only positive scalars may replace it."""
    return _symbols(names, positive=True) if positive else _symbols(names, real=True)


def _symbols(names, **assumptions):
    given = isinstance(names, str) and names.strip(" ,")
    must(given, 'give the names in one string, as in sizes("n d"), not {!r}', names)
    return sp.symbols(names, **assumptions)


def matrix(name: str, rows: Size, columns: Size = 1) -> Expression:
    """An arbitrary real matrix of symbolic shape, or a column vector if ``columns`` is missing."""
    return _letter(Family(name, "matrix", (rows, columns)))


def mask(name: str, rows: Size, columns: Size) -> Expression:
    """A matrix of zeros and ones."""
    return _letter(Family(name, "mask", (rows, columns)))


def random_matrix(name: str, rows: Size, columns: Size, variance: ExactNumber) -> Expression:
    """A matrix of independent entries with mean 0 and the given variance.

    Random matrices with different names are independent of each other.
    """
    return _letter(Family(name, "random", (rows, columns), variance))


def permutation(name: str, n: Size) -> Expression:
    """The matrix of an arbitrary permutation: row i of ``P @ X`` is row π(i) of X."""
    return Expression(PERMUTATION, params=[Bijection(name, n)])


_letter = lambda family, *heads: Expression(LETTER, params=[family, *heads])


class _Indexed(Sealed):
    """A letter that is a matrix only once it has an index; ``family`` is what is stored."""

    family: Family

    @classmethod
    def of(cls, family):
        """The reader's object for a stored family."""
        made = cls.__new__(cls)
        made.family = family
        return made


class Heads(_Indexed):
    """A family of matrices, one for each head: ``W_Q[a]`` is the matrix of head a.

    ``heads("W_Q", h, k, d)`` has h matrices of shape k × d; more leading sizes give more indices.
    """

    def __init__(self, name: str, *shape: Size):
        wanted = "{0} needs a number of heads, rows and columns: heads({0!r}, h, k, 1)"
        must(len(shape) >= 3, wanted, name)
        self.family = Family(name, "matrix", shape)

    def __getitem__(self, heads) -> Expression:
        heads = [unsealed(a) for a in (heads if isinstance(heads, tuple) else (heads,))]
        fits = all(isinstance(a, (Index, End)) for a in heads)
        must(fits, "{} takes indices made by head(name, count)", self.family.name)
        return _letter(self.family, *heads)

    @property
    def shape(self):
        """The numbers of heads, rows and columns, which a definition may use but not compare."""
        return tuple(map(Scalar, self.family.sizes))


heads = Heads


def head(name: str, count: Size) -> Index | End | Scalar:
    """An index that runs over ``count`` heads; ``over`` sums over it."""
    return _sealed_like(Index(name, count), count)


def _sealed_like(made, *parts):
    """Seal a result if any argument was sealed."""
    return Scalar(made) if any(type(p) is Scalar for p in parts) else made


class Sequence(_Indexed):
    """A sequence of rows, one for each natural number: ``z[t]`` is row t, of shape 1 × width."""

    def __init__(self, name: str, width: Size = 1):
        self.family = Family(name, "sequence", (S.Naturals, width))

    def __getitem__(self, t: Size) -> Expression:
        return Expression(TERM, params=[self.family, as_size(t)])

    def prefix(self, t: Size) -> Expression:
        """The first t rows, a matrix of shape t × width."""
        return Expression(PREFIX, params=[self.family], wanted=(t, self.family.sizes[1]))


sequence = Sequence


def taken_by(name, arguments):
    """The arguments of a word: the expressions, which come first, and the parameters."""
    args = list(itertools.takewhile(lambda a: isinstance(a, Expression), arguments))
    return args, [parameter_of(name, a) for a in arguments[len(args) :]]


def parameter_of(name, a):
    """An argument that is not an expression, in the form in which it is stored."""
    late = isinstance(a, Expression)
    must(not late, "{} takes its expressions first and its parameters after them", name)
    if isinstance(a, _Indexed):
        return a.family
    a = unsealed(a)
    return a if isinstance(a, (Join, Index, End, Family)) else exact(a)


def argument_of(parameter):
    """The reader's object for a stored parameter."""
    if isinstance(parameter, Family):
        return (Sequence if parameter.kind == "sequence" else Heads).of(parameter)
    return Scalar(parameter)


def sizes_in(x):
    """The sizes that the shape of an argument or of a letter contains."""
    x = x.family if isinstance(x, _Indexed) else x
    if isinstance(x, Expression):
        return x.axes
    if isinstance(x, Family):
        return tuple(s for s in x.sizes if s is not S.Naturals)
    if isinstance(x, (Index, End, Bijection)):
        return (x.size,)
    return (x,) if is_size(x) else ()
