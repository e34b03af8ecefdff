"""Sequence models and their blocks: GPT, Conformer, mixture of experts."""

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


# In each block, 4 D directions can go as above, and so can the means of both c_proj biases (2).
# ln_f's shift moves into the head's bias (D), whose mean can go, as softmax cancels it (1)
@case("nanoGPT: loss, the head with a bias", words(), 2 * (4 * D + 2) + D + 1)
@made(lambda: dict(
    wte=nn.Embedding(V, D), wpe=nn.Embedding(N, D), drop=nn.Dropout(0.1), ln_f=LayerNorm(),
    h=nn.Sequential(Block(), Block()), lm_head=nn.Linear(D, V)))  # fmt: skip
def gpt(self, idx):
    x = self.h(self.drop(self.wte(idx) + self.wpe(torch.arange(idx.size(1)))))
    logits, targets = self.lm_head(self.ln_f(x)), idx.roll(-1, 1)
    return F_.cross_entropy(logits.view(-1, V), targets.view(-1), reduction="none")


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
