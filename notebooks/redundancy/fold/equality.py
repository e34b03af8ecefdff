"""Compare the outputs of two models, in float64 and in their own dtype.

A comparison in float64 passes if

    relative error <= 1e-12 (1 + |t|),    where t is the longest move that was made,

because what is added in one place is subtracted in another: the numbers in between grow by up to
|t|, and their last digits are lost.  Inputs test only the paths that they take through the code;
`other_ways` therefore adds longer inputs, padding, and inputs without one of the arguments.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves, tree_map

from ..measure.inputs import as_call, first_line, in_float64, placed, tensors
from ..measure.subject import Subject, exactly, seeded, unwrapped
from .one_move import CannotFold, demand_used

#: The relative error in float64 may be at most this times (1 + the length of the longest move).
BOUND = 1e-12
#: The factor by which rounding errors in a model's dtype may grow, and an error always permitted.
LOSS, HARMLESS = 10, 1e-4
#: The number of runs that are compared if a model draws random numbers, as in training mode.
DRAWS = 8


class NotEqual(ArithmeticError):
    """The outputs changed, so no model is returned; the message says by how much."""


class Bench:
    """A model, a float64 copy of it (``before``), and another copy (``after``) that is changed.

    ``calls`` are the inputs at which the copies are compared: the given inputs, then `other_ways`.
    ``rows`` lists what was moved, and ``longest`` is the length of the longest move.
    """

    def __init__(self, model, inputs, inject=False):
        try:
            self.model = unwrapped(model)
            call = in_float64(as_call(self.model, inputs))
            self.before = Subject(self.model, self.model.training, inject=inject, own=True)
            self.like: Any = next(self.model.parameters(), torch.zeros(()))
        except (ValueError, TypeError) as reason:  # the model is quantised, or no inputs were found
            raise CannotFold(str(reason)) from None
        half_dropout(self.before.model)
        self.before.renew()
        self.rows, self.longest = [], 0.0
        self.seeds = range(DRAWS if self.before.training else 1)
        with exactly(), torch.no_grad():
            try:
                self.before.run(call)
            except Exception as problem:  # a model may raise anything
                words = f"the model does not run on these inputs: {first_line(problem)}"
                raise CannotFold(words) from problem
            self.calls = [call, *other_ways(self.before, call, self.seeds)]
            demand_used(self.before, self.calls, self.seeds)
        self.after = self.before.twin()

    @contextlib.contextmanager
    def open(self):
        """A context in which ``after`` may be changed and run."""
        with exactly(), torch.no_grad():
            yield

    def error(self) -> tuple[float, float]:
        """(relative error in float64, its bound); raises NotEqual if the error is larger."""
        bound = BOUND * (1 + self.longest)
        with exactly(), torch.no_grad():
            worst = max(
                apart(*(s.run(call, seed=seed) for s in (self.after, self.before)))
                for call, seed in itertools.product(self.calls, self.seeds)
            )
        if not worst <= bound:
            raise NotEqual(
                f"the outputs of {type(self.model).__name__} changed: relative error {worst:.1e} "
                f"in float64; rounding explains at most {bound:.1e}. No model is returned"
            )
        return worst, bound

    def made(self) -> nn.Module:
        """A copy of the given model, in its own dtypes, with the modules and numbers of ``after``.

        The copy has never run, so it carries no state from earlier runs.
        """
        made, given = copy.deepcopy(self.model), dict(self.before.model.named_modules())
        for path, module in self.after.model.named_modules():
            if type(module) is not type(given[path]):
                like = next(made.get_submodule(path).parameters(), self.like)
                made.set_submodule(path, copy.deepcopy(module).to(like))
        before, there = numbers_of(self.before.model), numbers_of(made)
        for name, value in numbers_of(self.after.model).items():
            if name in before and torch.equal(value, before[name]):
                continue
            if name in there:
                there[name].data.copy_(value)
            else:
                path, _, attribute = name.rpartition(".")
                like = there.get(name.removesuffix("bias") + "weight", self.like)
                new = nn.Parameter(value.to(like), requires_grad=like.requires_grad)
                setattr(made.get_submodule(path), attribute, new)
        return made

    def rounding(self, made) -> tuple[float, float]:
        """(error of the given model, error of ``made``) due to rounding in the model's dtype.

        Raises NotEqual if the second error is too large.
        """
        if self.like.dtype == torch.float64:
            return 0.0, 0.0
        with exactly(), torch.no_grad():
            expected = self.before.run(self.calls[0])
        before, after = (apart(self._outputs(m), expected) for m in (self.model, made))
        if not after <= max(LOSS * before, HARMLESS):
            raise NotEqual(
                f"the models are equal in float64, but in {str(self.like.dtype).removeprefix('torch.')} the "
                f"new model's error is {after:.1e} and the given model's {before:.1e}: fold in "
                "float32 or float64, or move fewer biases"
            )
        return before, after

    @torch.no_grad()
    def _outputs(self, model):
        """The outputs of a model; in training, of a copy, because runs change BatchNorm's means."""
        model = half_dropout(copy.deepcopy(model)) if model.training else model
        args, kwargs = placed(self.calls[0], self.like.device, self.like.dtype)
        with torch.random.fork_rng(), seeded(self.before.seed):
            return tensors(model(*args, **kwargs))


