"""Moves of the added parameters: what is still free to move, and how a tensor responds to it.

All added parameters are moved at once, by t.  The coordinates of t are kept in groups: at first one
for each parameter.  A condition on t (a linear equation) is solved at once for the groups that it
touches, which become one new group, whose coordinates are those of the solutions.  What no condition
touches stays apart, so that everything remains sparse and the groups at the end are the separate
families of redundant directions.

How a tensor x responds is a `Shift`: for each group a block G of shape (coordinates, *x.shape), so that
x becomes x + sum G t.  A block is constant along the axes along which its stride is 0: that is the
*form* of the shift, "the same for every token, and a linear map of t along the features".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

#: What rounding may leave of zero, as a share of the largest number on the way: 2^13 units of 2^-53.
#: A path has at most some hundred operations, each a sum of at most some thousand products, whose
#: roundings add up like the root of their number.
NOISE = 2.0**-40
#: No singular value may lie within this factor above the noise.
GAP = 1e3
#: A condition of more equations than unknowns is replaced by so many more random mixtures of them.
MORE = 16


class UnclearShift(ArithmeticError):
    """It is not clear whether something moves: a number lies between rounding and what counts."""


@dataclass(eq=False)
class Group:
    """Coordinates of t that move freely; ``parameter`` and ``index`` where they are a parameter's own.

    ``became`` lists (group, how) once a condition has touched it: ``how`` is a matrix (old x new
    coordinates) or, for coordinates that stay as they are, their places.  Numbers that move in a way that is
    not followed have a ``source``: the shift that must vanish where anything depends on them.
    """

    size: int
    parameter: str | None = None
    index: torch.Tensor | None = None
    became: list | None = None
    source: object = None


@dataclass
class Block:
    """A response (coordinates, *shape), and the largest number that met on its way (``peak``)."""

    values: torch.Tensor
    peak: float = 1.0

    def narrow(self):
        """The values, with one entry along each axis along which they are constant."""
        return narrow(self.values)

    def at(self, how):
        """The block in other coordinates."""
        thin, shape = self.narrow(), self.values.shape[1:]
        made = (
            thin[how] if how.dtype == torch.long else torch.tensordot(how.T.to(thin.dtype), thin, 1)
        )
        return Block(made.expand(len(made), *shape), self.peak)

    def vanishes(self):
        return not self.values.numel() or bool(self.narrow().abs().max() <= NOISE * self.peak)

    def touched(self):
        """Which coordinates move anything: (coordinates,), bool."""
        thin = self.narrow().reshape(len(self.values), -1)
        return ~(thin.abs().amax(1) <= NOISE * self.peak)

    def __add__(self, other):
        made = (self.narrow() + other.narrow()).expand(self.values.shape)
        return Block(made, max(self.peak, other.peak))


def narrow(values):
    """A tensor with one entry along each axis, but the first, whose stride is 0."""
    for axis in range(1, values.dim()):
        if values.stride(axis) == 0 and values.shape[axis] > 1:
            values = values.narrow(axis, 0, 1)
    return values


@dataclass
class Shift:
    """How a tensor responds to t: a `Block` for each group; ``scaled``: x becomes x exp(sum G t)."""

    blocks: dict = field(default_factory=dict)
    scaled: bool = False

    def __bool__(self):
        return bool(self.blocks)

    def map(self, function, gain=1.0):
        """Another tensor's response: a function of the values of each block, linear in them."""
        made = {g: Block(function(b.values), b.peak * gain) for g, b in self.blocks.items()}
        return Shift(made, self.scaled)

    def __add__(self, other):
        made = dict(self.blocks)
        for group, block in other.blocks.items():
            made[group] = made[group] + block if group in made else block
        return Shift(made, self.scaled)

    def __neg__(self):
        return self.map(lambda g: (-narrow(g)).expand(g.shape))


