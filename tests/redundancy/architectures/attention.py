"""Attention layers as published projects write them; comments say which biases can go."""

import torch
import torch.nn.functional as F_
from torch import nn

from .cases import D, H, K, N, case, made, numbers, zeros


def heads(x, h=H):
    """Reshape (batch, tokens, features) to (batch, heads, tokens, features per head)."""
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


def linears(names, bias=True):
    return {name: nn.Linear(D, D, bias=bias) for name in names.split()}


# b_K can go (D), and b_V moves into b_O (D)
@case("nanoGPT: attention", numbers(), 2 * D)
class CausalSelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.resid_dropout = nn.Dropout(0.1)
        self.n_head, self.n_embd = H, D

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        y = F_.scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=True)
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


@made(lambda bias: dict(
    norm=nn.LayerNorm(D), to_q=nn.Linear(D, D, bias=bias), to_kv=nn.Linear(D, 2 * D, bias=False),
    to_out=nn.Sequential(nn.Linear(D, D), nn.Dropout(0.1))))  # fmt: skip
def to_q(self, x):
    x = self.norm(x)
    q, k, v = (heads(t) for t in (self.to_q(x), *self.to_kv(x).chunk(2, dim=-1)))
    sim = torch.einsum("b h i d, b h j d -> b h i j", q, k) * K**-0.5
    out = torch.einsum("b h i j, b h j d -> b h i d", sim.softmax(dim=-1), v)
    return self.to_out(joined(out))


# the norm's shift β stays: softmax cancels W_K β, b_O absorbs W_V β, but no bias absorbs W_Q β
case("lucidrains: attention with its norm", numbers(), 0)(lambda: to_q(False))
# b_Q absorbs W_Q β, so the norm's shift β can go (D)
case("a bias of the queries alone", numbers(), D)(lambda: to_q(True))


@made(lambda **options: dict(mha=nn.MultiheadAttention(D, H, batch_first=True, **options)))
def self_attention(self, x):
    return self.mha(x, x, x, need_weights=False)[0]


# nothing can go: the added key and value stay zero, so outputs depend on b_K and b_V
case("PyTorch: add_zero_attn", numbers(), 0)(lambda: self_attention(add_zero_attn=True))
# b_K can go if bias_k changes with it; b_V can move into b_O if bias_v changes with it
case("PyTorch: bias_k and bias_v", numbers(), 2 * D, also=("bias_k", "bias_v"))(
    lambda: self_attention(add_bias_kv=True)
)


# Wa's bias moves into Ua's (D); Va's can go, as softmax cancels what is the same for every key (1)
@case("Bahdanau: additive attention", numbers((2, D), (2, N, D)), D + 1)
@made(lambda: linears("Wa Ua") | {"Va": nn.Linear(D, 1)})
def bahdanau(self, query, keys):
    scores = self.Va(torch.tanh(self.Wa(query.unsqueeze(1)) + self.Ua(keys)))
    weights = F_.softmax(scores.squeeze(2).unsqueeze(1), dim=-1)
    return torch.bmm(weights, keys), weights


@made(lambda whole: dict(qkv=nn.Linear(D, 3 * D), proj=nn.Linear(D, D), whole=whole))
def softermax(self, x):
    q, k, v = (heads(t) for t in self.qkv(x).chunk(3, -1))
    scores = q @ k.transpose(-2, -1) / K**0.5
    up = torch.ceil if self.whole else lambda t: t
    largest, total, out = up(scores[..., :1]), 0, 0
    for j in range(scores.shape[-1]):
        new = scores[..., j : j + 1]
        now = torch.maximum(largest, up(new))
        old, power = torch.exp2(largest - now), torch.exp2(new - now)
        total, out = total * old + power, out * old + power * v[..., j : j + 1, :]
        largest = now
    return self.proj(joined(out / total))


# b_K can go, and b_V moves into b_O
case("softermax: base 2, running maximum", numbers(), 2 * D)(lambda: softermax(False))
# a rounded maximum also cancels, so b_K can go; the calculus sees only that `ceil` depends on b_K
case("softermax: maximum rounded up", numbers(), 2 * D, finds=D)(lambda: softermax(True))


# without a division by their sum, the weights depend on b_K, and they pass on unequal shares of b_V
@case("exponentials without a denominator", numbers(), 0)
@made(lambda: linears("q k v"))
def unnormalised(self, x):
    q, k, v = (heads(f(x)) for f in (self.q, self.k, self.v))
    return joined((q @ k.mT / K**0.5).exp() @ v)


def rotated(x):
    """Rotate x (b, n, h, k) by position with complex factors, as Llama's reference code does."""
    turn = torch.arange(x.shape[1], dtype=x.dtype)[:, None] * 100.0 ** -torch.linspace(
        0, 1, x.shape[-1] // 2
    )
    factors = torch.polar(torch.ones_like(turn), turn)[None, :, None]
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * factors).flatten(3)


# Two parts of wkv_b's bias can go: the part for keys without positions (H * K) and the part for
# values, which moves into wo's bias (H * K).  The queries' biases stay, and so do those before an
# RMSNorm or the rotation
@case("DeepSeek: MLA, reference", numbers(), 2 * D)
@made(lambda rope=2, rank=6: dict(
    rope=rope, rank=rank, wq_a=nn.Linear(D, rank), q_norm=nn.RMSNorm(rank), wq_b=nn.Linear(rank, H * (K + rope)),
    wkv_a=nn.Linear(D, rank + rope), kv_norm=nn.RMSNorm(rank), wkv_b=nn.Linear(rank, H * 2 * K),
    wo=nn.Linear(H * K, D), k_cache=torch.zeros(2, 9, H, K + rope), v_cache=torch.zeros(2, 9, H, K)))  # fmt: skip
