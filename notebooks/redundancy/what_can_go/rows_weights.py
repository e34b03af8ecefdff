"""Rows of the table for what acts on the scores, weights and output of attention."""

from functools import partial

import torch
from torch import nn

from .answers import Break, Row
from .attention import (
    AcrossHeads,
    Attention,
    Differential,
    DisentangledAttention,
    Fused,
    Gate,
    Linear,
    NormOfHeads,
    Sink,
    by_their_sum,
    cap,
    causal,
    off_by_one,
    over_tokens,
)
from .piece import Learned
from .rows_attention import NO_KEY_BIAS, NOTHING, masked_by_number

MEASURED = NO_KEY_BIAS.format("measured", "{}")
KEY_BIAS_ALONE = """
    b_K | all   | alone | 3.3
    b_Q | stays |       | 4.5
    b_V | {}
"""


def centred_over_features(x):
    return x - x.mean(-1, keepdim=True)


def centred_over_tokens(x):
    return x - x.mean(-2, keepdim=True)


def per_token(x):
    """The vectors of x, each multiplied by a number that differs from token to token."""
    return x * torch.arange(1, x.shape[-2] + 1)[:, None] ** 0.5


def scaled(s):
    """Attention whose heads' outputs are multiplied by a learned number for each feature."""
    return Attention(s, finish=Learned(lambda scale, mixed, x: scale * mixed, s.h * s.k))


def normed_heads(norm, **how):
    return lambda s: Attention(s, finish=NormOfHeads(s, norm, **how))


def cut_off(scores):
    return scores.clamp(min=-0.5)


def slots(scores):
    return by_their_sum(over_tokens(scores))


WEIGHTS = (
    Row("Sinks and softmax off by one", [
        lambda s: Attention(s, weigh=Sink(s)), partial(Attention, weigh=off_by_one),
        partial(Fused, add_zero_attn=True),
    ], NOTHING.format("4.5", "5.5", "14.1")),
    Row("Sigmoid attention", [partial(Attention, weigh=torch.sigmoid)],
        NOTHING.format(*["measured"] * 3)),
    Row("Soft-capped scores", [partial(Attention, bend=cap)], MEASURED.format("5.1")),
    Row("A finite mask that replaces scores", [masked_by_number],
        MEASURED.format("11.7"), (
        Break("the number is so low that its weight underflows to zero, as with $-10^4$ in practice",
              partial(Attention, bend=partial(causal, by=-1e4)), "b_K | all | alone"),
    )),
    Row("Attention dropout", [partial(Attention, then=nn.Dropout(0.3))], """
        b_K | all               | alone           | 5.2
        b_V | all in evaluation | b_O + W_O @ b_V | 4.3
        b_V | stays in training |                 | 11.6
        b_Q | stays             |                 | 4.5
    """),
    Row("Differential attention", [Differential], """
        b_K | all   | alone                     | 5.3
        b_V | all   | b_O + (1 - λ) * W_O @ b_V | 5.3
        b_Q | stays |                           | measured
    """, (
        Break("an RMSNorm acts between the weighted sum and $W_O$, as in the published layer",
              partial(Differential, norm=nn.RMSNorm), "b_K | all | alone | 5.3\nb_V | stays | | 7.6"),
        Break("positions are rotary, as in the published layer too",
              partial(Differential, rotary="k"), "b_K | stays | | 5.4"),
    )),
    Row("Talking heads", [lambda s: Attention(s, bend=AcrossHeads(s), then=AcrossHeads(s))], """
        b_K | all   | alone                 | measured
        b_V | all   | b_O + W_O @ (ρ * b_V) | measured
        b_Q | stays |                       | measured
    """, (
        Break("the mixture of the weights has a bias $c$, as in CaiT, and there is no mask: with $n$ keys $\\rho_a$ grows by "
              "$n c_a$, so each $n$ needs a change of its own",
              lambda s: Attention(s, then=AcrossHeads(s, bias=True)), "b_V | all | b_O + W_O @ (ρ * b_V)"),
    )),
    Row("A gate before the output projection", [lambda s: Attention(s, finish=Gate(s))],
        KEY_BIAS_ALONE.format("stays | | measured"), (
        Break("the gate acts behind $b_O$", lambda s: Attention(s, after=Gate(s, behind=True)), "b_V | all | b_O | 4.3"),
        Break("the gate is a learned constant, such as a scale of each feature",
              scaled, "b_V | all | b_O | 4.3"),
    )),
    Row("A LayerNorm of each head before the output projection", [normed_heads(nn.LayerNorm)],
        KEY_BIAS_ALONE.format("the mean in each head | alone | 7.1"), (
        Break("one LayerNorm acts on all heads together",
              normed_heads(nn.LayerNorm, together=True), "b_V | the mean | alone | 7.1"),
    )),
    Row("An RMSNorm before the output projection", [normed_heads(nn.RMSNorm)],
        KEY_BIAS_ALONE.format("stays | | 7.6")),
)  # fmt: skip

#: Rarer layers, some of which occur in audited models.
RARER = (
    Row("DeBERTa's tables of positions", [DisentangledAttention], MEASURED.format("11.10"), (
        Break("only the queries are multiplied by a table (`c2p` alone)",
              partial(DisentangledAttention, both=False), "b_K | all | alone | 3.3"),
    )),
    Row("Linear attention with elu + 1, normalised", [Linear], MEASURED.format("measured"), (
        Break("nothing divides the weights by their sum",
              partial(Linear, normalised=False), "b_V | stays | b_O"),
    )),
    Row("Efficient attention without a mask", [partial(Linear, efficient=True)], """
        b_K | all                   | alone           | 11.9
        b_Q | the mean in each head | alone           | 3.1
        b_V | all                   | b_O + W_O @ b_V | measured
    """),
    Row("Softmax over the queries", [partial(Attention, weigh=over_tokens)], """
        b_Q | all   | alone | 3.1
        b_K | stays |       | measured
        b_V | stays |       | measured
    """, (
        Break("the weights are then divided by their sum over the keys, as in slot attention",
              partial(Attention, weigh=slots), "b_V | all | b_O | 4.3"),
    )),
    Row("Scores clamped from below", [partial(Attention, bend=cut_off)],
        MEASURED.format("measured")),
    Row("Keys and values multiplied by a factor for each token",
        [partial(Attention, norm_k=per_token, norm_v=per_token)],
        NOTHING.format(*["measured"] * 3)),
    Row("Clipped queries, keys and values", [partial(Attention, clip=0.6)],
        NOTHING.format(*["measured"] * 3)),
    Row("Keys centred over the features of a head, with RoPE",
        [partial(Attention, norm_k=centred_over_features, rotary="k")], """
        b_K | the mean in each head | alone           | measured
        b_V | all                   | b_O + W_O @ b_V | 4.3
        b_Q | stays                 |                 | measured
    """),
    Row("Queries and values centred over the tokens",
        [partial(Attention, norm_q=centred_over_tokens, norm_v=centred_over_tokens)], """
        b_Q | all | alone | measured
        b_K | all | alone | 3.3
        b_V | all | alone | measured
    """),
)  # fmt: skip
