"""The shape of an operation's result.

``axes(args, params, wanted)`` returns the two sizes or raises ProofError; ``wanted`` are the sizes
that the caller requests where the arguments do not determine them.
"""

from __future__ import annotations

from sympy import S

from ..kernel import must
from ..printing import Text
from .letters import End, Family, Index, Join, as_size, conform, show_number


def shape_text(axes):
    """A shape in words for a message."""
    return "(" + ", ".join(show_number(Text(), s) for s in axes) + ")"


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
        first, *rest = args
        for x in rest:
            conform(first.axes, x.axes, lambda x=x: (
                f"shapes do not agree: {shape_text(first.axes)} {sign} {shape_text(x.axes)}"))  # fmt: skip
        return first.axes

    return axes


def of_product(args, params, wanted):
    must(len(args) > 1, "a product takes two or more factors")
    for a, b in zip(args, args[1:]):
        conform(a.axes[1:], b.axes, lambda a=a, b=b: (
            f"shapes do not conform: {shape_text(a.axes)} @ {shape_text(b.axes)}"))  # fmt: skip
    return args[0].axes[0], args[-1].axes[1]


def of_stack(args, params, wanted):
    first, second = (x.axes for x in args)
    conform(first[1:], second[1:], lambda: (
        f"shapes cannot be stacked: {shape_text(first)} over {shape_text(second)}"))  # fmt: skip
    return Join(first[0], second[0]), first[1]


def of_diag(args, params, wanted):
    rows, columns = args[0].axes
    conform([columns], [S.One], lambda: (
        f"diag takes a column, not a matrix of shape {shape_text((rows, columns))}"))  # fmt: skip
    return rows, rows


def square(args, params, wanted):
    rows, columns = as_wanted(args, params, wanted)
    conform([rows], [columns], lambda: f"this matrix is square, not of shape {shape_text(wanted)}")
    return wanted


def of_letter(args, params, wanted):
    family, *heads = params
    letter = type(family) is Family and family.kind != "sequence" and not args
    must(letter, "a letter takes a family of matrices and no expression, not {}", [*args, family])
    counts, wants = family.sizes[:-2], f"{family.name} takes indices made by head(name, count)"
    fits = all(type(a) in (Index, End) for a in heads) and len(heads) == len(counts)
    must(fits, "{}, {} of them, not {}", wants, len(counts), heads or "nothing")
    conform(counts, [a.size for a in heads], lambda: f"{wants} with its own counts, not {heads}")
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
