"""Sequence models and their blocks: GPT, BERT, DETR, Perceiver, Conformer, mixture of experts."""

import torch
import torch.nn.functional as F_
from torch import nn

from .attention import CausalSelfAttention, heads, joined, linears
from .cases import D, F, H, K, N, V, case, made, numbers, words, zeros


def norms(names):
    return {name: nn.LayerNorm(D) for name in names.split()}


class LayerNorm(nn.Module):
    """nanoGPT's LayerNorm, which passes its own parameters to PyTorch's function."""

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


# b_K can go, b_V moves into b_O, ln_1's shift into b_Q and b_V, ln_2's into c_fc's bias (D each),
# and the mean of b_O, which ln_2 cancels, into the bias of the MLP's c_proj (1)
@case("nanoGPT: block", numbers(), 4 * D + 1)
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn = LayerNorm(), CausalSelfAttention()
        self.ln_2, self.mlp = LayerNorm(), MLP()

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


@made(lambda tied: dict(
    wte=nn.Embedding(V, D), wpe=nn.Embedding(N, D), drop=nn.Dropout(0.1), ln_f=LayerNorm(),
    h=nn.ModuleList([Block(), Block()]), lm_head=nn.Linear(D, V, bias=not tied)))  # fmt: skip
def gpt(self, idx):
    pos = torch.arange(0, idx.size(1), dtype=torch.long, device=idx.device)
    x = self.drop(self.wte(idx) + self.wpe(pos))
    for block in self.h:
        x = block(x)
    if self.lm_head.bias is None:
        return self.lm_head(self.ln_f(x)[:, [-1], :]), None
    logits, targets = self.lm_head(self.ln_f(x)), idx.roll(-1, 1)
    return F_.cross_entropy(logits.view(-1, V), targets.view(-1), reduction="none")


# in each block, 4 D directions can go as above, and so can the means of both c_proj biases (2)
@case("nanoGPT: model", words(), 2 * (4 * D + 2))
def tied_gpt():
    model = gpt(True)
    model.wte.weight = model.lm_head.weight
    return model


# ln_f's shift also moves into the head's bias (D), whose mean can go, as softmax cancels it (1)
case("nanoGPT: loss, the head with a bias", words(), 2 * (4 * D + 2) + D + 1)(lambda: gpt(False))


@made(lambda: linears("query key value dense") | norms("LayerNorm output_norm")
      | dict(intermediate=nn.Linear(D, F), output=nn.Linear(F, D)))  # fmt: skip
def bert_layer(self, x, mask):
    q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
    scores = torch.matmul(q, k.transpose(-1, -2)) / K**0.5 + mask
    x = self.LayerNorm(self.dense(joined(torch.matmul(scores.softmax(-1), v))) + x)
    return self.output_norm(self.output(F_.gelu(self.intermediate(x))) + x)


# In each layer, b_K can go, b_V moves into b_O, the preceding norm's shift into b_Q, b_V and b_O,
# and LayerNorm's shift into both biases of the MLP (D each); norms cancel the means of two biases
@case("BERT with its embedding norm", words(), 2 * (4 * D + 2))
@made(lambda: dict(
    word=nn.Embedding(V, D), position=nn.Embedding(N, D), token_type=nn.Embedding(2, D),
    LayerNorm=nn.LayerNorm(D, eps=1e-12), layer=nn.ModuleList([bert_layer(), bert_layer()]),
    pooler=nn.Linear(D, D)))  # fmt: skip
def bert(self, ids):
    mask = (ids == 3).to(torch.float64)[:, None, None, :] * torch.finfo(torch.float64).min
    x = self.word(ids) + self.token_type(torch.zeros_like(ids))
    x = self.LayerNorm(x + self.position(torch.arange(ids.size(1))))
    for layer in self.layer:
        x = layer(x, mask)
    return x, torch.tanh(self.pooler(x[:, 0]))


