"""Delete biases that a fold made zero, if the model can do without them, and save the model.

Such a bias becomes ``None`` if the model then runs, in training and in evaluation mode, with the
same outputs.  A bias that is part of a larger one, or that its module needs, stays at zero.
"""

from __future__ import annotations

import tempfile

import torch
from torch import nn

from ..measure.inputs import fresh
from ..measure.subject import exactly
from ..models.tiny import quiet
from .equality import BOUND, Bench, apart
from .one_move import CannotFold


def without_zeros(made: nn.Module, bench: Bench) -> list[str]:
    """The biases of the new model that the fold made zero and that can be deleted."""
    given = dict(bench.model.named_parameters())
    return sorted(
        n for n, p in made.named_parameters()
        if not p.any() and (n not in given or given[n].any()) and _can_do_without(bench, n)
    )  # fmt: skip


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


def remove(model: nn.Module, names) -> None:
    """Set the biases to None, in place."""
    for name in names:
        path, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(path), attribute, None)


def demand_loads_again(model) -> None:
    """Raise CannotFold unless a checkpoint of the model loads as the same model."""
    kind = type(model).__name__
    if not hasattr(model, "save_pretrained"):
        raise CannotFold(
            f"{kind} is not a model of the library transformers: save its state_dict instead"
        )
    with tempfile.TemporaryDirectory() as folder, quiet():
        model.save_pretrained(folder)
        again = type(model).from_pretrained(folder)
    ours, theirs = (
        {f"the class of {n}": type(module) for n, module in m.named_modules()} | m.state_dict()
        for m in (model, again)
    )
    for name in {**ours, **theirs}:
        if not _same(name, ours.get(name), theirs.get(name)):
            raise CannotFold(f"{name} would be lost: {kind}.from_pretrained does not restore it")


def _same(name, one, other):
    """Whether a class or tensor is the same in two models; None stands for an absent one."""
    numbers = [part for part in (one, other) if isinstance(part, torch.Tensor)]
    if len(numbers) == 1:  # a deleted bias is restored as zero
        return name.endswith("bias") and not numbers[0].any()
    return torch.equal(one.cpu(), other.to(one.dtype).cpu()) if numbers else one is other
