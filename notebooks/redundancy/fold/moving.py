"""Put a BatchNorm into the map before it, and a bias into the weight of its map.

A BatchNorm in evaluation is a gain and a shift for each channel, so it can become part of the map
that computes the channels (6.5).

An output y of a LayerNorm with gain gamma and shift beta satisfies

    y_1 / gamma_1 + ... + y_d / gamma_d = beta_1 / gamma_1 + ... + beta_d / gamma_d = kappa,

so for a map that reads y, the weight W + b (1 / gamma)^T / kappa replaces W and b (Theorem 7.8).
Digits are lost: b is recovered as a sum of d terms, at most (d + |beta / gamma|_1) / |kappa| times
as large as b.  Training changes gamma and beta, so the two models are equal only at these values.

The operations of a run show which norm a map reads.  All operations are followed to make sure that
nothing else depends on the change.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

from .choosing import GONE, LONGEST, Outcome, Stays, split
from .reading import Steps, changes_nothing

#: The position of the weight among the arguments of a map.
WEIGHT = {"convolution": 1, "addmm": 2, "mm": 1}
#: A sum counts as zero if it is at most this share of the sum of its terms' absolute values.
ROUNDING = 1e-12


def is_plain(module, kind=nn.Module):
    """Whether a module is of PyTorch's own class (and, if given, of this kind) and has no hooks."""
    own = isinstance(module, kind) and type(module).__module__.startswith("torch.nn.modules.")
    return own and not (module._forward_hooks or module._forward_pre_hooks)


# --- norms --------------------------------------------------------------------------------------


def fuse_norms(bench):
    """Fuse every BatchNorm that can be fused, and record what happened to each."""
    runs = [Steps(bench.after, call) for call in bench.calls]
    for path, norm in list(bench.after.model.named_modules()):
        if isinstance(norm, nn.modules.batchnorm._BatchNorm):
            try:
                place, verdict = _fuse(bench, runs, path, norm), "moved"
                text = f"into {place}, with its gain and statistics [6.5]"
            except Stays as reason:
                text, verdict = str(reason), reason.verdict
            bench.rows.append(Outcome(verdict, path, "norm", text))


def _fuse(bench, runs, path, norm):
    """Fuse one norm and return the path of the map that absorbs it, or raise Stays."""
    if norm.training or norm.running_mean is None:
        raise Stays("it takes its statistics from the batch")
    if not is_plain(norm):
        raise Stays("its class is not PyTorch's own, or it has a hook")
    place = _map_before(runs, norm)
    module = bench.after.model.get_submodule(place)
    if not isinstance(module, nn.Linear | nn.modules.conv._ConvNd):
        raise Stays(f"{place} is neither a convolution nor a linear map of PyTorch")
    if getattr(module, "transposed", False) and getattr(module, "groups", 1) > 1:
        raise Stays(f"{place} is transposed and has groups")
    if new := module.bias is None:
        module.bias = nn.Parameter(torch.zeros_like(norm.running_mean), requires_grad=False)
        bench.after.renew()
    t = torch.randn(len(module.bias), generator=torch.Generator().manual_seed(0)).double()
    both = {f"{place}.bias": t, f"{path}.running_mean": t}
    if not changes_nothing(bench.after, bench.calls, both):
        module.bias = None if new else module.bias
        bench.after.renew()
        raise Stays(f"something else depends on what {place} returns")
    numbers = module.weight, module.bias, norm.running_mean, norm.running_var, norm.eps
    if isinstance(module, nn.Linear):
        fused = fuse_linear_bn_weights(*numbers, norm.weight, norm.bias)
    else:
        fused = fuse_conv_bn_weights(*numbers, norm.weight, norm.bias, module.transposed)
    module.weight.data, module.bias.data = (part.data for part in fused)
    bench.after.model.set_submodule(path, nn.Identity())
    bench.after.renew()
    return place


def _map_before(runs, norm):
    """The path of the map whose result a norm reads; raises Stays unless map and norm run once."""
    found: list = []
    for run in runs:
        maps = {id(s): run.named(s, WEIGHT[s.name]) for s in run.steps if s.name in WEIGHT}
        for step in run.steps:
            if "batch_norm" in step.name and step.args[3] is norm.running_mean:
                found.append(maps.get(id(run.source(step.args[0])[1])))
                if not found[-1] or [*maps.values()].count(found[-1]) != 1:
                    kind = "convolution or linear map that is used only once"
                    raise Stays(f"no {kind} comes directly before it")
    if len(found) != len(runs) or len({*found}) != 1:
        raise Stays("it does not run once at these inputs")
    return found[0].rpartition(".")[0]


