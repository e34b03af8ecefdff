"""`audit` judges hand-written attention layers that keep or lose the invariances of softmax.

Each case replaces parts of one attention layer.  The tests look up biases by the names of the
maps; the expected counts were worked out by hand.
"""

import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal
from redundancy import audit
from redundancy.report import SYMBOLS
from shared_models import *

ALL = h * k


def x(batch=3, tokens=6):
    return normal(batch, tokens, d, dtype=torch.float32)


def split(t):
    """Reshape (batch, tokens, features) to (batch, heads, tokens, features per head)."""
    return t.unflatten(-1, (h, k)).transpose(1, 2)


def joined(t):
    return t.transpose(1, 2).flatten(-2)


def off_by_one(scores):
    return torch.softmax(F.pad(scores, (0, 1)), -1)[..., :-1]


def by_hand(added=0, axis=-1, mask=1.0):
    """Softmax written as exponentials divided by their sum, with ``added`` added to the sum."""

    def weigh(scores):
        e = scores.exp() * mask
        return e / (e.sum(axis, keepdim=True) + added) if added else e / e.sum(axis, keepdim=True)

    return weigh


def causal(value):
    def weigh(scores):
        hidden = torch.ones(scores.shape[-2:]).triu(1).bool()
        return torch.softmax(scores.masked_fill(hidden, value), -1)

    return weigh


