"""On every architecture in the table, `audit` predicts and measures what the theorems say.

The table below was worked out by hand from the theorems, without the audit.  The models are tiny
ones from the transformers library with random weights.  They have the width d = 32 and h = 4 heads
of width k = 8, or g = 2 key-value heads where query heads share keys and values; r is the number of
rotary dimensions in a head.  Biases that a model lacks are added as zeros and audited too.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal
from redundancy import audit
from redundancy.audit.report import SYMBOLS
from redundancy.models.tiny import some_inputs, tiny
from redundancy.shift.rules import RULES
from torch import nn

d, h, g, k = 32, 4, 2, 8
ALL, SHARED, MEAN = h * k, g * k, 1

ONE_EACH = {"encoder_layers": 1, "decoder_layers": 1}
LATENT = {
    **{"kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8},
    **{"head_dim": 4, "num_key_value_heads": 4, "attention_bias": True, "first_k_dense_replace": 1},
    **{"moe_intermediate_size": 16, "n_routed_experts": 4, "n_group": 2, "topk_group": 1},
    "num_experts_per_tok": 2,
}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}

#: (architecture, configuration, numbers of redundant directions of b_Q, b_K, b_V and b_O).  Each
#: bias is counted alone, except that "all" for b_V means that the whole bias can go into b_O.
TABLE = [
    # with softmax over unmodified scores, LayerNorm and every bias, b_K can go, b_V folds into b_O,
    # and a LayerNorm cancels the mean of b_O
    *((name, {}, (0, "all", "all", MEAN)) for name in """bert roberta electra distilbert albert
        ernie layoutlm gpt2 opt bloom ctrl biogpt xglm vit deit dinov2 clip_text_model convbert gpt_neo
        gpt_bigcode wav2vec2 hubert swin squeezebert""".split()),
    *((name, ONE_EACH, (0, "all", "all", MEAN))
        for name in "bart pegasus marian m2m_100 whisper".split()),
    ("gpt_bigcode", {"multi_query": False}, (0, "all", "all", MEAN)),
    # the model returns the stream itself, so no norm cancels any part of b_O
    ("beit", {}, (0, "all", "all", 0)),
    ("clip_vision_model", {}, (0, "all", "all", 0)),
    # without b_O, outputs depend on d directions of b_V, or on d - 1 where a norm cancels the mean
    ("t5", {"num_layers": 1, "num_decoder_layers": 1}, (0, "all", ALL - d, 0)),
    ("mt5", {"num_layers": 1, "num_decoder_layers": 1}, (0, "all", ALL - d, 0)),
    ("mpt", {}, (0, "all", ALL - (d - 1), MEAN)),
    ("falcon", {"alibi": True}, (0, "all", 0, MEAN)),
    # rotary positions leave k - r directions of each key head unrotated, and these can go
    ("gptj", {"rotary_dim": 4}, (0, h * (k - 4), ALL - (d - 1), MEAN)),
    ("codegen", {"rotary_dim": 4}, (0, h * (k - 4), ALL - (d - 1), MEAN)),
    ("gpt_neox", {}, (0, h * (k - 2), "all", MEAN)),
    ("phi", {}, (0, g * (k - 4), "all", MEAN)),
    ("stablelm", {}, (0, g * (k - 2), 0, MEAN)),
    ("nemotron", {}, (0, g * (k - 4), 0, MEAN)),
    ("starcoder2", {}, (0, 0, "all", MEAN)),
    ("falcon", {}, (0, 0, 0, MEAN)),
    ("falcon", {"new_decoder_architecture": True, "bias": True}, (0, 0, "all", MEAN)),
    ("cohere", {}, (0, 0, 0, MEAN)),
    ("esm", {}, (0, 0, "all", MEAN)),
    *((name, {}, (0, 0, 0, 0)) for name in "llama mistral qwen2 phi3 gemma granite".split()),
    ("llama", {"attention_bias": True}, (0, 0, "all", 0)),
    # on queries and keys, RMSNorm and division by length cancel nothing; LayerNorm cancels a mean
    *((name, {}, (0, 0, 0, 0)) for name in "qwen3 olmo2 gemma3_text".split()),
    ("swinv2", {}, (0, 0, "all", MEAN)),
    ("persimmon", {}, (h, h, "all", MEAN)),
    ("cohere", {"use_qk_norm": True}, (h, g, 0, MEAN)),
    # each model has one obstacle (a soft cap, a sink, RELATIVE positions that multiply keys, or a
    # norm before W_O), except deberta-v2 without RELATIVE
    ("gemma2", {}, (0, 0, 0, 0)),
    ("gpt_oss", {}, (0, 0, 0, 0)),
    ("deberta", RELATIVE, (0, 0, "all", MEAN)),
    ("deberta-v2", RELATIVE, (0, 0, "all", MEAN)),
    ("deberta-v2", {}, (0, "all", "all", MEAN)),
    ("diffllama", {}, (0, 0, 0, 0)),
    # in latent attention, each head has its own bias for the part of the key without positions
    *((name, LATENT | {"q_lora_rank": rank}, (0, "all", "all", 0))
        for name in ("deepseek_v2", "deepseek_v3") for rank in (None, 12)),
    ("deepseek_v3", LATENT | {"q_lora_rank": 12, "attention_bias": False}, (0, "all", 0, 0)),
    # local attention pads its blocks with keys that the mask hides from every query
    ("longt5", {"num_layers": 1, "num_decoder_layers": 1, "local_radius": 3}, (0, "all", 0, 0)),
]  # fmt: skip


def demand(report, expected):
    # a report has no symbol for latent keys, which the model copies into a buffer
    symbols = {"kv_b_proj.bias": "b_K"} | {symbol: symbol for symbol in SYMBOLS.values()}
    theories = dict(zip(SYMBOLS.values(), expected, strict=True))
    rows = [row for row in report.rows if "norm" not in row.name and row.bias in symbols]
    assert {symbols[row.bias] for row in rows} >= {"b_Q", "b_K"}, str(report)
    for row in rows:
        theory = theories[symbols[row.bias]]
        counted = row.together if theory == "all" and row.bias == "b_V" else row.alone
        assert counted == (row.size if theory == "all" else theory), (row, str(report))
    assert {row.verdict for row in report.rows} <= {"agree", "not reached"}, str(report)


@pytest.mark.parametrize(
    "name, given, expected", TABLE, ids=["-".join([name, *given][:3]) for name, given, _ in TABLE]
)
def test_an_architecture(name, given, expected):
    model = tiny(name, **given)
    demand(audit(model, some_inputs(model), inject=True), expected)


def test_a_linear_map_behind_an_output_bias():
    """A norm reads W b_O in TimeSformer: the part of b_O that W maps to a constant can go."""
    model = tiny("timesformer", num_frames=3, num_hidden_layers=1)
    report = audit(model, {"pixel_values": normal(2, 3, 3, 16, 16, dtype=torch.float32)})
    assert not report.disagreements
    assert {row.alone for row in report.rows if row.part == "output"} == {1}


#: PyTorch's own stacks of layers, for which `audit` draws the inputs itself
STACKS = {
    "an encoder": lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2),
    "a Transformer": lambda: nn.Transformer(8, 2, 1, 1, 16),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("stack", STACKS)
def test_a_stack_of_pytorch(stack):
    demand(audit(STACKS[stack]()), (0, "all", "all", 1))


@pytest.mark.parametrize("flag, kept", [("batch_first", 8), ("add_bias_kv", 0)])
def test_multihead_attention_with_its_flags(flag, kept):
    layer = nn.MultiheadAttention(8, 2, **{flag: True})
    draw = {name: normal(5, 4, 8, dtype=torch.float32) for name in ("query", "key", "value")}
    report = audit(layer, draw | {"need_weights": False})
    assert (report.row("b_K").alone, report.row("b_V").together) == (kept, 8)
    assert not report.disagreements
    if flag == "add_bias_kv":  # bias_k absorbs b_K, and bias_v absorbs b_V
        assert (report.row("b_K").together, report.row("b_K").into) == (8, ("bias_k",))


#: {architecture: small sizes}, for models that read neither words nor a plain image
SPECIAL = {
    "videomae": {"num_frames": 2, "tubelet_size": 2, "image_size": 8},
    "siglip2_vision_model": {"num_patches": 9},
    "speech_to_text": {"input_feat_per_channel": 8, "conv_channels": 16},
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_special_inputs_are_made_up(kind):
    rows = audit(tiny(kind, **SPECIAL[kind]), inject=True).rows
    assert rows and {row.verdict for row in rows} <= {"agree", "not reached"}, rows


# --- controls: a wrong or missing rule must not go unnoticed


def constant(run, call):
    """A wrong rule for any operation: no shift passes through it."""
    arguments = (torch.zeros(()),), {}
    return RULES["alias"](run, type(call)("alias", call.op, *arguments, call.outs, {}))


@pytest.mark.parametrize("operation", ["_safe_softmax", "gelu", "addmm"])
def test_a_wrong_rule_is_found_by_the_measurement(operation, monkeypatch):
    monkeypatch.setitem(RULES, operation, constant)
    model = nn.TransformerEncoderLayer(8, 2, 16, activation=F.gelu, norm_first=True).eval()
    verdicts = {row.verdict for row in audit(model, normal(5, 3, 8, dtype=torch.float32)).rows}
    assert verdicts & {"DISAGREE", "unknown"}, verdicts


def test_a_missing_rule_makes_unknown(monkeypatch):
    monkeypatch.delitem(RULES, "_softmax")
    report = audit(nn.MultiheadAttention(8, 2), 3 * (normal(5, 3, 8, dtype=torch.float32),))
    assert report.row("b_K").verdict == "unknown" and not report.disagreements
    assert "no rule covers _softmax" in str(report)
