"""Rows of a page: an expression that is too wide for one row breaks at a sum or a product."""

from __future__ import annotations

import re

from ..printing import SUM
from .letters import show_number
from .operations import OVER, PRODUCT_OF, SUM_OF, factor_tightness

WIDEST = 56  # the most characters of a line
ONE_ROW = 34  # the most characters of an equation in one row, so that it fits on a phone


def aligned(rows):
    """Rows of LaTeX as one aligned formula."""
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


def equation_rows(lhs, rhs, style):
    """An equation in LaTeX, in one row if it fits on a phone, else with the right side below."""
    left, right = (broken(x, {}, style) for x in (lhs, rhs))
    whole = f"{left[0]} = {right[0]}"
    if len(left) == len(right) == 1 and length(whole) <= ONE_ROW:
        return [whole]
    return [*left, rf"\quad = {right[0]}", *[rf"\qquad {row}" for row in right[1:]]]


def rows_of(formula):
    """The rows of a formula made by `aligned`: (line, the reason beside it or "")."""
    inner = formula.removeprefix("\\begin{aligned}\n").removesuffix("\n\\end{aligned}")
    return [row.partition(" && ")[::2] for row in inner.split(" \\\\\n")]


def width(x, names, style):
    return len(x.show(style.plain, 0, names))


def broken(x, names, style):
    """An expression in rows, broken between terms or factors if it is too wide."""
    if width(x, names, style) <= WIDEST or x in names:
        return [x.show(style, SUM, names)]
    if x.operation is SUM_OF:
        return _joined([broken(y, names, style) for y in x.args], " + ", "+ ", style)
    if x.operation is PRODUCT_OF:
        rows = [_broken_factor(y, names, style) for y in x.args]
        return _joined(rows, style.times, style.dot, style)
    if x.operation is OVER:
        size = show_number(style, x.params[0].size)
        breaks = _broken_factor if x.args[0].operation is SUM_OF else broken
        first, *rest = breaks(x.args[0], names, style)
        return [style.sum_over(style.name(x.params[0].name), size, first), *rest]
    return [x.show(style, SUM, names)]


def _broken_factor(x, names, style):
    if width(x, names, style) <= WIDEST or x.operation not in (SUM_OF, OVER):
        return [x.show(style, factor_tightness(x), names)]
    first, *rest = broken(x, names, style)
    rows = [style.opening + first, *rest]
    return [*rows[:-1], rows[-1] + style.closing]


def _joined(pieces, between, leading, style):
    """Pieces of one or more rows, packed into rows no wider than a page."""
    rows, may_go_on = [], False
    for piece in pieces:
        together = may_go_on and len(piece) == 1 and length(rows[-1]) + length(piece[0]) <= WIDEST
        if together or (rows and rows[-1].endswith(style.opening)):
            rows[-1] += between + piece[0]
        elif len(rows) == 1 and length(rows[0]) <= 4:
            rows[0] += between + piece[0]
        else:
            rows.append((leading if rows else "") + piece[0])
        rows += piece[1:]
        may_go_on = len(piece) == 1
    return [row.replace("+ " + style.minus, "- ") for row in rows]


def length(row):
    """The approximate width of a row, in characters, in LaTeX or plain text."""
    return len(re.sub(r"\\[A-Za-z]+!?|[{}^_\\]", "", row))
