"""The class `Case`, the sizes that the cases share, and functions that make modules and inputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

#: The numbers of stream features, heads, features per head, hidden features, tokens and words.
D, H, K, F, N, V = 8, 2, 4, 12, 5, 16
#: The endings of the names of vectors that multiply something instead of being added to it.
GAINS = re.compile(r"(weight|gamma|original0)$")

ARCHITECTURES: dict[str, Case] = {}


@dataclass(frozen=True)
class Case:
    """A module and what the tests know about it.

    ``inputs(seed)`` draws a tuple of inputs.  ``redundant``, derived by hand, counts the redundant
    directions of all parameters that are added to something; ``also`` holds endings of the names of
    such parameters with more than one axis.

    ``finds`` is the calculus's count, if that is smaller than ``redundant``; ``counts`` is the
    Jacobian's count, if autograd misses some of what the module does; ``unknown`` means that the
    calculus cannot follow the module and must say so.
    """

    build: Callable
    inputs: Callable
    redundant: int
    mode: str = "eval"
    also: tuple = ()
    finds: int | None = None
    counts: int | None = None
    unknown: bool = False
    seed: int = 0

    def added(self, module):
        """{name: parameter} for parameters that are added to something; tied ones occur once."""
        return {
            name: p for name, p in module.named_parameters()
            if (p.dim() == 1 and not GAINS.search(name)) or name.endswith(self.also or "\0")
        }  # fmt: skip


def case(title, inputs, redundant, mode="eval", **options):
    """A decorator that registers, as a `Case`, a function or class that makes a module."""

    def register(build):
        assert title not in ARCHITECTURES, title
        ARCHITECTURES[title] = Case(build, inputs, redundant, mode, **options)
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


def numbers(*shapes):
    """A function that draws Gaussian inputs of these shapes, by default (2, N, D), from a seed."""
    return lambda seed: tuple(
        drawn(100 * seed + i, *s) for i, s in enumerate(shapes or [(2, N, D)])
    )
