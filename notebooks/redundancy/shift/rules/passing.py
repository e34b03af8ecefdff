"""Operations that pass a shift on, linearly: views, sums, masks."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from ..moves import Block, Shift
from .common import each, rule, spread, times
from .dependent import depend, sees


def _chosen(mask, other):
    """The factor of what a mask selects: 1 if all else is -inf, as nothing later depends on it."""
    return 1 if torch.as_tensor(other).isneginf().all() else mask


#: {operation: a function of its arguments that returns {place of an argument: its factor}}.
#: The result is the sum of these arguments, each multiplied by its factor.
FACTORS: dict[str, Callable] = {
    **dict.fromkeys(
        "alias detach clone contiguous positive lift_fresh lift _to_copy expand".split(),
        lambda x, *_, **__: {0: 1},
    ),
    "copy": lambda x, source, *_: {1: 1},
    "neg": lambda x: {0: -1},
    "add": lambda x, y, alpha=1: {0: 1, 1: alpha},
    "sub": lambda x, y, alpha=1: {0: 1, 1: -alpha},
    "rsub": lambda x, y, alpha=1: {0: -alpha, 1: 1},
    "div": lambda x, y, rounding_mode=None: {} if rounding_mode else {0: 1 / y},
    "mul": lambda x, y: {0: y, 1: x},
    "lerp": lambda x, y, weight: {0: 1 - weight, 1: weight},
    "where": lambda mask, x, y: {1: _chosen(mask, y), 2: _chosen(~mask, x)},
    "masked_fill": lambda x, mask, y: {0: _chosen(~mask, y), 2: _chosen(mask, x)},
    "nan_to_num": lambda x, *_: {0: x.isfinite()},
}


@rule(" ".join(FACTORS))
def pointwise(run, call):
    """Add up the shifts of the arguments, multiplied by their factors; depend on the others."""
    out, made = call.outs[0], Shift()
    if not (out.is_floating_point() or out.is_complex()):
        return sees(run, call)
    factors = FACTORS[call.name](*call.args, **call.kwargs)
    for place, tensor in enumerate(call.args):
        if place in factors:
            made += times(call.shift(tensor), factors[place], out.shape)
        else:
            depend(run, call, [tensor])
    return made


@rule("native_dropout")
def dropped(run, call):
    """Dropout in training multiplies each number by a random factor (theorem 5.2)."""
    x, chance = call.args[:2]
    return times(call.shift(x), call.outs[1].double() / (1 - chance), call.outs[0].shape)


@rule(
    "permute transpose t select slice unsqueeze squeeze split unsafe_split split_with_sizes "
    "unsafe_split_with_sizes unbind chunk narrow diagonal unfold flip roll index_select gather index "
    "tril triu reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d "
    "take_along_dim mT adjoint as_strided_copy im2col col2im pixel_shuffle pixel_unshuffle channel_shuffle "
    "avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d mean "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_bicubic2d "
    "upsample_linear1d upsample_trilinear3d _upsample_bicubic2d_aa _upsample_bilinear2d_aa "
    "_fft_r2c _fft_c2c _fft_c2r view_as_real view_as_complex real imag "
    "repeat rot90 movedim swapaxes trace diag_embed embedding sum cumsum constant_pad_nd"
)
def linear(run, call):
    """Apply the operation to the response, as it is linear in its first argument."""
    shift, fill = call.shift(call.args[0]), {2: 0} if call.name == "constant_pad_nd" else {}
    if not shift:  # what moves is a mask or an index, so the selection changes abruptly
        return sees(run, call)
    gain = call.args[0].numel() / max(1, call.outs[0].numel()) if call.name == "sum" else 1.0
    again = each(lambda g: call.rerun({0: g} | fill))
    made = {g: (again(b.values), b.peak * max(1.0, gain)) for g, b in shift.blocks.items()}
    if not isinstance(next(iter(made.values()))[0], list | tuple):
        return Shift({g: Block(v, peak) for g, (v, peak) in made.items()})
    return [
        Shift({g: Block(v[i], peak) for g, (v, peak) in made.items()})
        for i in range(len(call.outs))
    ]


@rule("fill normal uniform bernoulli exponential random log_normal geometric cauchy")
def overwritten(run, call):
    """The old numbers no longer matter, unless new ones are drawn around a number that moves."""
    in_place = call.op.overloadpacket.__name__.endswith("_")
    if in_place and all(t is call.args[0] for t in call.moving):
        return Shift()
    if call.name == "fill":
        return spread(call.shift(call.args[1]), call.outs[0].shape)
    return run.unknown(call, f"{call.name} uses numbers that change")


@rule("view _unsafe_view reshape _reshape_alias flatten unflatten")
def reshaped(run, call):
    """Reshape the response; a constant axis keeps stride 0 unless it is split or joined."""
    if call.outs[0].dtype != call.args[0].dtype:
        return run.unknown(call, "a view reinterprets the bits of the numbers")
    shape = call.outs[0].shape

    def again(g):
        old, made, start = g.shape[1:], list(shape), lambda sizes, a: math.prod(sizes[:a])
        known = {(start(old, a), n): a for a, n in enumerate(old) if g.stride(a + 1) == 0 and n > 1}
        for a, n in enumerate(shape):
            if (axis := known.get((start(shape, a), n))) is not None:
                g, made[a] = g.narrow(axis + 1, 0, 1), 1
        return g.reshape(len(g), *made).expand(len(g), *shape)

    return call.shift(call.args[0]).map(again)


@rule("as_strided")
def strided(run, call):
    """View the memory that holds the response as the operation views the tensor's memory."""
    return run.through(call.args[:1], call.outs[:1])


