"""Attention whose keys and values lie on several devices ("context parallel").

    torchrun --standalone --nproc-per-node 2 context_parallel.py

When started like this, the file tests itself: it divides keys and values among the processes
(the ranks) and computes attention in three ways.  Each result must agree with attention on one
device within the book's tolerance, which comes from the folder ``derivation`` beside this file.

    merged_partials   every rank has all queries; outputs and log-sum-exps are sent
    ring              queries are divided as well; keys and values pass from rank to rank
    gathered_keys     the naive way: every rank collects all keys and values

The mathematics is in chapter 16 of "Where Did the Bias Go?": Theorems 16.1 (results from any number
of shards of the keys can be merged) and 16.2 (outputs and log-sum-exps suffice for that).  The
functions compute no gradients.  For clarity they compute all scores of a shard at once.  They need
only torch, and run with gloo on the CPU, or with nccl if every process has its own GPU.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from datetime import timedelta
from itertools import product

import torch
import torch.distributed as dist
import torch.nn.functional as F

# ── On one device: attention over some keys, and how to merge results ─────────────────────


def partial_attention(q, k, v, visible=None):
    """Attention over some of the keys, and the logarithm of the softmax's denominator.

    q: (..., m, d); k: (..., n, d); v: (..., n, e); visible: booleans of shape (m, n).
    Returns out (..., m, e) and lse (..., m, 1), at least in float32, because the rounding
    error of lse enters an exponential.  Without a visible key, out is 0 and lse is -inf.
    """
    q, k, v = (x.to(torch.promote_types(x.dtype, torch.float32)) for x in (q, k, v))
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    if visible is not None:
        scores = scores.masked_fill(~visible, -math.inf)
    lse = scores.logsumexp(-1, keepdim=True)
    return torch.exp(scores - _finite(lse)) @ v, lse


def merge(outs, lses):
    """The output and log-sum-exp for all keys, computed from those of the shards (Theorem 16.2).

    outs: (p, ..., m, e); lses: (p, ..., m, 1).  The outputs are averaged with the weights
    softmax(lses) over the shards; a shard without a visible key has the weight 0.
    """
    reference = _finite(lses.amax(0))
    weights = torch.exp(lses - reference)
    total = weights.sum(0)
    out = (weights * outs).sum(0) / total.where(total > 0, 1)
    return out, reference + total.log()


def _finite(reference):
    """The reference with -inf replaced by 0: exp(-inf - (-inf)) is NaN, but exp(-inf - 0) is 0."""
    return reference.where(reference > -math.inf, 0)


# ── Which rank holds which keys ───────────────────────────────────────────────────────────


def contiguous(n, ranks):
    """The positions 0..n-1, one contiguous run for each rank; run lengths differ by at most one."""
    return torch.arange(n).tensor_split(ranks)


def striped(n, ranks):
    """The positions 0..n-1, dealt out like cards, to balance the ranks' work with a causal mask."""
    return [torch.arange(n)[rank::ranks] for rank in range(ranks)]


def checked(places, rank, keys):
    """Return ``places`` if they match the keys and put each key on one rank; else raise ValueError.

    Theorem 16.1 needs every key on exactly one rank.
    """
    copies = torch.bincount(torch.cat(list(places)))
    if (copies != 1).any():
        wrong = int((copies != 1).nonzero()[0])
        raise ValueError(f"position {wrong} is on {int(copies[wrong])} ranks, not on exactly one")
    if keys.shape[-2] != places[rank].numel():
        raise ValueError(
            f"rank {rank} was given {keys.shape[-2]} keys for its {places[rank].numel()} positions"
        )
    return places


def up_to(queries, keys):
    """The causal mask: (m, n) booleans, True where the key's position is not after the query's."""
    return keys <= queries.unsqueeze(-1)


# ── The ranks, and how they exchange tensors ──────────────────────────────────────────────


