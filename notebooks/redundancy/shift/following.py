"""Run a module once and follow the shifts of its added parameters through every operation.

`Following` is a mode of PyTorch's dispatcher: it runs each ATen operation on its actual tensors
and asks the operation's rule (`rules`) how the results respond.  It never reads a module's name.
If an operation has no rule, the answer for every parameter whose shift arrives there is “unknown”.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from .liveness import Watching, dead, name_of, tensors_in
from .moves import Block, Group, Moves, Shift
from .roles import VIEWS
from .rules import RULES, SHAPES_ONLY, factored
from .solving import UnclearShift


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
    op: Any = None
    args: tuple = ()
    kwargs: dict = field(default_factory=dict)
    outs: list = field(default_factory=list)
    shifts: dict = field(default_factory=dict)

    def shift(self, tensor):
        return self.shifts.get(id(tensor)) or Shift()

    @property
    def moving(self):
        """The argument tensors that move."""
        leaves = tensors_in((self.args, self.kwargs))
        return list({id(a): a for a in leaves if id(a) in self.shifts}.values())

    def rerun(self, others: dict) -> Any:
        """The result of the operation with other arguments, {place: argument}."""
        args = [others.get(place, a) for place, a in enumerate(self.args)]
        return self.op(*args, **self.kwargs)


class Following(Watching):
    """A dispatch mode; ``moves`` is the space of moves on which no operation has depended yet.

    ``labels`` records which numbers of a parameter each event directly involves, ``used`` which
    numbers any operation uses, and ``products`` the pairs of moving factors, for `forbid`.
    ``doubts`` says in words which conditions rounding leaves unclear.
    """

    def __init__(self, parameters: dict[str, torch.Tensor], along: dict | None = None):
        """With ``along``, a move {parameter: numbers}, follow only that move, exactly."""
        super().__init__()
        self.keys = (
            torch._C._dispatch_tls_local_include_set(),
            torch._C._dispatch_tls_local_exclude_set(),
        )
        self.moves, self.labels, self.products, self.used = Moves(), {}, [], {}
        self.exact, self.failed, self.faint, self.idle = along is not None, False, False, False
        self.shifts, self.pending, self.doubts = WeakTensorKeyDictionary(), [], []
        self.plan: Iterator = iter(())  # what `dead` returns
        only = Group(1)
        for name, p in parameters.items():
            self.know(p)
            if along is not None:
                self._put(p, Shift({only: Block(along[name].view(1, *p.shape), 1.0)}))
            else:
                self._put(p, self.moves.add(name, p))
                self.used[name] = torch.zeros(p.numel(), dtype=torch.bool)

    @property
    def unclear(self) -> str | None:
        """Why a condition could not be solved, in words; None if all were solved."""
        return next(iter(self.doubts), None)

    # --- methods that the rules call

    def see(self, shift, call, words, theorem=None, kind="seen"):
        """Record a shift on which an operation depends; keep only moves without this shift."""
        if self.idle:
            self.note("erased", shift, call, "no output uses it")
        elif self.exact:
            self.failed = self.failed or bool(self.moves.now(shift))
        else:
            self._require(Event(kind, call.name, words, theorem), shift)

    def _require(self, event, shift, last=False):
        try:
            bound = self.moves.require(shift)
        except UnclearShift as reason:
            if not last:  # `settle` tries again after all other conditions
                self.pending.append((event, shift))
                return
            self.doubts.append(str(reason))
            event = Event("unknown", event.operation, str(reason))
            bound = self.moves.require(shift, clear=False)
        for group, touched in bound.items():
            self._label(event, group, touched)

    def settle(self):
        """Retry unclear conditions; if one stays unclear, the parameters in it become unknown."""
        for event, shift in self.pending:
            self._require(event, shift, last=True)
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
            none = torch.zeros_like(self.used[group.parameter])
            known.setdefault(group.parameter, none)[group.index[touched]] = True
            self.used[group.parameter][group.index[touched]] = True

    def _use(self, shift):
        """Record which numbers reach a result: these are used, even if they cancel later."""
        if shift.factor:
            self._use(shift.factor)
        for group, block in shift.blocks.items():
            if group.index is not None and not self.used[group.parameter][group.index].all():
                self.used[group.parameter][group.index[block.touched()]] = True

    # --- the run

    def follow(self, run: Callable) -> None:
        """Follow the shifts through a run, a function whose returned tensors must not move."""
        self.plan = iter(dead(run))
        with self:
            outputs = run()
        self.outputs(outputs)

    def outputs(self, tensors: Iterable[torch.Tensor]) -> None:
        """Require that the returned tensors do not move."""
        for tensor in tensors:
            self.see(self.of(tensor), Call("output"), "the model returns it")

    def of(self, tensor: torch.Tensor) -> Shift:
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
        leaves = tensors_in((args, kwargs))
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
        outs = tensors_in(result)
        for out in outs:
            self.know(out)
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
        """Require that no argument moves, because nothing is known of the operation."""
        for tensor in call.moving:
            self.see(call.shift(tensor), call, words, kind="unknown")
        return Shift()

    def ruled(self, call):
        """What the operation's rule returns: the shift of the result, or of each result."""
        if call.name in SHAPES_ONLY or call.name.startswith("new_"):
            return Shift()
        if any(s.factor for s in call.shifts.values()):
            return factored(self, call)
        if call.name in RULES:
            return RULES[call.name](self, call)
        return self.unknown(call, f"no rule covers {call.name}")

    # --- tensors that share memory

    def _meet(self, tensor):
        """Register a tensor that no operation made; it may be a view of a moving tensor."""
        if tensor not in self.known:
            self.know(tensor)
            self._put(tensor, *self.through(self.beside(tensor), [tensor]))

    def write(self, tensor, shift):
        """Record the new shift of a tensor, and update all tensors that share its memory."""
        self._put(tensor, shift)
        if others := self.beside(tensor):
            for one, seen in zip(others, self.through([*others, tensor], others)):
                self._put(one, self.moves.now(seen))

    def through(self, tensors, views):
        """The shift of each of the ``views`` of the memory in which the ``tensors`` are stored.

        Where tensors overlap, the last one counts.  Parameters in a factor become unknown.
        """
        shifts, words = [], "exponentials are stored in the same memory"
        for tensor in tensors:
            if factor := self.of(tensor).factor:
                self.see(factor, Call("memory"), words, kind="unknown")
            shifts.append(self.moves.now(Shift(self.of(tensor).blocks)))
        made, still = [Shift() for _ in views], Block(torch.zeros(()), 0.0)
        for group in {g for shift in shifts for g in shift.blocks}:
            size = views[0].untyped_storage().nbytes() // views[0].element_size()
            memory = torch.zeros(group.size, size, dtype=torch.float64)
            blocks = [shift.blocks.get(group, still) for shift in shifts]
            for tensor, block in zip(tensors, blocks):
                _seen_through(memory, tensor).copy_(block.values)
            for shift, view in zip(made, views):
                values = _seen_through(memory, view).clone()
                shift.blocks[group] = Block(values, max(b.peak for b in blocks))
        return made

    def forbid(self) -> bool:
        """Fix a factor of the first product whose factors both move; False if there is none."""
        while self.products:
            one, other, product = self.products.pop(0)
            one, other = self.moves.now(one), self.moves.now(other)
            if one and other and not _vanishes(one, other, product):
                words = "it is multiplied by another change"
                self.see(one, Call("product"), words, kind="bent")
                return True
        return False


