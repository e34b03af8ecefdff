"""`fold` on real architectures: what is zero afterwards, and that the outputs are the same.

The models are tiny and random, from the library's own configurations, in float64.  Equality is
asserted at 1e-8 and measured far below it; the bound that `fold` states, 1e-12 (1 + |t|), grows
with the longest shift t, which is long where W_Q is nearly singular.  What chapter 14 prints is not
tested again.
"""

import copy
import functools

import pytest
import torch
from derivation.checks import normal
from redundancy import as_rms_norm, audit, fold
from redundancy.equality import CannotFold, NotEqual, outputs
from redundancy.layers import find_attention
from redundancy.surgery import Surgeon
from redundancy.zoo import quiet, some_inputs
from shared_models import *

Q, K, V = "query", "key", "value"

#: What must be zero after a fold: biases of attention by role, second biases by name (all
#: layers, * for the number), and which second biases lose their mean only.
FAMILIES = {
    "gpt2": ([Q, K, V], [], ["h.*.mlp.c_proj"]),
    "opt": ([Q, K, V], [], ["decoder.layers.*.fc2"]),
    "vit": ([Q, K, V], [], ["layers.*.mlp.fc2"]),
    "bert": ([Q, K, V], ["encoder.layer.*.output.dense"], []),
    "distilbert": ([Q, K, V], ["transformer.layer.*.ffn.lin2"], []),
    "bart": ([Q, K, V], ["encoder.layers.*.fc2", "decoder.layers.*.fc2"], []),
    "whisper": ([Q, V], [], ["encoder.layers.*.fc2", "decoder.layers.*.fc2"]),
    "gpt_neox": ([Q, V], ["layers.*.mlp.dense_4h_to_h"], []),
    "phi": ([Q, V], ["layers.*.mlp.fc2"], []),
    "starcoder2": ([Q, V], [], ["layers.*.mlp.c_proj"]),
    "gptj": ([], [], ["h.*.mlp.fc_out"]),
    "llama": ([V], [], []),
    "qwen2": ([], [], []),
    "gpt_oss": ([], [], []),
}
#: Nothing here was written for these: whatever moves or stays, the outputs are the same.
OTHERS = ["mixtral", "convbert", "deberta", "deberta-v2", "xlm", "siglip"]


@functools.cache
def folded(kind):
    return fold(random_model(kind))


def projections(model, role):
    found = [layer.projections[role] for layer in find_attention(model)]
    return [p for p in found if p.bias() is not None]


def numbered(model, patterns):
    """The Linears of these names, in both layers."""
    names = [pattern.replace("*", number) for pattern in patterns for number in "01"]
    return [model.get_submodule(name) for name in names]


# --- what moves, and that it is equal ---


@pytest.mark.parametrize("kind", FAMILIES)
def test_what_is_said_to_be_zero_is_zero_and_nothing_more_moves(kind):
    roles, second, means = FAMILIES[kind]
    model = folded(kind).model
    for role in (Q, K, V):
        for projection in projections(model, role):
            assert bool(projection.bias().any()) == (role not in roles), f"{role} of {kind}"
    assert not any(linear.bias.any() for linear in numbered(model, second))
    for linear in numbered(model, means):
        # Subtracting a mean of n numbers leaves their n roundings, each at most u times the largest.
        allowed = 2 * len(linear.bias) * 2.0**-53 * linear.bias.abs().max()
        assert linear.bias.mean().abs() <= allowed and linear.bias.any()
    assert fold(model).moved == [], "a second time"


@pytest.mark.parametrize("kind", [*FAMILIES, *OTHERS])
def test_the_outputs_are_equal(kind):
    assert folded(kind).error <= folded(kind).bound <= EQUAL
    assert apart(folded(kind).model, random_model(kind)) <= folded(kind).bound


def test_only_those_change_that_pay_and_the_model_given_is_not_changed():
    """All 3d of c_attn.bias leave, in two constants of each block."""
    model = random_model("gpt2")
    before = copy.deepcopy(model)
    after = fold(model, move=[Q, K, V]).model
    paying = ("attn.c_attn.bias", "ln_1.bias", "attn.c_proj.bias")
    assert changed(model, after) == {f"h.{i}.{name}" for i in range(2) for name in paying}
    assert not changed(model, before)


@pytest.mark.parametrize("kind", ["opt", "phi", "gpt_neox", "gptj"])
def test_pre_norm_models_become_rms_norm_models(kind):
    """Chapter 14 centres others."""
    result = as_rms_norm(random_model(kind))
    assert apart(result.model, random_model(kind)) <= result.bound < EQUAL


def test_a_causal_language_model_with_its_head_generates_the_same_words():
    model = language_model()
    result = fold(model)
    assert result.error < EQUAL and len(result.moved) == 8
    ids = some_inputs(model)["input_ids"]
    asked = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    with quiet():
        expected = model.generate(ids, **asked)
        for cache in (False, True):
            assert torch.equal(result.model.generate(ids, use_cache=cache, **asked), expected)


# --- refusals ---


def test_a_shared_block_keeps_what_its_two_calls_would_pay_differently():
    result = fold(random_model("albert"))
    assert {row.constant for row in result.moved} == {"b_K", "b_V"}
    assert "more than once" in result.refused[0].text


