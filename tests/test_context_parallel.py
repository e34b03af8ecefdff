"""Attention over several processes equals one device; misuse is refused before it is sent.

What chapter 16 measures is not measured again: a key bias, masked shards, the bytes that are sent.
This file is also what every one of these processes runs, and rank 0 prints a line for each check:

    torchrun --standalone --nproc-per-node 2 test_context_parallel.py
"""

import os
import subprocess
import sys
from itertools import product
from pathlib import Path

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
from derivation.checks import SEEN, error, normal, tolerance

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
HEADS, D = 3, 16
FINE = torch.float64, torch.float32
one_device = F.scaled_dot_product_attention

# ── What each process does: checks, as (what, whether it holds here) ──────────────────────


def equals_one_device(ranks):
    # 41 leaves a remainder, 8 fills every rank, 3 leaves ranks of four without keys
    for dtype, n, deal, causal in product(FINE, (41, 8, 3), (contiguous, striped), (False, True)):
        q, k, v = normal(3, HEADS, n, D, dtype=dtype, device=ranks.device, seed=n).unbind()
        places = deal(n, ranks.size)
        mine, queries = places[ranks.rank], torch.arange(n) if causal else None
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
            if wanted.numel():
                same &= error(out, wanted) <= bound
            yield f"{way}: {dtype}, {n} keys, {deal.__name__}, causal {causal}", same
        if n == 41 and not causal:
            outs, lses = map(ranks.gather, partial_attention(q, *(x[:, places[0]] for x in (k, v))))
            seen = error(merge(outs, lses)[0], expected) > SEEN[dtype] * bound
            yield f"control, the keys of rank 0 on every rank: {dtype}, {deal.__name__}", seen


def own_shards(ranks, n):
    """Queries, keys and values of this rank, and where those of all ranks lie."""
    places = contiguous(n, ranks.size)
    whole = normal(3, HEADS, n, D, device=ranks.device, seed=n)
    return *whole[:, :, places[ranks.rank]].unbind(), places


def nothing_to_see(ranks):
    """A query before all keys: every shard is wholly masked."""
    q, *own, places = own_shards(ranks, 8 * ranks.size)
    out = merged_partials(ranks, q, *own, places, queries=torch.full((8,), -1))
    yield "every shard wholly masked", torch.equal(out, torch.zeros_like(out))


def refusals(ranks):
    """Misuse is refused before anything is exchanged, so that no rank waits for another."""
    q, k, v, places = own_shards(ranks, 8 * ranks.size)
    twice = [*places[:-1], torch.cat([places[-1], places[0][:1]])]
    nowhere = [*places[:-1], places[-1] + 1]
    for words, keys, dealt in (
        ("position 0 is on 2 ranks", k, twice),
        (f"position {places[-1][0]} is on 0 ranks", k, nowhere),
        ("keys for its 8 positions", torch.cat([k, k], 1), places),
        ("no gradient", k.clone().requires_grad_(), places),
    ):
        try:
            with torch.enable_grad():
                ring(ranks, q, keys, v, dealt)
        except ValueError as wrong:
            yield f"refused: {words}", words in str(wrong)


CHECKS = equals_one_device, nothing_to_see, refusals


def everything():
    ranks = Ranks()
    with torch.no_grad():
        for what, passed in (verdict for check in CHECKS for verdict in check(ranks)):
            everyone = ranks.gather(torch.tensor([bool(passed)]).to(ranks.device, torch.uint8))
            if ranks.rank == 0:
                print("ok" if everyone.all() else "NOT OK", what, flush=True)
    dist.destroy_process_group()


# ── The tests: of what the processes said ─────────────────────────────────────────────────


@pytest.mark.parametrize("processes", [2, 4])
def test_every_check_passes_on_every_rank(processes):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    run = subprocess.run(
        [*torchrun, f"--nproc-per-node={processes}", __file__],
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(NOTEBOOKS)},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    lines = [line for line in run.stdout.splitlines() if line]
    assert [line for line in lines if not line.startswith("ok ")] == [] and run.returncode == 0
    assert len(lines) == (72 + 4) + 1 + 4


def test_without_torchrun_it_says_what_to_write():
    run = subprocess.run(
        [sys.executable, NOTEBOOKS / "context_parallel.py"], capture_output=True, text=True
    )
    assert run.returncode == 2 and "start it with torchrun: torchrun --nproc" in run.stderr


# ── On one device: what chapter 16 does not measure ───────────────────────────────────────


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