class Ranks:
    """What one process knows of all those that torchrun started, and how it exchanges tensors.

    Attributes: ``rank``, ``size``, ``device``, ``sent`` (bytes that this rank has sent).  An
    exchange that waits for a rank longer than ``timeout`` seconds raises torch's own RuntimeError.
    """

    def __init__(self, timeout=60.0):
        local, count = (int(os.environ[name]) for name in ("LOCAL_RANK", "LOCAL_WORLD_SIZE"))
        on_gpus = dist.is_nccl_available() and torch.cuda.device_count() >= count
        self.device = torch.device("cuda", local) if on_gpus else torch.device("cpu")
        if on_gpus:
            torch.cuda.set_device(self.device)
        dist.init_process_group("nccl" if on_gpus else "gloo", timeout=timedelta(seconds=timeout))
        self.rank, self.size, self.sent = dist.get_rank(), dist.get_world_size(), 0

    def gather(self, tensor):
        """Stack the tensors of all ranks, which must have the same shape, into (ranks, ...)."""
        everyones = tensor.new_empty(self.size, *_forward_only(tensor).shape)
        dist.all_gather(list(everyones), tensor.contiguous())
        self.sent += (self.size - 1) * tensor.nbytes
        return everyones

    def pass_on(self, tensor, shape):
        """Send a tensor to the next rank and receive one of the given shape from the previous rank.

        Returns, without waiting, a function that waits for the received tensor and returns it.
        """
        tensor, arriving = _forward_only(tensor).contiguous(), tensor.new_empty(shape)
        after, before = (self.rank + 1) % self.size, (self.rank - 1) % self.size
        under_way = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, tensor, after), dist.P2POp(dist.irecv, arriving, before)]
        )
        self.sent += tensor.nbytes

        def arrived():
            for work in under_way:
                work.wait()
            return arriving

        return arrived


def _forward_only(tensor):
    if tensor.requires_grad and torch.is_grad_enabled():
        raise ValueError("no gradient flows through an exchange: call this under torch.no_grad()")
    return tensor


# ── Attention over all ranks ──────────────────────────────────────────────────────────────


def merged_partials(ranks, q, k, v, places, queries=None):
    """Attention if each rank has all queries and its own keys; outputs and log-sum-exps are sent.

    q: (..., m, d); k, v: (..., n_r, d), whose n_r rows are at the positions places[rank];
    queries: the positions of the rows of q, for a causal mask, or None for no mask.
    Returns the output for all keys, (..., m, d), on every rank.
    """
    own = checked(places, ranks.rank, k)[ranks.rank]
    visible = None if queries is None else up_to(queries, own).to(ranks.device)
    part = torch.cat(partial_attention(q, k, v, visible), -1)
    outs, lses = ranks.gather(part).split([v.shape[-1], 1], -1)
    return merge(outs, lses)[0].to(q.dtype)


def ring(ranks, q, k, v, places, causal=False):
    """Attention if each rank has its own queries, keys and values; keys and values circulate once.

    q, k, v: (..., n_r, d), the rows at the positions places[rank].  Returns the output for
    the rank's own queries and all keys.  A rank holds one shard, plus the next while it arrives.
    """
    places = checked(places, ranks.rank, k)
    block, so_far = torch.cat([k, v], -1), None
    for step in range(ranks.size):
        owner = (ranks.rank - step) % ranks.size
        if step < ranks.size - 1:
            coming = places[owner - 1].numel()  # keys in the previous rank's shard
            arrived = ranks.pass_on(block, (*block.shape[:-2], coming, block.shape[-1]))
        visible = up_to(places[ranks.rank], places[owner]).to(ranks.device) if causal else None
        part = partial_attention(q, *block.split([k.shape[-1], v.shape[-1]], -1), visible)
        so_far = part if so_far is None else merge(*map(torch.stack, zip(so_far, part)))
        block = arrived() if step < ranks.size - 1 else None
    return so_far[0].to(q.dtype)


def gathered_keys(ranks, q, k, v, places, causal=False):
    """Attention in the naive way, for comparison: every rank first collects all keys and values.

    Arguments and result are as in ``ring``.  Shards of different sizes are padded to the largest.
    """
    largest = max(place.numel() for place in checked(places, ranks.rank, k))
    own = F.pad(torch.cat([k, v], -1), (0, 0, 0, largest - k.shape[-2]))
    blocks = [block[..., : place.numel(), :] for block, place in zip(ranks.gather(own), places)]
    keys, values = torch.cat(blocks, -2).split([k.shape[-1], v.shape[-1]], -1)
    visible = up_to(places[ranks.rank], torch.cat(list(places))).to(ranks.device)
    return partial_attention(q, keys, values, visible if causal else None)[0].to(q.dtype)


# ── How much is sent ──────────────────────────────────────────────────────────────────────


def bytes_of_partials(ranks, queries, d, heads=1, item=4):
    """The bytes that one of p ranks sends in ``merged_partials``: (p-1) m (d+1) numbers."""
    return (ranks - 1) * queries * (d + 1) * heads * item


