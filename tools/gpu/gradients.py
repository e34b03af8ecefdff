"""What rounding leaves of gradients that are zero exactly.

That of the key bias (theorem 3.5), beside that of the query bias of the same layer; and that of
the bias of a linear layer before BatchNorm, which follows from theorem 6.1, beside that of
BatchNorm's own shift.
"""

import torch
from torch import nn
from torch.nn.attention import sdpa_kernel

from .bench import BACKENDS, by_format, by_format_and_kernel, number_format

BATCH = 2


def steps_of_the_key_bias(bench):
    return by_format_and_kernel(bench, of_the_key_bias)


def steps_before_batch_norm(bench):
    return by_format(bench, before_batch_norm)


def of_the_key_bias(bench, format, kernel):
    """max |gradient of the key bias| / max |gradient of the query bias|, one for each seed."""
    s, ratios = bench.sizes, []
    for seed in range(s.seeds):
        layer = seeded(seed, nn.MultiheadAttention, s.heads * s.width, s.heads, batch_first=True)
        x, upstream = bench.normal(2, BATCH, s.length, s.heads * s.width, seed=seed)
        with number_format(format) as dtype, sdpa_kernel(BACKENDS[kernel]):
            layer, x, upstream = (each.to(bench.device, dtype) for each in (layer, x, upstream))
            layer(x, x, x, need_weights=False)[0].backward(upstream)
        query, key, _ = layer.in_proj_bias.grad.chunk(3)
        ratios.append(ratio(key, query))
    return {"key_over_query": ratios}


def before_batch_norm(bench, format):
    """max |gradient of the bias before| / max |gradient of BatchNorm's shift|, for each seed."""
    s, ratios = bench.sizes, []
    features = s.heads * s.width
    for seed in range(s.seeds):
        linear = seeded(seed, nn.Linear, features, features)
        layers = nn.Sequential(linear, nn.BatchNorm1d(features)).train()
        x, upstream = bench.normal(2, s.samples, features, seed=seed)
        with number_format(format) as dtype:
            layers, x, upstream = (each.to(bench.device, dtype) for each in (layers, x, upstream))
            layers(x).backward(upstream)
        ratios.append(ratio(layers[0].bias.grad, layers[1].bias.grad))
    return {"before_over_after": ratios}


def seeded(seed, kind, *sizes, **options):
    """A layer with its usual weights, made on the CPU, and with standard normal biases."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        layer = kind(*sizes, **options)
        for name, parameter in layer.named_parameters():
            if "bias" in name:
                parameter.normal_()
    return layer


def ratio(part, whole):
    """max |part| / max |whole|; None where that is not finite."""
    found = part.double().abs().max() / whole.double().abs().max()
    return found.item() if found.isfinite() else None
