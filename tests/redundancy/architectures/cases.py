"""What a case is, the sizes that the cases share, and the inputs that they draw."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

#: Features of the stream, heads, features of a head, hidden features, tokens, words.
D, H, K, F, N, V = 8, 2, 4, 12, 5, 16
#: Parameters of one axis that multiply, and so are not added to anything.
GAINS = re.compile(r"(weight|gamma\w*|scale|alpha|\bD|original0)$")

ARCHITECTURES: dict[str, Case] = {}


@dataclass(frozen=True)
class Case:
    """A module to follow.

    ``inputs(seed)`` draws a tuple of inputs.  ``redundant`` is the number of redundant directions of
    all added parameters together, derived by hand; ``also`` are the ends of the names of added
    parameters that have more than one axis.  ``plain`` turns the module into one that computes
    the same and that autograd differentiates.

    ``finds`` is what the calculus finds, where that is less; ``counts`` is what the Jacobian counts
    where it does not see all that the module does; ``unknown`` says that the calculus cannot
    follow, and must not pretend to.
    """

    build: Callable
    inputs: Callable
    redundant: int
    mode: str = "eval"
    also: tuple = ()
    plain: Callable = lambda module: module
    finds: int | None = None
    counts: int | None = None
    unknown: bool = False
    seed: int = 0

    def added(self, module):
        """{name: parameter} of the parameters that are added, tied ones once."""
        return {
            name: p for name, p in module.named_parameters()
            if (p.dim() == 1 and not GAINS.search(name)) or name.endswith(self.also or "\0")
        }  # fmt: skip


def case(title, inputs, redundant, mode="eval", **options):
    """Register a function or class that makes a module."""

    def register(build):
        assert title not in ARCHITECTURES, title
        ARCHITECTURES[title] = Case(build, inputs, redundant, mode, **options)
        return build

    return register


class Made(nn.Module):
    """A module of named parts, submodules or tensors, whose forward is a function."""

    def __init__(self, function, parts):
        super().__init__()
        self.function = function
        for name, part in parts.items():
            fixed = isinstance(part, torch.Tensor) and not isinstance(part, nn.Parameter)
            self.register_buffer(name, part) if fixed else setattr(self, name, part)

    def forward(self, *inputs, **named):
        return self.function(self, *inputs, **named)


def made(parts):
    """Turn a forward into a function that makes the module, of the arguments of ``parts``."""
    return lambda function: lambda *args, **named: Made(function, parts(*args, **named))


def zeros(*shape):
    return nn.Parameter(torch.zeros(shape))


def drawn(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def numbers(*shapes):
    """Inputs of these shapes, normally distributed; of N tokens, if no shape is given."""
    return lambda seed: tuple(
        drawn(100 * seed + i, *s) for i, s in enumerate(shapes or [(2, N, D)])
    )


def words(*shape):
    """Inputs of whole numbers below V."""
    shape = shape or (2, N)
    return lambda seed: (torch.randint(V, shape, generator=torch.Generator().manual_seed(seed)),)
