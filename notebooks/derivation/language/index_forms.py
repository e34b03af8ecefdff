"""Numbers in index form: the way in which readers write the entries of a matrix.

A ``Number`` is a term of the kernel that Python's operators can combine; it records the reader's
objects in the term: families, permutations, scalars, sizes.  A ``Position`` indexes an entry.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from .. import kernel as k
from ..kernel import ProofError, Term, must
from ..printing import in_the_book, words_in
from .letters import (ExactNumber, Formula, Size, as_size, exact, kernel_letter, scalar_term,
                      size_of, size_term, written)  # fmt: skip

#: The sorts of letters whose kind must be printed.
KINDS_TOLD = ("FUN", "NUM", "SIZE")


@dataclass(frozen=True, eq=False)
class Number(Formula):
    """A number in index form; ``uses`` are the reader's letters in it.

    ``uses`` has no default, because without it the letters would be printed without their kinds.
    """

    term: Term
    uses: frozenset

    @staticmethod
    def _op(operation, one, other):
        if operation is operator.sub:
            return made("add", one, made("mul", -1, other))
        if operation is operator.truediv:
            return made("mul", one, made("inv", other))
        return made({operator.add: "add", operator.mul: "mul"}[operation], one, other)

    def __pow__(self, exponent):
        if type(exponent) is not int and not isinstance(exponent, sp.Integer):
            self.__rpow__(exponent)
        power = Number(Term("pow", self.term, abs(int(exponent))), self.uses)
        return power if exponent >= 0 else 1 / power

    def __rpow__(self, other):
        raise ProofError("an exponent in an index form must be an integer")


class Position(Number):
    """A position; used as a number, it counts from 1."""

    place: Term

    def __init__(self, term, place):
        super().__init__(Term("place", place), frozenset())
        object.__setattr__(self, "place", place)

    @classmethod
    def of(cls, place):
        """The ``Position`` for a term of the kernel."""
        return cls(None, place)


def number_of(x):
    """``x`` as a number in index form: unchanged if it is one; an exact scalar is converted."""
    if isinstance(x, Number):
        return x
    try:
        x = exact(x)
    except ProofError as error:
        raise ProofError(f"an index form takes entries and exact numbers: {error}") from None
    return Number(scalar_term(x), frozenset(x.free_symbols))


def made(op, *parts):
    """The number that the operation ``op`` computes from ``parts``."""
    parts = tuple(map(number_of, parts))
    return Number(Term(op, *[p.term for p in parts]), frozenset().union(*[p.uses for p in parts]))


def total(body: Callable, size: Size) -> Number:
    """The sum of ``body(k)`` over all positions k of a range."""
    size = as_size(size)
    mark = k.fresh(k.pos(size_term(size)))
    found = number_of(written("what total sums", body, Position.of(mark)))
    uses = found.uses | size.free_symbols
    return Number(Term("sum", k.abstract([mark], found.term)), uses)


def exp_of(x: Number | ExactNumber) -> Number:
    """The exponential of a number, in an index form."""
    return made("exp", x)


def log_of(x: Number | ExactNumber) -> Number:
    """The natural logarithm of a number > 0, in an index form."""
    return made("log", x)


def root_of(x: Number | ExactNumber) -> Number:
    """The square root of a number, in an index form."""
    return made("sqrt", x)


@dataclass(frozen=True)
class Table:
    """A matrix in index form: a function of two positions, and the objects that it is made of."""

    function: Term
    uses: frozenset

    @property
    def axes(self):
        """The numbers of rows and columns."""
        return tuple(size_of(s.args[0]) for s in self.function.args[1:])

    def atoms(self, kind):
        """The objects of one kind that the table is made of."""
        return frozenset().union(*[u.atoms(kind) for u in self.uses])


def tabled(body, shape):
    """The `Table` with the entries ``body(i, j)``, as a matrix of this shape."""
    marks = [k.fresh(k.pos(size_term(s))) for s in shape]
    try:
        return _tabled(marks, number_of(written("an index form", body, *map(Position.of, marks))))
    except RecursionError:
        raise ProofError("the index form is nested too deeply") from None


def _tabled(marks, found):
    leaked = any(x.args[1].op == "POS" for x in found.term.letters - set(marks))
    must(not leaked, "an index form may use only its own two indices and those of its sums")
    operations = {x for x in found.uses if hasattr(x, "word")}  # these have no letters of their own
    own = set(map(kernel_letter, found.uses - operations)) | set(marks)
    sizes = frozenset().union(*[term.letters for term in own])
    letters = [x for x in found.term.letters - own - sizes if x.args[1].op in KINDS_TOLD]
    forgotten = [x.args[0] for x in letters if x.args[1] != k.fun(k.NUM)]
    told = {term for x in operations if x.word for term in x.word.terms}
    words = words_in(found.term, in_definitions=False) - told
    forgotten += [in_the_book(t.args[0])[0] for t in words]
    must(not forgotten, "an index form forgets what {} is", *forgotten[:1])
    drawn = any(x.args[1].op == "DRAW" for x in found.term.letters)
    must(not drawn, "an index form cannot contain draws: write the mean outside it")
    return Table(k.abstract(marks, found.term), found.uses)
