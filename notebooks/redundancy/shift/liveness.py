"""Find the operations of a run on which no output depends.  The base class of all dispatch modes is
here, too.

A model may compute numbers that it does not return: a loss for training, or the logits of
every token although only the last is used.  `dead` traces memory back from the outputs of a run.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

#: Python may read the shapes of these operations' results, so they always count as used.
SHAPES = set("nonzero masked_select unique _unique2 unique_dim unique_consecutive index".split())


def name_of(op) -> str:
    """The name of an operation, without the underscore of its in-place form."""
    name = op.overloadpacket.__name__ if hasattr(op, "overloadpacket") else op.__name__
    return name.rstrip("_") if not name.startswith("__") else name


def memory_of(tensor: torch.Tensor) -> int | None:
    """An identifier of a tensor's memory; None for a tensor without memory of its own."""
    try:
        return tensor.untyped_storage()._cdata
    except NotImplementedError:
        return None


def tensors_in(values) -> list[torch.Tensor]:
    """The tensors in nested lists, tuples and dictionaries."""
    return [t for t in tree_leaves(values) if isinstance(t, torch.Tensor)]


class Watching(TorchDispatchMode):
    """A dispatch mode that knows which tensors share memory."""

    supports_higher_order_operators = True

    def __init__(self):
        super().__init__()
        self.known, self.aliases = WeakTensorKeyDictionary(), {}

    def know(self, tensor):
        """Record which memory a tensor uses."""
        self.known[tensor] = True
        if (place := memory_of(tensor)) is not None:
            self.aliases.setdefault(place, []).append(TensorWeakRef(tensor))

    def beside(self, tensor):
        """The other known tensors that share this tensor's memory."""
        place = memory_of(tensor)
        others = [r() for r in self.aliases.get(place, ())]
        # a tensor may have moved to other memory, and its old address may have been reused
        there = [o for o in others if o is not None and memory_of(o) == place]
        return list({id(o): o for o in there if o is not tensor}.values())


class _Record(TorchDispatchMode):
    """Appends (name, memory read, memory written, new memory) to ``calls`` for each operation."""

    supports_higher_order_operators = True

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        read, made = _memory((args, kwargs)), _memory(result)
        schema = getattr(op, "_schema", None)
        written = made | (read if schema is None or schema.is_mutable else set())
        self.calls.append((name_of(op), read, written, made - read))
        return result


def _memory(values):
    return set(map(memory_of, tensors_in(values)))


def dead(run: Callable) -> list[tuple[str, bool]]:
    """[(name, whether no output depends on its results)] for the operations of a run, in order."""
    record = _Record()
    with record:
        outputs = run()
    live, found = _memory(outputs), []
    for name, read, written, new in reversed(record.calls):
        # a tensor without memory (None) may depend on everything
        known = None not in read | written and name not in SHAPES
        idle = bool(written) and known and not written & live
        found.append((name, idle))
        if not idle:
            live = (live - new) | read
    return found[::-1]
