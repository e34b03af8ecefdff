"""What every process of ``test_context_parallel`` does; torchrun starts it.

    torchrun --standalone --nproc-per-node 2 context_parallel_worker.py everything 60
    torchrun --standalone --nproc-per-node 4 context_parallel_worker.py lost-in-the-ring 20

The first prints a line for each check, on rank 0; the others lose a rank on purpose.  The
number is the timeout in seconds.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from context_parallel import (
    Ranks,
    bytes_of_partials,
    bytes_of_ring,
    contiguous,
    gathered_keys,
    merge,
    merged_partials,
    partial_attention,
    ring,
    striped,
    told,
    up_to,
)
from derivation.checks import SEEN, error, normal, tolerance

HEADS, D = 3, 16
WAYS = {"ring": ring, "keys and values gathered": gathered_keys}


def say(ranks, what, passed):
    """One line on rank 0: ok when every rank passed."""
    everyone = ranks.gather(torch.tensor([bool(passed)]).to(ranks.device, torch.uint8))
    if ranks.rank == 0:
        print("ok" if everyone.all() else "NOT OK", what, flush=True)


def bound(dtype, n, ranks, shift=4.0):
    """Scores, denominators and outputs are sums; so are the merged two."""
    return tolerance(dtype, (D, n, n, ranks.size, ranks.size), shift)


def equals_one_device(ranks):
    for dtype in (torch.float64, torch.float32):
        name = str(dtype).removeprefix("torch.")
        # 41 leaves a remainder, 8 fills every rank, 3 leaves ranks of four without keys
        for n in (41, 8, 3):
            q, k, v = normal(3, HEADS, n, D, dtype=dtype, device=ranks.device, seed=n).unbind()
            within = bound(dtype, n, ranks)
            for deal in (contiguous, striped):
                places = deal(n, ranks.size)
                mine = places[ranks.rank]
                for causal in (False, True):
                    case = f"{name}, {n} keys, {deal.__name__}{', causal' * causal}"
                    expected = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
                    queries = torch.arange(n) if causal else None
                    out = merged_partials(ranks, q, k[:, mine], v[:, mine], places, queries)
                    passed = out.dtype == dtype and error(out, expected) <= within
                    say(ranks, f"partials: {case}", passed)
                    for way, attend in WAYS.items():
                        out = attend(ranks, q[:, mine], k[:, mine], v[:, mine], places, causal)
                        passed = out.dtype == dtype and out.shape == q[:, mine].shape
                        if mine.numel():
                            passed &= error(out, expected[:, mine]) <= within
                        say(ranks, f"{way}: {case}", passed)


def a_key_bias_cancels(ranks):
    n, places = 41, contiguous(41, ranks.size)
    mine = places[ranks.rank]
    for dtype in (torch.float64, torch.float32):
        q, k, v = normal(3, HEADS, n, D, dtype=dtype, device=ranks.device).unbind()
        bias = 10 * normal(HEADS, 1, D, dtype=dtype, device=ranks.device, seed=1)
        expected = F.scaled_dot_product_attention(q, k, v)
        within = bound(dtype, n, ranks, shift=(q @ bias.mT).abs().max().item() / D**0.5 + 4)
        out = merged_partials(ranks, q, (k + bias)[:, mine], v[:, mine], places)
        say(ranks, f"key bias, partials: {dtype}", error(out, expected) <= within)
        out = ring(ranks, q[:, mine], (k + bias)[:, mine], v[:, mine], places)
        say(ranks, f"key bias, ring: {dtype}", error(out, expected[:, mine]) <= within)
        own = bias if ranks.rank == 0 else 0 * bias
        out = merged_partials(ranks, q, (k + own)[:, mine], v[:, mine], places)
        say(ranks, f"control, a bias on rank 0 alone: {dtype}", error(out, expected) > SEEN[dtype] * within)  # fmt: skip


def hidden_shards(ranks):
    """Keys that no query may see, on one rank or on all."""
    n, places = 40, contiguous(40, ranks.size)
    mine = places[ranks.rank]
    q, k, v = normal(3, HEADS, n, D, device=ranks.device).unbind()
    few = torch.arange(5, device=ranks.device)  # these queries see the first rank's keys only
    out = merged_partials(ranks, q[:, :5], k[:, mine], v[:, mine], places, queries=few.cpu())
    mask = up_to(few, torch.arange(n, device=ranks.device))
    expected = F.scaled_dot_product_attention(q[:, :5], k, v, attn_mask=mask)
    say(ranks, "a shard wholly masked", error(out, expected) <= bound(q.dtype, n, ranks))
    before = torch.tensor([-1])
    out = merged_partials(ranks, q[:, :1], k[:, mine], v[:, mine], places, queries=before)
    say(ranks, "every shard wholly masked", torch.equal(out, torch.zeros_like(out)))


def controls(ranks):
    n, places = 41, contiguous(41, ranks.size)
    mine = places[ranks.rank]
    for dtype in (torch.float64, torch.float32):
        q, k, v = normal(3, HEADS, n, D, dtype=dtype, device=ranks.device).unbind()
        expected = F.scaled_dot_product_attention(q, k, v)
        seen = SEEN[dtype] * bound(dtype, n, ranks)
        out, lse = partial_attention(q, k[:, mine], v[:, mine])
        outs, lses = ranks.gather(out), ranks.gather(lse)
        say(ranks, f"control, a plain mean: {dtype}", error(outs.mean(0), expected) > seen)
        forgotten, _ = merge(outs[1:], lses[1:])
        say(ranks, f"control, a forgotten rank: {dtype}", error(forgotten, expected) > seen)
        binary, _ = merge(outs, lses / torch.tensor(2.0).log())
        say(ranks, f"control, logarithms to base 2: {dtype}", error(binary, expected) > seen)


def bytes_are_counted(ranks):
    p, n = ranks.size, 4096
    places = contiguous(n, p)
    mine = places[ranks.rank]
    q = k = v = torch.zeros(HEADS, n, D, device=ranks.device)
    partials = lambda m: merged_partials(ranks, q[:, :m], k[:, mine], v[:, mine], places)
    for name, way, formula in (
        ("partials, one query", lambda: partials(1), bytes_of_partials(p, 1, D, HEADS)),
        ("partials, 512 queries", lambda: partials(512), bytes_of_partials(p, 512, D, HEADS)),
        ("ring", lambda: ring(ranks, q[:, mine[:8]], k[:, mine], v[:, mine], places),
         bytes_of_ring(p, n, D, HEADS)),
        ("gathered", lambda: gathered_keys(ranks, q[:, mine[:8]], k[:, mine], v[:, mine], places),
         bytes_of_ring(p, n, D, HEADS)),
    ):  # fmt: skip
        before, written = ranks.sent, bytes_written()
        way()
        counted, written = ranks.sent - before, bytes_written() - written
        say(ranks, f"bytes counted: {name}", counted == formula)
        if written:  # what the kernel saw leave this process: the numbers and gloo's headers
            say(ranks, f"bytes written: {name}", counted <= written <= counted + 2000)
    uneven = contiguous(41, p)
    mine, before = uneven[ranks.rank], ranks.sent
    ring(ranks, *(x[:, mine] for x in (q, k, v)), uneven)
    others = 41 - uneven[(ranks.rank + 1) % p].numel()  # all shards but the next rank's own
    say(ranks, "bytes counted: uneven ring", ranks.sent - before == others * 2 * D * HEADS * 4)


def bytes_written():
    """Bytes that this process handed to the kernel so far; 0 where the kernel does not tell."""
    if not Path("/proc/self/io").exists() or torch.cuda.is_available():
        return 0
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["wchar"])


def refusals(ranks):
    """Misuse is refused before anything is exchanged, so that no rank waits for another."""
    q = k = v = torch.zeros(8 * ranks.size, D, device=ranks.device)
    places = list(contiguous(8 * ranks.size, ranks.size))
    mine = places[ranks.rank]

    def refused(words, call):
        try:
            call()
        except ValueError as wrong:
            return words in str(wrong)
        return False

    twice = [*places[:-1], torch.cat([places[-1], places[0][:1]])]
    say(ranks, "refused: a key on two ranks",
        refused("position 0 is on 2 ranks", lambda: ring(ranks, q[mine], k[mine], v[mine], twice)))  # fmt: skip
    say(ranks, "refused: other keys than its own",
        refused("keys for its 8 positions", lambda: ring(ranks, q[mine], k, v, places)))  # fmt: skip
    learned = k[mine].clone().requires_grad_()
    with torch.enable_grad():
        say(ranks, "refused: gradients",
            refused("no gradient", lambda: ring(ranks, q[mine], learned, v[mine], places)))  # fmt: skip


def everything(ranks):
    with torch.no_grad():
        for check in (
            equals_one_device, a_key_bias_cancels, hidden_shards, controls, bytes_are_counted, refusals,
        ):  # fmt: skip
            check(ranks)
    ranks.leave()
    return 0


def lost_in_the_ring(ranks):
    """A rank is killed after the first of three passes around the ring."""
    x = torch.zeros(4, D, device=ranks.device)
    ranks.pass_on(x, x.shape)()
    if ranks.rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    ranks.pass_on(x, x.shape)()
    ranks.pass_on(x, x.shape)()
    ranks.leave()
    return 0


def hangs_at_the_end(ranks):
    """All is computed, but a rank never says so."""
    ranks.gather(torch.zeros(4, device=ranks.device))
    if ranks.rank == 1:
        time.sleep(600)
    ranks.leave()
    return 0


WORK = {f.__name__.replace("_", "-"): f for f in (everything, lost_in_the_ring, hangs_at_the_end)}

if __name__ == "__main__":
    _, work, timeout = sys.argv
    sys.exit(told(lambda: WORK[work](Ranks(timeout=float(timeout)))))
