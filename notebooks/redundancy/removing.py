"""Take biases that a fold made zero out of a model, where it can do without them.

A configuration may have a word for it (``qkv_bias=False``, ``attention_bias=False``): which
biases it stands for is seen by building the model with and without, on PyTorch's meta device, and
it is said only if all of them are zero.  Any other ``nn.Linear`` computes the same with
``bias=None``.  A bias that is a part of a larger one, or that its module cannot do without, stays
as it is, zero.
"""

from __future__ import annotations

import copy

import torch

from .layers import layers_of
from .surgery import runs_as
from .zoo import quiet

Linear = torch.nn.Linear


def without_zeros(model, also=frozenset()):
    """(names of biases that can be None, {field of the configuration: False}) for a model.

    Only biases of queries, keys and values that are zero as a whole are looked at, and those that
    ``also`` names, which are zero.
    """
    own = dict(model.named_parameters())
    zero = {
        p.bias_name
        for layer in layers_of(model)
        for role, p in layer.projections.items()
        if role != "output" and p.has_bias and not own[p.bias_name].any()
    } | also
    words = dict(_words(model, zero)) if zero and hasattr(model, "config") else {}
    covered = set().union(*words.values())
    alone = {n for n in zero - covered if _can_do_without(model, n)}
    return sorted(covered | alone), dict.fromkeys(words, False)


def _words(model, zero):
    """(field, the biases that are not there if it is False), if all of those are zero."""
    from_config = getattr(type(model), "_from_config", None)
    for field, value in vars(model.config).items():
        if value is True and "bias" in field and from_config:
            names = _missing_without(model, field)
            if names and names <= zero:
                yield field, names


def _missing_without(model, field):
    """The parameters that a model has not if a field of its configuration is False."""
    config = copy.deepcopy(model.config)
    setattr(config, field, False)
    try:
        with quiet(), torch.device("meta"):
            other = {n for n, _ in type(model)._from_config(config).named_parameters()}
    except Exception:  # whatever a library raises for a configuration that it does not take
        return set()
    return {n for n, _ in model.named_parameters()} - other


def _can_do_without(model, name):
    path, _, attribute = name.rpartition(".")
    return attribute == "bias" and runs_as(model.get_submodule(path), Linear)


def remove(model, names, words):
    """Set the biases to None, in place, and say so in the configuration."""
    for name in names:
        path, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(path), attribute, None)
    for field, value in words.items():
        setattr(model.config, field, value)
