"""Expressions of symbolic shape: matrices, and how a reader writes them.

An expression is an operation applied to expressions; ``operations`` defines the meaning, the torch
code and the printed form of each operation.  Tokens are rows.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import sympy as sp
from sympy import S
from sympy.core.symbol import Str

from .. import kernel as k
from ..kernel import Normal, ProofError, abstract, must, range_of
from ..printing import Latex, Text
from . import operations as ops
from .index_forms import Number, Position, Table, tabled
from .letters import (Bijection, End, Family, Index, Join, Scalar, Sealed, Size, as_size, conform,
                      exact, size_of, size_term, unsealed)  # fmt: skip
from .shown_sizes import telling_sizes

DEEPEST = 100  # the deepest nesting of expressions, well within Python's recursion limit


def _parameter(p):
    """A parameter as it is stored: an object of the checker, or an exact number or size."""
    if type(p) in (Index, End, Bijection, Family, Table, Str):
        return p
    return as_size(p) if isinstance(p, Join) else exact(p)


_blind = [False]  # a stack whose last item says whether finding two expressions unequal is an error


@contextlib.contextmanager
def read_blindly(blindly=True):
    """A context in which finding two expressions unequal is an error, if ``blindly``."""
    _blind.append(blindly)
    try:
        yield
    finally:
        _blind.pop()


_refusing = lambda message: lambda self, *others: must(False, message)


class Expression(k.Frozen):
    """An operation applied to expressions; immutable, compared by structure.

    ``axes`` are its two symbolic sizes; ``params`` are the parameters that are not expressions:
    scalars, positions, permutations, names.
    """

    __slots__ = ("operation", "args", "params", "axes", "_hash", "depth")

    def __init_subclass__(cls):
        raise TypeError("Expression has no subclasses, because they could print anything")

    def __init__(self, operation, args=(), params=(), wanted=None):
        ops.demand_known(operation)
        must({*map(type, args)} <= {Expression}, "an expression is made of expressions")
        params = tuple(map(_parameter, params))
        wanted = wanted and tuple(map(as_size, wanted))
        operation.check(args, params)
        axes = tuple(map(as_size, operation.axes(args, params, wanted)))
        depth = 1 + max((x.depth for x in args), default=0)
        too_deep = "the expression is nested too deeply: abbreviate its parts with define"
        must(depth <= DEEPEST, too_deep)
        args, hashed = tuple(args), hash((operation, tuple(args), params, axes))
        self._keep(operation=operation, args=args, params=params, axes=axes)
        self._keep(_hash=hashed, depth=depth)

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        if self is other:
            return True
        if not isinstance(other, Expression):
            return NotImplemented
        parts = lambda x: (x.operation, x.params, x.axes, x.args)
        if self._hash != other._hash or parts(self) != parts(other):
            if _blind[-1]:
                Sealed.looks += 1
                raise ProofError("a formula cannot branch on what an expression is")
            return False
        return True

    def __matmul__(self, other):
        """The product; a product on the right keeps its brackets, so that it prints as written."""
        return Expression(ops.PRODUCT_OF, [*factors_of(self), expression(other, "@")])

    __add__ = lambda self, other: plus(self, expression(other, "+"))
    __sub__ = lambda self, other: plus(self, scaled(-1, expression(other, "-")))
    __neg__ = lambda self: scaled(-1, self)

    def __mul__(self, other):
        return hadamard(self, other) if isinstance(other, Expression) else scaled(other, self)

    __rmul__ = lambda self, scalar: scaled(scalar, self)
    __truediv__ = lambda self, scalar: scaled(1 / exact(scalar), self)

    # Python calls these only if the left side is not an expression, so they always refuse.
    __radd__ = lambda self, other: expression(other, "+")
    __rsub__ = lambda self, other: expression(other, "-")
    __rmatmul__ = lambda self, other: expression(other, "@")

    # Methods of numeric matrices that an expression lacks.
    __bool__ = _refusing("an expression is neither true nor false: use proves(theorem, …)")
    __pow__ = _refusing("an expression has no powers: write A @ A, A * A, or an index form")
    __rtruediv__ = _refusing("an expression cannot be a divisor: write an index form, see tabulate")
    __getitem__ = _refusing("an expression has no items: write entry_of(A, i, j) in an index form")
    __array_ufunc__ = None  # NumPy must not broadcast over an expression

    T = property(lambda self: Expression(ops.TRANSPOSE, [self]), doc="The transpose.")

    @property
    def shape(self):
        """The numbers of rows and columns, which a definition may use but not compare."""
        return tuple(map(Scalar, self.axes))

    def entry(self, i, j):
        """The entry at two positions, a term of the kernel."""
        return self.operation.entry(self, i, j)

    @property
    def function(self):
        """The expression as the kernel's function of two positions."""
        return _function(self)

    def run(self, sample):
        """The value in torch float64, for a sample of sizes, entries and permutations."""
        if self not in sample.values:
            sample.values[self] = self.operation.run(self, sample)
        return sample.values[self]

    @staticmethod
    def number(scalar):
        """A scalar as a 1 × 1 matrix."""
        return scaled(scalar, ones(1, 1))

    def rebuilt(self, args):
        """The same operation on other arguments; raises ProofError if they do not conform."""
        if self.operation is ops.SUM_OF:
            return plus(*args)
        if self.operation is ops.PRODUCT_OF:  # brackets stand exactly where they stood before
            pairs = zip(self.args, args)
            flat = [[a] if y.operation is ops.PRODUCT_OF else factors_of(a) for y, a in pairs]
            args = [a for factors in flat for a in factors]
        return Expression(self.operation, args, self.params, self.axes)

    def walk(self):
        """This expression and all its sub-expressions."""
        yield self
        for x in self.args:
            yield from x.walk()

    def operations(self):
        """The operations in the expression and in the definitions that it uses."""
        return _operations(self)

    def atoms(self, kind):
        """All objects of a kind (Family, Bijection, Symbol) in the parameters and the shapes."""
        return set().union(*[_atoms(b, kind) for x in self.walk() for b in (*x.params, *x.axes)])

    @property
    def binds(self):
        """The set of what the operation itself binds: the index of a sum, a slope's scalar."""
        return {self.params[0]} if self.operation in (ops.OVER, ops.DERIVATIVE) else set()

    def bound(self):
        """All indices and scalars that something in the expression binds."""
        return set().union(*[x.binds for x in self.walk()])

    def free(self, kind):
        """The objects of a kind that nothing in the expression binds."""
        inside = [x.free(kind) for x in self.args]
        own = [_atoms(basic, kind) for basic in (*self.params, *self.axes)]
        return set().union(*inside, *own) - self.binds

    def free_scalars(self):
        """The scalar and size symbols that no derivative binds."""
        return self.free(sp.Symbol)

    def free_positions(self):
        """The indices that no sum binds."""
        return self.free(Index)

    def show(self, style, tightness=0, names=None):
        """The expression printed in a style; ``names`` maps sub-expressions to printed names."""
        names = names or {}
        if self in names:
            indices = [style.name(p.name) for p in sorted(self.free_positions(), key=str)]
            name = style.invented(names[self])
            return style.at(name, *indices) if indices else name
        piece, holds = self.operation.show(self, style, lambda x, t=0: x.show(style, t, names))
        return piece if holds >= tightness else style.brackets(piece)

    def _repr_latex_(self):
        return f"$\\displaystyle {telling_sizes(self)[0].show(Latex())}$"

    def __repr__(self):
        return telling_sizes(self)[0].show(Text())


