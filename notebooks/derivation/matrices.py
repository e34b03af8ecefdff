"""Expressions of symbolic shape: matrices, and how their entries are made.

An expression is an operation applied to expressions.  The operation carries all there is to
know about it: its shape rule, its generic entry (what is proved is about that), its torch
code (what the alarm runs) and how it prints.  Tokens are rows.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Callable

import sympy as sp
from sympy import Add, S, Tuple
from sympy.core.symbol import Str

from . import sums
from .printing import ATOM, POWER, PRODUCT, SIGNED, SUM, Latex, Text, show_number, show_term
from .sums import (
    AtMost,
    Bijection,
    Cases,
    Delta,
    Entry,
    Family,
    Index,
    Opaque,
    Part,
    ProofError,
    Sigma,
    abstraction,
    applied,
    as_size,
    fresh,
    moved,
    number,
    range_of,
    total,
)


class _LazyTorch:
    """torch, imported when an operation first runs: the package works without it."""

    def __getattr__(self, name):
        import torch

        return getattr(torch, name)


torch = _LazyTorch()


@dataclass(frozen=True)
class NonZero:
    """A hypothesis: every entry of ``expression`` is non-zero (or positive), for every ``bound``."""

    expression: "Expression"
    positive: bool = False
    bound: tuple = ()

    def sides(self):
        """The expressions it speaks of."""
        return [self.expression]

    def quantified(self, binder):
        """The same for every value of an index or scalar that was bound around it."""
        names = self.expression.free_positions() | self.expression.free_scalars()
        return (
            NonZero(self.expression, self.positive, (*self.bound, binder))
            if binder in names
            else self
        )

    def substituted(self, substitution):
        """The hypothesis for what a substitution puts for the letters."""
        bound = []
        for binder in self.bound:
            binder, substitution = substitution.bind(binder, free_names(self.expression))
            bound += [] if isinstance(binder, sums.End) else [binder]
        return NonZero(substitution(self.expression), self.positive, tuple(bound))

    def closed_forms(self, words=frozenset(), laws=()):
        """The normal forms of what must not vanish, read "for every entry and every bound index"."""
        normalise = sums.Normaliser(laws)
        forms = set()
        for i, j in generic_positions(self.expression.shape):
            form = normalise(self.expression.entry(i, j, words))
            forms.add(normalise.closed(form, {i, j, *self.bound}))
        return forms

    def is_evident(self):
        """Whether the expression is provably positive by the form of its entries."""
        (i, j), *_ = generic_positions(self.expression.shape)
        term = self.expression.entry(i, j, self.expression.words())
        if sums.positive(term):
            return True  # as it stands; what cancels first counts only where nothing can vanish
        return not list(sums.divisors(term)) and sums.positive(sums.Normaliser()(term))

    def show(self, style, names=None):
        """The hypothesis in print."""
        x, every = self.expression, ""
        for binder in self.bound:
            every += style.text(" for every " if not every else ", ") + style.name(
                binder.args[0].name
            )
        if not self.positive and x.operation is PRODUCT_OF and x.args[-1].operation is ONES:
            rows = product(*x.args[:-1]) if len(x.args) > 2 else x.args[0]
            return (
                style.text("no row of ")
                + rows.show(style, SUM, names)
                + style.text(" sums to zero")
                + every
            )
        relation = style.greater if self.positive else style.unequal
        each = "" if x.shape == (1, 1) else style.text("each entry of ")
        return each + x.show(style, SUM, names) + relation + "0" + every


_serial = itertools.count()


def next_serial():
    """A number for a definition, by which two of one name are told apart."""
    return next(_serial)


@dataclass(frozen=True, eq=False)
class Operation:
    """One kind of expression.

    ``entry(x, i, j, unfold)`` is the generic entry of the expression x as a term;
    ``run(x, sample)`` its value as a float64 tensor; ``show(x, style, show)`` its print and
    how tightly that holds together; ``needs(x)`` the expressions that must not vanish for the
    entry to make sense.  An operation with ``defined=True`` is opaque until a line names its
    definition; ``serial`` tells two definitions of one name apart, ``build`` makes an
    expression of it from arguments and parameters, ``expand`` its body where it abbreviates, ``word`` is what its user calls.
    """

    name: str
    entry: Callable
    run: Callable
    show: Callable
    defined: bool = False
    serial: int = 0
    needs: Callable = lambda x: ()
    build: Callable | None = None
    expand: Callable | None = None
    word: object = None


class Expression:
    """An operation applied to expressions; immutable, compared by structure.

    ``shape`` is a pair of symbolic sizes; ``params`` are the parameters that are not
    expressions (scalars, positions, permutations, names).
    """

    __slots__ = ("operation", "args", "params", "shape", "_hash")

    def __init__(self, operation, args=(), params=(), shape=None):
        shape = tuple(as_size(s) for s in (shape or args[0].shape))
        values = (operation, tuple(args), tuple(params), shape)
        for name, value in zip(self.__slots__, values):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "_hash", hash(values))

    def __setattr__(self, name, value):
        raise AttributeError("expressions are immutable")

    def __hash__(self):
        return self._hash

    def __eq__(self, other):
        return self is other or (
            isinstance(other, Expression)
            and self._hash == other._hash
            and (self.operation, self.params, self.shape, self.args)
            == (other.operation, other.params, other.shape, other.args)
        )

    # -- algebra

    def __matmul__(self, other):
        return product(self, expression(other, "@"))

    def __add__(self, other):
        return plus(self, expression(other, "+"))

    def __sub__(self, other):
        return plus(self, scaled(-1, expression(other, "-")))

    def __neg__(self):
        return scaled(-1, self)

    def __mul__(self, other):
        return hadamard(self, other) if isinstance(other, Expression) else scaled(other, self)

    def __rmul__(self, scalar):
        return scaled(scalar, self)

    def __truediv__(self, scalar):
        return scaled(1 / exact(scalar), self)

    # Reached only where the left side is no expression: they say what is wanted.
    def __rmatmul__(self, other):
        return expression(other, "@")

    def __radd__(self, other):
        return expression(other, "+")

    def __rsub__(self, other):
        return expression(other, "-")

    __array_ufunc__ = None  # NumPy must not spread itself over an expression

    @property
    def T(self):
        """The transpose."""
        return Expression(TRANSPOSE, [self], shape=self.shape[::-1])

    # -- meaning

    def entry(self, i, j, unfold=frozenset()):
        """The entry at positions i, j as a term; operations in ``unfold`` by their definition."""
        for position, size in zip((i, j), self.shape):
            if range_of(position) != size:
                raise ProofError(f"{position} is no position of an axis of size {size}")
        if not self.operation.defined or self.operation in unfold:
            return self.operation.entry(self, i, j, unfold)
        return self.opaque_entry(i, j, unfold)

    def opaque_entry(self, i, j, unfold=frozenset()):
        """The entry as one atom that holds all that it depends on."""
        arguments = [
            abstraction(lambda p, q, x=x: x.entry(p, q, unfold), *x.shape) for x in self.args
        ]
        shapes = Tuple(*[Tuple(*x.shape) for x in (self, *self.args)])
        name, serial = Str(self.operation.name), sp.Integer(self.operation.serial)
        return Opaque(name, serial, Tuple(*self.params), shapes, Tuple(i, j), *arguments)

    def run(self, sample):
        """The value in torch float64 for a sample of sizes, entries and permutations."""
        if self not in sample.values:
            sample.values[self] = self.operation.run(self, sample)
        return sample.values[self]

    # -- structure

    def rebuilt(self, args):
        """The same operation on other arguments of the same shapes."""
        if self.operation in (PRODUCT_OF, SUM_OF):
            return (product if self.operation is PRODUCT_OF else plus)(*args)
        return Expression(self.operation, args, self.params, self.shape)

    def walk(self):
        """This expression and all below it."""
        yield self
        for x in self.args:
            yield from x.walk()

    def operations(self):
        """The operations in the expression and in what they abbreviate."""
        return _operations(self)

    def words(self):
        """The defined operations in the expression and in what they abbreviate."""
        return frozenset(operation for operation in self.operations() if operation.defined)

    def atoms(self, kind):
        """All of a kind (Family, Bijection, Symbol) in the parameters and the shapes."""
        return set().union(*[b.atoms(kind) for x in self.walk() for b in (*x.params, *x.shape)])

    def free_scalars(self):
        """The scalar and size symbols that no derivative binds."""
        found = set().union(*[x.free_scalars() for x in self.args], set())
        for basic in (*self.params, *self.shape):
            found |= basic.atoms(sp.Symbol)
        return found - {self.params[0]} if self.operation is DERIVATIVE else found

    def index_names(self):
        """The indices with names of their own, such as a head's, free or bound."""
        found = set().union(*[p.atoms(Index) for x in self.walk() for p in x.params])
        return {k for k in found if isinstance(k.args[0], Str) and not sums.is_fresh(k)}

    def free_positions(self):
        """The indices, such as a head's, that nothing binds."""
        found = set().union(*[x.free_positions() for x in self.args], set())
        for basic in self.params:
            found |= sums.free_indices(basic)
        return found - {self.params[0]} if self.operation is OVER else found

    # -- print

    def show(self, style, tightness=0, names=None):
        """The expression in a style; ``names`` maps sub-expressions to names given to them."""
        names = names or {}
        if self in names:
            indices = [show_term(style, k) for k in sorted(self.free_positions(), key=str)]
            name = style.name(names[self])
            return style.at(name, *indices) if indices else name
        piece, holds = self.operation.show(self, style, lambda x, t=0: x.show(style, t, names))
        return piece if holds >= tightness else style.brackets(piece)

    def _repr_latex_(self):
        return f"$\\displaystyle {self.show(Latex())}$"

    def __repr__(self):
        return self.show(Text())


