"""Helpers for reports: lists in prose, and tables whose links work in Jupyter, Colab and the book."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True, repr=False)
class Table:
    """Rows of words under a ``head``; in a notebook, Markdown in the words is rendered."""

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
    """A cell without Markdown: links become their words, and names lose their backticks."""
    return re.sub(r"\[([^]]+)\]\([^)]*\)|`([^`]*)`", r"\1\2", str(cell))


def _line(cells):
    # escape bars, which would end the cell
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"


#: The number of a layer: after the word "layer", or inside a parameter's name.
NUMBER = re.compile(r"(?<=layer )\d+|\b\d+(?=\.(?!(?:bias|weight|running_\w+)\b)[A-Za-z_])")


def starred(text):
    """The text with "*" in place of each layer number, so that all layers share a name."""
    return NUMBER.sub("*", text)


def listed(words):
    """A list in a sentence: "a", "a and b", "a, b and c"."""
    *most, last = [*words] or [""]
    return f"{', '.join(most)} and {last}" if most else last


def grouped(things, key):
    """Items grouped by key, in the order of first appearance."""
    found = {}
    for thing in things:
        found.setdefault(key(thing), []).append(thing)
    return list(found.values())


#: Seconds after which work counts as long, and seconds between two lines.
QUIET, EVERY = 20.0, 10.0


def progress(things, what):
    """Yield the items; after some seconds, say on the error stream how many are done."""
    things, due = list(things), time.monotonic() + QUIET
    for done, thing in enumerate(things):
        if time.monotonic() > due:
            print(f"redundancy: {done} of {len(things)} {what}", file=sys.stderr, flush=True)
            due = time.monotonic() + EVERY
        yield thing
