"""Expressions of symbolic shape: matrices, and how their entries are made.

An expression is an operation applied to expressions.  The operation carries all there is to
know about it: its shape rule, its entry as a term of the kernel (what is proved is about that),
its torch code (what the alarm runs) and how it prints.  Tokens are rows.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Callable

import sympy as sp
from sympy import S

from .index_forms import Number, tabled
from .kernel import terms as k
from .kernel.sorts import range_of
from .kernel.terms import ONE, ONLY, ZERO, ProofError, Term, abstract
from .letters import (
    Bijection,
    End,
    Family,
    Index,
    Join,
    as_size,
    exact,
    scalar_letter,
    scalar_term,
    size_term,
)
from .notation import show_place, show_table
from .printing import (
    ATOM,
    POWER,
    PRODUCT,
    SIGNED,
    SUM,
    Latex,
    Text,
    beside,
    show_number,
)  # fmt: skip


class _LazyTorch:
    """torch, imported when an operation first runs: the package works without it."""

    def __getattr__(self, name):
        import torch

        return getattr(torch, name)


torch = _LazyTorch()


@dataclass(frozen=True)
class NonZero:
    """How a reader says that every entry of ``expression`` is non-zero (or positive), for every ``bound``."""

    expression: "Expression"
    positive: bool = False
    bound: tuple = ()

    def sides(self):
        """The expressions it speaks of."""
        return [self.expression]

    def quantified(self, binder):
        """The same for every value of an index or scalar that was bound around it."""
        names = self.expression.free_positions() | self.expression.free_scalars()
        if binder not in names or binder in self.bound:
            return self
        return NonZero(self.expression, self.positive, (*self.bound, binder))

    def substituted(self, substitution):
        """The same for what a substitution puts for the letters."""
        bound = []
        for binder in self.bound:
            binder, substitution = substitution.bind(binder, free_names(self.expression))
            bound += [] if isinstance(binder, End) else [binder]
        return NonZero(substitution(self.expression), self.positive, tuple(bound))

    def met_in(self, sample):
        """Whether it holds in a sample, by a margin."""
        places = [range(sample.size(b.size)) if isinstance(b, Index) else (0,) for b in self.bound]
        for at in itertools.product(*places):
            value = self.expression.run(sample.fixing(dict(zip(self.bound, at))))
            if not (value if self.positive else value.abs()).min().item() > 1e-3:
                return False
        return True

    def show(self, style, names=None):
        """The hypothesis in print."""
        x, every = self.expression, ""
        for binder in self.bound:
            every += style.text(" for every " if not every else ", ") + style.name(binder.name)
        if not self.positive and x.operation is PRODUCT_OF and x.args[-1].operation is ONES:
            rows = product(*x.args[:-1]) if len(x.args) > 2 else x.args[0]
            shown = rows.show(style, SUM, names)
            return style.text("no row of ") + shown + style.text(" sums to zero") + every
        relation = style.greater if self.positive else style.unequal
        each = "" if x.shape == (1, 1) else style.text("each entry of ")
        return each + x.show(style, SUM, names) + relation + "0" + every


@dataclass(frozen=True, eq=False)
class Operation:
    """One kind of expression.

    ``entry(x, i, j)`` is the entry of the expression x at two positions, a term of the kernel;
    ``run(x, sample)`` its value as a float64 tensor; ``show(x, style, show)`` its print and
    how tightly that holds together; ``needs(x)`` how the reader would say what must not vanish.
    An operation of a ``word``, which is what its user calls, is opaque until a line names its
    definition; ``build`` makes an expression of it from arguments and parameters, ``expand`` is
    its body where it abbreviates.
    """

    name: str
    entry: Callable
    run: Callable
    show: Callable
    needs: Callable = lambda x: ()
    build: Callable | None = None
    expand: Callable | None = None
    word: object = None

    @property
    def defined(self):
        """Whether it has a definition that a line can name."""
        return self.word is not None


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

    # What a matrix of numbers would take, and an expression does not: they say what to write.
    def __pow__(self, exponent):
        raise ProofError("an expression takes no power: write A @ A, A * A, or an index form")

    def __rtruediv__(self, other):
        raise ProofError("nothing is divided by an expression: write an index form, see tabulate")

    def __getitem__(self, at):
        raise ProofError("an expression is not indexed: an index form takes entry_of(A, i, j)")

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

    def entry(self, i, j):
        """The entry at two positions, a term of the kernel."""
        return self.operation.entry(self, i, j)

    @property
    def function(self):
        """The expression as the kernel's function of two positions."""
        return _function(self)

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
        """The indices, such as a head's, free or bound."""
        return self.atoms(Index)

    def free_positions(self):
        """The indices that nothing binds."""
        found = set().union(*[x.free_positions() for x in self.args], set())
        for basic in self.params:
            found |= basic.atoms(Index)
        return found - {self.params[0]} if self.operation is OVER else found

    # -- print

    def show(self, style, tightness=0, names=None):
        """The expression in a style; ``names`` maps sub-expressions to names given to them."""
        names = names or {}
        if self in names:
            indices = [style.name(k.name) for k in sorted(self.free_positions(), key=str)]
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


