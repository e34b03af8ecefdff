"""What a piece of architecture is: a small module whose tensors have the book's names.

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

#: {symbol: the end of the name of a parameter or buffer}, for all pieces.
NAMES = {f"{letter}_{role}": f"{module}.{kind}"
         for letter, kind in (("W", "weight"), ("b", "bias"))
         for role, module in zip("QKVOCR12", "q k v o latent turned up down".split())} | {
    "c_Q": "norm_q.bias", "c_K": "norm_k.bias", "γ_Q": "norm_q.weight", "γ_K": "norm_k.weight",
    "β": "norm.bias", "γ": "norm.weight", "μ": "norm.running_mean", "v": "norm.running_var",
    "β_0": "norm_0.bias", "β_1": "norm_1.bias", "β_2": "norm_2.bias",
    "s_1": "scale_1.value", "s_2": "scale_2.value", "λ": "share", "k_p": "first.k", "v_p": "first.v",
    "k_0": "bias_k", "v_0": "bias_v", "E": "words.weight", "P": "places.value",
    "b": "map.bias", "W": "map.weight", "c": "other.bias", "V": "other.weight",
    "b_ih": "bias_ih_l0", "b_hh": "bias_hh_l0", "β_ih": "norm_ih.bias", "β_hh": "norm_hh.bias",
}  # fmt: skip


class Piece(nn.Module):
    """A module that knows its ``sizes``, its inputs, and the book's names for its tensors."""

    def __init__(self, sizes: Sizes):
        super().__init__()
        self.sizes = sizes

    def tensors(self) -> dict[str, torch.Tensor]:
        return dict(self.named_parameters()) | dict(self.named_buffers())

    def place(self, symbol: str):
        """(the name of a tensor, an index): the numbers of a symbol, or None if there are none."""
        end = NAMES[symbol]
        for name in self.tensors():
            if f".{name}".endswith(f".{end}"):
                return name, ...
        return None

    def symbols(self) -> dict[str, torch.Tensor]:
        """{symbol: tensor}; W_O is summed over the heads that share a value head, and the weight of
        a convolution over its positions."""
        tensors, s = self.tensors(), self.sizes
        places = {symbol: place for symbol in NAMES if (place := self.place(symbol))}
        found = {symbol: tensors[name][index] for symbol, (name, index) in places.items()}
        found = {symbol: t.sum((2, 3)) if t.dim() == 4 else t for symbol, t in found.items()}
        if "W_O" in found:
            found["W_O"] = found["W_O"].view(-1, s.g, s.h // s.g, s.k).sum(2).flatten(1)
        return found

    def inputs(self, generator):
        """A tuple of float64 inputs; by default, one of shape (2, n, d)."""
        return (normal(generator, 2, self.sizes.n, self.sizes.d),)


class Learned(nn.Module):
    """A function of a learned tensor of the given shape and of the module's input."""

    def __init__(self, function, *shape):
        super().__init__()
        self.function, self.value = function, nn.Parameter(torch.empty(shape))

    def forward(self, *given):
        return self.function(self.value, *given)


def normal(generator, *shape):
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def generic(module: Piece, seed=0) -> Piece:
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
