"""By Theorem 7.8, `fold(model, into_weights=True)` moves biases after a LayerNorm into weights."""

import copy

import pytest
import torch
from derivation.checks import normal
from redundancy import fold
from redundancy.fold import NotEqual, moving
from redundancy.fold.centring import ShiftedRMSNorm
from shared_models import *

X = {"x": normal(2, 5, d)}

#: {architecture: the maps in each layer that read a LayerNorm}
READERS = {
    "phi": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "mlp.fc1"],
    "gpt2": ["attn.c_attn", "mlp.c_fc"],  # Conv1D, which stores weights transposed
    "gpt_neox": ["attention.query_key_value", "mlp.dense_h_to_4h"],  # fused head by head
    "vit": ["attention.q_proj", "attention.k_proj", "attention.v_proj", "mlp.fc1"],
}


@pytest.mark.parametrize("kind", READERS)
def test_every_bias_after_a_layer_norm_goes_into_its_weight(kind):
    model, layers = random_model(kind), "h" if kind == "gpt2" else "layers"
    readers = [f"{layers}.{i}.{name}" for i in (0, 1) for name in READERS[kind]]
    readers += ["pooler.dense"] if kind == "vit" else []  # the pooler reads the last norm
    result = fold(model, move=(), into_weights=True)
    assert apart(result.model, model) <= result.bound < EQUAL
    assert changed(model, result.model) == {f"{n}.{p}" for n in readers for p in ("weight", "bias")}
    assert not any(result.model.get_submodule(name).bias.any() for name in readers)
    numbers = sum(model.get_submodule(name).bias.numel() for name in readers)
    assert sum(row.zeros for row in result.moved) == numbers
    assert not fold(result.model, move=(), into_weights=True).moved, "a second time"
    dropped = copy.deepcopy(model)
    for name in readers:
        dropped.get_submodule(name).bias.data.zero_()
    assert apart(dropped, model) > 1e-2


@pytest.mark.parametrize(("rank", "symbol", "name"), [(32, "b_K", "k_proj"), (3, "b_Q", "q_proj")])
def test_a_bias_that_no_other_bias_takes_goes_into_a_weight(rank, symbol, name):
    """In Phi, these are the rotated half of b_K, and b_Q if no shift can absorb it."""
    model = copy.deepcopy(random_model("phi"))
    for layer in model.layers:
        layer.self_attn.q_proj.weight.data[:, rank:] = 0.0
    plain, result = fold(model), fold(model, into_weights=True)
    assert symbol in {row.constant for row in plain.kept}
    assert apart(result.model, model) <= result.bound < EQUAL
    biases = [layer.self_attn.get_submodule(name).bias for layer in result.model.layers]
    assert len(biases) == 2 and not any(bias.any() for bias in biases)
    assert "price: weights change by" in str(result) and "price" not in str(plain)
    if rank == 32:
        kept = [row.text for row in plain.kept if row.constant == symbol]
        assert len(kept) == 2 and all("8 of 16 numbers" in t and "[5.4]" in t for t in kept)
        absorbed = [(row.constant, row.zeros) for row in result.moved if row.price]
        assert absorbed == 2 * [("b_K", 8), ("b", 64)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_loss_of_digits_is_reported_and_zero_biases_are_removed(dtype, tmp_path):
    model = copy.deepcopy(random_model("phi")).to(dtype)
    result = fold(model, move=(), into_weights=True, remove=True)
    digits = {torch.float32: 6, torch.bfloat16: 2}[dtype]
    assert f"of {digits} digits" in str(result)
    assert 0 < result.rounding[1] < max(10 * result.rounding[0], 1e-4)
    assert all(layer.mlp.fc1.bias is layer.self_attn.k_proj.bias is None
               for layer in result.model.layers)  # fmt: skip
    result.save(tmp_path)
    with quiet():
        again = type(model).from_pretrained(tmp_path, dtype=dtype).eval()
    assert not changed(result.model, again)


# --- norms and readers to which the theorem does not apply ---


class Doubling(nn.Module):
    def forward(self, x):
        return 2 * x


def block(norm=None, between=None):
    """A random pre-norm block, in which ``norm`` changes the norm and ``between`` follows it."""
    model = randomised(Watched())
    model.norm = model.norm if norm is None else norm(model.norm)
    if between is not None:
        model.norm = nn.Sequential(model.norm, between)
    return model


def with_kappa(ratio):
    """Change a norm so that the sum of β / γ is about ``ratio`` times the sum of |β / γ|."""

    def change(norm):
        ratios = norm.bias.data / norm.weight.data
        ratios[0] = -ratios[1:].sum() + ratio * ratios[1:].abs().sum()
        norm.bias.data = ratios * norm.weight.data
        return norm

    return change


def rms(norm):
    return ShiftedRMSNorm((d,), 1e-5, norm.bias.data).double()


def without(name):
    def change(norm):
        getattr(norm, name).data.mul_(torch.arange(d) != 3 if name == "weight" else 0)
        return norm

    return change


def tied():
    model = block()
    model.attn.v_proj.weight = model.attn.q_proj.weight
    return model


REFUSED = {
    "an RMSNorm with a shift": (lambda: block(rms), "only a LayerNorm's sum is known"),
    "no shift": (lambda: block(without("bias")), "has no shift"),
    "a gain with a zero": (lambda: block(without("weight")), "gain of norm contains a zero"),
    "kappa is zero": (lambda: block(with_kappa(0)), "is zero"),
    "kappa is tiny": (lambda: block(with_kappa(1e-6)), "is too small"),
    "something between": (lambda: block(between=Doubling()), "reads what mul returns"),
    "a norm over tokens too": (
        lambda: randomised(block(lambda norm: nn.LayerNorm((5, d)))), "several dimensions"),
    "a shared weight": (tied, "is also used elsewhere"),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_where_theorem_7_8_does_not_apply_it_is_refused_in_a_sentence(what):
    make, words = REFUSED[what]
    model = make()
    result = fold(model, X, move=(), into_weights=True)
    found = {row.constant: row for row in result.rows}
    assert words in found["b_Q"].text and found["b_Q"].verdict != "moved"
    if what != "a shared weight":  # there, the weight of k_proj absorbs a bias
        assert not result.moved and not changed(model, result.model)


@pytest.mark.parametrize("trusted", [False, True])
def test_after_an_rms_norm_the_calculus_and_the_comparison_each_refuse(monkeypatch, trusted):
    a_layer_norm = torch.ones(d).double(), torch.full((d,), 0.5).double()  # a gain and a shift
    monkeypatch.setattr(moving, "_norm_of", lambda read, name: a_layer_norm)
    if not trusted:
        assert not fold(block(rms), X, move=(), into_weights=True).moved
        return
    monkeypatch.setattr(moving, "changes_nothing", lambda *given: True)
    with pytest.raises(NotEqual, match="No model is returned"):
        fold(block(rms), X, move=(), into_weights=True)
