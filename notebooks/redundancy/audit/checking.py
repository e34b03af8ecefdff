"""Compare prediction with measurement, bias by bias.

The prediction is the space N of directions on which no operation depends.  The measurement is the
null space V of autograd's Jacobian, together with finite moves.  Each bias raises three questions:

1. Does a finite move along the bias's part of N leave all outputs unchanged?
2. If V has more directions than N, does a finite move along the extra ones change an output?
   If so, outputs are constant along them only near this point, for example because a unit is off on
   all inputs.
3. Does a finite move along the other directions of the bias change an output?
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import torch

from ..measure.inputs import first_line, kept, variations
from ..measure.measurement import SEEN, Measurement, unseen
from ..measure.nullity import UnclearRank, svd
from ..measure.subject import exactly
from ..shift.following import follow
from ..shift.null_space import NullSpace, Unclear
from ..shift.rules.dependent import CORNERS
from ..tables import listed, progress
from .report import AGREE, DISAGREE, ELSEWHERE, UNCLEAR, UNKNOWN, UNREACHED, Audit, Row

#: Sizes of finite moves; the largest can switch on a unit that is off for all inputs.
FAR = 1.0, -1.0, 30.0, -30.0
#: With more added numbers than this, a Jacobian takes too long, so only finite moves are made.
LARGE = 2500


class Check:
    """Compares prediction and measurement for a `Subject` that is run with the given inputs."""

    def __init__(self, subject, call):
        self.subject, self.call, self.known = subject, call, {}
        self.doubts = []  # conditions that rounding leaves unclear
        with exactly() as patch:
            self.roles = subject.roles(call)
            self.parameters = {n: subject.tensors[n] for n in self.roles.added}
            self.large = sum(p.numel() for p in self.parameters.values()) > LARGE
            self.rows = []
            if self.parameters:
                self._predict()
                self._measure()
                self.rows = [self._row(*one) for one in progress(self._questions(), "biases")]
        self.patch = patch

    def _calls(self):
        return variations(self.subject.model, self.call, self.subject.seed)

    def _predict(self):
        with torch.no_grad():
            runs = (lambda call=call: self.subject.run(call) for call in self._calls())
            self.run = follow(runs, self.parameters)
        self.predicted, self.used = NullSpace.of(self.run.moves), self.run.used
        self.doubts = self.run.doubts

    def _measure(self):
        self.measured = self.flat = self.refused = None
        measure = lambda ranks: Measurement(self.subject, self._calls(), self.parameters, ranks)
        try:
            self.measurement = measure(not self.large)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as problem:  # from autograd, for example for an in-place operation
            self.large, self.refused = True, first_line(problem)
            self.measurement = measure(False)
        if self.large:
            return
        basis, predicted = self.measurement.basis().T, self.predicted.dense()
        self.measured = NullSpace.whole(basis, self.predicted.shapes)
        left, values, _ = svd(basis - predicted @ (predicted.T @ basis))
        self.flat = NullSpace.whole(left[:, values > 0.5], self.predicted.shapes)

    def report(self) -> Audit:
        """The report on all biases."""
        injected = self.subject.injected
        other = frozenset(n for n in self.parameters if n in injected or "running_mean" in n)
        own = [row for row in self.rows if row.name not in other and row.verdict != UNREACHED]
        redundant = 0
        if self.rows:
            unused = sum(int((~used).sum()) for n, used in self.used.items() if n not in other)
            redundant = len(self._fixing(self.predicted, other)) - unused
        mode = "training" if self.subject.training else "evaluation"
        return Audit(type(self.subject.model).__name__, mode, tuple(self.rows),
                     tuple(self._notes(self.rows)), sum(row.size for row in own), redundant)  # fmt: skip

    # --- the row of one bias

    def _questions(self):
        """Yield (parameter, part, index) for each bias, or for each part of a fused bias."""
        for name in self.parameters:
            used, rest = self.used[name], self.used[name].clone()
            for part, mask in self.roles.parts.get(name, {}).items():
                if (mine := mask & rest).any():
                    yield name, part, mine
                    rest &= ~mask
            for some in (rest, ~used):
                if some.any():
                    yield name, "", some

    def _row(self, name, part, index):
        """The `Row` of one bias, judged while all other injected biases stay zero."""
        others, counts = frozenset(self.subject.injected) - {name}, (None, None)
        row = Row(name, part, int(index.sum()), 0, 0, (), self._why(name, index),
                  name in self.subject.injected)  # fmt: skip
        try:
            spaces = self.predicted, self.measured, self.flat
            predicted, measured, flat = (self._fixing(s, others, name) for s in spaces)
            row = replace(
                row, alone=predicted.alone(name, index), together=predicted.together(name, index),
                into=predicted.absorbers(name, index, tuple(self.parameters)),
            )  # fmt: skip
            if not self.large:
                counts = measured.alone(name, index), measured.together(name, index)
            verdict = self._verdict(row, index, predicted, flat)
            return row.judged(verdict, *counts, ELSEWHERE if self._lost else "")
        except (Unclear, UnclearRank) as reason:
            return row.judged(UNCLEAR, None, None, str(reason))

    @property
    def _lost(self):
        """Whether the shift of some bias reaches an operation for which there is no rule."""
        return any(event.kind == "unknown" for event in self.run.labels)

    def _fixing(self, space, others, name=None):
        """Redundant directions that keep ``others`` fixed; with ``name``, those of its `Family`."""
        if not others or space is None:
            return space
        key = id(space), others, id(space.families.get(name))
        if key not in self.known:
            self.known[key] = space.fixing(others, name)
        return self.known[key]

    def _why(self, name, index):
        """The events that directly involve these numbers of a parameter, most frequent first."""
        met = Counter()
        for event, labels in self.run.labels.items():
            if name in labels and (many := int(labels[name][index].sum())):
                met[event] = many
        return tuple(event for event, _ in met.most_common())

    def _verdict(self, row, index, predicted, flat):
        kinds = {e.kind for e in row.why}
        corner = "corner" in kinds or any(e.operation in CORNERS for e in row.why)
        unknown = not row.why or "unknown" in kinds or corner or self.run.faint
        free, rest = predicted.apart(row.name, index)
        more = flat.together(row.name, index) if flat else 0
        if self._changes(predicted, row.name, index) or row.alone and self._shows(free):
            return UNKNOWN if unknown else DISAGREE
        if not self.used[row.name][index].any():
            return UNREACHED
        if more and (
            "unknown" in kinds or not self._changes(flat, row.name, index, FAR, more=True)
        ):
            return UNKNOWN if unknown or self._lost else DISAGREE
        if row.alone < row.size and not self._seen(row.name, rest):
            return UNKNOWN if unknown else DISAGREE
        return AGREE

    def _changes(self, space, name, index, sizes=(1.0,), more=False):
        """Whether moving these numbers along directions of ``space`` changes an output."""
        if not space.together(name, index):
            return False
        moves = [{n: size * t for n, t in space.move(name, index).items()} for size in sizes]
        return any(self._shows(move, more) for move in moves)

    def _shows(self, move, more=False):
        """Whether a redundant move changes an output; raises Unclear if rounding may explain it."""
        if not self.measurement.shows(move, unseen(move), more):
            return False
        rounding = unseen(move) * self.measurement.sensitivity
        if rounding > SEEN:
            raise Unclear(
                "the model amplifies rounding errors too much for a finite move to be judged"
            )
        return self.measurement.shows(move, rounding, more)

    def _seen(self, name, move):
        """Whether moving a bias, on which outputs are predicted to depend, changes an output."""
        heard = self.measurement.heard.get(name, 0.0 if self.measurement.heard else 1.0)
        return self.measurement.shows(move, max(SEEN * min(1.0, heard), unseen(move)), more=True)

    # --- notes on the whole model

    def _notes(self, rows):
        if not self.parameters:
            yield "on these inputs the model adds no bias or shift as it is"
        if self.parameters and self.patch.caught:
            places = ", ".join(sorted(self.patch.caught))
            yield f"the model computes in float32, and this audit in float64, in {places}"
        if self.large:
            reason = f"autograd fails ({self.refused})" if self.refused else "too many numbers"
            yield (
                f"{reason} for a Jacobian: instead, each bias was moved along its redundant directions and "
                "along the others; redundant directions that no rule finds would not show"
            )
        if self.parameters and self.measurement.stuck:
            yield "the model ran on the given inputs only, so all counts hold for these"
        elif self.parameters and (same := kept(self.call)):
            yield f"the model also ran on random inputs, in which {listed(same)} stayed as given"
        if many := sum(row.flat for row in rows if row.verdict == AGREE):
            yield (
                f"along {many} more direction{'s' * (many > 1)} the derivative is zero, but a finite move "
                "changes the outputs: a unit is off, few inputs reach a table, a branch switches, or a "
                "part is detached"
            )
        if unused := self.roles.unused:
            some = ", ".join(unused[:3])
            yield f"not used on these inputs: {some}{' and more' * (len(unused) > 3)}"
        if self.roles.bent:
            named = listed(list(self.roles.bent)[:3])
            yield f"left out, because they are changed before they are used: {named}"
        if self.roles.tables:
            named = ", ".join(list(self.roles.tables)[:3])
            yield f"left out, because they differ from token to token: {named}"
