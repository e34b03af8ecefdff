"""The class `Case`, the sizes that the cases share, and functions that make modules and inputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

#: The numbers of stream features, heads, features per head, hidden features and tokens.
D, H, K, F, N = 8, 2, 4, 12, 5

ARCHITECTURES: dict[str, Case] = {}


@dataclass(frozen=True)
class Case:
    """A module and what the tests know about it.

    ``redundant``, derived by hand, counts the redundant directions of all vectors that are added to
    something.  ``shape`` is that of the input, or computes it from a seed.

    ``finds`` is the calculus's count, if that is smaller than ``redundant``; ``counts`` is the
    Jacobian's count, if autograd misses some of what the module does; ``unknown`` means that the
    calculus cannot follow the module and must say so.
    """

    build: Callable
    redundant: int
    shape: tuple | Callable = (2, N, D)
    training: bool = False
    finds: int | None = None
    counts: int | None = None
    unknown: bool = False
    seed: int = 0

    def input(self, seed):
        return drawn(seed, *(self.shape(seed) if callable(self.shape) else self.shape))


def case(title, redundant, **options):
    """A decorator that registers, as a `Case`, a function or class that makes a module."""

    def register(build):
        assert title not in ARCHITECTURES, title
        ARCHITECTURES[title] = Case(build, redundant, **options)
        return build

    return register


class Made(nn.Module):
    """A module of named submodules and tensors whose forward is ``function(module, *inputs)``."""

    def __init__(self, function, parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            fixed = isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter)
            self.register_buffer(name, part) if fixed else setattr(self, name, part)

    def forward(self, *inputs, **named):
        return self.function(self, *inputs, **named)


def made(parts):
    """A decorator that turns a forward function into one that makes a module of ``parts(...)``."""
    return lambda function: lambda *args, **named: Made(function, parts(*args, **named))


def drawn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