@functools.lru_cache(maxsize=None)
def _atoms(basic, kind):
    return frozenset(basic.atoms(kind))


@functools.lru_cache(maxsize=None)
def _operations(x):
    found = {x.operation}.union(*map(_operations, x.args))
    if x.operation.expand is not None:
        found |= _operations(x.operation.expand(x))
    return frozenset(found)


@functools.lru_cache(maxsize=None)
def _function(x):
    marks = [k.fresh(k.pos(size_term(s))) for s in x.axes]
    return abstract(marks, x.entry(*marks))


def expression(x: Any, sign: str) -> Expression:
    """Return x if it is an expression; otherwise raise ProofError: ``sign`` needs an expression."""
    if isinstance(x, Expression):
        return x
    must(x is not ..., "the operand beside {} is still to be written, in place of ...", sign)
    raise ProofError("{} needs an expression of the book, not {!r}", sign, x)


@functools.lru_cache(maxsize=None)
def free_names(x: Expression) -> frozenset:
    """All that an expression depends on: letters, permutations, scalars, sizes, free indices."""
    return frozenset(x.atoms(Family) | x.atoms(Bijection) | x.free_scalars() | x.free_positions())


def made_of(x):
    """The objects on which an entry of an expression depends: free names and operations."""
    inside = set().union(*[operations_in(y) for y in x.walk()])
    return frozenset(free_names(x) | inside)


def operations_in(x: Expression) -> set[ops.Operation]:
    """The operation of a node; for an index form, also the operations used in it."""
    return {x.operation}.union(*[p.atoms(ops.Operation) for p in x.params])


def is_permutation(x):
    """Whether the form of an expression shows that it is a permutation matrix."""
    if x.operation in (ops.PERMUTATION, ops.IDENTITY):
        return True
    return x.operation in (ops.TRANSPOSE, ops.PRODUCT_OF) and all(map(is_permutation, x.args))


def is_mask(x):
    """Whether the form of an expression shows that its entries are zeros and ones."""
    if x.operation is ops.LETTER:
        return x.params[0].kind == "mask"
    if x.operation in (ops.ONES, ops.ZEROS, ops.CAUSAL, ops.HOLE) or is_permutation(x):
        return True
    if x.operation is ops.PRODUCT_OF:  # a mask with permuted rows and columns, or an outer product
        outer = all(y.axes[1] == 1 for y in x.args[:-1])
        if not outer and sum(not is_permutation(y) for y in x.args) != 1:
            return False
    kept = ops.TRANSPOSE, ops.HADAMARD, ops.STACK, ops.LAST_ROW, ops.SIZED, ops.PRODUCT_OF
    return x.operation in kept and all(map(is_mask, x.args))


