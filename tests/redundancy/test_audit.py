"""`audit` is right on every architecture: what it predicts, and what it measures, is what theory says.

The table below was worked out by hand from the theorems; nothing in it is computed by the audit.
All models are tiny, made from the library's configurations with random weights; the network is
switched off.  Width d = 32, h = 4 heads of width k = 8, g = 2 key-value heads where they are
shared, r rotary dimensions per head.
"""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
import transformers
from redundancy import audit
from redundancy.layers import NoAttention
from redundancy.zoo import some_inputs, tiny

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

#: architecture, configuration: redundant directions of b_Q, b_K, b_V (with b_O), b_O.
#: "all" is the whole bias, whatever its size in that layer.
TABLE = [
    # softmax over bare scores, LayerNorm, a bias everywhere: b_K leaves, b_V folds, the mean of
    # b_O is not seen
    *((name, {}, (0, "all", "all", MEAN)) for name in """bert roberta electra distilbert albert
        ernie layoutlm gpt2 opt bloom ctrl biogpt xglm vit deit dinov2 clip convbert gpt_neo
        gpt_bigcode wav2vec2 hubert swin squeezebert""".split()),
    *((name, ONE_EACH, (0, "all", "all", MEAN))
        for name in "bart pegasus marian m2m_100 whisper".split()),
    ("gpt_bigcode", {"multi_query": False}, (0, "all", "all", MEAN)),
    # the stream itself is returned: nothing of b_O is hidden
    ("beit", {}, (0, "all", "all", 0)),
    # no b_O: b_V is one, and W_O shows d of its directions, or d - 1 where the mean is not seen
    ("t5", {"num_layers": 1, "num_decoder_layers": 1}, (0, "all", ALL - d, 0)),
    ("mt5", {"num_layers": 1, "num_decoder_layers": 1}, (0, "all", ALL - d, 0)),
    ("mpt", {}, (0, "all", ALL - (d - 1), MEAN)),
    ("falcon", {"alibi": True}, (0, "all", 0, MEAN)),
    # rotary positions: k - r directions of every key head are left
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
    # norms of queries and keys: RMSNorm and division by length leave nothing, LayerNorm a mean
    *((name, {}, (0, 0, 0, 0)) for name in "qwen3 olmo2 gemma3_text".split()),
    ("swinv2", {}, (0, 0, "all", MEAN)),
    ("persimmon", {}, (h, h, "all", MEAN)),
    ("cohere", {"use_qk_norm": True}, (h, g, 0, MEAN)),
    # a soft cap; a sink; keys that meet positions; a norm between the heads and W_O
    ("gemma2", {}, (0, 0, 0, 0)),
    ("gpt_oss", {}, (0, 0, 0, 0)),
    ("deberta", RELATIVE, (0, 0, "all", MEAN)),
    ("deberta-v2", RELATIVE, (0, 0, "all", MEAN)),
    ("deberta-v2", {}, (0, "all", "all", MEAN)),
    ("diffllama", {}, (0, 0, 0, 0)),
    # latent attention: of a key, the part without positions is made for each head
    *((name, LATENT | {"q_lora_rank": rank}, (0, "all", "all", 0))
        for name in ("deepseek_v2", "deepseek_v3") for rank in (None, 12)),
    ("deepseek_v3", LATENT | {"q_lora_rank": 12, "attention_bias": False}, (0, "all", 0, 0)),
    # blocks filled up with keys that no query sees
    ("longt5", {"num_layers": 1, "num_decoder_layers": 1, "local_radius": 3}, (0, "all", 0, 0)),
]  # fmt: skip


def name_of(entry):
    name, given, _ = entry
    return "-".join([name, *(f"{key}" for key in given if len(given) < 3)])


@pytest.mark.parametrize("entry", TABLE, ids=map(name_of, TABLE))
def test_an_architecture(entry):
    name, given, expected = entry
    model = tiny(name, **given)
    report = audit(model, some_inputs(model), inject=True)
    assert report.rows
    for row in report.rows:
        place = ("query", "key", "value", "output").index(row.role)
        theory = row.size if expected[place] == "all" else expected[place]
        assert (row.predicted, row.measured) == (theory, theory), (row.layer, row)
        assert row.verdict == "agree"


def test_attention_that_keeps_no_linear_maps_is_named():
    config = transformers.XLNetConfig(vocab_size=48, d_model=d, n_layer=1, n_head=h, d_inner=64)
    with pytest.raises(NoAttention, match="XLNetRelativeAttention keeps no linear maps"):
        audit(transformers.XLNetModel(config), {"input_ids": torch.arange(16).view(2, 8)})


def test_a_router_is_no_projection():
    model = tiny("jetmoe", num_key_value_heads=2, kv_channels=k, num_experts_per_tok=1)
    rows = audit(model, some_inputs(model), inject=True).rows
    assert {row.role for row in rows} == {"kv_proj"} and rows[0].verdict == "measured only"
