"""Attention layers; comments say which biases can go."""

from functools import partial

import torch
import torch.nn.functional as F_
from redundancy.what_can_go.attention import Attention, same, softmax
from redundancy.what_can_go.piece import SIZES
from torch import nn

from .cases import D, H, N, case, made

#: Attention of the sizes in `cases`; functions act on keys or values, or replace softmax.
attention = partial(Attention, SIZES[0])
LATER = torch.ones(N, N, dtype=torch.bool).triu(1)


def masked_in_place(scores):
    scores.masked_fill_(torch.eye(N, dtype=torch.bool), -5e4)
    return scores.masked_fill_(LATER, torch.finfo(scores.dtype).min).softmax(-1)


def softermax(up):
    """Softmax to the base 2, with a running maximum that ``up`` rounds."""

    def weigh(scores):
        largest, made = up(scores[..., :1]), []
        for new in scores.split(1, -1):
            now = torch.maximum(largest, up(new))
            made = [w * torch.exp2(largest - now) for w in made] + [torch.exp2(new - now)]
            largest = now
        return torch.cat(made, -1) / sum(made)

    return weigh


def rotated(t):
    """Rotate all features of each head but two by complex factors, as Llama's reference code does."""
    turn = torch.arange(N, dtype=t.dtype)[:, None]
    pairs = torch.view_as_complex(t[..., 2:].reshape(*t.shape[:-1], -1, 2).contiguous())
    turned = torch.view_as_real(pairs * torch.polar(torch.ones_like(turn), turn))
    return torch.cat([t[..., :2], turned.flatten(3)], -1)


#: {title: (redundant directions, functions)}.  What the table of answers holds is tested there.
LAYERS = {
    # b_K can go, and b_V moves into b_O
    "a mask that multiplies and adds": (2 * D, {"weigh": lambda s: softmax(
        s * torch.ones(N, N).tril() - 1e4 * torch.ones(N, N).triu(1))}),
    "masks in place": (2 * D, {"weigh": masked_in_place}),
    "exponentials under a mask": (2 * D, {
        "weigh": lambda s: (e := s.exp() * ~LATER) / e.sum(-1, keepdim=True)}),
    "softmax by logarithms": (2 * D, {"weigh": lambda s: s.log_softmax(-1).exp()}),
    "less the logarithm of the sum": (2 * D, {
        "weigh": lambda s: (s - s.logsumexp(-1, keepdim=True)).exp()}),
    "softermax": (2 * D, {"weigh": softermax(same)}),
    # a rounded maximum also cancels; the calculus sees only that `ceil` depends on b_K
    "softermax, rounded up": (2 * D, {"weigh": softermax(torch.ceil)}, {"finds": D}),
    # nothing else cancels b_K; b_V moves into b_O, as the weights sum to one
    "sigmoids, divided by their sum": (D, {
        "weigh": lambda s: s.sigmoid() / s.sigmoid().sum(-1, keepdim=True)}),
    # the weights cancel b_K, or over the queries b_Q, but do not sum to one
    "a mask above, and not below": (D, {
        "weigh": lambda s: (s.exp() * ~LATER) / s.exp().sum(-1, keepdim=True)}),
    "less the logarithm of a column's sum": (D, {
        "weigh": lambda s: (s - s.logsumexp(-2, keepdim=True)).exp()}),
    # of b_K, what is not rotated (2 H)
    "keys rotated by complex numbers": (2 * H + D, {"norm_k": rotated}),
}  # fmt: skip

for title, (redundant, by, *options) in LAYERS.items():
    case(title, redundant, **dict(*options))(lambda by=by: attention(**by))


# b_K can go and b_V moves into b_O.  The norm's shift would move into b_Q and b_V, but the padding
# lacks the shift: its effect is of the order e^-100, which the Jacobian cannot show
@case("padding masked by -100, as in Swin", 2 * D, counts=3 * D)
def hidden_padding():
    padded = lambda d: nn.Sequential(nn.LayerNorm(d), nn.ZeroPad2d((0, 0, 0, 2)))
    mask = torch.tensor(N * [0.0] + 2 * [-100.0])
    return attention(norm=padded, bend=lambda s: s + mask, after=lambda y, x: y[:, :N])


# b_V moves into b_O, and the part of the bias that the mask multiplies by zero can go
@case("DINOv3: a masked key bias", 2 * D)
@made(lambda: {"qkv": nn.Linear(D, 3 * D), "proj": nn.Linear(D, D),
               "mask": torch.tensor([1.0, 0.0, 1.0]).repeat_interleave(D)})  # fmt: skip
def masked_bias(self, x):
    fused = F_.linear(x, self.qkv.weight, self.qkv.bias * self.mask)
    q, k, v = fused.unflatten(-1, (3, H, -1)).transpose(1, 3).unbind(2)
    return self.proj((softmax(q @ k.mT) @ v).transpose(1, 2).flatten(2))