@functools.lru_cache(maxsize=None)
def _operations(x):
    found = {x.operation}.union(*map(_operations, x.args))
    if x.operation.expand is not None:
        found |= _operations(x.operation.expand(x))
    return frozenset(found)


def expression(x, sign):
    """x, if it is an expression; ProofError names the operation that wants one."""
    if isinstance(x, Expression):
        return x
    if x is ...:
        raise ProofError(f"what stands beside {sign} is still to be written, in place of ...")
    raise ProofError(f"{sign} needs an expression of the book, not {x!r}")


def free_names(x):
    """All that an expression depends on: letters, permutations, scalars, sizes, free indices."""
    return x.atoms(Family) | x.atoms(Bijection) | x.free_scalars() | x.free_positions()


def is_permutation(x):
    """Whether an expression is a permutation matrix by its form."""
    if x.operation in (PERMUTATION, IDENTITY):
        return True
    return x.operation in (TRANSPOSE, PRODUCT_OF) and all(map(is_permutation, x.args))


def is_mask(x):
    """Whether the entries of an expression are zeros and ones by its form."""
    if x.operation is LETTER:
        return x.params[0].kind == "mask"
    if x.operation in (ONES, ZEROS, CAUSAL) or is_permutation(x):
        return True
    if x.operation in (TRANSPOSE, HADAMARD, STACK, LAST_ROW):
        return all(map(is_mask, x.args))
    if x.operation is PRODUCT_OF:  # the rows and columns of one mask, permuted, or an outer product
        outer = all(y.shape[1] == 1 for y in x.args[:-1])
        return all(map(is_mask, x.args)) and (
            outer or sum(not is_permutation(y) for y in x.args) == 1
        )
    return False


