"""The moves of the added parameters that meet all conditions so far, and a tensor's response to
them.

All added parameters are moved together, by t.  The coordinates of t are kept in groups, at first
one for each parameter.  A condition on t (a linear equation) is solved for the groups that it
involves; new groups replace these, with the coordinates of the solutions.  All other groups stay
separate, which keeps matrices sparse.  After the last condition, the groups span the redundant
directions.

The response of a tensor x is a `Shift`: for each group, a block G of shape (coordinates, *x.shape),
so that x becomes x + sum G t.  A block is constant along the axes whose stride is 0.  Strides thus
show the *form* of a shift: "the same for every token, and a linear map of t along the features".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from .solving import NOISE, solutions

#: A matrix is stored densely if more than this share of its entries may be nonzero.
DENSE = 0.1


@dataclass(eq=False)
class Group:
    """Coordinates of t that move freely: numbers (``index``) of one ``parameter``, or mixtures.

    After a condition, ``became`` lists the new groups as (group, how): ``how`` is a matrix (old x
    new coordinates), sparse if most of it is zero.
    """

    size: int
    parameter: str | None = None
    index: torch.Tensor | None = None
    became: list | None = None


@dataclass
class Block:
    """A response (coordinates, *shape), and the largest number in its computation (``peak``)."""

    values: torch.Tensor
    peak: float = 1.0

    def at(self, how):
        """The block in the coordinates of a new group; ``how`` is as in `Group`."""
        thin = narrow(self.values)
        made = how.T.to(thin.dtype) @ _flat(thin)
        made = made.view(len(made), *thin.shape[1:])
        return Block(made.expand(len(made), *self.values.shape[1:]), self.peak)

    def largest(self):
        return narrow(self.values).abs().max().item() if self.values.numel() else 0.0

    def touched(self):
        """A boolean mask of the coordinates that move anything."""
        # not ">", because NaN counts as a move
        return (~(_flat(narrow(self.values)).abs() <= NOISE * self.peak)).any(1)

    def __add__(self, other):
        made = (narrow(self.values) + narrow(other.values)).expand(self.values.shape)
        return Block(made, max(self.peak, other.peak))


def _flat(values):
    """The values as a matrix (coordinates x numbers), also if there are no numbers."""
    return values.reshape(len(values), values.shape[1:].numel())


def narrow(values):
    """A view that keeps one entry along each axis of stride 0, other than the first axis."""
    for axis in range(1, values.dim()):
        if values.stride(axis) == 0 and values.shape[axis] > 1:
            values = values.narrow(axis, 0, 1)
    return values


@dataclass
class Shift:
    """How a tensor x responds to t: a `Block` G for each group.  x becomes x + sum G t.

    With a ``factor``, which is a shift with blocks F, x becomes (x + sum G t) exp(sum F t).
    """

    blocks: dict = field(default_factory=dict)
    factor: Shift | None = None

    def __bool__(self):
        return bool(self.blocks or self.factor)

    def map(self, function: Callable, gain: float = 1.0, carried: float | None = None) -> Shift:
        """The response of a linear function of the tensor; ``function`` is applied to each block.

        The function makes numbers at most ``gain`` times as large, and independent rounding errors
        at most ``carried`` times as large (by default, ``gain`` times).
        """
        peak = lambda b: max(b.peak * carried, b.largest() * gain) if carried else b.peak * gain
        return Shift({g: Block(function(b.values), peak(b)) for g, b in self.blocks.items()})

    def __add__(self, other: Shift) -> Shift:
        made = dict(self.blocks)
        for group, block in other.blocks.items():
            made[group] = made[group] + block if group in made else block
        return Shift(made)

    def __neg__(self) -> Shift:
        return self.map(lambda g: (-narrow(g)).expand(g.shape))


class Moves:
    """The space of all t that satisfy the conditions so far, as groups."""

    def __init__(self):
        self.parameters, self.conditions = {}, 0

    def add(self, name: str, tensor: torch.Tensor) -> Shift:
        """Add a parameter that moves, and return its shift."""
        size = tensor.numel()
        group = Group(size, name, torch.arange(size))
        self.parameters[name] = group
        eye = torch.eye(size, dtype=torch.float64).view(size, *tensor.shape)
        return Shift({group: Block(eye)})

    def now(self, shift: Shift) -> Shift:
        """The shift in the current groups, without parts that vanish."""
        factor = self.now(shift.factor) if shift.factor else None
        while any(g.became is not None for g in shift.blocks):
            made = {}
            for group, block in shift.blocks.items():
                for new, how in group.became if group.became is not None else [(group, None)]:
                    part = block if how is None else block.at(how)
                    made[new] = made[new] + part if new in made else part
            shift = Shift(made)
        left = {g: b for g, b in shift.blocks.items() if not b.largest() <= NOISE * b.peak}
        return Shift(left, factor or None)

    def require(self, shift: Shift, clear: bool = True) -> dict[Group, torch.Tensor]:
        """Keep the t for which a shift vanishes; return {group: mask of restricted coordinates}.

        Raises UnclearShift if rounding leaves it unclear which t to keep; without ``clear``, keeps
        the unclear t.
        """
        shift = self.now(shift)
        found = self.require(shift.factor, clear) if shift.factor else {}
        shift = self.now(shift)
        if not shift.blocks:
            return found
        bound = {g: b.touched() for g, b in shift.blocks.items()}
        peak = max(b.peak for b in shift.blocks.values())
        rows = torch.cat([r[bound[g]] for g, r in _side_by_side(shift).items()]) / peak
        where = [(g, p) for g, b in bound.items() for p in b.nonzero()[:, 0].tolist()]
        solved = list(solutions(rows, [g for g, _ in where], clear))
        self.conditions += 1
        for group, touched in bound.items():
            group.became, rest = [], (~touched).nonzero()[:, 0]
            if len(rest):
                index = None if group.index is None else group.index[rest]
                kept = Group(len(rest), group.parameter, index)
                group.became.append((kept, _matrix(group, kept, rest, torch.arange(len(rest)))))
        for unknowns, basis in solved:
            self._enter(where, unknowns, basis)
        return found | bound

    @staticmethod
    def _enter(where, unknowns, basis):
        """Turn the solutions for components of the same kind into a new group."""
        many, size, free = basis.shape
        new, entries = Group(many * free), {}
        columns = torch.arange(new.size)
        for u in range(size if free else 0):  # the same unknown of every component
            group = where[unknowns[0, u]][0]
            places = torch.tensor([where[c][1] for c in unknowns[:, u].tolist()])
            entry = places.repeat_interleave(free), columns, basis[:, u].flatten()
            entries.setdefault(group, []).append(entry)
        for group, parts in entries.items():
            group.became.append((new, _matrix(group, new, *map(torch.cat, zip(*parts)))))

    def basis(self) -> dict[str, dict[Group, torch.Tensor]]:
        """A basis of all remaining t, as {parameter: {group: (numbers x coordinates)}}."""
        found = {}
        for name, group in self.parameters.items():
            eye = Block(torch.eye(group.size, dtype=torch.float64))
            found[name] = {g: b.values.T for g, b in self.now(Shift({group: eye})).blocks.items()}
        return found

    def drawn(self, seed: int) -> dict[str, torch.Tensor]:
        """One of the remaining moves, drawn at random, as {parameter: numbers}."""
        chance, known = torch.Generator().manual_seed(seed), {}

        def numbers(group):
            if group not in known and group.became is None:
                known[group] = torch.randn(group.size, generator=chance, dtype=torch.float64)
            elif group not in known:
                known[group] = torch.zeros(group.size, dtype=torch.float64)
                for new, how in group.became:
                    known[group] += how @ numbers(new)
            return known[group]

        return {name: numbers(group) for name, group in self.parameters.items()}

    def __len__(self):
        return sum(g.size for g in {g for parts in self.basis().values() for g in parts})


def _matrix(old, new, rows, columns, values=None):
    """The matrix (old x new coordinates) with these entries, by default ones."""
    values = torch.ones(len(rows), dtype=torch.float64) if values is None else values
    places, shape = torch.stack([rows, columns]), (old.size, new.size)
    made = torch.sparse_coo_tensor(places, values, shape, check_invariants=False).coalesce()
    return made.to_dense() if len(rows) > DENSE * old.size * new.size else made


def _side_by_side(shift):
    """A shift as {group: (coordinates x equations)}, with the same equations for every group."""
    first = next(iter(shift.blocks.values())).values
    axes = [a for a in range(1, first.dim())
            if all(b.values.stride(a) == 0 for b in shift.blocks.values())]  # fmt: skip
    complex_ = any(b.values.is_complex() for b in shift.blocks.values())
    made = {}
    for group, block in shift.blocks.items():
        values = block.values.to(torch.complex128) if complex_ else block.values
        for axis in axes:
            values = values.narrow(axis, 0, 1)
        if values.is_complex():
            values = torch.view_as_real(values.resolve_conj())
        made[group] = values.reshape(len(values), -1)
    return made
