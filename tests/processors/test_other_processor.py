"""The imagined processor is in force where it should be, and nowhere else."""

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
import torch
from torch import nn
from torch.func import jacrev, jvp, vmap
from torch.nn import functional as F

from tests.processors import __main__ as runner
from tests.processors.operations import FIXED, ROUNDED, SCALED
from tests.processors.other_processor import LAYOUT, OtherProcessor, Unclassified

ROOT = Path(__file__).parents[2]
SEEDS = (1, 2, 3)
DTYPES = tuple(LAYOUT)


def numbers(*shape, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(shape, generator=generator, dtype=torch.float64).to(dtype) + 0.25


def in_place(function):
    return lambda x: function(x.clone())


ONES = {"alpha": 1.0}
ROUNDED_CALLS = {
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "matrix product": lambda x: x @ x.T,
    "a product added": lambda x: torch.addmm(x[:, :1], x, x.T),
    "softmax": lambda x: x.softmax(1),
    "log_softmax": lambda x: x.log_softmax(1),
    "layer norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "exp": torch.exp,
    "exp in place": in_place(torch.Tensor.exp_),
    "exp into another": lambda x: torch.exp(x, out=torch.empty_like(x)),
    "square root": torch.sqrt,
    "a power": lambda x: x**1.5,
    "a multiple added": lambda x: torch.add(x, x.sqrt(), alpha=1 / 3),
}
FINE_CALLS = {  # in float64 and float32 alone
    "batch norm": lambda x: F.batch_norm(x, None, None, training=True),
    "variance": lambda x: x.var(1),
    "norm": lambda x: torch.linalg.vector_norm(x, dim=1),
    "convolution": lambda x: F.conv1d(x[None], x.T[:, :, None]),
    "attention": lambda x: F.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None]),
    "solving": lambda x: torch.linalg.solve(x[:, : len(x)] + torch.eye(len(x)).to(x), x),
    "singular values": torch.linalg.svdvals,
    "steps": lambda x: torch.linspace(0.1, 0.7, 40, dtype=x.dtype),
    "complex": lambda x: torch.polar(x, x),
    "a list": lambda x: torch.stack(torch.std_mean(x, dim=1)),
}  # fmt: skip
ROUNDED_CALLS |= FINE_CALLS
FIXED_CALLS = {
    "+": lambda x: x + x.flip(0),
    "-": lambda x: x - x.flip(0),
    "*": lambda x: x * x.flip(0),
    "/": lambda x: x / x.flip(0),
    "conversion": lambda x: x.to(torch.bfloat16),
    "relu": lambda x: (x - 0.5).relu(),
    "maximum": lambda x: x.max(1).values,
    "choice": lambda x: torch.where(x > 0.5, x, -x),
    "whole numbers": lambda x: x[:, :6].ceil().sum(1),
    "a product of whole numbers": lambda x: x[:, :6].round() @ x[:, :6].round().T,
    "large whole numbers of few digits": lambda x: (x[:, :6].round() * 2.0**12).sum(1),
    "many whole numbers": lambda x: torch.ones(1000).to(x).sum()[None],
    "exp of zero": lambda x: (0 * x).exp(),
}


def both(call, x, seed=1):
    """What this processor makes of it, and what the imagined one."""
    here = call(x)
    with OtherProcessor(seed):
        return here, call(x)


def moves(here, there):
    """By how many neighbours each entry has moved."""
    if here.is_complex():
        here, there = torch.view_as_real(here), torch.view_as_real(there)
    integers, _ = LAYOUT[here.dtype]
    return there.contiguous().view(integers).long() - here.contiguous().view(integers).long()


@pytest.mark.parametrize("name", ROUNDED_CALLS)
def test_what_is_rounded_ends_in_another_digit(name):
    for dtype in DTYPES[:2] if name in FINE_CALLS else DTYPES:
        assert moves(*both(ROUNDED_CALLS[name], numbers(30, 40, dtype=dtype))).any(), dtype


@pytest.mark.parametrize("name", FIXED_CALLS)
def test_what_ieee_754_fixes_is_left_alone(name):
    for dtype in DTYPES:
        here, there = both(FIXED_CALLS[name], numbers(30, 40, dtype=dtype))
        assert torch.equal(here, there)


def test_a_number_moves_to_a_neighbour_up_and_down_by_the_seed():
    found = []
    for seed in SEEDS:
        here, there = both(torch.exp, numbers(4000), seed)
        assert set(moves(here, there).tolist()) == {-1, 0, 1}
        found.append(there)
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (found[one] != found[other]).double().mean() > 1 / 3  # of 2/3 to be expected