def exact(scalar):
    """``scalar`` as an exact SymPy number or symbol; floats and foreign objects are refused."""
    try:
        scalar = sp.sympify(scalar, strict=True)
    except sp.SympifyError:
        raise ProofError(f"{scalar!r} is not a scalar") from None
    if scalar.atoms(sp.Float):
        raise ProofError(
            f"{scalar} is a float: a derivation takes exact numbers only, such as Rational(1, 2)"
        )
    if not isinstance(scalar, sp.Expr):
        raise ProofError(f"{scalar} is not a scalar")
    if scalar.has(sums.Join):
        scalar = number(scalar)
    if scalar.has(sums.Node):
        raise ProofError(f"{scalar} is not a scalar: it depends on a position")
    for part in sp.preorder_traversal(scalar):
        if not _is_exact(part):
            raise ProofError(
                f"{part} is not a scalar of the book: use scalars(), rationals and whole powers"
            )
    return scalar


def _is_exact(part):
    """Whether a SymPy node is allowed in a scalar: rationals, the book's symbols, +, *, powers."""
    if isinstance(part, sp.Symbol):
        kinds = ({"real": True}, {"positive": True}, {"integer": True, "positive": True})
        return any(part == sp.Symbol(part.name, **kind) for kind in kinds) or isinstance(
            part, sp.Dummy
        )
    if part.is_Pow:
        return part.exp.is_Integer or bool(part.exp.is_Rational and part.base.is_positive)
    return part.is_Rational or part.is_Add or part.is_Mul


