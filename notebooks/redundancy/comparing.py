"""Compare what two models compute, number by number, for example a port and its original.

    found = compare(original, port)
    print(found)            # a sentence for each difference, and how far the outputs differ
    found.same              # whether both models compute the same, up to rounding

A number is compared with the one that is used in the same place, regardless of the names of
parameters and of how they are stored (`aligning`).  If biases differ, their difference moves the
first model's biases to the second's.  This move is followed through every operation (`shift`) and
then made, alone and together with the other differences, which may cancel it.  This distinguishes a
key bias that was loaded as zeros, or a b_V that was folded into b_O, from a bias that was lost.  A
redundant bias may still be so large that it costs digits (chapter 15).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import torch
from torch import nn

from .aligning import FIRST, PARTS, SECOND, CannotCompare, Reader, pairs
from .fold.choosing import LONGEST
from .fold.equality import BOUND, HARMLESS, LOSS, apart
from .fold.reading import OneMove
from .measure.inputs import WrongInputs, as_call, demand_runs, placed, tensors
from .measure.precision import demand_values, one_thread_if_small
from .measure.subject import Subject, exactly, unwrapped
from .models.checkpoints import is_name, load
from .models.guessing import problem_of
from .shift.factors import Factors
from .shift.living import dead
from .tables import grouped, listed, starred

__all__ = ["CannotCompare", "Comparison", "Difference", "compare"]

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
    with numbers that both models can store; ``apart`` is empty if no inputs suit both.
    """

    differences: tuple[Difference, ...]
    apart: dict[str, float]
    rounding: float

    @property
    def same(self):
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
        said = f"{said}; rounding alone explains {self.rounding:.1e}" if said else (
            "an unknown amount, because no inputs suit both models")  # fmt: skip
        return "\n".join([*lines, f"Their outputs differ by {said}."])


def compare(one: nn.Module | str, other: nn.Module | str, inputs=None) -> Comparison:
    """A `Comparison` of what two models compute in evaluation mode; neither model is changed.

    The models are modules, or names or folders of checkpoints, with the same layers in the same
    order.  ``inputs`` are as for `audit`.  Raises CannotCompare if the models are not built alike,
    CannotRead if a model's numbers are unreadable, and WrongInputs if a model does not run.
    """
    models = [unwrapped(load(m) if is_name(m) else m) for m in (one, other)]
    for model in models:
        demand_values(model)
    with one_thread_if_small(models[0]), torch.no_grad():
        *calls, same = _calls(models, inputs)
        given = [_returned(*both) for both in zip(models, calls)]
        with exactly():
            stored = max((_like(m).dtype for m in models), key=lambda t: torch.finfo(t).eps)
            first = _Side(models[0], calls[0], stored)
            second = _Side(models[1], calls[1], stored, first.own.tensors.values())
            judge = _Judge((first, second), given, same, stored)
            return Comparison(tuple(judge.differences()), judge.apart, judge.rounding)


def _calls(models, inputs):
    """(inputs for the first model, inputs for the second, whether these are the same)."""
    try:
        first = as_call(models[0], inputs)
    except WrongInputs:
        first = as_call(models[1], inputs)
    demand_runs(models[0], first, times=1)
    for second in (first, ((*first[0], *first[1].values()), {})):
        if _returned(models[1], second):
            return first, second, True
    second = first if inputs is not None else as_call(models[1], None)
    demand_runs(models[1], second, times=1)
    return first, second, False


def _like(model):
    return next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))


def _returned(model, call):
    """The tensors that a model returns when it runs in its own dtype; none if it fails."""
    found, like = [], _like(model)
    args, kwargs = placed(call, like.device, like.dtype)
    problem_of(model, args, kwargs, keep=lambda out: found.extend(tensors(out)))
    return found


def _apart(found, expected):
    """`apart` of the outputs that have the same shape in both models; infinite if none has."""
    both = [(a, b) for a, b in zip(found, expected) if a.shape == b.shape]
    return apart(*zip(*both)) if both else math.inf


def _rounded(tensor, dtype):
    """Round a tensor's numbers to a dtype, with ``copy_`` because `exactly` undoes casts."""
    return torch.empty(tensor.shape, dtype=dtype).copy_(tensor).double()


def _known(model, stored, others):
    """{id of a parameter: an equal tensor of the other model}; no tensor is used twice."""
    found = {}
    for parameter in filter(torch.is_floating_point, model.parameters()):
        mine = _rounded(parameter.detach(), stored)
        same = (i for i, t in enumerate(others) if t.shape == mine.shape and torch.equal(t, mine))
        if (at := next(same, None)) is not None:
            found[id(parameter)] = nn.Parameter(others.pop(at), requires_grad=False)
    return found


