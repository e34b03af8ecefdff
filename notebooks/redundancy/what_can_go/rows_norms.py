"""Rows of the table for a bias before a norm, after a norm, or at either end of a model."""

from dataclasses import replace
from functools import partial

import torch
from torch import nn

from .answers import Break, Row
from .norms import (
    Before,
    Behind,
    ConvolutionBehind,
    Head,
    KeepsSome,
    LayerNormLSTM,
    Patches,
    Recurrent,
    Router,
    Tables,
    convolution,
)


def before(norm, *between):
    """A linear map, then the modules ``between``, then a norm of f features."""
    return lambda s: Before(s, nn.Linear(s.d, s.f), norm(s.f), *between)


def convolved(norm, *between):
    return lambda s: Before(s, convolution(s), norm(s.f), *between)


def twice_convolved(s):
    second = nn.Conv2d(s.f, 4, 3, padding=1)
    return Before(s, convolution(s), nn.BatchNorm2d(4), second)


def same(logits):
    return logits


def softmax(logits):
    return logits.softmax(-1)


def with_z_loss(logits):
    """Log-probabilities and, as one more output, the squared logarithm of softmax's denominator."""
    total = logits.logsumexp(-1, keepdim=True)
    return torch.cat([logits - total, total**2], -1)


def capped(logits):
    return (2 * torch.tanh(logits / 2)).softmax(-1)


def top_two(logits):
    """The softmax over the two largest logits only, by which many routers weigh experts."""
    kept = logits.topk(2, -1)
    return torch.zeros_like(logits).scatter(-1, kept.indices, kept.values.softmax(-1))


affine = partial(nn.InstanceNorm2d, affine=True)
tracked = partial(affine, track_running_stats=True)

BEFORE = (
    Row("Before BatchNorm", [before(nn.BatchNorm1d), convolved(nn.BatchNorm2d)], """
        b | all in training   | alone | 6.1
        b | all in evaluation | μ - b | 6.5
    """, (
        Break("an activation acts between the layer and the norm",
              before(nn.BatchNorm1d, nn.GELU()), "b | stays in training\nb | stays in evaluation | β"),
        Break("dropout acts between them",
              before(nn.BatchNorm1d, nn.Dropout(0.3)), "b | stays in training\nb | all in evaluation | β"),
        Break("padded rows are set to zero between them",
              before(nn.BatchNorm1d, KeepsSome()), "b | stays in training\nb | stays in evaluation | β"),
        Break("an average pool between them counts its padding",
              convolved(nn.BatchNorm2d, nn.AvgPool2d(2, padding=1)), "b | stays in training\nb | stays in evaluation | β"),
        Break("a second convolution between them pads with zeros",
              twice_convolved, "b | stays in training | | 6.6\nb | stays in evaluation | β | 6.6"),
    )),
    Row("Before frozen BatchNorm", [before(nn.BatchNorm1d), convolved(nn.BatchNorm2d)], """
        b | all | μ - b                      | 6.5
        b | all | β + γ * b / sqrt(v + ε)    | 6.5
    """),
    Row("Before LayerNorm", [before(nn.LayerNorm)], "b | the mean | alone beside β | 7.1"),
    Row("Before RMSNorm", [before(nn.RMSNorm)], "b | stays | | 7.6"),
    Row("Before GroupNorm", [before(partial(nn.GroupNorm, 3)), convolved(partial(nn.GroupNorm, 3))],
        "b | one number per group | alone beside β | 7.4"),
    Row("Before InstanceNorm", [convolved(affine)], "b | all | alone | 7.5", (
        Break("the norm tracks running statistics",
              convolved(tracked), "b | all in training | alone\nb | all in evaluation | β"),
    )),
)  # fmt: skip

