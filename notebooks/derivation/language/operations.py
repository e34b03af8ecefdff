"""The operations that expressions are made of: each has an entry, torch code and a printed form.

An operation holds all that the checker needs for its expressions.  Proofs are about its entry, a
term of the kernel; its torch code is run for every line.
"""

import weakref
from dataclasses import dataclass
from typing import Any, Callable

import sympy as sp
from sympy import S

from .. import kernel as k
from ..kernel import ONE, ONLY, ZERO, Term, abstract, must
from ..printing import ATOM, POWER, PRODUCT, SIGNED, SUM, beside, show_table
from .index_forms import Table
from .letters import (Bijection, End, Family, Index, Join, as_size, conform, kernel_letter,
                      scalar_letter, scalar_term, show_number, size_term)  # fmt: skip


def never(*_):
    """For what an operation that stands in a proof for a moment does not do."""
    raise NotImplementedError


class _LazyTorch:
    """torch, imported when an operation first runs, so that the package works without it."""

    def __getattr__(self, name):
        import torch

        return getattr(torch, name)


torch = _LazyTorch()


class NotRun(Exception):
    """No sample could be made; the message says why."""


_complete: list = []  # not empty once all of the book's own operations exist
_known: weakref.WeakSet = weakref.WeakSet()


def complete() -> None:
    """From now on, allow only ``define``, ``recursion`` and ``entrywise`` to make operations."""
    _complete.append(True)


def known(operation):
    """Register an operation as one of the checker's, and return it."""
    _known.add(operation)
    return operation


def demand_known(operation):
    """Raise TypeError for an operation that is not the checker's."""
    if operation not in _known:
        raise TypeError("Operation has no subclasses, which could print anything; use define")


#: The words for the classes of parameters.
_NOUNS = {Bijection: "a permutation", Index: "an index made by head(name, count)", Table: "a table",
          sp.Expr: "a scalar", sp.Symbol: "a scalar symbol"}  # fmt: skip


# The shape of a result: ``axes(args, params, wanted)`` returns the two sizes or raises ProofError;
# ``wanted`` are the sizes that the caller requests where the arguments do not determine them.


def of_one(args, params, wanted):
    """The shape of an operation with one argument: that of the argument."""
    return args[0].axes


def as_wanted(args, params, wanted):
    """The shape that the caller requests."""
    must(wanted, "this matrix takes two sizes")
    return wanted


def alike(sign):
    """Make the ``axes`` of an operation on expressions of one shape, such as a sum."""

    def axes(args, params=(), wanted=None):
        first, *rest = (x.axes for x in args)
        for other in rest:
            conform(first, other, "shapes do not agree: {} {} {}", first, sign, other)
        return first

    return axes


def of_product(args, params, wanted):
    must(len(args) > 1, "a product takes two or more factors")
    for a, b in zip(args, args[1:]):
        conform(a.axes[1:], b.axes, "shapes do not conform: {} @ {}", a.axes, b.axes)
    return args[0].axes[0], args[-1].axes[1]


def of_stack(args, params, wanted):
    first, second = (x.axes for x in args)
    conform(first[1:], second[1:], "shapes cannot be stacked: {} over {}", first, second)
    return Join(first[0], second[0]), first[1]


def of_diag(args, params, wanted):
    rows, columns = args[0].axes
    conform([columns], [S.One], "diag takes a column, not a matrix of shape {}", (rows, columns))
    return rows, rows


def square(args, params, wanted):
    rows, columns = as_wanted(args, params, wanted)
    conform([rows], [columns], "this matrix is square, not of shape {}", wanted)
    return wanted


def of_letter(args, params, wanted):
    family, *heads = params
    letter = type(family) is Family and family.kind != "sequence" and not args
    must(letter, "a letter takes a family of matrices and no expression, not {}", [*args, family])
    counts, wants = family.sizes[:-2], f"{family.name} takes indices made by head(name, count)"
    fits = all(type(a) in (Index, End) for a in heads) and len(heads) == len(counts)
    must(fits, "{}, {} of them, not {}", wants, len(counts), heads or "nothing")
    conform(counts, [a.size for a in heads], "{} with its own counts, not {}", wants, heads)
    return family.sizes[-2:]


def of_sequence(args, params, wanted):
    """The shape of one row, if a parameter gives its place; else of the first ``wanted`` rows."""
    family, *at = params
    rows = type(family) is Family and family.kind == "sequence" and not args
    some = len(at) == 1 or wanted and not at
    must(rows and some, "rows are those of a sequence, not {}", params)
    if not at:
        return wanted[0], family.sizes[1]
    as_size(at[0])
    return 1, family.sizes[1]


