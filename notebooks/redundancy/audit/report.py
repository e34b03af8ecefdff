"""The report of an audit, as text and as Markdown with links to theorems.

Two counts say how many numbers of a bias are redundant: ``alone``, while all other parameters stay
fixed, and ``together``, while others compensate.  Only the first may be added up over biases,
because b_O can absorb b_V and b_V can absorb b_O.  ``redundant`` counts each direction once.
"""

from __future__ import annotations

import textwrap
from collections import Counter
from dataclasses import dataclass, field, replace
from operator import attrgetter

from ..shift.following import Event
from ..shift.rules.dependent import CORNERS
from ..tables import Table, grouped, listed, starred
from ..what_can_go.theorems import LINKS

SYMBOLS = {"query": "b_Q", "key": "b_K", "value": "b_V", "output": "b_O"}
AGREE, DISAGREE, UNKNOWN, UNCLEAR = "agree", "DISAGREE", "unknown", "UNCLEAR"
UNREACHED, UNMEASURED = "not reached", "not measured"
#: Why an answer is unknown, if none of the bias's own events explains that.
UNSEEN = "outputs depend on it, but no operation of PyTorch that was recorded does"
#: Why a bias is redundant, if no event explains that: a subtraction cancels it, or it is unused.
CANCELS = "no operation depends on it"
FAINT = "some softmax weights are so small that the measurement may miss a dependence"
ELSEWHERE = "what might absorb it meets an operation without a rule"
#: The width to which sentences in the report are wrapped.
WIDE = 72
HEAD = ("bias", "answer", "alone", "together", "measured", "size", "parameter")


@dataclass(frozen=True)
class Row:
    """One bias: its prediction, its measurement, and the reasons.

    ``part`` is its part of attention ("query", "key", "value", "output", or ""); a fused bias has a row
    for each part.  ``into`` names the parameters that compensate if the bias is redundant only with
    their help; ``why`` lists the `Event`s that directly involve the bias.  ``measured`` has the
    counts (alone, together) from the Jacobian.
    """

    name: str
    part: str
    size: int
    alone: int
    together: int
    into: tuple[str, ...]
    why: tuple[Event, ...]
    injected: bool = False
    verdict: str = ""
    measured: tuple[int | None, int | None] = (None, None)
    problem: str = ""

    def judged(
        self, verdict: str, alone: int | None, together: int | None, problem: str = ""
    ) -> Row:
        """The row with its verdict and measured counts."""
        return replace(self, verdict=verdict, measured=(alone, together), problem=problem)

    @property
    def bias(self) -> str:
        """b_Q, b_K, b_V or b_O; for other biases, the end of the parameter's name."""
        return SYMBOLS.get(self.part) or ".".join(self.name.split(".")[-2:])

    @property
    def own(self) -> bool:
        """Whether this is a parameter of the model, and not an injected bias or a running mean."""
        return not self.injected and "running_mean" not in self.name

    @property
    def flat(self) -> int:
        """How many directions have derivative zero although a finite move changes an output."""
        return max(0, (self.measured[1] or 0) - self.together)

    def _events(self, *kinds):
        return [e for e in self.why if e.kind in kinds]

    @property
    def reasons(self) -> list[Event]:
        """The events that explain the answer: what cancels the bias, or what depends on it."""
        if self.verdict == UNKNOWN:
            at_a_corner = [e for e in self.why if e.operation in CORNERS][:1]
            return self._events("unknown", "corner") or at_a_corner
        if self.alone == self.size:
            return self._events("erased")[:1]
        if self.together == self.size:
            return self._events("passed")[:1]
        return self.obstacles

    @property
    def obstacles(self) -> list[Event]:
        """The events that keep a bias from being redundant alone: a rotation or a dependence."""
        kinds = ("turned",), ("seen", "bent", "corner"), ("unknown",)
        return next(filter(None, (self._events(*some) for some in kinds)), [])[:2]

    @property
    def theorems(self) -> tuple[str, ...]:
        """The numbers of the theorems behind the reasons."""
        found = [e.theorem for e in self.reasons if e.theorem]
        if self.part == "value" and "4.2" in found:
            found.append("4.3")
        return tuple(dict.fromkeys(found))

    @property
    def answer(self) -> str:
        """The answer in words, for example "can go: softmax cancels it"."""
        because = "; ".join(e.words for e in self.reasons)
        if self.verdict == UNKNOWN:
            return f"{UNKNOWN}: {because or self.problem or (FAINT if self.why else UNSEEN)}"
        if self.verdict in (UNREACHED, DISAGREE, UNCLEAR):
            return ": ".join(filter(None, (self.verdict, self.problem or because)))
        if not self.together:
            return f"stays: {because}"
        into = f" into {_listed(self.into, self.name)}" if self.into else ""
        if self.together < self.size:
            return f"{self.together} of {self.size} can go{into}: {because}"
        because = because or (CANCELS if not self.into else "")
        return f"can go{into}" + (f": {because}" if because else "")