@functools.lru_cache(maxsize=None)
def same(a: Expression, b: Expression) -> bool:
    """Whether plain algebra shows two expressions to be equal."""
    if a == b or a.axes != b.axes:
        return a == b
    marks = k.looked_into(a.function)[1]
    return Normal().same(*[k.opened(x.function, *marks) for x in (a, b)])


def ones(rows: Size, columns: Size = 1) -> Expression:
    """The matrix of ones."""
    return Expression(ops.ONES, wanted=(rows, columns))


def zeros(rows: Size, columns: Size = 1) -> Expression:
    """The matrix of zeros."""
    return Expression(ops.ZEROS, wanted=(rows, columns))


def identity(n: Size) -> Expression:
    """The identity matrix."""
    return Expression(ops.IDENTITY, wanted=(n, n))


def causal(n: Size) -> Expression:
    """The causal mask: 1 if the column does not come after the row, else 0."""
    return Expression(ops.CAUSAL, wanted=(n, n))


def position_numbers(n: Size) -> Expression:
    """The column (1, 2, …, n)."""
    return Expression(ops.POSITIONS, wanted=(n, 1))


def product(*factors: Expression) -> Expression:
    """The matrix product, without brackets; neighbouring shapes must conform."""
    while any(x.operation is ops.PRODUCT_OF for x in factors):
        factors = tuple(y for x in factors for y in factors_of(x))
    return factors[0] if len(factors) == 1 else Expression(ops.PRODUCT_OF, factors)


def factors_of(x):
    """The factors of a product; for any other expression, that expression as the only factor."""
    return x.args if x.operation is ops.PRODUCT_OF else (x,)


def plus(*terms):
    """The sum of matrices of the same shape."""
    flat = [y for x in terms for y in (x.args if x.operation is ops.SUM_OF else [x])]
    return flat[0] if len(flat) == 1 else Expression(ops.SUM_OF, flat)


def scaled(scalar, x):
    """A scalar times a matrix."""
    return Expression(ops.SCALED, [expression(x, "*")], [exact(scalar)])


def hadamard(a: Expression, b: Expression) -> Expression:
    """The entrywise product."""
    return Expression(ops.HADAMARD, [expression(a, "⊙"), expression(b, "⊙")])


def diag(v: Expression) -> Expression:
    """The diagonal matrix of a column."""
    return Expression(ops.DIAG, [expression(v, "diag")])


def stack(first: Expression, second: Expression) -> Expression:
    """The rows of ``first`` above the rows of ``second``."""
    return Expression(ops.STACK, [expression(first, "stack"), expression(second, "stack")])


def last_row(x: Expression) -> Expression:
    """The last row, of shape 1 × columns."""
    return Expression(ops.LAST_ROW, [expression(x, "last_row")])


def derivative(x: Expression, scalar: sp.Symbol | Scalar) -> Expression:
    """The derivative of x with respect to a scalar symbol, at 0; it binds the symbol."""
    scalar = unsealed(scalar)
    real = isinstance(scalar, sp.Symbol) and not scalar.is_integer and not scalar.is_positive
    must(real, "a derivative is taken along a real scalar symbol, not {}", scalar)
    return Expression(ops.DERIVATIVE, [expression(x, "derivative")], [scalar])


def expectation(x: Expression) -> Expression:
    """The mean over the random letters in x."""
    return Expression(ops.EXPECTATION, [expression(x, "expectation")])


def tabulate(body: Callable, rows: Size = 1, columns: Size = 1) -> Expression:
    """The matrix whose entries are written in index form: ``tabulate(lambda i, j: term, n, m)``.

    The terms are built from ``entry_of``, ``exp_of``, ``root_of``, ``total`` and arithmetic.
    """
    return Expression(ops.TABULATED, params=[tabled(body, (rows, columns))])


def entry_of(x: Expression, i: Position | None = None, j: Position | None = None) -> Number:
    """An entry of an expression, for use in an index form; a missing position means the only one.

    Raises ProofError if a position is missing although its range has more than one.
    """
    positions = all(p is None or isinstance(p, Position) for p in (i, j))
    must(positions, "entry_of takes positions from tabulate or total")
    axes = expression(x, "entry_of").axes
    ranges = [S.One if p is None else size_of(range_of(p.place)) for p in (i, j)]
    told = "an entry of a matrix of shape {} stands at a row and a column of it: these positions run to {}"
    conform(axes, ranges, told, axes, tuple(ranges))
    at = [k.ONLY if p is None else p.place for p in (i, j)]
    return Number(x.entry(*at), made_of(x))