@dataclass(frozen=True, eq=False)
class Operation:
    """One kind of expression.

    ``takes`` are the number of its expressions (None: at least one) and the classes of its
    parameters; None leaves both to ``axes(args, params, wanted)``, which returns the two sizes or
    raises ProofError.  ``entry(x, i, j)`` is the entry of the expression x at two
    positions, a term of the kernel; ``run(x, sample)`` is its value as a float64 tensor;
    ``show(x, style, show)`` is its text and how tightly that binds; ``needs(x)`` are the
    expressions that must not vanish, in a reader's words.  An operation with a ``word``, which its
    user calls, is opaque until a line names its definition; ``expand`` is its body if it is an
    abbreviation.
    """

    name: str
    entry: Callable
    run: Callable
    show: Callable
    axes: Callable = of_one
    takes: tuple | None = (1,)
    needs: Callable = lambda x: ()
    expand: Callable | None = None
    word: Any = None

    def __post_init__(self):
        if not _complete:
            _known.add(self)

    def check(self, args, params):
        """Refuse operands that the operation does not take."""
        if self.takes is not None:
            count, *kinds = self.takes
            fits = len(args) == count if count is not None else args
            fits = fits and len(params) == len(kinds) and all(map(isinstance, params, kinds))
            noun = {0: "no expression", 1: "1 expression", None: "expressions"}
            named = [noun.get(count, f"{count} expressions"), *map(_NOUNS.__getitem__, kinds)]
            must(fits, "{} takes {} and nothing else", self.name, " and ".join(named))

    def atoms(self, kind):
        """For `Table.atoms`: {self} if this operation is of the given kind, else an empty set."""
        return {self} if isinstance(self, kind) else set()


_last = lambda x: ONLY if x.axes[0] == 1 else Term("last", size_term(x.axes[0]))


def _block(x, j):
    mark = k.fresh(k.pos(size_term(x.axes[0])))
    return abstract([mark], x.entry(mark, j))


def _show_letter(x, style, show):
    family, *indices = x.params
    places = [show_number(style, p.size) if type(p) is End else style.name(p.name) for p in indices]
    name = style.name(family.name)
    return (style.at(name, *places) if places else name), ATOM


def _product_entry(x, i, j):
    """The entry of a product: a sum of products, with one sum for each inner axis."""
    inner = [y.axes[0] for y in x.args[1:]]
    marks = [ONLY if s == 1 else k.fresh(k.pos(size_term(s))) for s in inner]
    factors = [y.entry(p, q) for y, p, q in zip(x.args, (i, *marks), (*marks, j))]
    for mark in reversed(marks):
        *factors, first, second = factors
        body = Term("mul", first, second)
        factors.append(body if mark is ONLY else Term("sum", abstract([mark], body)))
    return factors[0]


def factor_tightness(x):
    """How tightly a factor must bind: a factor that is a product gets brackets."""
    return POWER if x.operation is PRODUCT_OF else PRODUCT


def _show_addition(x, style, show):
    return " + ".join(show(y, SUM) for y in x.args).replace("+ " + style.minus, "- "), SUM


def _show_transpose(x, style, show):
    if x.args[0].operation is ONES and 1 not in x.axes:
        return style.ones(*x.axes), POWER
    return style.transposed(show(x.args[0], POWER + 1)), POWER


def _show_scaled(x, style, show):
    if x.params[0] == -1:
        return style.minus + show(x.args[0], PRODUCT), SIGNED
    if x.params[0] in (0, 1):  # beside a matrix, 0 and 1 could denote columns of zeros or ones
        return ("" if x.params[0] else style.zero_times) + show(x.args[0], PRODUCT), PRODUCT
    scalar = show_number(style, x.params[0])
    if x.args[0].operation is ONES and x.axes == (1, 1):
        return scalar, SUM if x.params[0].is_Add else SIGNED
    negative = scalar.startswith("-") and not x.params[0].is_Add
    sign, scalar = ("-", scalar[1:]) if negative else ("", scalar)
    if x.params[0].is_Add or "/" in scalar:  # 1/d A might be read as 1/(d A)
        scalar = style.brackets(scalar)
    return sign + beside(style, [scalar, show(x.args[0], PRODUCT)]), SIGNED if sign else PRODUCT


_show_function = lambda name: lambda x, style, show: (style.call(name, *map(show, x.args)), ATOM)


def _run_over(x, sample):
    index = x.params[0]
    values = [x.args[0].run(sample.fixing({index: k})) for k in range(sample.size(index.size))]
    return sum(values[1:], values[0])


def _show_over(x, style, show):
    index = x.params[0]
    size = show_number(style, index.size)
    return style.sum_over(style.name(index.name), size, show(x.args[0], PRODUCT)), PRODUCT


