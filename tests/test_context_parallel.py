"""Attention over several processes equals one device; a lost or hung process is told.

Three runs under torchrun are shared by the tests below: everything in two and in four
processes, and the self-check as a reader starts it.  What the processes do stands in
``context_parallel_worker.py``.
"""

import os
import re
import signal
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from context_parallel import (
    TOLD,
    bytes_of_partials,
    bytes_of_ring,
    checked,
    contiguous,
    main,
    merge,
    partial_attention,
    reasons,
    striped,
    up_to,
)
from derivation.checks import DTYPES, SEEN, error, normal, tolerance

TESTS = Path(__file__).resolve().parent
SCRIPT = TESTS.parent / "notebooks" / "context_parallel.py"
WORKER = TESTS / "context_parallel_worker.py"
TORCHRUN = ["-m", "torch.distributed.run", "--standalone"]
OURS = "import sys, context_parallel; sys.exit(context_parallel.under_torchrun(int(sys.argv[1]), sys.argv[2], sys.argv[3:]))"  # fmt: skip


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


@cache
def everything(processes):
    """The verdicts of a run: {what was checked: "ok" or "NOT OK"}."""
    out, _ = python(*TORCHRUN, f"--nproc-per-node={processes}", WORKER, "everything", 60)
    lines = [re.fullmatch("(ok|NOT OK) (.*)", line) for line in out.splitlines() if line]
    return {line[2]: line[1] for line in lines}


# ── Under torchrun ────────────────────────────────────────────────────────────────────────

in_two_and_four = pytest.mark.parametrize("processes", [2, 4])


@in_two_and_four
@pytest.mark.parametrize(
    "what, how_many",
    [
        ("(partials|ring|keys and values gathered): float(64|32), ", 72),
        ("key bias, ", 4),
        ("control, a bias on rank 0 alone", 2),
        ("a shard wholly masked|every shard wholly masked", 2),
        ("control, (a plain mean|a forgotten rank|logarithms to base 2)", 6),
        ("bytes counted", 5),
        ("refused: ", 3),
    ],
)
def test_every_rank_passed(processes, what, how_many):
    verdicts = {name: v for name, v in everything(processes).items() if re.match(what, name)}
    assert len(verdicts) == how_many
    assert [name for name, verdict in verdicts.items() if verdict != "ok"] == []


@in_two_and_four
def test_the_bytes_counted_are_those_that_the_kernel_saw(processes):
    verdicts = [v for name, v in everything(processes).items() if name.startswith("bytes written")]
    if not verdicts:
        pytest.skip("only Linux tells what a process wrote, and only gloo writes")
    assert verdicts == ["ok"] * 4


def test_the_self_check_of_a_reader():
    out, err = python(SCRIPT, "--processes", 2)
    lines = out.splitlines()
    assert err == "" and len(lines) == 12
    assert all(re.match(r"PASS  2 processes, float(64|32): ", line) for line in lines)


