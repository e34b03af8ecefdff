"""What a printed line leaves out, and where it breaks if it is too wide for one row of a page.

A call is printed without the arguments that all calls of its word share; a row below tells them.
"""

import itertools
import re

import sympy as sp

from ..printing import ATOM, SUM, Latex, Style
from .letters import Index, show_number
from .matrices import Expression
from .operations import OVER, PRODUCT_OF, SUM_OF, factor_tightness

FEW = 5  # the most left-out letters that a page lists; plain text lists all
WIDEST = 56  # the most characters of a line
ONE_ROW = 34  # the most characters of an equation in one row, so that it fits on a phone


def show_call(x, style, show):
    """The printed call of a word, without the arguments that ``style.brief`` leaves out."""
    return style.call(x.operation.word.name, *shown_slots(x, style, show)), ATOM


def shown_slots(x, style, show):
    """The arguments and parameters of the call ``x`` that are printed."""
    kept, _ = style.brief.get(x.operation.word, ((), False))
    return [_show_slot(style, slot, show) for k, slot in enumerate(_slots(x)) if k not in kept]


def _slots(x):
    """The arguments of a call, then its parameters, except the leading ones that select a row."""
    return (*x.args, *x.params[x.operation.word.places :])


def _show_slot(style, slot, show):
    """A printed argument: an expression, a number, or the name of a family or an index."""
    if isinstance(slot, Expression):
        return show(slot)
    number = isinstance(slot, sp.Expr)
    return show_number(style, slot) if number else style.name(getattr(slot, "name", "1"))


def brief_words(expressions: list[Expression]) -> dict:
    """{word: ({place: argument}, whether these come first)} for what every call of a word shares.

    Arguments that are always printed are not included.
    """
    found, bound = {}, set().union(*[x.bound() for x in expressions])
    for y in (y for x in expressions for y in x.walk() if y.operation.word is not None):
        found.setdefault(y.operation.word, set()).add(_slots(y))
    return {word: _kept(word, taken, bound) for word, taken in found.items()}


def _kept(word, taken, bound):
    """The equal arguments at the end of all calls, or if there are none, those at the start."""
    first, *others = taken
    if any(len(other) != len(first) for other in others):
        return {}, False
    told = [word.always_shows(k, s) or s.atoms(sp.Symbol) & bound for k, s in enumerate(first)]
    back = [not t and all(o[k] == first[k] for o in others) for k, t in enumerate(told)]
    places = range(len(first))
    last = [*itertools.takewhile(back.__getitem__, reversed(places))]
    found = last or [*itertools.takewhile(back.__getitem__, places)]
    return {k: first[k] for k in sorted(found)}, not last


def kept_back_in(style: Style) -> list[str]:
    """A row for each word with left-out arguments: "with LN(…; ε)" or "with v(x, …)"."""
    found = sorted(style.brief.items(), key=lambda item: item[0].name)
    return [_kept_back(style, word, *kept) for word, kept in found if kept[0]]


def _kept_back(style, word, kept, leading):
    letters = [_show_slot(style, s, lambda x: x.show(style)) for s in kept.values()]
    told = ", ".join(letters)
    if isinstance(style, Latex) and len(letters) > FEW:  # its "where" rows list them all
        more = style.text(f" and {len(letters) - FEW + 2} more")
        told = ", ".join(letters[: FEW - 2]) + more
    told = told + style.and_others if leading else style.others_and + told
    indices = [s.free_positions() if isinstance(s, Expression) else s.atoms(Index)
               for s in kept.values()]  # fmt: skip
    every = sorted({style.name(x.name) for found in indices for x in found})
    row = style.text("with ") + style.call(word.name, told)
    return row + (style.text(" for every ") + ", ".join(every) if every else "")


def aligned(rows: list[str]) -> str:
    """Rows of LaTeX as one aligned formula."""
    return "\\begin{aligned}\n" + " \\\\\n".join(rows) + "\n\\end{aligned}"


def rows_of(formula: str) -> list[tuple[str, str]]:
    """The rows of a formula made by `aligned`: (line, the reason beside it or "")."""
    inner = formula.removeprefix("\\begin{aligned}\n").removesuffix("\n\\end{aligned}")
    parts = [row.partition(" && ") for row in inner.split(" \\\\\n")]
    return [(line, reason) for line, _, reason in parts]


def equation_rows(lhs: Expression, rhs: Expression, style: Style) -> list[str]:
    """An equation in LaTeX, in one row if it fits on a phone, else with the right side below."""
    left, right = (broken(x, {}, style) for x in (lhs, rhs))
    whole = f"{left[0]} = {right[0]}"
    if len(left) == len(right) == 1 and length(whole) <= ONE_ROW:
        return [whole]
    return [*left, rf"\quad = {right[0]}", *[rf"\qquad {row}" for row in right[1:]]]


def width(x: Expression, names: dict, style: Style) -> int:
    """The number of characters of an expression in plain text; ``names`` replace parts of it."""
    return len(x.show(style.plain, 0, names))


def broken(x: Expression, names: dict, style: Style) -> list[str]:
    """An expression in rows, broken between terms or factors if it is too wide."""
    if width(x, names, style) > WIDEST and x not in names:
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
        fits = may_go_on and len(piece) == 1 and length(rows[-1]) + length(piece[0]) <= WIDEST
        opened = rows and rows[-1].endswith(style.opening)
        if fits or opened or len(rows) == 1 and length(rows[0]) <= 4:
            rows[-1] += between + piece[0]
        else:
            rows.append((leading if rows else "") + piece[0])
        rows += piece[1:]
        may_go_on = len(piece) == 1
    return [row.replace("+ " + style.minus, "- ") for row in rows]


def length(row: str) -> int:
    """The approximate width of a row, in characters, in LaTeX or plain text."""
    return len(re.sub(r"\\[A-Za-z]+!?|[{}^_\\]", "", row))