def runs(subject: Subject, call: tuple, seed: int) -> bool:
    """Whether a model runs on these inputs and returns only finite numbers."""
    try:
        found = subject.run(call, seed=seed)
    except Exception:  # a model need not accept our inputs, and may raise anything
        return False
    return bool(found) and all(out.isfinite().all() for out in found)


def numbers_of(model: nn.Module) -> dict[str, torch.Tensor]:
    """{name: tensor} of all parameters and buffers; a tied tensor appears under all its names."""
    parameters = dict(model.named_parameters(remove_duplicate=False))
    return parameters | dict(model.named_buffers(remove_duplicate=False))


def half_dropout(model):
    """Set every dropout rate of a model in training mode to one half, and return the model."""
    for holder in (*model.modules(), getattr(model, "config", model)) if model.training else ():
        for name, rate in getattr(holder, "__dict__", {}).items():
            if "drop" in name and isinstance(rate, float) and 0 < rate < 1:
                setattr(holder, name, 0.5)
    return model


def apart(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest relative difference, max |a - b| / max |b|, over all pairs of output tensors.

    It is infinite if the shapes differ, or if an output is NaN or infinite.
    """
    if [a.shape for a in found] != [b.shape for b in expected]:
        return math.inf
    both = [(a.cpu().double(), b.cpu().double()) for a, b in zip(found, expected) if b.numel()]
    shares = [(a - b).abs().max() / (b.abs().max() or 1) for a, b in both]
    return max((s.nan_to_num(math.inf, math.inf).item() for s in shares), default=0.0)


def difference(model: nn.Module, other: nn.Module, inputs: Any) -> float:
    """The largest relative difference between the outputs of two models, both in float64."""
    call = in_float64(as_call(model, inputs))
    with exactly(), torch.no_grad():
        return apart(*(Subject(m, own=True).run(call) for m in (model, other)))


# --- other inputs -------------------------------------------------------------------------------


def other_ways(subject, call, seeds):
    """More inputs, made from the given ones, on which a model runs and may take other paths."""
    found = [((), named) for named in _other_arguments(subject.model, *call)]
    for first in [t for t in tree_leaves(call) if isinstance(t, torch.Tensor) and t.dim()][:1]:
        axes = range(0 if first.is_floating_point() else 1, first.dim())
        found += [_longer(call, axis, first.shape[axis]) for axis in axes]
    return [one for one in found if all(runs(subject, one, seed) for seed in seeds)]


def _longer(call, axis, size):
    """The inputs; a tensor that has this ``size`` along the ``axis`` becomes twice as long."""
    twice = lambda t: isinstance(t, torch.Tensor) and t.dim() > axis and t.shape[axis] == size
    return tree_map(lambda t: torch.cat([t, t], axis) if twice(t) else t, call)


def _other_arguments(model, args, kwargs):
    """Yield inputs by name: padded, and with one argument left out."""
    try:
        accepted = inspect.signature(model.forward).parameters
    except (TypeError, ValueError):  # a scripted module has no signature
        return
    batch = dict(zip(accepted, args)) | kwargs
    ids = batch.get("input_ids")
    if "attention_mask" in accepted and isinstance(ids, torch.Tensor) and ids.shape[-1] > 2:
        padded = torch.ones_like(ids)
        padded[:1, -2:] = 0  # with padding on the right, every query still sees a key
        yield batch | {"attention_mask": padded}
    yield from ({n: v for n, v in batch.items() if n != left} for left in batch if len(batch) > 1)
