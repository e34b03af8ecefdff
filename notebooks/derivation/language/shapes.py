"""The arguments of each operation, and the shape of its result.

``axes(args, params, wanted)`` returns the two sizes or raises ProofError; ``wanted`` are the sizes
that the caller requests where the arguments do not determine them.
"""

from __future__ import annotations

from sympy import Expr, S

from ..kernel.terms import ProofError
from ..printing.styles import Text
from .index_forms import Table
from .letters import Bijection, End, Family, Index, Join, as_size, conform, show_number, size_of


def shape_text(axes):
    """A shape in words for a message."""
    return "(" + ", ".join(show_number(Text(), s) for s in axes) + ")"


def _demand(fits, what, *found):
    if not fits:
        raise ProofError(f"{what}, not {', '.join(map(repr, found)) or 'nothing'}")


def of_one(args, params, wanted):
    """The axes of an operation with one argument: those of the argument."""
    _demand(
        len(args) == 1 and not params,
        "this operation takes one expression and nothing else",
        *args,
        *params,
    )
    return args[0].axes


def of_scalar(args, params, wanted):
    _demand(
        len(params) == 1 and isinstance(params[0], Expr),
        "a multiple takes one expression and one scalar",
        *params,
    )
    return of_one(args, (), wanted)


def binding(kind, what):
    def axes(args, params, wanted):
        _demand([*map(type, params)] == [kind], what, *params)
        return of_one(args, (), wanted)

    return axes


def alike(sign):
    """Make the ``axes`` of an operation on expressions of one shape, such as a sum."""

    def axes(args, params=(), wanted=None):
        _demand(args and not params, f"{sign} takes expressions and nothing else", *params)
        first, *rest = args
        for x in rest:
            conform(first.axes, x.axes, lambda x=x: (
                f"shapes do not agree: {shape_text(first.axes)} {sign} {shape_text(x.axes)}"))  # fmt: skip
        return first.axes

    return axes


def of_product(args, params, wanted):
    _demand(
        len(args) > 1 and not params,
        "a product takes two or more factors and nothing else",
        *args,
        *params,
    )
    for a, b in zip(args, args[1:]):
        conform(a.axes[1:], b.axes, lambda a=a, b=b: (
            f"shapes do not conform: {shape_text(a.axes)} @ {shape_text(b.axes)}"))  # fmt: skip
    return args[0].axes[0], args[-1].axes[1]


def of_stack(args, params, wanted):
    _demand(
        len(args) == 2 and not params,
        "stack takes two expressions and nothing else",
        *args,
        *params,
    )
    first, second = (x.axes for x in args)
    conform(first[1:], second[1:], lambda: (
        f"shapes cannot be stacked: {shape_text(first)} over {shape_text(second)}"))  # fmt: skip
    return Join(first[0], second[0]), first[1]


def of_diag(args, params, wanted):
    rows, columns = of_one(args, params, wanted)
    conform([columns], [S.One], lambda: (
        f"diag takes a column, not a matrix of shape {shape_text((rows, columns))}"))  # fmt: skip
    return rows, rows


def of_letter(args, params, wanted):
    family, *heads = params
    letter = type(family) is Family and family.kind != "sequence" and not args
    _demand(letter, "a letter takes a family of matrices and no expression", family, *args)
    counts, wants = family.sizes[:-2], f"{family.name} takes indices made by head(name, count)"
    fits = all(type(a) in (Index, End) for a in heads) and len(heads) == len(counts)
    _demand(fits, f"{wants}, {len(counts)} of them", *heads)
    conform(counts, [a.size for a in heads], lambda: f"{wants} with its own counts, not {heads}")
    return family.sizes[-2:]


def of_sequence(args, params, wanted):
    """The axes of one row, if a parameter gives its place; else of the first ``wanted`` rows."""
    family, *at = params
    rows = type(family) is Family and family.kind == "sequence" and not args
    _demand(rows and (len(at) == 1 or wanted and not at), "rows are those of a sequence", *params)
    if not at:
        return wanted[0], family.sizes[1]
    as_size(at[0])
    return 1, family.sizes[1]


def of_permutation(args, params, wanted):
    _demand(
        [*map(type, params)] == [Bijection] and not args,
        "a permutation matrix takes one permutation and nothing else",
        *params,
    )
    return params[0].size, params[0].size


def of_table(args, params, wanted):
    _demand(
        [*map(type, params)] == [Table] and not args,
        "an index form takes one table and nothing else",
        *params,
    )
    return tuple(size_of(s.args[0]) for s in params[0].function.args[1:])


def as_wanted(args, params, wanted):
    told = wanted and len(wanted) == 2 and not args and not params
    _demand(told, "this matrix takes two sizes and nothing else", *args, *params)
    return wanted


def square(args, params, wanted):
    as_wanted(args, params, wanted)
    conform(
        wanted[:1], wanted[1:], lambda: f"this matrix is square, not of shape {shape_text(wanted)}"
    )
    return wanted


def column(args, params, wanted):
    return as_wanted(args, params, wanted)[0], 1
