"""What a fold must know of a model's runs: their steps, and which moves no operation depends on.

`freedom_of` follows all added parameters of a model at its own numbers, on all the inputs that
there are; `changes_nothing` follows one change of any parameters, exactly.  No name is read.
A matrix that no run uses might read anything: whatever moves near it counts as seen.
"""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode
from torch.utils._pytree import tree_leaves

from .shift.following import Call, Following, follow
from .shift.freedom import Freedom
from .shift.uses import ADDED, VIEWS
from .variations import variations


@dataclass(eq=False)
class Step:
    """One operation of a run: its name, its arguments and its results."""

    name: str
    args: tuple
    outs: list


class Steps(TorchDispatchMode):
    """The mode; after a run ``steps`` lists its operations, and ``used`` the parameters read."""

    def __init__(self, tensors):
        super().__init__()
        self.names = {id(t): n for n, t in tensors.items()}
        self.steps, self.used, self._made = [], set(), {}

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        outs = [o for o in tree_leaves(result) if isinstance(o, torch.Tensor)]
        name = op.overloadpacket.__name__ if hasattr(op, "overloadpacket") else str(op)
        step = Step(name.rstrip("_"), args, outs)
        self.steps.append(step)
        self._made.update((id(out), step) for out in outs)
        self.used.update(
            self.names[id(a)] for a in tree_leaves((args, kwargs)) if id(a) in self.names
        )
        return result

    def source(self, tensor):
        """(the parameter, or None; the step, or None) whose numbers a tensor shows."""
        while id(tensor) not in self.names and (step := self._made.get(id(tensor))):
            if step.name not in VIEWS or not isinstance(step.args[0], torch.Tensor):
                return None, step
            tensor = step.args[0]
        return self.names.get(id(tensor)), None

    def named(self, step, place):
        """The parameter whose numbers are an argument of a step, or None."""
        given = step.args[place] if place is not None and place < len(step.args) else None
        return self.source(given)[0] if isinstance(given, torch.Tensor) else None

    def shifts(self):
        """The parameters that a norm adds, or that are added to x times a parameter."""
        norms = [s for s in self.steps if s.name in ADDED and "norm" in s.name]
        found = {self.named(s, ADDED[s.name]) for s in norms}
        for step in self.steps:
            for place in (0, 1) if step.name == "add" else ():
                other = step.args[1 - place]
                made = self.source(other)[1] if isinstance(other, torch.Tensor) else None
                if made and made.name == "mul" and (self.named(made, 0) or self.named(made, 1)):
                    found.add(self.named(step, place))
        return found - {None}


def steps_of(subject, call):
    """The `Steps` of one run."""
    steps = Steps(subject.tensors)
    with steps:
        subject.run(call)
    return steps


class Found:
    """How the parameters that a subject adds may move: their ``freedom``, and what else is known.

    ``parts`` are those of `Uses`; ``kinds`` says of some that they are the "shifts" of a norm, a
    "statistic" that a norm keeps, or "made" for this; ``met`` what each of their numbers meets.
    """

    def __init__(self, subject, calls):
        uses, own = [subject.uses(call) for call in calls], dict(subject.model.named_parameters())
        shifts = set().union(*(steps_of(subject, call).shifts() for call in calls))
        names = dict.fromkeys(name for one in uses for name in one.added)
        self.numbers = {n: subject.tensors[n].detach() for n in names}
        self.parts = {n: part for one in reversed(uses) for n, part in one.parts.items()}
        self.kinds = dict.fromkeys((n for n in names if n not in own), "statistic")
        self.kinds |= dict.fromkeys(subject.injected, "made") | dict.fromkeys(shifts, "shifts")
        self.run = follow(_runs(subject, calls), self.numbers)
        self.freedom = Freedom.of(self.run.moves)

    def met(self, name):
        """{event: which numbers of a parameter it met first-hand}."""
        return {e: labels[name] for e, labels in self.run.labels.items() if name in labels}


def freedom_of(subject, calls):
    """How the added parameters of a subject may move, on these inputs and others like them."""
    return Found(subject, calls)


def followed(subject, calls, change, kind=Following):
    """A `Following` of one change {parameter: numbers} of any parameters, exactly."""
    largest = max(c.abs().max().item() for c in change.values())
    given = {n: subject.tensors[n] for n in change}
    one = kind(given, {n: c / largest for n, c in change.items()})
    for call in calls:
        with one:
            outputs = subject.run(call)
        one.outputs(outputs)
    return one


def changes_nothing(subject, calls, change):
    """Whether a change {parameter: numbers} of any parameters passes every operation unseen."""
    one = followed(subject, calls, change)
    return not (one.failed or one.unclear)


def _runs(subject, calls):
    """All inputs at once, and then others like them, one after the other, without end."""
    yield lambda: [out for call in calls for out in subject.run(call)]
    more = lambda call: itertools.islice(variations(subject.model, call, subject.seed), 1, None)
    others = [more(call) for call in calls]
    for seed, (given, like) in enumerate(itertools.cycle(zip(calls, others)), 1):
        call = next(like)
        call = call if runs(subject, call) else given
        yield lambda call=call, seed=seed: subject.run(call, seed=seed)


def runs(subject, call):
    """Whether a model takes inputs that it was not given, and returns numbers."""
    try:
        found = subject.run(call)
    except Exception:  # whatever a model raises: these inputs are no one's but our own
        return False
    return bool(found) and all(out.isfinite().all() for out in found)


@contextlib.contextmanager
def idle_matrices_see(subject, calls):
    """While it lasts, what moves where a matrix that no call uses might read it is seen."""
    modules, used, ran = dict(subject.model.named_modules()), set(), {""}
    hookable = {n: m for n, m in modules.items() if not isinstance(m, torch.jit.ScriptModule)}
    hooks = [m.register_forward_pre_hook(lambda *_, n=n: ran.add(n)) for n, m in hookable.items()]
    for call in calls:
        used |= steps_of(subject, call).used
    for hook in hooks:
        hook.remove()
    hooks = []
    for name, tensor in subject.tensors.items():
        holder = name.rpartition(".")[0]
        table = isinstance(modules[holder], nn.Embedding)
        if name not in used and tensor.squeeze().dim() > 1 and not table:
            while holder not in ran:
                holder = holder.rpartition(".")[0]
            watch = modules[holder].register_forward_pre_hook
            hooks.append(watch(_see_all(name), with_kwargs=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def chance_is_fair(model):
    """While it lasts, what a module in training drops at random it drops half of the time."""
    rates = [
        (holder, name, rate)
        for holder in (*model.modules(), getattr(model, "config", model))
        for name, rate in vars(holder).items()
        if "drop" in name and isinstance(rate, float) and 0 < rate < 1
    ]
    for holder, name, _ in rates if model.training else ():
        setattr(holder, name, 0.5)
    try:
        yield
    finally:
        for holder, name, rate in rates:
            setattr(holder, name, rate)


def _see_all(name):
    """A hook that sees whatever moves among a module's inputs and its own parameters."""
    words = f"{name} is not used at these inputs and might depend on it: give inputs that use it"

    def hook(module, args, kwargs):
        mode, call = _get_current_dispatch_mode(), Call("forward", None, (), {}, [], {})
        if isinstance(mode, Following):
            for tensor in (*tree_leaves((args, kwargs)), *module.parameters(), *module.buffers()):
                if isinstance(tensor, torch.Tensor):
                    mode.see(mode.of(tensor), call, words, kind="unknown")

    return hook
