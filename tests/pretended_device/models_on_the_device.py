"""What ``redundancy`` says of a model it says of it on the device.

Chapter 12 audits and folds models on the CPU, where transformers makes them; a reader's model may
lie elsewhere.  Run by ``make nightly ONLY=device``, not by ``make test``: this process has an accelerator.
"""

import copy

import pytest
from derivation.checks import start
from redundancy import as_rms_norm, audit, fold
from redundancy.precision import generic_copy
from redundancy.zoo import some_inputs, tiny

from tests.pretended_device.device import install
from tests.pretended_device.kernels import Operations

install()
DEVICE = start()


def given(model, device):
    """Inputs that the model takes, on this device."""
    return {name: value.to(device) for name, value in some_inputs(model).items()}


def audited(model, device):
    return audit(model, given(model, device), inject=True)


def folded(model, device):
    return fold(model, given(model, device))


def centred(model, device):
    return as_rms_norm(model, given(model, device))


@pytest.mark.parametrize("ask", [audited, folded, centred])
@pytest.mark.parametrize("name", ["gpt2", "t5", "gpt_oss"])
def test_the_answer_is_the_same(ask, name):
    here = generic_copy(tiny(name))
    there = copy.deepcopy(here).to(DEVICE)
    before = Operations.count
    assert answer(ask, there, DEVICE) == answer(ask, here, "cpu")
    assert Operations.count > before


def answer(ask, model, device):
    """What is printed; a refusal is an answer too."""
    try:
        return str(ask(model, device))
    except ValueError as refusal:
        assert "same device" not in str(refusal)
        return f"{type(refusal).__name__}: {refusal}"


def test_what_a_fold_returns_lies_where_the_model_lay():
    model = fold(generic_copy(tiny("gpt2")).to(DEVICE)).model
    assert {parameter.device.type for parameter in model.parameters()} == {DEVICE.type}


@pytest.mark.xfail(strict=True, reason="some_inputs draws on the CPU, wherever the model lies")
def test_an_audit_draws_its_inputs_where_the_model_lies():
    assert "agree" in str(audit(generic_copy(tiny("gpt2")).to(DEVICE)))
