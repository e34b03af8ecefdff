"""`audit` on layers nobody named: every way in which S or R is kept or lost, written by hand.

One attention layer whose parts are exchanged: its operations are all that the audit has to go by.
"""

import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal
from redundancy import audit, fold
from redundancy.layers import find_attention, find_others
from redundancy.nullity import Jacobian
from shared_models import *

ALL = h * k
ROLES = ("query", "key", "value", "output")


def x(batch=3, tokens=6):
    return normal(batch, tokens, d, dtype=torch.float32)


def split(t):
    """The heads of a projection, before the tokens."""
    return t.unflatten(-1, (h, k)).transpose(1, 2)


def joined(t):
    return t.transpose(1, 2).flatten(-2)


def off_by_one(scores):
    return torch.softmax(F.pad(scores, (0, 1)), -1)[..., :-1]


def by_hand(added=0, axis=-1, mask=1.0):
    """Softmax as it stands in textbooks."""

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
    """A norm over all heads of a token together."""
    return lambda t: split(norm(joined(t)))


#: what is exchanged: redundant directions of b_Q, b_K, b_V (with b_O).  What models have (ALiBi, a
#: soft cap, rotary positions, norms of queries and keys) stands in `test_audit.py`.
CASES = {
    "causal, by replacement with -1": ({"weigh": causal(-1.0)}, 0, 0, ALL),
    "a causal mask that multiplies and adds": (
        {"weigh": lambda s: softmax(s * torch.ones_like(s).tril() - 1e4 * torch.ones_like(s).triu(1))},
        0, ALL, ALL,
    ),
    "temperature": ({"weigh": lambda s: softmax(s * 3 / torch.tensor(2.0))}, 0, ALL, ALL),
    "clamped from below": (
        {"weigh": lambda s: softmax(torch.maximum(s, torch.tensor(-1e9)))}, 0, ALL, ALL
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
    report = audit(Attention(**given), x(), inject=True)
    for role, theory in zip(ROLES, expected):
        row = report.row(role)
        if theory is not None:
            assert (row.predicted, row.measured, row.verdict) == (theory, theory, "agree"), row
        assert row.verdict != "DISAGREE", row


# --- what no theorem speaks of: measured, and said to be unknown


def bent_in_place(keys):
    """One dimension of every head is bent in a view: the record calls that CopySlices."""
    keys = keys.clone()
    keys[..., :1].tanh_()
    return keys


class Around(Attention):
    """Attention with something around it: a function of the layer, its input and its output."""

    def __init__(self, around):
        super().__init__()
        self.around = around

    def forward(self, x):
        return self.around(self, x, super().forward(x))


def used_twice(name):
    """One of its maps is used a second time, where no weights are."""
    return Around(lambda layer, x, out: out + torch.tanh(getattr(layer, name)(x)))


class Shared(Attention):
    """One map makes keys and values: its bias is in both."""

    def forward(self, x):
        q, both = split(self.q_proj(x)), split(self.k_proj(x))
        return self.o_proj(joined(softmax(q @ both.mT) @ both))


class Gated(nn.Module):
    """Qwen3.5: one map makes the queries, which a norm bends, and a gate on what comes out."""

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


#: a layer, the role of a bias, and its redundant directions, which are not predicted
UNKNOWN = {
    "an activation on a view of the keys": (
        lambda: Attention(on_keys=bent_in_place), "key", ALL - h),
    "sigmoid, divided by its sum": (
        lambda: Attention(lambda s: torch.sigmoid(s) / torch.sigmoid(s).sum(-1, keepdim=True)),
        "value", ALL),
    "a small number beside the sum": (
        lambda: Attention(weigh=by_hand(added=1e-13)), "value", ALL),
    "a mask above, and not below": (
        lambda: Attention(weigh=lambda s: s.exp().tril() / s.exp().sum(-1, keepdim=True)),
        "key", ALL),
    "another exponential below": (
        lambda: Attention(weigh=lambda s: s.exp() / (2 * s).exp().sum(-1, keepdim=True)),
        "key", 0),
    "a LayerNorm of the keys alone": (lambda: Attention(on_keys=centred), "query", h),
    "less the largest score of a column, the key bias": (
        lambda: Attention(lambda s: softmax(s - s.amax(-2, keepdim=True))), "key", 0),
    "a LayerNorm of one half of a head": (
        lambda: Attention(on_keys=lambda t: torch.cat([centred(t[..., :2]), t[..., 2:]], -1)),
        "key", 3 * h),
    "another map before W_O": (
        lambda: Attention(before_output=lambda out, x: F.linear(out, torch.eye(d, dtype=x.dtype))),
        "value", ALL),
    "heads that talk": (
        lambda: Attention(
            lambda s: torch.einsum("bhij,hg->bgij", softmax(s), torch.ones(3, 3).triu())),
        "value", ALL),
    "an activation on the values": (lambda: Attention(on_values=torch.tanh), "value", 0),
    "keys that are used twice": (lambda: used_twice("k_proj"), "key", 0),
    "an output map that is used twice": (lambda: used_twice("o_proj"), "value", 0),
    "keys that are values": (Shared, "key", 0),
    "queries that are a gate as well": (Gated, "query", 0),
}  # fmt: skip


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_unknown_is_measured_only(case):
    layer, role, measured = UNKNOWN[case]
    row = audit(layer(), x()).row(role)
    assert (row.predicted, row.measured, row.verdict) == (None, measured, "measured only"), row
    assert row.why[0].startswith("unknown architecture: ")


@pytest.mark.parametrize("case", [c for c in CASES if "mean" in c or "across" in c])
def test_the_directions_that_a_norm_erases_can_go(case):
    """As many as are measured is not enough: `fold` moves along them, and compares."""
    model = randomised(Attention(**CASES[case][0]))
    result = fold(model, {"x": normal(2, 5, d)}, move="key")
    assert result.error <= result.bound and [row.constant for row in result.moved] == ["b_K"]
    assert apart(result.model, model, {"x": normal(3, 7, d)}) < EQUAL


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
def test_who_reads_the_stream(reader):
    function, theory = READERS[reader]
    row = audit(Around(lambda layer, x, out: function(x + out)), x()).row("output")
    assert row.verdict in ("agree", "measured only") and row.measured >= theory, row
    if row.predicted is not None:
        assert row.predicted == row.measured == theory, row


@pytest.mark.parametrize("size", [1.0, 1e-6, 1e-10])
def test_a_layer_that_is_hardly_heard(size):
    """Its Jacobian is small beside that of the layer that is heard: the cut is its own."""
    report = audit(with_a_faint_layer(size), x())
    assert [row.measured for row in report.rows] == 2 * [0, ALL, ALL, 0]
    assert not report.disagreements


def with_a_faint_layer(size):
    model = Around(lambda layer, x, out: out + size * layer.faint(x))
    model.faint = Attention()
    return model


@pytest.mark.parametrize("size", [1.0, 1e-6, 1e-10])
def test_a_move_that_is_seen_is_seen_of_a_layer_that_is_hardly_heard(size, monkeypatch):
    """The control of the finite moves: all of a query bias is said to be redundant, and is not."""
    monkeypatch.setattr(Jacobian, "redundant", lambda self, *names: torch.eye(
        sum(self.shapes[name].numel() for name in names), dtype=torch.float64))  # fmt: skip
    report = audit(with_a_faint_layer(size), x())
    assert [row.role for row in report.disagreements if row.role == "query"] == 2 * ["query"]


class OddAttention(nn.Module):
    """Names that say nothing."""

    def __init__(self):
        super().__init__()
        self.red, self.green, self.blue, self.white = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x):
        return self.white(F.scaled_dot_product_attention(self.red(x), self.green(x), self.blue(x)))


def test_names_that_say_nothing():
    model = nn.Sequential(OddAttention())
    assert find_attention(model, demand=False) == []
    assert list(find_others(model)["0"]) == ["red", "green", "blue", "white"]
    rows = {row.role: row for row in audit(model, x()).rows}
    assert {row.verdict for row in rows.values()} == {"measured only"}
    assert [rows[r].measured for r in ("red", "green", "blue", "white")] == [0, d, 0, 0]


class Fused(nn.Module):
    """A fused map, cut in an order or a way that its name does not tell."""

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
    assert [row.measured for row in report.rows] == [0, ALL, ALL, 0]
    assert not report.disagreements


# --- PyTorch's own layers


def multihead_inputs(layer):
    sizes = {"query": layer.embed_dim, "key": layer.kdim, "value": layer.vdim}
    draw = lambda size: normal(5, 4, size, dtype=torch.float32, seed=size)
    return {name: draw(size) for name, size in sizes.items()}


@pytest.mark.parametrize("flag, kept", [("batch_first", 8), ("add_bias_kv", 0)])
def test_multihead_attention_without_its_weights(flag, kept):
    """With them, and with every flag: chapter 13."""
    layer = nn.MultiheadAttention(8, 2, **{flag: True})
    report = audit(layer, multihead_inputs(layer) | {"need_weights": False}, inject=True)
    assert [row.measured for row in report.rows if row.bias in ("b_K", "b_V")] == [kept, kept]
    assert not report.disagreements


def test_an_output_bias_that_another_module_adds():
    """GPT-NeoX-Japanese: the last layer hands its b_O on, and the block adds it."""
    first, last = (la.output for la in find_attention(tiny("gpt_neox_japanese")))
    assert not first.has_bias and last.bias_name == "layers.1.attention.dense_bias"
    report = audit(tiny("gpt_neox_japanese"), inject=True)
    assert [(r.predicted, r.measured) for r in report.rows if r.role == "value"] == [
        (1, 1),
        (32, 32),
    ]


def test_a_decoder_that_sees_few_numbers():
    """TimeSeriesTransformer: whether keys span a head is asked of them, not of a width."""
    given = {"prediction_length": 2, "context_length": 4, "lags_sequence": [1]}
    model = tiny("time_series_transformer", num_time_features=1, **given)
    past, future = ((2, 5), (2, 2))
    named = {"past_values": past, "past_time_features": (*past, 1), "past_observed_mask": past,
             "future_values": future, "future_time_features": (*future, 1)}  # fmt: skip
    report = audit(model, {
        name: normal(*shape, seed=i, dtype=torch.float32) if "mask" not in name else torch.ones(shape)
        for i, (name, shape) in enumerate(named.items())
    })  # fmt: skip
    assert not report.disagreements
    few = {r.measured: r.why for r in report.rows if r.role == "query" and r.predicted is None}
    assert set(few) == {4, 12}
    assert all(f"span {32 - m} of 32" in why[0] for m, why in few.items())


def test_attention_without_softmax_is_named():
    model = tiny("qwen3_next", full_attention_interval=2, layer_types=None)
    assert any("layers.*.linear_attn" in note for note in audit(model).notes)


def test_mobilevit_disagrees_nowhere():
    """Its later blocks are heard a billion times less than the first: each is judged alone."""
    sizes = {"hidden_sizes": 3 * [16], "neck_hidden_sizes": [4, 4, 4, 4, 8, 8, 8]}
    small = {"num_attention_heads": 2, "expand_ratio": 1.0, "mlp_ratio": 1.0, "patch_size": 2}
    model = tiny("mobilevit", **sizes, **small)
    report = audit(model, {"pixel_values": normal(2, 3, 64, 64, dtype=torch.float32)})
    expected = {"key": 16, "value": 16, "output": 1}
    for row in report.rows:
        assert row.verdict != "DISAGREE", row
        if row.predicted is not None and row.role in expected:
            assert (row.predicted, row.measured) == 2 * (expected[row.role],), row


def test_an_output_bias_behind_a_linear_map():
    """TimeSformer: what its map makes of b_O has a mean that no norm sees, so W b_O = c 1 is free."""
    model = tiny("timesformer", num_frames=3, num_hidden_layers=1)
    report = audit(model, {"pixel_values": normal(2, 3, 3, 16, 16, dtype=torch.float32)})
    assert not report.disagreements
    assert {(r.predicted, r.measured) for r in report.rows if r.role == "output"} == {(1, 1)}
