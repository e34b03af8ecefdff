"""Attention with what models add to it: norms, positions, masks, sinks, gates."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from .piece import Learned, Piece, Sizes, normal


class Attention(Piece):
    """Attention with a bias on every projection; each option changes one step.

    ``rotary`` is how many features of a head positions rotate, as a number or a letter of `Sizes`.
    ``norm(d)`` acts on the layer's input, and ``after`` on the layer's output and on that result.
    ``norm_q``, ``norm_k`` and ``norm_v`` act on each head of queries, keys and values
    (with ``over_heads``, before the heads are split).  ``bend`` acts on the scores, ``weigh`` turns
    scores into weights, ``then`` acts on the weights, and ``finish`` acts on the heads' outputs,
    (batch, tokens, h k), and also receives the layer's input.  With ``prefix``, two more keys and
    values are parameters; with ``memory``, keys and values come from other tokens, which ``norm``
    does not see.  ``keys(inputs, outputs)`` is the map that makes keys.
    """

    def __init__(self, sizes: Sizes, *, norm=None, keys=nn.Linear, rotary=0, out_bias=True,
                 norm_q=None, norm_k=None, norm_v=None, over_heads=False, clip=torch.inf, bend=None,
                 weigh=None, then=None, finish=None, after=None, prefix=False,
                 memory=False):  # fmt: skip
        super().__init__(sizes)
        d, wide, narrow = sizes.d, sizes.h * sizes.k, sizes.g * sizes.k
        self.q, self.k, self.v = nn.Linear(d, wide), keys(d, narrow), nn.Linear(d, narrow)
        self.o = nn.Linear(wide, d, bias=out_bias)
        self.norm = norm(d) if norm else same
        self.norm_q, self.norm_k, self.norm_v = norm_q or same, norm_k or same, norm_v or same
        self.bend, self.weigh, self.then = bend or same, weigh or softmax, then or same
        self.finish, self.after, self.memory = finish or same, after or same, memory
        self.rotary = getattr(sizes, rotary) if isinstance(rotary, str) else rotary
        self.over_heads, self.clip = over_heads, clip
        self.first = nn.ParameterDict(
            {i: nn.Parameter(torch.empty(2, narrow)) for i in "kv"} if prefix else {}
        )

    def symbols(self):
        found = super().symbols()
        if isinstance(self.then, AcrossHeads):  # the row sums of each head's mixed weights
            sums = self.then.mix.sum(1) + self.sizes.n * self.then.bias
            found["ρ"] = sums.repeat_interleave(self.sizes.k)
        return found

    def inputs(self, generator):
        more = normal(generator, 2, self.sizes.n + 1, self.sizes.d)
        return (*super().inputs(generator), more) if self.memory else super().inputs(generator)

    def forward(self, x, memory=None):
        x = self.norm(x)
        memory = x if memory is None else memory
        q, k, v = (t.clamp(-self.clip, self.clip)
                   for t in (self.q(x), self.k(memory), self.v(memory)))  # fmt: skip
        if self.first:
            k, v = (torch.cat([self.first[i].expand(len(x), -1, -1), t], 1)
                    for i, t in (("k", k), ("v", v)))  # fmt: skip
        mixed = self.weights(q, k) @ self.norm_v(self.heads(v))
        return self.after(self.o(self.finish(mixed.transpose(1, 2).flatten(2), x)), x)

    def heads(self, t):
        """Reshape (batch, tokens, heads k) to (batch, h, tokens, k), repeating shared heads."""
        t = t.unflatten(-1, (-1, self.sizes.k)).transpose(1, 2)
        return t.repeat_interleave(self.sizes.h // t.shape[1], 1)

    def weights(self, q, k):
        """The attention weights (batch, h, tokens, keys) of projected queries and keys."""
        if self.over_heads:
            q, k = self.heads(self.norm_q(q)), self.heads(self.norm_k(k))
        else:
            q, k = self.norm_q(self.heads(q)), self.norm_k(self.heads(k))
        q, k = rotate(q, self.rotary), rotate(k, self.rotary)
        return self.then(self.weigh(self.bend(q @ k.mT / self.sizes.k**0.5)))


def same(x, *_):
    return x


def softmax(scores):
    return scores.softmax(-1)


def over_tokens(x):
    """A softmax over the tokens of keys, or over the queries of scores."""
    return x.softmax(-2)


def by_their_sum(weights):
    return weights / weights.sum(-1, keepdim=True)


def elu_plus_one(x):
    return F.elu(x) + 1


def rotate(x, r):
    """x (…, tokens, features), with each token's first r features rotated according to position."""
    turned, rest = x[..., :r], x[..., r:]
    angle = torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)[:, None] / torch.arange(1, r // 2 + 1)
    even, odd = turned[..., ::2], turned[..., 1::2]
    pairs = even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()
    return torch.cat([*pairs, rest], -1)


def apart(scores):
    """The distances j - i, an integer matrix (queries, keys)."""
    return torch.arange(scores.shape[-1]) - torch.arange(scores.shape[-2])[:, None]


def later(scores):
    """A boolean mask (queries, keys): True where the key comes after the query."""
    return apart(scores) > 0


def causal(scores, by=-torch.inf):
    """The scores, with those of later keys replaced by a constant."""
    return scores.masked_fill(later(scores), by)


def added_mask(scores):
    """The scores, with a finite number subtracted from those of later keys."""
    return scores - 3.0 * later(scores)


def alibi(scores):
    return scores - apart(scores).abs() / 2


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
        self.bias = nn.Parameter(torch.empty(sizes.h)) if bias else torch.zeros(sizes.h)

    def forward(self, scores):
        return torch.einsum("ab,zbij->zaij", self.mix, scores) + self.bias[:, None, None]


def relative_table(sizes):
    """Adds a learned number for each head and distance to the scores, as in T5."""
    n = sizes.n
    return Learned(lambda table, scores: scores + table[:, apart(scores) + n], sizes.h, 2 * n + 1)


class Gate(nn.Module):
    """Multiplies vectors by a sigmoid of the layer's input: the heads' outputs, as in Qwen3-Next,
    or, with ``behind``, the layer's output, b_O included."""

    def __init__(self, sizes, behind=False):
        super().__init__()
        self.map = nn.Linear(sizes.d, sizes.d if behind else sizes.h * sizes.k)

    def forward(self, gated, x):
        return gated * torch.sigmoid(self.map(x))


class NormOfHeads(nn.Module):
    """A norm on the output of each head, or of all heads together, before W_O."""

    def __init__(self, sizes, norm, together=False):
        super().__init__()
        self.k = sizes.h * sizes.k if together else sizes.k
        self.norm_o = norm(self.k)

    def forward(self, mixed, x):
        return self.norm_o(mixed.unflatten(-1, (-1, self.k))).flatten(-2)


class LowRank(nn.Linear):
    """A linear map with a low-rank update added to it, as in LoRA."""

    def __init__(self, inputs, outputs, rank=2):
        super().__init__(inputs, outputs)
        self.update = nn.Sequential(
            nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=False)
        )

    def forward(self, x):
        return super().forward(x) + self.update(x)


