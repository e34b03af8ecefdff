"""Find the differences between two models, and judge which of them the outputs depend on.

A number is compared with the one that is used in the same place, regardless of the names of
parameters and of how they are stored (`pairing`).  If biases differ, their difference moves the
first model's biases to the second's.  This move is followed through every operation (`shift`),
alone and together with the other differences, which may cancel it.  This distinguishes a key bias
that was loaded as zeros, or a b_V that was folded into b_O, from a bias that was lost.  A move that
no operation depends on is then made, and the change of the outputs is measured.  Finally, the
outputs of the two models are compared.  A redundant bias may still be so large that it costs
precision (chapter 15).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from ..fold.choosing import LONGEST
from ..fold.equality import BOUND, HARMLESS, LOSS, apart
from ..measure.inputs import as_call, demand_runs, placed, tensors
from ..measure.precision import demand_values, one_thread_if_small
from ..measure.subject import exactly, unwrapped
from ..models.checkpoints import is_name, load
from ..models.guessing import problem_of
from ..tables import grouped, listed, starred
from .compared_model import ComparedModel, like
from .pairing import FIRST, PARTS, SECOND, CannotCompare, pairs

#: The rounding error of a sum of 4096 terms, in units in the last place: the terms' errors add up
#: like a random walk, so that the total grows with the square root of the number of terms.
SUMMED = 64


@dataclass(frozen=True)
class Difference:
    """One difference between two models; ``counts`` says whether outputs depend on it."""

    place: str
    what: str
    size: float
    seen: str
    counts: bool

    def __str__(self):
        return f"{self.place}: {self.what} (by at most {self.size:.1e}): {self.seen}"


@dataclass(frozen=True)
class Comparison:
    """The report of `compare`; ``apart`` is {dtype: relative difference of the outputs}.

    The outputs are compared in the models' own dtypes, whose error is ``rounding``, and in float64
    with numbers that both models can store.
    """

    differences: tuple[Difference, ...]
    apart: dict[str, float]
    rounding: float

    @property
    def same(self) -> bool:
        """Whether the two models compute the same, up to rounding."""
        return not any(d.counts for d in self.differences)

    def __str__(self):
        lines = [f"The two models compute {'the same' if self.same else 'different outputs'}."]
        alike = lambda d: (starred(d.place), d.what, re.sub(r"\de[+-]\d+", "*", d.seen))
        for some in grouped(self.differences, alike):
            worst = max(some, key=lambda d: d.size)
            lines.append(str(worst) + (f" (in {len(some)} places)" if len(some) > 1 else ""))
        if not self.differences:
            lines.append("All numbers are the same, in the order in which they are used.")
        said = " and ".join(f"{size:.1e} in {dtype}" for dtype, size in self.apart.items())
        said = f"{said}; rounding alone explains {self.rounding:.1e}"
        return "\n".join([*lines, f"Their outputs differ by {said}."])


def compare(one: nn.Module | str, other: nn.Module | str, inputs: Any = None) -> Comparison:
    """A `Comparison` of what two models compute in evaluation mode; neither model is changed.

    The models are modules, or names or folders of checkpoints, with the same layers in the same
    order.  ``inputs`` are as for `audit`.  Raises CannotCompare if the models are not built alike,
    CannotRead if a model's numbers are unreadable, and WrongInputs if a model does not run.
    """
    models = [unwrapped(load(m) if is_name(m) else m) for m in (one, other)]
    for model in models:
        demand_values(model)
    with one_thread_if_small(models[0]), torch.no_grad():
        calls = _calls(models, inputs)
        given = [_returned(*both) for both in zip(models, calls)]
        with exactly():
            stored = max((like(m).dtype for m in models), key=lambda t: torch.finfo(t).eps)
            sides = [ComparedModel(model, call, stored) for model, call in zip(models, calls)]
            judge = _Judge(sides, given, stored)
            return Comparison(tuple(judge.differences()), judge.apart, judge.rounding)


def _calls(models, inputs):
    """The inputs for each model: the same, or by position if their names differ."""
    args, named = first = as_call(models[0], inputs)
    demand_runs(models[0], first, times=1)
    for second in (first, ((*args, *named.values()), {})):
        if _returned(models[1], second):
            return first, second
    demand_runs(models[1], first, times=1)
    raise CannotCompare(f"{SECOND} returns no numbers on the inputs of {FIRST}")


def _returned(model, call):
    """The tensors that a model returns when it runs in its own dtype; none if it fails."""
    found = []
    args, kwargs = placed(call, like(model).device, like(model).dtype)
    problem_of(model, args, kwargs, keep=lambda out: found.extend(tensors(out)))
    return found


def _apart(found, expected):
    """`apart` of the outputs that have the same shape in both models.  Raises CannotCompare."""
    both = [(a, b) for a, b in zip(found, expected) if a.shape == b.shape]
    if not both:
        raise CannotCompare("no output has the same shape in both models")
    return apart(*zip(*both))


def _moves(group, side, weight):
    """A group's weighted move from first model to second, divided by its largest number."""
    largest = max(n.values.abs().max() for p in group for n in p.both)
    return [(p.both[side], weight * p.gap / largest) for p in group]


