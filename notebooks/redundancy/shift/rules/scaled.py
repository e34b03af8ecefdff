"""Softmax that is written out: exp turns a shift into a factor, which a quotient cancels."""

from __future__ import annotations

import math

import torch

from ..moves import Shift
from .common import RULES, alike, fitted, rule, spread
from .seeing import sees


@rule(
    "exp exp2 pow",
    "turn it into a factor; a quotient of such factors cancels what is the same in both",
    "3.1",
)
def exponential(run, call):
    """A sum becomes a factor: a^(x + g t) = a^x a^(g t)."""
    if call.name == "pow" and isinstance(call.args[0], torch.Tensor):
        return sees(run, call)
    power = call.args[-1]
    base = {"exp": math.e, "exp2": 2.0}.get(call.name) or call.args[0]
    shift = call.shift(power).map(lambda g: math.log(base) * g)
    return Shift(shift.blocks, scaled=True)


def scaled(run, call):
    """The rules of tensors that are multiplied by exp(g t): softmax that is written out."""
    if call.name in ("mul", "div") and isinstance(call.args[1], torch.Tensor):
        shape = call.outs[0].shape
        parts = [call.shift(a) for a in call.args[:2]]
        if all(s.scaled or not s for s in parts):
            one, other = (spread(s, shape) for s in parts)
            made = one + (other if call.name == "mul" else -other)
            run.note("erased", _lost(one, made), call, "softmax cancels it", "3.1")
            return Shift(run.moves.now(made).blocks, scaled=True)
    elif call.name in (
        "mul",
        "div",
        "masked_fill",
        "where",
        "copy",
        "view",
        "expand",
        "alias",
        "clone",
        "detach",
        "transpose",
        "permute",
        "_unsafe_view",
        "unsqueeze",
        "squeeze",
        "t",
        "_to_copy",
        "slice",
        "select",
    ):
        x = call.moving[0]
        fill = call.args[2] if call.name == "masked_fill" else 0
        others = [
            a
            for a in call.args
            if isinstance(a, torch.Tensor) and a is not x and a.is_floating_point()
        ]
        if fill == 0 and (call.name != "where" or all(not o.any() for o in others)):
            if call.name in ("mul", "div", "masked_fill", "where"):
                return spread(call.shift(x), call.outs[0].shape)
            return Shift(RULES[call.name](run, call).blocks, scaled=True)
    elif call.name == "sum":
        axes = (
            call.args[1]
            if len(call.args) > 1 and call.args[1] is not None
            else range(call.args[0].dim())
        )
        visible = call.args[0] != 0
        rest = alike(
            run,
            call,
            call.shift(call.args[0]),
            [*axes],
            None if visible.all() else visible,
            "softmax cancels only what is the same along its axis",
            "3.1",
        )
        made = rest.map(lambda g: fitted(g, call.outs[0].shape, axes, call.args[0].dim()))
        return Shift(made.blocks, scaled=True)
    elif call.name == "add" and all(call.shift(a).scaled for a in call.args[:2]):
        one, other = (spread(call.shift(a), call.outs[0].shape) for a in call.args[:2])
        run.see(one + -other, call, "a sum of exponentials depends on it")
        return Shift(run.moves.now(one).blocks, scaled=True)
    elif call.name == "log":
        return Shift(call.shift(call.args[0]).blocks)
    elif call.name in ("mm", "bmm") and len(call.moving) == 1 and call.shift(call.args[0]):
        rest = alike(
            run,
            call,
            call.shift(call.args[0]),
            [-1],
            None,
            "softmax cancels only what is the same along its axis",
            "3.1",
        )
        return Shift(spread(rest, call.outs[0].shape).blocks, scaled=True)
    for tensor in call.moving:
        run.see(call.shift(tensor), call, f"{call.name} depends on it")
    return Shift()


def _lost(before, after):
    return Shift(
        {
            g: b
            for g, b in before.blocks.items()
            if g not in after.blocks or after.blocks[g].vanishes()
        }
    )
