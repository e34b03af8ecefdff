"""The printed "where" rows: the shape and the kind of each letter.

``softmax(X) = 1`` is true if X has one column and false otherwise, so readers must see the shape.
"""

from __future__ import annotations

import re

import sympy as sp

from .. import kernel as k
from ..printing import Latex
from ..language import Family, kernels_letters, show_number, size_of

#: The largest number of characters in a row, not counting spaces: on a phone, where the word
#: "where" stands beside it, and in a terminal.
WIDEST, WIDEST_IN_TEXT = 26, 40


def where_rows(expressions, conditions, style, printed):
    """Rows that explain a proof's letters, and the sizes that occur in its text, ``printed``."""
    groups = {}
    for name, what in sorted(_kinds(expressions, conditions, style, printed).items()):
        groups.setdefault(what, []).append(style.name(name))
    pieces = [", ".join(names) + _of_several(what, names) for what, names in groups.items()]
    rows, widest = [], WIDEST if isinstance(style, Latex) else WIDEST_IN_TEXT
    for piece in sorted(pieces):
        if rows and _length(rows[-1]) + _length(piece) < widest:
            rows[-1] += style.text("; ") + piece
        else:
            rows.append(piece)
    return [style.text("where " if n == 0 else "and ") + row for n, row in enumerate(rows)]


def draws_rows(families, style):
    """Yield rows with the assumptions behind the moments of random letters."""
    of = {}
    for f in families:
        of.setdefault(show_number(style, f.variance), []).append(style.name(f.name))
    told = [v + (style.text(" of ") + ", ".join(f) if len(of) > 1 else "") for v, f in of.items()]
    names = ", ".join(style.name(f.name) for f in families)
    if families:
        yield style.text("the entries of ") + names + style.text(" are independent,")
        yield style.text("of mean 0 and of variance ") + style.text(", ").join(told)


def _kinds(expressions, conditions, style, printed):
    """{name: its shape or kind, as printed text}."""
    letters = set().union(*map(kernels_letters, expressions), *[x.letters for x in conditions])
    draws = {f for x in expressions for f in x.atoms(Family) if f.random}
    found = {f.name: _shape(style, f.sizes, " random") for f in draws}
    found |= {x.args[0]: what for x in letters if (what := _kind(x.args[1], style))}
    known = {size.args[0] for x in letters for size in x.args[1].letters}
    known |= {size.name for f in draws for size in f.sizes.free_symbols}
    sizes = {x.args[0] for x in letters if x.args[1] == k.SIZE} - known
    told = [s for s in sizes if re.search(rf"(?<![\w\"]){re.escape(s)}(?![\w\"])", printed)]
    return found | {s: style.text(": a size") for s in told}


def _of_several(what, names):
    return what if len(names) == 1 else re.sub(r"\ba (number|size)\b", r"\1s", what)


def _kind(sort, style):
    """The kind of a letter as printed text, from its sort; None if other text shows the kind."""
    if sort == k.POSITIVE:
        return f"{style.greater}0"
    if sort == k.NUM:
        return style.text(": a number")
    if sort.op != "FUN" or sort.args[2:] == (k.NUM,):
        return None  # a size, a draw, an index, or a function of one number
    kind, _, *axes = sort.args
    if kind == "perm":
        return style.text(": permutation of ") + show_number(style, size_of(axes[0].args[0]))
    if k.NUM in axes:
        return _shape(style, [sp.S.One, *_sizes(axes[1:])], " in a sequence")
    return _shape(style, _sizes(axes), {"mask": " mask", "positive": " positive"}.get(kind, ""))


def _sizes(axes):
    return [size_of(a.args[0]) for a in axes]


def _shape(style, sizes, more):
    shape = style.by([_factor(style, s) for s in sizes])
    return style.text(": ") + shape + (more and style.text(more))


def _factor(style, size):
    shown = show_number(style, size)
    return style.brackets(shown) if "+" in shown else shown


def _length(row):
    """The approximate width of a row, in characters, in LaTeX or plain text."""
    words = re.sub(r"\\(text|mathrm|mathit|left|right)\b", "", row)
    return len(re.sub(r"[{}^_ ]", "", re.sub(r"\\[A-Za-z]+", "x", words)))
