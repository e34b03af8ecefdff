"""Run a model and record its operations, and follow one move of its parameters through a run."""

from __future__ import annotations

import itertools
from collections import namedtuple
from functools import partial

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from ..shift.following import Event, Following
from ..shift.liveness import name_of
from ..shift.moves import NOISE, Block, Shift
from ..shift.roles import ADDED, VIEWS

Step = namedtuple("Step", "name args")


class CannotFold(ValueError):
    """The model, or the request, cannot be processed; the message says why."""


class Steps(TorchDispatchMode):
    """One run of a subject: its ``steps``, the modules that ``ran`` and the parameters ``used``."""

    supports_higher_order_operators = True

    def __init__(self, subject, call, seed=None):
        super().__init__()
        self.names, self.made = WeakTensorKeyDictionary(), WeakTensorKeyDictionary()
        self.steps, self.used, self.ran = [], set(), {subject.model}
        for name, tensor in subject.tensors.items():
            self.names[tensor] = name
        with self, register_module_forward_pre_hook(lambda module, args: self.ran.add(module)):
            subject.run(call, seed=seed)

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result, step = op(*args, **(kwargs or {})), Step(name_of(op), args)
        self.steps.append(step)
        self.made.update(dict.fromkeys(_tensors(result), step))
        self.used |= {self.names[a] for a in _tensors((args, kwargs)) if a in self.names}
        return result

    def source(self, tensor):
        """The (parameter, step) that a tensor is a view of; one or both are None."""
        while tensor not in self.names and (step := self.made.get(tensor)):
            if step.name not in VIEWS or not isinstance(step.args[0], torch.Tensor):
                return None, step
            tensor = step.args[0]
        return self.names.get(tensor), None

    def named(self, step, place):
        """The parameter whose numbers are the argument of a step at ``place``, or None."""
        given = step.args[place] if place < len(step.args) else None
        return self.source(given)[0] if isinstance(given, torch.Tensor) else None

    def shifts(self):
        """Yield the parameters that a norm adds."""
        for step in self.steps:
            if "norm" in step.name and step.name in ADDED:
                yield self.named(step, ADDED[step.name])


class OneMove(Following):
    """Follows one move {parameter: numbers} exactly, and records ``events``.

    Changes below ``rounding`` count as zero.
    """

    def __init__(self, tensors, move, rounding=0.0):
        super().__init__({n: tensors[n] for n in move}, move)
        self.events = []
        for name in move:
            blocks = self.shifts[tensors[name]].blocks.items()
            peak = max(1.0, rounding / NOISE)
            self._put(tensors[name], Shift({g: Block(b.values, peak) for g, b in blocks}))

    def note(self, kind, shift, call, words, theorem=None):
        if self.moves.now(shift):
            self.events.append(Event(kind, call.name, words, theorem))

    def see(self, shift, call, words, theorem=None, kind="seen"):
        super().see(shift, call, words, theorem, kind)
        if not self.idle:
            self.note(kind, shift, call, words, theorem)


def followed(subject, calls, change: dict[str, torch.Tensor]) -> OneMove:
    """A `OneMove` that has followed a change {parameter: numbers}, scaled to numbers up to one."""
    largest = max(c.abs().max().item() for c in change.values())
    one = OneMove(subject.tensors, {n: c / largest for n, c in change.items()})
    for call in calls:
        one.follow(partial(subject.run, call))
    return one


def demand_used(subject, calls, seeds) -> None:
    """Raise CannotFold if no run uses some matrix: it might be applied to anything that moves."""
    runs, modules = itertools.product(calls, seeds), dict(subject.model.named_modules())
    used = set().union(*(Steps(subject, call, seed).used for call, seed in runs))
    for name, tensor in subject.tensors.items():
        table = isinstance(modules[name.rpartition(".")[0]], nn.Embedding)
        if name not in used and not table and tensor.squeeze().dim() > 1:
            raise CannotFold(f"{name} is not used on these inputs: give inputs that use it")


def _tensors(values):
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
