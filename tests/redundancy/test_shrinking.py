"""Shrinking keeps a model's structure, suitable inputs are drawn, and only outputs are compared."""

import itertools
from types import SimpleNamespace

import pytest
import torch
from redundancy.measure.inputs import WrongInputs, demand_runs, fresh, tensors, variations
from redundancy.models.guessing import NoInputs, suitable_inputs
from redundancy.models.shrinking import null_spaces, shrink, signature
from redundancy.models.sizes import CannotShrink, fewer_layers, narrower
from redundancy.models.tiny import tiny
from shared_models import config
from torch import nn

# --- which sizes shrink, and what shrinking preserves


def half_a_head(model):
    """The number of rotated pairs of features, and the numbers of which it must be the sum."""
    c, rope = model.config, model.config.rope_parameters
    pairs = rope.get("mrope_section") or [1] * len(rope["short_factor"])
    return 2 * sum(pairs) == c.hidden_size // c.num_attention_heads and min(pairs) > 0


def behind(model):
    """How many layers follow the last one that is returned."""
    return model.config.num_hidden_layers - max(model.config.out_indices)


def fields(*names):
    return lambda model: tuple(getattr(model.config, name) for name in names)


SECTIONS = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]}
FACTORS = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 4096,
           "short_factor": [1.0] * 48, "long_factor": [2.0] * 48, "factor": 32.0}  # fmt: skip
BACKBONE = {"architectures": ["Dinov2Backbone"]}
#: {title: (architecture, fields at a published size, what is read off the small one, its value)}
KEPT = {
    "shared keys": (
        "llama", {"hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8},
        fields("num_attention_heads", "num_key_value_heads", "hidden_size"), (4, 2, 32)),
    "one key head": (
        "falcon", {"hidden_size": 4544, "num_attention_heads": 71, "multi_query": True},
        fields("num_attention_heads", "hidden_size"), (2, 16)),
    "a rotated half": ("phi", {"hidden_size": 2560, "num_attention_heads": 32},
                       fields("hidden_size"), (16,)),
    "a stream narrower than all heads": (
        "t5", {"d_model": 1024, "d_kv": 128, "num_heads": 128, "d_ff": 65536},
        lambda m: (m.config.d_kv, m.config.num_heads, 8 < m.config.d_model < 16), (8, 2, True)),
    "a narrow embedding": (
        "opt", {"word_embed_proj_dim": 512, "hidden_size": 1024, "num_attention_heads": 16},
        lambda m: m.config.word_embed_proj_dim < m.config.hidden_size, True),
    "sections": ("qwen2_vl_text", {"hidden_size": 3584, "num_attention_heads": 28,
                                   "rope_parameters": SECTIONS}, half_a_head, True),
    "factors of long positions": ("phi3", {"rope_parameters": FACTORS}, half_a_head, True),
    "a layer behind the last stage": ("dinov2", {"out_features": ["stage3"], **BACKBONE}, behind, 1),
    "no layer behind": ("dinov2", {"out_features": ["stage12"], **BACKBONE}, behind, 0),
}  # fmt: skip


@pytest.mark.parametrize("what", KEPT)
def test_shrinking_preserves_ratios(what):
    kind, given, read, value = KEPT[what]
    found = shrink(config(kind, **given))
    assert read(found.model) == value
    assert not found.unlike and "Shrunk: " in found.account()


def test_shrinking_keeps_the_order_of_widths_and_shortens_fields_for_each_layer():
    full = {"model_type": "two", "text": {"model_type": "a", "hidden_size": 4096, "num_heads": 32},
            "image": {"model_type": "b", "hidden_size": 1024, "num_heads": 16, "mlp_dim": 4096,
                      "out_size": 4096}, "odd_size": 1000, "bos_token_id": 50000}  # fmt: skip
    small = narrower(full, {4096, 1024, 1000}, 2, 8)
    assert small["image"]["hidden_size"] == 16 < small["text"]["hidden_size"] == 32
    assert small["image"]["mlp_dim"] == small["image"]["out_size"] == 32
    assert small["odd_size"] < 1000 and small["bos_token_id"] < 64
    assert narrower(full, {4096}, 2, 8)["odd_size"] == 1000
    deep = {"num_hidden_layers": 6, "layer_types": list("ababab"), "full_layers": [1, 3, 5],
            "depths": [2, 2, 6, 2], "out_indices": [1, 5]}  # fmt: skip
    few = {"num_hidden_layers": 2, "layer_types": ["a", "b"], "full_layers": [1],
           "depths": [1, 1, 1, 1], "out_indices": [1]}  # fmt: skip
    assert fewer_layers(deep, 2) == few


def test_a_signature_depends_on_structure_and_not_on_size():
    model = nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 2), nn.Conv2d(4, 2, 1), nn.Embedding(2, 9))
    assert null_spaces(model) == {("*.weight", True, False), ("*.weight", False, False)}
    assert null_spaces(model[:1]) != null_spaces(model[1:2])
    llama = signature(tiny("llama"))
    for other in ({"attention_bias": True}, {"num_key_value_heads": 1}, {"num_key_value_heads": 4}):
        assert signature(tiny("llama", **other)) != llama
    assert signature(tiny("llama", hidden_size=64)) == llama