class _Side:
    """One of the two models, to read its numbers and to test whether outputs depend on a move.

    The numbers are rounded to ``stored``, the coarser of the two models' dtypes.  A tensor that
    equals one of ``others``, the tensors of the other side, shares memory with that one.
    """

    def __init__(self, model, call, stored, others=()):
        dtype = _like(model).dtype
        self.unit, self.dtype = torch.finfo(dtype).eps, str(dtype).removeprefix("torch.")
        self.own = Subject(model, inject=True, own=True, known=_known(model, stored, [*others]))
        self.call = placed(call, "cpu", torch.float64)
        self.own.model.cpu().eval()
        self.own.training = False
        self.own.renew()
        self.own.tensors |= {n: b for n, b in self.own.model.named_buffers() if "running_var" in n}
        for tensor in filter(torch.is_floating_point, self.own.tensors.values()):
            rounded = _rounded(tensor, stored)
            if not torch.equal(rounded, tensor):
                tensor.data = rounded
        self.uses = Factors(self.own.tensors, self.call)
        with self.uses:
            self.own.run(self.call)
        self.generic = self._with_other_biases()
        self.before = self.generic.run(self.call)
        self.plan = dead(lambda: self.generic.run(self.call))
        self.numbers = Reader(self.own, self.uses, self.generic.uses(self.call).added)

    def _with_other_biases(self):
        """The same model with random biases, as a bias of zero or 1e30 can hide a dependence."""
        made, chance = self.own.twin(), torch.Generator().manual_seed(0)
        for name in self.uses.added:
            drawn = torch.randn(made.tensors[name].shape, generator=chance, dtype=torch.float64)
            made.tensors[name].data = drawn / 3
        return made

    def unseen(self, moves, rounding):
        """Words that say why no output depends on a move [(`Numbers`, amounts)], or None.

        The move is exact up to ``rounding`` and is scaled to numbers near 1.  Returns None if
        an operation depends on the move, or if the move changes outputs more than rounding does.
        """
        move, noise, chance = {}, {}, torch.Generator().manual_seed(0)
        for numbers, by in moves:
            zeros = torch.zeros(self.generic.tensors[numbers.name].numel(), dtype=torch.float64)
            signs = torch.randint(2, by.shape, generator=chance) * 2.0 - 1
            move.setdefault(numbers.name, zeros.clone())[numbers.index] += by
            noise.setdefault(numbers.name, zeros)[numbers.index] = rounding * signs
        run = OneMove(self.generic.tensors, move, rounding, self.plan)
        if not run.passes(lambda: self.generic.run(self.call)):
            return None
        if self._changed(move) > max(2 * BOUND, LOSS * self._changed(noise)):
            return None
        erased = [e for e in run.events if e.kind == "erased" and e.theorem]
        return "".join(f" ({e.words} [{e.theorem}])" for e in erased[:1])

    def _changed(self, move):
        with self.generic.moved(move):
            return _apart(self.generic.run(self.call), self.before)

    def idle(self, numbers, by):
        """Whether a change of these numbers changes no bit of the outputs at the given inputs."""
        rows, index = numbers.rows, numbers.index
        stores = {t.untyped_storage()._cdata for t in self.own.tensors.values()}
        if rows.untyped_storage()._cdata not in stores:  # each run computes these rows anew
            return False
        before, kept = self.own.run(self.call), rows[index].clone()
        rows[index] = kept + by
        after = self.own.run(self.call)
        rows[index] = kept
        return _apart(after, before) == 0


def _moves(group, side, weight):
    """A group's weighted move from first model to second, divided by its largest number."""
    largest = max(n.values.abs().max() for p in group for n in p.both)
    return [(p.both[side], weight * p.gap / largest) for p in group]