def test_a_sum_of_n_numbers_moves_by_up_to_the_root_of_n_units():
    for call in (lambda x: x.sum(0), lambda x: x.mT @ torch.ones(len(x), 1).to(x)):
        steps = moves(*both(call, numbers(100, 4000))).abs()
        assert set(steps.flatten().tolist()) == set(range(11))
        assert moves(*both(call, numbers(4000, 300))).abs().max() == 16
        half = moves(*both(call, numbers(100, 4000, dtype=torch.bfloat16))).abs()
        assert half.max() == 1  # summed in float32, rounded once


def test_equal_computations_stay_equal():
    x = numbers(30, 40)
    with OtherProcessor(1):
        total = x.sum(1)
        assert torch.equal(total, x.clone().sum(1))
        assert torch.equal(-total, (-x).sum(1)) and torch.equal(2 * total, (2 * x).sum(1))
    with OtherProcessor(1):
        assert torch.equal(total, x.sum(1))
    with OtherProcessor(2):
        assert not torch.equal(total, x.sum(1))
    assert not torch.equal(total, x.sum(1))


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # by torch's own jvp
def test_gradients_and_jacobians_still_flow():
    x = numbers(5, 8)
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).double()

    def gradient(x):
        layer.zero_grad()
        layer(x).square().sum().backward()
        return torch.cat([p.grad.flatten() for p in layer.parameters()])

    calls = {
        "backward": gradient,
        "jacrev": jacrev(lambda x: x.softmax(1).sum(0)),
        "jvp": lambda x: jvp(torch.tanh, (x,), (x,))[1],
        "vmap of jacrev": vmap(jacrev(lambda row: (row.softmax(0) @ x.T).exp())),
    }
    for name, call in calls.items():
        here, there = both(call, x)
        assert moves(here, there).any(), name
        assert (here - there).abs().max() < 1e-10 * here.abs().max(), name


# ---- no operation is overlooked


def test_each_operation_stands_in_one_list_and_is_torch_s():
    assert not ROUNDED & FIXED and not SCALED & (ROUNDED | FIXED)
    known = {name.split("::")[1].split(".")[0].rstrip("_") for name in torch._C._dispatch_get_all_op_names()}  # fmt: skip
    assert ROUNDED | FIXED | SCALED <= known


def test_an_operation_in_no_list_is_an_error():
    library = torch.library.Library("imagined", "DEF")
    library.define("bessel(Tensor x) -> Tensor")
    library.impl("bessel", lambda x: x * 2, "CompositeExplicitAutograd")
    bessel = torch.ops.imagined.bessel
    with OtherProcessor(1):
        assert bessel(torch.arange(3)).tolist() == [0, 2, 4]  # whole numbers: nothing is rounded
        with pytest.raises(Unclassified, match="'bessel'"):
            bessel(numbers(3))


# ---- notebooks

X = "torch.arange(1, 50, dtype=torch.float64) / 7"
RELIES = f"print(({X}).exp().sum().item())"
FREE = f"print(({X} * 7).sum().item(), '%.9f' % ({X}).exp().sum().item())"


def notebook(folder):
    """A notebook as it would be stored here: its first cell imports, its second relies on a digit."""
    x = torch.arange(1, 50, dtype=torch.float64) / 7
    total = x.exp().sum().item()
    printed = {"import torch": None, RELIES: total, FREE: f"{(x * 7).sum().item()} {total:.9f}"}
    cells = []
    for source, text in printed.items():
        shown = [] if text is None else [nbformat.v4.new_output("stream", text=f"{text}\n")]
        cells.append(nbformat.v4.new_code_cell(source, execution_count=1, outputs=shown))
    nbformat.write(nbformat.v4.new_notebook(cells=cells), folder / "relies.ipynb")
    return folder / "relies.ipynb"


def test_a_cell_that_relies_on_the_last_digit_is_named(tmp_path):
    command = [
        sys.executable,
        "-m",
        "tests.processors",
        "--seeds",
        "1",
        "--variants",
        "two-threads",
    ]
    mine = os.environ | {"OMP_NUM_THREADS": "1", "IPYTHONDIR": str(tmp_path / "ipython")}
    said = subprocess.run(
        [*command, "--", str(notebook(tmp_path))],
        cwd=ROOT,
        env=mine,
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
    (tmp_path / name).write_text(f"import torch\n{RELIES}\n")
    command, total = [sys.executable, tmp_path / name], []
    for environment in ({}, runner.imagined(1)):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
        total.append(subprocess.check_output(command, env=environment))
    assert (total[0] != total[1]) is perturbed


@pytest.mark.skipif(sys.platform != "linux", reason="how a processor says what it can is Linux's")
def test_a_variant_is_in_force_where_the_processor_has_it():
    assert runner.in_force("two-threads") is (torch.get_num_threads() is not None)
    flags = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    if " avx2 " in flags:
        assert runner.in_force("avx2") and runner.in_force("no-avx")
