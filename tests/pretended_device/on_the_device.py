"""Models on the pretended device get the same answers; notebooks that forget to move data fail.

The book's notebooks, which must repeat their stored outputs there, test that the device computes
like the CPU.  ``make nightly ONLY=device`` runs this file alone, as it installs the accelerator.
"""

import copy
from pathlib import Path

import pytest
from derivation.checks import start
from redundancy import as_rms_norm, audit, fold
from redundancy.measure.precision import float64_copy, with_every_bias_random
from redundancy.models.tiny import some_inputs, tiny
from small_notebooks import nbval, written

from tests.pretended_device.device import Operations, install

#: Torch warns of deprecated parts that it loads itself, and of slow code under vmap.
pytestmark = [
    pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning"),
]

install()
DEVICE = start()
# ---- redundancy: a reader's model may be on the device


ASKED = {
    "audit": lambda model, inputs: audit(model, inputs, inject=True),
    "fold": fold,
    "as_rms_norm": as_rms_norm,
}
START = "from derivation.checks import control, normal, start\n\ndevice = start()"
THERE = "x = normal(4, 4, device=device).square()"
PRINTS = "print(bool((x @ x.T).trace() > 0))"
ON_CPU = "control('all', lambda dtype: 1.0, sums=(4,))"
FACTORS = "1,000,000 in float64, 1,000 in float32, 2 in bfloat16"
SAID = f"PASS  control: all: error ≥ bound × {FACTORS}\n"
#: {notebook: (its last cell, the stored output)}; a cell with another output must fail
LAST = {
    "moves-all": (PRINTS, "True\n"),
    "mixes": (PRINTS.replace("x.T", "normal(4, 4)"), "True\n"),
    "measures-nothing": (ON_CPU, SAID),
}


def answer(ask, model, device):
    """The printed answer of ``ask`` for a model on a device, or its refusal."""
    inputs = {name: value.to(device) for name, value in some_inputs(model).items()}
    try:
        return str(ask(model, inputs))
    except ValueError as refusal:
        assert "same device" not in str(refusal)
        return f"{type(refusal).__name__}: {refusal}"


@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
@pytest.mark.parametrize("name", ["gpt2", "t5", "gpt_oss"])
def test_answers_are_the_same_on_the_device(ask, name):
    model = with_every_bias_random(float64_copy(tiny(name)))
    on_the_device = copy.deepcopy(model).to(DEVICE)
    before = Operations.count
    assert answer(ask, on_the_device, DEVICE) == answer(ask, model, "cpu")
    assert Operations.count > before


def test_inputs_and_folded_models_are_on_the_model_s_device():
    model = with_every_bias_random(float64_copy(tiny("gpt2"))).to(DEVICE)
    assert not audit(model).disagreements
    assert {parameter.device.type for parameter in fold(model).model.parameters()} == {DEVICE.type}


def test_a_cell_that_mixes_devices_or_measures_on_the_cpu_fails(tmp_path):
    for name, (last, printed) in LAST.items():
        written(tmp_path / f"{name}.ipynb", START, THERE, last, said=[printed])
    said, verdicts = nbval(tmp_path, PYTHONSTARTUP=str(Path(__file__).with_name("start_up.py")))
    failed = {place for place, verdict in verdicts.items() if verdict != "PASSED"}
    assert len(verdicts) == 9 and failed == {("mixes", "Cell 2"), ("measures-nothing", "Cell 2")}
    assert "Expected all tensors to be on the same device" in said
    assert "Nothing ran on the device" in said
