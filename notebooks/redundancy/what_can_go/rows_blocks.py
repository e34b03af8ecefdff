"""Rows of the table for what a block writes to the stream, and for blocks of whole models."""

from functools import partial

from torch import nn

from .answers import Break, Row
from .attention import Attention, Sink, cap
from .blocks import Block, ShiftedRMSNorm
from .rows_attention import NO_KEY_BIAS, NOTHING, SHARED, WIDER, resized

RMS = nn.RMSNorm


def block(place="pre", norm=nn.LayerNorm, **around):
    return partial(Block, place=place, norm=norm, **around)


def last(bias):
    """The conditions under which outputs of a pre-norm stream depend on the mean of a bias."""
    return (
        Break("an RMSNorm reads the stream", block(norm=RMS), f"{bias} | stays | | 7.6"),
        Break("the stream ends without a norm", block(last=nn.Identity), f"{bias} | stays"),
        Break("dropout acts on what the branch writes", block(dropout=0.3),
              f"{bias} | the mean in evaluation | alone\n{bias} | stays in training"),
    )  # fmt: skip


STREAM = (
    Row("b_O in pre-norm with LayerNorm", [Block], "b_O | the mean | alone | 8.1", last("b_O")),
    Row("b_O in pre-norm with RMSNorm", [block(norm=RMS)], "b_O | stays | | 7.6"),
    Row("b_O on a stream that is returned", [block(last=nn.Identity)], "b_O | stays | | 8.1"),
    Row("b_O on a stream that an injective linear map reads", [block(last=nn.Linear)], "b_O | stays | | 8.1"),
    Row("b_O in post-norm with LayerNorm", [block("post")], """
        b_O | the mean | alone                                          | 8.2
        b_O | all      | β_1 + b_O, b_Q - W_Q @ b_O, b_V - W_V @ b_O    | 8.5
    """, (
        Break("positions are rotary", block("post", rotary="k"),
              "b_O | all | β_1 + b_O, b_Q - W_Q @ b_O, b_K - W_K @ b_O, b_V - W_V @ b_O\n"
              "(b_O) | the mean | alone"),
        Break("dropout acts on what attention writes, in training",
              block("post", dropout=0.3),
              "b_O | min(d, gk) directions in training | b_V"),
        Break("dropout acts on the weights and on what attention writes, in training", block("post", dropout=0.3, then=nn.Dropout(0.3)),
              "b_O | stays in training | β_1, b_Q, b_V"),
        Break("the norms are RMSNorms with a shift", block("post", ShiftedRMSNorm),
              "b_O | all | β_1 + b_O, b_Q - W_Q @ b_O, b_V - W_V @ b_O"),
    )),
    Row("b_O with a LayerNorm on the branch", [block("branch")], "b_O | the mean | alone | 8.3", (
        Break("the norm is an RMSNorm", block("branch", RMS), "b_O | stays | | 7.6"),
        Break("dropout acts before that norm, in training", block("branch", dropout=0.3),
              "b_O | stays in training"),
    )),
    Row("b_O beside a value bias", [Attention, resized(Attention, **SHARED)],
        "b_O | min(d, gk) directions | b_V | 4.3"),
    Row("b_2 in pre-norm with LayerNorm", [Block], "b_2 | the mean | alone | 8.1", last("b_2")),
    Row("b_2 in pre-norm with RMSNorm", [block(norm=RMS)], "b_2 | stays | | 7.6"),
    Row("b_2 in post-norm with LayerNorm", [block("post")], """
        b_2 | the mean | alone                        | 8.2
        b_2 | all      | β_2 + b_2, b_1 - W_1 @ b_2   | 8.6
    """, (
        Break("dropout acts on what the network writes, in training",
              block("post", dropout=0.3), "b_2 | stays in training | β_2, b_1"),
        Break("the norms are RMSNorms with a shift", block("post", ShiftedRMSNorm),
              "b_2 | all | β_2 + b_2, b_1 - W_1 @ b_2"),
    )),
    Row("b_2 with a LayerNorm on the branch", [block("branch")], "b_2 | the mean | alone | 8.3", (
        Break("dropout acts before that norm, in training", block("branch", dropout=0.3),
              "b_2 | stays in training"),
    )),
    Row("b_2 in a parallel block", [block("parallel"), block("two norms")], """
        (b_2) | the mean | alone     | 8.1
        b_2   | all      | b_O + b_2 | 8.7
    """, (
        Break("dropout acts on each branch, in training", block("parallel", dropout=0.3),
              "b_2 | stays in training | b_O"),
    )),
    Row("b_2 in a parallel block with RMSNorm", [block("parallel", RMS)],
        "b_2 | all | b_O + b_2 | 8.7"),
    Row("LayerScale in pre-norm with LayerNorm", [block(scale=True)], """
        b_O | the direction 1/s_1 | alone | 8.1
        b_2 | the direction 1/s_2 | alone | 8.1
    """, (
        Break("dropout acts before the gains, in training", block(scale=True, dropout=0.3),
              "b_O | stays in training\nb_2 | stays in training"),
    )),
)  # fmt: skip

