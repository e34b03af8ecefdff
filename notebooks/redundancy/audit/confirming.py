"""Move a large model's biases along the directions that an audit of a small one predicts.

The biases are moved along random directions that should change no output, all layers at once, and,
one by one, along directions that should change an output.  If another bias absorbs the moved one,
the amount that it has to absorb is read off at the operation where the large model adds it.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from ..measure.inputs import variations
from ..measure.measurement import SEEN, Measurement, unseen
from ..measure.subject import Subject, exactly
from ..shift.following import Following
from ..shift.moves import NOISE, Shift
from ..tables import NUMBER, grouped, progress, starred
from .report import AGREE, DISAGREE, Audit


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


def confirm(model: torch.nn.Module, call: tuple, report: Audit, seed: int = 0) -> Audit:
    """The report of a small model, with DISAGREE where moves of the large model contradict it."""
    subject = Subject(model, weights=False, seed=seed)
    rows, moved = list(report.rows), {False: 0, True: 0}
    with exactly():
        roles, calls = subject.roles(call), variations(subject.model, call, seed)
        added = {n: subject.tensors[n] for n in roles.added}
        finite = Measurement(subject, calls, added, ranks=False)
        for row in progress(_alike(report.rows), "kinds of biases"):
            for move, changes, many in _moves(row, subject, roles, call):
                if finite.shows(move, max(SEEN * changes, unseen(move))) == changes:
                    moved[changes] += many
                    continue
                seen = "changes no output" if changes else "changes an output"
                words = f"in the full model, a move of {[*move][0]} {seen}, against the prediction"
                rows[report.rows.index(row)] = row.judged(DISAGREE, *row.measured, words)
    note = (
        f"in the full model, {moved[False]} biases were moved along redundant directions, and no "
        f"output changed; {moved[True]} were moved along others, and each changed an output"
    )
    return replace(report, rows=tuple(rows), notes=(*report.notes, note))


def _alike(rows):
    """The first row of each bias on which prediction and measurement agree alike in all layers."""
    share = lambda r: (r.verdict, r.alone == r.size, r.together == r.size, bool(r.together))
    kinds = grouped(rows, lambda row: (starred(row.name), row.part))
    return [some[0] for some in kinds if set(map(share, some)) == {share(some[0])}
            and some[0].verdict == AGREE]  # fmt: skip


def _moves(row, subject, roles, call):
    """Yield (a move, whether it should change an output, how many biases it tests)."""
    along = {}
    for name in roles.added:
        whole = torch.ones(subject.tensors[name].numel())
        part = roles.parts.get(name, {}).get(row.part) if row.part else whole
        if starred(name) == starred(row.name) and part is not None:
            chance = torch.Generator().manual_seed(1)
            along[name] = torch.randn(len(part), generator=chance, dtype=torch.float64) * part
    if along and row.alone == row.size:
        yield along, False, len(along)
    elif along and row.together == row.size and row.into:
        absorbers = {_beside(into, row.name, name) for into in row.into for name in along}
        absorbing = {n: subject.tensors[n] for n in absorbers if n in subject.tensors}
        run = Absorbing({n: subject.tensors[n] for n in along}, along, absorbing)
        with torch.no_grad():
            run.follow(lambda: subject.run(call))
        if not run.failed:  # else the absorber is added before this bias, and its row tests both
            yield along | run.found, False, len(along)
    if row.alone < row.size:
        yield from (({name: numbers}, True, 1) for name, numbers in along.items())


def _beside(other, name, mine):
    """The name ``other``, with its layer number changed by the step from ``name`` to ``mine``."""
    first = lambda text: int((NUMBER.findall(text) or [0])[0])
    return NUMBER.sub(str(first(other) - first(name) + first(mine)), other, count=1)