def _mean_entry(x, i, j):
    body = x.args[0].entry(i, j)
    draws = sorted((y for y in body.letters if y.args[1].op == "DRAW"), key=lambda y: y.key)
    return Term("mean", abstract(draws, body)) if draws else body


_row_of = lambda sequence, t, j: Term("app", sequence.term, t, j)
_show_rows = lambda x, style, at: (style.at(style.name(x.params[0].name), at), ATOM)


def _run_derivative(x, sample):
    """The derivative by fourth-order central differences, with the most stable of several steps."""

    def difference(step):
        f = {c: x.args[0].run(sample.fixing({x.params[0]: c * step})) for c in (-2, -1, 1, 2)}
        return (8 * (f[1] - f[-1]) - (f[2] - f[-2])) / (12 * step)

    found = [difference(10.0**-k) for k in range(2, 8)]
    changes = [(b - a).abs().max().item() for a, b in zip(found, found[1:])]
    return found[1 + min(range(5), key=changes.__getitem__)]


def _show_sized(x, style, show):
    """Print an expression without letters together with the sizes that nothing else shows."""
    x, said = x.args[0], x.params
    sizes = [show_number(style, s) if axis in said else "" for axis, s in enumerate(x.axes)]
    if x.operation is ONES and x.axes != (1, 1):
        return style.ones(*x.axes, sizes), ATOM if 1 in x.axes else PRODUCT
    if x.operation is TABULATED:
        return show_table(style, x.params[0].function, sizes)
    both = x.operation is ZEROS
    told = (
        style.cross.join([show_number(style, s) for s in x.axes]) if both else sizes[0] or sizes[1]
    )
    return style.at(show(x), told), ATOM


def _show_positions(x, style, show):
    if x.axes[0] == 1:
        return style.one_position, ATOM
    return style.positions(show_number(style, x.axes[0])), POWER


LETTER = Operation("letter", takes=None, axes=of_letter,
    entry=lambda x, i, j: Term("app", x.params[0].term, *[p.term for p in x.params[1:]], i, j),
    run=lambda x, sample: sample.family(x.params[0])[tuple(map(sample.position, x.params[1:]))],
    show=_show_letter)  # fmt: skip
TERM = Operation("term", takes=None, axes=of_sequence,
    entry=lambda x, i, j: _row_of(x.params[0], scalar_term(x.params[1]), j),
    run=lambda x, sample: sample.family(x.params[0])[sample.size(x.params[1]) - 1].unsqueeze(0),
    show=lambda x, style, show: _show_rows(x, style, show_number(style, x.params[1])))  # fmt: skip
PREFIX = Operation("prefix", takes=None, axes=of_sequence,
    entry=lambda x, i, j: _row_of(x.params[0], Term("place", i), j),
    run=lambda x, sample: sample.terms(x.params[0], sample.size(x.axes[0])),
    show=lambda x, style, show: _show_rows(x, style, "1:" + show_number(style, x.axes[0])))  # fmt: skip
PERMUTATION = Operation("permutation", takes=(0, Bijection),
    axes=lambda args, params, wanted: (params[0].size, params[0].size),
    entry=lambda x, i, j: Term("delta", Term("move", x.params[0].term, 1, i), j),
    run=lambda x, sample: sample.permutation(x.params[0]),
    show=lambda x, style, show: (style.name(x.params[0].name), ATOM))  # fmt: skip
ONES = Operation("ones", takes=(0,), axes=as_wanted,
    entry=lambda x, i, j: ONE,
    run=lambda x, sample: torch.ones(sample.shape(x), dtype=torch.float64),
    show=lambda x, style, show: (style.ones(*x.axes), POWER if x.axes[0] == 1 else ATOM))  # fmt: skip
ZEROS = Operation("zeros", takes=(0,), axes=as_wanted,
    entry=lambda x, i, j: ZERO,
    run=lambda x, sample: torch.zeros(sample.shape(x), dtype=torch.float64),
    show=lambda x, style, show: ("0", ATOM))  # fmt: skip
IDENTITY = Operation("identity", takes=(0,), axes=square,
    entry=lambda x, i, j: Term("delta", i, j),
    run=lambda x, sample: torch.eye(*sample.shape(x), dtype=torch.float64),
    show=lambda x, style, show: ("I", ATOM))  # fmt: skip
CAUSAL = Operation("causal", takes=(0,), axes=square,
    entry=lambda x, i, j: Term("le", j, i),
    run=lambda x, sample: torch.ones(sample.shape(x), dtype=torch.float64).tril(),
    show=lambda x, style, show: (style.name("L"), ATOM))  # fmt: skip
