"""What a space of redundant directions says about each parameter, found by linear algebra.

The orthonormal columns of a matrix N span the space; each row of N belongs to one entry of
a parameter.  A set P of entries

- is redundant *alone* in s directions, s being the dimension of the subspace that is 0 outside P,
- is redundant *together* with other entries in r directions, r being the rank of the rows of N that
  belong to P, and
- is *absorbed* by other entries Q if directions that are 0 outside P and Q have rank r on P.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from ..measure.nullity import svd
from .moves import Moves
from .solving import components

#: A direction lies in a set of rows if its part outside the set is below the first number; it has a
#: part in the set if that part is above the second.  No part may lie in between, because rounding
#: changes its square by up to a few hundred units of 2^-53.
OUTSIDE, INSIDE = 3e-7, 3e-6
#: A direction moves nothing outside a set of rows if its part there is below the first number, and
#: something if it is above the second; its error is 2^-53 / (a condition's least singular value).
NOTHING, SOMETHING = 1e-9, 1e-8
#: A direction cannot lie in a set of rows unless the square of its part there exceeds this number.
NEAR = 1 - 1e-6
#: Small components are joined into parts of about this many numbers.
CHUNK = 128
NONE = torch.zeros(0, dtype=torch.long)


class Unclear(ArithmeticError):
    """A part of a direction is so small that it is unclear whether it is only rounding."""


@dataclass(frozen=True)
class Part:
    """Directions (columns) that move some numbers (rows); ``places`` is {name: (numbers, rows)}."""

    basis: torch.Tensor
    places: dict

    def rows(self, name, index=...):
        """The rows for those numbers of a parameter that the index selects."""
        return self.basis[self.chosen(name, index)[1]]

    def chosen(self, name, index=...):
        """(numbers, rows) of a parameter, or of those numbers that a mask selects."""
        numbers, rows = self.places.get(name, (NONE, NONE))
        keep = ... if index is ... else index[numbers]
        return numbers[keep], rows[keep]


class Family:
    """Parameters that share redundant directions: ``basis`` (numbers, directions), orthonormal.

    ``places`` is {parameter: the rows of the basis for its numbers}.  ``parts`` holds the
    same directions as `Part`s, no two of which share a number or a direction; they may be given
    in place of the basis.
    """

    def __init__(self, basis, places, parts=None):
        self.places, self.parts = places, parts
        if parts is None:
            self.basis = basis
            self.parts = [Part(basis, {n: (torch.arange(len(p)), p) for n, p in places.items()})]

    @classmethod
    def of(cls, matrices, sizes):
        """A family from {parameter: {group: matrix (numbers x coordinates)}}."""
        places = _placed(sizes)
        groups = _placed({g: g.size for m in matrices.values() for g in m})
        entries = [(places[n][i], groups[g][j], m[i, j]) for n in matrices
                   for g, m in matrices[n].items() for i, j in [m.nonzero(as_tuple=True)]]  # fmt: skip
        found = [*map(torch.cat, zip(*entries))]
        parts = _parts(found, places, groups) if entries else ()
        return cls(None, places, list(parts))

    @cached_property
    def basis(self):
        numbers = sum(map(len, self.places.values()))
        made = [torch.zeros(numbers, 0, dtype=torch.float64)]
        for part in self.parts:
            wide = torch.zeros(numbers, part.basis.shape[1], dtype=torch.float64)
            for name, (places, rows) in part.places.items():
                wide[self.places[name][places]] = part.basis[rows]
            made.append(wide)
        return torch.cat(made, 1)

    def rows(self, name, index=...):
        return self.basis[self.places[name][index]]

    def __len__(self):
        return sum(part.basis.shape[1] for part in self.parts)


def _placed(sizes):
    """{name: its places}, where all names of these sizes stand one after the other."""
    starts = itertools.accumulate(sizes.values(), initial=0)
    return {n: torch.arange(size) + start for (n, size), start in zip(sizes.items(), starts)}


def _parts(entries, places, groups):
    """Yield the parts of a sparse basis: its components, with small components joined."""
    row, column, value = entries
    shape = [sum(map(len, of.values())) for of in (places, groups)]
    mine, theirs = components(row, column, *shape)
    pieces: list[tuple] = [([], [])]
    for rows, columns in zip(mine, theirs):
        if len(pieces[-1][0]) > CHUNK:
            pieces.append(([], []))
        if columns:  # numbers without a column do not move
            pieces[-1][0].extend(rows)
            pieces[-1][1].extend(columns)
    of_row, of_column = (torch.full((size,), -1) for size in shape)
    for rows, columns in pieces:
        rows, columns = torch.tensor(sorted(rows)), torch.tensor(columns)
        of_row[rows], of_column[columns] = torch.arange(len(rows)), torch.arange(len(columns))
        inside = of_row[row] >= 0
        basis = torch.zeros(len(rows), len(columns), dtype=torch.float64)
        basis[of_row[row[inside]], of_column[column[inside]]] = value[inside]
        there = {n: (of_row[p] >= 0).nonzero()[:, 0] for n, p in places.items()}
        yield Part(basis, {n: (i, of_row[places[n][i]]) for n, i in there.items() if len(i)})
        of_row[rows] = -1


class NullSpace:
    """The redundant directions of some parameters; ``families`` is {name: its `Family`}."""

    def __init__(self, families: dict[Any, Family], shapes: dict[str, int]):
        self.families, self.shapes = families, shapes

    @classmethod
    def of(cls, moves: Moves) -> NullSpace:
        """The redundant directions that ``moves`` still contains."""
        matrices, made = moves.basis(), {}
        shapes = {n: moves.parameters[n].size for n in matrices}
        for names in _families(matrices):
            mine, sizes = ({n: of[n] for n in names} for of in (matrices, shapes))
            made.update(dict.fromkeys(names, Family.of(mine, sizes)))
        return cls(made, shapes)

    @classmethod
    def whole(cls, basis: torch.Tensor, shapes: dict[str, int]) -> NullSpace:
        """A space with one basis for the concatenated parameters; ``shapes`` is {name: size}."""
        return cls(dict.fromkeys(shapes, Family(basis, _placed(shapes))), shapes)

    def _each(self):
        return {id(f): f for f in self.families.values()}.values()

    def dense(self) -> torch.Tensor:
        """One basis for all parameters: (numbers, directions)."""
        made = []
        for family in self._each():
            rows = [family.rows(n) if n in family.places else family.basis.new_zeros(size, len(family))
                    for n, size in self.shapes.items()]  # fmt: skip
            made.append(torch.cat(rows))
        return torch.cat(made, 1)

    def fixing(self, names: Collection[str], of: str | None = None) -> NullSpace:
        """The directions that keep these parameters fixed, in all families or that of ``of``."""
        made = {}
        for family in self._each() if of is None else [self.families[of]]:
            fixed = Family(None, family.places, [_fixing(p, names) for p in family.parts])
            made.update(dict.fromkeys(family.places, fixed))
        return NullSpace(made, self.shapes)

    def __len__(self):
        return sum(map(len, self._each()))

    def together(self, name: Any, index: Any = ...) -> int:
        """How many directions of these numbers are redundant if other numbers may compensate."""
        return sum(_rank(part.rows(name, index)) for part in self.families[name].parts)

    def alone(self, name: Any, index: Any = ...) -> int:
        """How many directions of these numbers are redundant while all other numbers stay fixed."""
        return sum(_inside(part, (name, index)).shape[1] for part in self.families[name].parts)

    def move(self, name: Any, index: Any = ...) -> dict[Any, torch.Tensor]:
        """A random move {parameter: numbers} along all redundant directions of these numbers."""
        family = self.families[name]
        move = {n: torch.zeros(len(p), dtype=torch.float64) for n, p in family.places.items()}
        for seed, part in enumerate(family.parts):
            _, values, right = svd(part.rows(name, index))
            right = right[values > OUTSIDE]
            found = part.basis @ (right.T @ _drawn(len(right), seed))
            for n, (numbers, rows) in part.places.items():
                move[n][numbers] = found[rows]
        largest = move[name][index].abs().max()
        return {n: t / largest for n, t in move.items()}

    def apart(self, name: Any, index: Any = ...) -> list[dict[Any, torch.Tensor]]:
        """A random move of these numbers alone, split into its redundant part and the rest."""
        rest = torch.zeros(self.shapes[name], dtype=torch.float64)
        rest[index] = _drawn(len(rest[index]), 0)
        free = torch.zeros_like(rest)
        for part in self.families[name].parts:
            if name in part.places:
                numbers, rows = part.chosen(name, index)
                own = part.basis[rows] @ _inside(part, (name, index))
                free[numbers] = own @ (own.T @ rest[numbers])
        return [{name: t / t.abs().max().clamp(min=NOTHING)} for t in (free, rest - free)]

    def absorbers(self, name: Any, index: Any = ..., order: Iterable = ()) -> tuple:
        """A small set of parameters that can compensate every move that `together` counts.

        Single parameters are tried first, in the given ``order``; in a larger set, every parameter
        is needed.  Other numbers of the same parameter may also have to move.
        """
        goal, family, mine = self.together(name, index), self.families[name], (name, index)
        if goal == self.alone(name, index):
            return ()
        parts = [p for p in family.parts if len(p.rows(name, index))]
        others = [n for n in order or family.places if n in family.places and n != name]
        linked = [n for n in others if any(_linked(p.rows(name, index), p.rows(n)) for p in parts)]

        def makes_up(names):
            theirs = [(n, ...) for n in names]
            count = lambda part, *chosen: _inside(part, *chosen).shape[1]
            return goal == sum(count(p, mine, *theirs) - count(p, *theirs) for p in parts)

        for other in linked:
            if makes_up([other]):
                return (other,)
        rest, chosen = linked if makes_up(linked) else others, []
        if not makes_up(rest):  # other numbers of the same parameter must also move
            return tuple(linked)
        while not makes_up(chosen):  # the shortest sufficient prefix needs its last parameter
            last = bisect.bisect_left(
                range(len(rest)), True, key=lambda i: makes_up(chosen + rest[: i + 1])
            )
            rest, chosen = rest[:last], [*chosen, rest[last]]
        return tuple(n for n in others if n in chosen)


def _fixing(part, names):
    """A part, restricted to the directions that do not move these parameters."""
    fixed = [part.rows(n) for n in part.places if n in names]
    if not fixed:
        return part
    rows = torch.cat(fixed)
    _, values, right = svd(rows)
    moved = right[values > OUTSIDE].T
    free = torch.linalg.qr(moved, mode="complete").Q[:, moved.shape[1] :]
    return Part(part.basis @ free, part.places)


def _linked(rows, others):
    return bool(len(rows) and len(others) and (rows @ others.T).abs().max() > OUTSIDE)


def _inside(part, *chosen):
    """The directions of a part, in terms of its columns, that move only the chosen numbers."""
    there = torch.zeros(len(part.basis), dtype=torch.bool)
    for one in chosen:
        there[part.chosen(*one)[1]] = True
    rows = part.basis[there]
    wide = len(rows) < rows.shape[1]
    gram = rows @ rows.T if wide else rows.T @ rows
    if not len(gram) or not (torch.linalg.eigvalsh(gram) > NEAR).any():
        return rows.new_zeros(rows.shape[1], 0)
    squares, vectors = torch.linalg.eigh(gram)
    near = vectors[:, squares > NEAR]
    near = rows.T @ near if wide else near
    if there.all():
        return near
    _, values, right = svd(part.basis[~there] @ near, full=True)
    if ((values > NOTHING) & (values < SOMETHING)).any():
        raise Unclear(
            "a redundant direction moves another parameter so little that this may be a rounding error"
        )
    return near @ right[int((values > NOTHING).sum()) :].T


def _families(parts):
    """Tuples of parameters that share groups, directly or through other parameters."""
    family, first = {n: {n} for n in parts}, {}
    for name, blocks in parts.items():
        for group in blocks:
            members = family[first.setdefault(group, name)] | family[name]
            for n in members:
                family[n] = members
    return list(dict.fromkeys(tuple(n for n in parts if n in family[name]) for name in parts))


def _drawn(size, seed):
    return torch.randn(size, generator=torch.Generator().manual_seed(1 + seed), dtype=torch.float64)


def _rank(rows):
    """The number of directions in which the numbers of some rows move."""
    gram = rows @ rows.T if len(rows) < rows.shape[1] else rows.T @ rows
    squares = torch.linalg.eigvalsh(gram) if len(gram) else gram.new_zeros(0)
    if ((squares > 4 * OUTSIDE**2) & (squares < INSIDE**2)).any():
        raise Unclear(
            "a redundant direction moves a parameter so little that this may be a rounding error"
        )
    return int((squares > 4 * OUTSIDE**2).sum())
