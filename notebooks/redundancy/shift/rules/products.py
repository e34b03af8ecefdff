"""Products of two factors, which are linear in a move as long as only one factor moves."""

from __future__ import annotations

import torch

from ..moves import NOISE, Shift, narrow
from .common import each, rule, same, spread, thin, times
from .seeing import sees


@rule(
    "mul",
    "pass it on; after a factor that differs from token to token, as in a rotation, the change differs too",
    "5.4",
)
def multiplied(run, call):
    one, other = call.args[:2]
    made, shape = Shift(), call.outs[0].shape
    for moving, fixed in ((one, other), (other, one)):
        if isinstance(moving, torch.Tensor):
            made += times(call.shift(moving), fixed, shape)
            _note_turns(run, call, call.shift(moving), fixed)
    if isinstance(other, torch.Tensor) and call.shift(one) and call.shift(other):
        made += spread(run.both(call.shift(one), call.shift(other), torch.mul), shape)
    return made


def _note_turns(run, call, shift, factor):
    """Record shifts that are constant along an axis until a factor makes them vary along it."""
    if not isinstance(factor, torch.Tensor) or not shift:
        return
    factor = factor.double() if factor.dtype == torch.bool else factor
    axes = [
        a for a in range(-1, -factor.dim() - 1, -1) if not same(factor, a) and factor.shape[a] > 1
    ]
    rotates = factor.is_complex() or factor in run.angles
    words, theorem = "it is multiplied by a factor that differs from place to place", None
    if rotates:
        words, theorem = "rotary positions rotate it, differently for each token", "5.4"
    alike = lambda g, a: g.stride(a) == 0 or rotates and same(narrow(g), a)
    turned = {g: b for g, b in shift.blocks.items()
              if any(-a < b.values.dim() and alike(b.values, a) for a in axes)}  # fmt: skip
    run.note("turned", Shift(turned), call, words, theorem)


@rule("lerp", "pass it on")
def interpolated(run, call):
    one, other, weight = call.args
    shape = call.outs[0].shape
    if isinstance(weight, torch.Tensor) and call.shift(weight):
        return sees(run, call)
    return times(call.shift(one), 1 - weight, shape) + times(call.shift(other), weight, shape)


@rule("div", "pass on a change of the numerator, depend on one of the denominator")
def divided(run, call):
    over, under = call.args[:2]
    if call.kwargs.get("rounding_mode"):
        return sees(run, call)
    shape = call.outs[0].shape
    if isinstance(under, torch.Tensor):
        if call.shift(under):
            run.see(call.shift(under), call, "a denominator depends on it")
        if call.shift(over):
            return times(call.shift(over), under.reciprocal(), shape)
        return Shift()
    return times(call.shift(over), 1 / under, shape)


@rule(
    "mm bmm addmm baddbmm mv dot addmv addbmm",
    "pass it on; weights whose rows sum to one leave unchanged what is the same for all tokens",
    "4.2",
)
def matrix_product(run, call):
    added_to, (one, other), beta, alpha = _factors(call)
    shape = call.outs[0].shape
    a, b = call.shift(one), call.shift(other)
    left = one if one.dim() > 1 else one[None]
    right = other if other.dim() > 1 else other[:, None]
    made = Shift()
    sums_to_one = b and left.sum(-1).sub(1).abs().max() <= NOISE * left.shape[-1]
    if sums_to_one and left.dim() == other.dim():
        run.note("passed", b, call, "weights that sum to one pass it on unchanged", "4.2")
    elif alike := _alike_for_all_tokens(b):
        run.note(
            "turned",
            alike,
            call,
            "the weights do not sum to one, so they pass on only a share of it",
        )
    rows = (len(left), *right.shape[-1:]) if left.dim() == 2 else shape
    whole = lambda g: g.expand(len(g), *rows).reshape(len(g), *shape)
    if a:
        full = a if one.dim() > 1 else a.map(lambda g: g[:, None])
        made += full.map(lambda g: whole(_from_left(g, right, alpha)), *_gains(right, -2, alpha))
    if b:
        full = b if other.dim() > 1 else b.map(lambda g: g[:, :, None])
        made += full.map(lambda g: whole(_from_right(left, g, alpha)), *_gains(left, -1, alpha))
    if a and b:
        made += spread(run.both(a, b, torch.matmul), shape)
    if added_to is not None and call.shift(added_to):
        made += times(call.shift(added_to), beta, shape)
    return made


def _gains(matrix, axis, factor=1):
    """(largest factor for numbers, for independent errors) in sums along an axis."""
    if not matrix.numel():
        return 1.0, 1.0
    size = abs(factor)
    return tuple(size * matrix.abs().norm(p, axis).max().item() for p in (1, 2))


def _alike_for_all_tokens(shift):
    """The blocks of a second factor's shift that are constant along the axis of summation."""
    alike = {
        g: b for g, b in shift.blocks.items() if b.values.dim() > 2 and b.values.stride(-2) == 0
    }
    return Shift(alike)


def _factors(call):
    """(the added tensor, the two factors, beta, alpha) of a matrix product."""
    if call.name.startswith(("addmm", "baddbmm", "addmv", "addbmm")):
        beta, alpha = call.kwargs.get("beta", 1), call.kwargs.get("alpha", 1)
        return call.args[0], call.args[1:3], beta, alpha
    return None, call.args[:2], 1, 1


def _from_left(g, right, alpha):
    """alpha * g @ right, with only one row if all rows of the response g are equal."""
    if g.stride(-2) == 0 and g.shape[-2] > 1:
        g = g[..., :1, :]
    if right.dim() == 3 and g.stride(1) == 0 and same(right, 0):
        g, right = g[:, :1], right[:1]
    return alpha * (g @ right)


def _from_right(left, g, alpha):
    """alpha * left @ g: row sums of ``left`` times one row of g, if all rows of g are equal."""
    if g.stride(-1) == 0 and g.shape[-1] > 1:
        g = g[..., :1]
    if g.stride(-2) == 0 and g.shape[-2] > 1:
        return alpha * (thin(left.sum(-1, keepdim=True)) * g[..., :1, :])
    return alpha * (left @ g)


@rule(
    "convolution _convolution mkldnn_convolution convolution_overrideable",
    "pass it on; with zero padding the change differs at the border",
    "6.6",
)
def convolution(run, call):
    x, weight, bias = call.args[:3]
    shape, rest, made = call.outs[0].shape, call.args[3:], Shift()
    if call.shift(x):
        gains = _gains(weight.flatten(1), 1)
        made += call.shift(x).map(lambda g: _convolved(call, g, weight, rest, shape), *gains)
    if call.shift(weight):
        again = each(lambda g: call.op(x, g, None, *rest))
        made += call.shift(weight).map(again, x.abs().max().item() * weight[0].numel())
        if call.shift(x):
            made += run.both(
                call.shift(x), call.shift(weight), lambda a, b: call.op(a, b, None, *rest)
            )
    if bias is not None and call.shift(bias):
        ones = [1] * (len(shape) - 2)
        made += call.shift(bias).map(
            lambda g: g.reshape(len(g), 1, -1, *ones).expand(len(g), *shape)
        )
    return made


def _convolved(call, g, weight, rest, shape):
    if g.stride(1) == 0:
        g = g[:, :1]
    made = call.op(g.flatten(0, 1), weight, None, *rest)
    return made.unflatten(0, g.shape[:2]).expand(len(g), *shape)
