"""The imagined processor is in force where it should be, and nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from small_notebooks import written
from torch.nn import functional as F

from tests.processors.imagined import LAYOUT, OtherProcessor

ROOT = Path(__file__).parents[2]
FINE = torch.float64, torch.float32


def numbers(*shape, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)
    return torch.rand(shape, generator=generator, dtype=torch.float64).to(dtype) + 0.25


ROUNDED = {
    "sum": lambda x: x.sum(1),
    "matrix product": lambda x: x @ x.T,
    "a product added": lambda x: torch.addmm(x[:, :1], x, x.T),
    "softmax": lambda x: x.softmax(1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "exp in place": lambda x: x.clone().exp_(),
    "exp into another": lambda x: torch.exp(x, out=torch.empty_like(x)),
    "square root": torch.sqrt,
    "a multiple added": lambda x: torch.add(x, x.sqrt(), alpha=1 / 3),
}
ROUNDED_IF_FINE = {
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "solving": lambda x: torch.linalg.solve(x[:, : len(x)] + torch.eye(len(x)).to(x), x),
    "singular values": torch.linalg.svdvals,
    "steps": lambda x: torch.linspace(0.1, 0.7, 40, dtype=x.dtype),
    "complex": lambda x: torch.view_as_real(torch.polar(x, x)),
    "a list": lambda x: torch.stack(torch.std_mean(x, dim=1)),
}
#: What IEEE 754 fixes: of this, every notebook is a test.
FIXED = {
    "a product of two": lambda x: x * x.flip(0),
    "conversion": lambda x: x.to(torch.bfloat16),
    "a product of whole numbers": lambda x: x[:, :6].round() @ x[:, :6].round().T,
}


def moves(call, x, seed=1):
    """By how many neighbours each entry differs on the imagined processor."""
    here = call(x)
    with OtherProcessor(seed):
        there = call(x)
    integers, _ = LAYOUT[here.dtype]
    return there.contiguous().view(integers).long() - here.contiguous().view(integers).long()


@pytest.mark.parametrize("name", ROUNDED | ROUNDED_IF_FINE)
def test_what_is_rounded_ends_in_another_digit(name):
    for dtype in LAYOUT if name in ROUNDED else FINE:
        x = numbers(30, 40, dtype=dtype)
        assert moves((ROUNDED | ROUNDED_IF_FINE)[name], x).any(), dtype


@pytest.mark.parametrize("name", FIXED)
def test_what_ieee_754_fixes_is_left_alone(name):
    for dtype in LAYOUT:
        assert not moves(FIXED[name], numbers(30, 40, dtype=dtype)).any()


def test_how_far_a_number_moves():
    found = [moves(torch.exp, numbers(4000), seed) for seed in (1, 2, 3)]
    assert all(set(steps.tolist()) == {-1, 0, 1} for steps in found)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (found[one] != found[other]).double().mean() > 1 / 3  # of 2/3 to be expected
    for call in (lambda x: x.sum(0), lambda x: x.mT @ torch.ones(len(x), 1).to(x)):
        assert moves(call, numbers(100, 4000)).abs().max() == 10
        assert moves(call, numbers(4000, 300)).abs().max() == 16
        half = numbers(100, 4000, dtype=torch.bfloat16)
        assert moves(call, half).abs().max() == 1  # summed in float32, rounded once


X = torch.arange(1, 50, dtype=torch.float64) / 7
MADE = "import torch\nx = torch.arange(1, 50, dtype=torch.float64) / 7"
RELIES = "print(x.exp().sum().item())"
FREE = "print((x * 7).sum().item(), '%.9f' % x.exp().sum().item())"


def test_a_cell_that_relies_on_the_last_digit_is_named(tmp_path):
    total = X.exp().sum().item()
    said = [f"{total}\n", f"{(X * 7).sum().item()} {total:.9f}\n"]
    written(tmp_path / "relies.ipynb", MADE, RELIES, FREE, said=said)
    command = "-m tests.processors --seeds 1 --variants two-threads --".split()
    said = subprocess.run(
        [sys.executable, *command, str(tmp_path / "relies.ipynb")],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "IPYTHONDIR": str(tmp_path / "ipython")},
        capture_output=True,
        text=True,
    ).stdout
    assert "relies.ipynb::Cell 1" in said and "relies.ipynb::Cell 2" not in said
    assert said.splitlines()[-2:] == [
        "imagined processor 1: DIFFERS",
        "two-threads: as stored and stated",
    ]


@pytest.mark.parametrize("name, perturbed", [("context_parallel.py", True), ("other.py", False)])
def test_the_ranks_of_chapter_14_are_perturbed_and_no_other_process(tmp_path, name, perturbed):
    from tests.processors.__main__ import imagined

    (tmp_path / name).write_text(f"{MADE}\n{RELIES}\n")
    run = [sys.executable, tmp_path / name]
    said = [subprocess.check_output(run, env=os.environ | e) for e in ({}, imagined(1))]
    assert (said[0] != said[1]) is perturbed