@made(lambda: norms("norm1 norm2 norm3") | dict(
    self_attn=nn.MultiheadAttention(D, H), multihead_attn=nn.MultiheadAttention(D, H),
    linear1=nn.Linear(D, F), linear2=nn.Linear(F, D)))  # fmt: skip
def detr_layer(self, tgt, memory, pos, query_pos):
    q = k = tgt + query_pos
    tgt = self.norm1(tgt + self.self_attn(q, k, value=tgt)[0])
    tgt2 = self.multihead_attn(query=tgt + query_pos, key=memory + pos, value=memory)[0]
    tgt = self.norm2(tgt + tgt2)
    return self.norm3(tgt + self.linear2(F_.relu(self.linear1(tgt))))


# In each layer, both b_K and both b_V can go (4 D), norm1's shift moves into b_Q and b_O of the
# cross-attention, norm2's into linear1 and linear2 (2 D), and three means can go (3).  The
# decoder's norm cancels the mean of each norm3's shift (2); its own shift moves into both heads (D)
@case("DETR: decoder", numbers((4, 2, D), (4, 2, D), (3, 2, D)), 2 * (6 * D + 3) + 2 + D)
@made(lambda: norms("norm") | linears("bbox") | dict(
    layers=nn.ModuleList([detr_layer(), detr_layer()]), query_embed=nn.Embedding(3, D),
    class_embed=nn.Linear(D, 4), out=nn.Linear(D, 4)))  # fmt: skip
def detr(self, memory, pos, tgt):
    query_pos, found = self.query_embed.weight.unsqueeze(1).repeat(1, memory.shape[1], 1), []
    for layer in self.layers:
        tgt = layer(tgt, memory, pos, query_pos)
        found.append(self.norm(tgt))
    hs = torch.stack(found).transpose(1, 2)
    return self.class_embed(hs), self.out(F_.relu(self.bbox(hs))).sigmoid()


@made(lambda fn, context=None: norms("norm") | dict(
    fn=fn, norm_context=nn.LayerNorm(context) if context else None))  # fmt: skip
def pre_norm(self, x, **kwargs):
    if self.norm_context is not None:
        kwargs["context"] = self.norm_context(kwargs["context"])
    return self.fn(self.norm(x), **kwargs)


@made(lambda context=D: linears("to_out") | linears("to_q", False) | dict(
    to_kv=nn.Linear(context, 2 * D, bias=False)))  # fmt: skip
def perceiver_attention(self, x, context=None):
    k, v = self.to_kv(x if context is None else context).chunk(2, dim=-1)
    q, k, v = (heads(t).flatten(0, 1) for t in (self.to_q(x), k, v))
    attn = (torch.einsum("bid,bjd->bij", q, k) * K**-0.5).softmax(dim=-1)
    return self.to_out(joined(torch.einsum("bij,bjd->bid", attn, v).unflatten(0, (-1, H))))


@made(lambda: dict(inner=nn.Linear(D, 2 * F), outer=nn.Linear(F, D)))
def geglu(self, x):
    x, gates = self.inner(x).chunk(2, dim=-1)
    return self.outer(x * F_.gelu(gates))


# The shift of the context's norm moves through the values into to_out (6), the shifts of both MLPs'
# norms move into the MLPs' first biases, and the last norm's into the head (3 D).  The means of
# four biases and of three latents can go, as norms cancel them (7)
@case("Perceiver", numbers((2, 7, 6)), 6 + 3 * D + 4 + 3, also=("latents",))
@made(lambda: dict(
    latents=zeros(3, D), cross=pre_norm(perceiver_attention(6), 6), cross_ff=pre_norm(geglu()),
    own=pre_norm(perceiver_attention()), own_ff=pre_norm(geglu()),
    to_logits=nn.Sequential(nn.LayerNorm(D), nn.Linear(D, 4))))  # fmt: skip
def perceiver(self, data):
    x = self.latents.unsqueeze(0).repeat(len(data), 1, 1)
    x = self.cross(x, context=data) + x
    x = self.cross_ff(x) + x
    x = self.own(x) + x
    x = self.own_ff(x) + x
    return self.to_logits(x.mean(dim=-2))


