"""Softmax written out: exp turns a shift into a factor, which a quotient cancels (theorem 3.1)."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from ..moves import Shift
from .common import RULES, SOFTMAX, fitted, require_constant, rule, spread, times
from .dependent import sees

#: Operations that do to a factor what they do to a shift.
MOVES = set(
    "copy view expand alias clone detach transpose permute _unsafe_view unsqueeze squeeze t _to_copy "
    "slice select tril triu constant_pad_nd index index_select gather repeat masked_fill where".split()
)
#: Measurements in float64 miss an addend below this share of the exponential it is added to.
HIDDEN = 1e-9


@rule("exp exp2 pow")
def exponential(run, call):
    """Turn a shift into a factor: a^(x + g t) = a^x a^(g t)."""
    if call.name == "pow" and isinstance(call.args[0], torch.Tensor):
        return sees(run, call)
    base = {"exp": math.e, "exp2": 2.0}.get(call.name) or call.args[0]
    return Shift(factor=call.shift(call.args[-1]).map(lambda g: math.log(base) * g))


def factored(run, call):
    """The rule for any operation if an argument has a factor: it becomes (x + G t) exp(F t).

    The result is shifted as without the factors, and then has a factor of its own.
    """
    plain = replace(call, shifts={i: Shift(s.blocks) for i, s in call.shifts.items() if s.blocks})
    only = replace(call, shifts={i: s.factor for i, s in call.shifts.items() if s.factor})
    if call.name == "log" and not plain.shifts:
        return only.shift(call.args[0])
    factor = _factor(run, only, plain)
    if factor is None:
        kind = "corner" if call.name == "add" and _hidden(call) else "seen"
        for tensor in only.moving:
            run.see(only.shift(tensor), call, f"{call.name} depends on it", kind=kind)
    made = run.ruled(plain) if plain.shifts else Shift()
    return Shift(made.blocks, run.moves.now(factor)) if factor else made


def _factor(run, call, plain):
    """The factor of the result, or None if the result depends on the factors of the arguments.

    The shifts of ``call`` are those in the exponents, and ``plain`` has all others.
    """
    x, shape = call.args[0], call.outs[0].shape
    one, other = [call.shift(a) for a in call.args[:2]] + [Shift()] * (len(call.args) < 2)
    if call.name in MOVES:
        return RULES[call.name](run, call)
    if call.name == "sum":
        axes = call.args[1] if len(call.args) > 1 and call.args[1] is not None else range(x.dim())
        rest = _common(run, call, [*axes], plain)
        return rest.map(lambda g: fitted(g, shape, axes, x.dim()))
    if call.name in ("mm", "bmm") and not other:
        return _common(run, call, [-1], plain).map(lambda g: g.expand(len(g), *shape))
    one, other = spread(one, shape), spread(other, shape)
    if call.name == "add" and one and other:
        run.see(one + -other, call, "a sum of exponentials depends on it")
        return one
    if call.name not in ("mul", "div"):
        return None
    made = one + (other if call.name == "mul" else -other)
    if not plain.shifts:  # zero stays zero, whatever factor it has
        made = times(made, call.outs[0] != 0, shape)
    left = run.moves.now(made).blocks
    lost = Shift({g: b for g, b in one.blocks.items() if g not in left})
    run.note("erased", lost, call, "softmax cancels it", "3.1")
    return made


def _common(run, call, axes, plain):
    """Require that all nonzero numbers in a sum have one factor, and return this factor."""
    x = call.args[0]
    visible = None if plain.shift(x) or (x != 0).all() else x != 0
    return require_constant(run, call, axes, SOFTMAX, "3.1", visible)


def _hidden(call):
    """Whether a sum adds a fixed number, too small to be measured, to an exponential."""
    moving = call.moving[0]
    still = [torch.as_tensor(a) for a in call.args[:2] if a is not moving]
    return len(call.moving) == 1 and bool((still[0].abs() <= HIDDEN * moving.abs()).all())
