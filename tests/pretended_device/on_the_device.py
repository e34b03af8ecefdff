"""What the device refuses, by itself, in a notebook and in ``redundancy``.

That it computes what the CPU computes, every notebook shows that prints there what is stored.
Run by ``make nightly ONLY=device``, not with the other tests: this process has an accelerator.
"""

import copy
import operator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal, start
from redundancy import as_rms_norm, audit, fold
from redundancy.precision import generic_copy
from redundancy.zoo import some_inputs, tiny
from small_notebooks import nbval, written
from torch import nn
from torch.func import jacrev, vmap

from tests.pretended_device.device import Operations, install

#: What torch says of itself: deprecated parts that it loads, and a slow way through vmap.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]

install()
DEVICE = start()


@pytest.fixture
def here():
    return normal(3, 4)


@pytest.fixture
def there():
    return normal(3, 4, device=DEVICE)


def test_torch_reports_an_accelerator_and_the_notebooks_take_it():
    assert torch.accelerator.is_available()
    assert torch.accelerator.current_accelerator().type == DEVICE.type == "pretended"
    assert not torch.cuda.is_available()


#: Each mixes the devices, and raises on a GPU.
MIXES = {
    "a sum": lambda here, there: there + here,
    "a sum in place": lambda here, there: there.add_(here),
    "a mask of the CPU": lambda here, there: there.masked_fill(here > 0, 0.0),
    "an index of the device": lambda here, there: here[torch.tensor([0], device=DEVICE)],
    "a module of the CPU": lambda here, there: nn.Linear(4, 4).double()(there),
    "a convolution": lambda here, there: F.conv1d(there[:, None], here[:, None]),
    "attention": lambda here, there: F.scaled_dot_product_attention(there, here, here),
    "a place to write": lambda here, there: torch.add(here, here, out=there),
    "vmap": lambda here, there: vmap(torch.dot, in_dims=(0, None))(there, here[0]),
    "a Jacobian": lambda here, there: jacrev(lambda x: x @ here.T)(there),
}


@pytest.mark.parametrize("mix", MIXES.values(), ids=MIXES)
def test_it_does_not_mix_with_the_cpu(mix, here, there):
    with pytest.raises(RuntimeError, match="same device|on cpu or on the same device"):
        mix(here, there)


def test_numpy_does_not_see_it(there):
    for look in (there.numpy, lambda: np.asarray(there), lambda: np.array([there[0], there[1]])):
        with pytest.raises(TypeError, match="to numpy. Use Tensor.cpu"):
            look()
    assert there.cpu().numpy().shape == (3, 4)


def test_a_module_that_is_moved_keeps_its_weights():
    module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    module[1].weight = module[0].weight
    weights = list(module.parameters())
    module.to(DEVICE).double()
    assert module[0].weight is module[1].weight is weights[0]
    assert all(map(operator.is_, weights, module.parameters()))
    assert {type(w) for w in weights} == {nn.Parameter}
    assert {(w.device.type, w.dtype) for w in weights} == {(DEVICE.type, torch.float64)}
    weights[0].data = torch.zeros(4, 4)
    assert module[1].weight.device.type == "cpu" and module[1].weight.requires_grad


def draws(device):
    return F.dropout(torch.ones(64, device=device)).cpu(), torch.rand(64, device=device).cpu()


def test_its_random_numbers_are_its_own():
    start(seed=3)
    one = draws(DEVICE) + draws("cpu")
    start(seed=3)
    other = draws("cpu"), draws(DEVICE)
    for first, second in zip(one[:2] + one[2:], other[1] + other[0]):
        assert torch.equal(first, second)
    assert not torch.equal(one[0], one[2]) and not torch.equal(one[1], one[3])


def test_it_does_not_take_the_dice_of_the_cpu():
    with pytest.raises(RuntimeError, match="device type for generator"):
        torch.randn(3, device=DEVICE, generator=torch.Generator())


# ---- redundancy: a reader's model may lie on the device


ASKED = {
    "audit": lambda model, inputs: audit(model, inputs, inject=True),
    "fold": fold,
    "as_rms_norm": as_rms_norm,
}


def answer(ask, model, device):
    """What is printed; a refusal is an answer too."""
    inputs = {name: value.to(device) for name, value in some_inputs(model).items()}
    try:
        return str(ask(model, inputs))
    except ValueError as refusal:
        assert "same device" not in str(refusal)
        return f"{type(refusal).__name__}: {refusal}"


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("name", ["gpt2", "t5", "gpt_oss"])
def test_what_is_said_of_a_model_is_said_on_the_device(ask, name):
    model = generic_copy(tiny(name))
    on_the_device = copy.deepcopy(model).to(DEVICE)
    before = Operations.count
    assert answer(ask, on_the_device, DEVICE) == answer(ask, model, "cpu")
    assert Operations.count > before


def test_what_a_fold_returns_lies_where_the_model_lay():
    model = fold(generic_copy(tiny("gpt2")).to(DEVICE)).model
    assert {parameter.device.type for parameter in model.parameters()} == {DEVICE.type}


@pytest.mark.xfail(strict=True, reason="some_inputs draws on the CPU, wherever the model lies")
def test_an_audit_draws_its_inputs_where_the_model_lies():
    assert "agree" in str(audit(generic_copy(tiny("gpt2")).to(DEVICE)))


# ---- notebooks

START = "from derivation.checks import control, normal, start\n\ndevice = start()"
THERE = "x = normal(4, 4, device=device).square()"
PRINTS = "print(bool((x @ x.T).trace() > 0))"
#: Notebooks of three cells, what the last of them has printed, and which of their tests must fail.
TRIED = {
    "moves-all": ((START, THERE, PRINTS), "True\n", None),
    "prints-other": ((START, THERE, PRINTS), "False\n", "Cell 2"),
    "mixes": ((START, THERE, PRINTS.replace("x.T", "normal(4, 4)")), "True\n", "Cell 2"),
    "moves-nothing": ((START, "x = normal(4, 4)", PRINTS), "True\n", "the device was used"),
    "measures-nothing": (
        (START, THERE, 'control("all", lambda dtype: 1.0, sums=(4,))'),
        "PASS  control: all: error above 1 in float64, float32, bfloat16\n",
        "the device was used",
    ),
    "asks-for-the-cpu": (
        (START.replace("()", '(device="cpu")'), THERE, PRINTS),
        "True\n",
        "the device was used",
    ),
}


def test_a_notebook_fails_where_it_should(tmp_path):
    for name, (sources, printed, _) in TRIED.items():
        written(tmp_path / f"{name}.ipynb", *sources, said=[printed])
    said, verdicts = nbval(tmp_path, "-p", "tests.pretended_device.plugin")
    assert len(verdicts) == 4 * len(TRIED)
    failed = {place for place, verdict in verdicts.items() if verdict != "PASSED"}
    assert failed == {(name, test) for name, (_, _, test) in TRIED.items() if test}
    assert "Expected all tensors to be on the same device" in said
    assert "nothing ran on the device in ['the notebook']" in said
