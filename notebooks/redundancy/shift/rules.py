"""How each operation passes a shift on, erases a pattern of it, or sees it: one rule, one theorem.

A rule gets the run and the call, asks the run for conditions (`see`), notes what is erased (`erase`),
and returns the shift of each result.  Passing on is linear in what moves; whatever would not be
is a condition.  `RULES` names the operations of ATen.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F

from .moves import NOISE, Block, Shift, narrow

RULES = {}
#: Operations that read of a tensor nothing but its shape, dtype or device.
SHAPES_ONLY = set(
    "zeros_like ones_like full_like empty_like rand_like randn_like randint_like zero "
    "isnan isinf isfinite".split()
)
#: Beside a number of this size one that is smaller than one is lost in float64: a mask of finfo.min
#: is as good as -inf, and a limit so far away is never reached.
SWALLOWED = 2.0**53


def rule(names):
    """Make a function the rule of some operations."""

    def made(function):
        RULES.update(dict.fromkeys(names.split(), function))
        return function

    return made


def each(function):
    """A function of one response as a function of all coordinates at once."""
    if torch._C._functorch.peek_interpreter_stack() is None:
        return torch.func.vmap(function)

    def looped(values):  # the model itself is inside a vmap
        made = [function(v) for v in values]
        if isinstance(made[0], list | tuple):
            return [torch.stack(parts) for parts in zip(*made, strict=True)]
        return torch.stack(made)

    return looped


# --- passing on: views, sums, linear maps ---------------------------------------------------------


@rule("alias detach clone contiguous positive lift_fresh _to_copy")
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
    "repeat rot90 movedim swapaxes trace diag_embed"
)
def linear(run, call):
    """The operation of the response itself: linear in its first argument, and bounded by one."""
    shift = call.shift(call.args[0])
    if not shift:
        return _control(run, call)
    again = each(lambda g: call.rerun(0, g))
    made = {g: (again(b.values), b.peak) for g, b in shift.blocks.items()}
    if not isinstance(next(iter(made.values()))[0], list | tuple):
        return Shift({g: Block(v, peak) for g, (v, peak) in made.items()})
    return [Shift({g: Block(v[i], peak) for g, (v, peak) in made.items()}) for i in range(len(call.outs))]


def _control(run, call):
    """What moves says which numbers are taken: a mask or a place, which moves by jumps."""
    return sees(run, call)


@rule("fill normal uniform bernoulli exponential random log_normal geometric cauchy")
def overwritten(run, call):
    """Other numbers in the place of a tensor, unless they are drawn around one that moves."""
    in_place = call.op.overloadpacket.__name__.endswith("_")
    if in_place and all(t is call.args[0] for t in call.moving):
        return Shift()
    if call.name == "fill":
        return _spread(call.shift(call.args[1]), call.outs[0].shape)
    return run.unknown(call, f"{call.name} takes numbers that move")


@rule("view _unsafe_view reshape _reshape_alias flatten unflatten")
def reshaped(run, call):
    if call.outs[0].dtype != call.args[0].dtype:
        return run.unknown(call, "a view reads the bits of a number")
    shape = call.outs[0].shape
    return call.shift(call.args[0]).map(lambda g: g.reshape(len(g), *shape))


@rule("constant_pad_nd")
def padded(run, call):
    x, sides = call.args[:2]
    return call.shift(x).map(each(lambda g: call.op(g, sides, 0)))


@rule("as_strided")
def strided(run, call):
    """A view of the memory that lies behind a tensor."""
    x, shape, stride = call.args[:3]
    offset = call.args[3] if len(call.args) > 3 and call.args[3] is not None else x.storage_offset()

    def again(g):
        memory = torch.zeros(len(g), x.untyped_storage().nbytes() // x.element_size(), dtype=g.dtype)
        memory.as_strided(g.shape, (memory.stride(0), *x.stride()), x.storage_offset()).copy_(g)
        return memory.as_strided((len(g), *shape), (memory.stride(0), *stride), offset)

    return call.shift(x).map(again)


@rule("expand")
def expanded(run, call):
    return _spread(call.shift(call.args[0]), call.outs[0].shape)


def _spread(shift, shape):
    """The shift of a tensor that is broadcast to a shape."""
    return shift.map(lambda g: _aligned(g, len(shape)).expand(len(g), *shape))


def _aligned(values, axes):
    """A response with ones before its axes, so that it has so many."""
    values = narrow(values)
    return values.reshape(len(values), *[1] * (axes + 1 - values.dim()), *values.shape[1:])


@rule("embedding")
def gathered(run, call):
    weight, places = call.args[:2]
    if call.shift(places):
        return sees(run, call)
    return call.shift(weight).map(lambda g: g[:, places])


@rule("sum cumsum")
def summed(run, call):
    shift = linear(run, call)
    many = call.args[0].numel() / max(1, call.outs[0].numel()) if call.name == "sum" else 1
    return shift.map(lambda g: g, max(1.0, many))


@rule("cat stack")
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


@rule("add sub rsub __and__")
def added(run, call):
    one, other, *_ = call.args
    by = call.kwargs.get("alpha", call.args[2] if len(call.args) > 2 else 1)
    factors = {"add": (1, by), "sub": (1, -by), "rsub": (-by, 1)}[call.name]
    shape, made = call.outs[0].shape, Shift()
    for part, factor in zip((one, other), factors):
        if isinstance(part, torch.Tensor):
            made += _times(call.shift(part), factor, shape)
    return made


@rule("neg")
def negative(run, call):
    return _spread(call.shift(call.args[0]).map(lambda g: -narrow(g)), call.outs[0].shape)


@rule("copy lift")
def copied(run, call):
    source = call.args[1] if len(call.args) > 1 else call.args[0]
    return _spread(call.shift(source), call.outs[0].shape)


@rule("mul")
def multiplied(run, call):
    one, other = call.args[:2]
    made, shape = Shift(), call.outs[0].shape
    for moving, fixed in ((one, other), (other, one)):
        if isinstance(moving, torch.Tensor):
            made += _times(call.shift(moving), fixed, shape)
            _note_turns(run, call, call.shift(moving), fixed)
    if isinstance(other, torch.Tensor) and call.shift(one) and call.shift(other):
        made += _spread(run.both(call.shift(one), call.shift(other), torch.mul), shape)
    return made


def _note_turns(run, call, shift, factor):
    """Note where a factor, other along an axis, makes a shift differ that was the same along it."""
    if not isinstance(factor, torch.Tensor) or not shift:
        return
    axes = [a for a in range(-1, -factor.dim() - 1, -1) if factor.shape[a] > 1]
    factor = factor.double() if factor.dtype == torch.bool else factor
    for group, block in shift.blocks.items():
        same = [a for a in axes if -a < block.values.dim() and block.values.stride(a) == 0]
        if any(not _same(factor, a) for a in same):
            words = "a factor that differs from place to place makes it differ"
            theorem = None
            if factor.is_complex() or factor in run.angles:
                words, theorem = "rotary positions turn it", "5.4"
            run.note("turned", Shift({group: block}), call, words, theorem)


def _times(shift, factor, shape):
    if not isinstance(factor, torch.Tensor):
        return _spread(shift.map(lambda g: narrow(g) * factor, abs(factor)), shape)
    factor = factor.double() if not factor.is_complex() else factor
    thin = narrow(factor.expand(shape)[None])
    gain = factor.abs().max().item() if factor.numel() else 1.0
    made = shift.map(lambda g: _aligned(g, len(shape)) * thin, gain)
    return _spread(made, shape)


@rule("lerp")
def interpolated(run, call):
    one, other, weight = call.args
    shape = call.outs[0].shape
    if isinstance(weight, torch.Tensor) and call.shift(weight):
        return sees(run, call)
    return _times(call.shift(one), 1 - weight, shape) + _times(call.shift(other), weight, shape)


@rule("div")
def divided(run, call):
    over, under = call.args[:2]
    if call.kwargs.get("rounding_mode"):
        return sees(run, call)
    shape = call.outs[0].shape
    if isinstance(under, torch.Tensor):
        if call.shift(under):
            run.see(call.shift(under), call, "a division depends on it")
        if call.shift(over):
            return _times(call.shift(over), under.reciprocal(), shape)
        return Shift()
    return _times(call.shift(over), 1 / under, shape)


@rule("mm bmm addmm baddbmm mv dot addmv addbmm")
def matrix_product(run, call):
    added_to, (one, other), beta, alpha = _factors(call)
    shape = call.outs[0].shape
    a, b = call.shift(one), call.shift(other)
    left = one if one.dim() > 1 else one[None]
    right = other if other.dim() > 1 else other[:, None]
    flat = lambda g: g.reshape(len(g), *shape)
    made = Shift()
    if b and left.sum(-1).sub(1).abs().max() <= NOISE * left.shape[-1] and left.dim() == other.dim():
        run.note("passed", b, call, "weights that sum to one pass it on", "4.2")
    if a:
        gain = right.abs().sum(-2).max().item() * abs(alpha) if right.numel() else 1
        full = a if one.dim() > 1 else a.map(lambda g: g[:, None])
        rows = (len(left), *right.shape[-1:]) if left.dim() == 2 else None
        made += full.map(lambda g: _from_left(g, right, alpha), gain).map(
            lambda g: flat(g.expand(len(g), *(rows or shape))))
    if b:
        gain = left.abs().sum(-1).max().item() * abs(alpha) if left.numel() else 1
        full = b if other.dim() > 1 else b.map(lambda g: g[:, :, None])
        rows = (len(left), *right.shape[-1:]) if left.dim() == 2 else None
        made += full.map(lambda g: _from_right(left, g, alpha), gain).map(
            lambda g: flat(g.expand(len(g), *(rows or shape))))
    if a and b:
        made += _spread(run.both(a, b, torch.matmul), shape)
    if added_to is not None and call.shift(added_to):
        made += _times(call.shift(added_to), beta, shape)
    return made


def _factors(call):
    """(what is added, the two factors, beta, alpha) of a matrix product."""
    if call.name.startswith(("addmm", "baddbmm", "addmv", "addbmm")):
        beta, alpha = call.kwargs.get("beta", 1), call.kwargs.get("alpha", 1)
        return call.args[0], call.args[1:3], beta, alpha
    return None, call.args[:2], 1, 1


def _from_left(g, right, alpha):
    """g @ right, one row where all rows of the response are the same."""
    if g.stride(-2) == 0 and g.shape[-2] > 1:
        g = g[..., :1, :]
    if right.dim() == 3 and g.stride(1) == 0 and _same(right, 0):
        g, right = g[:, :1], right[:1]
    return alpha * (g @ right)


def _from_right(left, g, alpha):
    """left @ g; where all rows of g are the same, the sums of the rows of ``left`` times one of them."""
    if g.stride(-1) == 0 and g.shape[-1] > 1:
        g = g[..., :1]
    if g.stride(-2) == 0 and g.shape[-2] > 1:
        return alpha * (_thin(left.sum(-1, keepdim=True)) * g[..., :1, :])
    return alpha * (left @ g)


def _thin(t):
    """A tensor with one entry along each axis along which it is constant, up to rounding."""
    for axis in range(t.dim()):
        if _same(t, axis):
            t = t.narrow(axis, 0, 1)
    return t


def _same(t, axis):
    if t.shape[axis] < 2:
        return False
    return bool((t - t.narrow(axis, 0, 1)).abs().max() <= NOISE * t.abs().max())


@rule("convolution _convolution mkldnn_convolution convolution_overrideable")
def convolution(run, call):
    x, weight, bias = call.args[:3]
    shape, rest, made = call.outs[0].shape, call.args[3:], Shift()
    if call.shift(x):
        gain = weight.abs().flatten(1).sum(1).max().item()
        made += call.shift(x).map(lambda g: _convolved(call, g, weight, rest, shape), gain)
    if call.shift(weight):
        again = each(lambda g: call.op(x, g, None, *rest))
        made += call.shift(weight).map(again, x.abs().max().item() * weight[0].numel())
        if call.shift(x):
            made += run.both(call.shift(x), call.shift(weight), lambda a, b: call.op(a, b, None, *rest))
    if bias is not None and call.shift(bias):
        ones = [1] * (len(shape) - 2)
        made += call.shift(bias).map(lambda g: g.reshape(len(g), 1, -1, *ones).expand(len(g), *shape))
    return made


def _convolved(call, g, weight, rest, shape):
    if g.stride(1) == 0:
        g = g[:, :1]
    made = call.op(g.flatten(0, 1), weight, None, *rest)
    return made.unflatten(0, g.shape[:2]).expand(len(g), *shape)


@rule("masked_fill")
def masked(run, call):
    """Where -inf is put in, nothing that follows can tell what moves there."""
    x, mask, value = call.args
    if isinstance(value, torch.Tensor) and call.shift(value):
        return where(run, call, mask, value, x)
    value = value.item() if isinstance(value, torch.Tensor) else value
    shift, shape = call.shift(x), call.outs[0].shape
    if value == -math.inf:
        return _spread(shift, shape)
    return _times(shift, (~mask).double(), shape)


@rule("where")
def where(run, call, condition=None, yes=None, no=None):
    condition, yes, no = (condition, yes, no) if condition is not None else call.args
    shape, made = call.outs[0].shape, Shift()
    if call.shift(condition):
        run.see(call.shift(condition), call, "a choice depends on it")
    for part, chosen in ((yes, condition), (no, ~condition)):
        if isinstance(part, torch.Tensor) and call.shift(part):
            other = no if part is yes else yes
            hidden = torch.as_tensor(other).isneginf().all()
            made += _spread(call.shift(part), shape) if hidden else _times(
                call.shift(part), chosen.double(), shape)
    return made


@rule("nan_to_num")
def finite(run, call):
    return _times(call.shift(call.args[0]), call.args[0].isfinite().double(), call.outs[0].shape)


@rule("native_dropout")
def dropped(run, call):
    x, chance = call.args[:2]
    return _times(call.shift(x), call.outs[1].double() / (1 - chance), call.outs[0].shape)


@rule("scatter scatter_add index_put index_add index_copy select_scatter slice_scatter masked_scatter scatter_reduce index_fill")
def scattered(run, call):
    """Linear in what is written and in what it is written to."""
    tensors = [a for a in call.moving]
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
            nothing = 0 * g.sum()  # what is written to has as many coordinates as what is written
            return call.op(*(g if i == place else z + nothing if i == 0 else z
                             for i, z in enumerate(zero)), **call.kwargs)  # fmt: skip

        functional = each(again)
        made += call.shift(call.args[place]).map(functional)
    return made


# --- erasing: softmax and the norms ------------------------------------------------------------------


def _mean(g, axes, visible=None):
    """The mean of a response over some axes of the tensor (all, or the visible numbers)."""
    axes = [a + 1 if a >= 0 else a for a in axes]
    if visible is None:
        return g.mean(axes, keepdim=True)
    visible = visible[None]
    return (g * visible).sum(axes, keepdim=True) / visible.sum(axes, keepdim=True).clamp(min=1)


def _alike(run, call, shift, axes, visible=None, words="", theorem=None):
    """See what of a shift differs along some axes; returns the rest: its mean along them."""
    axes = [a % call.args[0].dim() for a in axes]
    differs, alike = {}, {}
    for group, block in shift.blocks.items():
        if all(block.values.stride(a + 1) == 0 or block.values.shape[a + 1] == 1 for a in axes):
            thin = block.values
            for a in axes:
                thin = thin.narrow(a + 1, 0, 1)
            alike[group] = Block(thin, block.peak)
            continue
        thin = block.values  # keep the axes in question whole, one entry of other constant axes
        seen = visible
        for a in range(1, thin.dim()):
            if thin.stride(a) == 0 and a - 1 not in axes and visible is None:
                thin = thin.narrow(a, 0, 1)
        mean = _mean(thin, axes, seen)
        rest = thin - mean if seen is None else (thin - mean) * seen
        shape = [1 if a in axes else n for a, n in enumerate(block.values.shape[1:])]
        differs[group] = Block(rest.expand(block.values.shape), block.peak)
        alike[group] = Block(mean.expand(len(mean), *shape), block.peak)
    run.see(Shift(differs), call, words, theorem)
    return run.moves.now(Shift(alike))


@rule("_softmax _safe_softmax softmax _log_softmax log_softmax")
def softmax(run, call):
    x, axis = call.args[:2]
    rest = _alike(run, call, call.shift(x), [axis], _visible(call), "softmax cancels only what is the same along its axis", "3.1")
    run.note("erased", rest, call, "softmax cancels it", "3.1")
    return Shift()


def _visible(call):
    """Which scores softmax can tell from others; None for all.

    Not those of -inf, nor those that stay where they are so far below that their weight is zero.
    """
    x, weights = call.args[0], call.outs[0]
    hidden = x <= -SWALLOWED
    if "log" not in call.name and (weights == 0).any():
        still = torch.ones_like(hidden)
        for block in call.shift(x).blocks.values():
            still &= (block.values == 0).all(0)
        hidden |= (weights == 0) & still
    return ~hidden if hidden.any() else None


@rule("amax amin max min logsumexp topk sort median kthvalue argmax argmin argsort")
def equivariant(run, call):
    """The same number added along the axis is added to the result, and changes no order."""
    x = call.args[0]
    if len(call.args) > 1 and isinstance(call.args[1], torch.Tensor):
        return larger(run, call)
    if call.name == "topk":
        axis = call.args[2] if len(call.args) > 2 else call.kwargs.get("dim", -1)
    elif call.name in ("sort", "argsort"):
        axis = call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", -1)
    else:
        axis = call.args[1] if len(call.args) > 1 else call.kwargs.get("dim", None)
    axes = list(range(x.dim())) if axis is None or axis == [] else [axis] if isinstance(axis, int) else axis
    visible = x > -SWALLOWED
    visible = None if visible.all() else visible
    rest = _alike(run, call, call.shift(x), axes, visible, f"{call.name} depends on what differs along its axis")
    if not call.outs[0].is_floating_point():
        run.note("erased", rest, call, f"{call.name} does not depend on it")
        return Shift()
    shape = call.outs[0].shape
    return rest.map(lambda g: _fitted(g, shape, axes, x.dim()))


def _fitted(g, shape, axes, dim):
    if g.dim() - 1 != len(shape):
        for a in sorted((a % dim for a in axes), reverse=True):
            g = g.squeeze(a + 1)
    return g.expand(len(g), *shape)


@rule("max_pool1d max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d")
def pooled(run, call):
    """What is the same at every place is added to every maximum."""
    axes = range(2 if call.args[0].dim() > 2 else 1, call.args[0].dim())
    rest = _alike(run, call, call.shift(call.args[0]), axes, None, "a maximum depends on what differs along its axes")
    return rest.map(lambda g: g.expand(len(g), *call.outs[0].shape))


@rule("maximum minimum fmax fmin")
def larger(run, call):
    """Of two numbers that move alike the same one stays the larger."""
    one, other = call.args[:2]
    shape = call.outs[0].shape
    a, b = (_spread(call.shift(t), shape) for t in (one, other))
    first = one >= other if call.name.endswith("max") or call.name == "maximum" else one <= other
    lost = (one <= -SWALLOWED) & (other <= -SWALLOWED)
    near = ~((one - other).abs() >= SWALLOWED) & ~lost
    kind = "corner" if near.any() and len(first[near].unique()) == 1 else "seen"
    run.see(_times(a + -b, near.double(), shape), call, "a maximum depends on it", kind=kind)
    if near.all():
        return run.moves.now(a)
    return _times(a, first.double(), shape) + _times(b, (~first).double(), shape)


@rule("gt lt ge le eq ne __or__ logical_and logical_or")
def compared(run, call):
    one, other = call.args[:2]
    shape = call.outs[0].shape
    a, b = (_spread(call.shift(t), shape) if isinstance(t, torch.Tensor) else Shift()
            for t in (one, other))  # fmt: skip
    run.see(a + -b, call, "a comparison depends on it")
    return Shift()


@rule("var std var_mean std_mean")
def spread(run, call):
    x = call.args[0]
    axes = next((a for a in call.args[1:] if isinstance(a, list | tuple)), None) or range(x.dim())
    rest = _alike(run, call, call.shift(x), [*axes], None, "a variance cancels only the mean", "7.1")
    run.note("erased", rest, call, "a variance cancels it", "7.1")
    if not call.name.endswith("_mean"):
        return Shift()
    return [Shift(), rest.map(lambda g: _fitted(g, call.outs[1].shape, axes, x.dim()))]


@rule("native_layer_norm layer_norm")
def layer_norm(run, call):
    x, shape, weight, bias = call.args[:4]
    axes = range(x.dim() - len(shape), x.dim())
    rest = _alike(run, call, call.shift(x), axes, None, "LayerNorm cancels only its mean", "7.1")
    run.note("erased", rest, call, "LayerNorm cancels it", "7.1")
    made = Shift()
    if weight is not None and call.shift(weight):
        made += _times(call.shift(weight), F.layer_norm(x, shape), call.outs[0].shape)
    if bias is not None:
        made += _spread(call.shift(bias), call.outs[0].shape)
    return [made, _like(rest, call.outs[1:])]


def _like(rest, outs):
    """The shift of the mean that a norm returns besides."""
    if not outs:
        return Shift()
    return rest.map(lambda g: g.reshape(len(g), *outs[0].shape) if g[0].numel() == outs[0].numel()
                    else _aligned(g, g.dim() - 1).flatten(1)[:, :1].expand(len(g), outs[0].numel())
                    .reshape(len(g), *outs[0].shape))  # fmt: skip


@rule("native_group_norm group_norm")
def group_norm(run, call):
    x, weight, bias, many, channels, _, groups, _ = call.args
    apart = call.shift(x).map(lambda g: g.reshape(len(g), many, groups, -1))
    inner = type(call)(call.name, call.op, (x.reshape(many, groups, -1),), {}, call.outs, {})
    rest = _alike(run, inner, apart, [2], None, "GroupNorm cancels only the mean of each group", "7.4")
    run.note("erased", rest, call, "GroupNorm cancels it", "7.4")
    return [_channels(call, weight, bias, lambda: F.group_norm(x, groups)), _like(rest, call.outs[1:])]


def _channels(call, weight, bias, normed):
    """The shift of a norm's result by its own gain and shift, one for each channel."""
    made, shape = Shift(), call.outs[0].shape
    wide = lambda s: s.map(lambda g: g.reshape(len(g), 1, -1, *[1] * (len(shape) - 2)))
    if weight is not None and call.shift(weight):
        made += _times(wide(call.shift(weight)), normed(), shape)
    if bias is not None:
        made += _spread(wide(call.shift(bias)), shape)
    return made


