"""Rows of the table for a bias before a norm, after a norm, or at either end of a model."""

from dataclasses import replace
from functools import partial

import torch
from torch import nn

from .answers import Break, Row
from .attention import cap, same, softmax
from .norms import Chain, LayerNormLSTM, before, behind, head, patches, recurrent, router, tables

affine = partial(nn.InstanceNorm2d, affine=True)
tracked = partial(affine, track_running_stats=True)
convolved = partial(before, map=partial(nn.Conv2d, kernel_size=3))


def twice_convolved(s):
    maps = {"map": nn.Conv2d(s.d, s.f, 3), "second": nn.Conv2d(s.f, 4, 3, padding=1)}
    return Chain(s, **maps, norm=nn.BatchNorm2d(4))


def before_convolution(s, padding=0):
    return Chain(s, norm=nn.BatchNorm2d(s.d), map=nn.Conv2d(s.d, s.d + 1, 3, padding=padding))


def with_zeros(x):
    """The rows x, with every third row set to zero, as if it were padding."""
    return x * (torch.arange(len(x)) % 3 > 0)[:, None]


def with_z_loss(logits):
    """Log-probabilities and, as one more output, the squared logarithm of softmax's denominator."""
    total = logits.logsumexp(-1, keepdim=True)
    return torch.cat([logits - total, total**2], -1)


def capped(logits):
    return softmax(cap(logits))


def top_two(logits):
    """The softmax over the two largest logits only, by which many routers weigh experts."""
    kept = logits.topk(2, -1)
    return torch.zeros_like(logits).scatter(-1, kept.indices, kept.values.softmax(-1))


KEPT = "b | stays in training\nb | stays in evaluation | β"
RETURNED = (
    "the token table is also the head, and the model returns the logits, not only their softmax"
)

BEFORE = (
    Row("Before BatchNorm", [before(nn.BatchNorm1d), convolved(nn.BatchNorm2d)], """
        b | all in training   | alone | 6.1
        b | all in evaluation | μ - b | 6.5
    """, (
        Break("an activation acts between the layer and the norm",
              before(nn.BatchNorm1d, nn.GELU()), KEPT),
        Break("dropout acts between them", before(nn.BatchNorm1d, nn.Dropout(0.3)),
              "b | stays in training\nb | all in evaluation | β"),
        Break("padded rows are set to zero between them", before(nn.BatchNorm1d, with_zeros), KEPT),
        Break("an average pool between them counts its padding",
              convolved(nn.BatchNorm2d, nn.AvgPool2d(2, padding=1)), KEPT),
        Break("a second convolution between them pads with zeros", twice_convolved,
              "b | stays in training | | 6.6\nb | stays in evaluation | β | 6.6"),
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
    Row("The shift of a norm before linear maps",
        [behind(others=[True]), behind(nn.BatchNorm1d, others=[True])],
        "β | all | b + W @ β, c + V @ β | 6.3", (
        Break("dropout acts behind the norm, in training",
              behind(others=[True], dropout=0.3), "β | stays in training | b, c"),
        Break("one of the maps has no bias", behind(others=[False] * 2), "β | stays | b"),
        Break("a residual connection also carries the norm's output, as in post-norm",
              behind(others=[True], residual=True), "β | stays | b, c"),
        Break("the map is a convolution that pads with zeros",
              partial(before_convolution, padding=1), "β | stays | b | 6.6"),
    )),
    Row("The shift of a norm before a convolution without padding", [before_convolution],
        "β | all | b + W @ β | 6.3"),
    Row("A linear map behind a LayerNorm with a shift", [behind()], """
        b | all | W + carried(b, γ, β)      | 7.8
        b | all | β + t where W @ t = b     | 6.3
    """, (
        Break("the map is wider than the stream",
              lambda s: behind()(replace(s, f=s.d + 3)), "b | d directions | β | 6.3"),
        Break("the norm has no shift, like RMSNorm", behind(nn.RMSNorm), "b | stays | W | 7.8"),
        Break("dropout acts between them, in training", behind(dropout=0.3),
              "b | stays in training | W, β"),
    )),
    Row("LSTM and simple RNN", [recurrent(nn.LSTM), recurrent(nn.RNN)], """
        b_ih | all | b_hh + b_ih | measured
        b_hh | all | b_ih + b_hh | measured
    """),
    Row("GRU", [recurrent(nn.GRU)], """
        b_ih | all but the new gate's third | b_hh | measured
        b_hh | all but the new gate's third | b_ih | measured
    """),
    Row("An LSTM with LayerNorm over all gates", [LayerNormLSTM], """
        b_ih | the mean | alone beside b_hh, β_ih | 7.1
        b_hh | the mean | alone beside b_ih, β_hh | 7.1
        β_hh | all      | β_ih + β_hh             | measured
    """),
    Row("Tables of tokens and positions", [tables()], "P | one vector | E | 12.1", (
        Break(RETURNED, tables(lambda d: nn.Sequential(nn.Linear(d, d), nn.GELU()), tied=True),
              "P | stays | E"),
    )),
    Row("Tables of tokens and positions that only LayerNorms read", [tables(nn.LayerNorm)], """
        P | each row's mean                | alone | 8.1
        P | one vector and each row's mean | E     | 12.1
    """, (
        Break(RETURNED, tables(nn.LayerNorm, tied=True),
              "P | each row's mean | alone\nP | each row's mean | E"),
        Break("dropout acts between the sum and the norm, in training",
              tables(lambda d: nn.Sequential(nn.Dropout(0.3), nn.LayerNorm(d))),
              "P | one vector in training | E"),
    )),
    Row("An embedding's bias and a table of positions, without a class token", [patches],
        "b | all | P + b | measured"),
    Row("The last norm's shift", [head(same)], "β | all | b + W @ β | 6.3"),
    Row("Head bias under softmax", [head(softmax)], """
        b | the mean         | alone     | 12.2
        b | d + 1 directions | β         | 6.3
        β | all              | b + W @ β | 6.3
    """, (
        Break("the loss has a z-loss term", head(with_z_loss), "b | d directions | β"),
        Break("the logits are capped", head(capped), "b | d directions | β"),
        Break("a sigmoid replaces softmax", head(torch.sigmoid), "b | d directions | β"),
    )),
    Row("Router bias", [router(softmax), router(top_two)], "b | the mean | alone | 3.1", (
        Break("the weights are sigmoids of the logits", router(torch.sigmoid), "b | stays"),
    )),
)  # fmt: skip
