"""Operations that depend on a shift: activations, comparisons, and maxima under unequal shifts."""

from __future__ import annotations

import torch

from ..moves import Shift
from .common import SWALLOWED, fitted, require_constant, rule, spread, times

#: How a report names the argument on which some operations depend.
SAID = {
    "pow": "a power", "linalg_vector_norm": "a length", "norm": "a length",
    "rsqrt": "a reciprocal root", "_to_copy": "a conversion to another dtype", "prelu": "a PReLU",
    "_prelu_kernel": "a PReLU", "div": "a denominator",
}  # fmt: skip
#: Piecewise linear operations: for these it matters on which side of a corner a number lies.
CORNERS = set(
    "relu leaky_relu threshold clamp clamp_min clamp_max hardtanh hardswish hardsigmoid abs".split()
)


def depend(run, call, tensors, kind="seen"):
    """Require that these arguments do not move."""
    said = SAID.get(call.name, call.name)
    if call.name == "pow" and isinstance(call.args[1], int | float) and call.args[1] == 2:
        said = "a square (as in RMSNorm)"
    for tensor in tensors:
        if shift := call.shift(tensor):
            run.see(shift, call, f"{said} depends on it", kind=kind)


@rule(
    "relu leaky_relu elu celu selu gelu silu mish hardtanh hardswish hardsigmoid sigmoid tanh log_sigmoid_forward "
    "log_sigmoid softplus threshold clamp clamp_min clamp_max prelu _prelu_kernel rrelu_with_noise abs square sqrt "
    "rsqrt reciprocal log log1p log2 log10 expm1 sin cos tan asin acos atan atan2 sinh cosh erf erfc "
    "linalg_vector_norm norm renorm prod cumprod frac fmod remainder sign sgn ceil floor round trunc "
    "floor_divide bitwise_not logical_not polar _pdist_forward signbit sinc "
    "hardshrink softshrink glu addcmul addcdiv _fused_rms_norm searchsorted bucketize multinomial "
    "_weight_norm_interface linalg_inv _linalg_det linalg_lu_factor linalg_solve erfinv digamma cummax cummin any all "
    "nonzero count_nonzero histc fake_quantize_per_tensor_affine_cachemask fake_quantize_per_channel_affine_cachemask"
)
def sees(run, call):
    """Require a zero shift: at a generic point, any other shift changes the result."""
    if call.name.startswith("clamp") and _far(call):
        return call.shift(call.args[0])
    kind = "corner" if call.name in CORNERS and _one_sided(call) else "seen"
    depend(run, call, call.moving, kind)
    return Shift()


def _far(call):
    """Whether the limits of a clamp are so far away that no number comes near them."""
    limits = [a for a in (*call.args[1:], *call.kwargs.values()) if a is not None]
    x = call.args[0]
    return all(not isinstance(a, torch.Tensor) and (x - a).abs().min() >= SWALLOWED for a in limits)


def _one_sided(call):
    """Whether a function with corners acts like the identity, or is constant, on its arguments."""
    out = call.outs[0]
    return bool((out == call.args[0]).all() or (out == out.flatten()[0]).all())


@rule("amax amin max min logsumexp topk sort median kthvalue argmax argmin argsort")
def equivariant(run, call):
    """Pass on a shift that is constant along the axis: it keeps the order and shifts the result."""
    x = call.args[0]
    if len(call.args) > 1 and isinstance(call.args[1], torch.Tensor):
        return larger(run, call)
    place = 2 if call.name == "topk" else 1
    last = -1 if call.name in ("topk", "sort", "argsort") else None
    axis = call.args[place] if len(call.args) > place else call.kwargs.get("dim", last)
    every = axis is None or axis == []
    axes = list(range(x.dim())) if every else [axis] if isinstance(axis, int) else axis
    visible = x > -SWALLOWED
    visible = None if visible.all() else visible
    words = f"{call.name} depends on how it differs along the axis"
    rest = require_constant(run, call, axes, words, visible=visible)
    if not call.outs[0].is_floating_point():
        run.note("erased", rest, call, f"{call.name} does not depend on it")
        return Shift()
    shape = call.outs[0].shape
    return rest.map(lambda g: fitted(g, shape, axes, x.dim()))


@rule("max_pool1d max_pool2d_with_indices max_pool3d_with_indices adaptive_max_pool2d")
def pooled(run, call):
    """Pass on a shift that is the same at every place: it is added to every maximum."""
    axes = range(2 if call.args[0].dim() > 2 else 1, call.args[0].dim())
    rest = require_constant(
        run, call, axes, "a maximum depends on how it differs from place to place"
    )
    return rest.map(lambda g: g.expand(len(g), *call.outs[0].shape))


def _two(call):
    """The shifts of the first two arguments, spread to the result's shape."""
    return [spread(call.shift(a), call.outs[0].shape) for a in call.args[:2]]


@rule("maximum minimum fmax fmin")
def larger(run, call):
    """Pass on a shift that both arguments share, as the larger number then stays larger."""
    one, other = call.args[:2]
    shape, (a, b) = call.outs[0].shape, _two(call)
    first = one >= other if call.name in ("fmax", "max", "maximum") else one <= other
    lost = (one <= -SWALLOWED) & (other <= -SWALLOWED)
    near = ~((one - other).abs() >= SWALLOWED) & ~lost
    kind = "corner" if near.any() and len(first[near].unique()) == 1 else "seen"
    run.see(times(a + -b, near, shape), call, "a maximum depends on it", kind=kind)
    return run.moves.now(a) if near.all() else times(a, first, shape) + times(b, ~first, shape)


@rule("gt lt ge le eq ne __and__ __or__ logical_and logical_or")
def compared(run, call):
    """Require that both arguments move alike."""
    a, b = _two(call)
    constant = call.outs[0].dtype == torch.bool and len(call.outs[0].unique()) == 1
    kind = "corner" if constant else "seen"
    run.see(a + -b, call, "a comparison depends on it", kind=kind)
    return Shift()


@rule("_cdist_forward _euclidean_dist")
def distance(run, call):
    """Require that all rows of both arguments move alike, so that distances stay the same."""
    one, other = (call.shift(t) for t in call.args[:2])
    shape = *call.outs[0].shape, call.args[0].shape[-1]
    a = spread(one.map(lambda g: g.unsqueeze(-2)), shape)
    b = spread(other.map(lambda g: g.unsqueeze(-3)), shape)
    run.see(a + -b, call, "a distance depends on it")
    return Shift()


@rule("_local_scalar_dense item equal is_nonzero allclose")
def read_by_python(run, call):
    """Python gets a number and may do anything with it."""
    return run.unknown(call, "the Python code reads a number that depends on it")