@functools.lru_cache(maxsize=None)
def _function(x):
    marks = [k.fresh(k.pos(size_term(s))) for s in x.shape]
    return abstract(marks, x.entry(*marks))


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


# ── Letters ───────────────────────────────────────────────────────────────────────────────


def sizes(names):
    """Symbolic sizes, each at least 1: ``n, d = sizes("n d")``."""
    return sp.symbols(names, integer=True, positive=True)


def join(first, second):
    """The size of a first block followed by a second one."""
    return Join(first, second)


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
    flat = [y for x in terms for y in (x.args if x.operation is SUM_OF else [x])]
    return flat[0] if len(flat) == 1 else Expression(SUM_OF, flat)


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
    if isinstance(index, End):
        return body
    if not isinstance(index, Index):
        raise ProofError(f"over needs an index made by head(name, count), not {index!r}")
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

    The terms are built from ``entry_of``, ``exp_of``, ``root_of``, ``total`` and arithmetic.
    """
    return Expression(TABULATED, params=[tabled(body, (rows, columns))], shape=(rows, columns))


def entry_of(x, i=None, j=None):
    """An entry of an expression, for use in an index form; a missing position is the only one."""
    at = [_last(size) if p is None else p.place for p, size in zip((i, j), x.shape)]
    for position, size in zip(at, x.shape):
        k.need(
            range_of(position) == size_term(size),
            "an axis of {} has no such position: it is one of another range",
            size,
        )
    return Number(x.entry(*at), frozenset(free_names(x)))


def _last(size):
    return ONLY if size == 1 else Term("last", size_term(size))


def _shape(x):
    return "(" + ", ".join(show_number(Text(), s) for s in x.shape) + ")"


# ── The operations themselves ─────────────────────────────────────────────────────────────


def _block(x, j):
    mark = k.fresh(k.pos(size_term(x.shape[0])))
    return abstract([mark], x.entry(mark, j))


def _show_letter(x, style, show):
    family, *indices = x.params
    name = style.name(family.name)
    if not indices:
        return name, ATOM
    return style.at(name, *[show_place(style, p) for p in indices]), ATOM


def _product_entry(x, i, j):
    """One sum for each inner axis."""
    inner = [y.shape[0] for y in x.args[1:]]
    marks = [ONLY if s == 1 else k.fresh(k.pos(size_term(s))) for s in inner]
    factors = [y.entry(p, q) for y, p, q in zip(x.args, (i, *marks), (*marks, j))]
    for mark in reversed(marks):
        *factors, first, second = factors
        body = Term("mul", first, second)
        factors.append(body if mark is ONLY else Term("sum", abstract([mark], body)))
    return factors[0]


def _is_ones(x):
    x = x.args[0] if x.operation is SCALED else x
    return ONES in (x.operation, x.args[0].operation if x.operation is TRANSPOSE else None)


def _tells(x, axis):
    """Whether a letter in print tells how many rows (0) or columns (1) there are."""
    if x.operation is TRANSPOSE:
        return _tells(x.args[0], 1 - axis)
    if x.operation is PRODUCT_OF:
        return _tells(x.args[-axis], axis)
    if x.operation is STACK and axis == 0:
        return all(_tells(y, 0) for y in x.args)
    if not x.args:
        return x.operation in (LETTER, TERM, PREFIX, PERMUTATION, POSITIONS)
    return any(_tells(y, k) for y in x.args for k in (0, 1) if y.shape[k] == x.shape[axis])


def sizes_to_tell(x):
    """(k, how many ones) for each row of ones in a product whose length nothing else tells."""
    pairs = enumerate(zip(x.args, x.args[1:]))
    return [(k, y.shape[1]) for k, (y, z) in pairs
            if _is_ones(y) and not _tells(z, 0) and y.shape[1] != 1]  # fmt: skip


def _show_product(x, style, show):
    """A row of ones before what does not tell its number of rows says how long it is."""
    pieces = [show(y, PRODUCT) for y in x.args]
    for at, size in sizes_to_tell(x):
        pieces[at] = style.sized(pieces[at], show_number(style, size))
    return beside(style, pieces), PRODUCT


def _show_sum(x, style, show):
    return " + ".join(show(y, SUM) for y in x.args).replace("+ " + style.minus, "- "), SUM


def _show_scaled(x, style, show):
    if x.params[0] == -1:
        return style.minus + show(x.args[0], PRODUCT), SIGNED
    scalar = show_number(style, x.params[0])
    if x.params[0].is_Add:
        scalar = style.brackets(scalar)
    return beside(style, [scalar, show(x.args[0], PRODUCT)]), SIGNED if scalar.startswith(
        "-"
    ) else PRODUCT


def _show_function(name):
    return lambda x, style, show: (style.call(name, *map(show, x.args)), ATOM)


def _over_entry(x, i, j):
    return Term("sum", abstract([x.params[0].term], x.args[0].entry(i, j)))


def _run_over(x, sample):
    index = x.params[0]
    values = [x.args[0].run(sample.fixing({index: k})) for k in range(sample.size(index.size))]
    return sum(values[1:], values[0])


def _show_over(x, style, show):
    index = x.params[0]
    size = show_number(style, index.size)
    return style.sum_over(style.name(index.name), size, show(x.args[0], PRODUCT)), PRODUCT


def _derivative_entry(x, i, j):
    return Term("deriv", abstract([scalar_letter(x.params[0])], x.args[0].entry(i, j)), ZERO)


def _mean_entry(x, i, j):
    body = x.args[0].entry(i, j)
    draws = sorted((y for y in body.letters if y.args[1].op == "DRAW"), key=lambda y: y.key)
    return Term("mean", abstract(draws, body)) if draws else body


def _row_of(sequence, t, j):
    return Term("app", sequence.term, t, j)


def _run_derivative(x, sample):
    """Central differences of fourth order, of the step where they change least: an alarm only."""

    def difference(step):
        f = {c: x.args[0].run(sample.fixing({x.params[0]: c * step})) for c in (-2, -1, 1, 2)}
        return (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * step)

    found = [difference(10.0**-k) for k in range(2, 8)]
    changes = [(b - a).abs().max().item() for a, b in zip(found, found[1:])]
    return found[1 + min(range(5), key=changes.__getitem__)]


def _show_derivative(x, style, show):
    return style.derivative(show_number(style, x.params[0]), show(x.args[0], PRODUCT)), PRODUCT


def _show_tabulated(x, style, show):
    return show_table(style, x.params[0].function)


LETTER = Operation(
    "letter",
    entry=lambda x, i, j: Term("app", x.params[0].term, *[p.term for p in x.params[1:]], i, j),
    run=lambda x, sample: sample.family(x.params[0])[
        tuple(sample.position(p) for p in x.params[1:])
    ],
    show=_show_letter,
)
TERM = Operation(
    "term",
    entry=lambda x, i, j: _row_of(x.params[0], scalar_term(x.params[1]), j),
    run=lambda x, sample: sample.family(x.params[0])[sample.size(x.params[1]) - 1].unsqueeze(0),
    show=lambda x, style, show: (
        style.at(style.name(x.params[0].name), show_number(style, x.params[1])),
        ATOM,
    ),
)
PREFIX = Operation(
    "prefix",
    entry=lambda x, i, j: _row_of(x.params[0], Term("place", i), j),
    run=lambda x, sample: sample.terms(x.params[0], sample.size(x.shape[0])),
    show=lambda x, style, show: (
        style.at(style.name(x.params[0].name), "1:" + show_number(style, x.shape[0])), ATOM),
)  # fmt: skip
PERMUTATION = Operation(
    "permutation",
    entry=lambda x, i, j: Term("delta", Term("move", x.params[0].term, 1, i), j),
    run=lambda x, sample: sample.permutation(x.params[0]),
    show=lambda x, style, show: (style.name(x.params[0].name), ATOM),
)
ONES = Operation(
    "ones",
    entry=lambda x, i, j: ONE,
    run=lambda x, sample: torch.ones(sample.shape(x), dtype=torch.float64),
    show=lambda x, style, show: (style.ones(*x.shape), ATOM),
)
ZEROS = Operation(
    "zeros",
    entry=lambda x, i, j: ZERO,
    run=lambda x, sample: torch.zeros(sample.shape(x), dtype=torch.float64),
    show=lambda x, style, show: ("0", ATOM),
)
IDENTITY = Operation(
    "identity",
    entry=lambda x, i, j: Term("delta", i, j),
    run=lambda x, sample: torch.eye(*sample.shape(x), dtype=torch.float64),
    show=lambda x, style, show: ("I", ATOM),
)
CAUSAL = Operation(
    "causal",
    entry=lambda x, i, j: Term("le", j, i),
    run=lambda x, sample: torch.ones(sample.shape(x), dtype=torch.float64).tril(),
    show=lambda x, style, show: (style.name("L"), ATOM),
)
POSITIONS = Operation(
    "positions",
    entry=lambda x, i, j: Term("place", i),
    run=lambda x, sample: torch.arange(1, sample.shape(x)[0] + 1, dtype=torch.float64).unsqueeze(1),
    show=lambda x, style, show: (
        r"(1,2,\dots," + show_number(style, x.shape[0]) + r")^{\top}" if isinstance(style, Latex)
        else f"(1,…,{show_number(style, x.shape[0])})ᵀ", ATOM),
)  # fmt: skip
PRODUCT_OF = Operation(
    "product",
    entry=_product_entry,
    run=lambda x, sample: torch.linalg.multi_dot([y.run(sample) for y in x.args]),
    show=_show_product,
)
SUM_OF = Operation(
    "sum",
    entry=lambda x, i, j: Term("add", *[y.entry(i, j) for y in x.args]),
    run=lambda x, sample: torch.stack([y.run(sample) for y in x.args]).sum(0),
    show=_show_sum,
)
SCALED = Operation(
    "scaled",
    entry=lambda x, i, j: Term("mul", scalar_term(x.params[0]), x.args[0].entry(i, j)),
    run=lambda x, sample: sample.scalar(x.params[0]) * x.args[0].run(sample),
    show=_show_scaled,
    needs=lambda x: [NonZero(scaled(p.base, ones(1, 1)))
                     for p in x.params[0].atoms(sp.Pow) if p.exp.could_extract_minus_sign()],
)  # fmt: skip
TRANSPOSE = Operation(
    "transpose",
    entry=lambda x, i, j: x.args[0].entry(j, i),
    run=lambda x, sample: x.args[0].run(sample).T,
    show=lambda x, style, show: (
        style.transposed(show(x.args[0], POWER + 1))
        if x.args[0].operation is not ONES or 1 in x.shape
        else style.ones(*x.shape),
        POWER,
    ),
)
HADAMARD = Operation(
    "hadamard",
    entry=lambda x, i, j: Term("mul", *[y.entry(i, j) for y in x.args]),
    run=lambda x, sample: x.args[0].run(sample) * x.args[1].run(sample),
    show=lambda x, style, show: (style.hadamard.join(show(y, POWER) for y in x.args), SIGNED),
)
DIAG = Operation(
    "diag",
    entry=lambda x, i, j: Term("mul", Term("delta", i, j), x.args[0].entry(i, ONLY)),
    run=lambda x, sample: torch.diag(x.args[0].run(sample)[:, 0]),
    show=_show_function("diag"),
)
STACK = Operation(
    "stack",
    entry=lambda x, i, j: Term("case", i, *[_block(y, j) for y in x.args]),
    run=lambda x, sample: torch.cat([y.run(sample) for y in x.args]),
    show=lambda x, style, show: (style.stacked(*map(show, x.args)), ATOM),
)  # fmt: skip
LAST_ROW = Operation(
    "last row",
    entry=lambda x, i, j: x.args[0].entry(_last(x.args[0].shape[0]), j),
    run=lambda x, sample: x.args[0].run(sample)[-1:],
    show=_show_function("last"),
)
OVER = Operation("over", entry=_over_entry, run=_run_over, show=_show_over)
DERIVATIVE = Operation(
    "derivative", entry=_derivative_entry, run=_run_derivative, show=_show_derivative
)
EXPECTATION = Operation(
    "expectation",
    entry=_mean_entry,
    run=lambda x, sample: sample.expectation(x.args[0]),
    show=_show_function("E"),
)
TABULATED = Operation(
    "index form",
    entry=lambda x, i, j: k.opened(x.params[0].function, i, j),
    run=lambda x, sample: sample.table(x),
    show=_show_tabulated,
)