def test_a_query_bias_out_of_range_is_kept_and_one_that_is_too_far_is_refused():
    for size, reason in ((0.0, "rank"), (1e-5, "too long")):
        model = randomised(Watched())
        model.attn.q_proj.weight.data[0] *= size
        result = fold(model, {"x": normal(2, 5, d)})
        assert reason in next(row.text for row in result.rows if row.constant == "b_Q")


def quantised():
    model = copy.deepcopy(random_model("gpt2"))
    model.is_quantized = True
    return model


def on_meta():
    with torch.device("meta"):
        return nn.MultiheadAttention(16, 2)


def changing_itself():
    """BigBird swaps its attention for another one at the first short input."""
    with quiet():
        return tiny("big_bird")


def with_an_idle_norm():
    model = language_model()
    model.idle = nn.LayerNorm(32).double()
    return model


REFUSED = {
    "a norm that does not run": (
        lambda: as_rms_norm(with_an_idle_norm()), "idle runs more than once, or not at all"),
    "no model to centre": (lambda: as_rms_norm("a name"), "a model is needed"),
    "quantised": (lambda: fold(quantised()), "quantised"),
    "meta": (lambda: fold(on_meta(), {"query": 0}), "meta device"),
    "inputs needed": (lambda: fold(Watched()), "give inputs"),
    "inputs no dict": (lambda: fold(Watched(), [1]), "dict of keyword arguments"),
    "a model that changes": (lambda: fold(changing_itself()), "another module after a run"),
    "move is a number": (lambda: fold(random_model("gpt2"), move=3), "key, value, query"),
    "both": (lambda: fold(random_model("gpt2"), move=[Q, "shifts"]), "go into the shifts"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_folded_is_refused_in_a_sentence(name):
    ask, words = REFUSED[name]
    with pytest.raises(CannotFold, match=words) as caught:
        ask()
    assert "\n" not in str(caught.value)


# --- it cannot return a model that is not equal ---


def wrong_sign(self, norm, t):
    norm.bias += t
    for linear, how in self.bills(norm):
        linear.bias += t if how == "carries" else linear.weight.new_zeros(())
    return "nobody"


def not_a_number(self, layer):
    layer.value.set_bias(layer.value.bias() * float("nan"))
    yield "nowhere"


FAULTS = {
    "nobody pays": ("bert", "slide", wrong_sign),
    "a difference that is no number": ("gpt2", "fold_value", not_a_number),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_by_the_comparison(name, monkeypatch):
    kind, method, faulty = FAULTS[name]
    monkeypatch.setattr(Surgeon, method, faulty)
    with pytest.raises(NotEqual, match="No model is returned"):
        fold(random_model(kind))


# --- checkpoints and other precisions ---


def test_a_checkpoint_is_loaded_in_the_class_it_was_saved_as(tmp_path):
    with quiet():
        from transformers import BertForMaskedLM

        BertForMaskedLM(random_model("bert").config).save_pretrained(tmp_path)
    result = fold(tmp_path, move=K)
    assert isinstance(result.model, BertForMaskedLM) and result.rounding[0] > 0
    assert audit(str(tmp_path)).model == "BertForMaskedLM"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_model_returned_has_the_dtype_of_the_model_given(dtype):
    result = fold(copy.deepcopy(random_model("bert")).to(dtype), move=[K, V])
    assert {p.dtype for p in result.model.parameters()} == {dtype}
    before, after = result.rounding
    assert 0 < before and 0 < after < max(10 * before, 1e-4)


def test_in_few_digits_a_long_shift_is_refused():
    model, x = randomised(Watched()), {"x": normal(2, 5, d)}
    model.attn.q_proj.weight.data[0] *= 1e-3
    assert fold(model, x).error < EQUAL
    with pytest.raises(NotEqual, match="equal in float64, but in bfloat16"):
        fold(model.bfloat16(), x)


def test_states_on_the_way_are_not_compared():
    found = outputs(random_model("bert"), some_inputs(random_model("bert")))
    assert set(found) == {"last_hidden_state", "pooler_output"}


# --- what a checkpoint cannot hold ---


LOST = {
    "qwen2": (lambda: fold(random_model("qwen2"), add_bias=True), "o_proj.bias would not come back"),
    "stablelm": (
        lambda: fold(random_model("stablelm", use_qkv_bias=True), add_bias=True),
        "o_proj.bias would not come back"),
    "another norm": (lambda: as_rms_norm(language_model()), "would not come back"),
    "no checkpoint": (
        lambda: fold(randomised(Watched()), {"x": normal(2, 5, d)}), "save its state_dict"),
}  # fmt: skip


@pytest.mark.parametrize("what", LOST)
def test_what_would_not_come_back_is_not_saved(tmp_path, what):
    ask, words = LOST[what]
    with pytest.raises(CannotFold, match=words):
        ask().save(tmp_path / "folded")
    assert not (tmp_path / "folded").exists()


def test_what_is_saved_comes_back(tmp_path):
    folded("gpt2").save(tmp_path)
    again = type(random_model("gpt2")).from_pretrained(tmp_path).double().eval()
    assert not changed(again, folded("gpt2").model)
    assert apart(again, random_model("gpt2")) <= folded("gpt2").bound
