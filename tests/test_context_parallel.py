"""Attention over several processes refuses misuse before it sends anything.

In chapter 16b, `context_parallel.py` itself checks that each method agrees with one device.
"""

import subprocess
import sys
from types import SimpleNamespace

import context_parallel
import pytest
import torch
import torch.nn.functional as F
from context_parallel import Ranks, contiguous, merge, partial_attention, ring
from derivation.checks import error, normal, tolerance

#: A rank without methods that send, so that any exchange would raise AttributeError.
FIRST = SimpleNamespace(rank=0, size=2)
#: (words of the refusal, the positions on the last rank, the number of keys on the first)
MISPLACED = [
    ("position 0 is on 2 ranks", [*range(8, 16), 0], 8),
    ("position 8 is on 0 ranks", [*range(9, 17)], 8),
    ("given 16 keys for its 8 positions", [*range(8, 16)], 16),
]


@pytest.mark.parametrize("words, last, keys", MISPLACED)
def test_misplaced_keys_are_refused(words, last, keys):
    q, k = normal(8, 4), normal(keys, 4)
    with pytest.raises(ValueError, match=words):
        ring(FIRST, q, k, k, [torch.arange(8), torch.tensor(last)])


def test_sending_a_tensor_that_requires_gradients_is_refused():
    keys = normal(8, 4).requires_grad_()
    for send, rest in ((Ranks.gather, ()), (Ranks.pass_on, (keys.shape,))):
        with pytest.raises(ValueError, match="no gradient flows"):
            send(FIRST, keys, *rest)


def test_a_start_without_torchrun_prints_the_command():
    command = [sys.executable, context_parallel.__file__]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 2 and "start it with torchrun: torchrun --nproc" in run.stderr


def test_large_scores_do_not_overflow_and_a_query_without_keys_gets_zeros():
    q, k, v = normal(3, 1, 6, 4, dtype=torch.float32).unbind()
    q, k = 100 * q, 100 * k
    parts = [partial_attention(q, k[:, own], v[:, own]) for own in contiguous(6, 3)]
    out, lse = merge(*map(torch.stack, zip(*parts)))
    scores = q @ k.mT / 2
    within = tolerance(torch.float32, (4, 6, 6, 3, 3), shift=scores.abs().max().item())
    assert error(out, F.scaled_dot_product_attention(q, k, v)) <= within < 0.1
    assert error(lse, scores.logsumexp(-1, keepdim=True)) <= within
    hidden = [partial_attention(q, k, v, torch.zeros(6, 6, dtype=torch.bool))] * 2
    assert not merge(*map(torch.stack, zip(*hidden)))[0].any()
