"""Whole models of sequences: GPT, BERT, DETR, Perceiver, Conformer, mixtures of experts, T5."""

import torch
import torch.nn.functional as F_
from torch import nn

from .attention import CausalSelfAttention, heads, joined
from .cases import D, F, H, K, N, V, case, numbers, words


class LayerNorm(nn.Module):
    """nanoGPT's: PyTorch's, with a bias that can be left out."""

    def __init__(self):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))

    def forward(self, input):
        return F_.layer_norm(input, self.weight.shape, self.weight, self.bias, 1e-5)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.gelu, self.c_proj = nn.Linear(D, F), nn.GELU(), nn.Linear(F, D)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(self.c_proj(self.gelu(self.c_fc(x))))


# keys, values, ln_1 into the queries' and values' biases, ln_2 into c_fc (4 D); the multiple of 1 in
# attention's output bias passes ln_2, and goes into c_proj's (1)
@case("nanoGPT: block", numbers(), 4 * D + 1)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn = LayerNorm(), CausalSelfAttention()
        self.ln_2, self.mlp = LayerNorm(), MLP()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


# two blocks, each with the means of both biases that are added to the stream
@case("nanoGPT: model", words(), 2 * (4 * D + 2))
class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.transformer = nn.ModuleDict(dict(
            wte=nn.Embedding(V, D), wpe=nn.Embedding(N, D), drop=nn.Dropout(0.1),
            h=nn.ModuleList([Block(), Block()]), ln_f=LayerNorm()))  # fmt: skip
        self.lm_head = nn.Linear(D, V, bias=False)
        self.transformer.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
        x = self.transformer.drop(self.transformer.wte(idx) + self.transformer.wpe(pos))
        for block in self.transformer.h:
            x = block(x)
        return self.lm_head(self.transformer.ln_f(x)[:, [-1], :]), None


# the loss subtracts nothing that the logits do not: a bias of the head would lose its mean
@case("nanoGPT: loss, the head with a bias", words(), 2 * (4 * D + 2) + D + 1)
class Loss(GPT):
    def __init__(self):
        super().__init__()
        self.lm_head = nn.Linear(D, V)

    def forward(self, idx):
        x = self.transformer.wte(idx) + self.transformer.wpe.weight
        for block in self.transformer.h:
            x = block(x)
        logits = self.lm_head(self.transformer.ln_f(x))
        return F_.cross_entropy(logits.view(-1, V), idx.roll(-1, 1).view(-1), reduction="none")


class BertLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.dense = (nn.Linear(D, D) for _ in "qkvo")
        self.LayerNorm, self.output_norm = nn.LayerNorm(D, eps=1e-12), nn.LayerNorm(D, eps=1e-12)
        self.intermediate, self.output = nn.Linear(D, F), nn.Linear(F, D)

    def forward(self, x, mask):
        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        scores = torch.matmul(q, k.transpose(-1, -2)) / K**0.5 + mask
        x = self.LayerNorm(self.dense(joined(torch.matmul(scores.softmax(-1), v))) + x)
        return self.output_norm(self.output(F_.gelu(self.intermediate(x))) + x)


