"""A table that Jupyter, Colab, GitHub and the built book all show with its links."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, repr=False)
class Table:
    """Lines of words under a ``head``; in a notebook Markdown in the words is set."""

    head: tuple[str, ...]
    rows: tuple[tuple, ...]

    def __repr__(self):
        lines = [list(map(_plain, line)) for line in (self.head, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines)]
        shown = ("  ".join(map(str.ljust, line, widths)) for line in lines)
        return "\n".join(line.rstrip() for line in shown)

    def _repr_markdown_(self):
        lines = [self.head, ["---"] * len(self.head), *self.rows]
        return "\n".join(map(_line, lines))


def _plain(cell):
    """A cell without the marks of Markdown: the words of a link, the name in backticks."""
    return re.sub(r"\[([^]]+)\]\([^)]*\)|`([^`]*)`", r"\1\2", str(cell))


def _line(cells):
    # a bar within a cell would end it
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"


#: The number of a layer: in words, or in a name, where more than a parameter's own name follows.
NUMBER = re.compile(r"(?<=layer )\d+|\b\d+(?=\.(?!(?:bias|weight|running_\w+)\b)[A-Za-z_])")


def starred(text):
    """Words in which "*" stands for the number of each layer, so that layers are named alike."""
    return NUMBER.sub("*", text)


def listed(words):
    """Words as a sentence has them: "a", "a and b", "a, b and c"."""
    *most, last = [*words] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def grouped(things, key):
    """Things of the same key together, in lists, in the order of their first."""
    found = {}
    for thing in things:
        found.setdefault(key(thing), []).append(thing)
    return list(found.values())
