"""Softmax written out: exp turns a shift into a factor, which a quotient cancels."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from ..moves import Shift
from .common import RULES, SOFTMAX, alike, fitted, rule, spread, times
from .seeing import sees


@rule(
    "exp exp2 pow",
    "turn it into a factor; a quotient of such factors cancels what is the same in both",
    "3.1",
)
def exponential(run, call):
    """Turn a shift into a factor: a^(x + g t) = a^x a^(g t)."""
    if call.name == "pow" and isinstance(call.args[0], torch.Tensor):
        return sees(run, call)
    power = call.args[-1]
    base = {"exp": math.e, "exp2": 2.0}.get(call.name) or call.args[0]
    shift = call.shift(power).map(lambda g: math.log(base) * g)
    return Shift(shift.blocks, scaled=True)


#: Operations that rearrange numbers, or insert zeros.
MOVES = set(
    "copy view expand alias clone detach transpose permute _unsafe_view unsqueeze squeeze t _to_copy slice "
    "select tril triu constant_pad_nd index index_select gather repeat".split()
)
#: Measurements in float64 miss an addend below this share of the exponential it is added to.
HIDDEN = 1e-9


def scaled(run, call):
    """The rule for operations on tensors multiplied by exp(g t), as in softmax written out."""
    made = _scaled(run, call)
    if made is None:
        small = call.name == "add" and _hidden(call)
        for tensor in call.moving:
            kind = "corner" if small else "seen"
            run.see(call.shift(tensor), call, f"{call.name} depends on it", kind=kind)
    return made or Shift()


def _scaled(run, call):
    """The shift of the result, or None if no rule applies: the result depends on the factors."""
    x, shape = call.moving[0], call.outs[0].shape
    if call.name in ("mul", "div") and all(
        call.shift(a).scaled or not call.shift(a) for a in call.args[:2]
    ):
        return _product(run, call)
    if call.name in MOVES and x is call.args[0] or call.name == "copy":
        return Shift(RULES[call.name](run, call).blocks, scaled=True)
    if call.name in ("masked_fill", "where") and _fills_zeros(call, x):
        return spread(call.shift(x), shape)
    if call.name == "sum":
        axes = call.args[1] if len(call.args) > 1 and call.args[1] is not None else range(x.dim())
        return _summed(run, call, [*axes], lambda g: fitted(g, shape, axes, x.dim()))
    if call.name in ("mm", "bmm") and call.shift(call.args[0]).scaled:
        if (added := call.shift(call.args[1])).scaled:
            return None
        factor = _summed(run, call, [-1], lambda g: g.expand(len(g), *shape))
        if not added:
            return factor
        made = RULES[call.name](run, replace(call, shifts={id(call.args[1]): added}))
        return Shift(run.moves.now(made).blocks, factor=factor)
    if call.name == "add" and all(call.shift(a).scaled for a in call.args[:2]):
        one, other = (spread(call.shift(a), shape) for a in call.args[:2])
        run.see(one + -other, call, "a sum of exponentials depends on it")
        return Shift(run.moves.now(one).blocks, scaled=True)
    return Shift(call.shift(x).blocks) if call.name == "log" else None


def factored(run, call):
    """The rule for tensors that are shifted and then scaled; a quotient cancels the factor."""
    x, *rest = call.args
    shift = call.shift(x) if isinstance(x, torch.Tensor) else Shift()
    moving = [call.shift(a) for a in rest if isinstance(a, torch.Tensor) and call.shift(a)]
    plain = {id(a): Shift(call.shift(a).blocks, call.shift(a).scaled) for a in call.moving}
    if call.name == "div" and shift.factor and all(s.scaled for s in moving):
        shape, under = call.outs[0].shape, sum(moving, Shift())
        run.see(spread(shift.factor, shape) + -spread(under, shape), call, SOFTMAX, "3.1")
        run.note("erased", under, call, "softmax cancels it", "3.1")
        return RULES["div"](run, replace(call, shifts={id(x): plain[id(x)]}))
    if call.name in MOVES - {"copy"} and shift.factor:
        made = RULES[call.name](run, replace(call, shifts=plain))
        factor = RULES[call.name](run, replace(call, shifts={id(x): shift.factor}))
        return Shift(made.blocks, factor=Shift(factor.blocks, scaled=True))
    for tensor in call.moving:
        if call.shift(tensor).factor:
            run.see(call.shift(tensor).factor, call, f"{call.name} depends on it")
    return run._ruled(replace(call, shifts={i: s for i, s in plain.items() if s}))


def _product(run, call):
    one, other = (spread(call.shift(a), call.outs[0].shape) for a in call.args[:2])
    made = one + (other if call.name == "mul" else -other)
    if (call.outs[0] == 0).any():  # zero stays zero, whatever factor it has
        made = times(made, call.outs[0] != 0, call.outs[0].shape)
    lost = {
        g: b for g, b in one.blocks.items() if g not in made.blocks or made.blocks[g].vanishes()
    }
    run.note("erased", Shift(lost), call, "softmax cancels it", "3.1")
    return Shift(run.moves.now(made).blocks, scaled=True)


def _fills_zeros(call, x):
    if call.name == "masked_fill":
        return call.args[2] == 0
    others = [a for a in call.args[1:] if a is not x]
    return all(not (a.any() if isinstance(a, torch.Tensor) else a) for a in others)


def _summed(run, call, axes, shaped):
    """Require one factor for all nonzero numbers in a sum; the sum then has the same factor."""
    x = call.args[0]
    visible = None if (x != 0).all() else x != 0
    rest = alike(run, call, axes, SOFTMAX, "3.1", visible)
    return Shift(rest.map(shaped).blocks, scaled=True)


def _hidden(call):
    """Whether a sum adds a fixed number, too small to be measured, to an exponential."""
    moving = call.moving[0]
    still = [a for a in call.args[:2] if a is not moving]
    return len(call.moving) == 1 and bool(
        (torch.as_tensor(still[0]).abs() <= HIDDEN * moving.abs()).all()
    )
