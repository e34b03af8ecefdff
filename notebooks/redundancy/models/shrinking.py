"""Make a small model with every structural feature of a large one, from a configuration alone.

    small = shrink(config)            # no weights are loaded or made at full size
    small.model, small.changes        # random weights; (field, before, after) of every change

Which biases are redundant depends on the operations that receive them and on a few ratios: how many
queries share a key, how much of a head is rotated, and whether all heads together are wider
than the residual stream.  None of this needs 4096 dimensions, so `sizes` makes every size small
and keeps these ratios.  Of the layers, only the first few are kept, just enough to include every
kind of layer.

The result is verified.  The full model is built without values (on PyTorch's meta device), and its
`signature` describes the classes of its modules, their flags, its parameters, which of these are
shared, and how the heads are grouped.  A smaller model is accepted only if it has the same
signature, and preferred if it runs.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import re
from dataclasses import dataclass

import torch
from torch.nn.modules.conv import _ConvNd

from ..measure.inputs import first_line
from ..measure.precision import plainly_attending
from .guessing import NoInputs, suitable_inputs
from .sizes import CannotShrink, fewer_layers, is_config, narrower, ratios
from .tiny import quiet

#: A model with fewer numbers than the first is not shrunk; a shrunk model has fewer than the second.
SMALL_ENOUGH, STILL_SMALL = 300_000, 5_000_000
#: Every number of layers below this is tried before all layers are kept.
DEEPEST = 16
#: Plans: (least number of heads, least width of a part of a head), from small to large.  With all
#: heads, all widths are divided by the same number.
PLANS = ((2, 8), (4, 8), (2, 16), (2, 32), (64, 8))
#: Attributes of a module that describe its position or how it is run, not what it does.
PLACE = re.compile(r"^_|^training$|idx|index|layer_id|layer_number|^layer$|token_id|name_or_path")
#: Matrices whose names match this are maps; other matrices are tables.
MAPS = re.compile(r"weight$|proj$")
STAGES = ("out_features", "out_indices", "stage_names")
UNLESS_ASKED = ("quantization_config", "dtype", "torch_dtype", "transformers_version")


@dataclass(frozen=True)
class Shrunk:
    """The small ``model``, in eval mode, and the ``changes``: (field, before, after).

    ``unlike`` names the maps that have a null space in only one of the two models.
    """

    model: torch.nn.Module
    changes: tuple[tuple[str, object, object], ...]
    unlike: tuple[str, ...] = ()

    def account(self) -> str:
        """A note that says what was shrunk."""
        short = lambda value: str(value) if len(str(value)) < 40 else f"{str(value)[:36]} ..."
        fields = ", ".join(f"{n} {short(a)} to {short(b)}" for n, a, b in self.changes)
        unlike = ", ".join(self.unlike)
        return (
            "audited on a small model of the same structure; answers of all, none or the mean hold "
            f"at full size too, and a part of a head keeps its share. Shrunk: {fields}"
            + f"; proportions differ from those of the full model in {unlike}"
            * bool(unlike)
        )


def shrink(config, seed: int = 0, full: torch.nn.Module | None = None) -> Shrunk:
    """Shrink the model of a transformers configuration; the `Shrunk` is the same in every run.

    ``full`` is the full model, if it exists; the small one then shares its class and structure.
    Raises CannotShrink if no smaller model has the structure of the full one.
    """
    with quiet(), torch.random.fork_rng([]):
        kind = type(full) if full is not None else class_of(config)
        if full is None:
            full = _full(config, kind)
            config = full.config
        if sum(p.numel() for p in full.parameters()) < SMALL_ENOUGH:
            return Shrunk(_made(config, kind, seed), ())
        return _smallest(config, kind, full, seed)


def _full(config, kind):
    """The full model without numbers; raises CannotShrink if the library cannot make it."""
    try:
        full = built(config, kind, "meta")
    except Exception as problem:  # a configuration or a missing package may raise anything
        raise CannotShrink(
            f"transformers cannot build a model from {type(config).__name__}: {first_line(problem)}"
        ) from None
    for module in full.modules():  # some divide a head for rotary positions without a field
        if hasattr(module, "mrope_section") and hasattr(module, "config"):
            module.config.rope_parameters.setdefault("mrope_section", list(module.mrope_section))
    return full


def _smallest(config, kind, full, seed):
    """The first small model that runs and has the null spaces of the full one, or the closest.

    A model that does not run may need inputs that cannot be drawn; `audit` then reports that.
    """
    fields, wanted, maps = plain_fields(config), signature(full), null_spaces(full)
    sizes = {n for p in full.parameters() for n in p.shape}
    best: tuple | None = None
    reason = ""
    for some in (_shallow(config, kind, fields, wanted), fields):
        for plan in () if best else PLANS:
            narrow = narrower(some, sizes, *plan)
            try:
                small = _config_like(config, narrow)
                bare = built(small, kind, "meta")
                _demand_same(signature(bare), wanted)
                if sum(p.numel() for p in bare.parameters()) > STILL_SMALL:
                    raise CannotShrink(
                        "some fields with sizes are not recognised, so the model stays too large"
                    )
                unlike = tuple(sorted({name for name, *_ in null_spaces(bare) ^ maps}))
                model = _made(small, kind, seed)
                rank = _runs(model), not unlike
            except Exception as problem:  # a configuration or a model may raise anything
                reason = reason or first_line(problem)
                continue
            if best is None or rank > best[0]:
                best = rank, Shrunk(model, tuple(_changes("", fields, narrow)), unlike)
            if all(rank):
                return best[1]
    if best:
        return best[1]
    raise CannotShrink(
        f"found no small model with the structure of this {type(config).__name__} "
        f"({reason}): build a small one yourself, and audit that"
    )


def _shallow(config, kind, fields, wanted):
    """The fields, cut to the fewest layers that still include every kind of layer."""
    for layers in range(2, DEEPEST):
        cut = fewer_layers(fields, layers)
        if cut == fields:
            break
        with contextlib.suppress(Exception):  # the configuration may need more layers
            if signature(built(_config_like(config, cut), kind, "meta")) == wanted:
                return cut
    return fields


def _demand_same(found, wanted):
    """Raise CannotShrink, with a reason, if a model loses or gains structure."""
    for what, difference in (("lose", wanted - found), ("gain", found - wanted)):
        for one in sorted(map(str, difference)):
            raise CannotShrink(f"the small model would {what} {one}")


# --- models and what shrinking must preserve ----------------------------------------------------


def class_of(config):
    """The class that a configuration names, or None if a model without a head is to be built.

    `AutoModel` cannot build some parts of models; their classes are in the configuration's package.
    """
    import transformers

    named = getattr(transformers, (getattr(config, "architectures", None) or [""])[0] or "_", None)
    if hasattr(named, "_from_config"):
        return named
    if type(config) in transformers.AutoModel._model_mapping:
        return None
    beside = type(config).__module__.replace(".configuration_", ".modeling_")
    with contextlib.suppress(ImportError):
        models = vars(importlib.import_module(beside)).values()
        return next((m for m in models if getattr(m, "config_class", None) is type(config)
                     and "PreTrained" not in m.__name__), None)  # fmt: skip
    return None


def built(config, kind=None, device="cpu"):
    """A new model from a configuration, in eval mode; without a class ``kind``, it has no head."""
    import transformers

    make = kind._from_config if kind else transformers.AutoModel.from_config
    with torch.device(device):
        return make(copy.deepcopy(config)).eval()


def _made(config, kind, seed):
    torch.manual_seed(seed)
    config = copy.deepcopy(config)
    config.dtype = torch.float32
    return plainly_attending(built(config, kind))


def signature(model) -> set[tuple]:
    """The set of descriptions that a small model must share with the full one.

    In names of modules and parameters, "*" replaces numbers, so that equal layers count once.
    """
    found, first = set(), {}
    for name, module in model.named_modules(remove_duplicate=False):
        found.add((plain(name), type(module).__qualname__, _switches(module)))
        for own, parameter in module.named_parameters(name, recurse=False):
            shared = first.setdefault(id(parameter), plain(own))
            found.add((plain(own), parameter.ndim, shared))
    return found | ratios(plain_fields(model.config))


def plain(name: str) -> str:
    return re.sub(r"(\b|(?<=_))\d+\b", "*", name)


def _switches(module):
    """A module's booleans, words and Nones, whether each number is 0, and whether it has hooks."""
    own = {k: v for k, v in vars(module).items() if not PLACE.search(k)}
    words = {(k, v) for k, v in own.items() if v is None or isinstance(v, bool | str)}
    numbers = {(k, v != 0) for k, v in own.items() if isinstance(v, int | float)}
    hooked = bool(module._forward_hooks or module._forward_pre_hooks or "forward" in vars(module))
    return frozenset(words | numbers | {("hooked", hooked)})