class Fused(Piece):
    """PyTorch's own attention layer, in which b_Q, b_K and b_V are the thirds of one vector."""

    def __init__(self, sizes, memory=False, **options):
        super().__init__(sizes)
        self.width, self.memory = sizes.h * sizes.k, memory
        self.layer = nn.MultiheadAttention(self.width, sizes.h, batch_first=True, **options)

    def place(self, symbol):
        letter, _, role = symbol.partition("_")
        kind = {"b": "bias", "W": "weight"}.get(letter)
        if kind and role == "O":
            return f"layer.out_proj.{kind}", ...
        if kind and role in ("Q", "K", "V"):
            start = "QKV".index(role) * self.width
            return f"layer.in_proj_{kind}", slice(start, start + self.width)
        return super().place(symbol)

    def inputs(self, generator):
        n = self.sizes.n
        return normal(generator, 2, n, self.width), normal(generator, 2, n + 1, self.width)

    def forward(self, x, memory):
        return self.layer(x, *[memory if self.memory else x] * 2)[0]


class Differential(Attention):
    """Attention whose weights are a difference of two softmaxes: softmax(S₁) - λ softmax(S₂).

    The queries and the keys of both softmaxes are the two halves of one projection.
    """

    def __init__(self, sizes, norm=None, rotary=0):
        super().__init__(sizes, rotary=rotary, finish=norm and NormOfHeads(sizes, norm))
        self.q = nn.Linear(sizes.d, 2 * sizes.h * sizes.k)
        self.k = nn.Linear(sizes.d, 2 * sizes.g * sizes.k)
        self.share = nn.Parameter(torch.empty(()))

    def weights(self, q, k):
        pairs = zip(q.chunk(2, -1), k.chunk(2, -1), strict=True)
        first, second = (super(Differential, self).weights(*pair) for pair in pairs)
        return first - self.share * second


