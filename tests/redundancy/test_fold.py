"""`fold` on real architectures: what is zero afterwards, and that the outputs are the same.

The models are tiny and random, from the library's own configurations, every bias, gain and sink
random, in float64.  Equality is asserted at 1e-8 and measured far below it; the bound that
`fold` states, 1e-12 (1 + |t|), grows with the longest shift t, which is long where W_Q is
nearly singular.
"""

import copy
import functools

import pytest
import torch
from redundancy import audit, fold, folding
from redundancy.centring import as_rms_norm
from redundancy.equality import (
    HARMLESS,
    LOSS,
    CannotFold,
    NotEqual,
    difference,
    in_float64,
    outputs,
)
from redundancy.layers import find_attention
from redundancy.precision import double_precision, with_every_bias_random, with_every_weight_random
from redundancy.surgery import Surgeon
from redundancy.wiring import trace
from redundancy.zoo import quiet, some_inputs, tiny
from torch import nn

EQUAL = 1e-8
Q, K, V = "query", "key", "value"

#: What must be zero after a fold: biases of attention by role, second biases by name (all
#: layers, * for the number), and which second biases lose their mean only.
FAMILIES = {
    "gpt2": ([Q, K, V], [], ["h.*.mlp.c_proj"]),
    "opt": ([Q, K, V], [], ["decoder.layers.*.fc2"]),
    "bloom": ([Q, K, V], [], ["h.*.mlp.dense_4h_to_h"]),
    "vit": ([Q, K, V], [], ["layers.*.mlp.fc2"]),
    "gpt_bigcode": ([Q, K, V], [], ["h.*.mlp.c_proj"]),
    "bert": ([Q, K, V], ["encoder.layer.*.output.dense"], []),
    "roberta": ([Q, K, V], ["encoder.layer.*.output.dense"], []),
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
GIVEN = {"llama": {"attention_bias": True}}
MOVING = [kind for kind, (roles, second, _) in FAMILIES.items() if roles or second]

each_family = pytest.mark.parametrize("kind", FAMILIES)


@functools.cache
def random_model(kind, **given):
    model = tiny(kind, **(GIVEN.get(kind, {}) | given))
    return with_every_bias_random(with_every_weight_random(model)).double()


@functools.cache
def folded(kind):
    return fold(random_model(kind))


def apart(model, other, seed=5):
    """The largest relative difference of two models' outputs at inputs of this test's own."""
    inputs = some_inputs(other, batch=3, tokens=9, seed=seed)
    with double_precision():
        return difference(in_float64(model), in_float64(other), inputs)


def biases(model, role):
    found = [layer.projections[role].bias() for layer in find_attention(model)]
    return [b for b in found if b is not None]


def numbered(model, pattern):
    before, after = pattern.split("*")
    return [model.get_submodule(f"{before}{i}{after}") for i in range(2)]


# --- what moves, and that it is equal ---


@each_family
def test_what_is_said_to_be_zero_is_zero(kind):
    roles, second, _ = FAMILIES[kind]
    for role in (Q, K, V):
        for b in biases(folded(kind).model, role):
            assert bool(b.any()) == (role not in roles), f"{role} of {kind}"
    for linear in [m for pattern in second for m in numbered(folded(kind).model, pattern)]:
        assert not linear.bias.any()


@each_family
def test_in_pre_norm_the_second_bias_loses_its_mean_only(kind):
    for linear in [
        m for pattern in FAMILIES[kind][2] for m in numbered(folded(kind).model, pattern)
    ]:
        # Subtracting a mean of n numbers leaves their n roundings, each at most u times the largest.
        allowed = 2 * len(linear.bias) * 2.0**-53 * linear.bias.abs().max()
        assert linear.bias.mean().abs() <= allowed and linear.bias.any()


@each_family
def test_the_outputs_are_equal(kind):
    assert folded(kind).error <= folded(kind).bound <= EQUAL
    assert apart(folded(kind).model, random_model(kind)) <= folded(kind).bound


@pytest.mark.parametrize("kind", MOVING)
def test_without_the_compensation_they_are_not(kind):
    roles, second, _ = FAMILIES[kind]
    for role in roles:
        if role == K:  # pays nothing: its own direction on the query is the control
            continue
        changed = copy.deepcopy(random_model(kind))
        for layer in find_attention(changed):
            projection = layer.projections[role]
            projection.set_bias(torch.zeros_like(projection.bias()))
        assert apart(changed, random_model(kind)) > 1e-3, role
    for pattern in second:
        changed = copy.deepcopy(random_model(kind))
        for linear in numbered(changed, pattern):
            linear.bias.data.zero_()
        assert apart(changed, random_model(kind)) > 1e-3, pattern


@each_family
def test_folding_twice_moves_nothing_more(kind):
    assert fold(folded(kind).model).moved == []


def test_the_model_given_is_not_changed():
    model = random_model("bert")
    before = copy.deepcopy(model.state_dict())
    fold(model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


@pytest.mark.parametrize(("kind", "rotated"), [("phi", 4), ("gpt_neox", 2)])
def test_of_a_partly_rotated_key_bias_the_rest_is_zero(kind, rotated):
    for layer in find_attention(folded(kind).model):
        b = layer.key.bias().view(layer.key_value_heads, layer.head_dim)
        assert b[:, :rotated].all() and not b[:, rotated:].any()


def test_gpt_2_pays_with_two_constants_of_each_block():
    """All 3d of c_attn.bias are zero; only ln_1.bias and c_proj.bias have changed for it."""
    before, after = random_model("gpt2"), fold(random_model("gpt2"), move=[Q, K, V]).model
    other = after.state_dict()
    changed = {n for n, value in before.state_dict().items() if not torch.equal(value, other[n])}
    names = ("attn.c_attn.bias", "ln_1.bias", "attn.c_proj.bias")
    assert changed == {f"h.{i}.{name}" for i in range(2) for name in names}


def test_in_bert_the_second_bias_goes_to_the_norm_before():
    before, after = random_model("bert"), fold(random_model("bert"), move="second").model
    other = after.state_dict()
    changed = {n for n, value in before.state_dict().items() if not torch.equal(value, other[n])}
    names = ("output.dense.bias", "attention.output.LayerNorm.bias", "intermediate.dense.bias")
    assert changed == {f"encoder.layer.{i}.{name}" for i in range(2) for name in names}


def test_a_missing_output_bias_is_made_only_if_asked():
    model = random_model("qwen2")
    assert "add_bias=True" in folded("qwen2").refused[0].text
    with_bias = fold(model, add_bias=True)
    assert not any(b.any() for b in biases(with_bias.model, V))
    assert with_bias.model.layers[0].self_attn.o_proj.bias.any()
    assert apart(with_bias.model, model) <= with_bias.bound
    assert model.layers[0].self_attn.o_proj.bias is None


def test_a_bias_that_is_lent_to_pay_with_is_taken_back():
    """Whisper's keys have no bias: what the query's shift puts there, softmax does not hear."""
    assert folded("whisper").model.encoder.layers[0].self_attn.k_proj.bias is None


def test_a_causal_language_model_with_its_head():
    with quiet():
        from transformers import GPT2LMHeadModel

        model = GPT2LMHeadModel(random_model("gpt2").config).eval()
    model = with_every_bias_random(with_every_weight_random(model)).double()
    assert fold(model).error < EQUAL and len(fold(model).moved) == 8


def test_shifts_are_the_other_choice():
    model = random_model("gpt2")
    shifted = fold(model, move=["shifts", K, V])
    for block in shifted.model.h:
        assert not block.ln_1.bias.any() and not block.ln_2.bias.any()
    assert biases(shifted.model, Q)[0].any() and shifted.model.ln_f.bias.any()
    assert [row.place for row in shifted.refused] == ["ln_f"]


def test_a_shared_block_keeps_what_its_two_calls_would_pay_differently():
    result = fold(random_model("albert"))
    assert {row.constant for row in result.moved} == {"b_K", "b_V"}
    assert "more than once" in result.refused[0].text


@pytest.mark.parametrize("kind", ["mixtral", "convbert", "deberta", "deberta-v2", "xlm", "siglip"])
def test_architectures_that_nothing_here_was_written_for(kind):
    """Whatever moves or stays, the outputs are those of the model."""
    result = fold(random_model(kind))
    assert result.error <= result.bound < EQUAL
    assert apart(result.model, random_model(kind)) <= result.bound


# --- refusals ---


def test_under_a_sink_nothing_moves():
    result = folded("gpt_oss")
    assert not result.moved
    reasons = {row.constant: row.text for row in [*result.kept, *result.refused]}
    assert "sink" in reasons["b_K"] and "sink" in reasons["b_V"] and "no shift" in reasons["b_Q"]


def test_in_training_dropout_leaves_the_key_bias_only():
    model = copy.deepcopy(random_model("bert")).train()
    result = fold(model)
    assert {row.constant for row in result.moved} == {"b_K"}
    assert any("dropout of 0.1" in row.text for row in result.refused)


def test_in_training_without_dropout_everything_moves():
    rates = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    result = fold(copy.deepcopy(random_model("bert", **rates)).train())
    assert len(result.moved) == 8 and not result.refused


# --- other ways through the code than the one that the inputs show ---


def decoder():
    return random_model("bert", is_decoder=True, add_cross_attention=True)


def states(model, tokens=6):
    drawn = torch.randn(3, tokens, 32, generator=torch.Generator().manual_seed(1))
    return some_inputs(model, batch=3, tokens=9) | {"encoder_hidden_states": drawn.double()}


@pytest.mark.parametrize("given", [False, True])
def test_a_norm_whose_readers_depend_on_the_inputs_is_left_alone(given):
    """BERT as a decoder: the norm after attention is read by cross-attention, if that runs."""
    model, both = decoder(), states(decoder())
    result = fold(model, states(model) if given else None)
    without = {"input_ids": both["input_ids"]}
    with double_precision():
        for inputs in (both, without):
            assert difference(in_float64(result.model), model, inputs) <= result.bound
    texts = [row.text for row in (*result.refused, *result.kept)]
    assert any("depends on the inputs" in text for text in texts) or not given


def test_the_shift_would_have_changed_the_other_way(monkeypatch):
    """The control: with one run only, the decoder is folded as if nothing else could read."""
    monkeypatch.setattr(folding, "other_ways", lambda *_: [])
    monkeypatch.setattr(Surgeon, "demand_all_used", lambda *_: None)
    result = fold(decoder())
    with double_precision():
        assert difference(result.model, decoder(), states(decoder())) > 1e-2


def test_a_matrix_that_no_input_reaches_might_read_anything():
    """Longformer's global tokens have queries, keys and values of their own."""
    model = with_every_bias_random(tiny("longformer", attention_window=[4, 4])).double()
    result = fold(model)
    assert not result.moved and "query_global is not used" in result.refused[-1].text
    inputs = some_inputs(model, tokens=8)
    first = torch.zeros(2, 8, dtype=torch.long)
    first[:, 0] = 1
    assert "not used" not in str(fold(model, inputs | {"global_attention_mask": first}))


@pytest.mark.parametrize("kind", ["gpt2", "bert", "bart", "phi", "mpnet", "biogpt", "mbart"])
def test_equal_at_other_lengths_and_under_padding(kind):
    model, result = random_model(kind), fold(random_model(kind))
    seen = torch.ones(3, 9, dtype=torch.long)
    seen[0, 6:] = 0
    padded = some_inputs(model, batch=3, tokens=9, seed=3) | {"attention_mask": seen}
    with double_precision():
        for inputs in (padded, *(some_inputs(model, tokens=n, seed=n) for n in (2, 33))):
            assert difference(result.model, model, inputs) <= result.bound


def test_a_query_that_sees_no_key_is_not_promised_anything():
    """Padding on the left: such a row of weights is zero, and the folded b_V is added to it."""
    model = copy.deepcopy(random_model("gpt2"))
    model.set_attn_implementation("sdpa")
    folded_model, inputs = fold(model).model, some_inputs(model)
    seen = torch.ones(2, 7, dtype=torch.long)
    seen[0, :3] = 0
    inputs["attention_mask"] = seen
    with torch.no_grad(), double_precision():
        one, other = (m(**inputs).last_hidden_state for m in (folded_model, model))
    assert (one - other)[seen.bool()].abs().max() < EQUAL < (one - other).abs().max()


def test_the_same_words_are_generated():
    with quiet():
        from transformers import GPT2LMHeadModel

        model = GPT2LMHeadModel(random_model("gpt2").config).eval()
    model = with_every_bias_random(with_every_weight_random(model)).double()
    ids = some_inputs(model)["input_ids"]
    asked = {"max_new_tokens": 8, "do_sample": False, "pad_token_id": 0}
    with quiet():
        expected = model.generate(ids, **asked)
        for cache in (False, True):
            assert torch.equal(fold(model).model.generate(ids, use_cache=cache, **asked), expected)


@pytest.mark.parametrize("seed", [0, 1, 9])
def test_layers_left_out_at_random_pay_nothing(seed):
    torch.manual_seed(seed)  # which layers are left out while fold looks; with 9, one in every run
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    model = copy.deepcopy(random_model("bart", **rates, encoder_layerdrop=0.5)).train()
    result = fold(model)
    assert {row.constant for row in result.moved} <= {"b_K", "b_V", "b_2"}
    assert "b_Q" in {row.constant for row in result.refused}
    assert all("layerdrop = 0.5" in row.text for row in result.refused)
    inputs = some_inputs(model)
    with double_precision():
        assert all(difference(result.model, model, inputs, n) <= result.bound for n in range(20))


def test_a_model_that_changes_itself_is_refused():
    """BigBird swaps its attention for another one at the first short input."""
    with quiet():
        model = tiny("big_bird")
    with pytest.raises(CannotFold, match="another module after a run"):
        fold(model)


class Tracking(nn.Module):
    """An attention layer behind a BatchNorm, which in training remembers what it saw."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn = nn.BatchNorm1d(16), Attention()

    def forward(self, x):
        return self.attn(self.norm(x.mT).mT)


def test_what_a_norm_tracks_is_not_changed_by_the_comparison():
    model = Tracking().train()
    before = copy.deepcopy(model.state_dict())
    result = fold(model, {"x": torch.randn(2, 5, 16)})
    for one in (model, result.model):
        state = one.state_dict()
        assert all(torch.equal(state[n], v) for n, v in before.items() if "running" in n)
        assert state["norm.num_batches_tracked"] == 0


class Weighted(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.first, self.attn, self.norm = nn.LayerNorm(16), Attention(), nn.LayerNorm(16)
        self.up, self.down, self.alpha = nn.Linear(16, 32), nn.Linear(32, 16), alpha

    def forward(self, x):
        x = self.norm(self.attn(self.first(x)))
        return x, [self.first(torch.add(x, self.down(self.up(x).relu()), alpha=self.alpha))]


def test_a_weighted_sum_is_no_sum():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = with_every_bias_random(Weighted(0.5)).double().eval()
    x = {"x": torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0)).double()}
    assert set(outputs(model, x)) == {"0", "1.0"}  # outputs in lists are outputs
    assert {row.constant for row in fold(model, x).moved} == {"b_K", "b_V"}


@pytest.mark.parametrize("flags", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kdim", [None, 12])
def test_the_attention_of_pytorch_with_its_flags(flags, bias, kdim):
    given = nn.MultiheadAttention(16, 2, bias=bias, kdim=kdim, vdim=kdim, batch_first=True, **flags)
    model = with_every_bias_random(with_every_weight_random(given)).double().eval()

    def inputs(n):
        draw = functools.partial(torch.randn, generator=torch.Generator().manual_seed(n))
        sizes = {"query": 16, "key": kdim or 16, "value": kdim or 16}
        return {name: draw(2, n, size).double() for name, size in sizes.items()}

    result = fold(model, inputs(4))
    assert len(result.moved) == (2 if bias and not flags else 0)
    assert difference(result.model, model, inputs(7)) <= result.bound


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("norm_first", [True, False])
def test_the_encoder_of_pytorch_on_its_fast_path_and_off_it(norm_first):
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first)
    model = with_every_bias_random(with_every_weight_random(model)).double().eval()
    x = torch.randn(2, 7, 16, generator=torch.Generator().manual_seed(0)).double()
    result, hidden = fold(model, {"src": x[:, :5]}), torch.zeros(2, 7, dtype=torch.bool)
    hidden[0, 5:] = True
    for grad, mask in ((False, None), (True, None), (False, hidden), (True, hidden)):
        with torch.set_grad_enabled(grad):
            one, other = (m(x, src_key_padding_mask=mask) for m in (result.model, model))
        assert (one - other).abs().max() <= result.bound * other.abs().max()


class Watched(nn.Module):
    """A pre-norm block whose norm is read by something that is no Linear, if it is watched."""

    def __init__(self, watched, seed=0):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.norm, self.attn, self.watched = nn.LayerNorm(16), Attention(), watched

    def forward(self, x):
        read = self.norm(x)
        out = x + self.attn(read)
        return out + read.sin() if self.watched else out


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.num_heads, self.head_dim = 2, 8
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(16, 16) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            linear(x).unflatten(-1, (2, 8)).transpose(1, 2)
            for linear in (self.q_proj, self.k_proj, self.v_proj)
        )
        weights = torch.softmax(q @ k.mT / 8**0.5, -1)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))


def test_a_norm_that_something_unknown_reads_is_left_alone():
    x = {"x": torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0)).double()}
    for watched in (False, True):
        result = fold(with_every_bias_random(Watched(watched)).double().eval(), x)
        texts = {row.constant: row.text for row in result.rows}
        assert ("read by sin" in texts["b_Q"]) == watched
        assert not result.model.attn.v_proj.bias.any()


def test_a_query_bias_out_of_range_is_kept_and_one_that_is_too_far_is_refused():
    x = {"x": torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0)).double()}
    for size, reason in ((0.0, "rank"), (1e-5, "too long")):
        model = with_every_bias_random(Watched(False)).double().eval()
        model.attn.q_proj.weight.data[0] = size * model.attn.q_proj.weight.data[0]
        result = fold(model, x)
        assert reason in next(row.text for row in result.rows if row.constant == "b_Q")


def quantised():
    model = random_model("gpt2")
    model = copy.deepcopy(model)
    model.is_quantized = True
    return model


def on_meta():
    with torch.device("meta"):
        return nn.MultiheadAttention(16, 2)


REFUSED = {
    "no checkpoint": (lambda: fold("/no/such/checkpoint"), "no model can be loaded from"),
    "quantised": (lambda: fold(quantised()), "quantised"),
    "meta": (lambda: fold(on_meta(), {"query": 0}), "meta device"),
    "no attention": (lambda: fold(nn.Linear(2, 2), {"input": torch.ones(1, 2)}), "no attention"),
    "inputs needed": (lambda: fold(Watched(False)), "give inputs"),
    "inputs no dict": (lambda: fold(Watched(False), [1]), "dict of keyword arguments"),
    "wrong inputs": (
        lambda: fold(random_model("gpt2"), {"ids": 1}),
        "does not run on these inputs",
    ),
    "unknown move": (lambda: fold(random_model("gpt2"), move="biases"), "key, value, query"),
    "move is a number": (lambda: fold(random_model("gpt2"), move=3), "key, value, query"),
    "neither": (lambda: fold(5), "neither a model nor a checkpoint's name"),
    "nothing to move": (lambda: fold(random_model("gpt2"), move=()), "key, value, query"),
    "both": (lambda: fold(random_model("gpt2"), move=[Q, "shifts"]), "go into the shifts"),
}


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


def naive_value(self, layer):
    b = layer.value.bias().view(layer.key_value_heads, -1)
    layer.output.add_to_bias(layer.output.weight() @ b.repeat_interleave(layer.group, 0).flatten())
    layer.value.set_bias(torch.zeros_like(b).flatten())
    yield "b_O"


def naive_key(self, layer):
    layer.key.set_bias(torch.zeros_like(layer.key.bias()))
    yield "nowhere"


def into_the_norm_after(self, linear):
    name = self.names[linear].replace("dense", "LayerNorm")
    self.model.get_submodule(name).bias += linear.bias
    linear.bias.zero_()
    yield "the norm after"


FAULTS = {
    "nobody pays": ("bert", "slide", wrong_sign),
    "a value bias under a sink": ("gpt_oss", "fold_value", naive_value),
    "a key bias under a sink": ("gpt_oss", "drop_key", naive_key),
    "a rotated key bias": ("llama", "drop_key", naive_key),
    "the second bias into the norm after": ("bert", "clear_second", into_the_norm_after),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_caught_by_the_comparison(name, monkeypatch):
    kind, method, faulty = FAULTS[name]
    monkeypatch.setattr(Surgeon, method, faulty)
    with pytest.raises(NotEqual, match="No model is returned"):
        fold(random_model(kind))


def test_a_difference_of_nan_is_a_difference(monkeypatch):
    def spoil(self, layer):
        layer.value.set_bias(layer.value.bias() * float("nan"))
        yield "nowhere"

    monkeypatch.setattr(Surgeon, "fold_value", spoil)
    with pytest.raises(NotEqual):
        fold(random_model("gpt2"))


# --- checkpoints and other precisions ---


def test_a_checkpoint_is_loaded_folded_and_saved(tmp_path):
    model = copy.deepcopy(random_model("gpt2")).float()
    model.save_pretrained(tmp_path / "given")
    result = fold(str(tmp_path / "given"))
    result.model.save_pretrained(tmp_path / "folded")
    again = type(model).from_pretrained(tmp_path / "folded").eval()
    assert not again.h[0].attn.c_attn.bias.any()
    # Each of the two differs from float64 by what `fold` measured, at inputs that it drew.
    (inputs, *_) = folding.batches_for(model, None)
    assert difference(again, model, inputs) <= 1.01 * sum(result.rounding)


def test_a_checkpoint_is_loaded_in_the_class_it_was_saved_as(tmp_path):
    with quiet():
        from transformers import BertForMaskedLM

        BertForMaskedLM(random_model("bert").config).save_pretrained(tmp_path)
    result = fold(tmp_path, move=K)
    assert isinstance(result.model, BertForMaskedLM) and result.rounding[0] > 0
    assert audit(str(tmp_path)).model == "BertForMaskedLM"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_model_returned_has_the_dtype_of_the_model_given(dtype):
    given = copy.deepcopy(random_model("bert")).to(dtype)
    result = fold(given, move=[K, V])
    assert {p.dtype for p in result.model.parameters()} == {dtype}
    before, after = result.rounding
    assert 0 < before and 0 < after < max(10 * before, 1e-4)


def test_in_few_digits_a_long_shift_is_refused():
    model = with_every_bias_random(Watched(False, seed=4)).double().eval()
    model.attn.q_proj.weight.data[0] *= 3e-4
    x = {"x": torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))}
    assert fold(model, x).error < EQUAL
    with pytest.raises(NotEqual, match="equal in float64, but in bfloat16"):
        fold(model.bfloat16(), x)


def test_states_on_the_way_are_not_compared():
    found = outputs(random_model("bert"), some_inputs(random_model("bert")))
    assert set(found) == {"last_hidden_state", "pooler_output"}


def test_the_account_prints_one_line_for_all_layers():
    lines = str(folded("gpt2")).splitlines()
    assert len(lines) == 5 and "h.*.attn (2 times)" in lines[0]


# --- who reads what ---


def test_the_wires_of_three_placements():
    for kind, norm, expected in (
        ("gpt2", "h.0.ln_1", ["h.0.attn.c_attn"]),
        ("phi", "layers.0.input_layernorm", [*(f"self_attn.{i}_proj" for i in "qkv"), "mlp.fc1"]),
        ("bert", "embeddings.LayerNorm", ["query", "key", "value", "add"]),
    ):
        model = random_model(kind)
        wiring = trace(model, some_inputs(model))
        readers = wiring.readers(wiring.only_call(model.get_submodule(norm)))
        assert all(str(r).endswith(name) for r, name in zip(readers, expected, strict=True))


# --- LayerNorm into RMSNorm ---


def language_model(tied=False, **given):
    with quiet():
        from transformers import GPT2LMHeadModel

        config = copy.deepcopy(random_model("gpt2").config)
        config.tie_word_embeddings = tied
        model = GPT2LMHeadModel(config).eval()
    return with_every_bias_random(with_every_weight_random(model)).double()


def test_an_untied_gpt_2_becomes_an_rms_norm_model():
    model = language_model()
    result = as_rms_norm(model)
    assert apart(result.model, model) <= result.bound < EQUAL
    assert not any(isinstance(m, nn.LayerNorm) for m in result.model.modules())
    shifted = [n for n, m in result.model.named_modules() if type(m).__name__ == "ShiftedRMSNorm"]
    assert shifted == ["transformer.ln_f"]


def test_the_head_may_take_the_last_shift():
    result = as_rms_norm(language_model(), add_bias=True)
    assert {type(m) for n, m in result.model.named_modules() if "ln_" in n} == {nn.RMSNorm}


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (lambda: language_model(tied=True), "lm_head.weight is tied"),
        (lambda: random_model("bert"), "embeddings.LayerNorm wrote"),
        (lambda: nn.Linear(2, 2), "give inputs"),
        (lambda: "a name", "a model is needed"),
    ],
)
def test_what_cannot_be_centred_is_refused(model, words):
    with pytest.raises(CannotFold, match=words):
        as_rms_norm(model())


@pytest.mark.parametrize("kind", ["opt", "phi", "gpt_neox", "gptj"])
def test_other_pre_norm_models_can_be_centred_too(kind):
    result = as_rms_norm(random_model(kind))
    assert apart(result.model, random_model(kind)) <= result.bound < EQUAL


def test_a_norm_that_never_runs_is_not_replaced_unseen():
    model = language_model()
    model.idle = nn.LayerNorm(32).double()
    with pytest.raises(CannotFold, match="idle runs more than once, or not at all"):
        as_rms_norm(model)


def test_the_rms_norm_model_has_the_dtype_of_the_model_given():
    result = as_rms_norm(copy.deepcopy(random_model("opt")).bfloat16())
    assert {p.dtype for p in result.model.parameters()} == {torch.bfloat16}
    assert result.rounding[1] <= max(LOSS * result.rounding[0], HARMLESS)


def test_rms_norm_alone_is_another_model():
    model = language_model()
    changed = copy.deepcopy(model)
    for block in changed.transformer.h:
        rms = nn.RMSNorm(32, eps=block.ln_1.eps).double()
        rms.weight = block.ln_1.weight
        block.ln_1 = rms
    assert apart(changed, model) > 1e-3
