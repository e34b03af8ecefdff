"""What a space of redundant directions says of each parameter: linear algebra, and no theorem.

The space is a matrix N with orthonormal columns, one row for each number of the parameters.  Some
numbers P of a parameter

- go *alone* in as many directions as N has with no part outside of P,
- go *together* with others in as many as the rank of the rows P, and
- are *absorbed* by a set Q if moving Q makes up for all of them: if N restricted to P and Q has that rank.
"""

from __future__ import annotations

import itertools

import torch

#: A direction lies in a set of rows if the part of it outside is below the first number, and has a
#: part there if that is above the second.  None may lie between.  Squares of such parts are known up to
#: some hundred units of 2^-53.
OUTSIDE, INSIDE = 3e-7, 3e-6


class Unclear(ArithmeticError):
    """A direction has a part so small that it may be zero or not."""


class Freedom:
    """The redundant directions of some parameters: ``basis`` is (numbers, directions), orthonormal.

    ``places`` is {name: which rows of the basis are its numbers}, and ``families`` {name: (columns,
    names)} tells which directions touch a parameter at all, and whom else these touch.
    """

    def __init__(self, basis, places, families=None):
        self.basis, self.places = basis, places
        self.families = families or dict.fromkeys(places, (slice(None), tuple(places)))

    @classmethod
    def of(cls, moves):
        """Of the moves that a run has left: all their groups side by side."""
        parts, sizes = moves.basis(), moves.parameters
        groups = list(dict.fromkeys(g for blocks in parts.values() for g in blocks))
        starts = dict(zip(groups, itertools.accumulate((g.size for g in groups), initial=0)))
        rows = dict(zip(parts, itertools.accumulate((sizes[n].size for n in parts), initial=0)))
        places = {n: torch.arange(sizes[n].size) + start for n, start in rows.items()}
        basis = torch.zeros(sum(map(len, places.values())), sum(g.size for g in groups)).double()
        for name, blocks in parts.items():
            for group, matrix in blocks.items():
                basis[places[name], starts[group] : starts[group] + group.size] = matrix
        return cls(basis, places, dict(_families(parts, starts)))

    def __len__(self):
        return self.basis.shape[1]

    def _rows(self, name, index=..., columns=None):
        columns = self.families[name][0] if columns is None else columns
        return self.basis[self.places[name][index]][:, columns]

    def together(self, name, index=...):
        """How many directions of these numbers are redundant if others may make up for them."""
        rows = self._rows(name, index)
        return min(rows.shape) - _count(rows, 0.0)

    def alone(self, name, index=...):
        """How many are if all others stay as they are."""
        return _count(self._rows(name, index), 1.0)

    def move(self, name, index=...):
        """A random redundant move (numbers,) of length one, in all directions that touch these numbers."""
        rows = self.basis[self.places[name][index]]
        _, values, right = torch.linalg.svd(rows, full_matrices=False)
        right = right[values > OUTSIDE]
        move = self.basis @ (right.T @ _drawn(len(right)))
        return move / move[self.places[name][index]].abs().max()

    def against(self, name, index=...):
        """A random move of these numbers alone, and of none of them that goes alone."""
        mine = self.places[name][index]
        left, values, _ = torch.linalg.svd(self.basis[mine], full_matrices=False)
        free = left[:, 1 - values < OUTSIDE**2 * 4]
        drawn = _drawn(len(mine))
        move = torch.zeros(len(self.basis), dtype=torch.float64)
        move[mine] = drawn - free @ (free.T @ drawn)
        return move / move.abs().max()

    def absorbers(self, name, index=..., order=()):
        """A set of parameters, as small as is found, that make up for all that goes together.

        Tried are single ones, in the ``order`` given, then all but one after the other.
        """
        goal, (columns, family) = self.together(name, index), self.families[name]
        if goal == self.alone(name, index):
            return ()
        rows = self._rows(name, index)
        theirs = {n: self._rows(n, columns=columns) for n in order or family if n in family and n != name}
        linked = [n for n, r in theirs.items() if (rows @ r.T).abs().max() > OUTSIDE]
        makes_up = lambda others: _absorbed(rows, [theirs[n] for n in others]) == goal
        for other in linked:
            if makes_up([other]):
                return (other,)
        chosen = linked if makes_up(linked) else list(theirs)
        for other in reversed(list(chosen)):
            rest = [n for n in chosen if n != other]
            if makes_up(rest):
                chosen = rest
        return tuple(chosen)


def _absorbed(rows, others):
    """How many directions of some rows others make up for."""
    theirs = torch.cat(others) if others else rows[:0]
    return _count(torch.cat([rows, theirs]), 1.0) - _count(theirs, 1.0)


def _families(parts, starts):
    """(parameter, (columns, the parameters that share a direction with it, directly or not))."""
    family = {n: {n} for n in parts}
    for group in starts:
        members = set().union(*(family[n] for n, blocks in parts.items() if group in blocks))
        for n in members:
            family[n] = members
    for name, members in family.items():
        groups = dict.fromkeys(g for n in parts if n in members for g in parts[n])
        columns = [torch.arange(starts[g], starts[g] + g.size) for g in groups]
        columns = torch.cat(columns) if columns else torch.arange(0)
        yield name, (columns, tuple(n for n in parts if n in members))


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
