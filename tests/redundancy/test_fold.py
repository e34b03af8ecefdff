"""`fold` zeroes the expected biases and keeps the outputs, in every mode and for every layout.

The models are tiny and have random numbers in float64.  The tests require errors below 1e-8; the
measured errors are far smaller.  The bound that `fold` states, 1e-12 (1 + |t|), grows with the
longest move t, which is long where W_Q is nearly singular.
"""

import copy
import functools
import math
import random
from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from architectures.cases import Made, made
from derivation.checks import normal
from redundancy import as_rms_norm, audit, fold
from redundancy.fold import CannotFold, NotEqual
from redundancy.fold.centring import ShiftedRMSNorm
from redundancy.fold.equality import apart as apart_of
from redundancy.models.tiny import quiet, some_inputs
from redundancy.shift.null_space import NullSpace
from shared_models import *

X, SOUND, ROWS = normal(2, 5, d), normal(2, d, 7), normal(3, d)
#: The models' width, halved for keys and values that heads share.
D = 32
ATTENTION = {"b_Q": D, "b_K": D, "b_V": D}
#: {kind: (how many numbers a fold of one layer must zero, the biases that lose only their mean)}.
#: In a pre-norm block, the shift of the norm before the MLP goes into the MLP's first bias.  In a
#: post-norm block, the residual sum adds this shift to the MLP's second bias, so this bias goes
#: into the shift; in a parallel block, into b_O.  Chapter 14 folds GPT-2 and Phi.
FAMILIES = {
    "bert": (ATTENTION | {"b": D}, "encoder.layer.0.attention.output.dense"),
    # rotary positions rotate a quarter of each head; a norm's shift that absorbs b_Q stays, so β
    # goes only from the MLP's own norm
    "gpt_neox": (ATTENTION | {"b_K": D * 3 // 4, "b": D, "β": D}, "layers.0.attention.dense"),
    "llama": ({"b_V": D // 2}, ""),
    "gpt_oss": ({}, "layers.0.mlp.router"),  # its sinks keep b_K and b_V
}  # fmt: skip


@functools.cache
def small(kind):
    return random_model(kind, num_hidden_layers=1, attention_bias=True)  # of which some need this


@functools.cache
def folded(kind):
    return fold(small(kind))


def newly_zero(model, other):
    """How many numbers are zero in another model that are not zero in the given one."""
    after = dict(other.named_parameters())
    return sum(((p != 0) & (after[n] == 0)).sum().item() for n, p in model.named_parameters())


# --- the expected biases move, and outputs stay equal ---


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_family_is_folded(kind):
    expected, means = FAMILIES[kind]
    model, result, zeros = small(kind), folded(kind), Counter()
    assert result.error <= result.bound <= EQUAL
    seen = torch.ones(3, 9, dtype=torch.long)
    seen[0, 6:] = 0
    padded = some_inputs(model, batch=3, tokens=9, seed=3) | {"attention_mask": seen}
    for inputs in (None, padded, some_inputs(model, tokens=33)):
        assert apart(result.model, model, inputs) <= result.bound
    for row in result.moved:
        zeros[row.constant] += row.zeros
    assert +zeros == expected, str(result)
    assert newly_zero(model, result.model) == zeros.total()
    centred = [row.place for row in result.moved if "mean" in row.text]
    assert {place.removesuffix(".bias") for place in centred} == {*means.split()}
    for place in centred:
        b, given = (m.get_parameter(place) for m in (result.model, model))
        # Subtracting the mean of n numbers causes n rounding errors, each at most 2^-53 times the
        # largest number.
        largest = max(b.abs().max(), given.abs().max())
        assert b.mean().abs() <= 2 * len(b) * 2.0**-53 * largest and b.any()


def test_fold_changes_only_moved_and_absorbing_biases_of_a_copy():
    """Moving all of c_attn.bias changes only two other biases of the block, and only in a copy."""
    model = small("gpt2")
    before = copy.deepcopy(model)
    after = fold(model, move=["key", "value", "query"]).model
    moved = ("attn.c_attn.bias", "ln_1.bias", "attn.c_proj.bias")
    assert changed(model, after) == {f"h.0.{name}" for name in moved}
    assert not changed(model, before)


@made(lambda draw: {
    "norm": nn.LayerNorm(d), "attn": Attention(), "layerdrop": 0.02, "draw": draw})  # fmt: skip
def gated(self, x):
    """A block that skips a part at random; the norm's output is carried past attention."""
    read = self.norm(x)
    return read + self.attn(read) if self.draw() >= self.layerdrop else read


@made(lambda: {"one": nn.Linear(d, k), "other": nn.Linear(d, k)})
def weighted_sum(self, x):
    """A weighted sum of two maps: the factor 1/2 scales the second bias."""
    return torch.relu(torch.add(self.one(x), self.other(x.tanh()), alpha=0.5))


@made(lambda **flags: {"mha": nn.MultiheadAttention(d, h, batch_first=True, **flags)})
def attending(self, x):
    return self.mha(x, x, x, need_weights=False)


def encoder(norm_first):
    return nn.TransformerEncoderLayer(d, h, 2 * d, batch_first=True, norm_first=norm_first)


#: {title: (model, input, how many numbers become zero)}
FOLDED = {
    # b_ih and b_hh are added in all four gates of an LSTM, but in only two of a GRU's three gates
    "LSTM": (lambda: nn.LSTM(d, k), X, 4 * k),
    "GRU": (lambda: nn.GRU(d, k), X, 2 * k),
    # a convolution's bias goes into the running mean, which BatchNorm subtracts
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv1d(d, 6, 3), nn.BatchNorm1d(6), nn.ReLU(),
            nn.Conv1d(6, k, 1, bias=False), nn.BatchNorm1d(k), nn.ReLU()), SOUND, 6),
    # where the outputs of two maps are added, one bias can go into the other
    "a sum": (weighted_sum, ROWS, k),
    "a pre-norm block": (pre_norm, X, 3 * d),
    "its norm is read by a sine, too": (lambda: pre_norm(True), X, 2 * d),
    # bias_k and bias_v absorb the key and value biases; the zeros of add_zero_attn cannot
    "attention of PyTorch": (attending, X, 2 * d),
    "with a learned token": (lambda: attending(add_bias_kv=True), X, 2 * d),
    "with a token of zeros": (lambda: attending(add_zero_attn=True), X, 0),
    "an encoder, norms first": (lambda: encoder(True), X, 4 * d),
    "an encoder, norms last": (lambda: encoder(False), X, 3 * d),
}  # fmt: skip


@pytest.mark.parametrize("what", FOLDED)
def test_a_module_is_folded(what):
    make, x, zeros = FOLDED[what]
    model = randomised(make())
    for i, module in enumerate(model.modules()):
        if getattr(module, "running_mean", None) is not None:
            module.running_mean.copy_(normal(*module.running_mean.shape, seed=i))
            module.running_var.copy_(normal(*module.running_var.shape, seed=i + 1).exp())
    result = fold(model, x)
    assert sum(row.zeros for row in result.moved) == zeros, str(result)
    assert newly_zero(model, result.model) == zeros
    for seed in (8, 9):
        assert apart(result.model, model, (normal(*x.shape, seed=seed),)) <= result.bound


# --- training ---


@pytest.mark.parametrize("draw", [lambda: torch.rand(()), random.random])
def test_a_query_bias_stays_where_attention_is_skipped_at_random(draw):
    """The norm's shift, which could absorb b_Q, would stay in the outputs of a skipped layer."""
    model = randomised(gated(draw)).train()
    result = fold(model, X)
    assert {row.constant for row in result.moved} == {"b_K", "b_V"}, str(result)
    assert result.model.layerdrop == 0.02 and result.error <= result.bound


def test_running_statistics_are_not_changed_by_the_comparison():
    model = nn.Sequential(nn.BatchNorm1d(5), Attention()).train()
    before = copy.deepcopy(model.state_dict())
    result = fold(model, X.float())
    for one in (model, result.model):
        assert all(torch.equal(v, before[n]) for n, v in one.state_dict().items() if n[:2] == "0.")


# --- refusals ---


@made(lambda: {"map": nn.Linear(d, k), "idle": nn.Linear(k, k)})
def with_an_idle_map(self, x, use=False):
    return self.idle(self.map(x)) if use else F.instance_norm(self.map(x).mT)


def test_fold_refuses_a_model_with_a_matrix_that_no_run_uses():
    model = randomised(with_an_idle_map())
    with pytest.raises(CannotFold, match="idle.weight is not used"):
        fold(model, X)
    assert fold(model, (X, True)).kept
    del model.idle
    assert fold(model, X).moved


@pytest.mark.parametrize(("row", "bias", "moved", "verdict", "words"), [
    (0.0, 1, d - 1, "kept", "1 of 12 numbers"),
    (1e-6, 1, 0, "refused", "not clear"),
    (1e-3, 1e3, 0, "refused", "precision"),
])  # fmt: skip
def test_a_query_bias_moves_only_where_its_matrix_has_full_rank(row, bias, moved, verdict, words):
    """No shift absorbs a bias whose row of W_Q is zero; if the row is short, the shift is long."""
    model = randomised(pre_norm())
    model.attn.q.weight.data[0] *= row
    model.attn.q.bias.data *= bias
    result = fold(model, X, move=["key", "value", "query"])
    rows = {row.verdict: row for row in result.rows if row.constant == "b_Q"}
    assert sum(row.zeros for row in rows.values()) == moved and words in rows[verdict].text


@pytest.mark.parametrize(("ask", "words"), [
    (lambda: as_rms_norm(nn.Sequential(nn.LayerNorm(d).double()), X), "cannot be centred"),
    (lambda: as_rms_norm("a name"), "expected a model"),
    (lambda: fold("no/such folder"), "can be loaded"),
    (lambda: fold(nn.Linear(2, 2, device="meta"), torch.ones(2)), "meta device"),
    (lambda: fold(pre_norm()), "give inputs"),
    (lambda: fold(pre_norm(), [1]), "does not run on these inputs"),
    (lambda: fold(pre_norm(), X, move="keys"), "key, other"),
])  # fmt: skip
def test_what_cannot_be_folded_is_refused(ask, words):
    with pytest.raises(CannotFold, match=words):
        ask()


# --- no fault makes `fold` return a model whose outputs differ ---


def test_an_error_in_the_calculus_is_caught_by_the_comparison(monkeypatch):
    """The calculus claims, wrongly, that the last number of the last bias is redundant, too."""
    true = NullSpace.of

    def wrong(moves):
        space = true(moves)
        last = torch.eye(sum(space.shapes.values()), dtype=torch.float64)[:, -1:]
        basis = torch.linalg.qr(torch.cat([space.dense(), last], 1)).Q
        return NullSpace.whole(basis, space.shapes)

    monkeypatch.setattr(NullSpace, "of", wrong)
    with pytest.raises(NotEqual, match="No model is returned"):
        fold(randomised(pre_norm()), X)
    assert apart_of([torch.tensor([1.0, math.nan])], [torch.ones(2)]) == math.inf


# --- RMSNorms for LayerNorms, and biases into weights (Theorem 7.8) ---


@pytest.mark.parametrize("kind", ["phi", "gpt_neox"])
def test_pre_norm_models_become_rms_norm_models(kind):
    result = as_rms_norm(small(kind))
    assert apart(result.model, small(kind)) <= result.bound < EQUAL
    assert not [m for m in result.model.modules() if type(m) is nn.LayerNorm]


#: {architecture: the maps in each layer that read a LayerNorm}
READERS = {
    "gpt2": "attn.c_attn mlp.c_fc",  # Conv1D, which stores weights transposed
    "gpt_neox": "attention.query_key_value mlp.dense_h_to_4h",  # fused head by head
}


@pytest.mark.parametrize("kind", READERS)
def test_every_bias_after_a_layer_norm_goes_into_its_weight(kind):
    model = small(kind)
    readers = [f"{'h' if kind == 'gpt2' else 'layers'}.0.{name}" for name in READERS[kind].split()]
    result = fold(model, move=(), into_weights=True)
    assert apart(result.model, model) <= result.bound < EQUAL
    assert changed(model, result.model) == {f"{n}.{p}" for n in readers for p in ("weight", "bias")}
    assert not any(result.model.get_submodule(name).bias.any() for name in readers)
    numbers = sum(model.get_submodule(name).bias.numel() for name in readers)
    assert sum(row.zeros for row in result.moved) == numbers
    dropped = copy.deepcopy(model)  # the control: unless the weights change, the outputs differ
    for name in readers:
        dropped.get_submodule(name).bias.data.zero_()
    assert apart(dropped, model) > 1e-2


def block(norm=lambda norm: norm):
    """A random pre-norm block with another norm, which ``norm`` makes of the given one."""
    model = randomised(pre_norm())
    model.norm = norm(model.norm).double()
    return model


def with_a_tiny_kappa(norm):
    """Change a norm so that the sum of β / γ is about a millionth of the sum of |β / γ|."""
    ratios = norm.bias.data / norm.weight.data
    ratios[0] = -ratios[1:].sum() + 1e-6 * ratios[1:].abs().sum()
    norm.bias.data = ratios * norm.weight.data
    return norm


def with_a_zero_gain(norm):
    norm.weight.data[3] = 0
    return norm


def tied():
    model = block()
    model.attn.v.weight = model.attn.q.weight
    return model


REFUSED = {
    "an RMSNorm with a shift": lambda: block(lambda n: ShiftedRMSNorm((d,), 1e-5, n.bias.data)),
    "no shift": lambda: block(lambda n: nn.LayerNorm(d, bias=False)),
    "a gain with a zero": lambda: block(with_a_zero_gain),
    "kappa is tiny": lambda: block(with_a_tiny_kappa),
    "something between": lambda: block(lambda n: nn.Sequential(n, Made(lambda m, x: 2 * x, {}))),
    "a norm over tokens too": lambda: randomised(block(lambda norm: nn.LayerNorm((5, d)))),
    "a shared weight": tied,
}


@pytest.mark.parametrize("what", REFUSED)
def test_where_theorem_7_8_does_not_apply_a_bias_stays(what):
    model = REFUSED[what]()
    result = fold(model, X, move=(), into_weights=True)
    found = {row.constant: row for row in result.rows}
    assert found["b_Q"].verdict == "refused"
    if what != "a shared weight":  # there, the weight of k absorbs a bias
        assert not result.moved and not changed(model, result.model)


# --- checkpoints and other precisions ---


def test_a_bfloat16_model_keeps_its_dtype_and_a_long_shift_is_refused():
    result = fold(copy.deepcopy(small("bert")).bfloat16(), move=["key", "value"])
    assert {p.dtype for p in result.model.parameters()} == {torch.bfloat16}
    before, after = result.rounding
    assert 0 < before and 0 < after < max(10 * before, 1e-4)
    model = randomised(pre_norm())
    model.attn.q.weight.data[0] *= 1e-3
    assert fold(model, X).error < EQUAL
    with pytest.raises(NotEqual, match="equal in float64, but in bfloat16"):
        fold(model.bfloat16(), X)


def test_a_checkpoint_is_loaded_as_the_class_it_was_saved_from(tmp_path):
    with quiet():
        from transformers import BertForMaskedLM

        BertForMaskedLM(small("bert").config).save_pretrained(tmp_path)
    result = fold(tmp_path, move="key")
    assert isinstance(result.model, BertForMaskedLM) and result.rounding[0] > 0
    assert audit(str(tmp_path)).model == "BertForMaskedLM"


@pytest.mark.parametrize(("ask", "words"), [
    (lambda: fold(random_model("qwen2", num_hidden_layers=1), add_bias=True, move="value"),
     "o_proj.bias would be lost"),
    (lambda: as_rms_norm(small("phi")), "would be lost"),
    (lambda: fold(randomised(pre_norm()), X), "save its state_dict"),
])  # fmt: skip
def test_a_model_that_a_checkpoint_cannot_hold_is_not_saved(tmp_path, ask, words):
    with pytest.raises(CannotFold, match=words):
        ask().save(tmp_path / "folded")
    assert not (tmp_path / "folded").exists()


#: {architecture: modules of the first layer whose bias can be removed}
REMOVED = {
    "bert": "encoder.layer.0. attention.self.query attention.self.key attention.self.value "
    "output.dense",
    "gpt2": "h.0. ln_2",  # the fused c_attn is a Conv1D, which needs a bias
}


@pytest.mark.parametrize("kind", REMOVED)
def test_removed_biases_load_as_zeros(kind, tmp_path):
    layer, *names = REMOVED[kind].split()
    result = fold(small(kind), remove=True)
    out = {f"{layer}{name}.bias" for name in names}
    assert {name for name, *_ in result.removable} == out and "taken out" in str(result)
    assert not out & {*dict(result.model.named_parameters())}
    result.save(tmp_path)
    again = type(result.model).from_pretrained(tmp_path).double().eval()
    assert apart(again, small(kind)) <= result.bound
    assert not changed(again, folded(kind).model)
