"""Attention over several processes equals one device; a lost or hung process is told.

This file is also what every one of these processes runs:

    torchrun --standalone --nproc-per-node 2 test_context_parallel.py everything 60

prints a line for each check, on rank 0; other words lose a rank on purpose.  The number is the
timeout in seconds.  What a reader can start, chapter 16 does.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from context_parallel import (
    TOLD,
    Ranks,
    bytes_of_partials,
    bytes_of_ring,
    checked,
    contiguous,
    gathered_keys,
    main,
    merge,
    merged_partials,
    partial_attention,
    reasons,
    ring,
    striped,
    told,
    up_to,
)
from derivation.checks import SEEN, error, normal, tolerance

SCRIPT = Path(__file__).resolve().parent.parent / "notebooks" / "context_parallel.py"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone"]
OURS = "import sys, context_parallel; sys.exit(context_parallel.under_torchrun(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))"  # fmt: skip
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
    """As many bytes are counted as the formula says, and the kernel saw so many leave."""
    counted, written = ranks.sent, bytes_written()
    run()
    counted, written = ranks.sent - counted, bytes_written() - written
    yield f"bytes counted: {what}", counted == formula
    if bytes_written():  # the numbers and gloo's headers
        yield f"bytes written: {what}", counted <= written <= counted + 2000


def bytes_written():
    """Bytes that this process handed to the kernel so far; 0 where the kernel does not tell."""
    if not Path("/proc/self/io").exists() or torch.cuda.is_available():
        return 0
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(counts["wchar"])


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


def everything(ranks):
    with torch.no_grad():
        for what, passed in (verdict for check in CHECKS for verdict in check(ranks)):
            everyone = ranks.gather(torch.tensor([bool(passed)]).to(ranks.device, torch.uint8))
            if ranks.rank == 0:
                print("ok" if everyone.all() else "NOT OK", what, flush=True)
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


def hangs_at_the_end(ranks):
    """All is computed, but a rank never says so."""
    ranks.gather(torch.zeros(4, device=ranks.device))
    if ranks.rank == 1:
        time.sleep(600)
    ranks.leave()


# ── The tests: of what the processes said, and of how a run ends ──────────────────────────


def python(*arguments, expect=0):
    """Standard output and error of a Python process that ends with the status expected."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SCRIPT.parent)}
    with tempfile.TemporaryDirectory() as folder:  # torchrun leaves its logs behind
        run = subprocess.Popen(
            [sys.executable, *map(str, arguments)], env=environment | {"TMPDIR": folder},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            out, err = run.communicate(timeout=300)
        except subprocess.TimeoutExpired:
            run.terminate()  # torchrun then ends its processes; killed, it would leave them
            run.communicate(timeout=60)
            raise
    assert run.returncode == expect, out + err
    return out, err


@pytest.mark.parametrize("processes", [2, 4])
def test_every_check_passes_on_every_rank(processes):
    out, _ = python(*TORCHRUN, f"--nproc-per-node={processes}", __file__, "everything", 60)
    lines = [line for line in out.splitlines() if line]
    assert [line for line in lines if not line.startswith("ok ")] == []
    written = sum("bytes written" in line for line in lines)
    assert written in (0, 5)  # only Linux tells what a process wrote, and only gloo writes
    assert len(lines) - written == 72 + 6 + 2 + 6 + 5 + 3


@pytest.mark.parametrize(
    "processes, work, timeout, sentence",
    [
        (4, "lost_in_the_ring", 20, r"rank 2 (was ended by SIGKILL|did not come)"),
        (2, "hangs_at_the_end", 4, r"rank 1 did not come to the end \(timeout: 4 s\)"),
    ],
)
def test_a_missing_rank_ends_the_run_with_one_sentence(processes, work, timeout, sentence):
    _, err = python("-c", OURS, processes, __file__, work, timeout, expect=1)
    assert re.fullmatch(rf"stopped: {sentence}[^\n]*\n", err), err


def test_plain_torchrun_reports_the_sentence_too():
    options = ["--nproc-per-node=2", SCRIPT, "--hang", 1, "--timeout", 4]
    _, err = python(*TORCHRUN, *options, expect=1)
    assert "rank 1 did not come to exchange 1 (timeout: 4 s)" in err


def test_the_reasons_are_those_of_the_ranks_and_not_what_torchrun_swept_away():
    def failure(exitcode, message=""):
        name = signal.Signals(-exitcode).name if exitcode < 0 else ""
        return SimpleNamespace(exitcode=exitcode, message=message, signal_name=lambda: name)

    swept, killed, raised = failure(-15), failure(-9), failure(1)
    missed = failure(TOLD, "rank 1 did not come")
    assert reasons({0: swept, 1: killed}) == ["rank 1 was ended by SIGKILL"]
    assert reasons({0: raised, 1: swept}) == ["rank 0 ended with exit status 1"]
    assert reasons({0: missed, 1: swept, 2: missed}) == ["rank 1 did not come"]
    assert reasons({0: missed, 1: killed}) == ["rank 1 did not come", "rank 1 was ended by SIGKILL"]
    assert reasons({1: swept}) == ["rank 1 was ended by SIGTERM"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("--processes 0", "say --processes 2, or start this with torchrun"),
        ("--processes 2 --hang 2", "there is no rank 2 among 2 processes"),
    ],
)
def test_a_wrong_start_is_refused(arguments, words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    assert words in capsys.readouterr().err


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
    _, work, timeout = sys.argv
    sys.exit(told(lambda: globals()[work](Ranks(timeout=float(timeout)))))
