"""What the rules share: their list, and how to broadcast, scale, and average a shift along axes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..moves import NOISE, Block, Shift, narrow

#: In float64, adding a number below one to a number of this size has no effect: a mask of finfo.min
#: acts like -inf, and a clamp with limits this far away does nothing.
SWALLOWED = 2.0**53
#: What a report says about softmax, whether it is one operation or written out.
SOFTMAX = "softmax cancels only what is constant along its axis"


@dataclass(frozen=True)
class Rule:
    """What some operations do to a shift, in words, and the number of the theorem that says so."""

    operations: tuple[str, ...]
    does: str
    theorem: str | None
    function: object


#: All `Rule`s, and {operation: the function of its rule}.
TABLE, RULES = [], {}


def rule(operations, does, theorem=None):
    """A decorator for a rule: a function of (run, call) that returns the shifts of the results."""

    def made(function):
        names = tuple(operations.split())
        TABLE.append(Rule(names, does, theorem, function))
        RULES.update(dict.fromkeys(names, function))
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
    if not isinstance(factor, torch.Tensor):
        return spread(shift.map(lambda g: narrow(g) * factor, abs(factor)), shape)
    factor = factor.double() if not factor.is_complex() else factor
    factors = narrow(factor.expand(shape)[None])
    gain = factor.abs().max().item() if factor.numel() else 1.0
    made = shift.map(lambda g: aligned(g, len(shape)) * factors, gain)
    return spread(made, shape)


def thin(t):
    """A tensor cut to one entry along each axis on which it is constant, up to rounding."""
    for axis in range(t.dim()):
        if same(t, axis):
            t = t.narrow(axis, 0, 1)
    return t


def same(t, axis):
    if t.shape[axis] < 2:
        return False
    return bool((t - t.narrow(axis, 0, 1)).abs().max() <= NOISE * t.abs().max())


def mean_along(g, axes, visible=None):
    """The mean of a response along some axes, over all numbers or the ``visible`` ones."""
    axes = [a + 1 if a >= 0 else a for a in axes]
    if visible is None:
        return g.mean(axes, keepdim=True)
    visible = visible[None]
    return (g * visible).sum(axes, keepdim=True) / visible.sum(axes, keepdim=True).clamp(min=1)


def alike(run, call, axes, words, theorem=None, visible=None, shift=None):
    """Require that the first argument's shift is constant along some axes, where it is ``visible``.

    Returns that constant, the mean along the axes.  ``shift``, if given, replaces the argument's.
    """
    shift = call.shift(call.args[0]) if shift is None else shift
    axes = [a % call.args[0].dim() for a in axes]
    differs, alike = {}, {}
    for group, block in shift.blocks.items():
        thin = block.values
        if all(thin.stride(a + 1) == 0 or thin.shape[a + 1] == 1 for a in axes):
            for a in axes:
                thin = thin.narrow(a + 1, 0, 1)
            alike[group] = Block(thin, block.peak)
            continue
        for a in range(1, thin.dim()):  # keep one entry along constant axes that are not in `axes`
            if thin.stride(a) == 0 and a - 1 not in axes and visible is None:
                thin = thin.narrow(a, 0, 1)
        mean = mean_along(thin, axes, visible)
        rest = thin - mean if visible is None else (thin - mean) * visible
        shape = [1 if a in axes else n for a, n in enumerate(block.values.shape[1:])]
        differs[group] = Block(rest.expand(block.values.shape), block.peak)
        alike[group] = Block(mean.expand(len(mean), *shape), block.peak)
    run.see(Shift(differs), call, words, theorem)
    return run.moves.now(Shift(alike))


def fitted(g, shape, axes, dim):
    if g.dim() - 1 != len(shape):
        for a in sorted((a % dim for a in axes), reverse=True):
            g = g.squeeze(a + 1)
    return g.expand(len(g), *shape)
