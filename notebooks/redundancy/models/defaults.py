"""Forty-nine architectures of `transformers`, each with the default configuration of its
class or, for six of them, a variant of it.

    audit(default("gptj"), inject=True)     # the audit in chapter 13, on a small model
    line("gptj")                            # its row on the decision page, as an audit predicts it

The default sizes determine which part of a head is rotated and whether all heads together are
wider than the residual stream.  `shrink` preserves both, so the answers for the small
model hold at full size.
"""

from __future__ import annotations

from ..audit.auditing import audit
from .tiny import quiet

NAMES = """bert roberta electra distilbert albert gpt2 opt bloom ctrl biogpt gpt_neo gpt_bigcode
xglm bart pegasus marian m2m_100 whisper wav2vec2 hubert vit deit dinov2 clip swin beit t5 mpt gptj
codegen gpt_neox phi stablelm nemotron starcoder2 falcon esm llama qwen2 mistral qwen3 olmo2 swinv2
persimmon gemma2 gpt_oss deberta deberta-v2 diffllama""".split()

_RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]}
#: With two stages and a small image, an audit takes seconds; the first layer stays the same.
_WINDOWS = {"depths": [2, 2], "num_heads": [3, 6], "image_size": 56}
#: {architecture: the fields that differ from its default configuration}.
GIVEN: dict[str, dict] = {
    "swin": _WINDOWS,
    "swinv2": _WINDOWS,
    "deberta": _RELATIVE,
    "deberta-v2": _RELATIVE,
    "esm": {"vocab_size": 33, "pad_token_id": 1, "position_embedding_type": "rotary"},
    "nemotron": {"num_key_value_heads": 48},
}
#: {architecture: a note for its row that explains its fields in `GIVEN`}.
NOTES = {
    "deberta": "with `relative_attention=True`, which is off by default",
    "deberta-v2": "with `relative_attention=True`, which is off by default",
    "esm": "with rotary positions, as in ESM-2; the default configuration, with absolute ones, cannot be built",
    "nemotron": "with one key head for each query head; the default configuration cannot be built",
}


def default(name):
    """An architecture's default configuration, with the fields in `GIVEN` changed."""
    with quiet():
        from transformers import AutoConfig

        return AutoConfig.for_model(name, **GIVEN.get(name, {}))


def line(name):
    """An architecture's row on the decision page: the key and the value bias of its first layer."""
    report = audit(default(name), inject=True)
    key, value = report.row("b_K"), report.row("b_V")
    note = f" ({NOTES[name]})" if name in NOTES else ""
    why = "; ".join(e.words for e in (key.reasons if key.alone == key.size else key.obstacles[:1]))
    keys, values = _share(key.alone, key), _share(value.together, value)
    return f"| `{name}` | **{keys}**: {why}{note} | **{values}**: {_where(value)} |"


def _where(value):
    """The answer for a value bias: what absorbs it, or why it stays."""
    if not value.into:
        return "; ".join(e.words for e in value.reasons[:1])
    other = ".".join(value.into[0].split(".")[-2:])
    return f"it moves into `{other}`" if len(value.into) == 1 else "it moves into several biases"


def _share(count, row):
    return "all" if count == row.size else "part" if count else "none"