def _listed(names, own):
    """The names, listed without the prefix that they share with the parameter ``own``."""
    parts, short = own.split("."), []
    for name in names:
        theirs = name.split(".")
        shared = next((i for i, (a, b) in enumerate(zip(parts, theirs)) if a != b), 0)
        short.append(".".join(theirs[shared:]) if shared > 1 or len(theirs) - shared > 1 else name)
    return listed(short)


@dataclass(frozen=True, repr=False)
class Audit:
    """The report of `audit`: ``rows``, and ``notes`` on how the report was made.

    ``numbers`` counts all added numbers, and ``redundant`` the directions among them that change no
    output.  ``shrunk`` lists (field, before, after) of the configuration if a small model represented a
    large one; all sizes are then those of the small model.
    """

    model: str
    mode: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    numbers: int
    redundant: int
    shrunk: tuple[tuple[str, object, object], ...] = field(default=())

    @property
    def disagreements(self) -> list[Row]:
        """The rows in which prediction and measurement differ, or may differ."""
        return [row for row in self.rows if row.verdict in (DISAGREE, UNCLEAR)]

    @property
    def alone(self) -> int:
        """How many of the ``numbers`` are redundant while every other parameter stays fixed."""
        return sum(row.alone for row in self.rows if row.verdict == AGREE and row.own)

    def row(self, bias: str, name: str = "") -> Row:
        """The first row of a bias ("b_K", "key", "fc2.bias") in a parameter whose name contains ``name``.

        Raises KeyError if there is none.
        """
        for row in self.rows:
            named = bias in (row.bias, row.part) or f".{row.name}".endswith(f".{bias}")
            if named and name in row.name:
                return row
        known = ", ".join(dict.fromkeys(row.bias for row in self.rows))
        where = f" in a parameter named like {name!r}" if name else ""
        raise KeyError(f"there is no row for {bias!r}{where}; there are rows for {known}")

    def __repr__(self):
        """The report as a table; layers with the same answers share a line."""
        groups = self._groups()
        table = [(bias, *rest) for bias, _, *rest in (HEAD, *map(_cells, groups))]
        widths = [max(len(str(cell)) for cell in column) for column in zip(*table)]
        lines = [self._title(), ""]
        for bias, *numbers, name in table:
            counts = [str(n).rjust(width) for n, width in zip(numbers, widths[1:])]
            lines.append("  ".join([bias.ljust(widths[0]), *counts, name]))
        lines += ["", *textwrap.wrap(self._sum(), WIDE), ""]
        many = Counter(rows[0].bias for rows in groups)
        for row, *_ in groups:  # if several rows share a short name, print the full one
            loud = "!!! " if row.verdict in (DISAGREE, UNCLEAR) else ""
            name = row.bias if many[row.bias] == 1 else starred(row.name)
            theorems = f" [{', '.join(row.theorems)}]" if row.theorems else ""
            said = f"{loud}{name}: {row.answer}{theorems}"
            lines += textwrap.wrap(said, WIDE, subsequent_indent="     ")
        notes = [line for note in self.notes for line in textwrap.wrap(note, WIDE)]
        return "\n".join([*lines, "", *notes] if notes else lines)

    def _repr_markdown_(self):
        """The report for a notebook; each answer links to its theorems, in the same folder."""
        lines = []
        for rows in self._groups():
            bias, answer, *counts, name = _cells(rows)
            links = " ".join(f"[{t}]({LINKS[t]})" for t in rows[0].theorems if t in LINKS)
            path, *times = name.partition(" (")
            said = f"{answer} ({links})" if links else answer
            lines.append((bias, said, *counts, f"`{path}`{''.join(times)}"))
        table = Table(HEAD, tuple(lines))._repr_markdown_()
        return "\n\n".join((self._title(), table, self._sum(), *self.notes))

    def _title(self):
        return f"{self.model}, in {self.mode}: {self.numbers} numbers in biases and shifts"

    def _sum(self):
        said = f"{self.redundant} of {self.numbers} numbers are redundant"
        alone = f"{said}; {self.alone} of them can go while all others stay"
        return alone if self.alone != self.redundant else said

    def _groups(self):
        """Groups of rows that agree in everything except the numbers of layers."""
        same = attrgetter("bias", "part", "size", "alone", "together", "measured", "verdict")
        key = lambda row: (starred(row.name), starred(row.answer), same(row))
        return grouped(self.rows, key)


def _cells(rows):
    """The cells of a line for these rows, in the order of `HEAD`."""
    row, counts = rows[0], (rows[0].alone, rows[0].together)
    name = row.name if len(rows) == 1 else f"{starred(row.name)} ({len(rows)} times)"
    measured = "the same" if row.measured == counts else f"{row.measured[0]}, {row.measured[1]}"
    if row.verdict in (UNREACHED, UNCLEAR):
        measured = row.verdict
    elif row.measured == (None, None):
        measured = UNMEASURED
    return row.bias, row.answer, *counts, measured, row.size, name
