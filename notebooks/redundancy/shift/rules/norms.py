"""Softmax and the norms: they cancel what is constant along an axis and depend on the rest."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..moves import Shift
from .common import SOFTMAX, SWALLOWED, aligned, alike, fitted, rule, spread, times

#: A measurement in float64 misses the effect of softmax weights below this number.
FAINT = 1e-12


@rule(
    "_softmax _safe_softmax softmax _log_softmax log_softmax",
    "cancel a change that is constant along the axis",
    "3.1",
)
def softmax(run, call):
    x, axis = call.args[:2]
    rest = alike(run, call, [axis], SOFTMAX, "3.1", _visible(call))
    single = "softmax over a single key is always 1"
    words = single if x.dim() and x.shape[axis] == 1 else "softmax cancels it"
    run.note("erased", rest, call, words, "3.1")
    run.faint |= bool(((call.outs[0] > 0) & (call.outs[0] < FAINT)).any())
    return Shift()


def _visible(call):
    """A mask of the scores on which softmax depends; None if it depends on all of them.

    Softmax ignores scores of -inf, and fixed scores so low that their weight is zero.
    """
    x, weights = call.args[0], call.outs[0]
    hidden = x <= -SWALLOWED
    if "log" not in call.name and (weights == 0).any():
        still = torch.ones_like(hidden)
        for block in call.shift(x).blocks.values():
            still &= (block.values == 0).all(0)
        hidden |= (weights == 0) & still
    return ~hidden if hidden.any() else None


@rule("var std var_mean std_mean", "cancel a change that is constant along the axes", "7.1")
def variance(run, call):
    x = call.args[0]
    axes = next((a for a in call.args[1:] if isinstance(a, list | tuple)), None) or range(x.dim())
    rest = alike(run, call, [*axes], "a variance cancels only the mean", "7.1")
    run.note("erased", rest, call, "a variance cancels it", "7.1")
    if not call.name.endswith("_mean"):
        return Shift()
    return [Shift(), rest.map(lambda g: fitted(g, call.outs[1].shape, axes, x.dim()))]


@rule("native_layer_norm layer_norm", "cancel the mean over the features", "7.1")
def layer_norm(run, call):
    x, shape, weight, bias = call.args[:4]
    axes = range(x.dim() - len(shape), x.dim())
    rest = alike(run, call, axes, "LayerNorm cancels only the mean", "7.1")
    run.note("erased", rest, call, "LayerNorm cancels it", "7.1")
    made = Shift()
    if weight is not None and call.shift(weight):
        made += times(call.shift(weight), F.layer_norm(x, shape), call.outs[0].shape)
    if bias is not None:
        made += spread(call.shift(bias), call.outs[0].shape)
    return [made, _like(rest, call.outs[1:])]


def _like(rest, outs):
    """The shift of the mean that a norm may also return: ``rest`` in the shape of that mean."""
    if not outs:
        return Shift()
    return rest.map(lambda g: g.reshape(len(g), *outs[0].shape) if g[0].numel() == outs[0].numel()
                    else aligned(g, g.dim() - 1).flatten(1)[:, :1].expand(len(g), outs[0].numel())
                    .reshape(len(g), *outs[0].shape))  # fmt: skip


@rule("native_group_norm group_norm", "cancel the mean of each group", "7.4")
def group_norm(run, call):
    x, weight, bias, many, channels, _, groups, _ = call.args
    apart = call.shift(x).map(lambda g: g.reshape(len(g), many, groups, -1))
    inner = type(call)(call.name, call.op, (x.reshape(many, groups, -1),), {}, call.outs, {})
    words = "GroupNorm cancels only the mean of each group"
    rest = alike(run, inner, [2], words, "7.4", shift=apart)
    run.note("erased", rest, call, "GroupNorm cancels it", "7.4")
    return [
        _channels(call, weight, bias, lambda: F.group_norm(x, groups)),
        _like(rest, call.outs[1:]),
    ]


def _channels(call, weight, bias, normed):
    """The part of a result's shift that comes from the norm's own gain and bias, by channel."""
    made, shape = Shift(), call.outs[0].shape
    wide = lambda s: s.map(lambda g: g.reshape(len(g), 1, -1, *[1] * (len(shape) - 2)))
    if weight is not None and call.shift(weight):
        made += times(wide(call.shift(weight)), normed(), shape)
    if bias is not None:
        made += spread(wide(call.shift(bias)), shape)
    return made


@rule(
    "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
    "cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit_no_training "
    "_batch_norm_with_update _batch_norm_no_update batch_norm",
    "in training, cancel a change that is the same for the whole batch; in evaluation, pass it on",
    "6.1",
)
def batch_norm(run, call):
    named = dict(zip([a.name for a in call.op._schema.arguments], call.args)) | call.kwargs
    x, weight, bias = named["input"], named.get("weight"), named.get("bias")
    training = named.get("training", "with_update" in call.name)
    shape, channels = x.shape, (1, -1, *[1] * (x.dim() - 2))
    if training:
        axes = [a for a in range(x.dim()) if a != 1]
        norm, theorem = ("InstanceNorm", "7.5") if mean_of_each(named) else ("BatchNorm", "6.1")
        words = f"{norm} cancels only what is constant over the axes of its mean"
        rest = alike(run, call, axes, words, theorem)
        run.note("erased", rest, call, f"{norm} cancels it", theorem)
        running, share = named.get("running_mean"), named.get("momentum")
        if running is not None and (rest or call.shift(running)):
            mean = _like(rest, [running]).map(lambda g: share * g)
            run.write(running, mean + call.shift(running).map(lambda g: (1 - share) * g))
        normed = lambda: F.batch_norm(x, None, None, training=True)
        return [_channels(call, weight, bias, normed), _like(rest, call.outs[1:])]
    mean, variance = named["running_mean"], named["running_var"]
    scale = (variance + named["eps"]).rsqrt() * (1 if weight is None else weight)
    moved = call.shift(x) + spread(
        -call.shift(mean).map(lambda g: g.reshape(len(g), *channels)), shape
    )
    normed = lambda: F.batch_norm(x, mean, variance, eps=named["eps"])
    return times(moved, scale.view(channels), shape) + _channels(call, weight, bias, normed)


def mean_of_each(named):
    """Whether a batch norm takes a mean for each example, as it does when InstanceNorm calls it."""
    return named.get("running_mean") is None and named["input"].shape[0] == 1
