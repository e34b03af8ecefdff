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
import itertools
import re
import time
from dataclasses import dataclass

import torch

from .guessing import NoInputs, suitable_inputs
from .inputs import first_line
from .layers import layers_of
from .sizes import DEPTHS, CannotShrink, fewer_layers, is_count, narrower, parts_of
from .zoo import quiet

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


#: Attributes of a module that say where it stands, or how it is run, and not what it does.
PLACE = re.compile(r"^_|^training$|idx|index|layer_id|layer_number|^layer$|token_id|name_or_path")
UNLESS_ASKED = ("quantization_config", "dtype", "torch_dtype")


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


def shrink(config, seed=0, full=None):
    """The `Shrunk` model of a configuration of transformers; the same in every run.

    ``full`` is the full model, if there is one: the small one is then of its class, and like it.
    Raises CannotShrink where no smaller model has the structure of the full one.
    """
    with quiet(), torch.random.fork_rng([]):
        kind, fields = type(full) if full is not None else class_of(config), plain_fields(config)
        full = _full(config, kind) if full is None else full
        if sum(p.numel() for p in full.parameters()) < SMALL_ENOUGH:
            return Shrunk(_made(config, kind, seed), ())
        wanted = signature(full)
        shallow = _shallow(config, kind, fields, wanted)
        return _smallest(config, kind, fields, shallow, wanted, seed)


def _full(config, kind):
    """The full model without numbers; CannotShrink where the library makes none of it."""
    try:
        return built(config, kind, "meta")
    except Exception as problem:  # whatever a configuration or a missing package raises
        raise CannotShrink(
            f"{type(config).__name__}: transformers makes no model of it: {first_line(problem)}"
        ) from None


def _smallest(config, kind, fields, shallow, wanted, seed):
    """The first of the `PLANS` whose model is alike and runs; or that is alike, if none runs.

    What does not run may want other inputs than those that can be made up: `audit` says so.
    """
    alike, reason, start = [], "nothing was tried", time.monotonic()
    for greedy, (heads, width) in itertools.product((False, True), PLANS):
        try:
            narrow = narrower(shallow, heads, width, greedy)
            small = _config_like(config, narrow)
            _demand_alike(small, kind, wanted)
            model = _made(small, kind, seed)
        except Exception as problem:  # whatever a configuration or a model raises
            reason = first_line(problem)
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


# --- models and what is to be kept of them ----------------------------------------------------


def class_of(config):
    """The class that a configuration names, if the library has it; None for one without a head."""
    import transformers

    named = getattr(transformers, (getattr(config, "architectures", None) or [""])[0] or "_", None)
    return named if hasattr(named, "_from_config") else None


def built(config, kind=None, device="cpu"):
    """A fresh model of a configuration, of a class or without a head, in eval mode."""
    import transformers

    make = kind._from_config if kind else transformers.AutoModel.from_config
    with torch.device(device):
        return make(copy.deepcopy(config)).eval()


def _made(config, kind, seed):
    torch.manual_seed(seed)
    config = copy.deepcopy(config)
    config.dtype = torch.float32
    return built(config, kind)


def signature(model):
    """What a small model must have in common with a full one: a set of descriptions.

    Modules and parameters are named without numbers, so that layers that are alike count once.
    """
    found, first = set(), {}
    for name, module in model.named_modules():
        found.add((plain(name), type(module).__qualname__, _switches(module)))
    for name, parameter in model.named_parameters(remove_duplicate=False):
        shared = first.setdefault(id(parameter), plain(name))
        found.add((plain(name), parameter.ndim, shared))
    return found | {_heads(layer) for layer in layers_of(model)}


def plain(name):
    return re.sub(r"\b\d+\b", "*", name)


def _switches(module):
    """What the attributes of a module say: yes or no, a word, nothing, and of a number if it is 0."""
    own = {k: v for k, v in vars(module).items() if not PLACE.search(k)}
    words = {(k, v) for k, v in own.items() if v is None or isinstance(v, bool | str)}
    numbers = {(k, v != 0) for k, v in own.items() if isinstance(v, int | float)}
    hooked = bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))
    return frozenset(words | numbers | {("hooked", hooked)})


def kind_of(module):
    """The classes and switches of a module and all that is in it, without numbers."""
    return frozenset(
        (plain(name), type(inside).__qualname__, _switches(inside))
        for name, inside in module.named_modules()
    )


def _heads(layer):
    """How the heads of an attention layer are grouped, and which biases it has."""
    width = layer.output.size if layer.output else 0
    return (
        plain(layer.name), layer.heads == 1, layer.key_value_heads == 1, layer.group == 1,
        _sign(layer.value.size - width), _sign(layer.query.size - width),
        tuple((role, p.has_bias) for role, p in layer.projections.items()),
    )  # fmt: skip


def _sign(number):
    return (number > 0) - (number < 0)


def _demand_alike(config, kind, wanted):
    """Raises CannotShrink, naming what would be lost or gained, and for a model that stays large."""
    model = built(config, kind, "meta")
    found = signature(model)
    if missing := sorted(map(str, wanted - found)):
        raise CannotShrink(f"it would lose {missing[0]}")
    if added := sorted(map(str, found - wanted)):
        raise CannotShrink(f"it would gain {added[0]}")
    if sum(p.numel() for p in model.parameters()) > STILL_SMALL:
        raise CannotShrink("it has sizes of which nothing is known, and stays large")


def _runs(model):
    try:
        suitable_inputs(model)
    except NoInputs:
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


def _shallow(config, kind, fields, wanted):
    """The fields with as few layers as have one of each kind, counted from the first."""
    deepest = max((f[n] for f in parts_of(fields) for n in DEPTHS & f.keys() if is_count(f[n])),
                  default=0)  # fmt: skip
    for layers in range(2, min(deepest, DEEPEST)):
        cut = fewer_layers(fields, layers)
        try:
            found = signature(built(_config_like(config, cut), kind, "meta"))
        except Exception:  # too few layers for what the configuration asks
            continue
        if found == wanted:
            return cut
    return fields
