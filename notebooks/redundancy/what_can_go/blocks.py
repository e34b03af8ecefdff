"""Blocks: attention and a feed-forward network on a residual stream, with a choice of norms."""

from __future__ import annotations

import operator

import torch
from torch import nn

from .attention import Attention, same
from .piece import Learned, Piece, Sizes


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
    branch.  ``last`` is the class of a map that reads the stream at the end instead of a norm.
    """

    def __init__(self, sizes: Sizes, place="pre", norm=nn.LayerNorm, *, last=None, scale=False,
                 dropout=0.0, **around):  # fmt: skip
        super().__init__(sizes)
        d, f = sizes.d, sizes.f
        self.layout, self.dropout = place, nn.Dropout(dropout)
        self.attention = Attention(sizes, **around)
        self.up, self.down = nn.Linear(d, f), nn.Linear(f, d)
        self.norm_1, self.norm_2 = norm(d), norm(d)
        if place == "branch":
            self.norm_0, self.map_0 = norm(d), nn.Linear(d, d)
        self.scale_1, self.scale_2 = (Learned(operator.mul, d) if scale else same for _ in range(2))
        self.last = last(d, d) if last else norm(d)

    def attend(self, x):
        return self.scale_1(self.dropout(self.attention(x)))

    def network(self, x):
        return self.scale_2(self.dropout(self.down(nn.functional.gelu(self.up(x)))))

    def forward(self, x):
        return self.last(getattr(self, "_" + self.layout.replace(" ", "_"))(x))

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
