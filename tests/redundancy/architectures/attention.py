"""Attention layers as they are written, each under the names that its project gives."""

import math

import torch
import torch.nn.functional as F_
from torch import nn

from .cases import D, H, K, N, case, numbers


def heads(x, h=H):
    """(batch, tokens, features) to (batch, heads, tokens, features of a head)."""
    return x.unflatten(-1, (h, -1)).transpose(1, 2)


def joined(x):
    return x.transpose(1, 2).flatten(2)


# keys D, values with the output bias D
@case("nanoGPT: attention", numbers(), 2 * D)
class CausalSelfAttention(nn.Module):
    def __init__(self, flash=True):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.attn_dropout, self.resid_dropout = nn.Dropout(0.1), nn.Dropout(0.1)
        self.n_head, self.n_embd, self.flash = H, D, flash
        self.register_buffer("bias", torch.tril(torch.ones(N, N)).view(1, 1, N, N))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(self.n_embd, dim=2)
        k = k.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        q = q.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        v = v.view(B, T, self.n_head, C // self.n_head).transpose(1, 2)
        if self.flash:
            y = F_.scaled_dot_product_attention(q, k, v, attn_mask=None, is_causal=True)
        else:
            att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float("-inf"))
            y = self.attn_dropout(F_.softmax(att, dim=-1)) @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        return self.resid_dropout(self.c_proj(y))


case("nanoGPT: attention by hand", numbers(), 2 * D)(lambda: CausalSelfAttention(flash=False))


# keys and values; the layer is the model, and `h` is its number of heads
@case("former: attention", numbers(), 2 * D)
class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.h = H
        self.tokeys, self.toqueries, self.tovalues = (nn.Linear(D, D) for _ in range(3))
        self.unifyheads = nn.Linear(D, D)

    def forward(self, x):
        b, t, e = x.size()
        h, s = self.h, e // self.h
        keys, queries, values = self.tokeys(x), self.toqueries(x), self.tovalues(x)
        keys = keys.view(b, t, h, s).transpose(1, 2).contiguous().view(b * h, t, s)
        queries = queries.view(b, t, h, s).transpose(1, 2).contiguous().view(b * h, t, s)
        values = values.view(b, t, h, s).transpose(1, 2).contiguous().view(b * h, t, s)
        dot = torch.bmm(queries / s**0.25, (keys / s**0.25).transpose(1, 2))
        out = torch.bmm(F_.softmax(dot, dim=2), values).view(b, h, t, s)
        return self.unifyheads(out.transpose(1, 2).contiguous().view(b, t, h * s))


# the norm's shift: W_K β is the same for every key, W_V β goes into the output bias, W_Q β is seen
@case("lucidrains: attention with its norm", numbers(), 0)
class ToQ(nn.Module):
    def __init__(self, bias=False):
        super().__init__()
        self.norm, self.scale, self.heads = nn.LayerNorm(D), K**-0.5, H
        self.to_q, self.to_kv = nn.Linear(D, D, bias=bias), nn.Linear(D, 2 * D, bias=False)
        self.to_out = nn.Sequential(nn.Linear(D, D), nn.Dropout(0.1))

    def forward(self, x):
        x = self.norm(x)
        q, k, v = (heads(t) for t in (self.to_q(x), *self.to_kv(x).chunk(2, dim=-1)))
        sim = torch.einsum("b h i d, b h j d -> b h i j", q, k) * self.scale
        out = torch.einsum("b h i j, b h j d -> b h i d", sim.softmax(dim=-1), v)
        return self.to_out(joined(out))


# with a bias of the queries that takes W_Q β, D directions of β can go
case("a bias of the queries alone", numbers(), D)(lambda: ToQ(bias=True))


# keys H * K, values H * K with the output bias
@case("einsum with parameters", numbers(), 2 * D, also=("bq", "bk", "bv"))
class Einsum(nn.Module):
    def __init__(self):
        super().__init__()
        for name in "qkv":
            setattr(self, f"w{name}", nn.Parameter(torch.zeros(D, H, K)))
            setattr(self, f"b{name}", nn.Parameter(torch.zeros(H, K)))
        self.wo, self.bo = nn.Parameter(torch.zeros(H, K, D)), nn.Parameter(torch.zeros(D))

    def forward(self, x):
        q = torch.einsum("bqd,dhk->bqhk", x, self.wq) + self.bq
        k = torch.einsum("bsd,dhk->bshk", x, self.wk) + self.bk
        v = torch.einsum("bsd,dhk->bshk", x, self.wv) + self.bv
        weights = torch.softmax(torch.einsum("bqhk,bshk->bhqs", q, k) / K**0.5, -1)
        return torch.einsum("bhqs,bshk,hkd->bqd", weights, v, self.wo) + self.bo