class _Judge:
    """Finds the differences between two sides, and judges which of them the outputs depend on."""

    def __init__(self, sides, given, same, stored):
        self.sides, self.unseen, self.because, self.moved = sides, {}, {}, 0.0
        self.depend = set()  # groups of pairs on which outputs depend
        self.unit = torch.finfo(stored).eps
        self.summed = SUMMED * min(self.unit, torch.finfo(torch.float32).eps)
        self.pairs = [p for p in pairs(*(s.numbers for s in sides)) if any(p.has)]
        self.differing = [p for p in self.pairs if self._differs(p)]
        exact = [s.own.run(s.call) for s in sides]
        shares = [_apart(g, e) / s.unit for g, e, s in zip(given, exact, sides)]
        self.rounding, self.apart = self.unit * min(shares), {}
        if same and exact[0][0].shape == exact[1][0].shape:
            dtypes = " and ".join(dict.fromkeys(s.dtype for s in sides))
            self.apart = {dtypes: _apart(*given), "float64": _apart(*exact)}
        alike = all(p.kind == "biases" and all(p.both) for p in self.differing)
        alike = alike and bool(self.apart) and self.apart["float64"] <= LOSS * self.rounding
        # one side is enough if only biases differ and the outputs agree
        self.asked = [0] if alike else [0, 1]

    def _differs(self, pair):
        """Whether a pair's numbers differ by more than rounding, even the rounding of long sums."""
        values = [n.values for n in pair.both if n]
        if torch.equal(values[0], values[-1]) and all(pair.both):
            return False
        each = torch.maximum(values[0].abs(), values[-1].abs())
        return bool((pair.gap.abs() > self.unit * each + self.summed * each.max()).any())

    def differences(self):
        """Every `Difference` in numbers, and one in outputs if no numbers explain it."""
        asked = [p for p in self.pairs if p in self.differing or p.has[0] != p.has[1]]
        biases = [p for p in self.differing if p.kind == "biases" and all(p.both)]
        left = lambda some: [p for p in some if p not in self.unseen]
        for some in grouped(biases, lambda p: (starred(p.place), p.what)):
            self._try([[p] for p in some])
        for parts in (PARTS[2:], ("", *PARTS)):  # b_V and b_O first, as b_O may absorb b_V
            some = [p for p in biases if p.part in parts]
            self._try([left(layer) for layer in grouped(some, lambda p: p.layer)])
        self._try([left(biases)])
        found = [
            Difference(p.place, self._what(p), p.gap.abs().max().item(), *self._seen(p))
            for p in asked
        ]
        return found if any(d.counts for d in found) else [*found, *self._unexplained()]

    def _try(self, groups):
        """Record each group of differences on which, taken together, no output depends.

        Moves without effect form a subspace: if a random sum has no effect, no summand has any.
        """
        groups = [g for g in groups if g and frozenset(g) not in self.depend]
        if not groups:
            return
        chance = torch.Generator().manual_seed(0)
        weights = 1 + torch.rand(len(groups), generator=chance, dtype=torch.float64)
        for i in self.asked:
            moves = [one for g, w in zip(groups, weights) for one in _moves(g, i, w)]
            said = self.sides[i].unseen(moves, self.unit + self.summed)
            if said is None:
                if len(groups) == 1:
                    self.depend.add(frozenset(groups[0]))
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
            like = lambda p: p.part in PARTS[:3] and (p.layer, p.kind) == (pair.layer, pair.kind)
            beside = [p for p in self.pairs if like(p) and all(p.both)]
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
        side, mine = next((s, n) for s, n in zip(self.sides, pair.both) if n)
        if pair in self.unseen:
            cost = self._cost(pair)
            return f"no output depends on them{self.because[pair]}{cost}", bool(cost)
        if pair not in self.differing:
            other = [(mine, torch.linspace(0.5, 1, len(mine.values), dtype=torch.float64))]
            never = pair.kind == "biases" and side.unseen(other, self.summed) is not None
            said = "they are zero here; if they were not, outputs would depend on them"
            return "no output depends on them" if never else said, False
        rounded = self.rounding * min(1, torch.finfo(torch.float32).eps / self.unit)
        alike = self._alike(min(self.moved, LONGEST), rounded)
        idle = (s.idle(n, pair.gap) for s, n in zip(self.sides, pair.both) if n)
        if (alike or not self.apart) and all(idle):
            return "these inputs do not use them, so it is not known whether they matter", True
        if alike and any(p.kind != "biases" for p in self.differing):
            return "these outputs differ by no more than rounding", False
        return "outputs depend on them", True

    def _cost(self, pair):
        """A warning if a redundant bias makes scores so large that they lose digits, else ""."""
        weights = [p for p in self.differing if p.layer == pair.layer and p.kind != "biases"]
        if pair.part not in PARTS[:2] or any(p.part in PARTS[:2] for p in weights):
            return ""
        peaks = [s.uses.layers[pair.layer].peak for s in self.sides]
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
        return bool(self.apart) and self.apart["float64"] <= BOUND * (1 + moved) + rounded

    def _unexplained(self):
        """Yield a `Difference` if outputs differ although no number explains it."""
        size = max(self.apart.values(), default=0.0)
        rounded = LOSS * self.rounding * any(p.gap.any() for p in self.pairs)
        if self.apart and not self._alike(self.moved, rounded):
            seen = "the numbers agree, but the models use them differently (an activation, an "
            seen += "epsilon, a mask)"
        elif size > max(HARMLESS, LOSS * self.rounding):
            seen = "a redundant bias is so large that it costs digits"
        else:
            return
        yield Difference("the outputs", "they differ", size, seen, True)