# ── A process is lost, or hangs ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "processes, work, timeout, sentence",
    [
        (4, "lost-in-the-ring", 20, r"rank 2 (was ended by SIGKILL|did not come)"),
        (2, "hangs-at-the-end", 4, r"rank 1 did not come to the end \(timeout: 4 s\)"),
    ],
)
def test_a_missing_rank_ends_the_run_with_one_sentence(processes, work, timeout, sentence):
    _, err = python("-c", OURS, processes, WORKER, work, timeout, expect=1)
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
    told = failure(TOLD, "rank 1 did not come")
    assert reasons({0: swept, 1: killed}) == ["rank 1 was ended by SIGKILL"]
    assert reasons({0: raised, 1: swept}) == ["rank 0 ended with exit status 1"]
    assert reasons({0: told, 1: swept, 2: told}) == ["rank 1 did not come"]
    assert reasons({0: told, 1: killed}) == ["rank 1 did not come", "rank 1 was ended by SIGKILL"]
    assert reasons({1: swept}) == ["rank 1 was ended by SIGTERM"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ("", "say --processes 2, or start this with torchrun"),
        ("--processes 0", "say --processes 2"),
        ("--processes 2 --hang 2", "there is no rank 2 among 2 processes"),
    ],
)
def test_a_wrong_start_is_refused(arguments, words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    assert words in capsys.readouterr().err


# ── On one device: parts of attention, and their merge ────────────────────────────────────


def in_parts(q, k, v, places, queries=None):
    parts = [
        partial_attention(q, k[:, own], v[:, own], None if queries is None else up_to(queries, own))
        for own in places
    ]
    return merge(*map(torch.stack, zip(*parts)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("deal", [contiguous, striped])
@pytest.mark.parametrize("parts", [1, 2, 5, 13])
def test_parts_merge_to_the_whole(dtype, deal, parts):
    n, d = 11, 16
    q, k, v = normal(3, 2, n, d, dtype=dtype).unbind()
    bound = tolerance(dtype, (d, n, n, parts, parts), shift=4)
    out, lse = in_parts(q, k, v, deal(n, parts))
    assert error(out, F.scaled_dot_product_attention(q, k, v)) <= bound
    scores = (q.double() @ k.double().mT) / d**0.5
    assert error(lse, scores.logsumexp(-1, keepdim=True)) <= bound
    out, _ = in_parts(q, k, v, deal(n, parts), torch.arange(n))
    assert error(out, F.scaled_dot_product_attention(q, k, v, is_causal=True)) <= bound


def test_a_query_that_sees_nothing_gets_what_pytorch_gives_it():
    q, k, v = normal(3, 1, 6, 4).unbind()
    hidden = torch.zeros(6, 6, dtype=torch.bool)
    out, lse = partial_attention(q, k, v, hidden)
    assert torch.equal(out, F.scaled_dot_product_attention(q, k, v, attn_mask=hidden))
    assert (lse == -torch.inf).all()
    both, lse = merge(torch.stack([out, out]), torch.stack([lse, lse]))
    assert torch.equal(both, out) and (lse == -torch.inf).all()


def test_large_scores_do_not_overflow():
    q, k, v = normal(3, 1, 6, 4, dtype=torch.float32).unbind()
    out, _ = in_parts(100 * q, 100 * k, v, contiguous(6, 3))
    largest = (100 * q @ (100 * k).mT / 2).abs().max().item()
    bound = tolerance(torch.float32, (4, 6, 6, 3, 3), shift=largest)
    assert error(out, F.scaled_dot_product_attention(100 * q, 100 * k, v)) <= bound < 0.1


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_plain_mean_is_seen_to_be_wrong(dtype):
    q, k, v = normal(3, 2, 11, 16, dtype=dtype).unbind()
    outs = torch.stack([partial_attention(q, k[:, p], v[:, p])[0] for p in contiguous(11, 3)])
    bound = tolerance(dtype, (16, 11, 11, 3, 3), shift=4)
    assert error(outs.mean(0), F.scaled_dot_product_attention(q, k, v)) > SEEN[dtype] * bound


@pytest.mark.parametrize("deal", [contiguous, striped])
@pytest.mark.parametrize("n, ranks", [(1, 1), (7, 3), (2, 5), (8, 4)])
def test_every_position_is_dealt_once_and_evenly(deal, n, ranks):
    places = deal(n, ranks)
    sizes = [place.numel() for place in places]
    assert len(places) == ranks and max(sizes) - min(sizes) <= 1
    assert torch.equal(torch.cat(list(places)).sort().values, torch.arange(n))
    assert checked(places, 0, torch.zeros(sizes[0], 2)) is places


def test_a_key_that_lies_nowhere_is_refused():
    with pytest.raises(ValueError, match="position 1 is on 0 ranks"):
        checked([torch.tensor([0]), torch.tensor([2])], 0, torch.zeros(1, 2))


def test_the_volume_is_the_formula():
    assert bytes_of_partials(2, queries=1, d=16) == 17 * 4
    assert bytes_of_partials(4, queries=10, d=16, heads=3) == 3 * 10 * 17 * 3 * 4
    assert bytes_of_ring(4, n=100, d=16) == 3 * 25 * 2 * 16 * 4
