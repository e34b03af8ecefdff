"""Take biases that a fold made zero out of a model, where it can do without them.

A configuration may have a word for it (``qkv_bias=False``, ``attention_bias=False``): which
biases it stands for is seen by building the model with and without, on PyTorch's meta device, and
it is said only if all of them are zero.  Any other bias may be ``None`` if the model then runs, in
both modes, and computes the same.  A bias that is a part of a larger one, or that its module cannot
do without, stays as it is, zero.
"""

from __future__ import annotations

import copy

import torch

from .equality import BOUND, apart
from .subject import exactly
from .zoo import quiet


def without_zeros(made, bench):
    """(names of biases that can be None, {field of the configuration: False}) for a new model."""
    given = dict(bench.model.named_parameters())
    zero = {
        n for n, p in made.named_parameters() if not p.any() and (n not in given or given[n].any())
    }
    words = dict(_words(made, zero)) if zero and hasattr(made, "config") else {}
    covered = set().union(*words.values())
    alone = [n for n in sorted(zero - covered) if _can_do_without(bench, n)]
    return sorted(covered | {*alone}), dict.fromkeys(words, False)


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


def _can_do_without(bench, name):
    """Whether the model runs without a bias, as PyTorch would run it, and computes the same."""
    trial = bench.after.twin()
    try:
        remove(trial.model, [name], {})
        trial.renew()
        with exactly(), torch.no_grad():
            same = all(apart(trial.run(c), bench.after.run(c)) <= BOUND for c in bench.calls)
        with torch.no_grad():
            for mode in (False, True):
                args, kwargs = copy.deepcopy(bench.given[0])
                trial.model.train(mode)(*args, **kwargs)
        return bool(same)
    except Exception:  # whatever a module raises that asks a bias for its numbers
        return False


def remove(model, names, words):
    """Set the biases to None, in place, and say so in the configuration."""
    for name in names:
        path, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(path), attribute, None)
    for field, value in words.items():
        setattr(model.config, field, value)
