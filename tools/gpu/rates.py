"""What the device itself can do: how fast it copies, and how fast it multiplies matrices."""

import torch

from .bench import DTYPES, number_format, step


def steps(bench):
    copies = {"copy": step(bench, copying, of="copy")}
    return copies | {name: step(bench, multiplying, of=name) for name in DTYPES}


def copying(bench, of):
    """Seconds to copy a block of memory: it is read once and written once."""
    source = torch.ones(bench.sizes.copied_bytes, dtype=torch.uint8, device=bench.device)
    target = torch.empty_like(source)
    return {"seconds": bench.repeats(lambda: target.copy_(source))}


def multiplying(bench, of):
    """Seconds of the product of two square matrices of normal numbers, in the format ``of``."""
    n = bench.sizes.matrix
    with number_format(of) as dtype:
        a, b = (bench.normal(n, n, seed=seed, dtype=dtype) for seed in (0, 1))
        out = torch.empty_like(a)
        return {"seconds": bench.repeats(lambda: torch.mm(a, b, out=out))}
