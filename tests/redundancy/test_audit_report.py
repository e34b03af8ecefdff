"""`audit` reports every disagreement, gives the same report in every form, and explains bad input.

The reports that chapter 13 prints are tested with that chapter.
"""

import copy
import functools
import os
from dataclasses import replace

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from derivation.checks import normal, tolerance
from redundancy import audit
from redundancy.audit import checking
from redundancy.audit.command import main
from redundancy.audit.report import FAINT, UNSEEN
from redundancy.measure.inputs import WrongInputs
from redundancy.measure.measurement import Measurement
from redundancy.measure.nullity import UnclearRank
from redundancy.measure.precision import CannotRead, double_precision
from redundancy.measure.subject import Subject
from redundancy.models.tiny import quiet, some_inputs, tiny
from redundancy.shift.following import Event
from redundancy.shift.freedom import Freedom, Unclear
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


def too_few(freedom):
    """Predict, wrongly, that no direction is redundant."""
    return freedom.fixing(freedom.shapes)


def too_many(freedom):
    """Predict, wrongly, that the query bias is redundant too."""
    size = sum(freedom.shapes.values())
    names = [*freedom.shapes]
    start = sum(freedom.shapes[n] for n in names[: names.index("self_attn.in_proj_bias")])
    query = torch.eye(size, dtype=torch.float64)[:, start : start + 8]
    basis = torch.linalg.qr(torch.cat([query, freedom.dense()], 1)).Q
    return Freedom.whole(basis, freedom.shapes)


@pytest.mark.parametrize("wrong", [too_few, too_many])
def test_a_wrong_prediction_is_reported(wrong, monkeypatch):
    assert not audit(encoder(), X).disagreements
    predict = checking.Check._predict

    def spoilt(check):
        predict(check)
        check.predicted = wrong(check.predicted)

    monkeypatch.setattr(checking.Check, "_predict", spoilt)
    report = audit(encoder(), X)
    row = report.row({too_few: "b_K", too_many: "b_Q"}[wrong])
    assert row in report.disagreements and row.verdict == "DISAGREE"
    assert row.measured[0] == (8 if wrong is too_few else 0) != row.alone
    assert f"!!! {row.bias}: DISAGREE" in str(report)
    assert report.alone == sum(r.alone for r in report.rows if r.verdict == "agree")


def test_an_unclear_verdict_is_reported(monkeypatch):
    def unclear(*_):
        raise Unclear("too near the cut")

    monkeypatch.setattr(checking.Check, "_verdict", unclear)
    report = audit(encoder(), X)
    assert {row.verdict for row in report.disagreements} == {"UNCLEAR"} and not report.alone
    assert (
        "!!! b_K: UNCLEAR" in str(report) and report.disagreements[0].problem == "too near the cut"
    )


def test_a_measurement_whose_rank_is_never_clear_is_refused(monkeypatch, tmp_path, capsys):
    def unclear(*_):
        raise UnclearRank("too near the cut")

    monkeypatch.setattr(Measurement, "basis", unclear)
    with pytest.raises(UnclearRank, match="too near the cut"):
        audit(encoder(), X)
    with quiet():
        tiny("gpt2", n_layer=1).save_pretrained(tmp_path)
    assert main([str(tmp_path)]) == 2
    assert capsys.readouterr().err == "bias-audit: too near the cut\n"


# --- all forms of a report agree


@functools.cache
def bert_report():
    return audit(tiny("bert"))


def test_the_report_is_the_same_in_every_form():
    report = audit(tiny("gpt2", n_layer=1))
    fields = "bias", "size", "alone", "together"
    rows = {tuple(str(getattr(row, f)) for f in fields) for row in report.rows}
    lines = [line.split() for line in str(report).splitlines()]
    assert rows == {(c[0], c[-2], c[1], c[2]) for c in lines if len(c) > 5 and c[-2].isdigit()}
    shown = report._repr_markdown_()
    assert all(f"[{t}]({LINKS[t]})" in shown for row in report.rows for t in row.theorems)
    assert all(row.answer in shown for row in report.rows)
    assert report.row("b_K") == report.row("key", "h.0.") and report.row("b_K").theorems == ("3.1",)
    with pytest.raises(KeyError, match="no row is called 'b_X'; there are: ln_1.bias, b_Q, b_K"):
        report.row("b_X")


