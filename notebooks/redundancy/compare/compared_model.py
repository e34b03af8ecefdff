"""Run one of two compared models, list its numbers, test whether its outputs depend on a move."""

from __future__ import annotations

import torch
from torch import nn

from ..fold.equality import BOUND, LOSS, apart
from ..fold.one_move import OneMove
from ..measure.inputs import placed
from ..measure.subject import Subject
from ..shift.factors import Factors
from .pairing import Reader


def like(model: nn.Module) -> torch.Tensor:
    """The first floating-point parameter of a model, for its dtype and its device."""
    return next((p for p in model.parameters() if p.is_floating_point()), torch.zeros(()))


class ComparedModel:
    """A model in float64 and in evaluation, with its numbers rounded to the dtype ``stored``."""

    def __init__(self, model, call, stored):
        self.unit = torch.finfo(like(model).dtype).eps
        self.dtype = str(like(model).dtype).removeprefix("torch.")
        self.own, self.call = (
            Subject(model, inject=True, own=True),
            placed(call, "cpu", torch.float64),
        )
        self.own.model.eval()
        self.own.training = False
        self.own.renew()
        self.own.tensors |= {n: b for n, b in self.own.model.named_buffers() if "running_var" in n}
        for tensor in filter(torch.is_floating_point, self.own.tensors.values()):
            # with copy_ because `exactly` undoes casts
            tensor.data = torch.empty(tensor.shape, dtype=stored).copy_(tensor).double()
        self.roles = Factors(self.own.tensors, self.call)
        with self.roles:
            self.outputs = self.own.run(self.call)
        self.numbers = Reader(self.own, self.roles)
        self.generic, chance = self.own.twin(), torch.Generator().manual_seed(0)
        for name in self.roles.added:  # as a bias of zero or of 1e30 can hide a dependence
            bias = self.generic.tensors[name]
            bias.data = torch.randn(bias.shape, generator=chance, dtype=torch.float64) / 3
        self.before = self.generic.run(self.call)

    def unseen(self, moves, rounding: float) -> str | None:
        """Words that say why no output depends on a move [(`Numbers`, amounts)], or None.

        The move is exact up to ``rounding`` and is scaled to numbers near 1.  An output depends on
        it if an operation does, or if the outputs change by more than rounding explains.
        """
        move: dict = {}
        noise: dict = {}
        chance = torch.Generator().manual_seed(0)
        for numbers, by in moves:
            zeros = torch.zeros(self.generic.tensors[numbers.name].numel(), dtype=torch.float64)
            signs = torch.randint(2, by.shape, generator=chance) * 2.0 - 1
            move.setdefault(numbers.name, zeros.clone())[numbers.index] += by
            noise.setdefault(numbers.name, zeros)[numbers.index] = rounding * signs
        one = OneMove(self.generic.tensors, move, rounding)
        one.follow(lambda: self.generic.run(self.call))
        if one.failed or self._changed(move) > max(2 * BOUND, LOSS * self._changed(noise)):
            return None
        erased = [e for e in one.events if e.kind == "erased" and e.theorem]
        return "".join(f" ({e.words} [{e.theorem}])" for e in erased[:1])

    def _changed(self, move) -> float:
        """How far a move changes the outputs, relative to the largest."""
        with self.generic.moved(move):
            return apart(self.generic.run(self.call), self.before)

    def idle(self, numbers, by) -> bool:
        """Whether a change of these numbers changes no bit of the outputs at the given inputs."""
        rows, index = numbers.rows, numbers.index
        stores = {t.untyped_storage()._cdata for t in self.own.tensors.values()}
        if rows.untyped_storage()._cdata not in stores:  # each run computes these rows anew
            return False
        kept = rows[index].clone()
        rows[index] = kept + by
        after = self.own.run(self.call)
        rows[index] = kept
        return all(map(torch.equal, after, self.outputs))
