"""The imagined processor moves what processors may round differently, and finds who relies on it."""

from pathlib import Path

import pytest
import torch
from small_notebooks import nbval, written
from torch.nn import functional as F

from tests.processors.imagined import LAYOUT, OtherProcessor


def numbers(*shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return torch.rand(shape, generator=generator, dtype=torch.float64).to(dtype) + 0.25


#: A result, and whether its entries move.  Of what IEEE 754 fixes, every notebook is a test.
RESULTS = {
    "a product added": (lambda x: torch.addmm(x[:, :1], x, x.T), True),
    "layer norm": (lambda x: F.layer_norm(x, x.shape[1:]), True),
    "exp in place": (lambda x: x.clone().exp_(), True),
    "a list": (lambda x: torch.stack(torch.std_mean(x, dim=1)), True),
    "a product of two": (lambda x: x * x.flip(0), False),
    "whole numbers": (lambda x: x[:, :6].round() @ x[:, :6].round().T, False),
}


def moves(call, x, seed=1):
    """By how many neighbours each entry differs on the imagined processor."""
    here = call(x)
    with OtherProcessor(seed):
        there = call(x)
    integers, _ = LAYOUT[here.dtype]
    return there.contiguous().view(integers).long() - here.contiguous().view(integers).long()


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("dtype", LAYOUT, ids=str)
def test_what_is_rounded_ends_in_another_digit(name, dtype):
    call, rounded = RESULTS[name]
    assert bool(moves(call, numbers(30, 40, dtype=dtype)).any()) is rounded


def test_how_far_a_number_moves():
    one, other = (moves(torch.exp, numbers(4000), seed) for seed in (1, 2))
    assert set(one.tolist()) == set(other.tolist()) == {-1, 0, 1}
    assert (one != other).double().mean() > 1 / 3  # of 2/3 to be expected
    for call in (lambda x: x.sum(0), lambda x: x.mT @ torch.ones(len(x), 1).to(x)):
        assert moves(call, numbers(100, 4000)).abs().max() == 10
        assert moves(call, numbers(4000, 300)).abs().max() == 16
        half = numbers(100, 4000, dtype=torch.bfloat16)
        assert moves(call, half).abs().max() == 1  # summed in float32, rounded once


MADE = "import torch\nx = torch.arange(1, 50, dtype=torch.float64) / 7"
RELIES = "print(x.exp().sum().item())"
FREE = "print((x * 7).sum().item(), '%.9f' % x.exp().sum().item())"


def test_a_cell_that_relies_on_the_last_digit_is_named(tmp_path):
    x = torch.arange(1, 50, dtype=torch.float64) / 7
    total = x.exp().sum().item()
    written(
        tmp_path / "some.ipynb", MADE, RELIES, FREE, said=[f"{total}\n", f"1225.0 {total:.9f}\n"]
    )
    path = f"{Path(__file__).parent}:{Path(__file__).parents[2] / 'notebooks'}"
    _, verdicts = nbval(tmp_path, PYTHONPATH=path, IMAGINED_PROCESSOR="1")
    failed = [cell for (_, cell), verdict in verdicts.items() if verdict != "PASSED"]
    assert len(verdicts) == 3 and failed == ["Cell 1"]
