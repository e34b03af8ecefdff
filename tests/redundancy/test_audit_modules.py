"""On small modules that once misled `audit`, its counts equal those worked out by hand."""

from collections import deque
from dataclasses import make_dataclass
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from architectures.cases import Made
from derivation.checks import normal
from redundancy import audit, fold
from redundancy.audit.report import SYMBOLS
from redundancy.what_can_go.attention import softmax
from shared_models import *


def x(*shape):
    return normal(*shape, dtype=torch.float32)


def returned(how):
    """Return (a module that computes ``how(scores, softmax(scores))``, the module's inputs)."""
    return Made(lambda m, x: how(z := m.a(x), softmax(z)), {"a": nn.Linear(4, 3)}), (x(5, 4),)


#: {form: what is returned of the scores z and the weights w}; only w does not depend on a's mean
OUTPUTS = {
    "the weights alone": lambda z, w: w,
    "a loss": lambda z, w: {"weights": w, "reg_loss": z.square().mean()},
    "hidden states": lambda z, w: {"weights": w, "text_hidden_states": z},
    "a dataclass": lambda z, w: (w, make_dataclass("Scores", "z")(z)),
    "a distribution": lambda z, w: torch.distributions.Normal(z, 1.0),
    "complex numbers": lambda z, w: (w, torch.fft.fft(z)),
    "a choice": lambda z, w: (w, z.sum(-1) > 0),
    "an object": lambda z, w: (w, SimpleNamespace(scores=z)),
    "a deque": lambda z, w: deque([w, z]),
    "a sparse tensor": lambda z, w: (w, z.to_sparse()),
}


@pytest.mark.parametrize("form", OUTPUTS)
def test_outputs_of_every_form_are_audited(form):
    report = audit(*returned(OUTPUTS[form]))
    assert report.row("a.bias").alone == (form == "the weights alone")
    assert not report.disagreements, str(report)


def test_an_array_among_the_outputs_prevents_the_verdict_agree():
    report = audit(*returned(lambda z, w: (w, z.detach().numpy())))
    assert report.row("a.bias").verdict in ("unknown", "DISAGREE")


# --- faint dependences


@pytest.mark.parametrize("size, alone", [(1.0, 0), (3e-7, 0), (0.0, 1)])
def test_a_direction_with_a_small_effect_is_not_redundant(size, alone):
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight.data = torch.tensor([[1.0, 0.0], [0.0, size]])
    report = audit(model, x(4, 2), weights="own")
    assert report.row("0.bias").alone == alone and not report.disagreements, str(report)


def test_a_dependence_below_float64_precision_is_unknown():
    """With 1e-13 in the denominator, outputs depend on b_K, but too little for float64 to show."""
    weigh = lambda s: s.exp() / (s.exp().sum(-1, keepdim=True) + 1e-13)
    row = audit(Attention(weigh=weigh), x(3, 6, d)).row("k.bias")
    assert (row.alone, row.measured[1], row.verdict) == (0, h * k, "unknown"), row


def test_a_condition_that_rounding_hides_is_still_imposed():
    """tanh depends on all of b, but float64 hides the last number, which is scaled by 1e-11."""
    scale = torch.tensor([1.0, 1.0, 1.0, 1e-11])
    model = Made(lambda m, x: (x + m.b * scale).tanh(), {"b": nn.Parameter(x(4))})
    report = audit(model, x(6, 4))
    assert report.redundant <= 1 and report.row("b").verdict in ("unknown", "UNCLEAR")


@pytest.mark.parametrize("size", [1.0, 1e-3])
def test_a_layer_of_small_scale_is_counted_correctly(size):
    """Each layer has its own rank threshold, so a small Jacobian is not lost beside a large one."""
    parts = {"loud": Attention(), "faint": Attention()}
    report = audit(Made(lambda m, x: m.loud(x) + size * m.faint(x), parts), x(3, 6, d))
    found = [report.row(f"{of}.{p}.bias").alone for of in parts for p in "qk"]
    assert found == 2 * [0, h * k] and not report.disagreements


def test_long_chains_of_linear_maps_are_counted():
    """In a chain of eight linear maps, the first seven biases can go into the eighth."""
    chain = [nn.Linear(16, 16) for _ in range(8)]
    report = audit(nn.Sequential(*chain, nn.ReLU(), nn.Linear(16, 3)), x(4, 16))
    assert report.redundant == 7 * 16 and not report.disagreements, str(report)


# --- operations that do nothing on the inputs seen so far