# ── Letters ───────────────────────────────────────────────────────────────────────────────


def sizes(names):
    """Symbolic sizes, each at least 1: ``n, d = sizes("n d")``."""
    return sp.symbols(names, integer=True, positive=True)


def join(first, second):
    """The size of a first block followed by a second one."""
    return sums.Join(first, second)


def scalars(names, positive=False):
    """Real scalars; a positive one may be divided by and may stand for positive ones only."""
    return sp.symbols(names, positive=True) if positive else sp.symbols(names, real=True)


def matrix(name, rows, columns=1):
    """An arbitrary real matrix of symbolic shape; a column vector without ``columns``."""
    return _letter(Family(name, "matrix", (rows, columns)))


def mask(name, rows, columns):
    """A matrix of zeros and ones."""
    return _letter(Family(name, "mask", (rows, columns)))


def random_matrix(name, rows, columns, variance):
    """A matrix of independent entries, symmetric about 0, of the variance given.

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
            isinstance(a, (Index, sums.End)) and range_of(a) == n for a, n in zip(heads, counts)
        ):
            raise ProofError(
                f"{self.family.name} takes indices made by head(name, count), not {heads}"
            )
        for index in heads:
            _refuse_reserved(index)
        return _letter(self.family, *heads)


heads = Heads


def _wrapped(cls, family):
    made = cls.__new__(cls)
    made.family = family
    return made


def head(name, count):
    """An index over heads, to be summed over with ``over``."""
    index = Index(name, count)
    _refuse_reserved(index)
    return index


def _refuse_reserved(index):
    """An index that the checker made for itself is not for use elsewhere."""
    if isinstance(index, Index) and (sums.is_fresh(index) or str(index.args[0]) in (_ROW, _COLUMN)):
        raise ProofError(
            "this index has a meaning inside one index form or one sum only; make one with head"
        )


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


def ones(rows, columns=1):
    """The matrix of ones."""
    return Expression(ONES, shape=(rows, columns))


def zeros(rows, columns=1):
    """The matrix of zeros."""
    return Expression(ZEROS, shape=(rows, columns))


def identity(n):
    """The identity matrix."""
    return Expression(IDENTITY, shape=(n, n))


def causal(n):
    """The causal mask: 1 where the column does not come after the row."""
    return Expression(CAUSAL, shape=(n, n))


def position_numbers(n):
    """The column (1, 2, …, n)."""
    return Expression(POSITIONS, shape=(n, 1))


# ── Operations on expressions ─────────────────────────────────────────────────────────────


def product(*factors):
    """The matrix product; neighbouring shapes must conform."""
    for a, b in zip(factors, factors[1:]):
        if a.shape[1] != b.shape[0]:
            raise ProofError(f"shapes do not conform: {_shape(a)} @ {_shape(b)}")
    flat = [y for x in factors for y in (x.args if x.operation is PRODUCT_OF else [x])]
    return Expression(PRODUCT_OF, flat, shape=(factors[0].shape[0], factors[-1].shape[1]))


def plus(*terms):
    """The sum of matrices of one shape."""
    for x in terms[1:]:
        if x.shape != terms[0].shape:
            raise ProofError(f"shapes do not agree: {_shape(terms[0])} + {_shape(x)}")
    return Expression(
        SUM_OF, [y for x in terms for y in (x.args if x.operation is SUM_OF else [x])]
    )


def scaled(scalar, x):
    """A scalar times a matrix."""
    return Expression(SCALED, [expression(x, "*")], [exact(scalar)])


def hadamard(a, b):
    """The entrywise product."""
    a, b = expression(a, "⊙"), expression(b, "⊙")
    if a.shape != b.shape:
        raise ProofError(f"shapes do not agree: {_shape(a)} ⊙ {_shape(b)}")
    return Expression(HADAMARD, [a, b])


def diag(v):
    """The diagonal matrix of a column."""
    if expression(v, "diag").shape[1] != 1:
        raise ProofError(f"diag takes a column, not a matrix of shape {_shape(v)}")
    return Expression(DIAG, [v], shape=(v.shape[0], v.shape[0]))


def stack(first, second):
    """The rows of ``first`` above the rows of ``second``."""
    if expression(first, "stack").shape[1] != expression(second, "stack").shape[1]:
        raise ProofError(f"shapes cannot be stacked: {_shape(first)} over {_shape(second)}")
    return Expression(
        STACK, [first, second], shape=(join(first.shape[0], second.shape[0]), first.shape[1])
    )


def last_row(x):
    """The last row, of shape 1 × columns."""
    return Expression(LAST_ROW, [x], shape=(1, x.shape[1]))


def over(index, body):
    """The sum of ``body`` over an index made by ``head``, as in multi-head attention."""
    if isinstance(index, sums.End):
        return body
    if not isinstance(index, Index):
        raise ProofError(f"over needs an index made by head(name, count), not {index!r}")
    _refuse_reserved(index)
    return Expression(OVER, [body], [index])


def derivative(x, scalar):
    """The derivative of x along a scalar symbol, at 0; the symbol is bound by it."""
    if not isinstance(scalar, sp.Symbol) or scalar.is_integer or scalar.is_positive:
        raise ProofError(f"a derivative is taken along a real scalar symbol, not {scalar}")
    return Expression(DERIVATIVE, [x], [scalar])


def expectation(x):
    """The mean over the random letters in x."""
    return Expression(EXPECTATION, [x])


def tabulate(body, rows=1, columns=1):
    """The matrix whose entries are written in index form: ``tabulate(lambda i, j: term, n, m)``.

    The terms are built from ``entry_of``, ``exp_of``, ``sums.total`` and arithmetic.
    """
    function = sums.canonically_named(
        abstraction(lambda i, j: _index_form(body(i, j)), rows, columns)
    )
    if sums.free_indices(function):
        raise ProofError(
            "an index form may use the two indices it is given and those of its sums only"
        )
    return Expression(TABULATED, params=[function], shape=(rows, columns))


def _index_form(term):
    """A term that keeps its divisors in sight and holds exact numbers only."""
    term = sp.sympify(term)
    allowed = (sums.Node, Family, Bijection, Tuple, Str, type(S.Naturals))
    for part in sp.preorder_traversal(term):
        if isinstance(part, (sums.Expect, sums.Slope)) or not (
            isinstance(part, allowed) or _is_exact(part)
        ):
            raise ProofError(
                f"an index form takes entries, scalars and exact numbers only, not {part}"
            )
    if any(not p.exp.is_Integer for p in term.atoms(sp.Pow)):
        raise ProofError("an index form takes whole numbers for exponents")
    return term.replace(
        lambda e: e.is_Pow and e.exp.is_Integer and e.exp < 0,
        lambda e: sums.Reciprocal(e.base) ** (-e.exp),
    )


def entry_of(x, i=None, j=None):
    """An entry of an expression, for use in an index form; a missing position is the only one."""
    i = sums.End(x.shape[0]) if i is None else i
    j = sums.End(x.shape[1]) if j is None else j
    return x.entry(i, j)


def exp_of(term):
    """The exponential in an index form."""
    return sums.Exp(sp.sympify(term))


def _shape(x):
    return "(" + ", ".join(show_number(Text(), s) for s in x.shape) + ")"


def generic_positions(shape, split=False):
    """The positions at which an identity of a shape is compared: all cases of a generic entry."""
    rows, columns = (_cases(Index(name, size), split) for name, size in zip((_ROW, _COLUMN), shape))
    return [(i, j) for i in rows for j in columns]


def _cases(position, split):
    size = range_of(position)
    if not split or not isinstance(position, Index) or not isinstance(size, sums.Join):
        return [position]
    inner = [_cases(Index(position.args[0], block), split) for block in size.args]
    return [Part(side, p, size) for side, block in enumerate(inner) for p in block]


_ROW, _COLUMN = "row", "column"


# ── The operations themselves ─────────────────────────────────────────────────────────────


def _show_letter(x, style, show):
    family, *indices = x.params
    name = style.name(family.name)
    if not indices:
        return name, ATOM
    return style.at(name, *[show_term(style, p) for p in indices]), ATOM


def _chain(factors, i, j, unfold):
    """The entry of a product of any number of factors: one sum for each inner axis."""
    if len(factors) == 1:
        return factors[0].entry(i, j, unfold)
    first, *rest = factors
    return total(lambda k: first.entry(i, k, unfold) * _chain(rest, k, j, unfold), first.shape[1])


def _show_product(x, style, show):
    return style.times.join(show(y, PRODUCT) for y in x.args), PRODUCT


def _show_sum(x, style, show):
    return " + ".join(show(y, SUM) for y in x.args).replace("+ " + style.minus, "- "), SUM


def _show_scaled(x, style, show):
    if x.params[0] == -1:
        return style.minus + show(x.args[0], PRODUCT), SIGNED
    scalar = show_number(style, x.params[0])
    if x.params[0].is_Add:
        scalar = style.brackets(scalar)
    return scalar + style.times + show(x.args[0], PRODUCT), SIGNED if scalar.startswith(
        "-"
    ) else PRODUCT


def _show_function(name):
    return lambda x, style, show: (style.call(name, *map(show, x.args)), ATOM)


def _over_entry(x, i, j, unfold):
    k = fresh(range_of(x.params[0]))
    return Sigma(x.args[0].entry(i, j, unfold).xreplace({x.params[0]: k}), k)


def _run_over(x, sample):
    index = x.params[0]
    values = [x.args[0].run(sample.fixing({index: k})) for k in range(sample.size(range_of(index)))]
    return sum(values[1:], values[0])


def _show_over(x, style, show):
    index = x.params[0]
    size = show_number(style, range_of(index))
    return style.sum_over(style.name(index.args[0].name), size, show(x.args[0], PRODUCT)), PRODUCT


def _derivative_entry(x, i, j, unfold):
    term, scalar = x.args[0].entry(i, j, unfold), x.params[0]
    if any(scalar in opaque.free_symbols for opaque in term.atoms(Opaque, sums.Apply, sums.Slope)):
        return sums.Slope(term, scalar)
    return sp.diff(term, scalar).doit(deep=False).xreplace({scalar: S.Zero})


def _run_derivative(x, sample):
    """A central difference of fourth order: an alarm, not a measurement."""
    step = 1e-3
    f = {c: x.args[0].run(sample.fixing({x.params[0]: c * step})) for c in (-2, -1, 1, 2)}
    return (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * step)


def _show_derivative(x, style, show):
    return style.derivative(show_number(style, x.params[0]), show(x.args[0], PRODUCT)), PRODUCT


def _show_tabulated(x, style, show):
    function = x.params[0]
    body, *indices = function.args
    letters = {k: letter for k, letter in zip(indices, "ij") if isinstance(k, Index)}
    return style.tabulated(
        show_term(style, body, letters), list(letters.values())
    ), ATOM if letters else SUM


LETTER = Operation(
    "letter",
    entry=lambda x, i, j, unfold: Entry(x.params[0], *x.params[1:], i, j),
    run=lambda x, sample: sample.family(x.params[0])[
        tuple(sample.position(p) for p in x.params[1:])
    ],
    show=_show_letter,
)
TERM = Operation(
    "term",
    entry=lambda x, i, j, unfold: Entry(x.params[0], number(x.params[1]), j),
    run=lambda x, sample: sample.family(x.params[0])[sample.size(x.params[1]) - 1].unsqueeze(0),
    show=lambda x, style, show: (
        style.at(style.name(x.params[0].name), show_number(style, x.params[1])),
        ATOM,
    ),
)
PREFIX = Operation(
    "prefix",
    entry=lambda x, i, j, unfold: Entry(x.params[0], sums.value(i), j),
    run=lambda x, sample: sample.family(x.params[0])[: sample.size(x.shape[0])],
    show=lambda x, style, show: (
        style.at(style.name(x.params[0].name), "1:" + show_number(style, x.shape[0])), ATOM),
)  # fmt: skip
PERMUTATION = Operation(
    "permutation",
    entry=lambda x, i, j, unfold: Delta(moved(x.params[0], i), j),
    run=lambda x, sample: sample.permutation(x.params[0]),
    show=lambda x, style, show: (style.name(x.params[0].name), ATOM),
)
ONES = Operation(
    "ones",
    entry=lambda x, i, j, unfold: S.One,
    run=lambda x, sample: torch.ones(sample.shape(x), dtype=torch.float64),
    show=lambda x, style, show: (style.ones(*x.shape), ATOM),
)
ZEROS = Operation(
    "zeros",
    entry=lambda x, i, j, unfold: S.Zero,
    run=lambda x, sample: torch.zeros(sample.shape(x), dtype=torch.float64),
    show=lambda x, style, show: ("0", ATOM),
)
IDENTITY = Operation(
    "identity",
    entry=lambda x, i, j, unfold: Delta(i, j),
    run=lambda x, sample: torch.eye(*sample.shape(x), dtype=torch.float64),
    show=lambda x, style, show: ("I", ATOM),
)
CAUSAL = Operation(
    "causal",
    entry=lambda x, i, j, unfold: AtMost(j, i),
    run=lambda x, sample: torch.ones(sample.shape(x), dtype=torch.float64).tril(),
    show=lambda x, style, show: (style.name("L"), ATOM),
)
POSITIONS = Operation(
    "positions",
    entry=lambda x, i, j, unfold: sums.value(i),
    run=lambda x, sample: torch.arange(1, sample.shape(x)[0] + 1, dtype=torch.float64).unsqueeze(1),
    show=lambda x, style, show: (
        r"(1,2,\dots," + show_number(style, x.shape[0]) + r")^{\top}" if isinstance(style, Latex)
        else f"(1,…,{x.shape[0]})ᵀ", ATOM),
)  # fmt: skip
PRODUCT_OF = Operation(
    "product",
    entry=lambda x, i, j, unfold: _chain(x.args, i, j, unfold),
    run=lambda x, sample: torch.linalg.multi_dot([y.run(sample) for y in x.args]),
    show=_show_product,
)
SUM_OF = Operation(
    "sum",
    entry=lambda x, i, j, unfold: Add(*[y.entry(i, j, unfold) for y in x.args]),
    run=lambda x, sample: torch.stack([y.run(sample) for y in x.args]).sum(0),
    show=_show_sum,
)
SCALED = Operation(
    "scaled",
    entry=lambda x, i, j, unfold: x.params[0] * x.args[0].entry(i, j, unfold),
    run=lambda x, sample: sample.scalar(x.params[0]) * x.args[0].run(sample),
    show=_show_scaled,
    needs=lambda x: [NonZero(scaled(p.base, ones(1, 1)))
                     for p in x.params[0].atoms(sp.Pow) if p.exp.could_extract_minus_sign()],
)  # fmt: skip
TRANSPOSE = Operation(
    "transpose",
    entry=lambda x, i, j, unfold: x.args[0].entry(j, i, unfold),
    run=lambda x, sample: x.args[0].run(sample).T,
    show=lambda x, style, show: (style.transposed(show(x.args[0], POWER + 1)), POWER),
)
HADAMARD = Operation(
    "hadamard",
    entry=lambda x, i, j, unfold: x.args[0].entry(i, j, unfold) * x.args[1].entry(i, j, unfold),
    run=lambda x, sample: x.args[0].run(sample) * x.args[1].run(sample),
    show=lambda x, style, show: (style.hadamard.join(show(y, POWER) for y in x.args), SIGNED),
)
DIAG = Operation(
    "diag",
    entry=lambda x, i, j, unfold: Delta(i, j) * x.args[0].entry(i, sums.End(S.One), unfold),
    run=lambda x, sample: torch.diag(x.args[0].run(sample)[:, 0]),
    show=_show_function("diag"),
)
STACK = Operation(
    "stack",
    entry=lambda x, i, j, unfold: Cases(
        i, *[abstraction(lambda p, y=y: y.entry(p, j, unfold), y.shape[0]) for y in x.args]),
    run=lambda x, sample: torch.cat([y.run(sample) for y in x.args]),
    show=lambda x, style, show: (style.stacked(*map(show, x.args)), ATOM),
)  # fmt: skip
LAST_ROW = Operation(
    "last row",
    entry=lambda x, i, j, unfold: x.args[0].entry(sums.End(x.args[0].shape[0]), j, unfold),
    run=lambda x, sample: x.args[0].run(sample)[-1:],
    show=_show_function("last"),
)
OVER = Operation("over", entry=_over_entry, run=_run_over, show=_show_over)
DERIVATIVE = Operation(
    "derivative", entry=_derivative_entry, run=_run_derivative, show=_show_derivative
)
EXPECTATION = Operation(
    "expectation",
    entry=lambda x, i, j, unfold: sums.Expect(x.args[0].entry(i, j, unfold)),
    run=lambda x, sample: sample.expectation(x.args[0]),
    show=_show_function("E"),
)
TABULATED = Operation(
    "index form",
    entry=lambda x, i, j, unfold: applied(x.params[0], i, j),
    run=lambda x, sample: sample.table(x),
    show=_show_tabulated,
)