@rule("native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
      "cudnn_batch_norm miopen_batch_norm _native_batch_norm_legit_no_training "
      "_batch_norm_with_update _batch_norm_no_update batch_norm")  # fmt: skip
def batch_norm(run, call):
    named = dict(zip([a.name for a in call.op._schema.arguments], call.args)) | call.kwargs
    x, weight, bias = named["input"], named.get("weight"), named.get("bias")
    training = named.get("training", "with_update" in call.name)
    shape, channels = x.shape, (1, -1, *[1] * (x.dim() - 2))
    if training:
        axes = [a for a in range(x.dim()) if a != 1]
        norm, theorem = ("InstanceNorm", "7.5") if mean_of_each(named) else ("BatchNorm", "6.1")
        words = f"{norm} cancels only what is the same wherever it takes its mean"
        rest = _alike(run, call, call.shift(x), axes, None, words, theorem)
        run.note("erased", rest, call, f"{norm} cancels it", theorem)
        running, share = named.get("running_mean"), named.get("momentum")
        if running is not None and (rest or call.shift(running)):
            mean = _like(rest, [running]).map(lambda g: share * g)
            run.write(running, mean + call.shift(running).map(lambda g: (1 - share) * g))
        normed = lambda: F.batch_norm(x, None, None, training=True)
        return [_channels(call, weight, bias, normed), _like(rest, call.outs[1:])]
    mean, variance = named["running_mean"], named["running_var"]
    scale = (variance + named["eps"]).rsqrt() * (1 if weight is None else weight)
    moved = call.shift(x) + _spread(
        -call.shift(mean).map(lambda g: g.reshape(len(g), *channels)), shape)
    normed = lambda: F.batch_norm(x, mean, variance, eps=named["eps"])
    return _times(moved, scale.view(channels), shape) + _channels(call, weight, bias, normed)


