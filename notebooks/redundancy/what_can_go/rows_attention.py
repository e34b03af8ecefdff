"""Rows of the table for the projections, positions and norms of attention."""

import operator
from collections import OrderedDict
from dataclasses import replace
from functools import partial

import torch
from torch import nn

from .answers import Break, Row
from .attention import (
    Attention,
    Cosine,
    Fused,
    Latent,
    LowRank,
    OwnGains,
    added_mask,
    alibi,
    causal,
    relative_table,
)
from .blocks import ShiftedRMSNorm

PLAIN = """
    b_K | all   | alone           | 3.3
    b_V | all   | b_O + W_O @ b_V | 4.3
    b_Q | stays |                 | 4.5
"""
NO_KEY_BIAS = """
    b_V | all   | b_O + W_O @ b_V | 4.3
    b_Q | stays |                 | {}
    b_K | stays |                 | {}
"""
NOTHING = """
    b_Q | stays | | {}
    b_K | stays | | {}
    b_V | stays | | {}
"""


def blind(scores):
    """Softmax weights that are zero for the first query, as if a mask hid every key from it."""
    return scores.softmax(-1) * (torch.arange(scores.shape[-2]) > 0)[:, None]


def resized(piece, **changes):
    """The piece with some sizes changed."""
    return lambda s: piece(replace(s, **changes))


#: Changes with which all heads together are wider than the stream, or share one head of keys.
WIDER, SHARED = {"k": 6}, {"g": 1}
masked_by_number = partial(Attention, bend=partial(causal, by=-2.0))
prefixed = partial(Attention, prefix=True)
normed = partial(Attention, norm=nn.LayerNorm)
turned = partial(normed, rotary="k")
crossed = partial(normed, memory=True)
unread = partial(normed, out_bias=False)


def with_dropout(d):
    return nn.Sequential(OrderedDict(norm=nn.LayerNorm(d), dropout=nn.Dropout(0.3)))


def on_both(norm, **around):
    """Attention with a norm of each head on queries and keys."""
    return lambda s: Attention(s, norm_q=norm(s.k), norm_k=norm(s.k), **around)


def over_heads(s, **around):
    norms = {"norm_q": nn.LayerNorm(s.h * s.k), "norm_k": nn.LayerNorm(s.g * s.k)}
    return Attention(s, over_heads=True, **norms, **around)


