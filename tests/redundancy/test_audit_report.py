"""`audit` reports every disagreement, gives the same report in every form, and explains bad input.

The reports that chapter 13 prints are tested with that chapter.
"""

import copy

import pytest
import torch
from architectures.cases import Made
from derivation.checks import normal
from redundancy import audit
from redundancy.measure.inputs import WrongInputs
from redundancy.measure.precision import CannotRead, double_precision
from redundancy.measure.subject import Subject
from redundancy.models.tiny import some_inputs, tiny
from redundancy.shift.rules import RULES
from redundancy.shift.rules.dependent import sees
from redundancy.what_can_go.theorems import LINKS
from torch import nn

X = normal(2, 3, 8, dtype=torch.float32)


def encoder(**spoilt):
    """PyTorch's encoder layer, with the given parameters of linear1 replaced."""
    layer = nn.TransformerEncoderLayer(8, 2, 16)
    for name, value in spoilt.items():
        setattr(layer.linear1, name, nn.Parameter(value, requires_grad=False))
    return layer


# --- a disagreement between prediction and measurement is reported, never reconciled


def test_a_wrong_prediction_is_reported(monkeypatch):
    """A rule says, wrongly, that softmax cancels nothing; chapter 13 tries other wrong rules."""
    for name in ("_softmax", "_safe_softmax"):
        monkeypatch.setitem(RULES, name, sees)
    report = audit(encoder(), X)
    row = report.row("b_K")
    assert report.disagreements == [row] and row.verdict == "DISAGREE"
    assert (row.measured[0], row.alone) == (8, 0) and "!!! b_K: DISAGREE" in str(report)
    assert report.alone == sum(r.alone for r in report.rows if r.verdict == "agree")


# --- a report shows every answer, and each direction is counted once


def test_the_report_shows_every_answer_and_theorem():
    report = audit(tiny("gpt2", n_layer=1))
    shown = report._repr_markdown_()
    assert all(f"[{t}]({LINKS[t]})" in shown for row in report.rows for t in row.theorems)
    assert all(row.answer in shown for row in report.rows)
    assert report.row("b_K") == report.row("key", "h.0.") and report.row("b_K").theorems == ("3.1",)
    with pytest.raises(
        KeyError, match="there is no row for 'b_X'; there are rows for ln_1.bias, b_Q, b_K"
    ):
        report.row("b_X")


def test_a_running_mean_is_not_counted_in_the_totals():
    layers = nn.Linear(8, 4, bias=False), nn.BatchNorm1d(4, affine=False), nn.LayerNorm(4)
    report = audit(nn.Sequential(*layers), X[0])
    assert sum(row.alone for row in report.rows) > 0 == report.alone == report.redundant


def test_injected_biases_are_not_counted_in_the_totals():
    """Without b_O, b_V stays; an injected b_O is reported but does not change the totals."""
    layer = nn.MultiheadAttention(8, 2)
    layer.out_proj.bias = None
    asked = audit(layer, 3 * (X,), inject=True)
    assert asked.row("b_O").together == 8 and asked.row("b_O").injected
    assert (asked.row("b_V").together, asked.numbers, asked.redundant) == (0, 24, 8)


# --- an audit changes nothing in the model, and two audits give the same report


class Counts(nn.TransformerEncoderLayer):
    """A layer that draws a number and counts its runs."""

    def forward(self, x):
        torch.rand(3)
        self.runs += 1
        return super().forward(x)


def test_an_audit_changes_no_weight_mode_buffer_or_random_state():
    model, state = Counts(8, 2, 16), torch.get_rng_state()
    model.register_buffer("runs", torch.zeros(()))
    model.dropout.eval()
    before = copy.deepcopy(model.state_dict())
    with torch.inference_mode():
        reports = [str(audit(model, torch.ones(2, 3, 8), inject=True)) for _ in range(2)]
    assert reports[0] == reports[1] and torch.equal(state, torch.get_rng_state())
    assert model.training and not model.dropout.training
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_an_audit_keeps_the_attention_implementation_and_adds_no_bias():
    model = tiny("llama", num_hidden_layers=1)
    model.set_attn_implementation("sdpa")  # `audit` switches its copy to "eager"
    before = [*model.state_dict()]
    report = audit(model, inject=True)
    assert [*model.state_dict()] == before and all(row.injected for row in report.rows)
    assert (report.numbers, report.redundant) == (0, 0) and len(report.rows) == 7
    assert audit(model).rows == () and "no bias or shift" in str(audit(model))
    assert model.config._attn_implementation == "sdpa"


def test_float32_inside_a_model_is_found_reported_and_patched():
    model = tiny("llama", num_hidden_layers=1, attention_bias=True)
    inputs, exact = some_inputs(model), Subject(model).model
    with double_precision() as patch:
        assert exact(**inputs).last_hidden_state.dtype == torch.float64
    assert {"LlamaRMSNorm.forward", "eager_attention_forward"} <= patch.caught
    assert any("LlamaRMSNorm.forward" in note for note in audit(model).notes)
    assert torch.get_default_dtype() == torch.float32


# --- bad input gets a clear sentence


NOISY = Made(lambda m, x: m.map(x) + torch.rand(()), {"map": nn.Linear(8, 8)})
ONE_NAN = torch.ones(16, 8)
ONE_NAN[0, 0] = torch.nan
WHOLE = torch.ones(16, 8, dtype=torch.int8)
REFUSED = {
    "no numbers": (lambda: audit(encoder(weight=ONE_NAN), X), CannotRead, "linear1.weight"),
    "no values": (lambda: audit(encoder().to("meta"), X), CannotRead, "on the meta device"),
    "integers": (lambda: audit(encoder(weight=WHOLE), X), CannotRead, "quantised"),
    "no model": (lambda: audit(3, X), TypeError, "expected a model .*, not int"),
    "inputs of no kind": (lambda: audit(encoder(), 3), WrongInputs, "not int"),
    "random numbers": (lambda: audit(NOISY, X), WrongInputs, "draws random numbers"),
    "no such weights": (lambda: audit(encoder(), X, weights="old"), ValueError, "not 'old'"),
    "no checkpoint": (lambda: audit("/no/checkpoint", weights="own"), OSError, "/no/checkpoint"),
    "no architecture": (lambda: tiny("nonsense"), ValueError, "nonsense"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_is_explained_in_a_sentence(what):
    ask, error, words = REFUSED[what]
    with pytest.raises(error, match=words):
        ask()
