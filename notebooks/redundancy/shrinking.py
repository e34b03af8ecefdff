"""A small model with every structural feature of a large one, from its configuration alone.

    small = shrink(config)            # of transformers; no weight is loaded or made at full size
    small.model, small.changes        # random weights; (field, before, after) of all that changed

Which biases are redundant follows from the operations that they pass and from a few ratios: how
many queries share a key, how much of a head is rotated, whether the values of all heads are more
numbers than the stream has.  None of them needs 4096 dimensions.  So a field that is called like a
size becomes small, and the ratios stay: heads in groups, parts of a head, equal widths.  Of the
layers as many are kept, from the first on, as it takes to have one of each kind.

That nothing was lost is not taken on trust.  The full model is built without numbers (on PyTorch's
meta device), and a `signature` taken of it: the classes of its modules, their switches, the
parameters that there are and that are shared, and of each attention layer how its heads are
grouped.  A smaller model is accepted only if it has the same, and runs.
"""

from __future__ import annotations

import copy
import math
import re
import time
from dataclasses import dataclass

import torch

from .layers import layers_of
from .zoo import quiet, some_inputs

#: A model of fewer numbers than this is left as it is.
SMALL_ENOUGH = 300_000
#: A shrunk model has fewer numbers than this, or it was not shrunk.
STILL_SMALL = 5_000_000
#: After so many seconds nothing smaller is looked for.
PATIENCE = 20
#: So many layers are tried, and then all.
DEEPEST = 16
#: How many heads (of keys, where they are shared) and how wide a part of one, smallest first.
PLANS = ((2, 8), (4, 8), (2, 16), (4, 16), (8, 8), (2, 32), (4, 32))


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
    96: "vocab_size",
    4: "n_routed_experts num_experts num_local_experts moe_num_experts mamba_d_state",
    2: "num_experts_per_tok moe_topk moe_k n_group topk_group linear_num_key_heads",
    8: "num_mel_bins linear_key_head_dim linear_value_head_dim",
    16: "kv_lora_rank q_lora_rank mamba_dt_rank num_conv_pos_embeddings",
}
SIZES = {name: most for most, names in AT_MOST.items() for name in names.split()}
#: Attributes of a module that say where it stands, or how it is run, and not what it does.
PLACE = re.compile(r"^_|^training$|idx|index|layer_id|layer_number|^layer$|token_id")
TOKEN = re.compile(r"(^|_)token_(id|ids|index)$")
UNLESS_ASKED = ("quantization_config", "dtype", "torch_dtype")


class CannotShrink(ValueError):
    """No smaller model with the same structure was found; says what differed."""


@dataclass(frozen=True)
class Shrunk:
    """The small ``model``, in eval mode, and the ``changes``: (field, before, after)."""

    model: torch.nn.Module
    changes: tuple[tuple[str, object, object], ...]

    def account(self):
        """What was shrunk, in words."""
        fields = ", ".join(f"{n} {_short(a)} to {_short(b)}" for n, a, b in self.changes)
        return (
            "audited on a small model of the same structure; what is all, nothing or the mean of "
            "a bias here is so at full size, and a part of a head keeps its share. Shrunk: "
            + fields
        )


def _short(value):
    text = str(value)
    return text if len(text) < 40 else text[:36] + " ..."


def shrink(config, seed=0):
    """The `Shrunk` model of a configuration of transformers; the same in every run.

    Raises CannotShrink where no smaller model has the structure of the full one.
    """
    with quiet(), torch.random.fork_rng([]):
        full, fields = built(config, "meta"), plain_fields(config)
        if sum(p.numel() for p in full.parameters()) < SMALL_ENOUGH:
            return Shrunk(_made(config, seed), ())
        wanted = signature(full)
        shallow = _shallow(config, fields, wanted)
        return _smallest(config, fields, shallow, wanted, seed)


def _smallest(config, fields, shallow, wanted, seed):
    """The first of the `PLANS` whose model is alike and runs; or that is alike, if none runs.

    What does not run may want other inputs than those that can be made up: `audit` says so.
    """
    alike, reason, start = [], "nothing was tried", time.monotonic()
    for heads, width in PLANS:
        try:
            narrow = _narrow(shallow, heads, width)
            small = _config_like(config, narrow)
            _demand_alike(small, wanted)
            model = _made(small, seed)
        except Exception as problem:  # whatever a configuration or a model raises
            reason = _first_line(problem)
            continue
        alike.append(Shrunk(model, tuple(_changes("", fields, narrow))))
        if _runs(model):
            return alike[-1]
        if time.monotonic() - start > PATIENCE:
            break
    if alike:
        return alike[0]
    raise CannotShrink(
        f"no small model was found that is like the {type(config).__name__} given ({reason}): "
        "build a small one, and audit that"
    )


