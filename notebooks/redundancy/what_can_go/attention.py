"""Attention with what models add to it: norms, positions, masks, sinks, gates."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .piece import Piece, normal


class Attention(Piece):
    """Attention with a bias on every projection; each option changes one step.

    ``norm_q``, ``norm_k`` and ``norm_v`` act on each head of queries, keys and values
    (with ``over_heads``, before the heads are split).  ``bend`` acts on the scores, ``weigh`` turns
    scores into weights, ``then`` acts on the weights, and ``finish`` acts on the heads' outputs,
    (batch, tokens, h k), and also receives the layer's input.
    """

    def __init__(self, sizes, *, rotary=0, out_bias=True, norm_q=None, norm_k=None,
                 norm_v=None, over_heads=False, clip=None, bend=None, weigh=None, then=None, finish=None,
                 prefix=False, memory=False):  # fmt: skip
        super().__init__(sizes)
        d, wide, narrow = sizes.d, sizes.h * sizes.k, sizes.g * sizes.k
        self.q, self.k, self.v = nn.Linear(d, wide), nn.Linear(d, narrow), nn.Linear(d, narrow)
        self.o = nn.Linear(wide, d, bias=out_bias)
        self.norm_q, self.norm_k, self.norm_v = (
            n or nn.Identity() for n in (norm_q, norm_k, norm_v)
        )
        self.bend, self.weigh, self.then = bend or same, weigh or softmax, then or same
        self.finish = finish or (lambda mixed, x: mixed)
        self.rotary, self.over_heads, self.clip, self.memory = rotary, over_heads, clip, memory
        if prefix:
            self.first = nn.ParameterDict({i: nn.Parameter(torch.empty(2, narrow)) for i in "kv"})

    NAMES = {f"{s}_{m.upper()}": f"{m}.{name}" for m in "qkvo"
             for s, name in (("W", "weight"), ("b", "bias"))} | {
        "c_Q": "norm_q.bias", "c_K": "norm_k.bias", "γ_Q": "norm_q.weight", "γ_K": "norm_k.weight",
        "k_p": "first.k", "v_p": "first.v",
    }  # fmt: skip

    def symbols(self):
        """The symbols, with W_O summed over the heads that share a value head."""
        found, s = super().symbols(), self.sizes
        if isinstance(self.then, AcrossHeads):  # row sums of each head's mixed weights
            added = 0 if self.then.bias is None else s.n * self.then.bias
            found["ρ"] = (self.then.mix.sum(1) + added).repeat_interleave(s.k)
        return found | {"W_O": found["W_O"].view(s.d, s.g, s.h // s.g, s.k).sum(2).flatten(1)}

    def inputs(self, generator):
        more = normal(generator, 2, self.sizes.n + 1, self.sizes.d)
        return (*super().inputs(generator), more) if self.memory else super().inputs(generator)

    def forward(self, x, memory=None):
        memory = x if memory is None else memory
        q, k, v = self.q(x), self.k(memory), self.v(memory)
        if self.clip:
            q, k, v = (t.clamp(-self.clip, self.clip) for t in (q, k, v))
        if hasattr(self, "first"):
            k, v = (torch.cat([self.first[i].expand(len(x), -1, -1), t], 1)
                    for i, t in (("k", k), ("v", v)))  # fmt: skip
        mixed = self.weights(q, k) @ self.norm_v(self.heads(v))
        return self.o(self.finish(mixed.transpose(1, 2).flatten(2), x))

    def heads(self, t):
        """Reshape (batch, tokens, heads k) to (batch, h, tokens, k), repeating shared heads."""
        t = t.unflatten(-1, (-1, self.sizes.k)).transpose(1, 2)
        return t.repeat_interleave(self.sizes.h // t.shape[1], 1)

    def weights(self, q, k):
        if self.over_heads:
            q, k = self.heads(self.norm_q(q)), self.heads(self.norm_k(k))
        else:
            q, k = self.norm_q(self.heads(q)), self.norm_k(self.heads(k))
        q, k = rotate(q, self.rotary), rotate(k, self.rotary)
        return self.then(self.weigh(self.bend(q @ k.mT / self.sizes.k**0.5)))


def same(x):
    return x


def softmax(scores):
    return scores.softmax(-1)


def rotate(x, r):
    """x (…, tokens, features), with each token's first r features rotated according to position."""
    turned, rest = x[..., :r], x[..., r:]
    angle = torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)[:, None] / torch.arange(1, r // 2 + 1)
    even, odd = turned[..., ::2], turned[..., 1::2]
    pairs = even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()
    return torch.cat([*pairs, rest], -1)


def later(scores):
    """A boolean mask (queries, keys): True where the key comes after the query."""
    return torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)


def causal(scores, by=-torch.inf):
    """The scores, with those of later keys replaced by a constant."""
    return scores.masked_fill(later(scores), by)


def added_mask(scores):
    """The scores, with a finite number subtracted from those of later keys."""
    return scores - 3.0 * later(scores)


def alibi(scores):
    tokens = torch.arange(scores.shape[-1])
    return scores - (tokens - tokens[:, None]).abs() / 2


