"""Run a model to learn its operations, and follow one move of its parameters through a run.

A matrix that no run uses might be applied to anything in its module, so any move of what the
module receives or contains counts as an effect.
"""

from __future__ import annotations

import contextlib
from collections import namedtuple
from functools import partial

import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakTensorKeyDictionary

from ..shift.following import Call, Event, Following
from ..shift.living import name_of
from ..shift.moves import NOISE, Block, Shift
from ..shift.uses import ADDED, VIEWS

Step = namedtuple("Step", "name args")


class CannotFold(ValueError):
    """The model, or the request, cannot be processed; the message says why."""


class Steps(TorchDispatchMode):
    """One run of a subject: its ``steps``, the modules that ``ran`` and the parameters ``used``."""

    supports_higher_order_operators = True

    def __init__(self, subject, call):
        super().__init__()
        self.names, self.made = WeakTensorKeyDictionary(), WeakTensorKeyDictionary()
        self.steps, self.used, self.ran = [], set(), {subject.model}
        for name, tensor in subject.tensors.items():
            self.names[tensor] = name
        with self, register_module_forward_pre_hook(lambda module, args: self.ran.add(module)):
            subject.run(call)

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
        """Yield the parameters that a norm adds, or that are added to a multiple of a parameter."""
        for step in self.steps:
            if "norm" in step.name and step.name in ADDED:
                yield self.named(step, ADDED[step.name])
            for place in (0, 1) if step.name == "add" else ():
                other = step.args[1 - place]
                made = self.source(other)[1] if isinstance(other, torch.Tensor) else None
                if made and made.name == "mul" and (self.named(made, 0) or self.named(made, 1)):
                    yield self.named(step, place)


class _Stop(BaseException):  # not caught by a model's `except Exception`
    """An operation depends on the move, which settles the question."""


class OneMove(Following):
    """Follows one move {parameter: numbers} exactly, by default up to the first effect.

    ``events`` lists what operations do to the move.  Changes below ``rounding`` count as zero;
    ``plan`` is what `dead` returns for the same run.
    """

    def __init__(self, tensors, move, rounding=0.0, plan=(), stop=True):
        super().__init__({n: tensors[n] for n in move}, move)
        self.events, self.plan, self.stop = [], iter(plan), stop
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
        if self.failed and self.stop:
            raise _Stop

    def passes(self, *runs):
        """Whether no operation of these runs depends on the move."""
        with contextlib.suppress(_Stop):
            for run in runs:
                with self:  # not `self.follow`, which runs twice in order to find idle operations
                    outputs = run()
                self.outputs(outputs)
        return not self.failed


def followed(subject, calls, change: dict[str, torch.Tensor], stop=True) -> OneMove:
    """A `OneMove` that has followed a change {parameter: numbers}, scaled to numbers up to one."""
    largest = max(c.abs().max().item() for c in change.values())
    one = OneMove(subject.tensors, {n: c / largest for n, c in change.items()}, stop=stop)
    one.passes(*(partial(subject.run, call) for call in calls))
    return one


def changes_nothing(subject, calls, change: dict[str, torch.Tensor]) -> bool:
    """Whether no operation depends on a change {parameter: numbers}."""
    return not followed(subject, calls, change).failed


@contextlib.contextmanager
def idle_matrices_see(subject, calls):
    """A context in which every move that might reach an unused matrix counts as an effect."""
    seen, modules = [Steps(subject, call) for call in calls], dict(subject.model.named_modules())
    used, ran = (set().union(*(getattr(s, what) for s in seen)) for what in ("used", "ran"))
    with contextlib.ExitStack() as hooks:
        for name, tensor in subject.tensors.items():
            module = modules[holder := name.rpartition(".")[0]]
            if name in used or tensor.squeeze().dim() < 2 or isinstance(module, nn.Embedding):
                continue
            while holder and (module not in ran or isinstance(module, torch.jit.ScriptModule)):
                module = modules[holder := holder.rpartition(".")[0]]
            if isinstance(module, torch.jit.ScriptModule):
                raise CannotFold(
                    f"{name} is not used at these inputs, and what might reach it in a scripted "
                    "model cannot be seen: give inputs that use it, or fold before scripting"
                )
            hooks.enter_context(module.register_forward_pre_hook(_see_all(name), with_kwargs=True))
        yield


def _see_all(name):
    """A hook that treats any move of a module's inputs, parameters or buffers as an effect."""
    words = f"{name} is not used at these inputs and might depend on it: give inputs that use it"

    def hook(module, args, kwargs):
        mode, call = _get_current_dispatch_mode(), Call("forward", None, (), {}, [], {})
        if isinstance(mode, Following):
            for tensor in _tensors((args, kwargs, *module.parameters(), *module.buffers())):
                mode.see(mode.of(tensor), call, words, kind="unknown")

    return hook


def _tensors(values):
    return [value for value in tree_leaves(values) if isinstance(value, torch.Tensor)]
