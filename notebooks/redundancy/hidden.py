"""What a bias does that no gradient shows.

A record holds the operations that PyTorch differentiates.  Numbers are read in other ways too: a
comparison, the place of the largest, a detached copy, a branch of the code.  Where a bias goes
through one of them the record is not the whole of it, and a derivative, however exact, speaks of
the inputs at hand only: it does not know the threshold that no number has passed yet.

    with Watch() as watch: run(model, …)
    watch.found                        # [Hidden("gt", the node whose numbers it read), …]
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch.overrides import TorchFunctionMode

from .wiring import name_of, tensors

#: These hand numbers to the code itself, which may branch on them.
TO_THE_CODE = {
    *("item", "tolist", "numpy", "equal", "allclose", "is_nonzero"),
    *("__bool__", "__int__", "__float__", "__index__", "__contains__", "__array__"),
}
#: These look at the shape or dtype of what they get, or of all but the first.
NO_NUMBERS = re.compile(r"\w+_like|new_\w+")
FIRST_ONLY = {"to", "type_as", "expand_as", "view_as", "reshape_as"}


@dataclass(frozen=True)
class Hidden:
    """An operation that read numbers which depend on a bias, and the node that made them."""

    name: str
    node: object


class Watch(TorchFunctionMode):
    """Follows, through one run, the numbers that depend on what asks for a gradient.

    ``found`` are the operations whose result no gradient shows, and which came back to a tensor
    that has one, or to the code.  ``written`` says of a CopySlices node, in which PyTorch hides
    an operation in place on a view, which one it was, if it wrote on the whole tensor or only
    moved numbers there.
    ``accounted`` are the nodes of the calls that were followed: what a scripted function does, and
    whether it compares numbers, nobody sees.
    """

    def __init__(self):
        super().__init__()
        self.found, self.written, self.accounted, self.active = [], {}, set(), True
        self._hidden, self._alive = {}, []  # by storage; one that is freed gives its place away

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not self.active:
            return function(*args, **kwargs)
        name = name_of(function).removesuffix(".__get__").rpartition(".")[2]
        name = name or getattr(function, "__name__", "an operation")
        read = tensors(args[:1] if name in FIRST_ONLY else args, kwargs)
        versions = [t._version for t in read]
        known = frozenset().union(*(self._of(t) for t in read))
        before = {t.grad_fn for t in read}
        sources = {Hidden(name, t.grad_fn) for t in read if t.requires_grad}
        made = function(*args, **kwargs)
        name += " scaled" * ("alpha" in kwargs)
        if not NO_NUMBERS.fullmatch(name):
            changed = [t for t, version in zip(read, versions) if t._version != version]
            self._enter(name, known, sources, tensors(made), changed)
            self._account(before, [t.grad_fn for t in (*tensors(made), *changed)])
        return made

    def _account(self, before, nodes):
        """Enter the nodes of the graph that one call made."""
        while nodes:
            node = nodes.pop()
            if node is not None and node not in before and node not in self.accounted:
                self.accounted.add(node)
                nodes += [source for source, _ in node.next_functions]

    def _enter(self, name, known, sources, made, changed):
        if name in TO_THE_CODE:
            self.found += known | sources
        for tensor in (*made, *changed):
            if tensor.requires_grad:
                self.found += known
            elif known or sources:
                self._hide(tensor, known | sources)
        for tensor in changed:
            if not (tensor.requires_grad and torch.is_grad_enabled()):
                self.found += known | sources  # it shares its numbers with one that has a gradient
            elif name in ("__setitem__", "copy_"):
                self.written[(tensor if tensor._base is None else tensor._base).grad_fn] = name
            elif tensor._base is not None and tensor._base.numel() == tensor.numel():
                self.written[tensor._base.grad_fn] = name

    def _of(self, tensor):
        """By what a tensor without a gradient depends on the bias all the same."""
        return (
            frozenset() if tensor.requires_grad else self._hidden.get(_place(tensor), frozenset())
        )

    def _hide(self, tensor, by):
        self._hidden[_place(tensor)] = self._of(tensor) | by
        self._alive.append(tensor)


def _place(tensor):
    return tensor.untyped_storage()._cdata
