"""What a piece of architecture is: a small module that names its parameters as the book does.

    module = generic(Attention(SIZES[0]))    # float64, every parameter drawn at random
    module.symbols()["b_K"]                  # the tensor that the book calls b_K

Tokens are rows: an input is (batch, tokens, features), and a linear map computes x Wᵀ + bᵀ.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class Sizes:
    """d features, h heads of queries and g heads of keys and values, each with k features (r of
    them rotary), f hidden features, and n tokens."""

    d: int
    h: int
    g: int
    k: int
    r: int
    f: int
    n: int


#: With the first sizes, all heads together are as wide as the stream; with the second, narrower.
SIZES = Sizes(d=8, h=2, g=2, k=4, r=2, f=6, n=5), Sizes(d=14, h=3, g=3, k=4, r=2, f=9, n=6)


class Piece(nn.Module):
    """A module that knows its ``sizes``, its inputs, and the book's names for its tensors."""

    NAMES: dict[str, str] = {}  # {symbol: name of a parameter or buffer}

    def __init__(self, sizes):
        super().__init__()
        self.sizes = sizes

    def named(self):
        """{symbol: name of a parameter or buffer}, for the tensors that this module has."""
        return {symbol: name for symbol, name in self.NAMES.items() if name in self.tensors()}

    def tensors(self):
        return dict(self.named_parameters()) | dict(self.named_buffers())

    def symbols(self):
        """{symbol: tensor}, for the symbols in `named`."""
        tensors = self.tensors()
        return {symbol: tensors[name] for symbol, name in self.named().items()}

    def inputs(self, generator):
        """A tuple of float64 inputs; by default, one of shape (2, n, d)."""
        return (normal(generator, 2, self.sizes.n, self.sizes.d),)


def normal(generator, *shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def generic(module, seed=0):
    """The module in float64, with every parameter and running statistic drawn at random."""
    chance, module = torch.Generator().manual_seed(seed), module.double()
    for name, tensor in module.tensors().items():
        if not tensor.is_floating_point():
            continue  # an integer, such as a count of batches
        drawn = normal(chance, *tensor.shape)
        if name.endswith("running_var") or (tensor.dim() == 1 and name.endswith("weight")):
            drawn = 0.5 + drawn.abs()  # variances and gains are positive
        elif tensor.dim() > 1:
            drawn = drawn / tensor[0].numel() ** 0.5
        else:  # biases so small that each unit is on for some inputs, off for others
            drawn = drawn / 2
        tensor.data.copy_(drawn)
    return module.requires_grad_(False)
