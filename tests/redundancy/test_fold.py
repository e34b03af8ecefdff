"""On real architectures, `fold` zeroes the expected biases and keeps the outputs.

The models are tiny ones from the transformers library, with random numbers in float64.  The tests
require errors below 1e-8; the measured errors are far smaller.  The bound that `fold` states,
1e-12 (1 + |t|), grows with the longest move t, which is long where W_Q is nearly singular.
"""

import copy
import functools
import math
from collections import Counter

import pytest
import torch
from derivation.checks import normal
from redundancy import as_rms_norm, audit, fold
from redundancy.fold import CannotFold, NotEqual
from redundancy.fold.equality import apart as apart_of
from redundancy.measure.inputs import tensors
from redundancy.models.tiny import quiet, some_inputs
from redundancy.shift.freedom import Freedom
from shared_models import *

#: The models' width, halved for keys and values that heads share, and their number of layers.
D, L = 32, 2
ATTENTION = {"b_Q": L * D, "b_K": L * D, "b_V": L * D}
#: How many numbers a fold must zero, by kind of bias.  In a pre-norm block, the shift of the norm
#: before the MLP goes into the MLP's first bias.  In a post-norm block, the residual sum adds this
#: shift to the MLP's second bias, so this bias goes into the shift; in a parallel block, into b_O.
PRE, POST = ATTENTION | {"β": L * D}, ATTENTION | {"b": L * D}
FAMILIES = {
    "gpt2": PRE, "opt": PRE, "vit": PRE,
    "bert": POST, "distilbert": POST,
    # three attention layers (encoder, decoder, cross-attention) but only two MLPs
    "bart": {name: n * (2 if name == "b" else 3) for name, n in POST.items()},
    "whisper": {"b_Q": 3 * L * D, "b_V": 3 * L * D, "β": 2 * L * D},  # Whisper's keys have no bias
    # rotary positions rotate a quarter, a half or all of each head; a norm's shift that absorbs b_Q
    # stays, so β goes only where the MLP has its own norm
    "gpt_neox": {"b_Q": L * D, "b_K": L * D * 3 // 4, "b_V": L * D, "b": L * D, "β": L * D},
    "phi": {"b_Q": L * D, "b_K": L * D // 2 // 2, "b_V": L * D // 2, "b": L * D},
    "starcoder2": {"b_Q": L * D, "b_V": L * D // 2, "β": L * D},
    "gptj": {},
    "llama": {"b_V": L * D // 2},
    "qwen2": {}, "gpt_oss": {},
}  # fmt: skip
#: The biases of each layer that lose their mean, as only LayerNorms read the stream they enter.
MEANS = {
    "gpt2": "attn.c_proj mlp.c_proj", "opt": "self_attn.out_proj fc2", "phi": "self_attn.dense",
    "bert": "attention.output.dense", "gptj": "mlp.fc_out", "llama": "", "qwen2": "",
}  # fmt: skip
#: Families without hand-derived counts, for which only the equality of the outputs is tested.
OTHERS = ["mixtral", "convbert", "deberta", "deberta-v2", "xlm", "siglip"]


@functools.cache
def folded(kind):
    return fold(random_model(kind))


# --- the expected biases move, and outputs stay equal ---


@pytest.mark.parametrize("kind", [*FAMILIES, *OTHERS])
def test_a_family_is_folded(kind):
    model, result, zeros = random_model(kind), folded(kind), Counter()
    assert apart(result.model, model) <= result.bound and result.error <= result.bound <= EQUAL
    for row in result.moved:
        zeros[row.constant] += row.zeros
    after = dict(result.model.named_parameters())
    gone = [((p != 0) & (after[n] == 0)).sum().item() for n, p in model.named_parameters()]
    assert sum(gone) == zeros.total()
    if kind in FAMILIES:
        assert +zeros == FAMILIES[kind] and not fold(result.model).moved
    if kind not in MEANS:
        return
    means = [row.place for row in result.moved if "mean" in row.text]
    expected = MEANS[kind].split()
    assert len(means) == L * len(expected)
    for place in means:
        b = result.model.get_parameter(place)
        # Subtracting the mean of n numbers causes n rounding errors, each at most 2^-53 times the
        # largest number.
        assert b.mean().abs() <= 2 * len(b) * 2.0**-53 * b.abs().max() and b.any()
        assert any(name in place for name in expected)


@pytest.mark.parametrize("kind", ["gpt2", "bert", "bart", "phi", "mpnet", "biogpt", "mbart"])
def test_outputs_are_equal_at_other_lengths_and_under_padding(kind):
    model, seen = random_model(kind), torch.ones(3, 9, dtype=torch.long)
    seen[0, 6:] = 0
    padded = some_inputs(model, batch=3, tokens=9, seed=3) | {"attention_mask": seen}
    for inputs in (padded, *(some_inputs(model, tokens=n, seed=n) for n in (2, 33))):
        assert apart(folded(kind).model, model, inputs) <= folded(kind).bound


def test_fold_changes_only_absorbing_biases_and_never_the_given_model():
    """Moving all of c_attn.bias changes only two other biases of each block, and only in a copy."""
    model = random_model("gpt2")
    before = copy.deepcopy(model)
    after = fold(model, move=["key", "value", "query"]).model
    moved = ("attn.c_attn.bias", "ln_1.bias", "attn.c_proj.bias")
    assert changed(model, after) == {f"h.{i}.{name}" for i in range(L) for name in moved}
    assert not changed(model, before)


def test_biases_move_in_the_order_in_which_they_are_named():
    """If the shifts go first, a query bias stays, because only a norm's shift could absorb it."""
    result = fold(random_model("gpt2"), move=("shifts", "value", "key"))
    for block in result.model.h:
        assert not block.ln_1.bias.any() and not block.ln_2.bias.any()
        b_q, b_k, b_v = block.attn.c_attn.bias.chunk(3)
        assert b_q.all() and not b_k.any() and not b_v.any()
    assert result.model.ln_f.bias.any()


CROSS = {"add_cross_attention": True, "n_layer": 1}
STATES = {"encoder_hidden_states": normal(2, 4, D)}


@pytest.mark.parametrize(("kind", "given", "more"), [
    # pre-norm families that chapter 14 does not convert
    ("opt", {}, {}), ("phi", {}, {}), ("gpt_neox", {}, {}), ("gptj", {}, {}),
    ("gpt2", CROSS, STATES),  # inputs without an encoder's states do not reach some norms
])  # fmt: skip
def test_pre_norm_models_become_rms_norm_models(kind, given, more):
    model = random_model(kind, **given)
    result = as_rms_norm(model, some_inputs(model) | more)
    assert apart(result.model, model) <= result.bound < EQUAL
    assert not [m for m in result.model.modules() if type(m) is nn.LayerNorm]


def test_a_causal_language_model_with_its_head_generates_the_same_words():
    model = language_model()
    result = fold(model)
    assert result.error < EQUAL and result.moved
    ids = some_inputs(model)["input_ids"]
    asked = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    with quiet():
        expected = model.generate(ids, **asked)
        for cache in (False, True):
            assert torch.equal(result.model.generate(ids, use_cache=cache, **asked), expected)


# --- refusals ---


def test_the_query_bias_of_a_block_called_after_different_norms_stays():
    """ALBERT calls one block twice, after different norms, so no shift absorbs the block's b_Q."""
    result = fold(random_model("albert"))
    assert {"b_K", "b_V"} <= {row.constant for row in result.moved}
    assert "b_Q" in {row.constant for row in result.kept}


@pytest.mark.parametrize(("row", "bias", "moved", "verdict", "words"), [
    (0.0, 1, d - 1, "kept", "1 of 12 numbers"),
    (1e-6, 1, 0, "refused", "not clear"),
    (1e-3, 1e3, 0, "refused", "digits"),
])  # fmt: skip
def test_a_query_bias_moves_only_where_its_matrix_has_rank(row, bias, moved, verdict, words):
    """No shift absorbs a bias whose row of W_Q is zero; if the row is short, the shift is long."""
    model = randomised(Watched())
    model.attn.q_proj.weight.data[0] *= row
    model.attn.q_proj.bias.data *= bias
    result = fold(model, {"x": normal(2, 5, d)}, move=["key", "value", "query"])
    rows = {row.verdict: row for row in result.rows if row.constant == "b_Q"}
    assert sum(row.zeros for row in rows.values()) == moved and words in rows[verdict].text


def test_the_query_bias_stays_if_heads_are_wider_than_the_model():
    """A query bias of 48 numbers stays, as no shift of 32 numbers changes just one number of it."""
    given = {"num_attention_heads": 4, "head_dim": 12, "use_bias": True}
    result = fold(random_model("starcoder2", **given), move=["value", "query"])
    texts = {row.text for row in result.kept if row.constant == "b_Q"}
    assert len(texts) == 2 and all("32 of 48 dimensions could go" in text for text in texts)


def random_with(kind, **attributes):
    """A random model with more attributes, for example a module that does not run."""
    model = language_model() if kind == "language model" else copy.deepcopy(random_model(kind))
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def on_meta():
    with torch.device("meta"):
        return nn.MultiheadAttention(16, 2)


def changing_itself():
    """BigBird, which replaces its attention module at the first short input."""
    with quiet():
        return tiny("big_bird")


REFUSED = {
    "a norm that does not run": (
        lambda: as_rms_norm(random_with("language model", idle=nn.LayerNorm(32).double())),
        "idle does not run"),
    "no model to centre": (lambda: as_rms_norm("a name"), "a model is needed"),
    "a post-norm model": (lambda: as_rms_norm(random_model("bert")), "cannot be centred"),
    "a tied head": (lambda: as_rms_norm(language_model(tied=True)), "lm_head.weight: untie it"),
    "quantised": (lambda: fold(random_with("gpt2", is_quantized=True)), "quantised"),
    "meta": (lambda: fold(on_meta(), {"query": 0}), "meta device"),
    "inputs needed": (lambda: fold(Watched()), "give inputs"),
    "wrong inputs": (lambda: fold(Watched(), [1]), "does not run on these inputs"),
    "a model that changes": (lambda: fold(changing_itself()), "a run replaces the module"),
    "move is a number": (lambda: fold(random_model("gpt2"), move=3), "key, other"),
    "nothing to do": (lambda: fold(random_model("gpt2"), move=()), "key, other"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_folded_is_refused_in_a_sentence(name):
    ask, words = REFUSED[name]
    with pytest.raises(CannotFold, match=words) as caught:
        ask()
    assert "\n" not in str(caught.value)


# --- no fault makes `fold` return a model whose outputs differ ---


def all_may_go(freedom):
    return torch.eye(sum(freedom.shapes.values()), dtype=torch.float64)


def one_more_may_go(freedom):
    """Claim, wrongly, that the last number of the last bias is redundant."""
    basis = torch.cat([freedom.dense(), all_may_go(freedom)[:, -1:]], 1)
    return torch.linalg.qr(basis).Q


def all_go_alone(freedom):
    """Claim, wrongly, that the biases that are redundant only together can go alone."""
    basis = freedom.dense().clone()
    basis[freedom.shapes[next(iter(freedom.shapes))] :] = 0
    return torch.linalg.qr(basis).Q


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
@pytest.mark.parametrize("fault", [all_may_go, one_more_may_go, all_go_alone])
def test_a_fault_of_the_calculus_is_caught_by_the_comparison(kind, fault, monkeypatch):
    true = Freedom.of
    wrong = lambda moves: Freedom.whole(fault(true(moves)), true(moves).shapes)
    monkeypatch.setattr(Freedom, "of", wrong)
    with pytest.raises(NotEqual, match="No model is returned"):
        fold(random_model(kind))


def test_a_nan_in_the_outputs_counts_as_a_difference():
    assert apart_of([torch.tensor([1.0, math.nan])], [torch.ones(2)]) == math.inf


# --- checkpoints and other precisions ---


def test_a_checkpoint_is_loaded_in_the_class_it_was_saved_as(tmp_path):
    with quiet():
        from transformers import BertForMaskedLM

        BertForMaskedLM(random_model("bert").config).save_pretrained(tmp_path)
    result = fold(tmp_path, move="key")
    assert isinstance(result.model, BertForMaskedLM) and result.rounding[0] > 0
    assert audit(str(tmp_path)).model == "BertForMaskedLM"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_model_returned_has_the_dtype_of_the_model_given(dtype):
    result = fold(copy.deepcopy(random_model("bert")).to(dtype), move=["key", "value"])
    assert {p.dtype for p in result.model.parameters()} == {dtype}
    before, after = result.rounding
    assert 0 < before and 0 < after < max(10 * before, 1e-4)


def test_a_long_shift_is_refused_in_bfloat16():
    model, x = randomised(Watched()), {"x": normal(2, 5, d)}
    model.attn.q_proj.weight.data[0] *= 1e-3
    assert fold(model, x).error < EQUAL
    with pytest.raises(NotEqual, match="equal in float64, but in bfloat16"):
        fold(model.bfloat16(), x)


def test_intermediate_states_are_not_compared():
    model = random_model("bert")
    with torch.no_grad():
        every = model(**some_inputs(model), output_hidden_states=True, output_attentions=True)
    assert len(tensors(every)) == 2 < len(every)  # the last hidden state and the pooled output


# --- models that a checkpoint cannot hold ---


LOST = {
    "qwen2": (
        lambda: fold(random_model("qwen2"), add_bias=True), "o_proj.bias would be lost"),
    "another norm": (lambda: as_rms_norm(language_model()), "would be lost"),
    "no checkpoint": (
        lambda: fold(randomised(Watched()), {"x": normal(2, 5, d)}), "save its state_dict"),
}  # fmt: skip


@pytest.mark.parametrize("what", LOST)
def test_a_model_that_a_checkpoint_cannot_hold_is_not_saved(tmp_path, what):
    ask, words = LOST[what]
    with pytest.raises(CannotFold, match=words):
        ask().save(tmp_path / "folded")
    assert not (tmp_path / "folded").exists()


#: {architecture: (layers, modules whose bias can be removed, configuration field for it or None)}
REMOVED = {
    "bert": (
        "encoder.layer.*.",
        "attention.self.query attention.self.key attention.self.value output.dense", None),
    "vit": (
        "layers.*.", "attention.q_proj attention.k_proj attention.v_proj layernorm_after",
        "qkv_bias"),
    "gpt2": ("h.*.", "ln_2", None),  # the fused c_attn is a Conv1D, which needs a bias
}  # fmt: skip


@pytest.mark.parametrize("kind", REMOVED)
def test_removed_biases_load_as_zeros(kind, tmp_path):
    layer, names, word = REMOVED[kind]
    result = fold(random_model(kind), remove=True)
    out = {f"{layer}{name}.bias".replace("*", number) for name in names.split() for number in "01"}
    assert {name for name, *_ in result.removable} == out and "taken out" in str(result)
    assert not out & {*dict(result.model.named_parameters())}
    assert apart(result.model, random_model(kind)) <= result.bound
    assert word is None or getattr(result.model.config, word) is False
    for one in (result, folded(kind)):
        one.save(tmp_path)
        again = type(one.model).from_pretrained(tmp_path).double().eval()
        assert apart(again, random_model(kind)) <= one.bound
    assert not changed(again, folded(kind).model)