FAR = 50.0
#: {what never acts here: (the bias before it, options of `Attention`)}
WAYS = {
    "clamped keys": ("key", {"norm_k": lambda k: k.clamp(-FAR, FAR)}),
    "scores on one side of a relu": ("key", {"weigh": lambda s: softmax(F.relu(s + FAR) - FAR)}),
    "a branch": ("value", {"finish": lambda out, x: out.tanh() if out.abs().max() > FAR else out}),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_bias_before_an_operation_inactive_on_these_inputs_is_unknown_and_stays(way):
    """The Jacobian shows no effect; `architectures.traps` has more of these operations."""
    role, given = WAYS[way]
    model = Attention(**given)
    row = audit(model, x(3, 6, d)).row(role)
    assert (row.together, row.measured[1], row.verdict) == (0, h * k, "unknown"), row
    result = fold(randomised(model), {"x": x(3, 6, d).double()})
    assert not any(row.place == f"{role[0]}.bias" for row in result.moved)
    assert apart(result.model, model, {"x": 1e3 * x(3, 6, d).double()}) <= result.bound


# --- which parameters are audited, on which inputs


def test_an_embedding_table_is_left_out_and_named():
    parts = {"a": nn.Linear(3, 4), "norm": nn.LayerNorm(4), "table": nn.Embedding(5, 4)}
    model = Made(lambda m, x: m.norm(m.a(x) + m.table(torch.arange(5))), parts)
    report = audit(model, x(2, 5, 3))
    assert any("left out" in note and "table.weight" in note for note in report.notes)
    assert "table.weight" not in {row.name for row in report.rows}


def test_weights_among_the_inputs_are_not_varied():
    """The rows of the given adjacency matrix still sum to 1, so one bias absorbs the other."""
    parts = {"a": nn.Linear(3, 4), "bias": nn.Parameter(x(4))}
    model = Made(lambda m, x, a: a @ m.a(x) + m.bias, parts)
    report = audit(model, (x(6, 3), softmax(x(6, 6))))
    assert report.row("a.bias").into == ("bias",) and report.redundant == 4
    assert any("input 2 stayed as given" in note for note in report.notes)
    free = audit(model, (x(6, 3), x(6, 6)))
    assert free.redundant == 0 and not free.disagreements


def test_integer_inputs_that_are_not_varied_are_named():
    model = Made(lambda m, x, kind: torch.where(kind[:, None] == 1, m.a(x) + m.c, m.a(x)),
                 {"a": nn.Linear(3, 4), "c": nn.Parameter(x(4))})  # fmt: skip
    report = audit(model, {"x": x(5, 3), "kind": torch.zeros(5, dtype=torch.long)})
    assert report.row("c").answer == "can go: no operation depends on it"
    assert any("kind stayed as given" in note for note in report.notes)


def test_a_part_that_did_not_run_and_a_parameter_that_is_scaled_first_are_named():
    scaled = lambda m, x: F.layer_norm(x + m.c * m.g, (4,))
    parts = {"c": nn.Parameter(x(4)), "g": nn.Parameter(x(4)), "image": nn.Linear(3, 4)}
    *_, unused, left_out = audit(Made(scaled, parts), x(2, 4)).notes
    assert "image.bias" in unused and left_out.endswith(": c and g")


# --- models that are hard to run


def test_a_tensor_kept_as_an_attribute_is_converted_to_float64():
    model = Made(lambda m, x: x.float() @ m.made.float() + m.bias, {"bias": nn.Parameter(x(3))})
    model.made = x(4, 3)
    assert audit(model, x(2, 4)).row("bias").alone == 0


def test_a_model_on_which_autograd_fails_is_checked_by_moves():
    def squared(m, x):
        h = m.a(x)
        h.mul_(h)
        return m.b(h - h.mean(-1, keepdim=True))

    report = audit(Made(squared, {"a": nn.Linear(3, 4), "b": nn.Linear(4, 2)}), x(5, 3))
    assert any("autograd fails" in note for note in report.notes) and not report.disagreements


def test_a_bias_beside_an_operation_without_a_rule_is_unknown():
    grid = torch.rand(2, 3, 3, 2, generator=torch.Generator().manual_seed(0)) - 0.5
    model = Made(lambda m, x: F.grid_sample(m.c(x), grid.to(x), align_corners=False) + m.d,
                 {"c": nn.Conv2d(1, 1, 1), "d": nn.Parameter(x(1))})  # fmt: skip
    report = audit(model, x(2, 1, 5, 5))
    assert {row.verdict for row in report.rows} == {"unknown"}, str(report)


# --- parts of attention are found by their use

CUTS = {
    "one after the other": lambda t: t.unflatten(-1, (3, h, k)).unbind(-3),
    "head by head": lambda t: t.unflatten(-1, (h, 3, k)).unbind(-2),
    "values first": lambda t: t.unflatten(-1, (3, h, k)).flip(-3).unbind(-3),
    "interleaved": lambda t: t.unflatten(-1, (h, k, 3)).unbind(-1),
}


@pytest.mark.parametrize("cut", CUTS)
def test_a_fused_projection_is_split_as_in_the_run(cut):
    def fused(m, x):
        parts = (t.transpose(1, 2) for t in CUTS[cut](m.red(x)))
        return m.white(F.scaled_dot_product_attention(*parts).transpose(1, 2).flatten(-2))

    parts = {"red": nn.Linear(d, 3 * h * k), "white": nn.Linear(h * k, d)}
    report = audit(Made(fused, parts), x(3, 6, d))
    assert [report.row(symbol).alone for symbol in SYMBOLS.values()] == [0, h * k, 0, 0]
    assert [report.row(symbol).together for symbol in SYMBOLS.values()] == [0, *3 * [h * k]]
    assert report.row("b_V").into == ("white.bias",) and not report.disagreements


def test_attention_with_a_learned_query_is_recognised():
    """Attention with a learned query, as in SigLIP."""
    probed = lambda m, x: m.mha(m.probe.expand(len(x), 1, 8), x, x)[0]
    mha, probe = nn.MultiheadAttention(8, 2, batch_first=True), nn.Parameter(x(1, 1, 8))
    report = audit(Made(probed, {"mha": mha, "probe": probe}), x(2, 3, 8))
    told = {row.bias: (row.alone, row.together) for row in report.rows}
    assert told == {"b_Q": (0, 0), "b_K": (8, 8), "b_V": (0, 8), "b_O": (0, 8)}
    scored = nn.Sequential(nn.Linear(8, 8), nn.Softmax(-1), nn.Linear(8, 8))  # not attention
    assert not any(row.part for row in audit(scored, x(2, 3, 8)).rows)
