"""Forty-nine architectures of `transformers`, each from the default configuration of its class.

    audit(default("gptj"), inject=True)     # shrunk: the audit of chapter 13
    line("gptj")                            # its row on the decision page, by prediction alone

Which part of a head is rotated, and whether the values of all heads are more numbers than the
stream has, are thus those of the default sizes: `shrink` accepts only a model of the same
structure, and what is predicted of it is carried back to the full size.
"""

from __future__ import annotations

from fractions import Fraction

import torch

from .guessing import suitable_inputs
from .large import carried
from .layers import find_attention, layers_of
from .layout import with_true_layout
from .precision import double_precision, generic_copy, plain_kernels
from .predict import predict
from .reasons import reason_for
from .shrinking import built, class_of, shrink
from .zoo import quiet

NAMES = """bert roberta electra distilbert albert gpt2 opt bloom ctrl biogpt gpt_neo gpt_bigcode
xglm bart pegasus marian m2m_100 whisper wav2vec2 hubert vit deit dinov2 clip swin beit t5 mpt gptj
codegen gpt_neox phi stablelm nemotron starcoder2 falcon esm llama qwen2 mistral qwen3 olmo2 swinv2
persimmon gemma2 gpt_oss deberta deberta-v2 diffllama""".split()

_RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
#: Two of four stages and a quarter of the image's side, which take seconds; the first layer is the same.
_WINDOWS = {"depths": [2, 2], "num_heads": [3, 6], "image_size": 56}
#: What is given beside the default.
GIVEN = {
    "swin": _WINDOWS,
    "swinv2": _WINDOWS,
    "deberta": _RELATIVE,
    "deberta-v2": _RELATIVE,
    "esm": {"vocab_size": 33, "pad_token_id": 1, "position_embedding_type": "rotary"},
    "nemotron": {"num_key_value_heads": 48},
}
#: What a row says where the default has not, or makes no model without, what is given.
NOTES = {
    "deberta": "given `relative_attention`, which is off by default",
    "deberta-v2": "given `relative_attention`, which is off by default",
    "esm": "given rotary positions, as in ESM-2; the default has absolute ones, and makes no model",
    "nemotron": "given a key head for each head; the default makes no model",
}
TURNED = {0: "all", Fraction(1, 2): "half", Fraction(3, 4): "a quarter"}
#: What a row says of a value bias, by how the last of its reasons begins.
VALUES = {
    "W_O b_V moves into b_O": "it moves into $b_O$",
    "there is no b_O": "there is no $b_O$",
    "W_O shows": "no $b_O$, but one direction is not seen",
    "a sink takes a share": "the sink takes a share of the weights",
    "a norm before W_O": "a norm before $W_O$ bends it",
}


def default(name):
    """The default configuration of an architecture, with what is `GIVEN` beside it."""
    with quiet():
        from transformers import AutoConfig

        return AutoConfig.for_model(name, **GIVEN.get(name, {}))


def line(name):
    """The row of an architecture on the decision page: key and value bias of its first layer."""
    key, value = (predicted(name)[role] for role in ("key", "value"))
    why = reason_for(key.why).words
    if why == "rotary positions turn it":
        why = f"RoPE turns {TURNED[Fraction(key.dimension, key.size)]} of each head"
    note = f" ({NOTES[name]})" if name in NOTES else ""
    of_value = next(words for begins, words in VALUES.items() if value.why[-1].startswith(begins))
    assert "one direction" not in of_value or value.dimension == 1
    return f"| `{name}` | {_share(key)} | {why}{note} | {_share(value)} | {of_value} |"


def predicted(name):
    """The predictions for the first layer at its default size, by role."""
    config = default(name)
    with quiet(), torch.random.fork_rng([]):
        small, full = shrink(config).model, built(config, class_of(config), "meta")
    copied, call = generic_copy(small), ((), suitable_inputs(small))
    call = ((), {n: v.double() if v.is_floating_point() else v for n, v in call[1].items()})
    absent = dict(copied.named_parameters()).keys() - dict(small.named_parameters()).keys()
    with double_precision(), plain_kernels():
        twin = with_true_layout(copied, find_attention(copied)[0], call)
        found = predict(copied, call, [twin], absent)
    layer = layers_of(full)[0]
    return {role: carried(found[twin.name, role], layer, twin) for role in layer.projections}


def _share(found):
    return "part" if 0 < found.dimension < found.size else "all" if found.dimension else "none"