def test_a_configuration_that_cannot_be_built_is_refused():
    with pytest.raises(CannotShrink, match="transformers cannot build a model from NemotronConfig"):
        shrink(config("nemotron"))


# --- the names of the arguments decide which inputs are drawn


class Asking(nn.Module):
    """A model that needs five features, and that requests a mask only by raising an exception."""

    main_input_name = "past_values"

    def __init__(self, reads=lambda session: 0):
        super().__init__()
        self.config, self.read, self.more = SimpleNamespace(), nn.Linear(5, 3), reads

    def forward(self, past_values, session=None, other=None, last=None, seen=None, my_mask=None):
        if my_mask is None:
            raise ValueError("You have to specify my_mask")
        return {"out": self.read(past_values) + my_mask.sum() + self.more(session)}


def test_inputs_named_in_an_exception_are_drawn():
    first, again = (suitable_inputs(Asking(), batch=3) for _ in range(2))
    assert first["past_values"].shape[::2] == (3, 5) and first["my_mask"].all()
    assert all(torch.equal(first[name], again[name]) for name in first)
    with pytest.raises(NoInputs, match="a dict of some of past_values, session"):
        suitable_inputs(Asking(reads=lambda session: session.count))


#: {architecture: its inputs, which are words, two texts, a time series, audio, images or both}
DRAWN = {
    "lilt": {"input_ids"},
    "t5": {"input_ids", "decoder_input_ids"},
    "patchtst": {"past_values"},
    "whisper": {"input_features", "decoder_input_ids"},
    "hubert": {"input_values"},
    "sam": {"pixel_values"},
    "clip": {"pixel_values", "input_ids"},
}


@pytest.mark.parametrize("kind", DRAWN)
def test_inputs_are_drawn_for_models_of_all_kinds(kind):
    model = shrink(config(kind)).model
    inputs = suitable_inputs(model)
    assert inputs.keys() == DRAWN[kind]
    demand_runs(model, ((), inputs))


def test_inputs_are_drawn_for_a_model_in_float64():
    model = tiny("xglm").double()  # its mask value, the least float64, overflows in float32
    assert suitable_inputs(model).keys() == {"input_ids"}


# --- the outputs that are compared


def test_hidden_states_and_caches_are_not_outputs():
    from transformers.modeling_outputs import ModelOutput

    one, two = torch.ones(2), torch.zeros(3)
    given = {"a": one, "hidden_states": (two,), "past_key_values": one, "cross_attentions": (one,),
             "count": torch.tensor(1), "encoder_last_hidden_state": two, "loss": one}  # fmt: skip
    assert [t.tolist() for t in tensors(ModelOutput(given))] == [[1, 1], 1, [0, 0, 0]]
    assert len(tensors(given)) == len(given)  # in a plain dict, no name is special
    assert [t.tolist() for t in tensors([(two, "x"), {"b": one > 0}])] == [[0, 0, 0], [1, 1]]


def test_each_run_gets_a_fresh_copy_of_a_cache():
    from transformers import DynamicCache

    model, cache = tiny("gpt2"), DynamicCache()
    model(input_ids=torch.tensor([[1, 2, 3]]), past_key_values=cache, use_cache=True)
    call = ((), {"input_ids": torch.tensor([[4]]), "past_key_values": cache, "use_cache": True})
    demand_runs(model, call)
    assert cache.get_seq_length() == 3
    assert fresh(call)[1]["input_ids"] is not call[1]["input_ids"]
    model.h[0].mlp.dropout.forward = lambda x: x + torch.rand_like(x)
    with pytest.raises(WrongInputs, match="draws random numbers"):
        demand_runs(model, call)


def test_variations_keep_masks_placeholders_and_the_last_token():
    ids, mask = torch.tensor([[3, 9, 5, 5, 4, 2]]), torch.tensor([[1, 1, 1, 1, 1, 0]])
    model, call = tiny("bert"), ((), {"input_ids": ids, "attention_mask": mask})
    model.config.image_token_id = 5
    (_, first), (_, second) = itertools.islice(variations(model, call), 2)
    assert torch.equal(first["input_ids"], ids) and torch.equal(second["attention_mask"], mask)
    assert not torch.equal(second["input_ids"], ids) and second["input_ids"][0, -1] == 2
    assert torch.equal(second["input_ids"] == 5, ids == 5)
