"""The imagined processor changes only results that real processors may round differently."""

from pathlib import Path

import pytest
import torch
from small_notebooks import nbval, written
from torch.nn import functional as F

from tests.processors.imagined import LAYOUT, OtherProcessor
from tools.files import NOTEBOOKS

#: {title: (function, the most units in the last place by which its result may change)}.
#: Every notebook tests that the results of operations fixed by IEEE 754 do not change.
RESULTS = {
    "a product added": (lambda x: torch.addmm(x[:, :1], x, x.T), 7),
    "a long product": (lambda x: x.T @ torch.ones(len(x), 1).to(x), 6),
    "a sum": (lambda x: x.sum(0), 6),
    "layer norm": (lambda x: F.layer_norm(x, x.shape[1:]), 10**9),
    "exp in place": (lambda x: x.clone().exp_(), 1),
    "a list": (lambda x: torch.stack(torch.std_mean(x, dim=1)), 7),
    "a product of two": (lambda x: x * x.flip(0), 0),
    "whole numbers": (lambda x: x[:, :6].round() @ x[:, :6].round().T, 0),
}


@pytest.mark.parametrize("name", RESULTS)
@pytest.mark.parametrize("dtype", LAYOUT, ids=str)
def test_only_rounded_results_change_by_few_units(name, dtype):
    call, most = RESULTS[name]
    generator = torch.Generator().manual_seed(0)
    x = (torch.rand(30, 40, generator=generator, dtype=torch.float64) + 0.25).to(dtype)
    here = call(x)
    with OtherProcessor(1):
        there = call(x)
    integers, _ = LAYOUT[here.dtype]
    moved = there.contiguous().view(integers).long() - here.contiguous().view(integers).long()
    assert bool(moved.any()) == (most > 0)
    assert moved.abs().max() <= most


MADE = "import torch\nx = torch.arange(1, 50, dtype=torch.float64) / 7"
RELIES = "print(x.exp().sum().item())"
FREE = "print((x * 7).sum().item(), '%.9f' % x.exp().sum().item())"


def test_a_cell_that_relies_on_the_last_digit_fails(tmp_path):
    total = (torch.arange(1, 50, dtype=torch.float64) / 7).exp().sum().item()
    said = [f"{total}\n", f"1225.0 {total:.9f}\n"]
    written(tmp_path / "some.ipynb", MADE, RELIES, FREE, said=said)
    path = f"{Path(__file__).parent}:{NOTEBOOKS}"
    _, verdicts = nbval(tmp_path, PYTHONPATH=path, IMAGINED_PROCESSOR="1")
    failed = [cell for (_, cell), verdict in verdicts.items() if verdict != "PASSED"]
    assert len(verdicts) == 3 and failed == ["Cell 1"]