# null keys move with b_K, null values with b_V and b_O
@case("x-transformers: null keys and values", numbers(), 2 * D, also=("mem_k", "mem_v"))
class NullKeys(nn.Module):
    def __init__(self, many=2):
        super().__init__()
        self.to_q, self.to_k, self.to_v = (nn.Linear(D, D) for _ in range(3))
        self.mem_k, self.mem_v = (nn.Parameter(torch.zeros(H, many, K)) for _ in range(2))
        self.to_out = nn.Linear(D, D)

    def forward(self, x):
        q, k, v = heads(self.to_q(x)), heads(self.to_k(x)), heads(self.to_v(x))
        mem_k, mem_v = (m.expand(len(x), -1, -1, -1) for m in (self.mem_k, self.mem_v))
        k, v = torch.cat((mem_k, k), dim=-2), torch.cat((mem_v, v), dim=-2)
        dots = torch.einsum("bhid,bhjd->bhij", q, k) * K**-0.5
        mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).triu(
            k.shape[-2] - q.shape[-2] + 1
        )
        dots = dots.masked_fill(mask, -torch.finfo(dots.dtype).max)
        return self.to_out(joined(dots.softmax(dim=-1) @ v))


# one null key of zeros (PyTorch's add_zero_attn) sees b_K and b_V
case("PyTorch: add_zero_attn", numbers(), 0)(lambda: SelfMHA(add_zero_attn=True))
# bias_k moves with the key bias; bias_v with the value bias and the output bias
case("PyTorch: bias_k and bias_v", numbers(), 2 * D, also=("bias_k", "bias_v"))(
    lambda: SelfMHA(add_bias_kv=True)
)


class SelfMHA(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.mha = nn.MultiheadAttention(D, H, batch_first=True, **options)

    def forward(self, x):
        return self.mha(x, x, x, need_weights=False)[0]


# the biases of W and U add up (D of 2 D), the bias of v is the same for every key (1)
@case("Bahdanau: additive attention", numbers((2, D), (2, N, D)), D + 1)
class Bahdanau(nn.Module):
    def __init__(self):
        super().__init__()
        self.Wa, self.Ua, self.Va = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, 1)

    def forward(self, query, keys):
        scores = self.Va(torch.tanh(self.Wa(query.unsqueeze(1)) + self.Ua(keys)))
        weights = F_.softmax(scores.squeeze(2).unsqueeze(1), dim=-1)
        return torch.bmm(weights, keys), weights