class _Judge:
    """Finds the differences between two `ComparedModel`s, and judges which of them the outputs depend on."""

    def __init__(self, sides, given, stored):
        self.sides, self.unseen, self.because, self.moved = sides, {}, {}, 0.0
        self.unit = torch.finfo(stored).eps
        self.summed = SUMMED * min(self.unit, torch.finfo(torch.float32).eps)
        self.pairs = [p for p in pairs(*(s.numbers for s in sides)) if any(p.has)]
        self.differing = [p for p in self.pairs if self._differs(p)]
        shares = [_apart(g, s.outputs) / s.unit for g, s in zip(given, sides)]
        self.rounding = self.unit * min(shares)
        dtypes = " and ".join(dict.fromkeys(s.dtype for s in sides))
        self.apart = {dtypes: _apart(*given), "float64": _apart(*(s.outputs for s in sides))}

    def _differs(self, pair):
        """Whether a pair's numbers differ by more than rounding, even the rounding of long sums."""
        values = [n.values for n in pair.both if n]
        if torch.equal(values[0], values[-1]) and all(pair.both):
            return False
        each = torch.maximum(values[0].abs(), values[-1].abs())
        return bool((pair.gap.abs() > self.unit * each + self.summed * each.max()).any())

    def differences(self) -> Iterator[Difference]:
        """Yield every `Difference` in numbers, and one in outputs if no numbers explain it."""
        biases = [p for p in self.differing if p.kind == "biases" and all(p.both)]
        left = lambda some: [p for p in some if p not in self.unseen]
        for some in grouped(biases, lambda p: (starred(p.place), p.what)):
            self._try([[p] for p in some])
        averaged = [p for p in biases if p.part in PARTS[2:]]  # b_O may absorb b_V
        self._try([left(layer) for layer in grouped(averaged, lambda p: p.layer)])
        self._try([left(biases)])
        counted = False
        for p in self.pairs:
            if p in self.differing or p.has[0] != p.has[1]:
                seen, counts = self._seen(p)
                counted = counted or counts
                yield Difference(p.place, self._what(p), p.gap.abs().max().item(), seen, counts)
        if not counted:
            yield from self._unexplained()

    def _try(self, groups):
        """Record each group of differences on which, taken together, no output depends.

        Moves without effect form a subspace: if a random sum has no effect, no summand has any.
        """
        groups = [g for g in groups if g]
        chance = torch.Generator().manual_seed(0)
        weights = 1 + torch.rand(len(groups), generator=chance, dtype=torch.float64)
        said = ""
        for i, side in enumerate(self.sides if groups else ()):
            moves = [one for g, w in zip(groups, weights) for one in _moves(g, i, w)]
            said = side.unseen(moves, self.unit + self.summed)
            if said is None:
                for group in groups if len(groups) > 1 else ():
                    self._try([group])
                return
        for group in groups:
            self.moved = max(self.moved, torch.cat([p.gap for p in group]).norm().item())
            self.unseen |= dict.fromkeys(group, group)
            self.because |= dict.fromkeys(group, said)

    def _what(self, pair):
        """Words for what differs, for example that only one model has these numbers."""
        if pair.has[0] != pair.has[1]:
            return f"only {(FIRST, SECOND)[pair.has.index(True)]} has {pair.what}"
        beside = [pair]
        if pair.part in PARTS[:3]:
            same = lambda p: p.part in PARTS[:3] and (p.layer, p.kind) == (pair.layer, pair.kind)
            beside = [p for p in self.pairs if same(p) and all(p.both)]
        for p in beside:
            if pair.both[1].values.any() and torch.equal(p.both[0].values, pair.both[1].values):
                return f"the {pair.what} of {SECOND} are the {p.what} of {FIRST}"
        every = [torch.cat([p.both[i].values.flatten() for p in beside]) for i in (0, 1)]
        order = ", and are the same numbers in another order"
        return f"the {pair.what} differ" + order * torch.equal(*(x.sort().values for x in every))

    def _seen(self, pair):
        """(a clause on what depends on a pair's difference, whether this difference counts)."""
        if others := [p for p in self.unseen.get(pair, ()) if p is not pair]:
            names = listed(f"the {p.what}" if p.part else p.place for p in others)
            return f"{names} make up for it", False
        if pair in self.unseen:
            cost = self._cost(pair)
            return f"no output depends on them{self.because[pair]}{cost}", bool(cost)
        if pair not in self.differing:
            return "they are zero", False
        rounded = self.rounding * min(1, torch.finfo(torch.float32).eps / self.unit)
        if self._alike(min(self.moved, LONGEST), rounded):
            if all(s.idle(n, pair.gap) for s, n in zip(self.sides, pair.both) if n):
                return "these inputs do not use them, so it is not known whether they matter", True
            if any(p.kind != "biases" for p in self.differing):
                return "these outputs differ by no more than rounding", False
        return "outputs depend on them", True

    def _cost(self, pair):
        """A warning if a redundant bias makes scores so large that they lose digits, else ""."""
        weights = [p for p in self.differing if p.layer == pair.layer and p.kind != "biases"]
        if pair.part not in PARTS[:2] or any(p.part in PARTS[:2] for p in weights):
            return ""
        peaks = [s.roles.layers[pair.layer].peak for s in self.sides]
        off = [s.unit / 2 * peak for s, peak in zip(self.sides, peaks)]
        share, i = [math.tanh(x / 2) for x in off], off.index(max(off))
        if share[i] <= max(HARMLESS, LOSS * min(share)):
            return ""
        return (
            f"; but the scores of {(FIRST, SECOND)[i]} reach {peaks[i]:.0e}, which "
            f"{self.sides[i].dtype} rounds by {off[i]:.0e}: outputs may be wrong by "
            f"{share[i]:.1g} times the spread of the values [15.4]"
        )

    def _alike(self, moved, rounded):
        """Whether moved biases and rounding explain how far the float64 outputs differ."""
        return self.apart["float64"] <= BOUND * (1 + moved) + rounded

    def _unexplained(self):
        """Yield a `Difference` if outputs differ although no number explains it."""
        size = max(self.apart.values())
        if not self._alike(self.moved, LOSS * self.rounding * any(p.gap.any() for p in self.pairs)):
            seen = "the numbers agree, but the models use them differently (an activation, an "
            seen += "epsilon, a mask)"
        elif size > max(HARMLESS, LOSS * self.rounding):
            seen = "a redundant bias is so large that it costs precision"
        else:
            return
        yield Difference("the outputs", "they differ", size, seen, True)
