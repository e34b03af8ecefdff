"""How a word prints beside what it takes, and what it keeps to itself where that never changes."""

from __future__ import annotations

import itertools

import sympy as sp

from .letters import Index
from .notation import show_number
from .printing import Latex

FEW = 5  # letters that a page shows of those that a word keeps to itself; plain text shows all


def show_call(x, style, show):
    """A word of what it takes, without what it keeps to itself."""
    word = x.operation.word
    return style.call(word.name, *shown_slots(x, style, show))


def shown_slots(x, style, show):
    """What is printed of what a word takes."""
    kept = style.brief.get(x.operation.word, ())
    return [show_slot(style, slot, show) for k, slot in enumerate(slots(x)) if k not in kept]


def slots(x):
    """What a word takes: arguments, then parameters, those left out that say where it is."""
    return (*x.args, *x.params[x.operation.word.places :])


def show_slot(style, slot, show=None):
    """An argument; or a parameter: a number, or a family or an index by its name."""
    if hasattr(slot, "operation"):
        return show(slot) if show else slot.show(style)
    number = isinstance(slot, sp.Expr)
    return show_number(style, slot) if number else style.name(getattr(slot, "name", "1"))


def brief_words(expressions):
    """{word: {which of what it takes: that}}, for what is the same wherever the word stands.

    What a word always shows is not among it.
    """
    found = {}
    for x in expressions:
        for y in x.walk():
            if y.operation.word is not None:
                found.setdefault(y.operation.word, set()).add(slots(y))
    slopes = [y for x in expressions for y in x.walk() if y.operation.name == "derivative"]
    bound = {y.params[0] for y in slopes if y.operation.word is None}
    return {word: _kept(word, taken, bound) for word, taken in found.items()}


def _kept(word, taken, bound):
    first, *others = taken
    if any(len(other) != len(first) for other in others):
        return Kept()
    same = [all(other[k] == slot for other in others) for k, slot in enumerate(first)]
    told = [word.always_shows(k, s) or s.atoms(sp.Symbol) & bound for k, s in enumerate(first)]
    back = [not t and s for t, s in zip(told, same)]
    places = range(len(first))  # the last ones, or else the first: nobody asks which they are
    last = [*itertools.takewhile(back.__getitem__, reversed(places))]
    found = last or [*itertools.takewhile(back.__getitem__, places)]
    return Kept({k: first[k] for k in sorted(found)}, leading=not last)


class Kept(dict):
    """What a brief word keeps to itself: {place: what}, the last places or the ``leading`` ones."""

    def __init__(self, slots=(), leading=False):
        super().__init__(slots)
        self.leading = leading


def kept_back_in(style):
    """What brief words keep to themselves: "with LN(…; ε)" or "with v(x, …)", one for each."""
    found = sorted(style.brief.items(), key=lambda item: item[0].name)
    return [_kept_back(style, word, kept) for word, kept in found if kept]


def _kept_back(style, word, kept):
    told = _told([show_slot(style, s) for s in kept.values()], style)
    told = told + style.and_others if kept.leading else style.others_and + told
    every = sorted({style.name(x.name) for s in kept.values() for x in _indices(s)})
    row = style.text("with ") + style.call(word.name, told)
    return row + (style.text(" for every ") + ", ".join(every) if every else "")


def _told(letters, style):
    """The letters in a row; a page names the first ones, since "where" lists every letter anyway."""
    if not isinstance(style, Latex) or len(letters) <= FEW:
        return ", ".join(letters)
    first, more = letters[: FEW - 2], len(letters) - FEW + 2
    return ", ".join(first) + style.text(f" and {more} more")


def _indices(slot):
    """The indices, such as a head's, that something speaks of."""
    return slot.free_positions() if hasattr(slot, "free_positions") else slot.atoms(Index)