def mean_of_each(named):
    """Whether a batch norm takes a mean for each example: PyTorch's InstanceNorm makes one batch of it."""
    return named.get("running_mean") is None and named["input"].shape[0] == 1


# --- seeing ---------------------------------------------------------------------------------------


SEEN = (
    "relu leaky_relu elu celu selu gelu silu mish hardtanh hardswish hardsigmoid sigmoid tanh log_sigmoid_forward "
    "log_sigmoid softplus threshold clamp clamp_min clamp_max prelu _prelu_kernel rrelu_with_noise abs pow square sqrt "
    "rsqrt reciprocal log log1p log2 log10 expm1 sin cos tan asin acos atan atan2 sinh cosh erf erfc "
    "linalg_vector_norm norm renorm prod cumprod floor ceil round trunc frac fmod remainder sign sgn "
    "floor_divide bitwise_not logical_not exp2 polar "
    " _cdist_forward _pdist_forward signbit sinc "
    "hardshrink softshrink glu addcmul addcdiv _fused_rms_norm searchsorted bucketize multinomial "
    "_weight_norm_interface linalg_inv _linalg_det linalg_lu_factor linalg_solve erfinv digamma cummax cummin any all "
    "nonzero count_nonzero histc fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask"
)
#: Of these a piece is linear: whether a number is on either side of a corner decides.
CORNERS = set("relu leaky_relu threshold clamp clamp_min clamp_max hardtanh hardswish hardsigmoid abs".split())


