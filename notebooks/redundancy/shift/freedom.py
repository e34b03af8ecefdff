"""What a space of redundant directions says of each parameter: linear algebra, and no theorem.

The space is a matrix N with orthonormal columns, one row for each number of the parameters.  Some
numbers P of a parameter

- go *alone* in as many directions as N has with no part outside of P,
- go *together* with others in as many as the rank of the rows P, and
- are *absorbed* by a set Q if moving Q makes up for all of them: if N restricted to P and Q has that rank.
"""

from __future__ import annotations

import torch

#: A direction lies in a set of rows if the part of it outside is below the first number, and has a
#: part there if that is above the second.  None may lie between.
OUTSIDE, INSIDE = 1e-6, 1e-4


class Unclear(ArithmeticError):
    """A direction has a part so small that it may be zero or not."""


class Freedom:
    """The redundant directions of some parameters: ``basis`` is (numbers, directions), orthonormal.

    ``places`` is {name: which rows of the basis are its numbers}.
    """

    def __init__(self, basis, places):
        self.basis, self.places = basis, places
        self.grams = {n: basis[i].T @ basis[i] for n, i in places.items()}

    @classmethod
    def of(cls, moves):
        """Of the moves that a run has left: all their groups side by side."""
        parts, start = moves.basis(), 0
        groups, places = {}, {}
        for blocks in parts.values():
            for group in blocks:
                if group not in groups:
                    groups[group] = slice(start, start + group.size)
                    start += group.size
        rows = []
        for name, blocks in parts.items():
            size = moves.parameters[name].size
            row = torch.zeros(size, start, dtype=torch.float64)
            for group, matrix in blocks.items():
                row[:, groups[group]] = matrix
            places[name] = torch.arange(size) + sum(map(len, rows))
            rows.append(row)
        return cls(torch.cat(rows), places)

    def __len__(self):
        return self.basis.shape[1]

    def together(self, name, index=...):
        """How many directions of these numbers are redundant if others may make up for them."""
        return len(self) - _count(self._gram(name, index), 0.0)

    def alone(self, name, index=...):
        """How many are if all others stay as they are."""
        return _count(self._gram(name, index), 1.0)

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
        goal, mine = self.together(name, index), self._gram(name, index)
        if goal == self.alone(name, index):
            return ()
        moving = [n for n in order or self.places if n != name and self.grams[n].abs().max() > OUTSIDE**2]
        linked = [n for n in moving if (mine @ self.grams[n]).abs().max() > OUTSIDE**2]
        for other in linked:
            if self._absorbed(mine, (other,)) == goal:
                return (other,)
        chosen = list(linked) if self._absorbed(mine, linked) == goal else moving
        for other in reversed(list(chosen)):
            rest = [n for n in chosen if n != other]
            if self._absorbed(mine, rest) == goal:
                chosen = rest
        return tuple(chosen)

    def _absorbed(self, mine, others):
        """How many directions of some numbers a set of parameters makes up for."""
        theirs = sum((self.grams[n] for n in others), torch.zeros_like(mine))
        return _count(mine + theirs, 1.0) - _count(theirs, 1.0)

    def _gram(self, name, index):
        if index is ...:
            return self.grams[name]
        rows = self.basis[self.places[name][index]]
        return rows.T @ rows


def _drawn(size):
    return torch.randn(size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def _count(gram, value):
    """How many squared cosines are ``value``, zero or one."""
    if not len(gram):
        return 0
    apart = (torch.linalg.eigvalsh(gram) - value).abs()
    if ((apart > OUTSIDE**2 * 4) & (apart < INSIDE**2)).any():
        raise Unclear("a direction has so small a part in a parameter that it may be none")
    return int((apart < OUTSIDE**2 * 4).sum())