# each layer: keys, values, the norm before it (into the biases of queries, values and output: two
# readers and the residual sum), the norm in it likewise, and two means that a norm subtracts
@case("BERT with its embedding norm", words(), 2 * (4 * D + 2))
class Bert(nn.Module):
    def __init__(self):
        super().__init__()
        self.word, self.position, self.token_type = (nn.Embedding(n, D) for n in (V, N, 2))
        self.LayerNorm = nn.LayerNorm(D, eps=1e-12)
        self.layer = nn.ModuleList([BertLayer(), BertLayer()])
        self.pooler = nn.Linear(D, D)

    def forward(self, ids):
        mask = (ids == 3).to(torch.float64)[:, None, None, :] * torch.finfo(torch.float64).min
        x = self.word(ids) + self.token_type(torch.zeros_like(ids))
        x = self.LayerNorm(x + self.position(torch.arange(ids.size(1))))
        for layer in self.layer:
            x = layer(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class DetrLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.self_attn, self.multihead_attn = (nn.MultiheadAttention(D, H) for _ in "12")
        self.linear1, self.linear2 = nn.Linear(D, F), nn.Linear(F, D)
        self.norm1, self.norm2, self.norm3 = (nn.LayerNorm(D) for _ in "123")

    def forward(self, tgt, memory, pos, query_pos):
        q = k = tgt + query_pos
        tgt = self.norm1(tgt + self.self_attn(q, k, value=tgt)[0])
        tgt2 = self.multihead_attn(query=tgt + query_pos, key=memory + pos, value=memory)[0]
        tgt = self.norm2(tgt + tgt2)
        return self.norm3(tgt + self.linear2(F_.relu(self.linear1(tgt))))


# Each of two layers: keys and values of both attentions, norm1 into cross-attention's queries and output,
# norm2 into linear1 and linear2, and three means (6 D + 3).  norm3 is read by the decoder's norm, which
# subtracts its mean (2), and that norm's shift goes into both heads (D)
class Detr(nn.Module):
    """All layers' outputs are normed and read by two heads."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([DetrLayer(), DetrLayer()])
        self.norm, self.query_embed = nn.LayerNorm(D), nn.Embedding(3, D)
        self.class_embed = nn.Linear(D, 4)
        self.bbox = nn.ModuleList([nn.Linear(D, D), nn.Linear(D, 4)])

    def forward(self, memory, pos, tgt):
        query_pos = self.query_embed.weight.unsqueeze(1).repeat(1, memory.shape[1], 1)
        found = []
        for layer in self.layers:
            tgt = layer(tgt, memory, pos, query_pos)
            found.append(self.norm(tgt))
        hs = torch.stack(found).transpose(1, 2)
        return self.class_embed(hs), self.bbox[1](F_.relu(self.bbox[0](hs))).sigmoid()


MEMORY = numbers((4, 2, D), (4, 2, D), (3, 2, D))
case("DETR: decoder", MEMORY, 2 * (6 * D + 3) + 2 + D, seed=2)(Detr)


class PreNorm(nn.Module):
    def __init__(self, dim, fn, context_dim=None):
        super().__init__()
        self.fn, self.norm = fn, nn.LayerNorm(dim)
        self.norm_context = nn.LayerNorm(context_dim) if context_dim else None

    def forward(self, x, **kwargs):
        if self.norm_context is not None:
            kwargs["context"] = self.norm_context(kwargs["context"])
        return self.fn(self.norm(x), **kwargs)


class PerceiverAttention(nn.Module):
    def __init__(self, context_dim=D):
        super().__init__()
        self.to_q, self.to_kv = (
            nn.Linear(D, D, bias=False),
            nn.Linear(context_dim, 2 * D, bias=False),
        )
        self.to_out = nn.Linear(D, D)

    def forward(self, x, context=None):
        k, v = self.to_kv(x if context is None else context).chunk(2, dim=-1)
        q, k, v = (heads(t).flatten(0, 1) for t in (self.to_q(x), k, v))
        attn = (torch.einsum("bid,bjd->bij", q, k) * K**-0.5).softmax(dim=-1)
        return self.to_out(joined(torch.einsum("bij,bjd->bid", attn, v).unflatten(0, (-1, H))))


class GEGLU(nn.Module):
    def forward(self, x):
        x, gates = x.chunk(2, dim=-1)
        return x * F_.gelu(gates)


# the norm of the context (6): the same for every key, and through the values into to_out; the norms of
# two feed-forwards into their first bias and the last norm into the head (3 D); the multiples of 1 in
# four biases and three latents, which norms subtract (7)
@case("Perceiver", numbers((2, 7, 6)), 6 + 3 * D + 4 + 3, also=("latents",))
class Perceiver(nn.Module):
    def __init__(self):
        super().__init__()
        self.latents = nn.Parameter(torch.zeros(3, D))
        feed = lambda: nn.Sequential(nn.Linear(D, 2 * F), GEGLU(), nn.Linear(F, D))
        self.cross = PreNorm(D, PerceiverAttention(6), 6)
        self.cross_ff, self.own, self.own_ff = (
            PreNorm(D, f) for f in (feed(), PerceiverAttention(), feed())
        )
        self.to_logits = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 4))

    def forward(self, data):
        x = self.latents.unsqueeze(0).repeat(len(data), 1, 1)
        x = self.cross(x, context=data) + x
        x = self.cross_ff(x) + x
        x = self.own(x) + x
        x = self.own_ff(x) + x
        return self.to_logits(x.mean(dim=-2))


# in each half-step the norm into the first bias (2 D); attention's norm into b_Q and b_V, b_Q into u and
# v, keys, values (4 D); the convolution's norm into pointwise_conv1 (D), depthwise_conv into BatchNorm (D),
# BatchNorm is read by swish; four multiples of 1, of pointwise_conv2 too (4), which norms subtract
@case("Conformer", numbers((2, 4, D)), 8 * D + 4, also=("pos_bias_u", "pos_bias_v"))
class Conformer(nn.Module):
    def __init__(self):
        super().__init__()
        feed = lambda: nn.Sequential(nn.LayerNorm(D), nn.Linear(D, F), nn.SiLU(), nn.Linear(F, D))
        self.ff1, self.ff2 = feed(), feed()
        self.norm_mha, self.norm_conv, self.norm_final = (nn.LayerNorm(D) for _ in "123")
        self.linear_q, self.linear_k, self.linear_v, self.linear_out = (
            nn.Linear(D, D) for _ in "qkvo"
        )
        self.linear_pos = nn.Linear(D, D, bias=False)
        self.pos_bias_u, self.pos_bias_v = (nn.Parameter(torch.zeros(H, K)) for _ in "uv")
        self.pointwise_conv1, self.pointwise_conv2 = nn.Conv1d(D, 2 * D, 1), nn.Conv1d(D, D, 1)
        self.depthwise_conv = nn.Conv1d(D, D, 3, padding=1, groups=D)
        self.norm, self.activation = nn.BatchNorm1d(D), nn.SiLU()

    def attend(self, x):
        n = x.shape[1]
        at = torch.arange(n - 1, -n, -1.0)[:, None] * 10.0 ** -(torch.arange(D // 2) / 4)
        pos = torch.stack([at.sin(), at.cos()], -1).flatten(1)[None].to(x)
        q = self.linear_q(x).view(len(x), -1, H, K)
        k, v, p = heads(self.linear_k(x)), heads(self.linear_v(x)), heads(self.linear_pos(pos))
        q_u, q_v = ((q + bias).transpose(1, 2) for bias in (self.pos_bias_u, self.pos_bias_v))
        bd = torch.matmul(q_v, p.transpose(-2, -1))
        zero_pad = torch.zeros((*bd.size()[:3], 1), device=bd.device, dtype=bd.dtype)
        padded = torch.cat([zero_pad, bd], dim=-1).view(*bd.size()[:2], bd.size(3) + 1, bd.size(2))
        bd = padded[:, :, 1:].view_as(bd)[:, :, :, : bd.size(-1) // 2 + 1]
        scores = (torch.matmul(q_u, k.transpose(-2, -1)) + bd) / K**0.5
        return self.linear_out(joined(torch.matmul(torch.softmax(scores, dim=-1), v)))

    def convolve(self, x):
        x = F_.glu(self.pointwise_conv1(x.transpose(1, 2)), dim=1)
        x = self.activation(self.norm(self.depthwise_conv(x)))
        return self.pointwise_conv2(x).transpose(1, 2)

    def forward(self, x):
        x = x + 0.5 * self.ff1(x)
        x = x + self.attend(self.norm_mha(x))
        x = x + self.convolve(self.norm_conv(x))
        return self.norm_final(x + 0.5 * self.ff2(x))


class Experts(nn.Module):
    """Two of four experts for each token; the router is Mixtral's, or DeepSeek-V3's."""

    def __init__(self, router, shared):
        super().__init__()
        self.gate, self.router = nn.Linear(D, 4), router
        if router == "sigmoid":
            self.e_score_correction_bias = nn.Parameter(torch.zeros(4))
        make = lambda: nn.Sequential(nn.Linear(D, F), nn.SiLU(), nn.Linear(F, D))
        self.experts = nn.ModuleList([make() for _ in range(4)])
        self.shared = make() if shared else None

    def route(self, x):
        if self.router == "softmax":
            weights, chosen = torch.topk(
                F_.softmax(self.gate(x), dim=1, dtype=torch.float), 2, dim=-1
            )
        else:
            scores = self.gate(x).sigmoid()
            chosen = torch.topk(scores + self.e_score_correction_bias, 2, dim=-1, sorted=False)[1]
            weights = scores.gather(1, chosen)
        return (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype), chosen

    def forward(self, x):
        shape, x = x.shape, x.view(-1, D)
        weights, chosen = self.route(x)
        out = torch.zeros_like(x)
        mask = F_.one_hot(chosen, num_classes=4).permute(2, 1, 0)
        for i, expert in enumerate(self.experts):
            place, rows = torch.where(mask[i])
            out.index_add_(
                0, rows, expert(x[None, rows].reshape(-1, D)) * weights[rows, place, None]
            )
        return (out if self.shared is None else out + self.shared(x)).view(shape)


# the router's bias but for differences
case("mixture of experts: softmax router", numbers(), 1)(lambda: Experts("softmax", False))
# and what all experts add, as their weights sum to one, goes into the expert that is shared
case("mixture of experts: a shared one", numbers(), 1 + D)(lambda: Experts("softmax", True))
# of a bias that selects, the mean; the Jacobian does not see a selection, and counts all four
case("mixture of experts: sigmoid router, a bias that selects", numbers(), 1, counts=4, seed=9)(
    lambda: Experts("sigmoid", False)
)


# a bias for each distance and head, but for one number for each head; RMSNorm, no biases
@case("T5: buckets of relative positions", words(), H, also=("relative_attention_bias.weight",))
class T5(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm, self.final = nn.Embedding(V, D), nn.RMSNorm(D), nn.RMSNorm(D)
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in "qkvo")
        self.relative_attention_bias = nn.Embedding(4, H)

    def forward(self, ids):
        x = self.embed(ids)
        at = torch.arange(ids.shape[1])
        bucket = (at[None] - at[:, None]).abs().clamp(max=3)
        bias = self.relative_attention_bias(bucket).permute(2, 0, 1).unsqueeze(0)
        y = self.norm(x)
        scores = heads(self.q(y)) @ heads(self.k(y)).transpose(3, 2)
        scores += bias
        weights = F_.softmax(scores.float(), dim=-1).type_as(scores)
        return self.final(x + self.o(joined(weights @ heads(self.v(y)))))