def cap(scores):
    return 2 * torch.tanh(scores / 2)


def off_by_one(scores):
    return scores.exp() / (1 + scores.exp().sum(-1, keepdim=True))


class Cosine(nn.Module):
    """Divides each vector by its length."""

    def forward(self, x):
        return F.normalize(x, dim=-1)


class OwnGains(nn.Module):
    """A LayerNorm with a gain and a shift for each head, as in StableLM 2."""

    def __init__(self, sizes, heads):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(heads, 1, sizes.k))
        self.bias = nn.Parameter(torch.empty(heads, 1, sizes.k))

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:]) * self.weight + self.bias


class PerToken(nn.Module):
    """Multiplies each token's vector by a number that differs from token to token."""

    def forward(self, x):
        return x * torch.arange(1, x.shape[-2] + 1)[:, None] ** 0.5


class Centred(nn.Module):
    """Subtracts the mean over features (axis -1) or over tokens (axis -2)."""

    def __init__(self, axis):
        super().__init__()
        self.axis = axis

    def forward(self, x):
        return x - x.mean(self.axis, keepdim=True)


class Sink(nn.Module):
    """Softmax with one more learned logit per head, whose weight is dropped, as in gpt-oss."""

    def __init__(self, sizes):
        super().__init__()
        self.logit = nn.Parameter(torch.empty(sizes.h, 1, 1))

    def forward(self, scores):
        logit = self.logit.expand(len(scores), -1, scores.shape[-2], 1)
        return torch.cat([scores, logit], -1).softmax(-1)[..., :-1]


class AcrossHeads(nn.Module):
    """Replaces each head's scores or weights by a mixture over all heads, as in talking heads."""

    def __init__(self, sizes, bias=False):
        super().__init__()
        self.mix = nn.Parameter(torch.empty(sizes.h, sizes.h))
        self.bias = nn.Parameter(torch.empty(sizes.h)) if bias else None

    def forward(self, scores):
        mixed = torch.einsum("ab,zbij->zaij", self.mix, scores)
        return mixed if self.bias is None else mixed + self.bias[:, None, None]


class RelativeTable(nn.Module):
    """Adds a learned number for each head and distance to the scores, as in T5."""

    def __init__(self, sizes):
        super().__init__()
        self.table = nn.Parameter(torch.empty(sizes.h, 2 * sizes.n + 1))

    def forward(self, scores):
        tokens = torch.arange(scores.shape[-1])
        return scores + self.table[:, tokens - tokens[:, None] + len(tokens)]


class Gate(nn.Module):
    """Multiplies the heads' outputs by a sigmoid of the layer's input, as in Qwen3-Next."""

    def __init__(self, sizes):
        super().__init__()
        self.map = nn.Linear(sizes.d, sizes.h * sizes.k)

    def forward(self, mixed, x):
        return mixed * torch.sigmoid(self.map(x))


class Scale(nn.Module):
    """Multiplies the output of the heads by a learned number for each feature."""

    def __init__(self, sizes):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(sizes.h * sizes.k))

    def forward(self, mixed, x):
        return self.weight * mixed


class GatedOutput(Attention):
    """Attention whose output, b_O included, is gated by a sigmoid of the layer's input."""

    def __init__(self, sizes):
        super().__init__(sizes)
        self.map = nn.Linear(sizes.d, sizes.d)

    def forward(self, x):
        return super().forward(x) * torch.sigmoid(self.map(x))


class NormOfHeads(nn.Module):
    """A norm on the output of each head, or of all heads together, before W_O."""

    def __init__(self, sizes, norm, together=False):
        super().__init__()
        self.k = sizes.h * sizes.k if together else sizes.k
        self.norm = norm(self.k)

    def forward(self, mixed, x):
        return self.norm(mixed.unflatten(-1, (-1, self.k))).flatten(-2)


class LowRank(nn.Module):
    """A linear map with a low-rank update added to it, as in LoRA."""

    def __init__(self, map, rank=2):
        super().__init__()
        self.map = map
        self.down = nn.Linear(map.in_features, rank, bias=False)
        self.up = nn.Linear(rank, map.out_features, bias=False)

    def forward(self, x):
        return self.map(x) + self.up(self.down(x))


def with_lora(attention):
    """The given attention layer, with LoRA added to its key projection."""
    attention.k = LowRank(attention.k)
    attention.NAMES = attention.NAMES | {"b_K": "k.map.bias", "W_K": "k.map.weight"}
    return attention


class Fused(Piece):
    """PyTorch's own attention layer, in which b_Q, b_K and b_V are the thirds of one vector."""

    def __init__(self, sizes, memory=False, **options):
        super().__init__(sizes)
        width, self.memory = sizes.h * sizes.k, memory
        self.layer = nn.MultiheadAttention(width, sizes.h, batch_first=True, **options)

    NAMES = {"b_QKV": "layer.in_proj_bias", "W_QKV": "layer.in_proj_weight",
             "b_O": "layer.out_proj.bias", "W_O": "layer.out_proj.weight",
             "k_0": "layer.bias_k", "v_0": "layer.bias_v"}  # fmt: skip

    def symbols(self):
        found = super().symbols()
        for letter in "Wb":
            thirds = found.pop(f"{letter}_QKV").chunk(3)
            found |= {f"{letter}_{role}": third for role, third in zip("QKV", thirds, strict=True)}
        return found

    def inputs(self, generator):
        width, n = self.sizes.h * self.sizes.k, self.sizes.n
        return normal(generator, 2, n, width), normal(generator, 2, n + 1, width)

    def forward(self, x, memory):
        return self.layer(x, *[memory if self.memory else x] * 2)[0]


