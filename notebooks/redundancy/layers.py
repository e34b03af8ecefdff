"""Find the attention layers of a model, and read and write their biases in one common form.

    for layer in find_attention(model):       # AttentionLayer
        layer.query, layer.key, layer.value   # Projection; layer.output may be None
        layer.key.weight()                    # (key-value heads * head_dim) x in, head by head
        layer.key.bias()                      # the same rows, or None where there is no bias
        layer.key.set_bias(v)                 # also add_to_bias(v), inject_bias()
        layer.key.bias_name, layer.key.rows   # which parameter, and where in it

Libraries store the four projections of attention in many ways: four linear maps, one fused map
with the parts one after the other or head by head, GPT-2's `Conv1D` that keeps the transpose,
`in_proj_weight` of `nn.MultiheadAttention`.  A `Projection` is a view into whatever holds it:
it reads as (out x in) with the rows in head-major order, and writes go where the model reads.

Layers are found by the names and shapes of their children, not by a list of models.  How a
fused matrix is cut cannot be seen from names: `cuts.LAYOUTS` lists the classes that cut it head by
head, all others are taken to store the parts one after the other, and `audit`, which runs the
model, checks that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import torch
from torch import nn

from .cuts import cut_apart, cut_fused, cut_half, is_transposed, width


class NoAttention(ValueError):
    """The model holds no attention layer that can be recognised."""


class CannotRead(TypeError):
    """The parameters have no values that can be read: a meta device, or quantised."""


@dataclass(frozen=True)
class Place:
    """Some rows of a parameter: ``module.attribute[rows]``, called ``name`` in the model."""

    module: nn.Module
    attribute: str
    rows: torch.Tensor
    name: str
    transposed: bool = False  # Conv1D keeps (in x out)
    flat: bool = False  # bias_k of nn.MultiheadAttention is (1 x 1 x d)

    @property
    def parameter(self):
        return getattr(self.module, self.attribute, None)

    def _whole(self):
        whole = self.parameter.view(-1) if self.flat else self.parameter
        return whole.T if self.transposed else whole

    def read(self):
        """A copy of the rows, or None where there is no such parameter."""
        if self.parameter is None:
            return None
        rows = self._whole().detach()[self.rows.to(self.parameter.device)]
        return rows.flatten(1) if rows.ndim > 1 else rows

    def write(self, values):
        """Put values of the shape of `read` in place of the rows."""
        with torch.no_grad():
            whole, rows = self._whole(), self.rows.to(self.parameter.device)
            whole[rows] = values.to(whole).view(whole[rows].shape)


@dataclass(frozen=True)
class Projection:
    """One of W_Q x + b_Q, W_K x + b_K, W_V x + b_V, W_O x + b_O, as a view into the model."""

    role: str  # "query", "key", "value" or "output"; of other biases, the module's own name
    weights: Place
    biases: Place

    def weight(self):
        """A copy of the weight, (out x in), rows in head-major order."""
        return self.weights.read()

    def bias(self):
        """A copy of the bias, (out,), head-major; None where the layer has none."""
        return self.biases.read()

    def set_weight(self, values):
        self.weights.write(values)

    def set_bias(self, values):
        """Write the bias; ValueError where the layer has none (see `inject_bias`)."""
        if self.biases.parameter is None:
            raise ValueError(f"there is no {self.bias_name}: call inject_bias() first")
        self.biases.write(values)

    def add_to_bias(self, values):
        self.set_bias(self.bias() + values.to(self.bias()))

    def inject_bias(self):
        """Give the module a bias of zeros where it has none; True if it had to."""
        if self.biases.parameter is not None:
            return False
        weight = self.weights.parameter
        size = weight.shape[1] if self.weights.transposed else weight.shape[0]
        if self.biases.attribute == "in_proj_bias":  # one bias, though weights may be apart
            size = 3 * self.biases.module.embed_dim
        zeros = nn.Parameter(weight.new_zeros(size), requires_grad=weight.requires_grad)
        setattr(self.biases.module, self.biases.attribute, zeros)
        return True

    @property
    def has_bias(self):
        return self.biases.parameter is not None

    @property
    def size(self):
        """How many numbers the bias has, or would have."""
        return len(self.biases.rows)

    @property
    def weight_name(self):
        return self.weights.name

    @property
    def bias_name(self):
        return self.biases.name

    @property
    def rows(self):
        """The places of the bias in the parameter ``bias_name``, head-major."""
        return self.biases.rows


@dataclass(frozen=True)
class AttentionLayer:
    """One attention layer: its projections, and how they are cut into heads.

    ``heads`` queries per token share ``key_value_heads`` keys and values; a key has ``head_dim``
    numbers, a value ``value_dim``.  ``output`` is None where no output projection was found.
    ``appended`` holds, by role, the extra key and value that `add_bias_kv` puts into a row.
    """

    name: str
    module: nn.Module
    heads: int
    key_value_heads: int
    head_dim: int
    query: Projection
    key: Projection
    value: Projection
    output: Projection | None
    config: object = None
    is_cross: bool = False
    fused: bool = False
    appended: dict = field(default_factory=dict)

    @property
    def value_dim(self):
        return self.value.size // self.key_value_heads

    @property
    def group(self):
        """How many query heads share one key head."""
        return self.heads // self.key_value_heads

    @property
    def projections(self):
        """The projections that there are, by role."""
        found = (self.query, self.key, self.value, self.output)
        return {p.role: p for p in found if p is not None}


def find_attention(model, demand=True):
    """The attention layers of a model, in the order in which it holds them.

    Raises CannotRead for a model on the meta device or a quantised one, and NoAttention where
    no layer with queries, keys and values is found, unless ``demand`` is false.
    """
    demand_values(model)
    found = layers_of(model)
    if demand and not found:
        raise NoAttention(_no_attention(model))
    return found


def _no_attention(model):
    """The sentence for a model in which no layer was recognised."""
    kinds = {type(m).__name__ for n, m in model.named_modules() if _calls_itself_attention(n, m)}
    if kinds:
        return (
            f"no attention layer of {type(model).__name__} can be read: {', '.join(sorted(kinds))} "
            "keeps no linear maps for queries, keys and values under a name that is known"
        )
    return (
        f"no attention layer was found in {type(model).__name__}: none of its modules holds "
        "projections for queries, keys and values under a name that is known. (Where tokens are "
        "mixed by a recurrence, a convolution or a Fourier transform, no theorem here speaks.)"
    )


def layers_of(model):
    """The attention layers of a model, whether its parameters have values or not."""
    parents = _parents(model)
    found = (
        _packed(name, module) or _by_names(name, module, parents)
        for name, module in model.named_modules()
    )
    return [layer for layer in found if layer is not None]


def find_others(model):
    """Linear maps in modules that call themselves attention and were not recognised.

    {name of the module: {name of the map in it: Projection}}.  What part they play is unknown.
    """
    layers = find_attention(model, demand=False)
    known = {layer.name for layer in layers}
    told = {p.weights.module for layer in layers for p in layer.projections.values()}
    found = {}
    for name, module in model.named_modules():
        kin = (f"{name}.", *(f"{n}." for n in known | found.keys()))
        inside = any(f"{name}.".startswith(k) for k in kin[1:])
        holds = any(n.startswith(kin[0]) for n in known)
        if inside or holds or not _calls_itself_attention(name, module):
            continue
        maps = {n: m for n, m in module.named_modules() if n and _linear(m) is m}
        maps = {n: m for n, m in maps.items() if "router" not in n}  # it sends tokens to experts
        if maps and not told.issuperset(maps.values()):
            found[name] = {
                n: _projection(n, _join(name, n), m, torch.arange(width(m)[1]))
                for n, m in maps.items()
            }
    return found


def _calls_itself_attention(name, module):
    """Whether the class says so, or the name that its owner gives it: ``linear_attn``, say."""
    words = type(module).__name__.lower()
    return bool(
        re.search("attention|attn", words)
        or re.search(r"(?<!pre_)(?<!post_)(attention|attn)$", name.lower())
    )


def _convolves(module):
    """Whether a module itself holds a convolution that reads more than one place."""
    return any(
        isinstance(m, nn.Conv1d | nn.Conv2d) and max(m.kernel_size) > 1 for m in module.children()
    )


def demand_values(model):
    """Raises CannotRead unless every parameter is a plain floating-point tensor with values."""
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a model (torch.nn.Module), not {type(model).__name__}")
    if getattr(model, "is_quantized", False) or getattr(model, "hf_quantizer", None):
        raise CannotRead("the model is quantised: load it in float32 or bfloat16, then ask again")
    for name, parameter in model.named_parameters():
        if parameter.is_meta:
            raise CannotRead(
                f"{name} is on the meta device and has no values: load the weights, or build the "
                "model outside of torch.device('meta')"
            )
        plain = parameter.is_floating_point() and parameter.dtype.itemsize >= 2
        if not (plain or parameter.is_complex()):
            raise CannotRead(
                f"{name} is stored as {str(parameter.dtype).removeprefix('torch.')}: the model is "
                "quantised; load it in float32 or bfloat16, then ask again"
            )
        if parameter.sum().isnan() and parameter.isnan().any():  # a sum is quick
            raise CannotRead(f"{name} holds NaN: the weights were not loaded, or training diverged")
    for name, module in model.named_modules():
        if "quantized" in type(module).__module__ or hasattr(module, "_packed_params"):
            raise CannotRead(f"{name or 'the model'} is quantised: load it in float32, then ask")


# --- what a name says -------------------------------------------------------------------------

#: Words in the name of a projection that say nothing about its part.
_FILLING = {
    *("proj", "projection", "project", "lin", "linear", "layer", "to", "attn", "c"),
    *("head", "conv1d"),
}
_ROLES = {
    **{"q": "query", "query": "query", "k": "key", "key": "key", "v": "value", "value": "value"},
    **{"o": "output", "out": "output", "output": "output", "dense": "output", "post": "output"},
    **{"attention out": "output", "final": "output", "": "output"},
    **{"qkv": "fused", "query key value": "fused", "att": "fused", "in": "fused"},
    **{"w pack": "fused", "kv": "key value", "key value": "key value"},
    **{"q b": "query", "kv b": "key value"},  # behind a latent vector
}


def _role(name):
    """What a child's name says that it is: "query", "fused", …; None where it says nothing."""
    if name == "c_attn":  # GPT-2; with a q_attn beside it, keys and values only
        return "fused"
    words = re.sub(r"^[Ww]_?(?=(q|k|v|o|qkv)$)", "", name).lower().split("_")
    return _ROLES.get(" ".join(w for w in words if w not in _FILLING))