@rule(SEEN)
def sees(run, call):
    """No shift but zero leaves the result as it is, at a generic point."""
    if call.name.startswith("clamp") and _far(call):
        return call.shift(call.args[0])
    for tensor in call.moving:
        kind = "corner" if call.name in CORNERS and _one_sided(call) else "seen"
        run.see(call.shift(tensor), call, f"{call.name} depends on it", kind=kind)
    return Shift()


def _far(call):
    """Whether the limits of a clamp are so far away that no number comes near them."""
    limits = [a for a in (*call.args[1:], *call.kwargs.values()) if a is not None]
    x = call.args[0]
    return all(not isinstance(a, torch.Tensor) and (x - a).abs().min() >= SWALLOWED for a in limits)


def _one_sided(call):
    """Whether all numbers lie on one side of the corners of a function: it looks linear, or constant."""
    if not isinstance(call.args[0], torch.Tensor) or call.args[0].shape != call.outs[0].shape:
        return False
    slope = (call.outs[0] - call.args[0]).abs().max() == 0
    return bool(slope or (call.outs[0] == call.outs[0].flatten()[0]).all())


@rule("_local_scalar_dense item equal is_nonzero allclose")
def read_by_python(run, call):
    """Python reads a number and may do anything with it."""
    for tensor in call.moving:
        run.see(call.shift(tensor), call, "the program reads a number that moves", kind="unknown")
    return Shift()