class Differential(Piece):
    """Attention whose weights are a difference of two softmaxes: softmax(S₁) - λ softmax(S₂)."""

    def __init__(self, sizes, norm=None, rotary=0):
        super().__init__(sizes)
        self.two = nn.ModuleList(Attention(sizes, rotary=rotary) for _ in range(2))
        self.share = nn.Parameter(torch.empty(()))
        self.finish = norm and NormOfHeads(sizes, norm)

    NAMES = {"b_Q": "two.0.q.bias", "b_K": "two.0.k.bias", "b_V": "two.0.v.bias",
             "b_O": "two.0.o.bias", "W_O": "two.0.o.weight", "λ": "share"}  # fmt: skip

    def forward(self, x):
        one, other = self.two
        first, second = (a.weights(a.q(x), a.k(x)) for a in self.two)
        mixed = ((first - self.share * second) @ one.heads(one.v(x))).transpose(1, 2).flatten(2)
        return one.o(self.finish(mixed, x) if self.finish else mixed)


class Latent(Piece):
    """DeepSeek's multi-head latent attention: keys and values come from one narrow vector.

    Each key also has r rotary features, which all heads share and which come from the stream.
    """

    def __init__(self, sizes, norm=None):
        super().__init__(sizes)
        d, h, k, r, c = sizes.d, sizes.h, sizes.k, sizes.r, sizes.k + 1
        self.q, self.turned, self.latent = (
            nn.Linear(d, h * (k + r)),
            nn.Linear(d, r),
            nn.Linear(d, c),
        )
        self.norm = norm(c) if norm else nn.Identity()
        self.k, self.v, self.o = nn.Linear(c, h * k), nn.Linear(c, h * k), nn.Linear(h * k, d)

    NAMES = {"b_K": "k.bias", "b_V": "v.bias", "b_O": "o.bias", "W_O": "o.weight",
             "W_V": "v.weight", "b_C": "latent.bias", "b_R": "turned.bias", "b_Q": "q.bias"}  # fmt: skip

    def forward(self, x):
        s, latent = self.sizes, self.norm(self.latent(x))
        split = lambda t, width: t.unflatten(-1, (-1, width)).transpose(1, 2)
        q, k, v = (
            split(self.q(x), s.k + s.r),
            split(self.k(latent), s.k),
            split(self.v(latent), s.k),
        )
        position = rotate(split(self.turned(x), s.r), s.r).expand(-1, s.h, -1, -1)
        plain = q[..., s.r :] @ k.mT + rotate(q[..., : s.r], s.r) @ position.mT
        return self.o((plain.softmax(-1) @ v).transpose(1, 2).flatten(2))


class Linear(Piece):
    """Attention whose weights are products of positive features, without a softmax over scores."""

    def __init__(self, sizes, efficient=False, normalised=True):
        super().__init__(sizes)
        self.attention, self.efficient = Attention(sizes), efficient
        self.normalised = normalised

    NAMES = {symbol: f"attention.{name}" for symbol, name in Attention.NAMES.items()}

    def forward(self, x):
        a = self.attention
        q, k, v = (a.heads(project(x)) for project in (a.q, a.k, a.v))
        if self.efficient:
            weights = q.softmax(-1) @ k.softmax(-2).mT
        else:
            weights = (F.elu(q) + 1) @ (F.elu(k) + 1).mT
            weights = weights / (weights.sum(-1, keepdim=True) if self.normalised else 1)
        return a.o((weights @ v).transpose(1, 2).flatten(2))


class DisentangledAttention(Piece):
    """DeBERTa's attention: learned vectors for distances also multiply queries and keys."""

    def __init__(self, sizes, both=True):
        super().__init__(sizes)
        self.attention, self.both = Attention(sizes), both
        shape = sizes.h, 2 * sizes.n, sizes.k
        self.tables = nn.ParameterDict({i: nn.Parameter(torch.empty(shape)) for i in "qk"})

    NAMES = {symbol: f"attention.{name}" for symbol, name in Attention.NAMES.items()}

    def forward(self, x):
        a, tokens = self.attention, torch.arange(x.shape[1])
        q, k, v = (a.heads(project(x)) for project in (a.q, a.k, a.v))
        apart = tokens - tokens[:, None] + len(tokens)
        content_to_place = torch.einsum("zaic,aijc->zaij", q, self.tables["k"][:, apart])
        place_to_content = torch.einsum("zajc,aijc->zaij", k, self.tables["q"][:, apart])
        scores = q @ k.mT + content_to_place + (place_to_content if self.both else 0)
        return a.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