def test_layers_share_a_line_only_if_their_answers_agree():
    assert "encoder.layer.*.attention.self.key.bias (2 times)" in str(bert_report())
    model = tiny("bert")
    model.encoder.layer[1].attention.self.key.bias = None
    report = audit(model)
    assert "encoder.layer.0.attention.self.key.bias" in str(report)
    assert len([row for row in report.rows if row.part == "key"]) == 1


#: Two layers of BERT of width d = 32 and a pooler.  In each layer b_K can go (d), b_V goes into b_O
#: (d), the first β goes into the maps that read it (d), and norms cancel the means of b_O and b_2
#: (2).  The embeddings' β and the first layer's last β go into later biases (2 d).  A norm cancels
#: the token-type vector's mean (1).  Alone, b_K can go, and one direction each of b_V, b_O, b_2.
BERT = {"redundant": 2 * (3 * 32 + 2) + 2 * 32 + 1, "alone": 2 * (32 + 3) + 1}


def test_directions_are_counted_once():
    report = bert_report()
    assert {name: getattr(report, name) for name in BERT} == BERT
    assert sum(row.together for row in report.rows) > report.redundant


@pytest.mark.parametrize("kind", ["falcon", "batch norm"])
def test_alone_counts_parameters_of_the_model_only(kind):
    """Neither an injected bias (Falcon's b_O) nor a running mean is counted in the totals."""
    if kind == "falcon":
        report = audit(tiny("falcon", num_hidden_layers=1), inject=True)
    else:
        layers = nn.Linear(8, 4, bias=False), nn.BatchNorm1d(4, affine=False), nn.LayerNorm(4)
        report = audit(nn.Sequential(*layers), X[0])
    others = [row for row in report.rows if row.injected or "running_mean" in row.name]
    assert sum(row.alone for row in others) > 0 == report.alone == report.redundant


def test_the_answer_unknown_has_a_reason():
    row = audit(encoder(), X).row("b_K")
    told = row.judged("DISAGREE", 0, 0, "the full model says otherwise").answer
    assert told == "DISAGREE: the full model says otherwise"
    event = lambda kind, operation: Event(kind, operation, f"{operation} depends on it")
    for why, reason in (
        ((event("seen", "gelu"), event("unknown", "nextafter")), "nextafter depends on it"),
        ((event("seen", "gelu"), event("seen", "relu")), "relu depends on it"),
        ((event("seen", "gelu"),), FAINT),
        ((), UNSEEN),
    ):
        assert replace(row, verdict="unknown", why=why).answer == f"unknown: {reason}"


class Probe(nn.MultiheadAttention):
    """Attention with a learned query, as in SigLIP, and a parameter that is never used."""

    def __init__(self):
        super().__init__(8, 2, batch_first=True)
        self.probe, self.left = (nn.Parameter(normal(1, 1, 8, dtype=torch.float32)) for _ in "ab")
        self.left.data = self.left.data.flatten()

    def forward(self, x):
        return super().forward(self.probe.expand(len(x), 1, 8), x, x)[0]


def test_a_learned_query_has_the_parts_of_attention():
    report = audit(Probe(), X)
    told = {row.bias: (row.alone, row.together) for row in report.rows}
    assert told == {"b_Q": (0, 0), "b_K": (8, 8), "b_V": (0, 8), "b_O": (0, 8)}
    assert Subject(Probe()).uses(((X.double(),), {})).unused == ["left"]
    scored = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1), nn.Linear(8, 8))  # not attention
    assert not any(row.part for row in audit(scored, X).rows)


# --- an audit changes nothing in the model, and two audits give the same report


def test_injected_biases_are_not_added_to_the_model():
    model = tiny("llama", num_hidden_layers=1)
    before = [*model.state_dict()]
    report = audit(model, inject=True)
    assert [*model.state_dict()] == before and all(row.injected for row in report.rows)
    assert (report.numbers, report.redundant) == (0, 0) and len(report.rows) == 7
    assert audit(model).rows == () and "no bias or shift" in str(audit(model))


