"""How the matrices of an attention layer are cut into queries, keys, values and heads.

Each ``cut_…`` gives (heads, key-value heads, width of a key), and by role the map and its rows;
None where the sizes do not fit.
"""

from __future__ import annotations

import torch


def one_after_the_other(heads, groups, k, size):
    """All queries, then all keys, then all values: GPT-2, ViT, Phi-3, nn.MultiheadAttention."""
    return torch.arange(size).split([heads * k, groups * k, size - (heads + groups) * k])


def head_by_head(heads, groups, k, size):
    """(group, [its queries, its key, its value], k): BLOOM, GPT-NeoX, Persimmon, Falcon."""
    places = torch.arange(size).view(groups, heads // groups + 2, k)
    return places[:, :-2].flatten(), places[:, -2].flatten(), places[:, -1].flatten()


def in_four_blocks(heads, groups, k, size):
    """CodeGen: four blocks (it was trained on four devices), each query, value, key."""
    places = torch.arange(size).view(4, 3, size // 12)
    return places[:, 0].flatten(), places[:, 2].flatten(), places[:, 1].flatten()


#: Classes that do not store the parts one after the other, by the beginning of their name.
LAYOUTS = {
    **{"Bloom": head_by_head, "GPTNeoX": head_by_head, "Persimmon": head_by_head},
    **{"Falcon": head_by_head, "DisentangledSelfAttention": head_by_head},
    **{"MiniMaxLightning": head_by_head, "CodeGen": in_four_blocks},
}


def _layout(module, heads, groups):
    name = type(module).__name__
    if name.startswith("GPTBigCode") and groups == heads:
        return head_by_head
    return next((LAYOUTS[n] for n in LAYOUTS if name.startswith(n)), one_after_the_other)


def cut_apart(module, paths, parent):
    """Heads and the rows of three separate maps."""
    sizes = {r: width(paths[r][1])[1] for r in ("query", "key", "value")}
    heads, k = _heads(module, parent, sizes["query"])
    if k is None or sizes["query"] % k or sizes["key"] % k:
        return None
    groups = sizes["key"] // k
    if sizes["value"] % groups or heads % groups:
        return None
    return (heads, groups, k), {r: (*paths[r], torch.arange(n)) for r, n in sizes.items()}


def cut_fused(module, paths, parent):
    """Heads and the rows of one fused map: out = (heads + 2 groups) k."""
    size = width(paths["fused"][1])[1]
    groups = _number(module, "num_key_value_heads", "num_kv_heads", "kv_heads") or 0
    heads, k = _heads(module, parent, None)
    if heads is None:
        return None
    if k is None or k * (heads + 2) > size:
        k = size // (heads + 2 * groups) if groups else size // (3 * heads)
    groups = (size // k - heads) // 2
    if groups < 1 or (heads + 2 * groups) * k != size or heads % groups:
        return None
    rows = _layout(module, heads, groups)(heads, groups, k, size)
    return (heads, groups, k), {
        r: (*paths["fused"], part) for r, part in zip(("query", "key", "value"), rows, strict=True)
    }


def cut_half(module, paths, parent):
    """Queries apart, keys and values fused: cross-attention of GPT-2, and latent attention."""
    path, linear = paths.get("key value") or paths["fused"]
    if _number(module, "qk_nope_head_dim"):
        return _cut_latent(module, paths["query"], path, linear)
    size = width(paths["query"][1])[1]
    heads, k = _heads(module, parent, size)
    half = width(linear)[1] // 2
    if k is None or half % k or heads % (half // k):
        return None
    key, value = torch.arange(2 * half).split(half)
    return (heads, half // k, k), {
        "query": (*paths["query"], torch.arange(size)),
        "key": (path, linear, key),
        "value": (path, linear, value),
    }


def _cut_latent(module, query, path, linear):
    """DeepSeek: head by head, what of a key is made from the latent vector, and the value.

    The rest of a key, with positions, is one for all heads, and made elsewhere.
    """
    k, value = _number(module, "qk_nope_head_dim"), _number(module, "v_head_dim")
    heads, rest = divmod(width(linear)[1], k + value) if value else (0, 1)
    if rest or width(query[1])[1] % heads:
        return None
    rows = torch.arange(heads * (k + value)).view(heads, k + value)
    return (heads, heads, k), {
        "query": (*query, torch.arange(width(query[1])[1])),
        "key": (path, linear, rows[:, :k].flatten()),
        "value": (path, linear, rows[:, k:].flatten()),
    }


def _heads(module, parent, size):
    """(heads, head width), read from the module, its parent or its configuration."""
    for holder in (module, parent, getattr(module, "config", None)):
        if holder is None:
            continue
        heads = _number(holder, "num_heads", "num_attention_heads", "n_heads", "n_head", "heads")
        width = _number(holder, "head_dim", "attention_head_size", "key_value_proj_dim", "depth",
                        "dim_head", "head_size", "d_kv", "d_head")  # fmt: skip
        if width and size:
            return size // width, width
        if heads:
            return heads, width or (size // heads if size else None)
    return None, None


def _number(holder, *names):
    """The first attribute of these names that is a whole number."""
    for name in names:
        value = getattr(holder, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def is_transposed(linear):
    return type(linear).__name__ == "Conv1D" and hasattr(linear, "nf")


def width(linear):
    """(in, out) of a linear map."""
    shape = linear.weight.shape
    return (shape[0], shape[1]) if is_transposed(linear) else (shape[1], shape[0])