#: Answers for the value bias; LayerNorms cancel the part that W_O maps to a constant vector.
VALUE = """
    b_V   | all                           | b_O + W_O @ b_V | 4.3
    (b_V) | max(0, gk − d + 1) directions | alone           | 8.1
"""
#: In parallel blocks the network's bias goes into the output bias, and both are one constant.
SECOND = """
    b_2   | all      | b_O + b_2 | 8.7
    (b_2) | the mean | alone     | 8.1
""".rstrip()
#: Answers for queries and keys if positions rotate a part of each head.
PART_ROTATED = """
    b_K   | the un-rotated part | alone beside b_V, {output} | 5.4
    b_Q   | all | β_1 + t, b_K - W_K @ t, b_V - W_V @ t{network} where W_Q @ t = b_Q | {by}
    (b_K) | all | β_1 + t, b_Q - W_Q @ t, b_V - W_V @ t{network} where W_K @ t = b_K | measured
""".rstrip()

MODELS = (
    Row("Pre-norm, LayerNorm: GPT-2, OPT, BLOOM, ViT", [Block], """
        b_K | all      | alone                                     | 3.3
        b_Q | all      | β_1 + t, b_V - W_V @ t where W_Q @ t = b_Q | 8.4
        b_2 | the mean | alone                                     | 8.1
        (b_O) | the mean | alone beside b_1, b_2                   | 8.1
    """.rstrip() + VALUE, (
        Break("dropout acts on what the branches write, in training", block(dropout=0.3),
              "b_2 | stays in training\nb_V | all in training | b_O"),
        Break("attention dropout acts, in training", block(then=nn.Dropout(0.3)), "b_V | stays in training | b_O"),
    )),
    Row("Post-norm, LayerNorm: BERT, RoBERTa, BART", [block("post")], """
        b_K | all      | alone                                              | 3.3
        b_Q | all      | β_1 + t, b_V - W_V @ t, b_O - t where W_Q @ t = b_Q | 8.5
        b_2 | all      | β_2 + b_2, b_1 - W_1 @ b_2                         | 8.6
        (b_2) | the mean | alone                                            | 8.2
    """.rstrip() + VALUE, (
        Break("dropout acts on what attention writes, in training",
              block("post", dropout=0.3), "b_Q | the direction W_Q 1 in training | β_1, b_V, b_O"),
    )),
    Row("LayerNorms on the branch only", [block("branch")], """
        b_K | all      | alone                                              | 3.3
        b_Q | all      | β_0 + t, b_V - W_V @ t, β_1 - t where W_Q @ t = b_Q | 8.4
        b_2 | the mean | alone                                              | 8.3
        (b_O) | the mean | alone beside b_2                                 | 8.3
    """.rstrip() + VALUE),
    Row("Parallel, one LayerNorm, plain positions", [block("parallel")], """
        b_K | all | alone     | 3.3
        b_Q | all | β_1 + t, b_V - W_V @ t, b_1 - W_1 @ t where W_Q @ t = b_Q | 8.7
    """.rstrip() + SECOND + VALUE),
    Row("Parallel, LayerNorm, RoPE on a part of each head: Phi", [block("parallel", rotary="r")],
        PART_ROTATED.format(output="b_O", network=", b_1 - W_1 @ t", by="8.7") + SECOND + VALUE),
    Row("Parallel with two LayerNorms, RoPE on a part of each head: GPT-NeoX",
        [block("two norms", rotary="r")],
        PART_ROTATED.format(output="b_O", network="", by="8.4") + SECOND + VALUE),
    Row("Parallel, LayerNorm, RoPE on a part of each head, no output bias: GPT-J with biases",
        [block("parallel", rotary="r", out_bias=False)],
        PART_ROTATED.format(output="b_2", network=", b_1 - W_1 @ t", by="8.7") + """
        b_V | all | b_2 + W_O @ b_V | measured
        (b_V) | max(0, gk − d + 1) directions | alone | 8.1
    """),
    Row("RMSNorm, RoPE, all biases: Llama with biases", [block(norm=RMS, rotary="k")],
        NO_KEY_BIAS.format("4.5", "5.4").rstrip() + "\n    b_2 | stays | | 7.6"),
    Row("RMSNorm, RoPE, no output bias: Qwen2", [block(norm=RMS, rotary="k", out_bias=False)],
        NOTHING.format("4.5", "5.4", "4.2"), (
        Break("the values of all heads are wider than the stream",
              resized(block(norm=RMS, rotary="k", out_bias=False), **WIDER),
              "b_V | max(0, gk − d) directions | alone | 4.2"),
    )),
    Row("RMSNorm, RoPE, a soft cap: Gemma 2 with biases", [block(norm=RMS, rotary="k", bend=cap)],
        NO_KEY_BIAS.format("measured", "5.1")),
    Row("RMSNorm, RoPE, a sink: gpt-oss",
        [lambda s: Block(s, norm=RMS, rotary="k", weigh=Sink(s))],
        NOTHING.format("4.5", "5.5", "14.1")),
)  # fmt: skip