def rotated(t):
    angles = torch.arange(t.shape[-2], dtype=t.dtype)[:, None] / (1 + torch.arange(k // 2))
    cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
    first, second = t.chunk(2, -1)
    return t * cos + torch.cat([-second, first], -1) * sin


def centred(t):
    return F.layer_norm(t, t.shape[-1:])


def rms_norm(t):
    return F.rms_norm(t, t.shape[-1:])


def whole(norm):
    """Apply a norm to all heads of a token together."""
    return lambda t: split(norm(joined(t)))


#: {title: (replaced parts, how many directions are redundant: b_Q alone, b_K alone, b_V with b_O)};
#: None stands for a number that is not tested.
CASES = {
    "causal, by replacement with -1": ({"weigh": causal(-1.0)}, 0, 0, ALL),
    "a causal mask that multiplies and adds": (
        {"weigh": lambda s: softmax(s * torch.ones_like(s).tril() - 1e4 * torch.ones_like(s).triu(1))},
        0, ALL, ALL,
    ),
    "temperature": ({"weigh": lambda s: softmax(s * 3 / torch.tensor(2.0))}, 0, ALL, ALL),
    "clamped from below": (
        {"weigh": lambda s: softmax(torch.maximum(s, torch.tensor(-1e9)))}, 0, 0, ALL
    ),
    "sigmoid": ({"weigh": torch.sigmoid}, 0, 0, 0),
    "softmax off by one": ({"weigh": off_by_one}, 0, 0, 0),
    "off by one, written out": ({"weigh": by_hand(added=1)}, 0, 0, 0),
    "exponentials under a mask": ({"weigh": by_hand(mask=torch.ones(6, 6).tril())}, 0, ALL, ALL),
    "exponentials taken twice": (
        {"weigh": lambda s: s.exp() / s.exp().sum(3, keepdim=True)}, 0, ALL, ALL
    ),
    "softmax by logarithms": ({"weigh": lambda s: s.log_softmax(-1).exp()}, 0, ALL, ALL),
    "less the logarithm of the sum": (
        {"weigh": lambda s: (s - s.logsumexp(-1, keepdim=True)).exp()}, 0, ALL, ALL
    ),
    "less the logarithm of a column's sum": (
        {"weigh": lambda s: (s - s.logsumexp(-2, keepdim=True)).exp()}, None, 0, 0
    ),
    "over the queries, written out": ({"weigh": by_hand(axis=-2)}, None, 0, 0),
    "softmax over the queries": ({"weigh": lambda s: torch.softmax(s, -2)}, None, 0, 0),
    "rotary values": ({"on_values": rotated}, 0, ALL, 0),
    "LayerNorm of all heads": ({"on_queries": whole(centred), "on_keys": whole(centred)}, 1, 1, ALL),
    "an extra key of zeros": (
        {"on_keys": lambda t: F.pad(t, (0, 0, 0, 1)), "on_values": lambda t: F.pad(t, (0, 0, 0, 1))},
        0, 0, 0,
    ),
    "a gate": ({"before_output": lambda out, x: out * torch.sigmoid(x)}, 0, ALL, 0),
    "LayerNorm before W_O": ({"before_output": lambda out, x: centred(out)}, 0, ALL, 1),
    "LayerNorm of each head before W_O": (
        {"before_output": lambda out, x: centred(out.unflatten(-1, (h, k))).flatten(-2)}, 0, ALL, h
    ),
    "keys less the mean of the heads, then RMSNorm": (
        {"on_keys": lambda t: rms_norm(t - t.mean(1, keepdim=True))}, 0, k, ALL
    ),
    "LayerNorm across the heads": (
        {"on_keys": lambda t: centred(t.transpose(1, 3)).transpose(1, 3)}, 0, k, ALL
    ),
    "keys less their mean": ({"on_keys": lambda t: t - t.mean(-2, keepdim=True)}, 0, ALL, ALL),
    "values less their mean": ({"on_values": lambda t: t - t.mean(-2, keepdim=True)}, 0, ALL, ALL),
    "a gate that is one number for each token": (
        {"before_output": lambda out, x: out * torch.sigmoid(x[..., :1])}, 0, ALL, 0
    ),
    "a scale for each channel": (
        {"before_output": lambda out, x: out * torch.arange(1.0, d + 1)}, 0, ALL, ALL
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_layer(case):
    given, *expected = CASES[case]
    report = audit(Attention(**given), x())
    rows = [report.row(f"{part}_proj.bias") for part in "qkv"]
    found = [rows[0].alone, rows[1].alone, rows[2].together]
    assert all(e in (None, f) for e, f in zip(expected, found, strict=True)), str(report)
    assert not report.disagreements, str(report)


# --- layers that could not be judged by the names of their parameters


def bent_in_place(keys):
    """Apply tanh to one dimension of each head through a view; autograd records CopySlices."""
    keys = keys.clone()
    keys[..., :1].tanh_()
    return keys


class Around(Attention):
    """Attention whose output passes through ``around(layer, input, output)``."""

    def __init__(self, around):
        super().__init__()
        self.around = around

    def forward(self, x):
        return self.around(self, x, super().forward(x))


def used_twice(name):
    """Attention that applies the map called ``name`` a second time, to the layer's input."""
    return Around(lambda layer, x, out: out + torch.tanh(getattr(layer, name)(x)))


class Shared(Attention):
    """Attention whose keys are also its values, so that one bias is added to both."""

    def forward(self, x):
        q, both = split(self.q_proj(x)), split(self.k_proj(x))
        return self.o_proj(joined(softmax(q @ both.mT) @ both))


class Gated(nn.Module):
    """Attention as in Qwen3.5, where one map makes the queries and the gate on the output."""

    def __init__(self):
        super().__init__()
        self.num_heads, self.head_dim = h, k
        self.q_proj, self.o_proj = nn.Linear(d, 2 * h * k), nn.Linear(h * k, d)
        self.k_proj, self.v_proj = nn.Linear(d, h * k), nn.Linear(d, h * k)

    def forward(self, x):
        q, gate = self.q_proj(x).unflatten(-1, (h, 2 * k)).chunk(2, -1)
        keys, v = split(self.k_proj(x)), split(self.v_proj(x))
        out = softmax(rms_norm(q.transpose(1, 2)) @ keys.mT / 2) @ v
        return self.o_proj(joined(out) * gate.flatten(-2).sigmoid())


#: {title: (layer, map, how many directions of the map's bias can go alone or into other biases)}
OTHERS = {
    "an activation on a view of the keys": (
        lambda: Attention(on_keys=bent_in_place), "k_proj", ALL - h),
    "sigmoid, divided by its sum": (
        lambda: Attention(lambda s: torch.sigmoid(s) / torch.sigmoid(s).sum(-1, keepdim=True)),
        "v_proj", ALL),
    "a small number beside the sum": (
        lambda: Attention(weigh=by_hand(added=1e-13)), "v_proj", ALL),
    "a mask above, and not below": (
        lambda: Attention(weigh=lambda s: s.exp().tril() / s.exp().sum(-1, keepdim=True)),
        "k_proj", ALL),
    "another exponential below": (
        lambda: Attention(weigh=lambda s: s.exp() / (2 * s).exp().sum(-1, keepdim=True)),
        "k_proj", 0),
    "a LayerNorm of the keys alone": (lambda: Attention(on_keys=centred), "q_proj", h),
    "less the largest score of a column, the key bias": (
        lambda: Attention(lambda s: softmax(s - s.amax(-2, keepdim=True))), "k_proj", 0),
    "a LayerNorm of one half of a head": (
        lambda: Attention(on_keys=lambda t: torch.cat([centred(t[..., :2]), t[..., 2:]], -1)),
        "k_proj", 3 * h),
    "another map before W_O": (
        lambda: Attention(before_output=lambda out, x: F.linear(out, torch.eye(d, dtype=x.dtype))),
        "v_proj", ALL),
    "heads that talk": (
        lambda: Attention(
            lambda s: torch.einsum("bhij,hg->bgij", softmax(s), torch.ones(3, 3).triu())),
        "v_proj", ALL),
    "an activation on the values": (lambda: Attention(on_values=torch.tanh), "v_proj", 0),
    "keys that are used twice": (lambda: used_twice("k_proj"), "k_proj", 0),
    "an output map that is used twice": (lambda: used_twice("o_proj"), "v_proj", 0),
    "keys that are values": (Shared, "k_proj", ALL),
    "queries that are a gate as well": (Gated, "q_proj", 0),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHERS)
def test_other_ways_through_a_layer(case):
    layer, name, count = OTHERS[case]
    row = audit(layer(), x()).row(f"{name}.bias")
    assert (row.together, row.verdict) == (count, "agree"), row


def test_a_dependence_below_float64_precision_is_unknown():
    """With 1e-13 in the denominator, outputs depend on b_K, but too little for float64 to show."""
    report = audit(Attention(weigh=by_hand(added=1e-13)), x())
    row = report.row("k_proj.bias")
    assert (row.alone, row.measured, row.verdict) == (0, (ALL, ALL), "unknown"), row


READERS = {
    "LayerNorm, written out": (
        lambda t: (t - t.mean(-1, keepdim=True)) * torch.rsqrt(t.var(-1, keepdim=True) + 1e-5), 1
    ),
    "a scale for each channel, then LayerNorm": (
        lambda t: centred(t * torch.arange(1.0, d + 1)), 1
    ),
    "an activation": (F.gelu, 0),
    "LayerNorm, and the stream itself": (lambda t: centred(t) + t, 0),
    "LayerNorm of one half, RMSNorm of the other": (
        lambda t: centred(t[..., :6]) + F.rms_norm(t[..., 6:], (6,)), 1
    ),
}  # fmt: skip


@pytest.mark.parametrize("reader", READERS)
def test_what_reads_the_stream_decides_how_much_of_b_O_can_go(reader):
    function, theory = READERS[reader]
    row = audit(Around(lambda layer, x, out: function(x + out)), x()).row("o_proj.bias")
    assert (row.alone, row.verdict) == (theory, "agree"), row


@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_a_layer_of_small_scale_is_counted_correctly(size):
    """Each layer has its own rank threshold, so a small Jacobian is not lost beside a large one."""
    report = audit(with_a_faint_layer(size), x())
    assert [report.row(f"{p}_proj.bias", at).alone for at in ("", "faint.") for p in "qk"] == 2 * [
        0,
        ALL,
    ]
    assert not report.disagreements


def with_a_faint_layer(size):
    model = Around(lambda layer, x, out: out + size * layer.faint(x))
    model.faint = Attention()
    return model


class OddAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.red, self.green, self.blue, self.white = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        return self.white(F.scaled_dot_product_attention(self.red(x), self.green(x), self.blue(x)))


def test_parts_of_attention_are_found_without_telling_names():
    rows = audit(nn.Sequential(OddAttention()), x()).rows
    assert {row.name.split(".")[1]: row.bias for row in rows} == dict(
        zip(("red", "green", "blue", "white"), SYMBOLS.values(), strict=True)
    )
    assert [row.alone for row in rows] == [0, d, 0, 0] and rows[2].into == ("0.white.bias",)


class Fused(nn.Module):
    """Attention with a fused map, whose output ``cut`` splits into queries, keys and values."""

    def __init__(self, cut):
        super().__init__()
        self.num_heads, self.cut = h, cut
        self.qkv, self.proj = nn.Linear(d, 3 * h * k), nn.Linear(h * k, d)

    def forward(self, x):
        q, keys, v = (t.transpose(1, 2) for t in self.cut(self.qkv(x)))
        return self.proj(joined(F.scaled_dot_product_attention(q, keys, v)))


CUTS = {
    "one after the other": lambda t: t.unflatten(-1, (3, h, k)).unbind(-3),
    "head by head": lambda t: t.unflatten(-1, (h, 3, k)).unbind(-2),
    "values first": lambda t: t.unflatten(-1, (3, h, k)).flip(-3).unbind(-3),
    "interleaved": lambda t: t.unflatten(-1, (h, k, 3)).unbind(-1),
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_fused_map_is_cut_as_the_run_shows(cut):
    report = audit(Fused(CUTS[cut]), x())
    assert [report.row(symbol).alone for symbol in SYMBOLS.values()] == [0, ALL, 0, 0]
    assert [report.row(symbol).together for symbol in SYMBOLS.values()] == [0, ALL, ALL, ALL]
    assert not report.disagreements