class Latent(Attention):
    """DeepSeek's multi-head latent attention: keys and values come from one narrow vector.

    Each key also has r rotary features, which all heads share and which come from the stream.
    """

    def __init__(self, sizes, norm=None):
        d, wide, narrow = sizes.d, sizes.h * sizes.k, sizes.k + 1
        super().__init__(sizes)
        self.q = nn.Linear(d, wide + sizes.h * sizes.r)
        self.turned, self.latent = nn.Linear(d, sizes.r), nn.Linear(d, narrow)
        self.norm_c = norm(narrow) if norm else nn.Identity()
        self.k, self.v = nn.Linear(narrow, wide), nn.Linear(narrow, wide)

    def forward(self, x, memory=None):
        s, latent = self.sizes, self.norm_c(self.latent(x))
        plain, turned = self.q(x).split([s.h * s.k, s.h * s.r], -1)
        turned = rotate(turned.unflatten(-1, (s.h, s.r)).transpose(1, 2), s.r)
        scores = self.heads(plain) @ self.heads(self.k(latent)).mT
        scores = scores + turned @ rotate(self.turned(x)[:, None], s.r).mT
        mixed = scores.softmax(-1) @ self.heads(self.v(latent))
        return self.o(mixed.transpose(1, 2).flatten(2))


def Linear(sizes, efficient=False, normalised=True):
    """Attention whose weights are products of positive features, without a softmax over scores."""
    if efficient:
        undivided = lambda scores: scores * sizes.k**0.5
        return Attention(sizes, norm_q=softmax, norm_k=over_tokens, weigh=undivided)
    weigh = by_their_sum if normalised else same
    return Attention(sizes, norm_q=elu_plus_one, norm_k=elu_plus_one, weigh=weigh)


class DisentangledAttention(Attention):
    """DeBERTa's attention: learned vectors for distances also multiply queries and keys."""

    def __init__(self, sizes, both=True):
        super().__init__(sizes)
        shape = sizes.h, 2 * sizes.n, sizes.k
        self.both = both
        self.tables = nn.ParameterDict({i: nn.Parameter(torch.empty(shape)) for i in "qk"})

    def weights(self, q, k):
        q, k = self.heads(q), self.heads(k)
        content = q @ k.mT
        to_keys, to_queries = (self.tables[i][:, apart(content) + self.sizes.n] for i in "kq")
        scores = content + torch.einsum("zaic,aijc->zaij", q, to_keys)
        if self.both:
            scores = scores + torch.einsum("zajc,aijc->zaij", k, to_queries)
        return scores.softmax(-1)