# --- biases -------------------------------------------------------------------------------------


def absorb_into_weights(bench):
    """Move biases of linear maps that read a LayerNorm into their weights; record the outcomes."""
    parts, readings = {}, {}
    for call in bench.calls:
        parts = bench.after.uses(call).parts | parts
        readings = _readings(bench.after, call) | readings
    for bias, (weight, *read) in readings.items():
        pieces = split(bias, (bench.after.tensors[bias] != 0).flatten(), parts.get(bias, {}))
        counts = {piece.symbol: int(piece.index.sum()) for piece in pieces}
        try:
            price, by = _absorb(bench, bias, weight, *read), "into the weight beside it"
        except Stays as reason:
            if bias not in {row.place for row in bench.rows}:
                why = reason.verdict, bias
                bench.rows += [Outcome(*why, symbol, str(reason)) for symbol in counts]
            continue
        bench.rows = [row for row in bench.rows if row.verdict in GONE or row.place != bias]
        for symbol, many in counts.items():
            bench.rows.append(Outcome("moved", bias, symbol, f"into {weight}", many, by, price))


def _readings(subject, call):
    """{bias: (its weight, the matrix as used, the step that made the input, a name for it)}."""
    found, run = {}, Steps(subject, call)
    for step in (s for s in run.steps if s.name == "addmm"):
        bias, weight = run.named(step, 0), run.named(step, 2)
        if bias and weight and subject.tensors[bias].any():
            name, read = run.source(step.args[1])
            gain = run.named(read, 2) if read and "norm" in read.name else None
            name = gain.removesuffix(".weight") if gain else name
            name = name or (read.name if read else "an input")
            found.setdefault(bias, (weight, step.args[2], read, name))
    return found


def _absorb(bench, bias, weight, matrix, read, name):
    """Move a bias into the weight of its map, or raise Stays; return numbers for `price_of`."""
    b, W = (bench.after.tensors[n].detach() for n in (bias, weight))
    inverse, shift = _norm_of(read, name)
    terms = shift * inverse
    kappa, size = terms.sum().item(), len(terms) + terms.abs().sum().item()
    if abs(kappa) <= ROUNDING * size:
        raise Stays(f"kappa, the sum of beta / gamma in {name}, is zero")
    factor = size / abs(kappa)
    if factor * b.norm() > LONGEST:
        raise Stays(f"kappa, the sum of beta / gamma in {name}, is too small")
    change = torch.outer(b.flatten(), inverse) / kappa
    change = change.T if matrix.shape == W.shape and torch.equal(matrix, W) else change
    both = {weight: change, bias: -b}
    if change.shape != W.shape or not changes_nothing(bench.after, bench.calls, both):
        raise Stays(f"{weight} is also used elsewhere, or reads something other than {name}")
    bench.after.tensors[weight].data, bench.after.tensors[bias].data = W + change, b - b
    bench.longest = max(bench.longest, factor * b.norm().item())
    return (change.norm() / W.norm()).item(), 1 / abs(kappa), factor


def _norm_of(read, name):
    """(1 / gamma, beta) of the LayerNorm that a map reads; raises Stays if it has no such pair."""
    if read is None or read.name != "native_layer_norm":
        known = "only a LayerNorm's sum is known"
        raise Stays(f"its map reads what {name} returns: {known}", "kept")
    gain, shift = read.args[2:4]
    if shift is None or not shift.any():
        raise Stays(f"{name} has no shift, so kappa is zero", "kept")
    if shift.dim() > 1:
        raise Stays(
            f"{name} normalises several dimensions, and a linear map reads only the last", "kept"
        )
    if gain is not None and not gain.all():
        raise Stays(f"the gain of {name} contains a zero, so 1 / gamma does not exist", "kept")
    return torch.ones_like(shift) if gain is None else gain.reciprocal(), shift


def price_of(rows, dtype):
    """The cost of the new weights, in words.

    Bounds are rounded up to powers of ten, so that they are the same on every processor.
    """
    change, inverse, factor = map(max, zip(*(row.price for row in rows)))
    change, inverse = (f"{10.0 ** math.ceil(math.log10(n)):g}" for n in (change, inverse))
    lost, digits = math.ceil(math.log10(factor)), math.floor(-math.log10(torch.finfo(dtype).eps))
    return (
        f"price: weights change by less than {change} times their norm, 1/|kappa| is below "
        f"{inverse}, and biases lose up to {lost} of {digits} digits"
    )
