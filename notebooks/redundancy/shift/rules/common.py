"""The registry of the rules, and how to broadcast, scale and average a shift."""

from __future__ import annotations

import torch

from ..moves import NOISE, Block, Shift, narrow

#: In float64, adding a number below one to a number of this size has no effect: a mask of finfo.min
#: acts like -inf, and a clamp with limits this far away does nothing.
SWALLOWED = 2.0**53
#: What a report says about softmax, whether it is one operation or written out.
SOFTMAX = "softmax cancels only what is constant along its axis"
#: {operation: its rule, a function of (run, call) that returns the shifts of the results}.
RULES = {}


def rule(operations):
    """A decorator that makes a function the rule of some operations."""

    def made(function):
        RULES.update(dict.fromkeys(operations.split(), function))
        return function

    return made


def each(function):
    """Turn a function of one coordinate's response into one of all coordinates' responses."""
    if torch._C._functorch.peek_interpreter_stack() is None:
        return torch.func.vmap(function)

    def looped(values):  # inside a model's own vmap, no second vmap may start
        made = [function(v) for v in values]
        if isinstance(made[0], list | tuple):
            return [torch.stack(parts) for parts in zip(*made, strict=True)]
        return torch.stack(made)

    return looped


def spread(shift, shape):
    """The shift of a tensor that is broadcast to a shape."""
    return shift.map(lambda g: aligned(g, len(shape)).expand(len(g), *shape))


def aligned(values, axes):
    """A response with axes of size one inserted, so that it has the given number of axes."""
    values = narrow(values)
    return values.reshape(len(values), *[1] * (axes + 1 - values.dim()), *values.shape[1:])


def times(shift, factor, shape):
    """The shift of a tensor that is multiplied by a factor and broadcast to a shape."""
    if not shift or isinstance(factor, int) and factor == 1:
        return spread(shift, shape)
    factor = torch.as_tensor(factor)
    factor = factor if factor.is_complex() else factor.double()
    factors = narrow(factor.expand(shape)[None])
    gain = factor.abs().max().item() if factor.numel() else 1.0
    return spread(shift.map(lambda g: aligned(g, len(shape)) * factors, gain), shape)


def same(t, axis):
    """Whether a tensor is constant along an axis of more than one entry, up to rounding."""
    if t.shape[axis] < 2:
        return False
    return bool((t - t.narrow(axis, 0, 1)).abs().max() <= NOISE * t.abs().max())


def require_constant(run, call, axes, words, theorem=None, visible=None, shift=None):
    """Require that the first argument's shift is constant along some axes, where it is ``visible``.

    Returns that constant, the mean along the axes.  ``shift``, if given, replaces the argument's.
    """
    shift = call.shift(call.args[0]) if shift is None else shift
    axes = [a % call.args[0].dim() for a in axes]
    differs, alike = {}, {}
    for group, block in shift.blocks.items():
        g, shape = block.values, block.values.shape[1:]
        still = all(g.stride(a + 1) == 0 or g.shape[a + 1] == 1 for a in axes)
        g = narrow(g) if still or visible is None else g
        mean = g if still else _mean(g, [a + 1 for a in axes], visible)
        if not still:
            rest = g - mean if visible is None else (g - mean) * visible
            differs[group] = Block(rest.expand(block.values.shape), block.peak)
        shape = [1 if a in axes else n for a, n in enumerate(shape)]
        alike[group] = Block(mean.expand(len(mean), *shape), block.peak)
    run.see(Shift(differs), call, words, theorem)
    return run.moves.now(Shift(alike))


def _mean(g, axes, visible):
    """The mean of a response along some axes, over all numbers or the ``visible`` ones."""
    if visible is None:
        return g.mean(axes, keepdim=True)
    visible = visible[None]
    return (g * visible).sum(axes, keepdim=True) / visible.sum(axes, keepdim=True).clamp(min=1)


def cancelled(run, call, axes, name, theorem, only="the mean", **how):
    """Record that a norm cancels what is constant along some axes; return that constant.

    ``name`` and ``only`` say in words which norm this is and what it cancels; ``how`` is passed to
    `require_constant`.
    """
    rest = require_constant(run, call, axes, f"{name} cancels only {only}", theorem, **how)
    run.note("erased", rest, call, f"{name} cancels it", theorem)
    return rest


def fitted(g, shape, axes, dim):
    """A response with the ``axes``, of size one, removed unless the result keeps them."""
    if g.dim() - 1 != len(shape):
        for a in sorted((a % dim for a in axes), reverse=True):
            g = g.squeeze(a + 1)
    return g.expand(len(g), *shape)
