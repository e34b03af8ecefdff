"""What `audit` reports: disagreements loudly, bad input in a sentence, checkpoints from a folder.

What chapter 13 prints is not tested again.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import copy

import pytest
import torch
from derivation.checks import normal, tolerance
from redundancy import measure, predict
from redundancy.auditing import WrongInputs, audit
from redundancy.layers import CannotRead, NoAttention, find_attention
from redundancy.nullity import UnclearRank
from redundancy.precision import double_precision, floor, generic_copy
from redundancy.zoo import quiet, some_inputs, tiny
from torch import nn


@pytest.fixture(scope="module")
def gpt2():
    return tiny("gpt2", n_layer=1)


# --- prediction and measurement that disagree are reported, never reconciled


@pytest.mark.parametrize("wrong", [0, 31, 33])
def test_a_wrong_prediction_is_reported(gpt2, monkeypatch, wrong):
    monkeypatch.setattr(predict, "predict_key", lambda *_: (wrong, ["a fault put in"]))
    report = audit(gpt2)
    (row,) = report.disagreements
    assert (row.role, row.predicted, row.measured) == ("key", wrong, 32)
    assert row.verdict == "DISAGREE" and row.could_go == 0
    assert "DISAGREE" in str(report) and "!!! b_K: a fault put in" in str(report)


def test_an_unclear_rank_is_reported(gpt2, monkeypatch):
    def unclear(*_):
        raise UnclearRank("too near the cut")

    monkeypatch.setattr(measure.Measurement, "dimension", unclear)
    report = audit(gpt2)
    assert {row.verdict for row in report.disagreements} == {"UNCLEAR"}
    assert "too near the cut" in str(report)


# --- the model given is left alone, and the report does not depend on chance


def test_biases_that_are_not_there_stay_away():
    model = tiny("llama", num_hidden_layers=1)
    report = audit(model, inject=True)
    assert [p.has_bias for p in find_attention(model)[0].projections.values()] == [False] * 4
    assert report.could_go == 0
    assert {row.verdict for row in audit(model).rows} == {"absent"}


def test_the_model_its_modes_and_chance_are_left_alone():
    class Draws(nn.TransformerEncoderLayer):
        def forward(self, x):
            torch.rand(3)
            return super().forward(x)

    model, state = Draws(8, 2), torch.get_rng_state()
    model.dropout.eval()
    before = copy.deepcopy(model.state_dict())
    with torch.inference_mode():
        reports = [str(audit(model, torch.ones(2, 3, 8), inject=True)) for _ in range(2)]
    assert reports[0] == reports[1] and torch.equal(state, torch.get_rng_state())
    assert model.training and not model.dropout.training
    after = model.state_dict()
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_the_attention_of_a_model_stays_as_it_was_set(gpt2):
    audit(gpt2)
    assert gpt2.config._attn_implementation == "eager"


# --- float32 inside


def test_the_floor_is_found_said_and_patched():
    model = tiny("llama", num_hidden_layers=1)
    inputs = some_inputs(model)
    exact = generic_copy(model)
    # The sums that an output passes through: norms, projections, scores, softmax, the MLP.
    sums = (32, 32, 8, 7, 7, 32, 32, 32, 64, 32)
    assert tolerance(torch.float64, sums) < floor(exact, **inputs) <= tolerance(torch.float32, sums)
    with double_precision() as patch:
        assert exact(**inputs).last_hidden_state.dtype == torch.float64
    assert {"LlamaRMSNorm.forward", "eager_attention_forward"} <= patch.caught
    assert any("LlamaRMSNorm.forward" in note for note in audit(model).notes)
    assert torch.get_default_dtype() == torch.float32


# --- checkpoints


def test_a_checkpoint_with_its_own_weights(tmp_path):
    with quiet():
        tiny("gpt2", n_layer=1, initializer_range=0.3).save_pretrained(tmp_path)
    own, random = (audit(str(tmp_path), weights=w) for w in ("own", "random"))
    assert own.rows == random.rows and not own.disagreements
    with pytest.raises(ValueError, match='weights is "random" or "own"'):
        audit(str(tmp_path), weights="old")


# --- bad input gets a clear sentence


def encoder(**spoilt):
    """A layer of PyTorch's, with some weights of linear1 replaced."""
    layer = nn.TransformerEncoderLayer(8, 2)
    for name, value in spoilt.items():
        setattr(layer.linear1, name, nn.Parameter(value, requires_grad=False))
    return layer


class Noisy(nn.TransformerEncoderLayer):
    def forward(self, x):
        return super().forward(x) + torch.rand(())


class ShortConvolution(nn.Module):
    """LFM2's: gates around a convolution, in maps that are stored and called like attention's."""

    def __init__(self):
        super().__init__()
        self.num_heads = 2
        self.in_proj, self.out_proj = nn.Linear(8, 24), nn.Linear(8, 8)
        self.conv = nn.Conv1d(8, 8, 3, padding=2, groups=8)

    def forward(self, x):
        before, after, value = self.in_proj(x).chunk(3, -1)
        mixed = self.conv((before * value).mT)[..., : x.shape[1]].mT
        return self.out_proj(after * mixed)


X, ONE_NAN = normal(2, 3, 8, dtype=torch.float32), torch.ones(2048, 8)
ONE_NAN[0, 0] = torch.nan
REFUSED = {
    "no numbers": (
        lambda: audit(encoder(weight=ONE_NAN), X),
        CannotRead, "linear1.weight holds NaN"),
    "no inputs": (
        lambda: audit(nn.Sequential(encoder())), WrongInputs, "it is not known what Sequential takes"),
    "a word too many": (
        lambda: audit(tiny("gpt2", n_layer=1), {"input_ids": torch.tensor([[99]])}),
        WrongInputs, "does not run on these inputs: index out of range"),
    "random numbers": (lambda: audit(Noisy(8, 2), X), WrongInputs, "draws random numbers"),
    "no checkpoint": (lambda: audit("/no/such/checkpoint", weights="own"), OSError, "no model can be loaded"),
    "a short convolution": (
        lambda: audit(ShortConvolution(), X), NoAttention,
        "no attention layer was found in ShortConvolution"),
    "a model that wants what nobody can make up": (
        lambda: audit(tiny("blip_2_qformer")), WrongInputs,
        "no inputs can be made up for Blip2QFormerModel .*: give inputs, a dict of some of"),
    "no architecture": (lambda: tiny("nonsense"), ValueError, "nonsense"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_bad_input_gets_a_sentence(what):
    ask, error, words = REFUSED[what]
    with pytest.raises(error, match=words):
        ask()


def test_one_token_is_not_enough(gpt2):
    row = audit(gpt2, {"input_ids": torch.tensor([[5]])}).row("query")
    assert row.verdict == "measured only" and "one key only" in row.why[0]


def test_a_layer_that_is_not_reached():
    model = tiny("bert", is_decoder=True, add_cross_attention=True, num_hidden_layers=1)
    verdicts = {row.verdict for row in audit(model).rows if "crossattention" in row.layer}
    assert verdicts == {"not reached"}
