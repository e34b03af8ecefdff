"""Attention over several processes equals one device; misuse is refused before it is sent.

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
    bytes_of_partials,
    bytes_of_ring,
    checked,
    contiguous,
    gathered_keys,
    merge,
    merged_partials,
    partial_attention,
    ring,
    striped,
    up_to,
)
from derivation.checks import SEEN, error, normal, tolerance

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
HEADS, D = 3, 16
FINE = torch.float64, torch.float32
one_device = F.scaled_dot_product_attention

# ── What each process does: checks, as (what, whether it holds here) ──────────────────────


def bound(dtype, n, ranks, shift=4.0):
    """Scores, denominators and outputs are sums; so are the merged two."""
    return tolerance(dtype, (D, n, n, ranks.size, ranks.size), shift)


def numbers(ranks, n, dtype=torch.float64):
    """Queries, keys and values, the same on every rank; its positions, all and its own."""
    places = contiguous(n, ranks.size)
    q, k, v = normal(3, HEADS, n, D, dtype=dtype, device=ranks.device, seed=n).unbind()
    return q, k, v, places, places[ranks.rank]


def equals_one_device(ranks):
    # 41 leaves a remainder, 8 fills every rank, 3 leaves ranks of four without keys
    for dtype, n, deal, causal in product(FINE, (41, 8, 3), (contiguous, striped), (False, True)):
        q, k, v, _, _ = numbers(ranks, n, dtype)
        places = deal(n, ranks.size)
        mine = places[ranks.rank]
        expected = one_device(q, k, v, is_causal=causal)
        queries = torch.arange(n) if causal else None
        own = q[:, mine], k[:, mine], v[:, mine]
        for way, out, wanted in (
            ("partials", merged_partials(ranks, q, *own[1:], places, queries), expected),
            ("ring", ring(ranks, *own, places, causal), expected[:, mine]),
            ("gathered", gathered_keys(ranks, *own, places, causal), expected[:, mine]),
        ):
            same = out.dtype == dtype and out.shape == wanted.shape
            if wanted.numel():
                same &= error(out, wanted) <= bound(dtype, n, ranks)
            yield f"{way}: {dtype}, {n} keys, {deal.__name__}, causal {causal}", same


def a_key_bias_cancels(ranks):
    for dtype in FINE:
        q, k, v, places, mine = numbers(ranks, 41, dtype)
        bias = 10 * normal(HEADS, 1, D, dtype=dtype, device=ranks.device, seed=1)
        expected = one_device(q, k, v)
        within = bound(dtype, 41, ranks, shift=(q @ bias.mT).abs().max().item() / D**0.5 + 4)
        on_all, on_one = (k + bias)[:, mine], (k + bias * (ranks.rank == 0))[:, mine]
        out = merged_partials(ranks, q, on_all, v[:, mine], places)
        yield f"key bias, partials: {dtype}", error(out, expected) <= within
        out = ring(ranks, q[:, mine], on_all, v[:, mine], places)
        yield f"key bias, ring: {dtype}", error(out, expected[:, mine]) <= within
        out = merged_partials(ranks, q, on_one, v[:, mine], places)
        seen = error(out, expected) > SEEN[dtype] * within
        yield f"control, a bias on rank 0 alone: {dtype}", seen


def hidden_shards(ranks):
    """Keys that no query may see, on one rank or on all."""
    q, k, v, places, mine = numbers(ranks, 40)
    few = torch.arange(5)  # these queries see the first rank's keys only
    out = merged_partials(ranks, q[:, :5], k[:, mine], v[:, mine], places, queries=few)
    mask = up_to(few, torch.arange(40)).to(ranks.device)
    expected = one_device(q[:, :5], k, v, attn_mask=mask)
    yield "a shard wholly masked", error(out, expected) <= bound(q.dtype, 40, ranks)
    before = torch.tensor([-1])
    out = merged_partials(ranks, q[:, :1], k[:, mine], v[:, mine], places, queries=before)
    yield "every shard wholly masked", torch.equal(out, torch.zeros_like(out))


def controls(ranks):
    for dtype in FINE:
        q, k, v, _, mine = numbers(ranks, 41, dtype)
        outs, lses = map(ranks.gather, partial_attention(q, k[:, mine], v[:, mine]))
        for what, wrong in {
            "a plain mean": outs.mean(0),
            "a forgotten rank": merge(outs[1:], lses[1:])[0],
            "logarithms to base 2": merge(outs, lses / torch.tensor(2.0).log())[0],
        }.items():
            seen = error(wrong, one_device(q, k, v)) > SEEN[dtype] * bound(dtype, 41, ranks)
            yield f"control, {what}: {dtype}", seen


def bytes_are_counted(ranks):
    p, n = ranks.size, 4096
    q, k, v, places, mine = numbers(ranks, n, torch.float32)
    own = q[:, mine[:8]], k[:, mine], v[:, mine]
    for m in (1, 512):
        run = lambda m=m: merged_partials(ranks, q[:, :m], *own[1:], places)
        yield from sends(ranks, f"partials, {m} queries", run, bytes_of_partials(p, m, D, HEADS))
    formula = bytes_of_ring(p, n, D, HEADS)
    yield from sends(ranks, "ring", lambda: ring(ranks, *own, places), formula)
    yield from sends(ranks, "gathered", lambda: gathered_keys(ranks, *own, places), formula)
    q, k, v, places, mine = numbers(ranks, 41, torch.float32)
    others = 41 - places[(ranks.rank + 1) % p].numel()  # all shards but the next rank's own
    run = lambda: ring(ranks, *(x[:, mine] for x in (q, k, v)), places)
    yield from sends(ranks, "uneven ring", run, others * 2 * D * HEADS * 4)


def sends(ranks, what, run, formula):
    """As many bytes are counted as the formula says."""
    before = ranks.sent
    run()
    yield f"bytes: {what}", ranks.sent - before == formula


def refusals(ranks):
    """Misuse is refused before anything is exchanged, so that no rank waits for another."""
    q, k, v, places, mine = numbers(ranks, 8 * ranks.size)
    own = [x[:, mine] for x in (q, k, v)]
    twice = [*places[:-1], torch.cat([places[-1], places[0][:1]])]
    learned = own[1].clone().requires_grad_()
    for words, keys, dealt in (
        ("position 0 is on 2 ranks", own[1], twice),
        ("keys for its 8 positions", k, places),
        ("no gradient", learned, places),
    ):
        try:
            with torch.enable_grad():
                ring(ranks, own[0], keys, own[2], dealt)
        except ValueError as wrong:
            yield f"refused: {words}", words in str(wrong)


CHECKS = equals_one_device, a_key_bias_cancels, hidden_shards, controls, bytes_are_counted, refusals


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
    assert len(lines) == 72 + 6 + 2 + 6 + 5 + 3


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


def test_a_key_that_lies_nowhere_is_refused():
    with pytest.raises(ValueError, match="position 1 is on 0 ranks"):
        checked([torch.tensor([0]), torch.tensor([2])], 0, torch.zeros(1, 2))


if __name__ == "__main__":
    everything()
