"""Run a module once and follow the shifts of its added parameters through every operation.

`Following` is a mode of PyTorch's dispatcher: it runs each ATen operation on its actual tensors
and asks the operation's rule (`rules`) how the results respond.  It never reads a module's name.
If an operation has no rule, every parameter whose shift arrives there becomes unknown.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import TensorWeakRef, WeakTensorKeyDictionary

from .living import dead, memory_of, name_of
from .moves import Block, Group, Moves, Shift
from .rules import RULES, SHAPES_ONLY, factored
from .solving import UnclearShift
from .uses import VIEWS


@dataclass(frozen=True)
class Event:
    """What an operation did to a shift.

    ``kind`` is "erased" (the shift ends here), "passed" (it continues), "turned" (it continues, but
    now differs from place to place), "seen" (it must be zero), "corner" (like "seen", but all
    numbers of this run are on one side of a corner), "bent" (another shift multiplies it) or
    "unknown" (no rule covers the operation).  ``theorem`` is a theorem's number, or None.
    """

    kind: str
    operation: str
    words: str
    theorem: str | None = None


@dataclass
class Call:
    """One call of an operation: the arguments before it ran, their shifts, and the results."""

    name: str
    op: Any
    args: tuple
    kwargs: dict
    outs: list
    shifts: dict

    def shift(self, tensor):
        return self.shifts.get(id(tensor)) or Shift()

    @property
    def moving(self):
        """The argument tensors that move."""
        leaves = tree_leaves((self.args, self.kwargs))
        return list({id(a): a for a in leaves if id(a) in self.shifts}.values())

    def rerun(self, others: dict) -> Any:
        """The result of the operation with other arguments, {place: argument}."""
        args = [others.get(place, a) for place, a in enumerate(self.args)]
        return self.op(*args, **self.kwargs)


class Following(TorchDispatchMode):
    """A dispatch mode; ``moves`` is the space of moves on which no operation has depended yet.

    ``labels`` records which numbers of a parameter each event directly involves, ``used`` which
    numbers any operation uses, and ``products`` the pairs of moving factors, for `forbid`.
    """

    supports_higher_order_operators = True

    def __init__(self, parameters, along=None):
        """With ``along``, a move {parameter: numbers}, follow only that move, exactly."""
        super().__init__()
        self.keys = (
            torch._C._dispatch_tls_local_include_set(),
            torch._C._dispatch_tls_local_exclude_set(),
        )
        self.moves, self.labels, self.products, self.used = Moves(), {}, [], {}
        self.exact, self.failed = along is not None, False
        self.shifts, self.known = WeakTensorKeyDictionary(), WeakTensorKeyDictionary()
        self.aliases = {}
        self.faint, only, self.pending, self.doubts = False, Group(1), [], []
        self.plan: Iterator = iter(())  # what `dead` returns
        self.idle = False
        for name, p in parameters.items():
            self._know(p)
            if self.exact:
                self._put(p, Shift({only: Block(along[name].view(1, *p.shape), 1.0)}))
            else:
                self._put(p, self.moves.add(name, p))
                self.used[name] = torch.zeros(p.numel(), dtype=torch.bool)

    @property
    def unclear(self):
        """Why a condition could not be solved, in words; None if all were solved."""
        return next(iter(self.doubts), None)

    # --- methods that the rules call

    def see(self, shift, call, words, theorem=None, kind="seen"):
        """Record a shift on which an operation depends; keep only moves without this shift."""
        event = Event(kind, call.name, words, theorem)
        if self.idle:
            self.note("erased", shift, call, "no output uses it")
            return
        if self.exact:
            self.failed = self.failed or bool(self.moves.now(shift))
            return
        try:
            self._bind(event, self.moves.require(shift))
        except UnclearShift:  # `settle` tries again after all other conditions
            self.pending.append((event, shift))

    def _bind(self, event, bound):
        for group, touched in bound.items():
            self._label(event, group, touched)

    def settle(self):
        """Retry unclear conditions; if one stays unclear, the parameters in it become unknown."""
        for event, shift in self.pending:
            try:
                self._bind(event, self.moves.require(shift))
            except UnclearShift as reason:
                self.doubts.append(str(reason))
                doubt = Event("unknown", event.operation, str(reason))
                self._bind(doubt, self.moves.require(shift, clear=False))
        self.pending = []

    def note(self, kind, shift, call, words, theorem=None):
        """Record what happens to a shift that no condition restricts."""
        for group, block in self.moves.now(shift).blocks.items():
            self._label(Event(kind, call.name, words, theorem), group, block.touched())

    def both(self, shift, other, product):
        """Return a product's nonlinear shift in an exact run; otherwise, leave it to `forbid`."""
        if self.idle:
            return Shift()
        if not self.exact:
            self.products.append((shift, other, product))
            return Shift()
        [(group, a)], [b] = shift.blocks.items(), other.blocks.values()
        return Shift({group: Block(product(a.values[0], b.values[0])[None], a.peak * b.peak)})

    def _label(self, event, group, touched):
        if group.index is not None and touched.any():
            known = self.labels.setdefault(event, {})
            size = self.moves.parameters[group.parameter].size
            mask = known.setdefault(group.parameter, torch.zeros(size, dtype=torch.bool))
            mask[group.index[touched]] = True
            self.used[group.parameter] |= mask

    def _use(self, shift):
        """Record which numbers reach a result: these are used, even if they cancel later."""
        if shift.factor:
            self._use(shift.factor)
        for group, block in shift.blocks.items():
            if group.index is not None and not self.used[group.parameter][group.index].all():
                self.used[group.parameter][group.index[block.touched()]] = True

    # --- the run

    def follow(self, run):
        """Follow the shifts through a run, a function whose returned tensors must not move."""
        self.plan = iter(dead(run))
        with self:
            outputs = run()
        self.outputs(outputs)

    def outputs(self, tensors):
        """Require that the returned tensors do not move."""
        call = Call("output", None, (), {}, [], {})
        for tensor in tensors:
            self.see(self.of(tensor), call, "the model returns it")

    def of(self, tensor):
        """The shift of a tensor, in the current groups of `Moves`."""
        if tensor not in self.shifts:
            return Shift()
        shift = self.moves.now(self.shifts[tensor])
        self._put(tensor, shift)
        return shift

    def _put(self, tensor, shift):
        if shift:
            self.shifts[tensor] = shift
        else:
            self.shifts.pop(tensor, None)

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        leaves = [a for a in tree_leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
        for a in leaves:
            self._meet(a)
        shifts = {id(a): s for a in leaves if (s := self.of(a))}
        written = _written(op, args, kwargs)
        before = (args, kwargs)
        if shifts and written:
            copies = {id(a): a.clone() for a in written}
            shifts |= {id(copies[i]): s for i, s in list(shifts.items()) if i in copies}
            before = tree_map(lambda a: copies.get(id(a), a), before)
        result = op(*args, **kwargs)
        outs = [o for o in tree_leaves(result) if isinstance(o, torch.Tensor)]
        for out in outs:
            self._know(out)
        name = name_of(op)
        idle = next(self.plan, ()) == (name, True)
        if shifts:
            call = Call(name, op, *before, outs, shifts)
            with torch._C._ForceDispatchKeyGuard(*self.keys):  # so that a rule can use vmap
                self.idle = idle
                made = self._rule(call)
                self.idle = False
            for out, shift in zip(outs, made, strict=False):
                if name not in VIEWS:
                    self._use(shift)
                self.write(out, shift) if any(out is w for w in written) else self._put(out, shift)
        return result

    def _rule(self, call):
        """The shift of each result; if the rule fails, the operation counts as unknown."""
        try:
            made = self.ruled(call)
        except Exception as problem:  # PyTorch may raise anything for unforeseen arguments
            made = self.unknown(call, f"the rule for {call.name} failed: {problem}".splitlines()[0])
        made = [made] if isinstance(made, Shift) else list(made)
        return [*made, *[Shift()] * (len(call.outs) - len(made))]

    def unknown(self, call, words):
        for tensor in call.moving:
            self.see(call.shift(tensor), call, words, kind="unknown")
        return Shift()

    def ruled(self, call):
        if call.name in SHAPES_ONLY or call.name.startswith("new_"):
            return Shift()
        if any(s.factor for s in call.shifts.values()):
            return factored(self, call)
        if call.name in RULES:
            return RULES[call.name](self, call)
        return self.unknown(call, f"no rule covers {call.name}")

    # --- tensors that share memory

    def _know(self, tensor):
        """Record which memory a tensor uses."""
        self.known[tensor] = True
        if (place := memory_of(tensor)) is not None:
            self.aliases.setdefault(place, []).append(TensorWeakRef(tensor))

    def _beside(self, tensor):
        """The other tensors that share this tensor's memory."""
        place = memory_of(tensor)
        others = [r() for r in self.aliases.get(place, ())]
        # a tensor may have moved to other memory, and its old address may have been reused
        there = [o for o in others if o is not None and memory_of(o) == place]
        return list({id(o): o for o in there if o is not tensor}.values())

    def _meet(self, tensor):
        """Register a tensor that no operation made; it may be a view of a moving tensor."""
        if tensor not in self.known:
            self._know(tensor)
            others = [(o, self._sum(o)) for o in self._beside(tensor)]
            self._put(tensor, _read(_memory(others, tensor), tensor))

    def write(self, tensor, shift):
        """Record the new shift of a tensor, and update all tensors that share its memory."""
        self._put(tensor, shift)
        if others := self._beside(tensor):
            shared = [(o, self._sum(o)) for o in (*others, tensor)]
            memory = _memory(shared, tensor)
            for one in others:
                self._put(one, self.moves.now(_read(memory, one)))

    def _sum(self, tensor):
        """A tensor's shift without its factor; parameters in that factor become unknown."""
        shift, call = self.of(tensor), Call("memory", None, (), {}, [], {})
        if shift.factor:
            words = "exponentials are stored in the same memory"
            self.see(shift.factor, call, words, kind="unknown")
        return self.moves.now(Shift(shift.blocks))

    def forbid(self):
        """Fix a factor of the first product whose factors both move; False if there is none."""
        call = Call("product", None, (), {}, [], {})
        while self.products:
            one, other, product = self.products.pop(0)
            one, other = self.moves.now(one), self.moves.now(other)
            if one and other and not _vanishes(one, other, product):
                self.see(one, call, "it is multiplied by another change", kind="bent")
                return True
        return False


def _vanishes(one, other, product):
    """Whether a product of two shifts is zero along a random move."""
    chance = torch.Generator().manual_seed(1)
    groups = {*one.blocks, *other.blocks}
    t = {g: torch.randn(g.size, generator=chance, dtype=torch.float64) for g in groups}
    at = lambda s: sum(torch.tensordot(t[g], b.values, 1) for g, b in s.blocks.items())
    peak = max(b.peak for b in one.blocks.values()) * max(b.peak for b in other.blocks.values())
    made = product(at(one), at(other))
    return made.abs().max() <= 1e-9 * peak


def _memory(tensors, like):
    """{group: (response of the whole memory, peak)}; where tensors overlap, the last one counts."""
    size = like.untyped_storage().nbytes() // like.element_size() if tensors else 0
    made = {}
    for group in {g for _, shift in tensors for g in shift.blocks}:
        memory, peak = torch.zeros(group.size, size, dtype=torch.float64), 0.0
        for tensor, shift in tensors:
            block = shift.blocks.get(group)
            peak = max(peak, block.peak if block else 0.0)
            _seen_through(memory, tensor).copy_(block.values if block else torch.zeros(()))
        made[group] = memory, peak
    return made


def _read(memory, tensor):
    """The shift of a tensor that is a view of this memory."""
    return Shift({g: Block(_seen_through(m, tensor).clone(), p) for g, (m, p) in memory.items()})


def _seen_through(memory, tensor):
    """View a memory of shape (coordinates, numbers) as a tensor views its own memory."""
    strides = (memory.stride(0), *tensor.stride())
    return memory.as_strided((len(memory), *tensor.shape), strides, tensor.storage_offset())


def _written(op, args, kwargs):
    """The tensors that an operation changes in place."""
    schema = getattr(op, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    found = []
    for place, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[place] if place < len(args) else kwargs.get(argument.name)
            found += [v for v in tree_leaves(value) if isinstance(v, torch.Tensor)]
    return found


#: How many successive runs without a new condition suffice, and the largest number of runs.
CALM, MOST = 8, 60


def follow(runs: Iterable, parameters: dict) -> Following:
    """A `Following` that has followed ``runs``: functions without arguments that return tensors.

    Runs are made until several in a row pose no new condition, or until there are no more.
    Every condition is linear, except at a product of two factors that both move: there, only the
    linear part is followed.  To test the rest, one random remaining move is followed exactly; if
    any operation depends on that move, one factor of a product has to stay fixed.
    """
    mode, made, calm = Following(parameters), [], 0
    for run in itertools.islice(runs, MOST):
        before = mode.moves.conditions
        if not made or not _passes([run], parameters, mode.moves):
            mode.follow(run)
        made.append(run)
        calm = calm + 1 if mode.moves.conditions == before else 0
        if calm == CALM:
            break
    mode.settle()
    while not _passes([made[0], made[-1]], parameters, mode.moves) and mode.forbid():
        pass
    return mode


def _passes(runs, parameters, moves):
    """Whether no operation depends on one random remaining move, followed exactly.

    One move is enough: the moves that pass form a subspace, and a random move almost
    surely lies outside a proper subspace.
    """
    one = Following(parameters, moves.drawn(moves.conditions))
    for run in runs:
        one.follow(run)
    return not (one.failed or one.unclear)
