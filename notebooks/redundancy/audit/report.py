"""The report of an audit: as text, as Markdown with links to theorems, or as JSON.

Two counts say how many numbers of a bias are redundant: ``alone``, while all other parameters stay
fixed, and ``together``, while others compensate.  Only the first may be added up over biases,
because b_O can absorb b_V and b_V can absorb b_O.  ``redundant`` counts each direction once.
"""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter

from ..shift.rules.seeing import CORNERS
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
    why: tuple
    injected: bool = False
    verdict: str = ""
    measured: tuple[int | None, int | None] = (None, None)
    problem: str = ""

    def judged(self, verdict, alone, together, problem=""):
        return replace(self, verdict=verdict, measured=(alone, together), problem=problem)

    @property
    def bias(self):
        """b_Q, b_K, b_V or b_O; for other biases, the end of the parameter's name."""
        return SYMBOLS.get(self.part) or ".".join(self.name.split(".")[-2:])

    @property
    def own(self):
        """Whether this is a parameter of the model, and not an injected bias or a running mean."""
        return not self.injected and "running_mean" not in self.name

    @property
    def flat(self):
        """How many directions have derivative zero although a finite move changes an output."""
        return max(0, (self.measured[1] or 0) - self.together)

    @property
    def reasons(self):
        """The events that explain the answer: what cancels the bias, or what depends on it."""
        if self.verdict == UNKNOWN:
            doubts = [e for e in self.why if e.kind in ("unknown", "corner")]
            return doubts or [e for e in self.why if e.operation in CORNERS][:1]
        if self.alone == self.size:
            return [e for e in self.why if e.kind == "erased"][:1]
        if self.together == self.size:
            return [e for e in self.why if e.kind == "passed"][:1]
        return self.obstacles

    @property
    def obstacles(self):
        """The events that keep a bias from being redundant alone: a rotation or a dependence."""
        turned = [e for e in self.why if e.kind == "turned"]
        known = turned or [e for e in self.why if e.kind in ("seen", "bent", "corner")]
        return (known or [e for e in self.why if e.kind == "unknown"])[:2]

    @property
    def theorems(self):
        """The numbers of the theorems behind the reasons."""
        found = [e.theorem for e in self.reasons if e.theorem]
        if self.part == "value" and "4.2" in found:
            found.append("4.3")
        return tuple(dict.fromkeys(found))

    @property
    def answer(self):
        """The answer in words, for example "can go: softmax cancels it"."""
        because = "; ".join(e.words for e in self.reasons)
        if self.verdict == UNKNOWN:
            return f"{UNKNOWN}: {because or self.problem or (FAINT if self.why else UNSEEN)}"
        if self.verdict in (UNREACHED, DISAGREE, UNCLEAR):
            said = self.problem or because
            return f"{self.verdict}: {said}" if said else self.verdict
        if not self.together:
            return f"stays: {because}"
        into = f" into {_listed(self.into, self.name)}" if self.into else ""
        if self.together == self.size:
            because = because or (CANCELS if not self.into else "")
            return f"can go{into}" + (f": {because}" if because else "")
        return f"{self.together} of {self.size} can go{into}: {because}"


def _listed(names, own):
    """The names, listed without the prefix that they share with the parameter ``own``."""
    parts = own.split(".")
    short = []
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
    def disagreements(self):
        return [row for row in self.rows if row.verdict in (DISAGREE, UNCLEAR)]

    @property
    def alone(self):
        """How many of the ``numbers`` are redundant while every other parameter stays fixed."""
        return sum(row.alone for row in self.rows if row.verdict == AGREE and row.own)

    def row(self, bias, name=""):
        """The first row of a bias ("b_K", "key", "fc2.bias") in a parameter whose name contains ``name``."""
        for row in self.rows:
            named = bias in (row.bias, row.part) or f".{row.name}".endswith(f".{bias}")
            if named and name in row.name:
                return row
        known = ", ".join(dict.fromkeys(row.bias for row in self.rows))
        raise KeyError(f"no row is called {bias!r}; there are: {known}")

    def as_dict(self):
        """The report in plain lists, dictionaries, numbers and words, for `json`."""
        return {
            "model": self.model,
            "mode": self.mode,
            "numbers": self.numbers,
            "redundant": {"alone": self.alone, "together": self.redundant},
            "shrunk": [list(change) for change in self.shrunk],
            "rows": [
                asdict(row) | {"why": [e.words for e in row.why]}
                | {name: getattr(row, name) for name in ("bias", "answer", "theorems")}
                for row in self.rows
            ],
            "notes": list(self.notes),
        }  # fmt: skip

    def as_json(self):
        return json.dumps(self.as_dict(), indent=1, default=str)

    def __repr__(self):
        """The report as a table; layers with the same answers share a line."""
        groups = self._groups()
        table = [(*HEAD[:1], *HEAD[2:]), *((c[0], *c[2:]) for c in map(_cells, groups))]
        widths = [max(len(str(cell)) for cell in column) for column in zip(*table)]
        lines = [self._title(), ""]
        for line in table:
            cells = [str(c).ljust(w) if i in (0, 5) else str(c).rjust(w)
                     for i, (c, w) in enumerate(zip(line, widths))]  # fmt: skip
            lines.append("  ".join(cells).rstrip())
        lines += ["", *textwrap.wrap(self._sum(), WIDE), ""]
        many = Counter(rows[0].bias for rows in groups)
        for rows in groups:  # if several rows share a short name, print the full one
            name = rows[0].bias if many[rows[0].bias] == 1 else starred(rows[0].name)
            lines += textwrap.wrap(_sentence(rows[0], name), WIDE, subsequent_indent="     ")
        notes = [line for note in self.notes for line in textwrap.wrap(note, WIDE)]
        return "\n".join([*lines, "", *notes] if notes else lines)

    def _repr_markdown_(self):
        """The report for a notebook; each answer links to its theorems, in the same folder."""
        lines = []
        for rows in self._groups():
            bias, answer, *counts, name = map(str, _cells(rows))
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


def _sentence(row, name):
    loud = "!!! " if row.verdict in (DISAGREE, UNCLEAR) else ""
    theorems = f" [{', '.join(row.theorems)}]" if row.theorems else ""
    return f"{loud}{name}: {row.answer}{theorems}"


def _cells(rows):
    row = rows[0]
    name = row.name if len(rows) == 1 else f"{starred(row.name)} ({len(rows)} times)"
    return row.bias, row.answer, row.alone, row.together, _measured(row), row.size, name


def _measured(row):
    if row.verdict in (UNREACHED, UNCLEAR):
        return row.verdict
    if row.measured == (None, None):
        return UNMEASURED
    counts = row.alone, row.together
    return "the same" if row.measured == counts else f"{row.measured[0]}, {row.measured[1]}"
