"""Attention over several processes equals one device; misuse is refused before it is sent.

What chapter 16 measures is not measured again: a key bias, masked shards, the bytes that are sent;
nor what the file checks itself on two processes, which chapter 16b starts.  This file is also what
each process runs, and rank 0 prints a line for each check.
"""

import os
import subprocess
import sys
from itertools import product

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from context_parallel import (
    Ranks,
    contiguous,
    gathered_keys,
    merge,
    merged_partials,
    partial_attention,
    ring,
    striped,
)
from derivation.checks import error, normal, tolerance

HEADS, D = 3, 16
one_device = F.scaled_dot_product_attention


def equals_one_device(ranks):
    # 41 leaves a remainder, 8 fills every rank, 3 leaves ranks of four without keys
    both = torch.float64, torch.float32
    for dtype, n, deal, causal in product(both, (41, 8, 3), (contiguous, striped), (False, True)):
        q, k, v = normal(3, HEADS, n, D, dtype=dtype, device=ranks.device, seed=n).unbind()
        places, queries = deal(n, ranks.size), torch.arange(n) if causal else None
        mine = places[ranks.rank]
        own = q[:, mine], k[:, mine], v[:, mine]
        expected = one_device(q, k, v, is_causal=causal)
        # scores, denominators and outputs are sums; so are the merged two
        bound = tolerance(dtype, (D, n, n, ranks.size, ranks.size), shift=4.0)
        for way, out, wanted in (
            ("partials", merged_partials(ranks, q, *own[1:], places, queries), expected),
            ("ring", ring(ranks, *own, places, causal), expected[:, mine]),
            ("gathered", gathered_keys(ranks, *own, places, causal), expected[:, mine]),
        ):
            same = out.dtype == dtype and out.shape == wanted.shape
            near = not wanted.numel() or error(out, wanted) <= bound
            yield f"{way}: {dtype}, {n} keys, {deal.__name__}, causal {causal}", same and near


def refusals(ranks):
    """Misuse is refused before anything is exchanged; a query before all keys gets zeros."""
    places = contiguous(8 * ranks.size, ranks.size)
    whole = normal(3, HEADS, 8 * ranks.size, D, device=ranks.device)
    q, k, v = whole[:, :, places[ranks.rank]].unbind()
    hidden = merged_partials(ranks, q, k, v, places, queries=torch.full((8,), -1))
    yield "every shard wholly masked", torch.equal(hidden, torch.zeros_like(hidden))
    for words, keys, last in (
        ("position 0 is on 2 ranks", k, torch.cat([places[-1], places[0][:1]])),
        (f"position {places[-1][0]} is on 0 ranks", k, places[-1] + 1),
        ("keys for its 8 positions", torch.cat([k, k], 1), places[-1]),
        ("no gradient", k.clone().requires_grad_(), places[-1]),
    ):
        try:
            with torch.enable_grad():
                ring(ranks, q, keys, v, [*places[:-1], last])
        except ValueError as wrong:
            yield f"refused: {words}", words in str(wrong)


def everything():
    ranks = Ranks()
    with torch.no_grad():
        for what, passed in (*equals_one_device(ranks), *refusals(ranks)):
            everyone = ranks.gather(torch.tensor([bool(passed)]).to(ranks.device, torch.uint8))
            if ranks.rank == 0:
                print("ok" if everyone.all() else "NOT OK", what, flush=True)
    dist.destroy_process_group()


def started(*command):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, *command]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("processes", [2, 4])
def test_every_check_passes_on_every_rank(processes):
    torchrun = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    run = started(*torchrun, __file__)
    lines = [line for line in run.stdout.splitlines() if line]
    assert [line for line in lines if not line.startswith("ok ")] == [] and run.returncode == 0
    assert len(lines) == 72 + 1 + 4


def test_without_torchrun_it_says_what_to_write():
    run = started("-m", "context_parallel")
    assert run.returncode == 2 and "start it with torchrun: torchrun --nproc" in run.stderr


def test_large_scores_do_not_overflow():
    q, k, v = normal(3, 1, 6, 4, dtype=torch.float32).unbind()
    q, k = 100 * q, 100 * k
    parts = [partial_attention(q, k[:, own], v[:, own]) for own in contiguous(6, 3)]
    out, lse = merge(*map(torch.stack, zip(*parts)))
    scores = q @ k.mT / 2
    within = tolerance(torch.float32, (4, 6, 6, 3, 3), shift=scores.abs().max().item())
    assert error(out, one_device(q, k, v)) <= within < 0.1
    assert error(lse, scores.logsumexp(-1, keepdim=True)) <= within


if __name__ == "__main__":
    everything()
