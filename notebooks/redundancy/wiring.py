"""Which module reads what: the wires of a model, found by running it once.

A constant may leave a norm's shift only if *everything* that reads the norm can be paid for.
What reads it is not guessed from names: the model runs once, every call of a module without
children is a node (a Linear, a norm, an activation), and so is every operation on tensors
between them.  Operations that change no value (a view, a dropout in evaluation) are wires, not
nodes.  What runs outside PyTorch's sight (a custom kernel) is missing here, which is why
`fold` compares outputs whatever this file says.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import nn
from torch.overrides import TorchFunctionMode, resolve_name

#: Operations that hand on what they get; believed only where the values are in fact the same.
WIRES = {
    *("view", "reshape", "view_as", "flatten", "unsqueeze", "squeeze", "contiguous", "clone"),
    *("detach", "to", "type", "type_as", "float", "double", "dropout", "__getitem__"),
}
SUMS = {"add", "add_", "__add__", "__radd__", "__iadd__"}


@dataclass(frozen=True, eq=False)
class Node:
    """One call: of a module (``module`` is set), of ``add``, or of another operation."""

    kind: str  # "module", "add", "operation", "output", "unknown"
    name: str  # the module's path in the model, or what the operation is called
    module: nn.Module | None
    sources: tuple[Node, ...]  # who made what it reads, in the order of its arguments

    def __str__(self):
        return self.name


#: Who made a tensor that was there before the run, or was made out of sight.
UNKNOWN = Node("unknown", "an input, a parameter or a kernel", None, ())


class Wiring:
    """The nodes of one run of a model, who reads whom, and the calls of every module."""

    def __init__(self):
        self.calls = defaultdict(list)
        self._readers = defaultdict(list)
        self._maker = {}
        self._used = set()
        self._alive = []  # a tensor that is freed would give its id to another

    def readers(self, node):
        """The nodes that read what this node made, in the order of the run."""
        return self._readers[node]

    def only_call(self, module):
        """The one call of a module in the run; None if there was none, or more than one."""
        calls = self.calls[module]
        return calls[0] if len(calls) == 1 else None

    def source(self, module):
        """The node that made the input of a module called once; None where that is unknown."""
        call = self.only_call(module)
        return call.sources[0] if call and call.sources else None

    def sums_of(self, module):
        """The sums that a module's output goes into, one inside the next, and nowhere else."""
        node, found = self.only_call(module), []
        while node is not None and [r.kind for r in self.readers(node)] == ["add"]:
            node = self.readers(node)[0]
            found.append(node)
        return found

    def sum_of(self, module):
        """The last of `sums_of`; None if there is none."""
        return (self.sums_of(module) or [None])[-1]

    def uses(self, parameter):
        """Whether any operation of the run, also inside a module, was given this parameter."""
        return id(parameter) in self._used

    def note_use(self, given):
        """Enter the parameters among what an operation was given."""
        self._used.update(id(t) for t in given if isinstance(t, nn.Parameter))

    def add(self, kind, name, module, read, made):
        """Enter a node that read some tensors and made others."""
        sources = [self._maker.get(id(t), UNKNOWN) for t in read]
        node = Node(kind, name, module, tuple(sources))
        for source in sources:
            self._readers[source].append(node)
        if module is not None:
            self.calls[module].append(node)
        for tensor in made:
            self._name(tensor, node)

    def pass_on(self, tensor, made):
        """Enter a wire: what was made is the tensor that was there."""
        if id(tensor) in self._maker:
            self._name(made, self._maker[id(tensor)])

    def _name(self, tensor, node):
        self._maker[id(tensor)] = node
        self._alive.append(tensor)


class _Watch(TorchFunctionMode):
    """Enters every operation that happens between modules."""

    def __init__(self, wiring):
        super().__init__()
        self.wiring, self.inside = wiring, 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        read = tensors(args, kwargs)
        self.wiring.note_use(read)
        if self.inside:
            return function(*args, **kwargs)
        versions = [t._version for t in read]
        self.inside += 1  # what an operation does inside is its own affair
        made = function(*args, **kwargs)
        changed = [t for t, version in zip(read, versions) if t._version != version]
        self.inside -= 1
        name = getattr(function, "__name__", str(function))
        plain = "alpha" not in kwargs  # add(x, y, alpha=2) is x + 2 y
        self._enter(name if plain else "weighted sum", read, tensors(made), changed)
        return made

    def _enter(self, name, read, made, changed):
        short = name.split(".")[-1]
        if short in WIRES and not changed and made and same_rows(read[0], made[0]):
            self.wiring.pass_on(read[0], made[0])
        elif made or changed:
            kind = "add" if short in SUMS and len(read) == 2 else "operation"
            self.wiring.add(kind, short, None, read, [*made, *changed])


def trace(model, inputs):
    """The `Wiring` of one run of a model.  ``inputs`` is a dict of keyword arguments."""
    wiring, hooks, entered = Wiring(), [], []
    watch = _Watch(wiring)

    def enter(module, args, kwargs):
        watch.inside += 1
        given = tensors(args, kwargs)
        entered.append((given, [t._version for t in given]))

    def leave(name, plain):
        def record(module, args, kwargs, output):
            watch.inside -= 1
            made = tensors(output)
            read, versions = entered.pop()  # a hook of the module's own may have changed its inputs
            same = versions == [t._version for t in read] and plain
            if "Rotary" in type(module).__name__:  # asks its input for dtype and device only
                wiring.add("module", name, module, [], made)
            elif same and is_wire(module, read, made):
                wiring.pass_on(read[0], made[0])
            else:
                wiring.add("module", name, module, read, made)

        return record

    for name, module in model.named_modules():
        if not any(True for _ in module.children()):
            plain = not (module._forward_pre_hooks or module._forward_hooks)
            hooks.append(module.register_forward_pre_hook(enter, with_kwargs=True, prepend=True))
            hooks.append(module.register_forward_hook(leave(name, plain), with_kwargs=True))
    try:
        with torch.no_grad(), watch:
            output = model(**inputs)
    finally:
        for hook in hooks:
            hook.remove()
    wiring.add("output", "the model's output", None, tensors(output), [])
    return wiring


def is_wire(module, read, made):
    """Whether a call of a module handed on the one tensor that it got: a dropout at rest."""
    if len(made) != 1 or not read:
        return False
    with torch._C.DisableTorchFunction():
        idle = isinstance(module, (nn.Dropout, nn.Identity)) and same_rows(read[0], made[0])
    return idle or made[0] is read[0]


@lru_cache(maxsize=4096)
def name_of(function):
    """What a function of PyTorch is called, "torch.Tensor.float"; empty for any other.

    `resolve_name` sets up a filter of warnings for each call, which is longer than most calls take.
    """
    return resolve_name(function) or ""


def tensors(*things):
    """Every tensor in nested lists, tuples, dictionaries and model outputs, in order."""
    found = []
    for thing in things:
        if isinstance(thing, torch.Tensor):
            found.append(thing)
        elif isinstance(thing, dict):
            found += tensors(*thing.values())
        elif isinstance(thing, (list, tuple)):
            found += tensors(*thing)
    return found


def same_rows(before, after):
    """Whether two tensors hold the same numbers in the same rows (of their last dimension)."""
    return (
        before.numel() == after.numel()
        and min(before.dim(), after.dim()) > 0
        and before.shape[-1] == after.shape[-1]
        and torch.equal(before.reshape(-1), after.reshape(-1))
    )
