"""Find the operations of a run on which no output depends.

A model may compute numbers that it does not return: a loss for training, or the logits of
every token although only the last is used.  `dead` traces memory back from the outputs of a run.
"""

from __future__ import annotations

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

#: Python may read the shapes of these operations' results, so they always count as used.
SHAPES = {
    "nonzero",
    "masked_select",
    "unique",
    "_unique2",
    "unique_dim",
    "unique_consecutive",
    "index",
}


def name_of(op):
    name = op.overloadpacket.__name__ if hasattr(op, "overloadpacket") else op.__name__
    return name.rstrip("_") if not name.startswith("__") else name


class Record(TorchDispatchMode):
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
    found = set()
    for tensor in tree_leaves(values):
        if isinstance(tensor, torch.Tensor):
            try:
                found.add(tensor.untyped_storage()._cdata)
            except NotImplementedError:  # a tensor without memory may depend on everything
                found.add(None)
    return found


def dead(run):
    """[(name, whether no output depends on its results)] for the operations of a run, in order."""
    record = Record()
    with record:
        outputs = run()
    live, found = _memory(outputs), []
    for name, read, written, new in reversed(record.calls):
        idle = (
            bool(written)
            and None not in read | written
            and not written & live
            and name not in SHAPES
        )
        found.append((name, idle))
        if not idle:
            live = (live - new) | read
    return found[::-1]
