"""Modules that nobody named: like timm's, PyTorch's own stacks, and softmax as people write it."""

import math

import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal
from redundancy import audit, fold
from redundancy.zoo import quiet, tiny
from shared_models import *

ALL, UNKNOWN = "all", None


class TimmAttention(nn.Module):
    """Attention as timm's vision transformers write it: one fused map, parts unbound."""

    def __init__(self, dim, num_heads, fused):
        super().__init__()
        self.num_heads, self.head_dim, self.fused_attn = num_heads, dim // num_heads, fused
        self.scale = self.head_dim**-0.5
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
        self.q_norm, self.k_norm = nn.Identity(), nn.Identity()
        self.attn_drop, self.proj_drop = nn.Dropout(0.0), nn.Dropout(0.0)

    def forward(self, x):
        B, N, C = x.shape
        qkv = self.qkv(x).reshape(B, N, 3, self.num_heads, self.head_dim).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        q, k = self.q_norm(q), self.k_norm(k)
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v)
        else:
            x = self.attn_drop((q * self.scale @ k.transpose(-2, -1)).softmax(dim=-1)) @ v
        return self.proj_drop(self.proj(x.transpose(1, 2).reshape(B, N, C)))


class TimmBlock(nn.Module):
    def __init__(self, dim, num_heads, fused):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = TimmAttention(dim, num_heads, fused)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class TimmViT(nn.Module):
    def __init__(self, fused=False, dim=12):
        super().__init__()
        self.patch_embed = nn.Conv2d(3, dim, 4, 4)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos_embed = nn.Parameter(torch.zeros(1, 10, dim))
        self.blocks = nn.Sequential(*(TimmBlock(dim, 3, fused) for _ in range(2)))
        self.norm, self.head = nn.LayerNorm(dim), nn.Linear(dim, 5)

    def forward(self, x):
        x = self.patch_embed(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls_token.expand(len(x), -1, -1), x], 1) + self.pos_embed
        return self.head(self.norm(self.blocks(x))[:, 0])


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


class Differential(nn.Module):
    """The difference of two softmaxes."""

    def __init__(self):
        super().__init__()
        self.num_heads = 2
        self.q_proj, self.k_proj = nn.Linear(d, 24), nn.Linear(d, 24)
        self.v_proj, self.o_proj = nn.Linear(d, 12), nn.Linear(12, d)

    def forward(self, x):
        q, keys = (p(x).unflatten(-1, (2, 2, 6)).permute(0, 2, 3, 1, 4)
                   for p in (self.q_proj, self.k_proj))  # fmt: skip
        v = self.v_proj(x).unflatten(-1, (2, 6)).transpose(1, 2)
        both = (q @ keys.mT / 6**0.5).softmax(-1)
        return self.o_proj(((both[:, :, 0] - 0.3 * both[:, :, 1]) @ v).transpose(1, 2).flatten(-2))


def by_hand(scores):
    e = scores.exp()
    return e / e.sum(-1, keepdim=True)


def less_the_largest(scores):
    return by_hand(scores - scores.max(-1, keepdim=True).values)


def of_its_square(scores):
    """No softmax: what is above is not what is below."""
    e = scores.exp()
    return e / e.square().sum(-1, keepdim=True)


def talking(scores):
    generator = torch.Generator().manual_seed(0)
    mix = [torch.randn(h, h, generator=generator, dtype=torch.float64).to(scores) for _ in "ab"]
    weights = torch.einsum("gh,bhqk->bgqk", mix[0], scores).softmax(-1)
    return torch.einsum("gh,bhqk->bgqk", mix[1], weights)


def tokens(*shape):
    return normal(*(shape or (3, 6, d)), dtype=torch.float32)


#: a module, its inputs (None: made up), and what is predicted for b_Q, b_K, b_V, b_O
MODULES = {
    "like timm": (TimmViT, lambda: tokens(2, 3, 12, 12), (0, ALL, ALL, 1)),
    "like timm, fused": (lambda: TimmViT(True), lambda: tokens(2, 3, 12, 12), (0, ALL, ALL, 1)),
    "minGPT": (MinGPT, tokens, (0, ALL, ALL, 0)),
    "an encoder of PyTorch": (
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2), None,
        (0, ALL, ALL, 1)),
    "PyTorch's Transformer": (lambda: nn.Transformer(8, 2, 1, 1, 16), None, (0, ALL, ALL, 1)),
    "less the largest": (lambda: Attention(weigh=less_the_largest), tokens, (0, ALL, ALL, 0)),
    "of its square": (lambda: Attention(weigh=of_its_square), tokens, (UNKNOWN,) * 3 + (0,)),
    "talking heads": (lambda: Attention(weigh=talking), tokens, (0, UNKNOWN, UNKNOWN, 0)),
    "a difference": (Differential, tokens, (0, ALL, UNKNOWN, 0)),
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
    "olmoe": {"attention_bias": True},
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
