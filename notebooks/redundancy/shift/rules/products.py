"""Products of two factors, which are linear in a move as long as only one factor moves."""

from __future__ import annotations

import torch

from ..moves import NOISE, Shift, narrow
from .common import each, rule, same, spread, times
from .passing import pointwise


@rule("mul")
def multiplied(run, call):
    """Multiply a shift by the other factor, and note if it now differs from place to place."""
    one, other = call.args[:2]
    made = pointwise(run, call)
    for moving, fixed in ((one, other), (other, one)):
        if isinstance(fixed, torch.Tensor) and call.shift(moving):
            _note_turns(run, call, call.shift(moving), fixed)
    if call.shift(one) and call.shift(other):
        both = run.both(call.shift(one), call.shift(other), torch.mul)
        made += spread(both, call.outs[0].shape)
    return made


def _note_turns(run, call, shift, factor):
    """Note shifts that are constant along an axis until a factor makes them vary along it.

    A factor that looks like the cosines or sines of rotary positions gives the note a theorem.
    """
    factor = factor.double() if factor.dtype == torch.bool else factor
    axes = [a for a in range(-factor.dim(), 0) if factor.shape[a] > 1 and not same(factor, a)]
    rotates = factor.is_complex() or any(_is_rotation(factor.movedim(a, 0)) for a in axes)
    words, theorem = "it is multiplied by a factor that differs from place to place", None
    if rotates:
        words, theorem = "rotary positions rotate it, differently for each token", "5.4"
    alike = lambda g, a: g.stride(a) == 0 or rotates and same(narrow(g), a)
    turned = {g: b for g, b in shift.blocks.items()
              if any(-a < b.values.dim() and alike(b.values, a) for a in axes)}  # fmt: skip
    run.note("turned", Shift(turned), call, words, theorem)


def _is_rotation(factor):
    """Whether a factor has the cosines 1 or sines 0 of position 0, up to a scale, at its start.

    Only the wording of a report depends on the answer.
    """
    first, largest = factor[0], factor.abs().max()
    whole = ((first == 0) | (first == largest)).all()
    return factor.shape[-1] > 1 and bool(whole and (factor / largest % 1).any())


@rule("mm bmm addmm baddbmm mv dot addmv addbmm")
def matrix_product(run, call):
    """Multiply the shift of each factor by the other factor.

    Weights whose rows sum to one leave unchanged what is the same for all tokens (theorem 4.2).
    """
    *added, one, other = call.args
    beta, alpha = (call.kwargs.get(name, 1) for name in ("beta", "alpha"))
    shape = call.outs[0].shape
    a, b = call.shift(one), call.shift(other)
    left = one if one.dim() > 1 else one[None]
    right = other if other.dim() > 1 else other[:, None]
    made = Shift()
    if b:
        _note_weights(run, call, b, left, other.dim())
    rows = (len(left), *right.shape[-1:]) if left.dim() == 2 else shape
    whole = lambda g: (alpha * g).expand(len(g), *rows).reshape(len(g), *shape)
    if a:
        full = a if one.dim() > 1 else a.map(lambda g: g[:, None])
        made += full.map(lambda g: whole(_from_left(g, right)), *_gains(right, -2, alpha))
    if b:
        full = b if other.dim() > 1 else b.map(lambda g: g[:, :, None])
        made += full.map(lambda g: whole(_from_right(left, g)), *_gains(left, -1, alpha))
    if a and b:
        made += spread(run.both(a, b, torch.matmul), shape)
    for tensor in added:
        made += times(call.shift(tensor), beta, shape)
    return made


def _note_weights(run, call, shift, weights, axes):
    """Note what weights do to a shift that is the same for all tokens."""
    if weights.dim() == axes and (weights.sum(-1) - 1).abs().max() <= NOISE * weights.shape[-1]:
        run.note("passed", shift, call, "weights that sum to one pass it on unchanged", "4.2")
        return
    constant = lambda g: g.dim() > 2 and g.stride(-2) == 0
    alike = Shift({g: b for g, b in shift.blocks.items() if constant(b.values)})
    words = "the weights do not sum to one, so they pass on only a share of it"
    run.note("turned", alike, call, words)


def _gains(matrix, axis, factor=1):
    """(largest factor for numbers, for independent errors) in sums along an axis."""
    if not matrix.numel():
        return 1.0, 1.0
    return tuple(abs(factor) * matrix.abs().norm(p, axis).max().item() for p in (1, 2))


def _from_left(g, right):
    """The product g @ right, with only one row if all rows of the response g are equal."""
    if g.stride(-2) == 0 and g.shape[-2] > 1:
        g = g[..., :1, :]
    if right.dim() == 3 and g.stride(1) == 0 and same(right, 0):
        g, right = g[:, :1], right[:1]
    return g @ right


def _from_right(left, g):
    """The product left @ g: row sums of ``left`` times one row of g, if all rows of g are equal."""
    if g.stride(-1) == 0 and g.shape[-1] > 1:
        g = g[..., :1]
    if g.stride(-2) != 0 or g.shape[-2] == 1:
        return left @ g
    sums = left.sum(-1, keepdim=True)
    for axis in range(sums.dim()):
        sums = sums.narrow(axis, 0, 1) if same(sums, axis) else sums
    return sums * g[..., :1, :]


@rule("convolution _convolution mkldnn_convolution convolution_overrideable")
def convolution(run, call):
    """Convolve the shift; with zero padding, the change differs at the border (theorem 6.6)."""
    x, weight, bias, *rest = call.args
    shape, made = call.outs[0].shape, Shift()
    a, b = call.shift(x), call.shift(weight)
    convolved = lambda x, weight: call.op(x, weight, None, *rest)

    def of_batch(g):
        g = g[:, :1] if g.stride(1) == 0 else g
        found = convolved(g.flatten(0, 1), weight)
        return found.unflatten(0, g.shape[:2]).expand(len(g), *shape)

    if a:
        made += a.map(of_batch, *_gains(weight.flatten(1), 1))
    if b:
        gain = x.abs().max().item() * weight[0].numel()
        made += b.map(each(lambda g: convolved(x, g)), gain)
    if a and b:
        made += run.both(a, b, convolved)
    if bias is not None:
        wide = call.shift(bias).map(lambda g: g.reshape(len(g), -1, *[1] * (len(shape) - 2)))
        made += spread(wide, shape)
    return made
