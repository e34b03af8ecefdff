"""Turn the LayerNorms of a pre-norm model into RMSNorms, and return an equivalent model.

LayerNorm is centring followed by RMSNorm (Remark 7.3), and centring is linear, so the matrices that
write to the residual stream can do the centring (Theorem 14.2).  A matrix writes to it if a number
added to all its outputs reaches LayerNorms and nothing else.  Such a matrix loses the mean of its
outputs, and every LayerNorm becomes an RMSNorm with the same gain and eps.  A LayerNorm's shift
moves into the layers after the norm (Remark 6.3), or stays if they cannot absorb it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..shift.moves import NOISE
from .choosing import Outcome, move_biases
from .equality import Bench
from .folding import Folded, finished
from .one_move import CannotFold, Steps, followed


class ShiftedRMSNorm(nn.RMSNorm):
    """An RMSNorm that also adds a shift; it replaces a LayerNorm whose shift has to stay."""

    def __init__(self, size, eps, bias):
        super().__init__(size, eps)
        self.bias = nn.Parameter(bias)

    def forward(self, x):
        return super().forward(x) + self.bias


def as_rms_norm(model: nn.Module, inputs: Any = None) -> Folded:
    """Return a `Folded` whose model has an RMSNorm wherever the given model has a LayerNorm.

    Raises CannotFold if the inputs of a LayerNorm cannot be centred, NotEqual if outputs change.
    """
    bench = Bench(model, inputs)
    with bench.open():
        move_biases(bench, ("shifts",))
        heard = centre_writers(bench)
        demand_centred(bench, [Steps(bench.after, call) for call in bench.calls], heard)
        replace_norms(bench.after.model)
    return finished(bench)


def centre_writers(bench):
    """Subtract each mean that only LayerNorms read; list tensors whose mean others read, too."""
    heard = []
    for name, tensor in bench.after.tensors.items():
        axes = [a for a in (0, tensor.dim() - 1) if tensor.dim() and tensor.shape[a] > 1][-2:]
        for axis in dict.fromkeys(axes):
            shape = [1 if a == axis else n for a, n in enumerate(tensor.shape)]
            numbers = torch.randn(shape, generator=torch.Generator().manual_seed(0)).double()
            change = {name: numbers.expand(tensor.shape).contiguous()}
            one = followed(bench.after, bench.calls, change)
            if {e.kind for e in one.events if e.theorem == "7.1"} != {"erased"}:
                continue
            if not one.failed:
                tensor.data = tensor - tensor.mean(axis, keepdim=True)
                text = "LayerNorms cancel it [14.2]"
                bench.rows.append(Outcome("removed", name, "mean", text))
                break
            heard.append(name)
    return heard


def demand_centred(bench, runs, heard):
    """Raise CannotFold unless every LayerNorm runs, on rows whose mean is zero."""
    for run in runs:
        for step in (s for s in run.steps if s.name == "native_layer_norm"):
            x, axes = step.args[0], range(-len(step.args[1]), 0)
            if x.mean(list(axes)).abs().max() > NOISE * x.abs().max():
                name = (run.named(step, 2) or "a LayerNorm").removesuffix(".weight")
                raise CannotFold(f"the input of {name} cannot be centred{_because(bench, heard)}")
    for name, norm in bench.after.model.named_modules():
        if type(norm) is nn.LayerNorm and not any(norm in run.ran for run in runs):
            raise CannotFold(f"{name} does not run on these inputs")


def _because(bench, heard):
    """Say in words why the input of a LayerNorm cannot be centred."""
    every = dict(bench.after.model.named_parameters(remove_duplicate=False))
    if not (heard := [name for name in heard if every[name].dim() > 1]):
        return ": part of it is not the output of a matrix"
    tied = [n for n, p in every.items() if p is every[heard[0]] and n != heard[0]]
    also = f", which is tied to {', '.join(tied)}: untie it" if tied else ""
    return f": not only LayerNorms depend on the mean of {heard[0]}{also}"


def replace_norms(model: nn.Module) -> None:
    """Replace, in place, every LayerNorm by an RMSNorm with the same gain, eps and (if not zero) shift."""
    for name, norm in list(model.named_modules(remove_duplicate=False)):
        if type(norm) is nn.LayerNorm:
            size, eps, shift = norm.normalized_shape, norm.eps, norm.bias
            shifted = shift is not None and shift.any()
            made = ShiftedRMSNorm(size, eps, shift.detach()) if shifted else nn.RMSNorm(size, eps)
            made.weight = norm.weight
            model.set_submodule(name, made.to(norm.weight.device).train(norm.training))
