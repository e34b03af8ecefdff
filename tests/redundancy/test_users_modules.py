"""Modules that nobody named: like timm's, PyTorch's own stacks, and softmax as people write it."""

import math

import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal
from redundancy import audit, fold
from redundancy.zoo import quiet, tiny
from shared_models import *

ALL = "all"


class TimmAttention(nn.Module):
    """As timm's vision transformers write it: one fused map, parts unbound, softmax as a method."""

    def __init__(self, dim, num_heads, fused):
        super().__init__()
        self.num_heads, self.head_dim, self.fused_attn = num_heads, dim // num_heads, fused
        self.scale = self.head_dim**-0.5
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v)
        else:
            x = (q * self.scale @ k.transpose(-2, -1)).softmax(dim=-1) @ v
        return self.proj(x.transpose(1, 2).reshape(B, N, C))


class MinGPT(nn.Module):
    """Causal attention as in minGPT: one map, a buffer for the mask, softmax of masked scores."""

    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj, self.n_head = nn.Linear(d, 3 * d), nn.Linear(d, d), 3
        self.register_buffer("mask", torch.tril(torch.ones(1, 1, 16, 16)))

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(C, dim=2)
        q, k, v = (t.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for t in (q, k, v))
        att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
        att = F.softmax(att.masked_fill(self.mask[:, :, :T, :T] == 0, float("-inf")), dim=-1)
        return self.c_proj((att @ v).transpose(1, 2).contiguous().view(B, T, C))


def by_hand(scores):
    e = scores.exp()
    return e / e.sum(-1, keepdim=True)


def less_the_largest(scores):
    return by_hand(scores - scores.max(-1, keepdim=True).values)


def tokens(*shape):
    return normal(*(shape or (3, 6, d)), dtype=torch.float32)


#: a module, its inputs (None: made up), and what is predicted for b_Q, b_K, b_V, b_O
MODULES = {
    "like timm": (lambda: TimmAttention(d, h, False), tokens, (0, ALL, ALL, 0)),
    "like timm, fused": (lambda: TimmAttention(d, h, True), tokens, (0, ALL, ALL, 0)),
    "minGPT": (MinGPT, tokens, (0, ALL, ALL, 0)),
    "an encoder of PyTorch": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2), None,
        (0, ALL, ALL, 1)),
    "PyTorch's Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16), None, (0, ALL, ALL, 1)),
    "less the largest": (lambda: Attention(weigh=less_the_largest), tokens, (0, ALL, ALL, 0)),
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("what", MODULES)
def test_a_module_of_ones_own(what):
    make, inputs, expected = MODULES[what]
    report = audit(make(), inputs and inputs())
    assert report.rows and not report.disagreements, str(report)
    for row in report.rows:
        theory = expected[("query", "key", "value", "output").index(row.role)]
        assert row.predicted == (row.size if theory == ALL else theory), row
        assert row.could_go == (row.predicted or 0)


def test_what_is_written_by_hand_is_folded():
    model = randomised(Attention(weigh=less_the_largest))
    result = fold(model, {"x": tokens().double()})
    assert {row.constant for row in result.moved} == {"b_K", "b_V"}
    assert apart(result.model, model, {"x": normal(2, 9, d)}) < EQUAL


#: architectures whose inputs are no words and no plain image, at a small size
SPECIAL = {
    "videomae": {"num_frames": 2, "tubelet_size": 2, "image_size": 8},
    "siglip2_vision_model": {"num_patches": 9},
    "speech_to_text": {"input_feat_per_channel": 8, "conv_channels": 16},
}


#: architectures that `tiny` does not make: their configurations, and what b_Q, b_K, b_V, b_O lose
OWN = {
    "Lxmert": (
        {"hidden_size": 32, "num_attention_heads": 4, "l_layers": 1, "x_layers": 1, "r_layers": 1,
         "visual_feat_dim": 8, "intermediate_size": 32, "vocab_size": 48}, 5 * [0, 32, 32, 1]),
    "Funnel": (
        {"block_sizes": [1, 1], "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 32,
         "num_decoder_layers": 1, "vocab_size": 48}, 3 * [0, 32, 32, 1]),
    # a maximum pools the queries of the second stage, and the stream itself is returned
    "Hiera": (
        {"embed_dim": 16, "depths": [1, 1], "num_heads": [2, 4], "mlp_ratio": 2.0, "num_query_pool": 1,
         "image_size": [16, 16], "masked_unit_size": [2, 2]}, [0, 16, 16, 1, 0, 32, 32, 0]),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_an_architecture_with_names_of_its_own(name):
    given, counts = OWN[name]
    with quiet():
        import transformers

        config = getattr(transformers, f"{name}Config")(**given)
        model = getattr(transformers, f"{name}Model")(config).eval()
    report = audit(model, inject=True)  # Funnel's queries have no bias
    assert {row.verdict for row in report.rows} == {"agree"}, str(report)
    assert [row.measured for row in report.rows] == counts


@pytest.mark.parametrize("kind", SPECIAL)
def test_special_inputs_are_made_up(kind):
    report = audit(tiny(kind, **SPECIAL[kind]), inject=True)
    assert report.rows and {row.verdict for row in report.rows} == {"agree"}, str(report)


def test_experts_in_float64_are_folded():
    """Their fast kernels have none: `eager` ones do."""
    model = randomised(tiny("olmoe", attention_bias=True))
    result, kind = fold(model), model.config._experts_implementation
    assert not audit(model).disagreements and kind == model.config._experts_implementation
    assert {row.constant for row in result.moved} == {"b_V"} and result.error <= result.bound