BEHIND = (
    Row("The shift of a norm before linear maps", [
        partial(Behind, others=[True]), partial(Behind, norm=nn.BatchNorm1d, others=[True]),
    ], "β | all | b + W @ β, c + V @ β | 6.3", (
        Break("dropout acts behind the norm, in training",
              partial(Behind, others=[True], dropout=0.3), "β | stays in training | b, c"),
        Break("one of the maps has no bias", partial(Behind, others=[False] * 2), "β | stays | b"),
        Break("a residual connection also carries the norm's output, as in post-norm",
              partial(Behind, others=[True], residual=True), "β | stays | b, c"),
        Break("the map is a convolution that pads with zeros",
              partial(ConvolutionBehind, padding=1), "β | stays | b | 6.6"),
    )),
    Row("The shift of a norm before a convolution without padding", [ConvolutionBehind],
        "β | all | b + W @ β | 6.3"),
    Row("A linear map behind a LayerNorm with a shift", [Behind], """
        b | all | W + carried(b, γ, β)      | 7.8
        b | all | β + t where W @ t = b     | 6.3
    """, (
        Break("the map is wider than the stream",
              lambda s: Behind(replace(s, f=s.d + 3)), "b | d directions | β | 6.3"),
        Break("the norm has no shift, like RMSNorm",
              partial(Behind, norm=nn.RMSNorm), "b | stays | W | 7.8"),
        Break("dropout acts between them, in training", partial(Behind, dropout=0.3),
              "b | stays in training | W, β"),
    )),
    Row("LSTM and simple RNN", [
        lambda s: Recurrent(s, nn.LSTM), lambda s: Recurrent(s, nn.RNN),
    ], """
        b_ih | all | b_hh + b_ih | measured
        b_hh | all | b_ih + b_hh | measured
    """),
    Row("GRU", [lambda s: Recurrent(s, nn.GRU)], """
        b_ih | all but the new gate's third | b_hh | measured
        b_hh | all but the new gate's third | b_ih | measured
    """),
    Row("An LSTM with LayerNorm over all gates", [LayerNormLSTM], """
        b_ih | the mean | alone beside b_hh, β_ih | 7.1
        b_hh | the mean | alone beside b_ih, β_hh | 7.1
        β_hh | all      | β_ih + β_hh             | measured
    """),
    Row("Tables of tokens and positions", [Tables], "P | one vector | E | 12.1", (
        Break("the token table is also the head, and the model returns the logits, not only their softmax",
              lambda s: Tables(s, nn.Sequential(nn.Linear(s.d, s.d), nn.GELU()), tied=True), "P | stays | E"),
    )),
    Row("Tables of tokens and positions that only LayerNorms read",
        [lambda s: Tables(s, nn.LayerNorm(s.d))], """
        P | each row's mean                | alone | 8.1
        P | one vector and each row's mean | E     | 12.1
    """, (
        Break("the token table is also the head, and the model returns the logits, not only their softmax",
              lambda s: Tables(s, nn.LayerNorm(s.d), tied=True),
              "P | each row's mean | alone\nP | each row's mean | E"),
        Break("dropout acts between the sum and the norm, in training",
              lambda s: Tables(s, nn.Sequential(nn.Dropout(0.3), nn.LayerNorm(s.d))),
              "P | one vector in training | E"),
    )),
    Row("An embedding's bias and a table of positions, without a class token", [Patches],
        "b | all | P + b | measured"),
    Row("The last norm's shift", [partial(Head, ends=same)], "β | all | b + W @ β | 6.3"),
    Row("Head bias under softmax", [partial(Head, ends=softmax)], """
        b | the mean         | alone     | 12.2
        b | d + 1 directions | β         | 6.3
        β | all              | b + W @ β | 6.3
    """, (
        Break("the loss has a z-loss term", partial(Head, ends=with_z_loss), "b | d directions | β"),
        Break("the logits are capped", partial(Head, ends=capped), "b | d directions | β"),
        Break("a sigmoid replaces softmax", partial(Head, ends=torch.sigmoid), "b | d directions | β"),
    )),
    Row("Router bias", [partial(Router, weigh=softmax), partial(Router, weigh=top_two)],
        "b | the mean | alone | 3.1", (
        Break("the weights are sigmoids of the logits", partial(Router, weigh=torch.sigmoid), "b | stays"),
    )),
)  # fmt: skip