def _linear(module):
    """The linear map that a child is or wraps, or None: Linear, Conv1D, a convolution of width 1."""
    if isinstance(module, nn.Sequential | nn.ModuleList) or not hasattr(module, "weight"):
        inner = [m for m in module.children() if _linear(m) is not None]
        return _linear(inner[0]) if len(inner) == 1 else None
    weight = module.weight
    if not isinstance(weight, torch.Tensor) or isinstance(module, nn.Embedding):
        return None
    wide = weight.ndim > 2 and weight[0, 0].numel() > 1
    return module if weight.ndim >= 2 and not wide else None


# --- the two kinds of layers ------------------------------------------------------------------


def _packed(name, module):
    """`nn.MultiheadAttention`, with every flag: one packed weight, or three when kdim differs."""
    if not isinstance(module, nn.MultiheadAttention):
        return None
    d, rows = module.embed_dim, torch.arange(3 * module.embed_dim).split(module.embed_dim)
    made = {}
    for role, letter, part in zip(("query", "key", "value"), "qkv", rows, strict=True):
        weight = Place(module, "in_proj_weight", part, _join(name, "in_proj_weight"))
        if module.in_proj_weight is None:
            attribute = f"{letter}_proj_weight"
            weight = Place(module, attribute, torch.arange(d), _join(name, attribute))
        bias = Place(module, "in_proj_bias", part, _join(name, "in_proj_bias"))
        made[role] = Projection(role, weight, bias)
    output = _projection("output", _join(name, "out_proj"), module.out_proj, torch.arange(d))
    appended = {}
    if module.bias_k is not None:
        for role, attribute in (("key", "bias_k"), ("value", "bias_v")):
            place = Place(module, attribute, torch.arange(d), _join(name, attribute), flat=True)
            appended[role] = Projection(attribute, made[role].weights, place)
    heads = module.num_heads
    return AttentionLayer(
        name, module, heads, heads, d // heads, **made, output=output, fused=True, appended=appended
    )


