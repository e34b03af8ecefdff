"""Print a call with the arguments that vary, without those that all calls of its word share."""

from __future__ import annotations

import itertools

import sympy as sp

from ..printing import Latex
from .letters import Index, show_number

FEW = 5  # the most left-out letters that a page lists; plain text lists all


def show_call(x, style, show):
    """The printed call of a word, without the arguments that ``style.brief`` leaves out."""
    word = x.operation.word
    return style.call(word.name, *shown_slots(x, style, show))


def shown_slots(x, style, show):
    """The arguments and parameters of the call ``x`` that are printed."""
    kept = style.brief.get(x.operation.word, ())
    return [show_slot(style, slot, show) for k, slot in enumerate(slots(x)) if k not in kept]


def slots(x):
    """The arguments of a call, then its parameters, except the leading ones that select a row."""
    return (*x.args, *x.params[x.operation.word.places :])


def show_slot(style, slot, show=None):
    """A printed argument: an expression, a number, or the name of a family or an index."""
    if hasattr(slot, "operation"):
        return show(slot) if show else slot.show(style)
    number = isinstance(slot, sp.Expr)
    return show_number(style, slot) if number else style.name(getattr(slot, "name", "1"))


def brief_words(expressions):
    """{word: {place: argument}} for the arguments that are the same in every call of the word.

    Arguments that are always printed are not included.
    """
    found = {}
    for x in expressions:
        for y in x.walk():
            if y.operation.word is not None:
                found.setdefault(y.operation.word, set()).add(slots(y))
    bound = set().union(*[x.bound() for x in expressions])
    return {word: _kept(word, taken, bound) for word, taken in found.items()}


def _kept(word, taken, bound):
    first, *others = taken
    if any(len(other) != len(first) for other in others):
        return Kept()
    same = [all(other[k] == slot for other in others) for k, slot in enumerate(first)]
    told = [word.always_shows(k, s) or s.atoms(sp.Symbol) & bound for k, s in enumerate(first)]
    back = [not t and s for t, s in zip(told, same)]
    places = range(len(first))  # leave out equal arguments at the end, or else at the start
    last = [*itertools.takewhile(back.__getitem__, reversed(places))]
    found = last or [*itertools.takewhile(back.__getitem__, places)]
    return Kept({k: first[k] for k in sorted(found)}, leading=not last)


class Kept(dict):
    """{place: argument} for left-out arguments: the first ones if ``leading``, else the last."""

    def __init__(self, slots=(), leading=False):
        super().__init__(slots)
        self.leading = leading


def kept_back_in(style):
    """A row for each word with left-out arguments: "with LN(…; ε)" or "with v(x, …)"."""
    found = sorted(style.brief.items(), key=lambda item: item[0].name)
    return [_kept_back(style, word, kept) for word, kept in found if kept]


def _kept_back(style, word, kept):
    told = _told([show_slot(style, s) for s in kept.values()], style)
    told = told + style.and_others if kept.leading else style.others_and + told
    every = sorted({style.name(x.name) for s in kept.values() for x in _indices(s)})
    row = style.text("with ") + style.call(word.name, told)
    return row + (style.text(" for every ") + ", ".join(every) if every else "")


def _told(letters, style):
    """The letters, joined by commas; a page shows a few, because its "where" rows list them all."""
    if not isinstance(style, Latex) or len(letters) <= FEW:
        return ", ".join(letters)
    first, more = letters[: FEW - 2], len(letters) - FEW + 2
    return ", ".join(first) + style.text(f" and {more} more")


def _indices(slot):
    """The indices, such as a head's, that a parameter contains."""
    return slot.free_positions() if hasattr(slot, "free_positions") else slot.atoms(Index)