def mla(self, x, start_pos=0):
    bsz, seqlen, _ = x.size()
    end_pos = start_pos + seqlen
    q = self.wq_b(self.q_norm(self.wq_a(x))).view(bsz, seqlen, H, K + self.rope)
    q_nope, q_pe = torch.split(q, [K, self.rope], dim=-1)
    q = torch.cat([q_nope, rotated(q_pe)], dim=-1)
    kv, k_pe = torch.split(self.wkv_a(x), [self.rank, self.rope], dim=-1)
    kv = self.wkv_b(self.kv_norm(kv)).view(bsz, seqlen, H, 2 * K)
    k_nope, v = torch.split(kv, [K, K], dim=-1)
    k = torch.cat([k_nope, rotated(k_pe.unsqueeze(2)).expand(-1, -1, H, -1)], dim=-1)
    self.k_cache[:bsz, start_pos:end_pos] = k
    self.v_cache[:bsz, start_pos:end_pos] = v
    scores = torch.einsum("bshd,bthd->bsht", q, self.k_cache[:bsz, :end_pos]) * 0.4
    scores += torch.full((seqlen, seqlen), float("-inf")).triu_(1).unsqueeze(1)
    scores = scores.softmax(dim=-1, dtype=torch.float32).type_as(x)
    return self.wo(torch.einsum("bsht,bthd->bshd", scores, self.v_cache[:bsz, :end_pos]).flatten(2))


# b_V moves into b_O (D); the shared bias of queries and keys stays
@case("Reformer: shared queries and keys", numbers(), D)
@made(lambda: linears("toqk tov to_out"))
def reformer(self, x):
    qk, v = heads(self.toqk(x)), heads(self.tov(x))
    k = F_.normalize(qk, p=2, dim=-1).type_as(qk)
    dot = torch.einsum("bhie,bhje->bhij", qk, k) * K**-0.5
    i = torch.arange(x.shape[1])
    dot.masked_fill_(i[:, None] == i[None, :], -5e4)
    dot.masked_fill_(i[:, None] < i[None, :], torch.finfo(dot.dtype).min)
    return self.to_out(joined(dot.softmax(dim=-1) @ v))


# b_V moves into b_O, and the part of the bias that the mask multiplies by zero can go
@case("DINOv3: a masked key bias", numbers(), 2 * D)
@made(lambda: dict(qkv=nn.Linear(D, 3 * D), proj=nn.Linear(D, D),
                   mask=torch.tensor([1.0, 0.0, 1.0]).repeat_interleave(D)))  # fmt: skip
def masked_bias(self, x):
    q, k, v = F_.linear(x, self.qkv.weight, self.qkv.bias * self.mask).chunk(3, -1)
    weights = (heads(q) @ heads(k).mT * K**-0.5).softmax(-1)
    return self.proj(joined(weights @ heads(v)))


# phi makes the keys, so its bias can go (3); g makes the values, so its bias moves into o's (4)
@case("SAGAN: 1 x 1 convolutions", numbers((2, D, 3, 3)), 3 + 4)
@made(lambda: dict(theta=nn.Conv2d(D, 3, 1), phi=nn.Conv2d(D, 3, 1), g=nn.Conv2d(D, 4, 1),
                   o=nn.Conv2d(4, D, 1), gamma=zeros()))  # fmt: skip
def sagan(self, x):
    b, c, h, w = x.shape
    theta, phi = self.theta(x).view(-1, 3, h * w), F_.max_pool2d(self.phi(x), 2, 1).view(-1, 3, 4)
    g = F_.max_pool2d(self.g(x), 2, 1).view(-1, 4, 4)
    beta = F_.softmax(torch.bmm(theta.transpose(1, 2), phi), -1)
    return self.gamma * self.o(torch.bmm(g, beta.transpose(1, 2)).view(-1, 4, h, w)) + x


def attend(self, x, layer_past):
    query, key, value = (heads(t) for t in self.c_attn(x).split(D, dim=2))
    if layer_past:
        key = torch.cat((layer_past[0], key), dim=-2)
        value = torch.cat((layer_past[1], value), dim=-2)
    n, m = query.shape[-2], key.shape[-2]
    scores = query @ key.transpose(-1, -2) / value.size(-1) ** 0.5
    mask = torch.tril(torch.ones(m, m, dtype=torch.bool))[m - n : m]
    scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
    return self.c_proj(joined(scores.softmax(-1) @ value)), (key, value)


@made(lambda: dict(c_attn=nn.Linear(D, 3 * D), c_proj=nn.Linear(D, D)))
def decoder(self, x, *past):
    """Decode two tokens and, unless a cache was handed in, the remaining tokens one at a time."""
    out, cache = attend(self, x[:, :2], past)
    outs = [out]
    for i in range(2, x.shape[1]) if not past else ():
        out, cache = attend(self, x[:, i : i + 1], cache)
        outs.append(out)
    return torch.cat(outs, 1)


# b_K can go and b_V moves into b_O, as the biases also shift the cached keys and values
case("a cache that the module fills", numbers(), 2 * D)(decoder)
# nothing can go, as the biases do not shift the keys and values in the cache that was handed in
case("a cache handed in", numbers((2, N, D), (2, H, 3, K), (2, H, 3, K)), 0)(decoder)
