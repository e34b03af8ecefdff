"""Operations that pass a shift on, linearly: views, sums, masks."""

from __future__ import annotations

import math

import torch

from ..moves import Block, Shift, narrow
from .common import each, rule, spread, times
from .seeing import sees


@rule("alias detach clone contiguous positive lift_fresh _to_copy", "pass it on")
def unchanged(run, call):
    if not (call.outs[0].is_floating_point() or call.outs[0].is_complex()):
        return sees(run, call)
    return call.shift(call.args[0])


@rule(
    "permute transpose t select slice unsqueeze squeeze split unsafe_split split_with_sizes "
    "unsafe_split_with_sizes unbind chunk narrow diagonal unfold flip roll index_select gather index "
    "tril triu reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d "
    "take_along_dim mT adjoint as_strided_copy im2col col2im pixel_shuffle pixel_unshuffle channel_shuffle "
    "avg_pool1d avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d adaptive_avg_pool1d mean "
    "upsample_nearest1d upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_bicubic2d "
    "upsample_linear1d upsample_trilinear3d _upsample_bicubic2d_aa _upsample_bilinear2d_aa "
    "_fft_r2c _fft_c2c _fft_c2r view_as_real view_as_complex real imag "
    "repeat rot90 movedim swapaxes trace diag_embed",
    "pass it on",
)
def linear(run, call):
    """Apply the operation to the response, as it is linear in its first argument (gain <= 1)."""
    shift = call.shift(call.args[0])
    if not shift:  # what moves is a mask or an index, so the selection changes abruptly
        return sees(run, call)
    again = each(lambda g: call.rerun(0, g))
    made = {g: (again(b.values), b.peak) for g, b in shift.blocks.items()}
    if not isinstance(next(iter(made.values()))[0], list | tuple):
        return Shift({g: Block(v, peak) for g, (v, peak) in made.items()})
    return [
        Shift({g: Block(v[i], peak) for g, (v, peak) in made.items()})
        for i in range(len(call.outs))
    ]


@rule(
    "fill normal uniform bernoulli exponential random log_normal geometric cauchy",
    "overwrite it; unknown if they draw random numbers around it",
)
def overwritten(run, call):
    """The old numbers no longer matter, unless new ones are drawn around a number that moves."""
    in_place = call.op.overloadpacket.__name__.endswith("_")
    if in_place and all(t is call.args[0] for t in call.moving):
        return Shift()
    if call.name == "fill":
        return spread(call.shift(call.args[1]), call.outs[0].shape)
    return run.unknown(call, f"{call.name} uses numbers that change")


@rule("view _unsafe_view reshape _reshape_alias flatten unflatten", "pass it on")
def reshaped(run, call):
    if call.outs[0].dtype != call.args[0].dtype:
        return run.unknown(call, "a view reinterprets the bits of the numbers")
    shape = call.outs[0].shape
    return call.shift(call.args[0]).map(lambda g: _reshaped(g, shape))


def _reshaped(g, shape):
    """A response in another shape; a constant axis keeps stride 0 unless it is split or joined."""
    old, thin = g.shape[1:], g
    known = {
        (math.prod(old[:a]), n): a for a, n in enumerate(old) if g.stride(a + 1) == 0 and n > 1
    }
    made = list(shape)
    for a, n in enumerate(shape):
        axis = known.get((math.prod(shape[:a]), n))
        if axis is not None:
            thin, made[a] = thin.narrow(axis + 1, 0, 1), 1
    return thin.reshape(len(g), *made).expand(len(g), *shape)


@rule("constant_pad_nd", "pass it on")
def padded(run, call):
    x, sides = call.args[:2]
    return call.shift(x).map(each(lambda g: call.op(g, sides, 0)))


@rule("as_strided", "pass it on")
def strided(run, call):
    """Store the response with the tensor's strides, then view this memory as the operation does."""
    x, shape, stride = call.args[:3]
    offset = call.args[3] if len(call.args) > 3 and call.args[3] is not None else x.storage_offset()

    def again(g):
        size = x.untyped_storage().nbytes() // x.element_size()
        memory = torch.zeros(len(g), size, dtype=g.dtype)
        memory.as_strided(g.shape, (memory.stride(0), *x.stride()), x.storage_offset()).copy_(g)
        return memory.as_strided((len(g), *shape), (memory.stride(0), *stride), offset)

    return call.shift(x).map(again)


@rule("expand", "pass it on")
def expanded(run, call):
    return spread(call.shift(call.args[0]), call.outs[0].shape)


@rule("embedding", "pass on the row that is looked up")
def gathered(run, call):
    weight, places = call.args[:2]
    if call.shift(places):
        return sees(run, call)
    return call.shift(weight).map(lambda g: g[:, places])


@rule("sum cumsum", "pass it on")
def summed(run, call):
    shift = linear(run, call)
    many = call.args[0].numel() / max(1, call.outs[0].numel()) if call.name == "sum" else 1
    return shift.map(lambda g: g, max(1.0, many))


