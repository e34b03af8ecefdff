"""The fields of a configuration that are sizes, and what becomes of them in a small model.

A field is known by its name, as `zoo` does it.  Sizes that go together stay together: heads that
share a key, the parts of a head, widths that were equal; `shrinking` sees whether it is enough.
"""

from __future__ import annotations

import math
import re


def _names(words):
    return frozenset(words.split())


DEPTHS = _names(
    "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers depth "
    "num_decoder_layers num_encoder_layers"
)
HEADS = _names(
    "num_attention_heads n_head n_heads num_heads encoder_attention_heads attention_heads "
    "decoder_attention_heads"
)
GROUPS = _names("num_key_value_heads num_kv_heads n_head_kv multi_query_group_num")
HEAD_PARTS = _names(
    "head_dim d_kv kv_channels attention_head_size attention_head_dim rotary_dim "
    "qk_nope_head_dim qk_rope_head_dim v_head_dim qk_head_dim mrope_section"
)
WIDTHS = _names(
    "hidden_size d_model n_embd embed_dim dim emb_dim projection_dim embedding_size "
    "decoder_hidden_size word_embed_proj_dim out_hidden_size lru_width shared_head_dim "
    "ffn_config cross_attention_dim"
)
#: Other sizes, and how large they are made at most.
AT_MOST = {
    32: "intermediate_size d_ff n_inner encoder_ffn_dim decoder_ffn_dim ffn_dim hidden_dim "
    "ffn_hidden_size dff moe_intermediate_size shared_expert_intermediate_size mlp_dim "
    "feed_forward_size ffn_size intermediate_size_mlp block_ff_dim",
    64: "max_position_embeddings n_positions n_ctx max_source_positions max_target_positions "
    "max_seq_len max_relative_positions max_sequence_length",
    96: "vocab_size vocab_size_per_layer_input",
    4: "n_routed_experts num_experts num_local_experts moe_num_experts mamba_d_state",
    2: "num_experts_per_tok num_experts_per_token moe_topk moe_k n_group topk_group linear_num_key_heads",
    8: "num_mel_bins linear_key_head_dim linear_value_head_dim",
    16: "kv_lora_rank q_lora_rank mamba_dt_rank num_conv_pos_embeddings",
}
SIZES = {name: most for most, names in AT_MOST.items() for name in names.split()}
TOKEN = re.compile(r"(^|_)token_(id|ids|index)$")


class CannotShrink(ValueError):
    """No smaller model with the same structure was found; says what differed."""


def parts_of(fields):
    """The dictionaries of a configuration: those of its parts first, then its own."""
    for value in fields.values():
        if isinstance(value, dict) and "model_type" in value:
            yield from parts_of(value)
    yield fields


# --- fewer layers -----------------------------------------------------------------------------


def fewer_layers(fields, layers):
    """The fields with at most so many layers, and lists with an entry for each layer cut."""
    depths = {fields[n] for n in DEPTHS & fields.keys() if is_count(fields[n])}
    cut = {}
    for name, value in fields.items():
        if isinstance(value, dict) and "model_type" in value:
            value = fewer_layers(value, layers)
        elif name in DEPTHS and is_count(value):
            value = min(value, layers)
        elif isinstance(value, list) and len(value) in depths and "layer" in name:
            value = value[:layers]
        elif isinstance(value, list) and name.endswith("_layers") and all(map(is_count, value)):
            value = [v for v in value if v < layers]
        cut[name] = value
    if "attention_types" in fields:  # GPT-Neo: [[kinds, how often]]
        cut["attention_types"] = [[kinds[:layers], 1] for kinds, _ in fields["attention_types"]]
    return cut


def is_count(value):
    return isinstance(value, int) and not isinstance(value, bool)


# --- narrower layers --------------------------------------------------------------------------