def _by_names(name, module, parents):
    """A layer whose children are called like projections, apart or fused; None if they are not."""
    if not _calls_itself_attention(name, module) and _convolves(module):
        return None  # LFM's gates around a short convolution are stored like queries, keys, values
    children = {}
    for child, inside in module.named_children():
        role, linear = _role(child), _linear(inside)
        if role and linear is not None and role not in children:
            children[role] = (child, linear)
    fused = "fused" in children and "query" not in children
    apart = {"query", "key", "value"} <= children.keys()
    half = "query" in children and ("key value" in children or "fused" in children)
    if not (fused or apart or half):
        return None
    paths = {r: (_path(module, name, linear), linear) for r, (_, linear) in children.items()}
    output = paths.get("output") or _output_beside(name, module, parents)
    cut = cut_apart if apart else cut_fused if fused else cut_half
    found = cut(module, paths, parents.get(name))
    if found is None:
        return None
    (heads, groups, k), parts = found
    made = {r: _projection(r, *paths_and_rows, owner=module) for r, paths_and_rows in parts.items()}
    if output is not None:
        size = width(output[1])[1]
        made["output"] = _projection("output", *output, torch.arange(size), owner=module)
    return AttentionLayer(
        name, module, heads, groups, k, made["query"], made["key"], made["value"],
        made.get("output"), getattr(module, "config", None), _is_cross(name, module), not apart,
    )  # fmt: skip