class Moves:
    """The space of all t that fulfil the conditions so far, as groups."""

    def __init__(self):
        self.parameters, self.conditions = {}, 0
        self.generator = torch.Generator().manual_seed(0)

    def add(self, name, tensor):
        """A parameter that moves; returns its shift."""
        size = tensor.numel()
        group = Group(size, name, torch.arange(size))
        self.parameters[name] = group
        eye = torch.eye(size, dtype=torch.float64).view(size, *tensor.shape)
        return Shift({group: Block(eye)})

    def unfollowed(self, source, shape):
        """The shift of numbers that move somehow when their ``source`` does."""
        size = math.prod(shape)
        eye = torch.eye(size, dtype=torch.float64).view(size, *shape)
        return Shift({Group(size, source=source): Block(eye)})

    def now(self, shift):
        """The shift in the groups that there are now, without what vanishes."""
        while any(g.became is not None for g in shift.blocks):
            made = {}
            for group, block in shift.blocks.items():
                for new, how in group.became if group.became is not None else [(group, None)]:
                    part = block if how is None else block.at(how)
                    made[new] = made[new] + part if new in made else part
            shift = Shift(made, shift.scaled)
        return Shift({g: b for g, b in shift.blocks.items() if not b.vanishes()}, shift.scaled)

    def require(self, shift):
        """Keep only those t for which a shift vanishes; returns {group: coordinates it bound}."""
        shift, found = self.now(shift), {}
        for group in [g for g in shift.blocks if g.source is not None]:
            group.became = []
            found |= self.require(group.source)
        shift = self.now(shift)
        if not shift:
            return found
        self.conditions += 1
        bound = {g: b.touched() for g, b in shift.blocks.items()}
        peak = max(b.peak for b in shift.blocks.values())
        rows = torch.cat([r[bound[g]] for g, r in _side_by_side(shift).items()]) / peak
        if not rows.isfinite().all():
            raise UnclearShift("a shift becomes infinite, or NaN")
        solutions = self._solved(rows, [int(b.sum()) for b in bound.values()])
        solutions = self._null_space(rows) if solutions is None else solutions
        mixed, start = Group(solutions.shape[1]), 0
        for group, touched in bound.items():
            places, rest = touched.nonzero()[:, 0], (~touched).nonzero()[:, 0]
            group.became = []
            if len(rest):
                index = None if group.index is None else group.index[rest]
                group.became.append((Group(len(rest), group.parameter, index), rest))
            if mixed.size:
                how = torch.zeros(group.size, mixed.size, dtype=torch.float64)
                how[places] = solutions[start : start + len(places)]
                group.became.append((mixed, how))
            start += len(places)
        return found | bound

    def _null_space(self, rows):
        """An orthonormal basis (unknowns x solutions) of the t with t @ rows = 0."""
        unknowns, equations = rows.shape
        if equations > unknowns + MORE:
            mix = torch.randn(
                equations, unknowns + MORE, generator=self.generator, dtype=torch.float64
            )
            rows = rows @ mix / equations**0.5
        few = rows.shape[1] < unknowns
        left, values, _ = torch.linalg.svd(rows, full_matrices=not few)
        floor = NOISE * max(rows.shape) ** 0.5
        if ((values > floor) & (values < GAP * floor)).any():
            raise UnclearShift("a condition on the shifts is neither fulfilled nor clearly not")
        rank = int((values > floor).sum())
        if not few:
            return left[:, rank:]
        return torch.linalg.qr(left[:, :rank], mode="complete").Q[
            :, rank:
        ]  # cheaper than a whole SVD

    def _solved(self, rows, sizes):
        """The null space where one group alone meets each equation once; None where none does.

        Its coordinates are then given by the others.  This is the form of a bias that an
        activation depends on, and the widest of all conditions.
        """
        start = 0
        for size in sizes:
            mine = rows[start : start + size]
            if size == rows.shape[1] and size > 1:
                diagonal = mine.diagonal()
                if not (mine - diagonal.diag()).any() and diagonal.abs().min() > GAP * NOISE:
                    rest = torch.cat([rows[:start], rows[start + size :]])
                    made = torch.zeros(len(rows), len(rest), dtype=rows.dtype)
                    others = torch.cat([torch.arange(start), torch.arange(start + size, len(rows))])
                    made[others] = torch.eye(len(rest), dtype=rows.dtype)
                    made[start : start + size] = -(rest / diagonal).T
                    return torch.linalg.qr(made).Q if len(rest) else made
            start += size
        return None

    def basis(self):
        """{parameter: {group: (numbers of the parameter x coordinates)}} of all t that are left."""
        found = {}
        for name, group in self.parameters.items():
            eye = Block(torch.eye(group.size, dtype=torch.float64))
            found[name] = {g: b.values.T for g, b in self.now(Shift({group: eye})).blocks.items()}
        return found

    def __len__(self):
        """How many directions are left."""
        return sum(g.size for g in {g for parts in self.basis().values() for g in parts})


def _side_by_side(shift):
    """{group: (coordinates x equations)}, the equations in one order for all groups."""
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
