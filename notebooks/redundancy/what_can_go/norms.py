"""Pieces with a bias before a norm, after a norm, or at either end of a model."""

from __future__ import annotations

import torch
from torch import nn

from .piece import Piece, normal


class Before(Piece):
    """A linear map or convolution, then the modules ``between``, then a norm."""

    def __init__(self, sizes, map, norm, *between):
        super().__init__(sizes)
        self.map, self.between, self.norm = map, nn.Sequential(*between), norm

    NAMES = {"b": "map.bias", "W": "map.weight", "β": "norm.bias", "γ": "norm.weight",
             "μ": "norm.running_mean", "v": "norm.running_var"}  # fmt: skip

    def inputs(self, generator):
        if isinstance(self.map, nn.Conv2d):
            return (normal(generator, 3, self.sizes.d, 5, 5),)
        return (normal(generator, 3 * self.sizes.n, self.sizes.d),)

    def forward(self, x):
        return self.norm(self.between(self.map(x)))


def convolution(sizes, padding=0):
    return nn.Conv2d(sizes.d, sizes.f, 3, padding=padding)


class KeepsSome(nn.Module):
    """Sets every third row to zero, as if it were padding."""

    def forward(self, x):
        return x * (torch.arange(len(x)) % 3 > 0)[:, None]


class Behind(Piece):
    """A norm with a shift, then a linear map, and one more map for each entry of ``others``."""

    def __init__(self, sizes, norm=nn.LayerNorm, others=(), residual=False, dropout=0.0):
        super().__init__(sizes)
        self.norm, self.map = norm(sizes.d), nn.Linear(sizes.d, sizes.f)
        self.others = nn.ModuleList(nn.Linear(sizes.d, sizes.f, bias=b) for b in others)
        self.residual, self.dropout = residual, nn.Dropout(dropout)

    def inputs(self, generator):
        return (normal(generator, 3 * self.sizes.n, self.sizes.d),)

    NAMES = {"β": "norm.bias", "γ": "norm.weight", "b": "map.bias", "W": "map.weight",
             "c": "others.0.bias", "V": "others.0.weight"}  # fmt: skip

    def forward(self, x):
        y = self.dropout(self.norm(x))
        read = [map(y) for map in (self.map, *self.others)]
        return torch.cat([*read, *[y] * self.residual], -1)


class ConvolutionBehind(Piece):
    def __init__(self, sizes, padding=0):
        super().__init__(sizes)
        self.norm, self.map = (
            nn.BatchNorm2d(sizes.d),
            nn.Conv2d(sizes.d, sizes.d + 1, 3, padding=padding),
        )

    NAMES = {"β": "norm.bias", "b": "map.bias"}

    def inputs(self, generator):
        return (normal(generator, 3, self.sizes.d, 5, 5),)

    def forward(self, x):
        return self.map(self.norm(x))

    def symbols(self):
        return super().symbols() | {"W": self.map.weight.sum((2, 3))}


class Recurrent(Piece):
    """PyTorch's LSTM or GRU, with two biases in every gate."""

    def __init__(self, sizes, kind):
        super().__init__(sizes)
        self.layer = kind(sizes.d, sizes.f, batch_first=True)

    NAMES = {"b_ih": "layer.bias_ih_l0", "b_hh": "layer.bias_hh_l0"}

    def forward(self, x):
        return self.layer(x)[0]


class LayerNormLSTM(Piece):
    """An LSTM with a LayerNorm on each of its two products, as in Ba, Kiros and Hinton (2016)."""

    def __init__(self, sizes):
        super().__init__(sizes)
        self.maps = nn.ModuleList(nn.Linear(size, 4 * sizes.f) for size in (sizes.d, sizes.f))
        self.norms = nn.ModuleList(nn.LayerNorm(4 * sizes.f) for _ in range(2))

    NAMES = {"b_ih": "maps.0.bias", "b_hh": "maps.1.bias",
             "β_ih": "norms.0.bias", "β_hh": "norms.1.bias"}  # fmt: skip

    def forward(self, x):
        h = c = x.new_zeros(len(x), self.sizes.f)
        outputs = []
        for token in x.unbind(1):
            gates = sum(n(m(t)) for n, m, t in zip(self.norms, self.maps, (token, h), strict=True))
            i, f, new, o = gates.chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * new.tanh()
            h = o.sigmoid() * c.tanh()
            outputs.append(h)
        return torch.stack(outputs, 1)


class Tables(Piece):
    """Token plus position vectors, and a module that reads the sum; the head may be ``tied``."""

    def __init__(self, sizes, reader=None, tied=False):
        super().__init__(sizes)
        self.words, self.places = nn.Embedding(2 * sizes.d, sizes.d), nn.Embedding(sizes.n, sizes.d)
        self.reader, self.tied = reader or nn.Identity(), tied

    NAMES = {"E": "words.weight", "P": "places.weight"}

    def inputs(self, generator):
        return (torch.randint(2 * self.sizes.d, (2, self.sizes.n), generator=generator),)

    def forward(self, ids):
        read = self.reader(self.words(ids) + self.places.weight)
        return read @ self.words.weight.T if self.tied else read


class Patches(Piece):
    """An embedding with a bias, to which a table of positions is added, as in ViT."""

    def __init__(self, sizes):
        super().__init__(sizes)
        self.map, self.places = nn.Linear(sizes.d, sizes.d), nn.Embedding(sizes.n, sizes.d)

    NAMES = {"b": "map.bias", "P": "places.weight"}

    def forward(self, x):
        return self.map(x) + self.places.weight


class Head(Piece):
    """The last norm, the head, and ``ends``, a function of the logits."""

    def __init__(self, sizes, ends, bias=True):
        super().__init__(sizes)
        self.norm, self.head, self.ends = (
            nn.LayerNorm(sizes.d),
            nn.Linear(sizes.d, sizes.d + 3, bias),
            ends,
        )

    NAMES = {"β": "norm.bias", "γ": "norm.weight", "b": "head.bias", "W": "head.weight"}

    def forward(self, x):
        return self.ends(self.head(self.norm(x)))


class Router(Piece):
    """A router, which returns the weights of three experts: (batch, tokens, 3)."""

    def __init__(self, sizes, weigh):
        super().__init__(sizes)
        self.map, self.weigh = nn.Linear(sizes.d, 3), weigh

    NAMES = {"b": "map.bias"}

    def forward(self, x):
        return self.weigh(self.map(x))
