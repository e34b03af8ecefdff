"""Measure, at a generic point, which directions of the added parameters change no output.

The Jacobian of all outputs with respect to all added parameters is computed in float64, together
with its null space; then finite moves are made inside and outside that space.  No prediction and no
rule of the calculus is used: autograd computes the Jacobian.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from .nullity import CUT, demand_gap, jacobian, svd

#: At most so many rows of the Jacobian are computed at one input.
ROWS = 128
#: A finite move is tried at no more than the first number of inputs, or the second with ``more``.
TRIED, MANY = 2, 60
#: A move is visible if it changes an output by more than this share of the largest output.
SEEN = 1e-7
#: Parameters change by about this share to test how much a model amplifies small errors.
SMALL = 2.0**-30


def unseen(move: dict[str, torch.Tensor]) -> float:
    """The share of the largest output by which rounding may change outputs after a redundant move.

    A number that is added in one place and subtracted in another makes the numbers in between
    larger and costs them digits.  The share is 2^13 * 2^-53 * (1 + the largest number in ``move``).
    """
    return 2.0**-40 * (1 + max(t.abs().max().item() for t in move.values()))


class DifferentiableStatistics(TorchFunctionMode):
    """Computes batch norm in evaluation mode so that autograd reaches the running means."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function is torch.nn.functional.batch_norm:
            named = inspect.signature(function).bind(*args, **kwargs)
            named.apply_defaults()
            given = named.arguments
            if not given["training"]:  # subtract the mean first, where autograd sees it
                mean = given["running_mean"]
                given["input"] = given["input"] - mean.view(-1, *[1] * (given["input"].dim() - 2))
                given["running_mean"] = torch.zeros_like(mean)
                return function(*named.args, **named.kwargs)
        return function(*args, **kwargs)


class Measurement:
    """The Jacobian of a model's outputs with respect to its added parameters.

    ``subject`` is a `Subject`, ``parameters`` is {name: tensor of the subject}, and ``calls``
    yields inputs without end, the given ones first.  A row is the gradient of a random mixture of
    outputs at one input.  Without ``ranks``, only finite moves are made.
    """

    def __init__(
        self,
        subject: Any,
        calls: Iterable[tuple],
        parameters: dict[str, torch.Tensor],
        ranks: bool = True,
    ):
        self.subject, self.calls, self.parameters = subject, iter(calls), parameters
        self.drawn, self.kept, self.stuck, self.heard = [], TRIED, True, {}
        if ranks:
            self._measure(sum(p.numel() for p in parameters.values()))
        else:
            with torch.no_grad():
                for _ in range(TRIED):
                    self._at()

    def _measure(self, size):
        generator = torch.Generator().manual_seed(self.subject.seed)

        def mixed(_):
            """Random mixtures of the outputs at the next inputs, so few that several are needed."""
            outputs = self._at()
            shape = min(ROWS, math.ceil(size / 2), len(outputs)), len(outputs)
            drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
            return (drawn / len(outputs) ** 0.5).to(outputs) @ outputs

        for parameter in self.parameters.values():
            parameter.requires_grad_()
        try:
            with DifferentiableStatistics():  # also in a backward pass, which may rerun a part
                jacobian(mixed, lambda seed: (), self.parameters, rank=self._rank)
        finally:
            for parameter in self.parameters.values():
                parameter.requires_grad_(False)

    def _rank(self, found):
        """Find the null space of a Jacobian, with a scale for the columns of each parameter.

        If outputs depend on a layer a million times less than on others, the layer's columns would
        count as zero.  So each parameter's longest column is scaled to length 1, unless rounding
        explains that length: up to n 2^-52 times the longest of n columns or the largest output.
        """
        norms = found.triangle.norm(dim=0)
        whole = max(norms.max().item(), self.drawn[0][1].abs().max().item())
        self.units = torch.ones(len(norms), dtype=torch.float64)
        for name in self.parameters:
            mine = found.columns(name)
            if (largest := norms[mine].max().item()) > len(norms) * 2.0**-52 * whole:
                self.units[mine], self.heard[name] = largest, largest / whole
        _, self.values, right = svd(found.triangle / self.units)
        # the first value is below 1 only if no output depends on any parameter
        self.largest = max(self.values[0].item(), 1.0)
        rank = int((self.values > CUT * self.largest).sum())
        self.null = right[rank:]
        return rank

    def outputs(self, call: tuple) -> torch.Tensor:
        """All outputs at these inputs, as one long vector."""
        return torch.cat([t.flatten() for t in self.subject.run(call)])

    def _at(self):
        """The outputs at the next inputs, or at the first ones if the model rejects the next.

        ``stuck`` is true until the model has accepted inputs other than the given ones.
        """
        call = next(self.calls)
        try:
            outputs = self.outputs(call)
        except Exception:  # a model may raise anything, for example for a misplaced image
            outputs = None
        if outputs is None or not outputs.isfinite().all():
            return self.outputs(self.drawn[0][0] if self.drawn else call)
        self.stuck = not self.drawn
        if len(self.drawn) < self.kept:
            self.drawn.append((call, outputs.detach()))
        return outputs

    @functools.cached_property
    def sensitivity(self) -> float:
        """The factor by which relative errors of parameters grow in the outputs; at least 1.

        For example, a BatchNorm over two nearly equal numbers amplifies their rounding errors.
        """
        (call, before), chance = self.drawn[0], torch.Generator().manual_seed(0)
        kept = [(p, p.detach().clone()) for p in self.subject.model.parameters()]
        with torch.no_grad():
            for parameter, value in kept:
                factor = torch.randn(value.shape, generator=chance, dtype=torch.float64)
                parameter.mul_(1 + SMALL * factor.to(parameter))
            change = (self.outputs(call) - before).abs().max() / before.abs().max()
            for parameter, value in kept:
                parameter.copy_(value)
        return max(1.0, change.item() / SMALL)

    # --- results of the measurement

    def basis(self) -> torch.Tensor:
        """An orthonormal basis (directions x numbers) of all redundant directions together.

        Raises UnclearRank if there is no clear gap between the singular values.
        """
        demand_gap(self.values / self.largest)
        return torch.linalg.qr((self.null / self.units).T).Q.T

    def shows(self, move: dict[str, torch.Tensor], share: float, more: bool = False) -> bool:
        """Whether a move changes an output by more than ``share`` of the largest output.

        A few inputs are tried, or many with ``more``, until one of them shows a change.
        """
        self.kept = MANY if more else TRIED
        with torch.no_grad():
            for i in range(self.kept):
                if i == len(self.drawn):
                    self._at()
                if i == len(self.drawn):  # the model accepts no other inputs
                    break
                call, before = self.drawn[i]
                with self.subject.moved(move):
                    change = (self.outputs(call) - before).abs().max() / before.abs().max()
                if not change <= share:
                    return True
        return False
