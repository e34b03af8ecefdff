"""`audit` judges hand-written attention layers that keep or lose the invariances of softmax.

Each case replaces parts of one attention layer.  The tests look up biases by the names of the
maps; the expected counts were worked out by hand.
"""

import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal
from redundancy import audit
from redundancy.audit.report import SYMBOLS
from shared_models import *

ALL = h * k


def x(batch=3, tokens=6):
    return normal(batch, tokens, d, dtype=torch.float32)


def split(t):
    """Reshape (batch, tokens, features) to (batch, heads, tokens, features per head)."""
    return t.unflatten(-1, (h, k)).transpose(1, 2)


def joined(t):
    return t.transpose(1, 2).flatten(-2)


def by_hand(added=0, axis=-1, mask=1.0):
    """Softmax written as exponentials divided by their sum, with ``added`` added to the sum."""

    def weigh(scores):
        e = scores.exp() * mask
        return e / (e.sum(axis, keepdim=True) + added) if added else e / e.sum(axis, keepdim=True)

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


def one_more(t):
    """The keys or values, followed by one that is zero."""
    return F.pad(t, (0, 0, 0, 1))


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


def read_by(reader):
    """Attention whose output, added to its input, is read by ``reader``."""
    return Around(lambda layer, x, out: reader(x + out))


def weighed(weigh):
    return Attention(weigh=weigh)


def halves(norm, other):
    return lambda t: torch.cat(
        [norm(t[..., : t.shape[-1] // 2]), other(t[..., t.shape[-1] // 2 :])], -1
    )


SOFTMAX = {"q": 0, "k": ALL, "v+": ALL}
NO_KEYS = {"q": 0, "k": 0, "v+": ALL}
#: {title: (layer, how many directions of the bias of a map can go alone or, after a +, into others)}.
#: What the table of answers holds (masks, sinks, norms, gates) is tested with that table.
LAYERS = {
    # softmax, and what replaces it
    "a causal mask that multiplies and adds": (lambda: weighed(lambda s: softmax(
        s * torch.ones_like(s).tril() - 1e4 * torch.ones_like(s).triu(1))), SOFTMAX),
    "temperature": (lambda: weighed(lambda s: softmax(s * 3 / torch.tensor(2.0))), SOFTMAX),
    "off by one, written out": (lambda: weighed(by_hand(added=1)), {"q": 0, "k": 0, "v+": 0}),
    "exponentials under a mask": (
        lambda: weighed(by_hand(mask=torch.ones(6, 6).tril())), SOFTMAX),
    "exponentials taken twice": (
        lambda: weighed(lambda s: s.exp() / s.exp().sum(3, keepdim=True)), SOFTMAX),
    "softmax by logarithms": (lambda: weighed(lambda s: s.log_softmax(-1).exp()), SOFTMAX),
    "less the logarithm of the sum": (
        lambda: weighed(lambda s: (s - s.logsumexp(-1, keepdim=True)).exp()), SOFTMAX),
    "less the logarithm of a column's sum": (
        lambda: weighed(lambda s: (s - s.logsumexp(-2, keepdim=True)).exp()), {"k": 0, "v+": 0}),
    "over the queries, written out": (lambda: weighed(by_hand(axis=-2)), {"k": 0, "v+": 0}),
    "sigmoid, divided by its sum": (
        lambda: weighed(lambda s: s.sigmoid() / s.sigmoid().sum(-1, keepdim=True)), {"v+": ALL}),
    "a small number beside the sum": (lambda: weighed(by_hand(added=1e-13)), {"v+": ALL}),
    "a mask above, and not below": (
        lambda: weighed(lambda s: s.exp().tril() / s.exp().sum(-1, keepdim=True)), {"k": ALL}),
    "another exponential below": (
        lambda: weighed(lambda s: s.exp() / (2 * s).exp().sum(-1, keepdim=True)), {"k": 0}),
    "less the largest score of a column, the key bias": (
        lambda: weighed(lambda s: softmax(s - s.amax(-2, keepdim=True))), {"k": 0}),
    # queries and keys
    "an extra key of zeros": (
        lambda: Attention(on_keys=one_more, on_values=one_more), {"q": 0, "k": 0, "v+": 0}),
    "keys less the mean of the heads, then RMSNorm": (
        lambda: Attention(on_keys=lambda t: rms_norm(t - t.mean(1, keepdim=True))), NO_KEYS | {"k": k}),
    "LayerNorm across the heads": (
        lambda: Attention(on_keys=lambda t: centred(t.transpose(1, 3)).transpose(1, 3)),
        NO_KEYS | {"k": k}),
    "keys less their mean": (
        lambda: Attention(on_keys=lambda t: t - t.mean(-2, keepdim=True)), SOFTMAX),
    "an activation on a view of the keys": (
        lambda: Attention(on_keys=bent_in_place), {"k": ALL - h}),
    "a LayerNorm of one half of a head": (
        lambda: Attention(on_keys=halves(centred, unchanged)), {"k": 3 * h}),
    "keys that are used twice": (lambda: used_twice("k_proj"), {"k": 0}),
    "keys that are values": (Shared, {"k+": ALL}),
    "queries that are a gate as well": (Gated, {"q": 0}),
    # values
    "rotary values": (lambda: Attention(on_values=rotated), SOFTMAX | {"v+": 0}),
    "an activation on the values": (lambda: Attention(on_values=torch.tanh), {"v+": 0}),
    "LayerNorm before W_O": (
        lambda: Attention(before_output=lambda out, x: centred(out)), SOFTMAX | {"v+": 1}),
    "a gate that is one number for each token": (
        lambda: Attention(before_output=lambda out, x: out * torch.sigmoid(x[..., :1])),
        SOFTMAX | {"v+": 0}),
    "a scale for each channel": (
        lambda: Attention(before_output=lambda out, x: out * torch.arange(1.0, d + 1)), SOFTMAX),
    "another map before W_O": (
        lambda: Attention(before_output=lambda out, x: F.linear(out, torch.eye(d, dtype=x.dtype))),
        SOFTMAX),
    "an output map that is used twice": (lambda: used_twice("o_proj"), {"v+": 0}),
    # what reads the stream
    "LayerNorm, written out": (
        lambda: read_by(lambda t: (t - t.mean(-1, keepdim=True)) * (t.var(-1, keepdim=True) + 1).rsqrt()),
        {"o": 1}),
    "a scale for each channel, then LayerNorm": (
        lambda: read_by(lambda t: centred(t * torch.arange(1.0, d + 1))), {"o": 1}),
    "LayerNorm, and the stream itself": (lambda: read_by(lambda t: centred(t) + t), {"o": 0}),
    "LayerNorm of one half, RMSNorm of the other": (
        lambda: read_by(halves(centred, rms_norm)), {"o": 1}),
}  # fmt: skip


@pytest.mark.parametrize("case", LAYERS)
def test_a_layer(case):
    layer, expected = LAYERS[case]
    report = audit(layer(), x())
    rows = {bias: report.row(f"{bias[0]}_proj.bias") for bias in expected}
    assert not report.disagreements and {r.verdict for r in rows.values()} == {"agree"}, str(report)
    found = {b: row.together if b[1:] else row.alone for b, row in rows.items()}
    assert found == expected, str(report)


def test_a_dependence_below_float64_precision_is_unknown():
    """With 1e-13 in the denominator, outputs depend on b_K, but too little for float64 to show."""
    report = audit(Attention(weigh=by_hand(added=1e-13)), x())
    row = report.row("k_proj.bias")
    assert (row.alone, row.measured, row.verdict) == (0, (ALL, ALL), "unknown"), row


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