def feed_forward():
    return nn.Sequential(nn.LayerNorm(D), nn.Linear(D, F), nn.SiLU(), nn.Linear(F, D))


@made(lambda: linears("linear_q linear_k linear_v linear_out") | linears("linear_pos", False)
      | dict(pos_bias_u=zeros(H, K), pos_bias_v=zeros(H, K)))  # fmt: skip
def relative_attention(self, x):
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


@made(lambda: dict(
    pointwise_conv1=nn.Conv1d(D, 2 * D, 1), pointwise_conv2=nn.Conv1d(D, D, 1),
    depthwise_conv=nn.Conv1d(D, D, 3, padding=1, groups=D), norm=nn.BatchNorm1d(D)))  # fmt: skip
def convolution_module(self, x):
    x = F_.glu(self.pointwise_conv1(x.transpose(1, 2)), dim=1)
    x = F_.silu(self.norm(self.depthwise_conv(x)))
    return self.pointwise_conv2(x).transpose(1, 2)


# The shifts of the norms in ff1 and ff2 move into the first biases there (2 D).  norm_mha's moves
# into b_Q and b_V, b_Q into both pos_biases, b_V into b_O, and b_K can go (4 D).  norm_conv's moves
# into pointwise_conv1, and depthwise_conv's bias into BatchNorm (2 D), whose shift stays, as silu
# reads it.  The means of four output biases can go, as norms cancel them (4)
@case("Conformer", numbers((2, 4, D)), 8 * D + 4, also=("pos_bias_u", "pos_bias_v"))
@made(lambda: norms("norm_mha norm_conv norm_final") | dict(
    ff1=feed_forward(), mha=relative_attention(), conv=convolution_module(), ff2=feed_forward()))  # fmt: skip
def conformer(self, x):
    x = x + 0.5 * self.ff1(x)
    x = x + self.mha(self.norm_mha(x))
    x = x + self.conv(self.norm_conv(x))
    return self.norm_final(x + 0.5 * self.ff2(x))


def expert():
    return nn.Sequential(nn.Linear(D, F), nn.SiLU(), nn.Linear(F, D))


@made(lambda selects, shared: dict(
    gate=nn.Linear(D, 4), e_score_correction_bias=zeros(4) if selects else None,
    experts=nn.ModuleList([expert() for _ in range(4)]), shared=expert() if shared else None))  # fmt: skip
def experts(self, x):
    """Send each token to two of four experts, with Mixtral's router or DeepSeek-V3's."""
    shape, x = x.shape, x.view(-1, D)
    if self.e_score_correction_bias is None:
        weights = F_.softmax(self.gate(x), dim=1, dtype=torch.float)
        weights, chosen = torch.topk(weights, 2, dim=-1)
    else:
        scores = self.gate(x).sigmoid()
        chosen = torch.topk(scores + self.e_score_correction_bias, 2, dim=-1, sorted=False)[1]
        weights = scores.gather(1, chosen)
    weights = (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)
    out, mask = torch.zeros_like(x), F_.one_hot(chosen, num_classes=4).permute(2, 1, 0)
    for i, one in enumerate(self.experts):
        place, rows = torch.where(mask[i])
        out.index_add_(0, rows, one(x[None, rows].reshape(-1, D)) * weights[rows, place, None])
    return (out if self.shared is None else out + self.shared(x)).view(shape)


# the mean of the router's bias can go, as softmax reads only differences
case("mixture of experts: softmax router", numbers(), 1)(lambda: experts(False, False))
# a bias common to all experts also moves into `shared` (D), as the experts' weights sum to 1
case("mixture of experts: a shared one", numbers(), 1 + D)(lambda: experts(False, True))
# only the mean of the bias that selects experts can go; the Jacobian cannot see how this bias
# changes the selection, so it counts all 4 numbers
case("mixture of experts: sigmoid router, a bias that selects", numbers(), 1, counts=4, seed=9)(
    lambda: experts(True, False)
)
