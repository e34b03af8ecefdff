"""The report of an audit: a table in words, in a notebook with a link to each theorem, as JSON or CSV.

Three counts say how many numbers can go, and none of them is the other:

    alone       b_K, the mean of b_O, …: each may move while every other parameter stays
    jointly     also b_V, while b_O makes up for it: what `audit` counts, in directions
    with the shift before   also b_Q, while the shift of the norm before and all that reads it
                make up for it: `fold` does that, and counts the numbers that it made zero
"""

from __future__ import annotations

import csv
import io
import json
import re
import textwrap
from dataclasses import asdict, dataclass, field

from .reasons import linked, reason_for, reason_of
from .tables import Table

BIASES = {
    **{"query": "b_Q", "key": "b_K", "bias_k": "b_K, bias_k"},
    **{"value": "b_V", "bias_v": "b_V, bias_v", "output": "b_O"},
}
UNKNOWN = "unknown architecture: "
AGREE, DISAGREE, MEASURED = "agree", "DISAGREE", "measured only"
UNREACHED, ABSENT, UNCLEAR = "not reached", "absent", "UNCLEAR"
UNMEASURED = "not measured"
#: Sentences in the report are broken into lines of so many characters.
WIDE = 72
#: Theorems that say why something goes; the others say why something stays.
GOING = ("3.3", "4.3", "7.1", "8.1")
HEAD = ("layer", "bias", "size", "predicted", "measured", "answer")


@dataclass(frozen=True)
class Row:
    """One bias of one layer: what was predicted, what was measured, and why.

    ``could_go`` counts its redundant directions, jointly, where prediction and measurement agree;
    ``alone`` those that stay redundant when nothing else moves.
    """

    layer: str
    role: str
    size: int
    predicted: int | None
    measured: int | None
    verdict: str
    why: tuple[str, ...]
    could_go: int
    alone: int = 0

    @property
    def bias(self):
        return BIASES.get(self.role, self.role)

    @property
    def reason(self):
        """The `Reason` in a few words, with its theorem."""
        return reason_for(self.why)

    @property
    def answer(self):
        """What becomes of the bias, in words: "can go: softmax ignores it"."""
        if self.verdict == MEASURED:
            return "unknown: nothing was predicted"
        if self.verdict != AGREE:
            return self.verdict
        what = "can go" if self.measured else "stays"
        if 0 < self.measured < self.size:
            rest = "" if self.reason.theorem in GOING else ", not the rest"
            what = f"{self.measured} can go{rest}"
        return f"{what}: {self.reason.words}"


@dataclass(frozen=True, repr=False)
class Audit:
    """The report of `audit`: ``rows``, and ``notes`` on how it was made.

    ``shrunk`` lists (field, before, after) of the configuration where a small model stood for a
    large one: all sizes in the rows are then those of the small one.
    """

    model: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]
    shrunk: tuple[tuple[str, object, object], ...] = field(default=())

    @property
    def disagreements(self):
        return [row for row in self.rows if row.verdict in (DISAGREE, UNCLEAR)]

    @property
    def could_go(self):
        """How many directions are redundant, jointly: at no change to what the model computes."""
        return sum(row.could_go for row in self.rows)

    @property
    def alone(self):
        """How many of them are redundant while every other parameter stays as it is."""
        return sum(row.alone for row in self.rows)

    def row(self, role, layer=None):
        """The row of a bias: in the layer named, or in the first one."""
        return next(r for r in self.rows if r.role == role and layer in (None, r.layer))

    def as_dict(self):
        """The report in plain lists, dictionaries, numbers and words, for `json`."""
        rows = [asdict(row) | {"bias": row.bias, "answer": row.answer} for row in self.rows]
        return {
            "model": self.model,
            "could_go": {"alone": self.alone, "jointly": self.could_go},
            "shrunk": [list(change) for change in self.shrunk],
            "rows": [row | {"why": list(row["why"])} for row in rows],
            "notes": list(self.notes),
        }

    def as_json(self):
        return json.dumps(self.as_dict(), indent=1, default=str)

    def as_csv(self):
        """One line for each bias of each layer."""
        made = io.StringIO()
        writer = csv.writer(made, lineterminator="\n")
        writer.writerow(
            ("layer", "bias", "size", "predicted", "measured", "verdict", "can_go", "answer")
        )
        for r in self.rows:
            writer.writerow(
                (r.layer, r.bias, r.size, _shown(r.predicted, ""), _shown(r.measured, ""),
                 r.verdict, r.could_go, r.answer)
            )  # fmt: skip
        return made.getvalue()

    def __repr__(self):
        return as_text(self)

    def _repr_markdown_(self):
        return as_markdown(self)


