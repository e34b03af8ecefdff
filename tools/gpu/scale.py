"""Attention of ever longer sequences: its time, its memory, and its error.

The error is that of a sample of query rows against attention in float64, computed on the same
rounded inputs, block of keys after block (theorems 3.6 and 3.7).
"""

import torch
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel

from .bench import BACKENDS, attempt, attend, by_format_and_kernel, number_format, relative_error


def steps(bench):
    return by_format_and_kernel(bench, lengthening)


def lengthening(bench, format, kernel):
    """One run for each length, up to the first that cannot be done."""
    runs = []
    for length in bench.sizes.lengths:
        run = attempt(bench, lambda length=length: one_length(bench, format, kernel, length))
        if "stopped" in run and not runs:
            return run
        runs.append({"length": length} | run)
        if "stopped" in run:
            break
    return {"runs": runs}


def one_length(bench, format, kernel, length):
    s = bench.sizes
    with number_format(format) as dtype, torch.no_grad():
        q, k, v = inputs = [
            bench.normal(1, s.heads, length, s.width, seed=seed, dtype=dtype) for seed in range(3)
        ]
        attend(q, k, v, kernel)  # the libraries set up what they keep, which is no kernel's need
        out, peak = bench.peak_bytes(lambda: attend(q, k, v, kernel))
        error = error_of_a_sample(out, *inputs, s)
        del out
        with sdpa_kernel(BACKENDS[kernel]):  # chosen once: the choice is not what is timed
            seconds = bench.repeats(lambda: F.scaled_dot_product_attention(q, k, v))
    return {"seconds": seconds, "error": error, "peak_bytes": peak}


def error_of_a_sample(out, q, k, v, sizes):
    """The relative error of rows of the output that are evenly spaced."""
    rows = torch.linspace(0, q.shape[2] - 1, min(sizes.rows, q.shape[2])).round().long()
    rows = rows.to(q.device)
    return relative_error(out[:, :, rows], reference(q[:, :, rows], k, v, sizes.chunk))


def reference(q, k, v, chunk):
    """Attention in float64, over blocks of `chunk` keys with a running maximum and sum."""
    q = q.double() / q.shape[-1] ** 0.5
    top = q.new_full((*q.shape[:-1], 1), -torch.inf)
    total, weighted = torch.zeros_like(top), torch.zeros_like(q)
    for keys, values in zip(k.split(chunk, dim=2), v.split(chunk, dim=2)):
        scores = q @ keys.double().transpose(-2, -1)
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights, before = (scores - higher).exp(), (top - higher).exp()
        total = before * total + weights.sum(-1, keepdim=True)
        weighted = before * weighted + weights @ values.double()
        top = higher
    return weighted / total