def _projection(role, path, linear, rows, owner=None):
    weight = Place(linear, "weight", rows, _join(path, "weight"), is_transposed(linear))
    bias = Place(linear, "bias", rows, _join(path, "bias"))
    # DeBERTa adds q_bias after its fused map; GPT-NeoX-Japanese hands on dense_bias beside dense.
    own = {"query": "q_bias", "key": "k_bias", "value": "v_bias"}
    apart = own.get(role, path.rpartition(".")[2] + "_bias")
    found = getattr(owner, apart, None)
    if isinstance(found, nn.Parameter) and found.numel() == len(rows) == max(found.shape):
        bias = Place(owner, apart, torch.arange(len(rows)),
                     _join(path.rpartition(".")[0], apart), flat=found.ndim > 1)  # fmt: skip
    return Projection(role, weight, bias)


def _output_beside(name, module, parents):
    """BERT keeps the output projection in a sibling: the first linear map after the layer."""
    parent = parents.get(name)
    if parent is None:
        return None
    prefix, _, own = name.rpartition(".")
    after = False
    for child, inside in parent.named_children():
        if after and ("out" in child.lower() or child.startswith("post_att")):
            for inner, candidate in inside.named_modules(prefix=_join(prefix, child)):
                if _linear(candidate) is candidate and _role(inner.rpartition(".")[2]) == "output":
                    return inner, candidate
        after = after or child == own
    return None


def _is_cross(name, module):
    """Whether keys come from another sequence; by name, as the libraries have it."""
    flag = getattr(module, "is_cross_attention", None)
    words = name.lower().rpartition(".")[2] + type(module).__name__.lower()
    return bool(flag) or any(w in words for w in ("cross", "encoder_attn", "encdec"))


def _parents(model):
    """The module that holds each module, by name; the model itself has none."""
    modules = dict(model.named_modules())
    return {n: modules[n.rpartition(".")[0]] for n in modules if n}


def _path(module, name, linear):
    """The full name of a linear map inside a module."""
    return next(n for n, m in module.named_modules(prefix=name) if m is linear)


def _join(*names):
    return ".".join(n for n in names if n)
