"""Modules whose code misleads: the keys go through tanh, on a way that is hard to see.

tanh sees the bias of the keys, so that only the values' D directions can go, with the output bias.  Autograd
follows few of these ways: where it does not, the Jacobian is blind to the keys' bias and counts 2 D.
"""

import io
import math
from concurrent.futures import ThreadPoolExecutor

import numpy
import torch
from torch import nn

from .attention import heads, joined
from .cases import D, K, case, numbers


class Sly(nn.Module):
    """Attention whose keys go through a function."""

    def __init__(self, through, hook=None):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D) for _ in "qkvo")
        self.through = through
        if hook:
            self.k.register_forward_hook(hook)

    def forward(self, x):
        q, k, v = self.q(x), self.through(self.k(x)), self.v(x)
        weights = (heads(q) @ heads(k).mT / K**0.5).softmax(-1)
        return self.o(joined(weights @ heads(v)))


class Lies(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.tanh()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def without_gradient(k):
    with torch.no_grad():
        return k.tanh()


def in_place(k):
    k = k.clone()
    first, second = k[..., : D // 2], k[..., D // 2 :]
    second.copy_(second.tanh())
    first.copy_(first.tanh())
    return k


def halves(k):
    k = k.detach().clone()
    for half in k.chunk(2, -1):
        half.tanh_()
    return k


def by_indices(k):
    made = torch.zeros_like(k)
    for i in range(k.shape[-1]):
        made[..., i] = k[..., i].tanh()
    return made


def into(k):
    made = torch.empty_like(k)
    torch.tanh(k.detach(), out=made)
    return made


def data_setter(k):
    made = torch.empty_like(k)
    made.data = k.detach()
    return made.tanh()


def saved(k):
    file = io.BytesIO()
    torch.save(k.detach(), file)
    file.seek(0)
    return torch.load(file).tanh()


def in_a_thread(k):
    with ThreadPoolExecutor() as pool:
        return pool.submit(torch.tanh, k).result()


def branch(k):
    return k * 2 if k.mean() > 0 else k


def bits(k):
    return (k.detach().view(torch.int64) & ~0xFFFFFFFFFFFF).view(torch.float64)


WAYS = {
    "in place on views": in_place, "written by indices": by_indices, "in another thread": in_a_thread,
    "by a vmap": torch.func.vmap(torch.tanh), "by a compiled function": lambda k: torch.compile(torch.tanh)(k),
}  # fmt: skip
for words, through in WAYS.items():
    case(f"keys: {words}", numbers(), D)(lambda through=through: Sly(through))
case("keys: a hook", numbers(), D)(lambda: Sly(nn.Identity(), lambda m, inputs, out: out.tanh()))
#: what autograd does not see
HIDDEN = {
    "in place on halves": halves,
    "detached": lambda k: k.detach().tanh(), "its data": lambda k: k.data.tanh(),
    "without gradient": without_gradient, "a function whose backward lies": Lies.apply,
    "written into a tensor": into, "data that is replaced": data_setter,
    "memory that is replaced": lambda k: k.new_empty(0).set_(k.detach()).tanh(),
    "a branch": branch, "its bits": bits,
    "a straight-through estimator": lambda k: k + ((k * 4).round() / 4 - k).detach(),
}  # fmt: skip
UNKNOWN = {"a branch", "its bits", "memory that is replaced", "data that is replaced"}
for words, through in HIDDEN.items():
    case(f"keys: {words}", numbers(), D, counts=2 * D, unknown=words in UNKNOWN)(
        lambda through=through: Sly(through)
    )
#: what leaves PyTorch
AWAY = {
    "through numpy": lambda k: torch.from_numpy(numpy.tanh(k.detach().numpy())),
    "through an array": lambda k: torch.tensor(numpy.tanh(numpy.asarray(k.detach()))),
    "through a list": lambda k: torch.tensor(k.tolist()).to(k).tanh(),
    "through DLPack": lambda k: torch.from_dlpack(k.detach()).tanh(),
    "through a file": saved,
    "number by number": lambda k: torch.tensor([math.tanh(float(x)) for x in k.flatten()]).to(k).view(k.shape),
    "by apply_": lambda k: k.detach().clone().apply_(math.tanh),
}  # fmt: skip
for words, through in AWAY.items():
    case(f"keys: {words}", numbers(), D, counts=2 * D, unknown=True)(
        lambda through=through: Sly(through)
    )


class Copied(nn.Module):
    """The bias of the keys is used as another tensor than the parameter."""

    def __init__(self, how):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(D, D).double() for _ in "qkvo")
        self.how = how
        self.alias = self.k.bias.data if how == "alias" else None
        self.part = self.k.bias.detach()[: D // 2] if how == "part" else None

    def forward(self, x):
        k = x @ self.k.weight.mT
        if self.how == "part":
            k = torch.cat([(k[..., : D // 2] + self.part).tanh(), k[..., D // 2 :]], -1)
        else:
            bias = self.k.bias.detach().clone() if self.how == "copy" else self.alias
            k = (k + bias).tanh()
        weights = (heads(self.q(x)) @ heads(k).mT / K**0.5).softmax(-1)
        return self.o(joined(weights @ heads(self.v(x))))


case("a copy that is detached", numbers(), D, counts=2 * D)(lambda: Copied("copy"))
case("another tensor of the same memory", numbers(), D, counts=2 * D)(lambda: Copied("alias"))
case("a view made before", numbers(), D + D // 2, counts=2 * D)(lambda: Copied("part"))


class Noise(nn.Module):
    """What draws random numbers in evaluation too."""

    def __init__(self, on_weights=None, on_values=None):
        super().__init__()
        self.qkv, self.o = nn.Linear(D, 3 * D), nn.Linear(D, D)
        same = lambda t: t
        self.on_weights, self.on_values = on_weights or same, on_values or same

    def forward(self, x):
        q, k, v = (heads(t) for t in self.qkv(x).chunk(3, -1))
        weights = self.on_weights((q @ k.mT / K**0.5).softmax(-1))
        return self.o(joined(weights @ self.on_values(v)))


# keys; the weights that dropout leaves do not sum to one
case("dropout of the weights in evaluation", numbers(), D)(
    lambda: Noise(on_weights=lambda w: nn.functional.dropout(w, 0.3, training=True))
)
# keys and values: the values' noise is added to them
case("values with noise", numbers(), 2 * D)(
    lambda: Noise(on_values=lambda v: torch.normal(v, torch.full_like(v, 0.1)))
)
# keys; drawn with a chance that depends on the values
case("values drawn by chance", numbers(), D, counts=2 * D)(
    lambda: Noise(on_values=lambda v: torch.bernoulli(v.sigmoid()))
)
# keys; a tensor is filled with a number that moves
case("filled with a number", numbers(), D)(
    lambda: Noise(on_values=lambda v: torch.zeros_like(v).fill_(v.detach()[0, 0, 0, 0]) * v)
)