def null_spaces(model) -> set[tuple[str, bool, bool]]:
    """{(name of a map, has fewer rows than columns, has more)}; fewer rows mean a null space.

    A matrix outside torch's layers may map in either direction, so having more rows counts, too.
    """
    found = set()
    for name, module in model.named_modules():
        for own, parameter in module.named_parameters(name, recurse=False):
            shape = parameter.shape[:2] if isinstance(module, _ConvNd) else parameter.shape[-2:]
            torchs = isinstance(module, torch.nn.Linear | _ConvNd)
            table = isinstance(module, torch.nn.Embedding)
            if len(shape) > 1 and (torchs or MAPS.search(own)) and not table:
                found.add((plain(own), shape[0] < shape[1], not torchs and shape[0] > shape[1]))
    return found


def _runs(model):
    with contextlib.suppress(NoInputs):
        return bool(suitable_inputs(model))
    return False


# --- fields -----------------------------------------------------------------------------------


def plain_fields(config) -> dict:
    """The fields of a configuration as a dictionary, with a nested dictionary for each part."""
    fields = {k: v for k, v in config.to_dict().items() if k not in UNLESS_ASKED}
    stages = list(fields.get("stage_names") or ())
    if stages and fields.get("out_features") == stages[-1:]:  # this name depends on the depth
        fields = {k: v for k, v in fields.items() if k not in STAGES}
    for name, value in vars(config).items():
        if is_config(value):
            fields[name] = plain_fields(value)
    return fields


def _config_like(config, fields):
    return type(config).from_dict(copy.deepcopy(fields))


def _changes(path, before, after):
    for name, value in before.items():
        if isinstance(value, dict) and isinstance(after.get(name), dict):
            yield from _changes(f"{path}{name}.", value, after[name])
        elif after.get(name) != value:
            yield f"{path}{name}", value, after.get(name)
