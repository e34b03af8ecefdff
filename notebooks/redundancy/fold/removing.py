"""Delete biases that a fold made zero, if the model can do without them, and save the model.

A configuration may have a field for some biases (``qkv_bias``, ``attention_bias``).  Building the
model on PyTorch's meta device with this field true, then false, shows which biases it controls; it
is set to false only if all of these are zero.  Any other bias becomes ``None`` if the model then
runs, in both modes, with the same outputs.  A bias that is part of a larger one, or that its module
needs, stays at zero.
"""

from __future__ import annotations

import copy
import tempfile

import torch

from ..measure.inputs import fresh
from ..measure.subject import exactly
from ..models.tiny import quiet
from .equality import BOUND, apart
from .reading import CannotFold


def without_zeros(made, bench):
    """(biases of the new model that can be deleted, configuration fields to set to False)."""
    given = dict(bench.model.named_parameters())
    zero = {
        n for n, p in made.named_parameters() if not p.any() and (n not in given or given[n].any())
    }
    words = dict(_words(made, zero)) if zero and hasattr(type(made), "_from_config") else {}
    covered = set().union(*words.values())
    alone = {n for n in zero - covered if _can_do_without(bench, n)}
    return sorted(covered | alone), [*words]


def _words(model, zero):
    """Yield (field, biases that are absent if the field is False) if all these biases are zero."""
    for field, value in vars(model.config).items():
        if value is True and "bias" in field:
            config = copy.deepcopy(model.config)
            setattr(config, field, False)
            try:
                with quiet(), torch.device("meta"):
                    other = dict(type(model)._from_config(config).named_parameters())
            except Exception:  # a library may raise anything for an unsuitable value
                continue
            names = {n for n, _ in model.named_parameters()} - {*other}
            if names and names <= zero:
                yield field, names


def _can_do_without(bench, name):
    """Whether a model without this bias has the same outputs, and runs outside `exactly`, too."""
    trial = bench.after.twin()
    try:
        remove(trial.model, [name])
        trial.renew()
        with torch.no_grad():
            with exactly():
                same = all(apart(trial.run(c), bench.after.run(c)) <= BOUND for c in bench.calls)
            for mode in (False, True):
                args, kwargs = fresh(bench.calls[0])
                trial.model.train(mode)(*args, **kwargs)
        return same
    except Exception:  # a module that needs its bias may raise anything
        return False


def remove(model, names, fields=()):
    """Set the biases to None, in place, and set these fields of the configuration to False."""
    for name in names:
        path, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(path), attribute, None)
    for field in fields:
        setattr(model.config, field, False)


def demand_loads_again(model):
    """Raise CannotFold unless a checkpoint of the model loads as the same model."""
    kind = type(model).__name__
    if not hasattr(model, "save_pretrained"):
        raise CannotFold(f"{kind} is not a model of transformers: save its state_dict instead")
    with tempfile.TemporaryDirectory() as folder, quiet():
        model.save_pretrained(folder)
        again = type(model).from_pretrained(folder)
    ours, theirs = (
        {f"the class of {n}": type(module) for n, module in m.named_modules()} | m.state_dict()
        for m in (model, again)
    )
    for name in {**ours, **theirs}:
        if not _same(name, ours.get(name), theirs.get(name)):
            raise CannotFold(
                f"{name} would be lost: from_pretrained builds {kind} from its configuration, "
                "which has no option for it. Save the state_dict, or fold without it"
            )


def _same(name, one, other):
    """Whether a class or tensor is the same in two models; None stands for an absent one."""
    numbers = [part for part in (one, other) if isinstance(part, torch.Tensor)]
    if len(numbers) == 1:  # a deleted bias is restored as zero
        return name.endswith("bias") and not numbers[0].any()
    return torch.equal(one.cpu(), other.to(one.dtype).cpu()) if numbers else one is other