POSITIONS = Operation("positions", takes=(0,), axes=lambda *given: (as_wanted(*given)[0], 1),
    entry=lambda x, i, j: Term("place", i),
    run=lambda x, sample: torch.arange(1, sample.shape(x)[0] + 1, dtype=torch.float64).unsqueeze(1),
    show=_show_positions)  # fmt: skip
PRODUCT_OF = Operation("product", takes=(None,), axes=of_product, entry=_product_entry,
    run=lambda x, sample: torch.linalg.multi_dot([y.run(sample) for y in x.args]),
    show=lambda x, style, show: (
        beside(style, [show(y, factor_tightness(y)) for y in x.args]), PRODUCT))  # fmt: skip
SUM_OF = Operation("sum", takes=(None,), axes=alike("+"),
    entry=lambda x, i, j: Term("add", *[y.entry(i, j) for y in x.args]),
    run=lambda x, sample: torch.stack([y.run(sample) for y in x.args]).sum(0),
    show=_show_addition)  # fmt: skip
SCALED = Operation("scaled", takes=(1, sp.Expr),
    entry=lambda x, i, j: Term("mul", scalar_term(x.params[0]), x.args[0].entry(i, j)),
    run=lambda x, sample: sample.scalar(x.params[0]) * x.args[0].run(sample), show=_show_scaled,
    needs=lambda x: [x.number(p.base) for p in x.params[0].atoms(sp.Pow)
                     if p.exp.could_extract_minus_sign()])  # fmt: skip
TRANSPOSE = Operation("transpose", axes=lambda args, params, wanted: args[0].axes[::-1],
    entry=lambda x, i, j: x.args[0].entry(j, i),
    run=lambda x, sample: x.args[0].run(sample).T, show=_show_transpose)  # fmt: skip
HADAMARD = Operation("hadamard", takes=(2,), axes=alike("⊙"),
    entry=lambda x, i, j: Term("mul", *[y.entry(i, j) for y in x.args]),
    run=lambda x, sample: x.args[0].run(sample) * x.args[1].run(sample),
    show=lambda x, style, show: (style.hadamard.join(show(y, POWER) for y in x.args), SIGNED))  # fmt: skip
DIAG = Operation("diag", axes=of_diag,
    entry=lambda x, i, j: Term("mul", Term("delta", i, j), x.args[0].entry(i, ONLY)),
    run=lambda x, sample: torch.diag(x.args[0].run(sample)[:, 0]),
    show=_show_function("diag"))  # fmt: skip
STACK = Operation("stack", takes=(2,), axes=of_stack,
    entry=lambda x, i, j: Term("case", i, *[_block(y, j) for y in x.args]),
    run=lambda x, sample: torch.cat([y.run(sample) for y in x.args]),
    show=lambda x, style, show: (style.stacked(*map(show, x.args)), ATOM))  # fmt: skip
LAST_ROW = Operation("last row", axes=lambda args, params, wanted: (1, args[0].axes[1]),
    entry=lambda x, i, j: x.args[0].entry(_last(x.args[0]), j),
    run=lambda x, sample: x.args[0].run(sample)[-1:], show=_show_function("last"))  # fmt: skip
OVER = Operation("over", takes=(1, Index),
    entry=lambda x, i, j: Term("sum", abstract([x.params[0].term], x.args[0].entry(i, j))),
    run=_run_over, show=_show_over)  # fmt: skip
DERIVATIVE = Operation("derivative", takes=(1, sp.Symbol),
    entry=lambda x, i, j: Term(
        "deriv", abstract([scalar_letter(x.params[0])], x.args[0].entry(i, j)), ZERO),
    run=_run_derivative, show=lambda x, style, show: (
        style.derivative(show_number(style, x.params[0]), show(x.args[0], PRODUCT)), PRODUCT))  # fmt: skip
EXPECTATION = Operation("expectation", entry=_mean_entry,
    run=lambda x, sample: sample.expectation(x.args[0]), show=_show_function("E"))  # fmt: skip
TABULATED = Operation("index form", takes=(0, Table),
    axes=lambda args, params, wanted: params[0].axes,
    entry=lambda x, i, j: k.opened(x.params[0].function, i, j),
    run=lambda x, sample: sample.table(x),
    show=lambda x, style, show: show_table(style, x.params[0].function))  # fmt: skip
SIZED = Operation("sized", takes=None, axes=of_one,
    entry=lambda x, i, j: x.args[0].entry(i, j),
    run=lambda x, sample: x.args[0].run(sample), show=_show_sized)  # fmt: skip
#: Marks where one side of an equation is replaced by the other; it is neither run nor printed.
HOLE = Operation("hole", takes=None, run=never, show=never,
    axes=lambda args, params, wanted: params[0].sizes[-2:],
    entry=lambda x, i, j: Term("app", x.params[0].term, *map(kernel_letter, x.params[1:]), i, j))  # fmt: skip
