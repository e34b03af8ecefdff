"""Whole blocks: attention and a feed-forward network on a stream, with a choice of norms."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .attention import Attention
from .piece import Piece


class NormBefore(Piece):
    """A norm, then attention, optionally with dropout in between or a residual connection.

    In cross-attention, keys and values come from other tokens, which the norm does not see.
    """

    def __init__(self, sizes, norm, *, dropout=0.0, residual=False, **around):
        super().__init__(sizes)
        self.norm, self.attention = norm(sizes.d), Attention(sizes, **around)
        self.dropout, self.residual = nn.Dropout(dropout), residual

    NAMES = {s: f"attention.{n}" for s, n in Attention.NAMES.items()} | {
        "β": "norm.bias", "γ": "norm.weight"}  # fmt: skip

    def symbols(self):
        """The symbols, with W_O as in `Attention`: summed over heads that share a value head."""
        return super().symbols() | {"W_O": self.attention.symbols()["W_O"]}

    def inputs(self, generator):
        return self.attention.inputs(generator)

    def forward(self, x, *memory):
        y = self.dropout(self.norm(x))
        return self.attention(y, *memory) + (y if self.residual else 0)


class ShiftedRMSNorm(nn.RMSNorm):
    def __init__(self, d):
        super().__init__(d)
        self.bias = nn.Parameter(torch.empty(d))

    def forward(self, x):
        return super().forward(x) + self.bias


class Block(Piece):
    """A block of a transformer, followed by the norm that reads the stream.

    ``place`` says where the norms stand: "pre", "post", "branch" (one norm on what attention writes
    and one on what the network writes), "parallel" (attention and network read the same norm) or
    "two norms" (parallel, but each reads its own norm).  ``scale`` adds LayerScale, a gain on each
    branch.  ``last`` says what reads the stream at the end: True for a norm, False for nothing, or
    the class of a map.
    """

    def __init__(self, sizes, place="pre", norm=nn.LayerNorm, *, last=True, scale=False,
                 dropout=0.0, **around):  # fmt: skip
        super().__init__(sizes)
        d, f = sizes.d, sizes.f
        self.place, self.attention = place, Attention(sizes, **around)
        self.up, self.down = nn.Linear(d, f), nn.Linear(f, d)
        self.norm_1, self.norm_2 = norm(d), norm(d)
        if place == "branch":
            self.norm_0, self.map_0 = norm(d), nn.Linear(d, d)
        self.last = {True: lambda: norm(d), False: nn.Identity}.get(last, lambda: last(d, d))()
        self.scale = nn.ParameterDict(
            {i: nn.Parameter(self.up.weight.new_empty(d)) for i in "ab"} if scale else {})  # fmt: skip
        self.dropout = nn.Dropout(dropout)

    NAMES = {s: f"attention.{n}" for s, n in Attention.NAMES.items()} | {
        "b_1": "up.bias", "W_1": "up.weight", "b_2": "down.bias", "W_2": "down.weight",
        "β_1": "norm_1.bias", "β_2": "norm_2.bias", "β_0": "norm_0.bias",
        "β": "last.bias", "s_1": "scale.a", "s_2": "scale.b"}  # fmt: skip

    def network(self, x):
        return self.scaled("b", self.dropout(self.down(F.gelu(self.up(x)))))

    def attend(self, x):
        return self.scaled("a", self.dropout(self.attention(x)))

    def scaled(self, branch, y):
        return self.scale[branch] * y if branch in self.scale else y

    def forward(self, x):
        return self.last(getattr(self, "_" + self.place.replace(" ", "_"))(x))

    def _pre(self, x):
        x = x + self.attend(self.norm_1(x))
        return x + self.network(self.norm_2(x))

    def _post(self, x):
        x = self.norm_1(x)
        x = self.norm_2(x + self.attend(x))
        return x + self.network(x)

    def _branch(self, x):
        x = x + self.norm_0(self.map_0(x))
        x = x + self.norm_1(self.attend(x))
        return x + self.norm_2(self.network(x))

    def _parallel(self, x):
        y = self.norm_1(x)
        return x + self.attend(y) + self.network(y)

    def _two_norms(self, x):
        return x + self.attend(self.norm_1(x)) + self.network(self.norm_2(x))