@rule("exp")
def exponential(run, call):
    """A sum becomes a factor: exp(x + g t) = exp(x) exp(g t)."""
    return Shift(call.shift(call.args[0]).blocks, scaled=True)


SCALED = {}


def scaled(run, call):
    """The rules of tensors that are multiplied by exp(g t): softmax that is written out."""
    if call.name in ("mul", "div") and isinstance(call.args[1], torch.Tensor):
        shape = call.outs[0].shape
        parts = [call.shift(a) for a in call.args[:2]]
        if all(s.scaled or not s for s in parts):
            one, other = (_spread(s, shape) for s in parts)
            made = one + (other if call.name == "mul" else -other)
            run.note("erased", _lost(one, made), call, "softmax cancels it", "3.1")
            return Shift(run.moves.now(made).blocks, scaled=True)
    elif call.name in ("mul", "div", "masked_fill", "where", "copy", "view", "expand", "alias", "clone", "detach",
                       "transpose", "permute", "_unsafe_view", "unsqueeze", "squeeze", "t", "_to_copy", "slice", "select"):
        x = call.moving[0]
        fill = call.args[2] if call.name == "masked_fill" else 0
        others = [a for a in call.args if isinstance(a, torch.Tensor) and a is not x and a.is_floating_point()]
        if fill == 0 and (call.name != "where" or all(not o.any() for o in others)):
            if call.name in ("mul", "div", "masked_fill", "where"):
                return _spread(call.shift(x), call.outs[0].shape)
            return Shift(RULES[call.name](run, call).blocks, scaled=True)
    elif call.name == "sum":
        axes = call.args[1] if len(call.args) > 1 and call.args[1] is not None else range(call.args[0].dim())
        visible = call.args[0] != 0
        rest = _alike(run, call, call.shift(call.args[0]), [*axes], None if visible.all() else visible,
                      "softmax cancels only what is the same along its axis", "3.1")
        made = rest.map(lambda g: _fitted(g, call.outs[0].shape, axes, call.args[0].dim()))
        return Shift(made.blocks, scaled=True)
    elif call.name == "add" and all(call.shift(a).scaled for a in call.args[:2]):
        one, other = (_spread(call.shift(a), call.outs[0].shape) for a in call.args[:2])
        run.see(one + -other, call, "a sum of exponentials depends on it")
        return Shift(run.moves.now(one).blocks, scaled=True)
    elif call.name == "log":
        return Shift(call.shift(call.args[0]).blocks)
    elif call.name in ("mm", "bmm") and len(call.moving) == 1 and call.shift(call.args[0]):
        rest = _alike(run, call, call.shift(call.args[0]), [-1], None, "softmax cancels only what is the same along its axis", "3.1")
        return Shift(_spread(rest, call.outs[0].shape).blocks, scaled=True)
    for tensor in call.moving:
        run.see(call.shift(tensor), call, f"{call.name} depends on it")
    return Shift()


def _lost(before, after):
    return Shift({g: b for g, b in before.blocks.items() if g not in after.blocks or after.blocks[g].vanishes()})