def _first_line(problem):
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]


# --- models and what is to be kept of them ----------------------------------------------------


def built(config, device="cpu"):
    """A fresh model of a configuration, in the class that it names, or without a head."""
    import transformers

    name = (getattr(config, "architectures", None) or ["AutoModel"])[0]
    named = getattr(transformers, name, None)
    with torch.device(device):
        if named is None or not hasattr(named, "_from_config"):
            return transformers.AutoModel.from_config(copy.deepcopy(config)).eval()
        return named._from_config(copy.deepcopy(config)).eval()


def _made(config, seed):
    torch.manual_seed(seed)
    config = copy.deepcopy(config)
    config.dtype = torch.float32
    return built(config)


def signature(model):
    """What a small model must have in common with a full one: a set of descriptions.

    Modules and parameters are named without numbers, so that layers that are alike count once.
    """
    found, first = set(), {}
    for name, module in model.named_modules():
        found.add((_plain(name), type(module).__qualname__, _switches(module)))
    for name, parameter in model.named_parameters(remove_duplicate=False):
        shared = first.setdefault(id(parameter), _plain(name))
        found.add((_plain(name), parameter.ndim, shared))
    return found | {_heads(layer) for layer in layers_of(model)}


def _plain(name):
    return re.sub(r"\b\d+\b", "*", name)


def _switches(module):
    """What the attributes of a module say: yes or no, a word, nothing, and of a number if it is 0."""
    own = {k: v for k, v in vars(module).items() if not PLACE.search(k)}
    words = {(k, v) for k, v in own.items() if v is None or isinstance(v, bool | str)}
    return frozenset(words | {(k, v != 0) for k, v in own.items() if isinstance(v, int | float)})


def _heads(layer):
    """How the heads of an attention layer are grouped, and which biases it has."""
    width = layer.output.size if layer.output else 0
    return (
        _plain(layer.name), layer.heads == 1, layer.key_value_heads == 1, layer.group == 1,
        _sign(layer.value.size - width), _sign(layer.query.size - width),
        tuple((role, p.has_bias) for role, p in layer.projections.items()),
    )  # fmt: skip


def _sign(number):
    return (number > 0) - (number < 0)


def _demand_alike(config, wanted):
    """Raises CannotShrink, naming what would be lost or gained, and for a model that stays large."""
    model = built(config, "meta")
    found = signature(model)
    if missing := sorted(map(str, wanted - found)):
        raise CannotShrink(f"it would lose {missing[0]}")
    if added := sorted(map(str, found - wanted)):
        raise CannotShrink(f"it would gain {added[0]}")
    if sum(p.numel() for p in model.parameters()) > STILL_SMALL:
        raise CannotShrink("it has sizes of which nothing is known, and stays large")


def _runs(model):
    try:
        with torch.no_grad():
            model(**some_inputs(model))
    except Exception:  # whatever a model raises
        return False
    return True


# --- fields -----------------------------------------------------------------------------------


def plain_fields(config):
    """The fields of a configuration as a dictionary, those of its parts as dictionaries in it."""
    fields = {k: v for k, v in config.to_dict().items() if k not in UNLESS_ASKED}
    for name, value in vars(config).items():
        if _is_config(value):
            fields[name] = plain_fields(value)
    return fields


def _is_config(value):
    return hasattr(value, "to_dict") and hasattr(value, "model_type")


def _config_like(config, fields):
    fields = copy.deepcopy(fields)
    fields.pop("transformers_version", None)
    return type(config).from_dict(fields)


def _changes(path, before, after):
    for name, value in before.items():
        if isinstance(value, dict) and isinstance(after.get(name), dict):
            yield from _changes(f"{path}{name}.", value, after[name])
        elif after.get(name) != value:
            yield f"{path}{name}", value, after.get(name)


def _parts(fields):
    """The dictionaries of a configuration: those of its parts first, then its own."""
    for value in fields.values():
        if isinstance(value, dict) and "model_type" in value:
            yield from _parts(value)
    yield fields


# --- fewer layers -----------------------------------------------------------------------------


