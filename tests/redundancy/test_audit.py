"""On architectures of transformers, `audit` predicts and measures what the theorems say.

The table below was worked out by hand from the theorems, without the audit.  The models are tiny
ones from the transformers library with random weights.  They have the width d = 32 and h = 4 heads
of width k = 8, or g = 2 key-value heads where query heads share keys and values; r is the number of
rotary dimensions in a head.  Biases that a model lacks are added as zeros and audited too.
Chapter 13 audits 49 default configurations.
"""

import pytest
from redundancy import audit
from redundancy.audit.report import SYMBOLS
from redundancy.models.tiny import some_inputs, tiny
from torch import nn

d, h, g, k = 32, 4, 2, 8
ALL, MEAN = h * k, 1

LATENT = {
    **{"kv_lora_rank": 16, "qk_rope_head_dim": 4, "qk_nope_head_dim": 8, "v_head_dim": 8},
    **{"head_dim": 4, "num_key_value_heads": 4, "attention_bias": True, "first_k_dense_replace": 1},
    **{"moe_intermediate_size": 16, "n_routed_experts": 4, "n_group": 2, "topk_group": 1},
    **{"num_experts_per_tok": 2, "q_lora_rank": 12},
}
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
ONE_EACH = {"num_layers": 1, "num_decoder_layers": 1}

#: (architecture, configuration, numbers of redundant directions of b_Q, b_K, b_V and b_O).  Each
#: bias is counted alone, except that "all" for b_V means that the whole bias can go into b_O.
TABLE = [
    # with softmax over unmodified scores, LayerNorm and every bias, b_K can go, b_V folds into b_O,
    # and a LayerNorm cancels the mean of b_O
    ("bert", {}, (0, "all", "all", MEAN)),
    ("whisper", {"encoder_layers": 1, "decoder_layers": 1}, (0, "all", "all", MEAN)),
    ("gpt_bigcode", {"multi_query": False}, (0, "all", "all", MEAN)),
    # without b_O, outputs depend on d directions of b_V, or on d - 1 where a norm cancels the mean
    ("t5", ONE_EACH, (0, "all", ALL - d, 0)),
    ("falcon", {"alibi": True}, (0, "all", 0, MEAN)),
    # rotary positions leave k - r directions of each key head unrotated, and these can go
    ("gptj", {"rotary_dim": 4}, (0, h * (k - 4), ALL - (d - 1), MEAN)),
    ("phi", {}, (0, g * (k - 4), "all", MEAN)),
    ("falcon", {"new_decoder_architecture": True, "bias": True}, (0, 0, "all", MEAN)),
    ("llama", {"attention_bias": True}, (0, 0, "all", 0)),
    # on queries and keys, division by length cancels nothing; LayerNorm cancels a mean
    ("swinv2", {}, (0, 0, "all", MEAN)),
    ("persimmon", {}, (h, h, "all", MEAN)),
    ("cohere", {"use_qk_norm": True}, (h, g, 0, MEAN)),
    # RELATIVE positions multiply keys
    ("deberta-v2", RELATIVE, (0, 0, "all", MEAN)),
    ("deberta-v2", {}, (0, "all", "all", MEAN)),
    # in latent attention, each head has its own bias for the part of the key without positions
    ("deepseek_v3", LATENT, (0, "all", "all", 0)),
    ("deepseek_v3", LATENT | {"attention_bias": False}, (0, "all", 0, 0)),
    # local attention pads its blocks with keys that the mask hides from every query
    ("longt5", ONE_EACH | {"local_radius": 3}, (0, "all", 0, 0)),
]


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
def test_an_audit_agrees_with_the_hand_count(name, given, expected):
    model = tiny(name, **given)
    demand(audit(model, some_inputs(model), inject=True), expected)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_a_transformer_of_pytorch_is_audited_on_drawn_inputs():
    demand(audit(nn.Transformer(8, 2, 1, 1, 16)), (0, "all", "all", 1))