def narrower(fields, heads, width, greedy=False):
    """The fields with so many heads, of at least that width, and everything else small.

    ``greedy`` shrinks every large whole number, whatever it is called.
    """
    parts, widths = list(parts_of(fields)), {}
    found = [_Ratios(part, heads, width) for part in parts]
    for ratios in reversed(found):
        for before, after in ratios.widths.items():
            widths.setdefault(before, after)
    tokens = _tokens(parts)

    def narrowed(part):
        ratios = next(r for p, r in zip(parts, found, strict=True) if p is part)
        made = {}
        for name, value in part.items():
            if isinstance(value, dict) and "model_type" in value:
                made[name] = narrowed(value)
            else:
                made[name] = _size(name, value, ratios, widths, tokens)
                if greedy and made[name] == value and not TOKEN.search(name):
                    made[name] = _less(value)
        return _one_for_all(part, made)

    return narrowed(fields)


class _Ratios:
    """How the sizes of one part of a configuration go together.

    ``heads`` says by which number each count of heads is divided, ``part`` by which the sizes of
    a head are, and ``widths`` what becomes of the width of the stream.
    """

    def __init__(self, fields, heads, width):
        counts = [fields[n] for n in HEADS & fields.keys() if is_count(fields[n])]
        shared = [fields[n] for n in GROUPS & fields.keys() if is_count(fields[n])]
        self.few = heads
        self.group = max(1, counts[0] // shared[0]) if counts and shared else 1
        self.single = shared[:1] == [1] and counts != [1]
        stream = next((fields[n] for n in ("hidden_size", "d_model", "n_embd", "dim", "embed_dim")
                       if is_count(fields.get(n))), None)  # fmt: skip
        self.widths, self.part = {}, 1
        if not counts or stream is None:
            return
        words = (
            ("v_head_dim",)
            if fields.get("qk_nope_head_dim")
            else ("head_dim", "d_kv", "kv_channels")
        )
        stated = [fields[n] for n in words if is_count(fields.get(n))]
        one = stated[0] if stated else stream // counts[0]
        sizes = [one, *_sizes_of_head(fields, one)]
        self.part = _largest_divisor(sizes, width)
        small = self.count(counts[0]) * (one // self.part)
        ratio = math.gcd(stream, counts[0] * one)
        upper, lower = stream // ratio, counts[0] * one // ratio
        scaled = small * upper / lower
        if scaled != int(scaled) or scaled % 2:
            raise CannotShrink(f"a width of {stream} has no small one with the same ratio to heads")
        self.widths = {stream: int(scaled)}

    def count(self, heads):
        """So many heads become how many: a single one stays, those that share a key too."""
        if heads == 1:
            return 1
        return self.few if self.single else min(heads, self.few * self.group)

    def groups(self, shared):
        return 1 if shared == 1 else min(shared, self.few)


def _sizes_of_head(fields, one):
    """The sizes of the parts of a head, those in its rotary settings too."""
    found = [fields[n] for n in HEAD_PARTS & fields.keys() if is_count(fields[n])]
    for rope in [fields, *(v for v in fields.values() if isinstance(v, dict))]:
        share = rope.get("partial_rotary_factor") or rope.get("rotary_pct")
        if isinstance(share, float) and share < 1:
            found += [int(one * share), one - int(one * share)]
        found += [2 * size for size in rope.get("mrope_section") or ()]
    return [size for size in found if size > 0]


def _largest_divisor(sizes, least):
    """The largest number that divides all sizes, leaves them even and the first not below ``least``."""
    for divisor in range(max(1, sizes[0] // least), 1, -1):
        parts = [divmod(size, divisor) for size in sizes]
        if all(rest == 0 and part % 2 == 0 for part, rest in parts) and parts[0][0] % 4 == 0:
            return divisor
    return 1


def _size(name, value, ratios, widths, tokens):
    """What becomes of one field."""
    if name in ("id2label", "label2id") or not isinstance(name, str):
        return value
    if TOKEN.search(name):
        return _token(value, tokens)
    if isinstance(value, dict):
        return {n: _size(n, v, ratios, widths, tokens) for n, v in value.items()}
    if name in HEAD_PARTS:
        return [v // ratios.part for v in value] if isinstance(value, list) else (
            value // ratios.part if is_count(value) else value)  # fmt: skip
    if name in ("short_factor", "long_factor"):
        return value[: len(value) // ratios.part]
    if not is_count(value):
        return _listed(name, value)
    if name in HEADS:
        return ratios.count(value)
    if name in GROUPS:
        return ratios.groups(value)
    if name in WIDTHS or (value in ratios.widths and name not in SIZES and value > 64):
        return ratios.widths.get(value) or widths.get(value) or _other_width(value, widths)
    if name in SIZES:
        return min(value, SIZES[name])
    return value


def _less(value):
    """A large number, or each of a list of them, made small; other things as they are."""
    if isinstance(value, list) and value and all(map(is_count, value)) and min(value) >= 32:
        return [max(8, v * 8 // min(value)) for v in value]
    return 32 if is_count(value) and value > 96 else value


def _other_width(value, widths):
    """A width beside that of the stream, on the same side of it, and equal where it was equal."""
    if not widths or value <= 8:
        return value
    before, after = next(iter(widths.items()))
    made = max(after // 2, after - 4) if value < before else 2 * after
    return widths.setdefault(value, made)


def _listed(name, value):
    """What becomes of a list of sizes, one for each stage."""
    if name == "conv_dim" and isinstance(value, list):
        return [min(v, 8) for v in value]
    return value


def _one_for_all(before, after):
    """Sizes that are not independent: linear attention's heads, experts' groups, images."""
    if {"linear_num_value_heads", "linear_num_key_heads"} <= before.keys():
        ratio = before["linear_num_value_heads"] // before["linear_num_key_heads"]
        after["linear_num_value_heads"] = ratio * after["linear_num_key_heads"]
    if is_count(before.get("topk_group")) and is_count(before.get("n_group")):
        after["topk_group"] = 1 if before["topk_group"] < before["n_group"] else after["n_group"]
    if is_count(before.get("mamba_n_heads")) and is_count(before.get("mamba_d_head")):
        after["mamba_n_heads"] = 4
        after["mamba_d_head"] = before.get("mamba_expand", 2) * after["hidden_size"] // 4
    if isinstance(before.get("num_heads"), list) and is_count(before.get("embed_dim")):
        after |= _stages(before)
    if isinstance(before.get("tubelet_size"), list):
        after["num_frames"] = 2 * before["tubelet_size"][0]
    patch, image = before.get("patch_size"), before.get("image_size")
    if is_count(patch) and is_count(image) and image % patch == 0 and "depths" not in before:
        after["patch_size"] = min(patch, 4)
        after["image_size"] = after["patch_size"] * min(image // patch, 4)
    return after


def _stages(before):
    """Swin and its kin: each stage has twice the width and half the resolution of the one before."""
    first, depths = before["num_heads"][0], before.get("depths", ())
    made = {"num_heads": [2 * heads // first for heads in before["num_heads"]], "embed_dim": 16}
    made["depths"] = [min(2, depth) for depth in depths]
    if "hidden_size" in before:
        made["hidden_size"] = 16 * before["hidden_size"] // before["embed_dim"]
    if is_count(before.get("window_size")) and is_count(before.get("image_size")):
        ratio = before["image_size"] // before["window_size"]
        made |= {"window_size": 2, "image_size": 2 * ratio}
    return made


def _tokens(parts):
    """What becomes of the numbers of special tokens: each stays itself, within the vocabulary."""
    numbers = set()
    for fields in parts:
        for name, value in fields.items():
            if TOKEN.search(name):
                numbers |= {
                    v for v in (value if isinstance(value, list) else [value]) if is_count(v)
                }
    most = SIZES["vocab_size"]
    large = sorted(n for n in numbers if n >= most)
    return {number: most - 1 - place for place, number in enumerate(large)}


def _token(value, tokens):
    if isinstance(value, list):
        return [tokens.get(v, v) for v in value]
    return tokens.get(value, value) if is_count(value) else value
