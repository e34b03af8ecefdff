"""Put every BatchNorm in evaluation into the convolution or the linear map before it.

There a BatchNorm is a gain and a shift for each channel, and so may be part of the map that makes
the channels.  Which map that is, the operations of a run say.  That nothing else reads what it
makes, and that its channels are the norm's, is followed: a constant added to its bias and to the
running mean must pass every operation unseen.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.fusion import fuse_conv_bn_weights, fuse_linear_bn_weights

from .choosing import Row, Stays
from .steps import changes_nothing, steps_of

#: The place of the weight among the arguments of a map.
WEIGHT = {"convolution": 1, "addmm": 2, "mm": 1}


def fuse_norms(bench):
    """Fuse all that can be fused; writes into the bench's account."""
    for path, norm in list(bench.after.model.named_modules()):
        if isinstance(norm, nn.modules.batchnorm._BatchNorm):
            try:
                place, verdict = _fuse(bench, path, norm), "moved"
                text = f"into {place}, with its gain and statistics [6.5]"
            except Stays as reason:
                text, verdict = str(reason), reason.verdict
            bench.rows.append(Row(verdict, path, "norm", text))


def _fuse(bench, path, norm):
    """Fuse one norm; returns the path of the map that took it.  Raises Stays."""
    if norm.training or norm.running_mean is None:
        raise Stays("it takes its statistics from the batch")
    place, module = _map_before(bench, norm)
    if new := module.bias is None:
        module.bias = nn.Parameter(torch.zeros_like(norm.running_mean), requires_grad=False)
        bench.after.renew()
    t = torch.randn(len(norm.running_mean), generator=torch.Generator().manual_seed(0)).double()
    both = {f"{place}.bias": t, f"{path}.running_mean": t}
    if not changes_nothing(bench.after, bench.calls, both):
        module.bias = None if new else module.bias
        bench.after.renew()
        raise Stays(f"something else depends on what {place} returns")
    given = (
        module.weight,
        module.bias,
        norm.running_mean,
        norm.running_var,
        norm.eps,
        norm.weight,
        norm.bias,
    )
    if isinstance(module, nn.Linear):
        weight, bias = fuse_linear_bn_weights(*given)
    else:
        weight, bias = fuse_conv_bn_weights(*given, module.transposed)
    module.weight.data, module.bias.data = weight.data, bias.data
    bench.after.model.set_submodule(path, nn.Identity())
    bench.after.renew()
    return place


def _map_before(bench, norm):
    """(path, module) of the map whose result a norm reads, both used once; raises Stays."""
    found = []
    for call in bench.calls:
        steps = steps_of(bench.after, call)
        maps = [(s, steps.named(s, WEIGHT[s.name])) for s in steps.steps if s.name in WEIGHT]
        for step in steps.steps:
            if "batch_norm" in step.name and step.args[3] is norm.running_mean:
                source = steps.source(step.args[0])[1]
                weight = next((w for s, w in maps if s is source), None)
                if not weight or sum(w == weight for _, w in maps) != 1:
                    raise Stays(
                        "no convolution or linear map that is used once stands directly before it"
                    )
                found.append(weight)
    if len(found) != len(bench.calls) or len({*found}) != 1:
        raise Stays("it does not run once at these inputs")
    place = found[0].rpartition(".")[0]
    module = bench.after.model.get_submodule(place)
    if not isinstance(module, nn.Linear | nn.modules.conv._ConvNd):
        raise Stays(f"{place} is neither a convolution nor a linear map of PyTorch")
    if getattr(module, "transposed", False) and module.groups > 1:
        raise Stays(f"{place} is transposed and has groups")
    return place, module