@rule("cat stack", "pass it on")
def joined(run, call):
    parts, axis = call.args[0], (call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", 0))
    axis %= call.outs[0].dim()
    join = torch.cat if call.name == "cat" else torch.stack
    parts = [p for p in parts if call.name == "stack" or p.shape != (0,)]
    groups = {g for p in parts for g in call.shift(p).blocks}
    made = {}
    for group in groups:
        blocks = [call.shift(p).blocks.get(group) for p in parts]
        shape = next(b for b in blocks if b).values.shape
        values = [b.values if b else torch.zeros((), dtype=torch.float64).expand(group.size, *p.shape)
                  for b, p in zip(blocks, parts)]  # fmt: skip
        flat = [a for a in range(1, len(shape)) if (call.name == "stack" or a != axis + 1)
                and all(v.stride(a) == 0 for v in values)]  # fmt: skip
        for a in flat:
            values = [v.narrow(a, 0, 1) for v in values]
        whole = join(values, axis + 1).expand(group.size, *call.outs[0].shape)
        made[group] = Block(whole, max(b.peak for b in blocks if b))
    return Shift(made)


@rule("add sub rsub", "add up what arrives")
def added(run, call):
    one, other, *_ = call.args
    by = call.kwargs.get("alpha", call.args[2] if len(call.args) > 2 else 1)
    factors = {"add": (1, by), "sub": (1, -by), "rsub": (-by, 1)}[call.name]
    shape, made = call.outs[0].shape, Shift()
    for part, factor in zip((one, other), factors):
        if isinstance(part, torch.Tensor):
            made += times(call.shift(part), factor, shape)
    return made


@rule("neg", "pass it on")
def negative(run, call):
    return spread(call.shift(call.args[0]).map(lambda g: -narrow(g)), call.outs[0].shape)


@rule("copy lift", "pass it on")
def copied(run, call):
    source = call.args[1] if len(call.args) > 1 else call.args[0]
    return spread(call.shift(source), call.outs[0].shape)


@rule("masked_fill", "pass it on where they replace no number, or replace it by -inf")
def masked(run, call):
    """Keep the shift where -inf is filled in: nothing later depends on it there."""
    x, mask, value = call.args
    if isinstance(value, torch.Tensor) and call.shift(value):
        return where(run, call, mask, value, x)
    value = value.item() if isinstance(value, torch.Tensor) else value
    shift, shape = call.shift(x), call.outs[0].shape
    if value == -math.inf:
        return spread(shift, shape)
    return times(shift, (~mask).double(), shape)


@rule("where", "pass it on where they select it")
def where(run, call, condition=None, yes=None, no=None):
    condition, yes, no = (condition, yes, no) if condition is not None else call.args
    shape, made = call.outs[0].shape, Shift()
    if call.shift(condition):
        run.see(call.shift(condition), call, "the condition of a torch.where depends on it")
    for part, chosen in ((yes, condition), (no, ~condition)):
        if isinstance(part, torch.Tensor) and call.shift(part):
            other = no if part is yes else yes
            hidden = torch.as_tensor(other).isneginf().all()
            made += times(call.shift(part), 1 if hidden else chosen.double(), shape)
    return made


@rule("nan_to_num", "pass it on")
def finite(run, call):
    return times(call.shift(call.args[0]), call.args[0].isfinite().double(), call.outs[0].shape)


@rule("native_dropout", "pass it on, but not equally to every token", "5.2")
def dropped(run, call):
    x, chance = call.args[:2]
    return times(call.shift(x), call.outs[1].double() / (1 - chance), call.outs[0].shape)


@rule(
    "scatter scatter_add index_put index_add index_copy select_scatter slice_scatter masked_scatter scatter_reduce index_fill",
    "pass it on",
)
def scattered(run, call):
    """Apply the operation to the responses, as it is linear in its source and its target."""
    tensors = call.moving
    places = [i for i, a in enumerate(call.args) if isinstance(a, torch.Tensor)
              and any(a is t for t in tensors)]  # fmt: skip
    kind = call.kwargs.get("reduce") or (call.args[4] if call.name == "scatter_reduce" else "sum")
    movable = all(call.args[p].is_floating_point() for p in places)
    if len(places) < len(tensors) or not movable or kind not in ("sum", "add"):
        return sees(run, call)
    names = [a.name for a in call.op._schema.arguments]
    zero = [torch.zeros_like(a) if isinstance(a, torch.Tensor) and a.is_floating_point() else
            0 if n == "value" and not isinstance(a, torch.Tensor) else a
            for n, a in zip(names, call.args)]  # fmt: skip
    made = Shift()
    for place in places:

        def again(g, place=place):
            nothing = 0 * g.sum()  # zero, but vmap batches it like g
            return call.op(*(g if i == place else z + nothing if i == 0 else z
                             for i, z in enumerate(zero)), **call.kwargs)  # fmt: skip

        functional = each(again)
        made += call.shift(call.args[place]).map(functional)
    return made