ATTENTION = (
    Row("Plain softmax attention", [
        Attention, partial(Attention, bend=causal), partial(Attention, bend=alibi),
        lambda s: Attention(s, bend=relative_table(s)), resized(Attention, **SHARED),
        partial(Attention, bend=added_mask), partial(Attention, keys=LowRank), Fused,
    ], PLAIN, (
        Break("the keys are rotated", partial(Attention, rotary="k"), "b_K | stays | | 5.4"),
        Break("an RMSNorm acts on the keys",
              lambda s: Attention(s, norm_k=nn.RMSNorm(s.k)), "b_K | stays | | 7.6"),
        Break("some keys and values come from another projection, without these biases (a prefix, "
              "a cache, a second modality)", prefixed, "b_K | stays | | 5.5\nb_V | stays | | 11.2"),
        Break("a mask hides all keys from some query, and its weights are zero",
              partial(Attention, weigh=blind), "b_K | all | alone\nb_V | stays | beside b_O"),
        Break("a mask *replaces* scores with a finite number",
              masked_by_number, "b_K | stays | | 11.7"),
        Break("a head is wider than the $d$ features from which the keys are made",
              resized(Attention, d=3), "b_Q | h(k − d) directions | alone"),
    )),
    Row("Cross-attention", [partial(Attention, memory=True), partial(Fused, memory=True)], PLAIN),
    Row("A norm with a shift before attention", [
        normed, lambda s: normed(s, bend=relative_table(s)), partial(normed, norm=ShiftedRMSNorm),
    ], """
        b_K | all | alone                                       | 3.3
        b_V | all | b_O + W_O @ b_V                             | 4.3
        b_Q | all | β + t, b_V - W_V @ t where W_Q @ t = b_Q    | 8.4
    """, (
        Break("the norm has no shift, like RMSNorm",
              partial(normed, norm=nn.RMSNorm), "b_Q | stays | beside b_K, b_V, b_O"),
        Break("the heads together are wider than the model, but each is narrower",
              resized(normed, **WIDER), "b_Q | d directions | β, b_V"),
        Break("each head is as wide as the model or wider",
              resized(normed, d=4), "b_Q | h(k − d + 1) directions | alone"),
        Break("attention dropout acts, in training", partial(normed, then=nn.Dropout(0.3)),
              "b_Q | min(hk, max(0, d − gk)) directions in training | β, b_O\n"
              "b_Q | all in training | β, b_V"),
        Break("dropout acts between the norm and the projections, in training",
              partial(normed, norm=with_dropout), "b_Q | stays in training | β, b_V, b_O"),
    )),
    Row("A norm with a shift before the queries of cross-attention", [crossed], """
        b_K | all | alone                    | 3.3
        b_V | all | b_O + W_O @ b_V          | 4.3
        b_Q | all | β + t where W_Q @ t = b_Q | 6.3
    """, (
        Break("the heads together are wider than the model, but each is narrower",
              resized(crossed, **WIDER), "b_Q | d directions | β"),
        Break("a residual connection also carries the norm's output, as in post-norm",
              partial(crossed, after=operator.add), "b_Q | all | β + t, b_O - t where W_Q @ t = b_Q"),
    )),
    Row("A norm with a shift before rotary attention", [turned, resized(turned, **SHARED)], """
        b_V | all | b_O + W_O @ b_V                                        | 4.3
        b_Q | all | β + t, b_K - W_K @ t, b_V - W_V @ t where W_Q @ t = b_Q | 8.4
        b_K | all | β + t, b_Q - W_Q @ t, b_V - W_V @ t where W_K @ t = b_K | 8.4
        (b_Q+b_K) | min(d, hk + gk) directions | β, b_V                     | measured
    """, (
        Break("$b_K$ must stay as it is", resized(turned, **SHARED),
              "b_Q | min(hk, max(0, d − gk)) directions | β, b_V"),
        Break("the heads together are wider than the model", resized(turned, **WIDER),
              "b_Q | d directions | β, b_K, b_V"),
        Break("positions rotate a part of each head",
              resized(partial(normed, rotary="r"), **SHARED),
              "b_K | the un-rotated part | alone beside β | 5.4\n"
              "b_Q+b_K | min(d, hk + gr) + g(k − r) directions | β, b_V"),
    )),
    Row("A LayerNorm with a shift before any linear map", [partial(unread, rotary="k")], """
        b_Q | all | W_Q + carried(b_Q, γ, β) | 7.8
        b_K | all | W_K + carried(b_K, γ, β) | 7.8
        b_V | all | W_V + carried(b_V, γ, β) | 7.8
    """, (
        Break("the norm has no shift, so $\\kappa = 0$",
              partial(unread, norm=partial(nn.LayerNorm, bias=False)), "b_Q | stays | beside W_Q"),
        Break("the norm is an RMSNorm",
              partial(unread, norm=nn.RMSNorm), "b_Q | stays | beside W_Q"),
        Break("dropout acts between the norm and the map, in training",
              partial(unread, norm=with_dropout), "b_Q | stays in training | W_Q"),
    )),
    Row("No output bias", [
        partial(Attention, out_bias=False), resized(partial(Attention, out_bias=False), **WIDER),
    ], """
        b_K | all                       | alone | 3.3
        b_V | max(0, gk − d) directions | alone | 4.2
        b_Q | stays                     |       | 4.5
    """),
    Row("RoPE (rotary positions)", [partial(Attention, rotary="k")],
        NO_KEY_BIAS.format("4.5", "5.4")),
    Row("RoPE on a part of each head", [partial(Attention, rotary="r")], """
        b_K | the un-rotated part | alone           | 5.4
        b_V | all                 | b_O + W_O @ b_V | 4.3
        b_Q | stays               |                 | 4.5
    """),
    Row("QK-norm with RMSNorm, and cosine attention", [
        on_both(nn.RMSNorm), on_both(nn.RMSNorm, rotary="k"), on_both(lambda k: Cosine()),
    ], NO_KEY_BIAS.format("7.6", "7.6")),
    Row("QK-norm with LayerNorm", [on_both(nn.LayerNorm)], """
        c_K | all                   | alone           | 11.8
        c_Q | the direction 1/γ_K   | alone           | 11.8
        b_K | the mean in each head | alone           | 7.1
        b_Q | the mean in each head | alone           | 7.1
        b_V | all                   | b_O + W_O @ b_V | 4.3
    """, (
        Break("positions are rotary", on_both(nn.LayerNorm, rotary="r"),
              "c_K | the un-rotated part | alone | 5.4\nc_Q | stays"),
    )),
    Row("QK-norm with LayerNorm and gains for each head", [
        lambda s: Attention(s, norm_q=OwnGains(s, s.h), norm_k=OwnGains(s, s.h)),
    ], """
        c_K | all                        | alone           | 11.8
        c_Q | one direction in each head | alone           | 11.8
        b_K | the mean in each head      | alone           | 7.1
        b_Q | the mean in each head      | alone           | 7.1
        b_V | all                        | b_O + W_O @ b_V | 4.3
    """),
    Row("One LayerNorm over all heads", [over_heads], """
        c_K | all      | alone           | 11.8
        b_K | the mean | alone           | 7.1
        b_Q | the mean | alone           | 7.1
        b_V | all      | b_O + W_O @ b_V | 4.3
        c_Q | stays    |                 | measured
    """, (
        Break("all queries share one key head", resized(over_heads, **SHARED),
              "c_Q | one direction in each head | alone"),
        Break("positions are rotary", partial(over_heads, rotary="r"),
              "c_K | the un-rotated part | alone"),
    )),
    Row("A LayerNorm of each head on the queries only",
        [lambda s: Attention(s, norm_q=nn.LayerNorm(s.k))], """
        b_K | all                   | alone           | 3.3
        b_Q | the mean in each head | alone           | 7.1
        b_V | all                   | b_O + W_O @ b_V | 4.3
        c_Q | stays                 |                 | measured
    """),
    Row("An RMSNorm on the queries only", [lambda s: Attention(s, norm_q=nn.RMSNorm(s.k))],
        PLAIN.replace("4.5", "7.6")),
    Row("A LayerNorm of each head on the keys only",
        [lambda s: Attention(s, norm_k=nn.LayerNorm(s.k))], """
        c_K | all                        | alone           | 11.8
        b_K | the mean in each head      | alone           | 7.1
        b_Q | one direction in each head | alone           | 11.8
        b_V | all                        | b_O + W_O @ b_V | 4.3
    """),
    Row("Multi-head latent attention", [Latent], """
        b_K | all   | alone           | 3.3
        b_V | all   | b_O + W_O @ b_V | 4.3
        b_C | all   | b_V + W_V @ b_C | measured
        b_Q | stays |                 | 4.5
        b_R | stays |                 | 5.4
    """, (
        Break("an RMSNorm acts on the latent vector, as in DeepSeek's models",
              partial(Latent, norm=nn.RMSNorm), "b_C | stays\nb_K | all | alone"),
    )),
    Row("An extra key and value", [partial(Fused, add_bias_kv=True)], """
        b_K | all   | k_0 - b_K                  | 11.2
        b_V | all   | v_0 - b_V, b_O + W_O @ b_V | 11.2
        b_Q | stays |                            | 4.5
    """, (
        Break("`add_zero_attn` is on as well", partial(Fused, add_bias_kv=True, add_zero_attn=True),
              "b_K | stays | k_0 | 5.5\nb_V | stays | v_0, b_O | 14.1"),
    )),
    Row("Keys and values of another projection, without these biases", [prefixed],
        NOTHING.format("4.5", "5.5", "11.2"), (
        Break("the keys and values of the prefix are parameters themselves", prefixed,
              "b_K | all | k_p - b_K | 11.2\nb_V | all | v_p - b_V, b_O + W_O @ b_V | 11.2"),
    )),
)  # fmt: skip
