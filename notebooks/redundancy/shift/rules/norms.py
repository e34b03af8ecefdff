"""Softmax and the norms: they cancel what is constant along an axis and depend on the rest."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from ..moves import Shift
from .common import SOFTMAX, SWALLOWED, cancelled, fitted, require_constant, rule, times

#: A measurement in float64 misses the effect of softmax weights below this number.
FAINT = 1e-12


@rule("_softmax _safe_softmax softmax _log_softmax log_softmax")
def softmax(run, call):
    """Softmax cancels a shift that is constant along its axis (theorem 3.1)."""
    x, axis = call.args[:2]
    rest = require_constant(run, call, [axis], SOFTMAX, "3.1", _visible(call))
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


@rule("var std var_mean std_mean")
def variance(run, call):
    """A variance cancels a shift that is constant along its axes (theorem 7.1)."""
    x = call.args[0]
    axes = next((a for a in call.args[1:] if isinstance(a, list | tuple)), None) or range(x.dim())
    rest = cancelled(run, call, [*axes], "a variance", "7.1")
    if not call.name.endswith("_mean"):
        return Shift()
    return [Shift(), rest.map(lambda g: fitted(g, call.outs[1].shape, axes, x.dim()))]


@rule("native_layer_norm layer_norm")
def layer_norm(run, call):
    """LayerNorm cancels the mean over the features (theorem 7.1)."""
    x, shape, weight, bias = call.args[:4]
    rest = cancelled(run, call, range(-len(shape), 0), "LayerNorm", "7.1")
    made = _gain_and_bias(call, weight, bias, F.layer_norm(x, shape), shape)
    return [made, _mean(rest, call.outs[1:])]


@rule("native_group_norm group_norm")
def group_norm(run, call):
    """GroupNorm cancels the mean of each group (theorem 7.4)."""
    x, weight, bias, many, _, _, groups, _ = call.args
    apart = call.shift(x).map(lambda g: g.reshape(len(g), many, groups, -1))
    inner = type(call)(call.name, call.op, (x.reshape(many, groups, -1),), {}, call.outs, {})
    only = "the mean of each group"
    rest = cancelled(run, inner, [2], "GroupNorm", "7.4", only, shift=apart)
    made = _gain_and_bias(call, weight, bias, F.group_norm(x, groups), _by_channel(x))
    return [made, _mean(rest, call.outs[1:])]


@rule(
    "native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
    "cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit_no_training "
    "_batch_norm_with_update _batch_norm_no_update batch_norm"
)
def batch_norm(run, call):
    """In training, BatchNorm cancels what is the same for the whole batch (theorem 6.1).

    In evaluation it passes a shift on.
    """
    named = dict(zip([a.name for a in call.op._schema.arguments], call.args)) | call.kwargs
    x, weight, bias = named["input"], named.get("weight"), named.get("bias")
    mean, wide = named.get("running_mean"), _by_channel(x)
    if not named.get("training", "with_update" in call.name):
        scale = (named["running_var"] + named["eps"]).rsqrt() * (1 if weight is None else weight)
        moved = call.shift(x) + times(_reshaped(call.shift(mean), wide), -1, x.shape)
        normed = F.batch_norm(x, mean, named["running_var"], eps=named["eps"])
        made = _gain_and_bias(call, weight, bias, normed, wide)
        return times(moved, scale.view(wide), x.shape) + made
    of_each = mean is None and len(x) == 1  # InstanceNorm makes one batch of each example
    norm, theorem = ("InstanceNorm", "7.5") if of_each else ("BatchNorm", "6.1")
    only = "what is constant over the axes of its mean"
    rest = cancelled(run, call, [0, *range(2, x.dim())], norm, theorem, only)
    if mean is not None and (rest or call.shift(mean)):
        share = named["momentum"]
        kept = call.shift(mean).map(lambda g: (1 - share) * g)
        run.write(mean, _mean(rest, [mean]).map(lambda g: share * g) + kept)
    normed = F.batch_norm(x, None, None, training=True)
    return [_gain_and_bias(call, weight, bias, normed, wide), _mean(rest, call.outs[1:])]


def _by_channel(x):
    return 1, -1, *[1] * (x.dim() - 2)


def _gain_and_bias(call, weight, bias, normed, wide):
    """The part of a norm's shift that comes from its gain and bias, which have the shape ``wide``."""
    made = Shift()
    for tensor, factor in (weight, normed), (bias, 1):
        made += times(_reshaped(call.shift(tensor), wide), factor, call.outs[0].shape)
    return made


def _reshaped(shift, wide):
    return shift.map(lambda g: g.reshape(len(g), *wide))


def _mean(rest, outs):
    """The shift of the mean that a norm may also return: ``rest`` in the shape of that mean."""
    return rest.map(lambda g: g.reshape(len(g), *outs[0].shape)) if outs else Shift()
