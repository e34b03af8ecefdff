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

from .nullity import CUT, MARGIN, demand_gap, gradients, svd

#: How many rows of the Jacobian are computed at a time.
CHUNK = 128
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
    outputs at one input.  Rows are drawn until they outnumber the parameters by a quarter, and then
    until another quarter leaves the rank unchanged.  Without ``ranks``, only finite moves are made.
    """

    def __init__(
        self,
        subject: Any,
        calls: Iterable[tuple],
        parameters: dict[str, torch.Tensor],
        ranks: bool = True,
    ):
        self.subject, self.calls, self.parameters = subject, iter(calls), parameters
        self.size = sum(p.numel() for p in self.parameters.values())
        self.drawn, self.kept, self.stuck, self.heard = [], TRIED, True, {}
        if not ranks:
            with torch.no_grad():
                for _ in range(TRIED):
                    self._at()
            return
        self.generator = torch.Generator().manual_seed(subject.seed)
        rows = self._more(math.ceil((1 + MARGIN) * self.size))
        while True:
            self._decompose(rows)
            more = self._more(math.ceil(MARGIN * self.size))
            if not (more / self.units @ self.null.T).abs().gt(CUT * self.largest).any():
                break
            rows = torch.cat([rows, more])

    def _decompose(self, rows):
        """Find the null space of these rows, with a scale for the columns of each parameter.

        If outputs depend on a layer a million times less than on others, the layer's columns would
        count as zero.  So each parameter's longest column is scaled to length 1, unless rounding
        explains that length: up to n 2^-52 times the longest of n columns or the largest output.
        """
        triangle = torch.linalg.qr(rows, mode="r").R
        norms, noise, start = triangle.norm(dim=0), max(triangle.shape) * 2.0**-52, 0
        whole = max(norms.max().item(), self.drawn[0][1].abs().max().item())
        self.units = torch.ones(self.size, dtype=torch.float64)
        for name, parameter in self.parameters.items():
            mine = slice(start, start := start + parameter.numel())
            if (largest := norms[mine].max().item()) > noise * whole:
                self.units[mine], self.heard[name] = largest, largest / whole
        _, self.values, right = svd(triangle / self.units)
        # the first value is below 1 only if no output depends on any parameter
        self.largest = max(self.values[0].item(), 1.0)
        self.null = right[int((self.values > CUT * self.largest).sum()) :]

    def outputs(self, call: tuple) -> torch.Tensor:
        """All outputs at these inputs, as one long vector."""
        return torch.cat([t.flatten() for t in self.subject.run(call)])

    def _more(self, wanted):
        """Further rows of the Jacobian; one input makes at most half as many as parameters."""
        found: list[torch.Tensor] = []
        while (left := wanted - sum(map(len, found))) > 0:
            found += self._rows(min(left, math.ceil(self.size / 2)))
        return torch.cat(found)

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

    def _rows(self, wanted):
        """Blocks of at most ``wanted`` rows of the Jacobian at one input."""
        parameters = self.parameters.values()
        for parameter in parameters:
            parameter.requires_grad_()
        try:
            with DifferentiableStatistics():  # also in a backward pass, which may rerun a part
                outputs = self._at()
                count = min(wanted, len(outputs))
                if not outputs.requires_grad:  # the outputs depend on no parameter
                    return [outputs.new_zeros(count, self.size)]
                shapes = [(min(CHUNK, count - i), len(outputs)) for i in range(0, count, CHUNK)]
                drawn = (
                    torch.randn(s, generator=self.generator, dtype=torch.float64) for s in shapes
                )
                mixtures = ((d / len(outputs) ** 0.5).to(outputs) for d in drawn)
                return [gradients(outputs, parameters, mixture) for mixture in mixtures]
        finally:
            for parameter in parameters:
                parameter.requires_grad_(False)

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