def test_injected_biases_do_not_count():
    """Without b_O, b_V stays; an injected b_O is reported but does not change the totals."""
    layer = nn.MultiheadAttention(8, 2)
    layer.out_proj.bias = None
    x = 3 * (X,)
    own, asked = audit(layer, x), audit(layer, x, inject=True)
    assert own.row("b_V").together == 0 and asked.row("b_V").together == 0
    assert asked.row("b_O").together == 8 and asked.row("b_O").injected
    assert (own.numbers, own.redundant) == (asked.numbers, asked.redundant) == (24, 8)


def test_an_audit_changes_no_weight_mode_or_random_state():
    class Draws(nn.TransformerEncoderLayer):
        def forward(self, x):
            torch.rand(3)
            return super().forward(x)

    model, state = Draws(8, 2, 16), torch.get_rng_state()
    model.dropout.eval()
    before = copy.deepcopy(model.state_dict())
    with torch.inference_mode():
        reports = [str(audit(model, torch.ones(2, 3, 8), inject=True)) for _ in range(2)]
    assert reports[0] == reports[1] and torch.equal(state, torch.get_rng_state())
    assert model.training and not model.dropout.training
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_attention_of_a_model_stays_as_it_was_set():
    model = tiny("gpt2", n_layer=1)
    model.set_attn_implementation("sdpa")  # `audit` switches its copy to "eager"
    audit(model)
    assert model.config._attn_implementation == "sdpa"


# --- models that use float32 internally


def test_float32_inside_a_model_is_found_reported_and_patched():
    model = tiny("llama", num_hidden_layers=1)
    inputs = some_inputs(model)
    exact = Subject(model).model
    with torch.no_grad():
        rounded = exact(**inputs).last_hidden_state
        with double_precision() as patch:
            found = exact(**inputs).last_hidden_state
    # The number of terms in each sum that leads to an output, from the first norm to the last.
    sums = (32, 32, 8, 7, 7, 32, 32, 32, 64, 32)
    apart = ((rounded - found).abs().max() / found.abs().max()).item()
    assert tolerance(torch.float64, sums) < apart <= tolerance(torch.float32, sums)
    assert found.dtype == torch.float64
    assert {"LlamaRMSNorm.forward", "eager_attention_forward"} <= patch.caught
    with_biases = tiny("llama", num_hidden_layers=1, attention_bias=True)
    assert any("LlamaRMSNorm.forward" in note for note in audit(with_biases).notes)
    assert torch.get_default_dtype() == torch.float32


# --- checkpoints


def test_a_checkpoint_with_its_own_weights(tmp_path):
    with quiet():
        tiny("gpt2", n_layer=1, initializer_range=0.3).save_pretrained(tmp_path)
    own, random = (audit(str(tmp_path), weights=w) for w in ("own", "random"))
    counts = [[(r.name, r.part, r.alone, r.together) for r in a.rows] for a in (own, random)]
    assert counts[0] == counts[1] and not own.disagreements
    with pytest.raises(ValueError, match='weights must be "random" or "own"'):
        audit(str(tmp_path), weights="old")


# --- bad input gets a clear sentence


class Noisy(nn.TransformerEncoderLayer):
    def forward(self, x):
        return super().forward(x) + torch.rand(())


def on_meta():
    with torch.device("meta"):
        return encoder()


ONE_NAN = torch.ones(16, 8)
ONE_NAN[0, 0] = torch.nan
REFUSED = {
    "no numbers": (lambda: audit(encoder(weight=ONE_NAN), X), CannotRead, "linear1.weight holds NaN"),
    "no values": (lambda: audit(on_meta(), X), CannotRead, "on the meta device and has no values"),
    "integers": (
        lambda: audit(encoder(weight=torch.ones(16, 8, dtype=torch.int8)), X), CannotRead, "quantised"),
    "no model": (lambda: audit(3, X), TypeError, "expected a model .*, not int"),
    "inputs of no kind": (lambda: audit(encoder(), 3), WrongInputs, "not int"),
    "random numbers": (lambda: audit(Noisy(8, 2, 16), X), WrongInputs, "draws random numbers"),
    "no checkpoint": (lambda: audit("/no/such/checkpoint", weights="own"), OSError, "no model can be loaded"),
    "no architecture": (lambda: tiny("nonsense"), ValueError, "nonsense"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_gets_a_sentence(what):
    ask, error, words = REFUSED[what]
    with pytest.raises(error, match=words):
        ask()
