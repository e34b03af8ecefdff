"""`audit` moves a large model's own biases and reports where its small copy was wrong."""

from dataclasses import replace

import pytest
import torch
from redundancy import audit
from redundancy.audit.confirming import confirm
from redundancy.measure.inputs import as_call
from transformers import GPT2Config, GPT2LMHeadModel


@pytest.fixture(scope="module")
def wide():
    """GPT-2 with three layers, too wide for an audit to count ranks unless the model is shrunk."""
    torch.manual_seed(0)
    return GPT2LMHeadModel(GPT2Config(n_layer=3, n_embd=256, n_head=4)).eval()


@pytest.fixture(scope="module")
def report(wide):
    return audit(wide)


def test_every_bias_of_a_large_model_moves(report):
    moved = next(note for note in report.notes if "in the full model" in note)
    # In each layer b_K goes alone, and ln_1, b_V and ln_2 go into later biases.  Moved alone, ln_1,
    # b_Q, b_V, b_O, ln_2, c_fc and c_proj of each layer, and ln_f, change an output.
    assert f"{3 * 4} biases were moved" in moved and f"{3 * 7 + 1} were moved along others" in moved
    assert not report.disagreements and report.shrunk


def test_a_large_model_that_depends_on_its_key_bias_contradicts_the_report(wide, report):
    read = lambda layer, args, out: out + layer.attn.c_attn.bias[256:512].tanh()
    with wide.transformer.h[1].register_forward_hook(read):
        found = confirm(wide, as_call(wide, None), report)
    assert "b_K" in {row.bias for row in found.disagreements}


def test_a_report_that_the_key_bias_stays_is_contradicted(wide, report):
    rows = [replace(row, alone=0, together=0) if row.bias == "b_K" else row for row in report.rows]
    found = confirm(wide, as_call(wide, None), replace(report, rows=rows))
    assert {row.bias for row in found.disagreements} == {"b_K"}
