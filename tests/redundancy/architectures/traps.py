"""Attention whose code misleads: the keys go through a function in ways that are hard to trace.

The function is tanh, or acts only on numbers above 50, which the inputs never reach.  So outputs
depend on b_K, and only b_V can go: it moves into b_O (D directions).  Where autograd fails, or shows
the identity, the Jacobian misses b_K and counts 2 D.  Chapter 13 shows more of these ways.
"""

import math

import torch
import torch.nn.functional as F_
from torch import nn

from .attention import attention, softmax
from .cases import D, K, case, made

FAR = 50.0


class Lies(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.tanh()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def by_indices(k):
    made = torch.zeros_like(k)
    for i in range(k.shape[-1]):
        made[..., i] = k[..., i].tanh()
    return made


def into(k):
    made = torch.empty_like(k)
    torch.tanh(k.detach(), out=made)
    return made


def data_replaced(k):
    made = torch.empty_like(k)
    made.data = k.detach()
    return made.tanh()


def by_number(k):
    return torch.tensor([math.tanh(x) for x in k.detach().reshape(-1)]).to(k).view_as(k)


def overwrite(k):
    k = k.clone()
    k[k > FAR] = FAR
    return k


def clamped_data(k):
    k = k.clone()
    k.data.clamp_(-FAR, FAR)
    return k


def routed(k):
    places = k.clamp(max=FAR).lt(FAR).long() * 0 + torch.arange(k.shape[-1])
    return k.gather(-1, places)


#: Autograd follows these ways,
FOLLOWED = {
    "written by indices": by_indices,
    "by a vmap": torch.func.vmap(torch.tanh),
    "by a compiled function": lambda k: torch.compile(torch.tanh)(k),
}
#: but not these,
MISSED = {
    "its data": lambda k: k.data.tanh(),
    "without gradient": torch.no_grad()(lambda k: k.tanh()),
    "a function whose backward lies": Lies.apply,
    "written into a tensor": into,
    "rounded, and autograd is told it is not": lambda k: k + ((k * 4).round() / 4 - k).detach(),
    "whole numbers": lambda k: (k * 4).to(torch.int64).to(k.dtype),
}
#: and the derivatives of these are those of the identity.
PARTLY = {
    "clamp": lambda k: k.clamp(-FAR, FAR),
    "clamp_ on the data": clamped_data,
    "relu on one side": lambda k: F_.relu(k + FAR) - FAR,
    "relu behind a linear map": lambda k: F_.relu(k @ torch.eye(K).to(k) + FAR) - FAR,
    "hardsigmoid": lambda k: 300 * F_.hardsigmoid(k / 50) - 150,
    "maximum": lambda k: torch.maximum(k, torch.tensor(-FAR)),
    "where on values": lambda k: torch.where(k > FAR, 2 * k, k),
    "a factor": lambda k: k * (k < FAR),
    "written over": overwrite,
    "a branch": lambda k: k.tanh() if k.abs().max() > FAR else k,
    "routing": routed,
}
#: The calculus must say that it cannot follow these functions, which leave PyTorch.
LEFT = {
    "its bits": lambda k: (k.detach().view(torch.int64) & ~0xFFFFFFFFFFFF).view(torch.float64),
    "data that is replaced": data_replaced,
    "memory that is replaced": lambda k: k.new_empty(0).set_(k.detach()).tanh(),
    "number by number": by_number,
    "apply_": lambda k: k.detach().clone().apply_(math.tanh),
}
for known, options in (
    (FOLLOWED, {}),
    (MISSED | PARTLY, {"counts": 2 * D}),
    (LEFT, {"counts": 2 * D, "unknown": True}),
):
    for title, way in known.items():
        case(f"keys: {title}", D, **options)(lambda way=way: attention(norm_k=way))

# a clamp of scores, and of one half of each head before W_O, of whose b_V the other half can go
case("clamped scores", D, counts=2 * D)(
    lambda: attention(weigh=lambda s: softmax(s.clamp(-FAR, FAR)))
)
case("clamped values, on a view", D + D // 2, counts=2 * D)(
    lambda: attention(norm_v=lambda v: torch.cat([v[..., :2].clamp_(-FAR, FAR), v[..., 2:]], -1))
)


@made(lambda alias: {"map": nn.Linear(D, D), "alias": alias, "memory": None})
def copied(self, x):
    """Keys with a copy of b_K, or another tensor with its memory, before a tanh."""
    if self.alias and self.memory is None:
        self.memory = self.map.bias.data
    bias = self.memory if self.alias else self.map.bias.detach().clone()
    return (x @ self.map.weight.mT + bias).tanh()


for title, alias in ("a copy that is detached", False), ("another tensor of the same memory", True):
    case(title, D, counts=2 * D)(lambda alias=alias: attention(keys=lambda *_: copied(alias)))
# b_K can go and b_V can move into b_O, as the noise is only added; the calculus has no rule for
# noise with a shifted mean
case("values with noise", 2 * D, unknown=True)(
    lambda: attention(norm_v=lambda v: torch.normal(v, torch.full_like(v, 0.1)))
)
# b_K can go; b_V stays, as it sets the chance that a value is 1, which the Jacobian misses
case("values drawn by chance", D, counts=2 * D)(
    lambda: attention(norm_v=lambda v: torch.bernoulli(v.sigmoid()))
)
# b_K can go; b_V stays, as one value, which b_V shifts, multiplies all values
case("filled with a number", D)(
    lambda: attention(norm_v=lambda v: torch.zeros_like(v).fill_(v.detach()[0, 0, 0, 0]) * v)
)
