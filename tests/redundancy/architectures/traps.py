"""Modules whose code misleads: the keys go through tanh in ways that are hard to trace.

Because of tanh the outputs depend on b_K, so only b_V can go: it moves into b_O (D directions).
Autograd traces few of these ways; where autograd fails, the Jacobian misses b_K and counts 2 D.
"""

import io
import math
from concurrent.futures import ThreadPoolExecutor

import numpy
import torch
import torch.nn.functional as F_
from torch import nn

from .attention import heads, joined, linears
from .cases import D, K, N, case, made, numbers


@made(lambda keys=None, weights=None, values=None: linears("q k v o") | dict(
    on_keys=keys or nn.Identity(), on_weights=weights or nn.Identity(), on_values=values or nn.Identity()))  # fmt: skip
def sly(self, x):
    """Attention whose keys, weights or values go through the given functions."""
    q, k, v = self.q(x), self.on_keys(self.k(x)), self.on_values(self.v(x))
    weights = self.on_weights((heads(q) @ heads(k).mT / K**0.5).softmax(-1))
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


def on_views(k):
    k = k.clone()
    first, second = k[..., : D // 2], k[..., D // 2 :]
    second.copy_(second.tanh())
    first.copy_(first.tanh())
    return k


def on_halves(k):
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


def data_replaced(k):
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


def hooked():
    module = sly()
    module.k.register_forward_hook(lambda module, inputs, out: out.tanh())
    return module


@made(lambda: linears("q k v o") | dict(norm=nn.LayerNorm(D)))
def hidden_padding(self, x):
    """Attention after padding with zeros; as in Swin, a mask of -100 hides the padding."""
    x, mask = F_.pad(self.norm(x), (0, 0, 0, 2)), torch.zeros(N + 2)
    mask[N:] = -100.0
    weights = (heads(self.q(x)) @ heads(self.k(x)).mT / K**0.5 + mask).softmax(-1)
    return self.o(joined(weights @ heads(self.v(x))))[:, :N]


# b_K can go and b_V moves into b_O.  The norm's shift would move into b_Q and b_V, but the padding
# lacks the shift: its effect is of the order e^-100, which the Jacobian cannot show
case("padding masked by -100", numbers(), 2 * D, counts=3 * D)(hidden_padding)


def trap(title, through, **options):
    case(f"keys: {title}", numbers(), D, **options)(lambda: sly(through))


case("keys: a hook", numbers(), D)(hooked)
# all of b_K except its mean, which the condition reads, can go (D - 1); b_V moves into b_O (D)
case("keys: a branch", numbers(), 2 * D - 1, counts=2 * D)(
    lambda: sly(lambda k: k * 2 if k.mean() > 0 else k)
)
trap("in place on views", on_views)
trap("written by indices", by_indices)
trap("by a vmap", torch.func.vmap(torch.tanh))
trap("by a compiled function", lambda k: torch.compile(torch.tanh)(k))
trap("in another thread", in_a_thread, unknown=True)
for words, through in {
    "in place on halves": on_halves,
    "detached": lambda k: k.detach().tanh(),
    "its data": lambda k: k.data.tanh(),
    "without gradient": without_gradient,
    "a function whose backward lies": Lies.apply,
    "written into a tensor": into,
    "rounded, and autograd is told it is not": lambda k: k + ((k * 4).round() / 4 - k).detach(),
    "whole numbers": lambda k: (k * 4).to(torch.int64).to(k.dtype),
}.items():
    trap(words, through, counts=2 * D)
#: The calculus must say that it cannot follow these functions, which leave PyTorch.
for words, through in {
    "its bits": lambda k: (k.detach().view(torch.int64) & ~0xFFFFFFFFFFFF).view(torch.float64),
    "data that is replaced": data_replaced,
    "memory that is replaced": lambda k: k.new_empty(0).set_(k.detach()).tanh(),
    "numpy": lambda k: torch.from_numpy(numpy.tanh(k.detach().numpy())),
    "an array": lambda k: torch.tensor(numpy.tanh(numpy.asarray(k.detach()))),
    "a list": lambda k: torch.tensor(k.tolist()).to(k).tanh(),
    "DLPack": lambda k: torch.from_dlpack(k.detach()).tanh(),
    "a file": saved,
    "number by number": lambda k: (
        torch.tensor([math.tanh(x) for x in k.detach().view(-1)]).to(k).view_as(k)
    ),
    "apply_": lambda k: k.detach().clone().apply_(math.tanh),
}.items():
    trap(words, through, counts=2 * D, unknown=True)


@made(lambda how: linears("q k v o") | dict(how=how, alias=None, part=None))
def copied(self, x):
    """Attention that adds a copy, an alias or a view of b_K in place of the parameter."""
    k = x @ self.k.weight.mT
    if self.part is not None:
        k = torch.cat([(k[..., : D // 2] + self.part).tanh(), k[..., D // 2 :]], -1)
    else:
        k = (k + (self.k.bias.detach().clone() if self.alias is None else self.alias)).tanh()
    weights = (heads(self.q(x)) @ heads(k).mT / K**0.5).softmax(-1)
    return self.o(joined(weights @ heads(self.v(x))))


def aliased(name, alias):
    """A `copied` module, already in float64, whose attribute ``name`` shares memory with b_K."""
    module = copied(name).double()
    setattr(module, name, alias(module.k.bias))
    return module


case("a copy that is detached", numbers(), D, counts=2 * D)(lambda: copied("copy"))
case("another tensor of the same memory", numbers(), D, counts=2 * D)(
    lambda: aliased("alias", lambda bias: bias.data)
)
# the half of b_K that the view leaves out is never used, so it can go as well
case("a view made before", numbers(), D + D // 2, counts=2 * D)(
    lambda: aliased("part", lambda bias: bias.detach()[: D // 2])
)
# b_K can go; b_V stays, as the weights that dropout leaves do not sum to one
case("dropout of the weights in evaluation", numbers(), D)(
    lambda: sly(weights=lambda w: F_.dropout(w, 0.3, training=True))
)
# b_K can go and b_V can move into b_O, as the noise is only added; the calculus has no rule for
# noise with a shifted mean
case("values with noise", numbers(), 2 * D, unknown=True)(
    lambda: sly(values=lambda v: torch.normal(v, torch.full_like(v, 0.1)))
)
# b_K can go; b_V stays, as it sets the chance that a value is 1, which the Jacobian misses
case("values drawn by chance", numbers(), D, counts=2 * D)(
    lambda: sly(values=lambda v: torch.bernoulli(v.sigmoid()))
)
# b_K can go; b_V stays, as one value, which b_V shifts, multiplies all values
case("filled with a number", numbers(), D)(
    lambda: sly(values=lambda v: torch.zeros_like(v).fill_(v.detach()[0, 0, 0]) * v)
)
