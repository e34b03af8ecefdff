"""Move a large model's biases along the directions that an audit of a small one predicts.

If a model has many biases, only a small model is audited.  This module moves the large model's own
biases: along random directions that should change no output, and, bias by bias, along directions
that should change an output.  The bias that absorbs a move is found where the model adds this bias.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from ..measure.inputs import variations
from ..measure.measurement import SEEN, Measurement, unseen
from ..measure.subject import Subject, exactly
from ..shift.following import Following
from ..shift.moves import NOISE, Shift
from ..tables import NUMBER, grouped, starred
from .progress import progress
from .report import DISAGREE


class Absorbing(Following):
    """Follows one move, while ``absorbers`` {name: tensor} cancel the shifts that they can absorb.

    ``found`` is {name of an absorber: the numbers that the absorber takes up}.
    """

    def __init__(self, parameters, along, absorbers):
        super().__init__(parameters, along)
        self.absorbers, self.found = absorbers, {}

    def _rule(self, call):
        made = super()._rule(call)
        for name, tensor in self.absorbers.items():
            blocks = list(made[0].blocks.values())
            if blocks and name not in self.found and any(tensor is a for a in call.args):
                numbers = blocks[0].values[0].reshape(-1, *tensor.shape)
                if (numbers - numbers[0]).abs().max() <= NOISE * blocks[0].peak:
                    self.found[name], made[0] = -numbers[0].flatten(), Shift()
        return made


def confirm(model, call, report, seed=0):
    """The report of a small model, with DISAGREE where moves of the large model contradict it."""
    subject = Subject(model, weights=False, seed=seed)
    with exactly():
        uses = subject.uses(call)
        named = {n: subject.tensors[n] for n in uses.added}
        finite = Measurement(subject, variations(subject.model, call, seed), named, ranks=False)
        judge = _Confirming(subject, finite, uses)
        for rows in progress(_alike(report.rows), "kinds of biases"):
            judge.rows(rows)
    note = (
        f"in the full model, {judge.gone} biases were moved along redundant directions, and no output "
        f"changed; {judge.seen} were moved along others, and each changed an output"
    )
    judged = tuple(
        row.judged(DISAGREE, *row.measured, judge.problems[row.name, row.part])
        if (row.name, row.part) in judge.problems
        else row
        for row in report.rows
    )
    return replace(report, rows=judged, notes=(*report.notes, note))


def _alike(rows):
    """Groups of rows, one for each bias whose answer is the same in all layers."""
    share = lambda row: (row.alone == row.size, row.together == row.size, bool(row.together))
    kinds = grouped(rows, lambda row: (starred(row.name), row.part))
    return [some for some in kinds if len({share(row) for row in some}) == 1]


class _Confirming:
    def __init__(self, subject, finite, uses):
        self.subject, self.finite, self.uses = subject, finite, uses
        self.problems, self.gone, self.seen = {}, 0, 0  # problems: {(name, part) of a row: why}

    def rows(self, rows):
        """Move the bias of these rows in every layer of the model."""
        row, own = rows[0], [n for n in self.uses.added if starred(n) == starred(rows[0].name)]
        along = {n: self._random(n, row.part) for n in own}
        if not own:
            return
        if row.alone == row.size:
            self._unseen(row, along, len(own))
        elif row.together == row.size and row.into:
            into = {n: [_beside(i, row.name, n) for i in row.into] for n in own}
            self._absorbed(row, along, {i for some in into.values() for i in some})
        if row.alone < row.size:
            for name in own:
                self._seen(row, {name: along[name]})

    def _random(self, name, part):
        chance = torch.Generator().manual_seed(1)
        t = torch.randn(self.subject.tensors[name].numel(), generator=chance, dtype=torch.float64)
        return t * self.uses.parts[name][part] if part else t

    def _absorbed(self, row, along, absorbers):
        parameters = {n: self.subject.tensors[n] for n in along}
        absorbing = {n: self.subject.tensors[n] for n in absorbers if n in self.subject.tensors}
        run = Absorbing(parameters, along, absorbing)
        with torch.no_grad():
            run.follow(lambda: self.subject.run(self.finite.drawn[0][0]))
        if not run.failed:  # else the absorber is added before this bias, and its row tests both
            self._unseen(row, along | run.found, len(along))

    def _unseen(self, row, move, many):
        if self.finite.shows(move, unseen(move)):
            self.problems[row.name, row.part] = (
                "in the full model, a move predicted to be redundant changes the outputs"
            )
        else:
            self.gone += many

    def _seen(self, row, move):
        if self.finite.shows(move, max(SEEN, unseen(move))):
            self.seen += 1
        else:
            words = (
                f"in the full model, a move of {[*move][0]} that should change the outputs does not"
            )
            self.problems[row.name, row.part] = words


def _beside(other, name, mine):
    """The name ``other``, with its layer number changed by the step from ``name`` to ``mine``."""
    first = lambda text: int((NUMBER.findall(text) or [0])[0])
    return NUMBER.sub(str(first(other) - first(name) + first(mine)), other, count=1)