def as_text(report):
    """The report as a table; layers with the same answers share a line."""
    table = [HEAD, *map(_line, _alike(report.rows))]
    widths = [max(len(str(line[i])) for line in table) for i in range(len(HEAD))]
    form = "{:{}}  {:{}} {:>{}} {:>{}} {:>{}}  {:{}}"
    lines = [f"{report.model}: attention biases", ""]
    for line in table:
        cells = (part for pair in zip(line, widths) for part in pair)
        lines.append(form.format(*cells).rstrip())
    lines += ["", *textwrap.wrap(_counts(report), WIDE), ""]
    for rows in _alike(report.rows):
        if rows[0].why:
            loud = "!!! " if rows[0].verdict in (DISAGREE, UNCLEAR) else ""
            said = f"{loud}{rows[0].bias}: " + "; ".join(rows[0].why) + _theorem(rows[0])
            lines += textwrap.wrap(said, WIDE, subsequent_indent="     ")
    notes = [line for note in report.notes for line in textwrap.wrap(note, WIDE)]
    return "\n".join([*lines, "", *notes] if notes else lines)


def _line(rows):
    row = rows[0]
    name = row.layer if len(rows) == 1 else re.sub(r"\b\d+\b", "*", row.layer)
    times = f" ({len(rows)} layers)" if len(rows) > 1 else ""
    return (
        (name or "(the model)") + times, row.bias, row.size,
        _shown(row.predicted), _shown(row.measured), row.answer,
    )  # fmt: skip


def _counts(report):
    """How many numbers can go, by name."""
    jointly = "each alone"
    if report.could_go != report.alone:
        jointly = f"jointly (b_V, as b_O makes up for it); {report.alone} alone"
    said = f"numbers that can go: {report.could_go}, {jointly}"
    if any(r.role == "query" and r.verdict == AGREE and not r.measured for r in report.rows):
        said += "; fold says whether b_Q can go too, with the shift of the norm before"
    return said


def _theorem(row):
    theorem = row.reason.theorem
    return f" [{theorem}]" if theorem and row.verdict == AGREE else ""


def as_markdown(report):
    """The report for a notebook, where each reason links to its theorem, beside the notebook."""
    head = ("bias", "answer", "predicted", "measured", "size", "layer")  # on a phone, what counts
    table = Table(head, tuple(map(_cells, _alike(report.rows))))._repr_markdown_()
    title = f"{report.model}: attention biases"
    return "\n\n".join((title, table, _counts(report), *report.notes))


def _cells(rows):
    layer, bias, size, *counts, answer = map(str, _line(rows))
    why, agree = rows[0].why, rows[0].verdict == AGREE
    links = dict.fromkeys(linked(reason_of(sentence)) for sentence in why) if agree else why
    said = " ".join(filter(None, links))
    name, *times = layer.partition(" (")
    return (
        bias,
        f"{answer} ({said})" if said else answer,
        *counts,
        size,
        f"`{name}`{''.join(times)}",
    )


def _shown(number, nothing="-"):
    return nothing if number is None else str(number)


def _alike(rows):
    """Rows of layers that differ only in their number and agree in everything else, together."""

    def key(row):
        return (row.bias, re.sub(r"\d+", "*", row.layer), row.size, row.predicted,
                row.measured or 0, row.verdict, row.why)  # fmt: skip

    order = {}
    for row in rows:
        order.setdefault(key(row), []).append(row)
    return list(order.values())