@rule("cat stack")
def joined(run, call):
    """Join the responses; an axis along which all of them are constant keeps stride 0."""
    parts, axis = call.args[0], (call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", 0))
    axis %= call.outs[0].dim()
    join = torch.cat if call.name == "cat" else torch.stack
    parts = [p for p in parts if call.name == "stack" or p.shape != (0,)]
    made = {}
    for group in {g for p in parts for g in call.shift(p).blocks}:
        blocks = [call.shift(p).blocks.get(group) for p in parts]
        values = [b.values if b else torch.zeros((), dtype=torch.float64).expand(group.size, *p.shape)
                  for b, p in zip(blocks, parts)]  # fmt: skip
        for a in range(1, values[0].dim()):
            if (call.name == "stack" or a != axis + 1) and all(v.stride(a) == 0 for v in values):
                values = [v.narrow(a, 0, 1) for v in values]
        whole = join(values, axis + 1).expand(group.size, *call.outs[0].shape)
        made[group] = Block(whole, max(b.peak for b in blocks if b))
    return Shift(made)


@rule(
    "scatter scatter_add index_put index_add index_copy select_scatter slice_scatter masked_scatter "
    "scatter_reduce index_fill"
)
def scattered(run, call):
    """Apply the operation to the responses, as it is linear in its source and its target."""
    places = [p for p, a in enumerate(call.args) if any(a is t for t in call.moving)]
    kind = call.kwargs.get("reduce") or (call.args[4] if call.name == "scatter_reduce" else "sum")
    if len(places) < len(call.moving) or kind not in ("sum", "add"):
        return sees(run, call)
    real = lambda a: isinstance(a, torch.Tensor) and a.is_floating_point()
    names = [argument.name for argument in call.op._schema.arguments]
    still = {p: torch.zeros_like(a) if real(a) else 0 for p, a in enumerate(call.args)
             if real(a) or names[p] == "value" and not isinstance(a, torch.Tensor)}  # fmt: skip
    made = Shift()
    for place in places:

        def again(g, place=place):
            # written in place, so not expanded; otherwise zero, but vmap batches it like g
            target = still[0] + 0 * g.sum() if place else g.clone()
            return call.rerun(still | {place: g, 0: target})

        made += call.shift(call.args[place]).map(each(again))
    return made