def _shallow(config, fields, wanted):
    """The fields with as few layers as have one of each kind, counted from the first."""
    deepest = max((f[n] for f in _parts(fields) for n in DEPTHS & f.keys() if _count(f[n])),
                  default=0)  # fmt: skip
    for layers in range(2, min(deepest, DEEPEST)):
        cut = _cut(fields, layers)
        try:
            found = signature(built(_config_like(config, cut), "meta"))
        except Exception:  # too few layers for what the configuration asks
            continue
        if found == wanted:
            return cut
    return fields


def _cut(fields, layers):
    """The fields with at most so many layers, and lists with an entry for each layer cut."""
    depths = {fields[n] for n in DEPTHS & fields.keys() if _count(fields[n])}
    cut = {}
    for name, value in fields.items():
        if isinstance(value, dict) and "model_type" in value:
            value = _cut(value, layers)
        elif name in DEPTHS and _count(value):
            value = min(value, layers)
        elif isinstance(value, list) and len(value) in depths and "layer" in name:
            value = value[:layers]
        elif isinstance(value, list) and name.endswith("_layers") and all(map(_count, value)):
            value = [v for v in value if v < layers]
        cut[name] = value
    if "attention_types" in fields:  # GPT-Neo: [[kinds, how often]]
        cut["attention_types"] = [[kinds[:layers], 1] for kinds, _ in fields["attention_types"]]
    return cut


def _count(value):
    return isinstance(value, int) and not isinstance(value, bool)


# --- narrower layers --------------------------------------------------------------------------


def _narrow(fields, heads, width):
    """The fields with so many heads, of at least that width, and everything else small."""
    parts, widths = list(_parts(fields)), {}
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
        return _one_for_all(part, made)

    return narrowed(fields)


class _Ratios:
    """How the sizes of one part of a configuration go together.

    ``heads`` says by which number each count of heads is divided, ``part`` by which the sizes of
    a head are, and ``widths`` what becomes of the width of the stream.
    """

    def __init__(self, fields, heads, width):
        counts = [fields[n] for n in HEADS & fields.keys() if _count(fields[n])]
        shared = [fields[n] for n in GROUPS & fields.keys() if _count(fields[n])]
        self.few = heads
        self.group = max(1, counts[0] // shared[0]) if counts and shared else 1
        self.single = shared[:1] == [1] and counts != [1]
        stream = next((fields[n] for n in ("hidden_size", "d_model", "n_embd", "dim", "embed_dim")
                       if _count(fields.get(n))), None)  # fmt: skip
        self.widths, self.part = {}, 1
        if not counts or stream is None:
            return
        words = (
            ("v_head_dim",)
            if fields.get("qk_nope_head_dim")
            else ("head_dim", "d_kv", "kv_channels")
        )
        stated = [fields[n] for n in words if _count(fields.get(n))]
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
    found = [fields[n] for n in HEAD_PARTS & fields.keys() if _count(fields[n])]
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
            value // ratios.part if _count(value) else value)  # fmt: skip
    if name in ("short_factor", "long_factor"):
        return value[: len(value) // ratios.part]
    if not _count(value):
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


def _other_width(value, widths):
    """A width beside that of the stream, on the same side of it, and equal where it was equal."""
    if not widths or value <= 8:
        return value
    before, after = next(iter(widths.items()))
    made = after // 2 if value < before else 2 * after
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
    if _count(before.get("topk_group")) and _count(before.get("n_group")):
        after["topk_group"] = 1 if before["topk_group"] < before["n_group"] else after["n_group"]
    patch, image = before.get("patch_size"), before.get("image_size")
    if _count(patch) and _count(image) and image % patch == 0 and "depths" not in before:
        after["patch_size"] = min(patch, 4)
        after["image_size"] = after["patch_size"] * min(image // patch, 4)
    return after


def _tokens(parts):
    """What becomes of the numbers of special tokens: each stays itself, within the vocabulary."""
    numbers = set()
    for fields in parts:
        for name, value in fields.items():
            if TOKEN.search(name):
                numbers |= {v for v in (value if isinstance(value, list) else [value]) if _count(v)}
    most = SIZES["vocab_size"]
    large = sorted(n for n in numbers if n >= most)
    return {number: most - 1 - place for place, number in enumerate(large)}


def _token(value, tokens):
    if isinstance(value, list):
        return [tokens.get(v, v) for v in value]
    return tokens.get(value, value) if _count(value) else value