class Softermax(nn.Module):
    """Powers of two, and the largest score so far, rounded up where `whole`."""

    def __init__(self, whole):
        super().__init__()
        self.qkv, self.proj, self.whole = nn.Linear(D, 3 * D), nn.Linear(D, D), whole

    def forward(self, x):
        q, k, v = (heads(t) for t in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(-2, -1) / K**0.5
        largest, total, out = scores[..., :1], 0, 0
        if self.whole:
            largest = largest.ceil()
        for j in range(scores.shape[-1]):
            new = scores[..., j : j + 1]
            now = torch.maximum(largest, new.ceil() if self.whole else new)
            old, power = torch.exp2(largest - now), torch.exp2(new - now)
            total, out = total * old + power, out * old + power * v[..., j : j + 1, :]
            largest = now
        return self.proj(joined(out / total))


# keys and values
case("softermax: base 2, running maximum", numbers(), 2 * D)(lambda: Softermax(False))
# the same: the maximum cancels, rounded or not
case("softermax: base 2, maximum rounded up", numbers(), 2 * D)(lambda: Softermax(True))


def rotated(x, start=0):
    """Rotary positions by complex numbers, as Llama's reference writes them: (b, n, h, k)."""
    k, n = x.shape[-1], x.shape[1]
    angles = torch.outer(
        torch.arange(start, start + n, dtype=torch.float64), 100.0 ** -(torch.arange(0, k, 2) / k)
    )
    factors = torch.polar(torch.ones_like(angles), angles).view(1, n, 1, k // 2)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2).contiguous())
    return torch.view_as_real(pairs * factors).flatten(3)


# of wkv_b the bias of the keys without positions (H * K) and that of the values (H * K, with wo's);
# RMSNorm and the rotation see the biases before them; wq_a's is read through RMSNorm, wq_b's by queries
@case("DeepSeek: MLA, reference", numbers(), 2 * D)
class MLA(nn.Module):
    def __init__(self, rope=2, rank=6):
        super().__init__()
        self.rope, self.rank = rope, rank
        self.wq_a, self.q_norm = nn.Linear(D, rank), nn.RMSNorm(rank)
        self.wq_b = nn.Linear(rank, H * (K + rope))
        self.wkv_a, self.kv_norm = nn.Linear(D, rank + rope), nn.RMSNorm(rank)
        self.wkv_b, self.wo = nn.Linear(rank, H * 2 * K), nn.Linear(H * K, D)
        for name, width in (("k_cache", K + rope), ("v_cache", K)):
            self.register_buffer(name, torch.zeros(2, N + 2, H, width), persistent=False)

    def forward(self, x, start_pos=0):
        bsz, seqlen, _ = x.size()
        end_pos = start_pos + seqlen
        q = self.wq_b(self.q_norm(self.wq_a(x))).view(bsz, seqlen, H, K + self.rope)
        q_nope, q_pe = torch.split(q, [K, self.rope], dim=-1)
        q = torch.cat([q_nope, rotated(q_pe, start_pos)], dim=-1)
        kv, k_pe = torch.split(self.wkv_a(x), [self.rank, self.rope], dim=-1)
        k_pe = rotated(k_pe.unsqueeze(2), start_pos)
        kv = self.wkv_b(self.kv_norm(kv)).view(bsz, seqlen, H, 2 * K)
        k_nope, v = torch.split(kv, [K, K], dim=-1)
        k = torch.cat([k_nope, k_pe.expand(-1, -1, H, -1)], dim=-1)
        self.k_cache[:bsz, start_pos:end_pos] = k
        self.v_cache[:bsz, start_pos:end_pos] = v
        scores = torch.einsum("bshd,bthd->bsht", q, self.k_cache[:bsz, :end_pos]) * 0.4
        mask = torch.full((seqlen, seqlen), float("-inf"), device=x.device).triu_(1)
        scores += mask.unsqueeze(1)
        scores = scores.softmax(dim=-1, dtype=torch.float32).type_as(x)
        x = torch.einsum("bsht,bthd->bshd", scores, self.v_cache[:bsz, :end_pos])
        return self.wo(x.flatten(2))


# the shared bias of queries and keys is seen, the values' goes into the output bias
@case("Reformer: shared queries and keys", numbers(), D)
class SharedQK(nn.Module):
    def __init__(self):
        super().__init__()
        self.toqk, self.tov, self.to_out = nn.Linear(D, D), nn.Linear(D, D), nn.Linear(D, D)

    def forward(self, x):
        qk, v = heads(self.toqk(x)), heads(self.tov(x))
        k = F_.normalize(qk, p=2, dim=-1).type_as(qk)
        dot = torch.einsum("bhie,bhje->bhij", qk, k) * K**-0.5
        i = torch.arange(x.shape[1])
        dot.masked_fill_(i[:, None] == i[None, :], -5e4)
        dot.masked_fill_(i[:, None] < i[None, :], torch.finfo(dot.dtype).min)
        return self.to_out(joined(dot.softmax(dim=-1) @ v))


class Biases(nn.Module):
    """BEiT's and EVA's fused projection: its bias is put together out of parts."""

    def __init__(self, masked=False):
        super().__init__()
        self.qkv, self.proj = nn.Linear(D, 3 * D, bias=masked), nn.Linear(D, D)
        self.masked = masked
        if masked:  # as in DINOv3: a part of the bias is multiplied by zero
            self.register_buffer("mask", torch.tensor([1.0] * D + [0.0] * D + [1.0] * D))
        else:
            self.q_bias, self.v_bias = nn.Parameter(torch.zeros(D)), nn.Parameter(torch.zeros(D))

    def forward(self, x):
        if self.masked:
            bias = self.qkv.bias * self.mask
        else:
            zeros = torch.zeros_like(self.v_bias, requires_grad=False)
            bias = torch.cat((self.q_bias, zeros, self.v_bias))
        qkv = F_.linear(x, self.qkv.weight, bias)
        q, k, v = qkv.reshape(*x.shape[:2], 3, H, -1).permute(2, 0, 3, 1, 4)
        attn = ((q * K**-0.5) @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(*x.shape[:2], -1))


# the values' bias goes into the output bias
case("BEiT: biases put together with zeros", numbers(), D)(Biases)
# that, and the part that is multiplied by zero
case("DINOv3: a masked key bias", numbers(), 2 * D)(lambda: Biases(masked=True))


# f and g are queries and keys: g's bias; h's bias goes through v into v's bias
@case("SAGAN: 1 x 1 convolutions", numbers((2, D, 3, 3)), 3 + 4)
class Sagan(nn.Module):
    def __init__(self):
        super().__init__()
        self.theta, self.phi = nn.Conv2d(D, 3, 1), nn.Conv2d(D, 3, 1)
        self.g, self.o = nn.Conv2d(D, 4, 1), nn.Conv2d(4, D, 1)
        self.gamma = nn.Parameter(torch.tensor(0.0))

    def forward(self, x):
        b, c, h, w = x.shape
        theta = self.theta(x).view(-1, 3, h * w)
        phi = F_.max_pool2d(self.phi(x), 2, 1).view(-1, 3, 4)
        g = F_.max_pool2d(self.g(x), 2, 1).view(-1, 4, 4)
        beta = F_.softmax(torch.bmm(theta.transpose(1, 2), phi), -1)
        o = self.o(torch.bmm(g, beta.transpose(1, 2)).view(-1, 4, h, w))
        return self.gamma * o + x


# keys, values with proj_out's, and the norm's shift with the biases of queries and values
@case("VAE: attention block", numbers((2, D, 3, 3)), 3 * D)
class AttnBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.GroupNorm(2, D, eps=1e-6, affine=True)
        self.q, self.k, self.v, self.proj_out = (nn.Conv2d(D, D, 1) for _ in range(4))

    def forward(self, x):
        h_ = self.norm(x)
        q, k, v = self.q(h_), self.k(h_), self.v(h_)
        b, c, h, w = q.shape
        q, k, v = (
            q.reshape(b, c, h * w).permute(0, 2, 1),
            k.reshape(b, c, h * w),
            v.reshape(b, c, h * w),
        )
        w_ = F_.softmax(torch.bmm(q, k) * int(c) ** -0.5, dim=2)
        h_ = torch.bmm(v, w_.permute(0, 2, 1)).reshape(b, c, h, w)
        return x + self.proj_out(h_)


class Cached(nn.Module):
    """A decoder's layer with a cache: two tokens at first, then one by one."""

    def __init__(self, fills):
        super().__init__()
        self.c_attn, self.c_proj, self.fills = nn.Linear(D, 3 * D), nn.Linear(D, D), fills

    def attend(self, x, layer_past):
        query, key, value = (heads(t) for t in self.c_attn(x).split(D, dim=2))
        if layer_past is not None:
            key = torch.cat((layer_past[0], key), dim=-2)
            value = torch.cat((layer_past[1], value), dim=-2)
        n, m = query.shape[-2], key.shape[-2]
        scores = query @ key.transpose(-1, -2) / value.size(-1) ** 0.5
        mask = torch.tril(torch.ones(m, m, dtype=torch.bool))[m - n : m]
        scores = torch.where(mask, scores, torch.finfo(scores.dtype).min)
        return self.c_proj(joined(scores.softmax(-1) @ value)), (key, value)

    def forward(self, x, *past):
        out, past = self.attend(x[:, :2], past or None)
        outs = [out]
        for i in range(2, x.shape[1]) if self.fills else ():
            out, past = self.attend(x[:, i : i + 1], past)
            outs.append(out)
        return torch.cat(outs, 1)


# keys and values: what is in the cache moves too
case("a cache that the module fills", numbers(), 2 * D)(lambda: Cached(True))
# none: what was in the cache before does not move
case("a cache handed in", numbers((2, N, D), (2, H, 3, K), (2, H, 3, K)), 0)(lambda: Cached(False))
