"""What a space of redundant directions says of each parameter: linear algebra, and no theorem.

The space is a matrix N with orthonormal columns, one row for each number of the parameters.  Some
numbers P of a parameter

- go *alone* in as many directions as N has with no part outside of P,
- go *together* with others in as many as the rank of the rows P, and
- are *absorbed* by a set Q if moving Q makes up for all of them: if N restricted to P and Q has that rank.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch

#: A direction lies in a set of rows if the part of it outside is below the first number, and has a
#: part there if that is above the second.  None may lie between.  Squares of such parts are known up to
#: some hundred units of 2^-53.
OUTSIDE, INSIDE = 3e-7, 3e-6


class Unclear(ArithmeticError):
    """A direction has a part so small that it may be zero or not."""


@dataclass(frozen=True)
class Family:
    """Parameters that share redundant directions: ``basis`` (numbers, directions), orthonormal.

    ``places`` is {name: which rows of the basis are its numbers}.
    """

    basis: torch.Tensor
    places: dict

    def rows(self, name, index=...):
        return self.basis[self.places[name][index]]


class Freedom:
    """The redundant directions of some parameters, family by family: {name: `Family`}."""

    def __init__(self, families, shapes):
        self.families, self.shapes = families, shapes

    @classmethod
    def of(cls, moves):
        """Of the moves that a run has left."""
        parts = moves.basis()
        shapes = {n: moves.parameters[n].size for n in parts}
        return cls({n: f for names in _families(parts)
                    for f in [_side_by_side(parts, names, shapes)] for n in names}, shapes)  # fmt: skip

    @classmethod
    def whole(cls, basis, shapes):
        """Of one basis for all parameters, whose numbers follow each other; {name: how many}."""
        starts = itertools.accumulate(shapes.values(), initial=0)
        places = {n: torch.arange(size) + start for (n, size), start in zip(shapes.items(), starts)}
        return cls(dict.fromkeys(shapes, Family(basis, places)), shapes)

    def dense(self):
        """The basis (numbers of all parameters, directions)."""
        made = []
        for family in {id(f): f for f in self.families.values()}.values():
            rows = [family.rows(n) if n in family.places else family.basis.new_zeros(size, family.basis.shape[1])
                    for n, size in self.shapes.items()]  # fmt: skip
            made.append(torch.cat(rows))
        return torch.cat(made, 1)

    def fixing(self, names):
        """The directions that leave these parameters as they are."""
        names, known, made = set(names), {}, {}
        for name, family in self.families.items():
            fixed = [n for n in family.places if n in names]
            if fixed and id(family) not in known:
                rows = torch.cat([family.rows(n) for n in fixed])
                values, vectors = torch.linalg.eigh(rows.T @ rows)
                free = vectors[:, values <= 4 * OUTSIDE**2]
                known[id(family)] = Family(family.basis @ free, family.places)
            made[name] = known.get(id(family), family)
        return Freedom(made, self.shapes)

    def __len__(self):
        return sum(f.basis.shape[1] for f in {id(f): f for f in self.families.values()}.values())

    def together(self, name, index=...):
        """How many directions of these numbers are redundant if others may make up for them."""
        rows = self.families[name].rows(name, index)
        return min(rows.shape) - _count(rows, 0.0)

    def alone(self, name, index=...):
        """How many are if all others stay as they are."""
        return _count(self.families[name].rows(name, index), 1.0)

    def within(self, *chosen):
        """How many directions move none but these: (parameter, index) each."""
        apart = {}
        for name, index in chosen:
            family = self.families[name]
            apart.setdefault(id(family), []).append(family.rows(name, index))
        return sum(_count(torch.cat(rows), 1.0) for rows in apart.values())

    def move(self, name, index=...):
        """A random redundant move {parameter: numbers}, in all directions that touch these numbers."""
        family = self.families[name]
        rows = family.rows(name, index)
        _, values, right = torch.linalg.svd(rows, full_matrices=False)
        right = right[values > OUTSIDE]
        move = family.basis @ (right.T @ _drawn(len(right)))
        move = move / (rows @ (right.T @ _drawn(len(right)))).abs().max()
        return {n: move[places] for n, places in family.places.items()}

    def against(self, name, index=...):
        """A random move of these numbers alone, and of none of them that goes alone."""
        left, values, _ = torch.linalg.svd(
            self.families[name].rows(name, index), full_matrices=False
        )
        free, drawn = left[:, 1 - values < 4 * OUTSIDE**2], _drawn(len(left))
        move = torch.zeros(self.shapes[name], dtype=torch.float64)
        move[index] = drawn - free @ (free.T @ drawn)
        return {name: move / move.abs().max()}

    def absorbers(self, name, index=..., order=()):
        """A set of parameters, as small as is found, that make up for all that goes together.

        Tried are single ones, in the ``order`` given, then all but one after the other.
        """
        goal, family = self.together(name, index), self.families[name]
        if goal == self.alone(name, index):
            return ()
        rows = family.rows(name, index)
        others = [n for n in order or family.places if n in family.places and n != name]
        theirs = {n: family.rows(n) for n in others}
        linked = [n for n, r in theirs.items() if (rows @ r.T).abs().max() > OUTSIDE]
        makes_up = lambda names: _absorbed(rows, [theirs[n] for n in names]) == goal
        for other in linked:
            if makes_up([other]):
                return (other,)
        chosen = linked if makes_up(linked) else others
        for other in reversed(list(chosen)):
            rest = [n for n in chosen if n != other]
            if makes_up(rest):
                chosen = rest
        return tuple(chosen)


def _absorbed(rows, others):
    """How many directions of some rows others make up for."""
    theirs = torch.cat(others) if others else rows[:0]
    return _count(torch.cat([rows, theirs]), 1.0) - _count(theirs, 1.0)


def _families(parts):
    """The parameters that share a group, directly or not: tuples of names."""
    family, first = {n: {n} for n in parts}, {}
    for name, blocks in parts.items():
        for group in blocks:
            members = family[first.setdefault(group, name)] | family[name]
            for n in members:
                family[n] = members
    return list(dict.fromkeys(tuple(n for n in parts if n in family[name]) for name in parts))


def _side_by_side(parts, names, shapes):
    """The `Family` of some parameters, from {parameter: {group: matrix}}."""
    groups = dict.fromkeys(g for n in names for g in parts[n])
    blocks = [
        [parts[n].get(g, torch.zeros(shapes[n], g.size).double()) for g in groups] for n in names
    ]
    rows = [
        torch.cat(b, 1) if b else torch.zeros(shapes[n], 0).double() for n, b in zip(names, blocks)
    ]
    starts = itertools.accumulate((shapes[n] for n in names), initial=0)
    places = {n: torch.arange(shapes[n]) + start for n, start in zip(names, starts)}
    return Family(torch.cat(rows), places)


def _drawn(size):
    return torch.randn(size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def _count(rows, value):
    """How many squared cosines between some rows and the directions are ``value``: zero or one."""
    gram = rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows
    if not len(gram):
        return 0
    apart = (torch.linalg.eigvalsh(gram) - value).abs()
    if ((apart > 4 * OUTSIDE**2) & (apart < INSIDE**2)).any():
        raise Unclear("a direction has so small a part in a parameter that it may be none")
    return int((apart < 4 * OUTSIDE**2).sum())