def bytes_of_ring(ranks, n, d, heads=1, item=4):
    """The bytes that one of p ranks sends in ``ring`` if p divides n: (p-1) (n/p) 2d numbers.

    A rank sends as many bytes with ``gathered_keys``; ``ring`` saves memory, not traffic.
    """
    return (ranks - 1) * n * 2 * d * heads * item // ranks


# ── The self-check that torchrun starts ───────────────────────────────────────────────────


def check(ranks):
    """Compare the three ways with one device; rank 0 prints the result.  True if all pass."""
    from derivation.checks import error  # only the self-check needs this module

    passed = []
    for dtype in (torch.float64, torch.float32):
        right = {}
        for n, deal in product((37, 3), (contiguous, striped)):
            for what, out, wanted, bound in compared(ranks, n, deal(n, ranks.size), dtype):
                alike = (out.dtype, out.shape) == (dtype, wanted.shape)
                near = not wanted.numel() or error(out, wanted) <= bound
                right[what] = right.get(what, True) and alike and near
        for what, here in right.items():
            passed.append(bool(ranks.gather(torch.tensor(here, device=ranks.device).byte()).all()))
            if ranks.rank == 0:
                where = f"{ranks.size} processes, {str(dtype).removeprefix('torch.')}"
                print(f"{'PASS' if passed[-1] else 'FAIL'}  {where}: {what}", flush=True)
    return all(passed)


def compared(ranks, n, places, dtype, d=16):
    """Yield (name of a check, the output, the output on one device, the bound on the error)."""
    from derivation.checks import normal, tolerance

    q, k, v = normal(3, 4, n, d, dtype=dtype, device=ranks.device).unbind()
    bias = 10 * normal(4, 1, d, dtype=dtype, device=ranks.device, seed=1)
    one_device, mine = F.scaled_dot_product_attention, places[ranks.rank]
    full, causal = one_device(q, k, v), one_device(q, k, v, is_causal=True)
    sums, largest = (d, n, n, ranks.size, ranks.size), (q @ bias.mT).abs().max() / math.sqrt(d)
    bound, shifted = (
        tolerance(dtype, sums, shift=4),
        tolerance(dtype, sums, shift=largest.item() + 4),
    )
    own = q[:, mine], k[:, mine], v[:, mine]
    out = merged_partials(ranks, q, *own[1:], places)
    yield "partial softmaxes merged", out, full, bound
    out = merged_partials(ranks, q, own[1] + bias, own[2], places)
    yield "a key bias on every rank changes nothing", out, full, shifted
    out = merged_partials(ranks, q, *own[1:], places, torch.arange(n))
    yield "partial softmaxes merged, causal", out, causal, bound
    for way, name in ((ring, "ring"), (gathered_keys, "keys and values gathered")):
        yield name, way(ranks, *own, places), full[:, mine], bound
        yield f"{name}, causal", way(ranks, *own, places, causal=True), causal[:, mine], bound


def volumes(ranks, n, d=16):
    """{"n": n, exchange: bytes that this rank sends}, counted for n keys in float32."""
    q = k = v = torch.zeros(n, d, device=ranks.device)
    places, counts = contiguous(n, ranks.size), {"n": n}
    mine = places[ranks.rank]
    for name, way in {
        "partials, one query": lambda: merged_partials(ranks, q[:1], k[mine], v[mine], places),
        "partials, n queries": lambda: merged_partials(ranks, q, k[mine], v[mine], places),
        "ring": lambda: ring(ranks, q[mine], k[mine], v[mine], places),
        "gathered": lambda: gathered_keys(ranks, q[mine], k[mine], v[mine], places),
    }.items():
        before = ranks.sent
        way()
        counts[name] = ranks.sent - before
    return counts


def main():
    """Run the checks; torchrun starts this function in every process.  Returns the exit status."""
    parser = argparse.ArgumentParser(description="Context-parallel attention, checked.")
    parser.add_argument("--count", type=int, nargs="+", default=[], metavar="N",
                        help="print also how many bytes a rank sends for N keys")  # fmt: skip
    options = parser.parse_args()
    if not dist.is_torchelastic_launched():
        parser.error("start it with torchrun: torchrun --nproc-per-node 2 context_parallel.py")
    ranks = Ranks()
    with torch.no_grad():
        passed = check(ranks)
        counts = [volumes(ranks, n) for n in options.count]
    if ranks.rank == 0 and counts:
        print(json.dumps(counts))
    dist.destroy_process_group()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
