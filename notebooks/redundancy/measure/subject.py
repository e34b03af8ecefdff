"""A float64 copy of a model at a generic point, with runs that are exact and repeatable."""

from __future__ import annotations

import contextlib
import copy
import random
import sys
from typing import Any

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..shift.roles import Roles
from .inputs import fresh, tensors
from .precision import (
    double_precision,
    float64_copy,
    with_every_bias_random,
    with_every_weight_random,
)


def unwrapped(model: Any) -> nn.Module:
    """The module inside PyTorch's wrappers for compilation and for several devices."""
    while isinstance(model, nn.Module):
        if hasattr(model, "_orig_mod"):
            model = model._orig_mod
        elif isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            model = model.module
        else:
            return model
    raise TypeError(f"expected a model (torch.nn.Module), not {type(model).__name__}")


@contextlib.contextmanager
def exactly():
    """A context in which operations run in float64, neither compiled nor fused."""
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with (
            torch.compiler.set_stance("force_eager"),
            sdpa_kernel(SDPBackend.MATH),
            double_precision() as patch,
        ):
            yield patch
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)


@contextlib.contextmanager
def seeded(seed):
    """A context in which a seed determines the random numbers of PyTorch, Python and NumPy."""
    numpy = getattr(sys.modules.get("numpy"), "random", None)  # None unless already imported
    states = random.getstate(), numpy and numpy.get_state()
    random.seed(seed), numpy and numpy.seed(seed)
    try:
        with torch.random.fork_rng([]):
            torch.manual_seed(seed)
            yield
    finally:
        random.setstate(states[0]), numpy and numpy.set_state(states[1])


class Subject:
    """A model to be audited: ``model`` is its float64 copy, moved to a generic point.

    ``weights`` says whether the matrices are random as well, times ``scale``.  ``inject`` adds a bias to every
    linear map and convolution that has none; ``injected`` names these biases.  ``tensors`` holds
    the parameters by name, each tied one once, and in evaluation the running means.  With ``own``,
    every number and every module's mode stays as given.
    """

    def __init__(
        self,
        model: nn.Module,
        training: bool = False,
        weights: bool = True,
        inject: bool = False,
        seed: int = 0,
        own: bool = False,
        scale: float = 1.0,
    ):
        self.model, self.training, self.seed = float64_copy(model), training, seed
        self.model.train(training)
        self.injected = _inject(self.model) if inject else ()
        if own:
            for mine, given in zip(self.model.modules(), model.modules(), strict=True):
                mine.training = given.training
        if weights and not own:
            with_every_weight_random(self.model, seed, scale)
        if not own:
            with_every_bias_random(self.model, seed)
        self.renew()

    def renew(self) -> None:
        """Read ``tensors`` from the model; call this again after changing a module."""
        means = () if self.training else self.model.named_buffers()
        self.tensors: dict[str, torch.Tensor] = dict(self.model.named_parameters())
        self.tensors |= {n: b for n, b in means if "running_mean" in n}

    def twin(self) -> Subject:
        """A copy of this subject with parameters of its own, which may be changed."""
        other, given = copy.copy(self), self.model.parameters()
        own = {id(p): nn.Parameter(p.detach(), requires_grad=False) for p in given}
        other.model = copy.deepcopy(self.model, own)
        other.renew()
        return other

    def run(self, call: tuple, seed: int | None = None) -> list[torch.Tensor]:
        """The tensors that the model returns; the run leaves the model's state unchanged."""
        args, kwargs = fresh(call)
        with seeded(self.seed if seed is None else seed), self._own_buffers():
            return tensors(self.model(*args, **kwargs))

    @contextlib.contextmanager
    def _own_buffers(self):
        """A context in which the model writes into copies of its buffers."""
        held = [(m._buffers, n, b) for m in self.model.modules() for n, b in m._buffers.items()
                if b is not None and not any(b is t for t in self.tensors.values())]  # fmt: skip
        copies = {id(b): b.clone() for _, _, b in held}
        try:
            for buffers, name, buffer in held:
                buffers[name] = copies[id(buffer)]
            yield
        finally:
            for buffers, name, buffer in held:
                buffers[name] = buffer

    @contextlib.contextmanager
    def moved(self, move):
        """A context in which some tensors are moved: {name: by how much}."""
        kept = {n: self.tensors[n].detach().clone() for n in move}
        try:
            with torch.no_grad():
                for name, by in move.items():
                    self.tensors[name].add_(by.view_as(self.tensors[name]))
            yield
        finally:
            with torch.no_grad():
                for name, value in kept.items():
                    self.tensors[name].copy_(value)

    def roles(self, call: tuple) -> Roles:
        """The `Roles` of one run: which tensors the model adds, and in which parts of attention."""
        found = Roles(self.tensors, call)
        with torch.no_grad(), found:
            self.run(call)
        return found


def _inject(model):
    """Give a bias of zeros to every map without a bias; return the names of these biases."""
    made = []
    for name, module in model.named_modules():
        maps = nn.Linear | nn.modules.conv._ConvNd
        if isinstance(module, maps) and getattr(module, "bias", 0) is None:
            size = getattr(module, "out_features", 0) or getattr(module, "out_channels", 0)
            zeros = module.weight.new_zeros(size)
            module.bias = nn.Parameter(zeros, requires_grad=False)
            made.append(f"{name}.bias" if name else "bias")
    return tuple(made)