def _vanishes(one, other, product):
    """Whether a product of two shifts is zero along a random move."""
    chance = torch.Generator().manual_seed(1)
    groups = {*one.blocks, *other.blocks}
    t = {g: torch.randn(g.size, generator=chance, dtype=torch.float64) for g in groups}
    at = lambda s: sum(torch.tensordot(t[g], b.values, 1) for g, b in s.blocks.items())
    peak = max(b.peak for b in one.blocks.values()) * max(b.peak for b in other.blocks.values())
    return product(at(one), at(other)).abs().max() <= 1e-9 * peak


def _seen_through(memory, tensor):
    """View a memory of shape (coordinates, numbers) as a tensor views its own memory."""
    strides = (memory.stride(0), *tensor.stride())
    return memory.as_strided((len(memory), *tensor.shape), strides, tensor.storage_offset())


def _written(op, args, kwargs):
    """The tensors that an operation changes in place."""
    schema = getattr(op, "_schema", None)
    if schema is None or not schema.is_mutable:
        return []
    given = dict(zip([a.name for a in schema.arguments], args)) | kwargs
    writes = (a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write)
    return tensors_in([given.get(name) for name in writes])


#: How many successive runs without a new condition suffice, and the largest number of runs.
CALM, MOST = 8, 60


def follow(runs: Iterable[Callable], parameters: dict[str, torch.Tensor]) -> Following:
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
