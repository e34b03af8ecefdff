"""Pieces with a bias before a norm, after a norm, or at either end of a model."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import nn

from .attention import same
from .piece import Learned, Piece, Sizes, normal


class Chain(Piece):
    """Modules or functions, applied one after the other.

    The input is a matrix (3 n, d); images if a convolution reads it, token ids for an embedding.
    """

    def __init__(self, sizes: Sizes, **steps):
        super().__init__(sizes)
        self.steps = tuple(steps)
        for name, step in steps.items():
            setattr(self, name, step)

    def inputs(self, generator):
        s, kinds = self.sizes, {type(module) for module in self.modules()}
        if nn.Embedding in kinds:
            return (torch.randint(2 * s.d, (2, s.n), generator=generator),)
        shape = (3, s.d, 5, 5) if nn.Conv2d in kinds else (3 * s.n, s.d)
        return (normal(generator, *shape),)

    def forward(self, x):
        for name in self.steps:
            x = getattr(self, name)(x)
        return x


class Beside(nn.ModuleDict):
    """Modules that read the same input, with their outputs side by side."""

    def forward(self, x):
        return torch.cat([module(x) for module in self.values()], -1)


class LayerNormLSTM(Piece):
    """An LSTM with a LayerNorm on each of its two products, as in Ba, Kiros and Hinton (2016)."""

    def __init__(self, sizes):
        super().__init__(sizes)
        self.cell, self.f = nn.LSTM(sizes.d, sizes.f), sizes.f
        self.norm_ih, self.norm_hh = nn.LayerNorm(4 * sizes.f), nn.LayerNorm(4 * sizes.f)

    def forward(self, x):
        h = c = x.new_zeros(len(x), self.f)
        outputs: list = []
        cell: Any = self.cell
        for token in x.unbind(1):
            given = nn.functional.linear(token, cell.weight_ih_l0, cell.bias_ih_l0)
            kept = nn.functional.linear(h, cell.weight_hh_l0, cell.bias_hh_l0)
            i, f, new, o = (self.norm_ih(given) + self.norm_hh(kept)).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * new.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs, 1)


def before(norm, between=same, map=nn.Linear):
    """A linear map, then a module or function ``between``, then a norm of f features."""
    return lambda s: Chain(s, map=map(s.d, s.f), between=between, norm=norm(s.f))


def behind(norm=nn.LayerNorm, others=(), residual=False, dropout=0.0):
    """A norm with a shift, then a linear map, and one more map for each entry of ``others``."""

    def build(s):
        maps: dict[str, nn.Module] = {"map": nn.Linear(s.d, s.f)}
        maps |= {name: nn.Linear(s.d, s.f, bias) for name, bias in zip(("other", "third"), others)}
        maps |= {"same": nn.Identity()} if residual else {}
        return Chain(s, norm=norm(s.d), dropout=nn.Dropout(dropout), maps=Beside(maps))

    return build


def recurrent(kind):
    """PyTorch's LSTM, GRU or RNN, with two biases in every gate."""
    return lambda s: Chain(s, layer=kind(s.d, s.f), outputs=operator.itemgetter(0))


def tables(reader=nn.Identity, tied=False):
    """Token plus position vectors, and ``reader(d)``, which reads the sum; the token table may be
    ``tied`` to the head."""

    def build(s):
        words, places = nn.Embedding(2 * s.d, s.d), Learned(operator.add, s.n, s.d)
        steps = {"head": lambda x: x @ words.weight.T} if tied else {}
        return Chain(s, words=words, places=places, reader=reader(s.d), **steps)

    return build


def patches(s):
    """An embedding with a bias, to which a table of positions is added, as in ViT."""
    return Chain(s, map=nn.Linear(s.d, s.d), places=Learned(operator.add, 3 * s.n, s.d))


def head(ends):
    """The last norm, the head, and ``ends``, a function of the logits."""
    return lambda s: Chain(s, norm=nn.LayerNorm(s.d), map=nn.Linear(s.d, s.d + 3), ends=ends)


def router(weigh):
    """A router, which computes the weights of three experts."""
    return lambda s: Chain(s, map=nn.Linear(s.d, 3), weigh=weigh)
