"""What goes where: linear algebra on the space of redundant directions, and no theorem.

A fused bias has a piece for the queries, the keys and the values.  First the numbers are made zero
that no output depends on while all others stay, such as a key bias; then, piece by piece, those
that some other pieces make up for, as few as are found.  What is zero then stays zero.  In the end
what is left of a piece loses the part that no output depends on, such as the mean before a norm.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import torch

from .report import SYMBOLS
from .shift.freedom import INSIDE, OUTSIDE, Family, Freedom, Unclear

#: A move longer than this costs more digits than it is worth: the bias stays.
LONGEST = 1e4
#: What counts as zero beside one: the part of a bias that a move misses, and a square.
IN_RANGE, NOTHING = 1e-9, 1e-12
#: The kinds of pieces, in the order in which they go; "shifts" are those of norms.
KINDS = ("value", "query", "key", "other", "output", "shifts")


@dataclass(frozen=True)
class Row:
    """What became of a bias, or of a part of it.  ``verdict`` is "moved", "kept" or "refused".

    ``zeros`` counts its numbers that are zero now and were not before, and ``by`` says what that
    took.  ``price`` is what a bias costs that went into the weight beside it (`absorbing`).
    """

    verdict: str
    place: str
    constant: str
    text: str
    zeros: int = 0
    by: str = ""
    price: tuple = ()


@dataclass(frozen=True, eq=False)
class Piece:
    """Some numbers of a parameter that have one use; ``index`` says which."""

    name: str
    kind: str
    index: torch.Tensor

    @property
    def symbol(self):
        return SYMBOLS.get(self.kind) or {"shifts": "β", "statistic": "μ"}.get(self.kind, "b")


class Stays(Exception):
    """Why numbers stay; ``verdict`` is "kept" or "refused"."""

    def __init__(self, reason, verdict="refused"):
        super().__init__(reason)
        self.verdict = verdict


def pieces_of(found):
    """All numbers that may move, in pieces, in the order of their first use.

    A table of which only some rows were read does not move.  The mean that a norm keeps
    ("statistic") and a bias that is "made" for it only make up for others.
    """
    for name in found.numbers:
        rest = torch.zeros(found.numbers[name].numel(), dtype=torch.bool)
        for mask in found.met(name).values():
            rest = rest | mask
        if found.numbers[name].squeeze().dim() > 1 and not rest.all():
            continue
        for part, mask in found.parts.get(name, {}).items():
            if (mine := mask & rest).any():
                yield Piece(name, part, mine)
                rest = rest & ~mask
        if rest.any():
            yield Piece(name, found.kinds.get(name, "other"), rest)


class Choice:
    """Makes pieces zero, one after the other, in ``values`` {parameter: numbers}.

    Pieces that are not given stay as they are.  ``rows`` is the account, ``longest`` the length of
    the longest move, and ``held`` what no later move may undo.
    """

    def __init__(self, found, values, pieces, held=()):
        self.found, self.values = found, values
        self.freedom = Freedom(dict(_apart(found.freedom, pieces)), {})
        first = {"statistic": 0, "made": 2}  # statistics make up for others first, made biases last
        self.order = sorted(pieces, key=lambda p: first.get(p.kind, 1))
        self.rows, self.held, self.longest, self.refused = [], [], 0.0, {}
        for one in held:
            self._hold(*one)

    def go(self, pieces):
        """Make zero of these pieces what can be; `account` then says why the rest stays."""
        for step in (self._go_alone, self._go_together, self._go_in_part):
            for piece in pieces:
                try:
                    step(piece)
                except (Stays, Unclear) as reason:
                    self.refused[piece] = str(reason)

    def account(self, pieces):
        """The rows of all that became of these pieces."""
        return [*self.rows, *(self._kept(p) for p in pieces if self._of(p).any())]

    def _go_alone(self, piece):
        """Make the numbers of a piece zero that no output depends on."""
        whole = _whole(self._directions(piece)[0])
        if (goal := whole & (self._of(piece) != 0)).any():
            self._demand_short(self._of(piece)[goal])
            self._add(piece, 0, goal)
            self._write(piece, goal, "to nowhere", "alone", "erased", "seen")
        self._hold(piece, torch.eye(len(whole)).double()[:, whole])

    def _go_in_part(self, piece):
        """Take out of a piece the part that no output depends on."""
        free, b = self._directions(piece)[0], self._of(piece)
        mean = free.shape[1] == 1 and free.max() - free.min() < IN_RANGE
        free = torch.ones_like(free) / len(b) ** 0.5 if mean else free
        part, digits = free @ (free.T @ b), max(NOTHING, self.found.rounding * len(b) ** 0.5)
        if b.any() and part.abs().max() > digits * b.abs().max():
            self._demand_short(part)
            self._add(piece, -part)
            some = "its mean" if mean else f"{free.shape[1]} of {len(b)} dimensions"
            self._write(piece, part != 0, f"{some} to nowhere", "", "erased", "seen")
        self._hold(piece, free)

    def _go_together(self, piece):
        """Make all numbers of a piece zero that others make up for, and hold at zero what is.

        A norm's shift does not go into its statistic, which means nothing in training.
        """
        for other in self.order if piece.kind == "shifts" else ():
            if other.kind == "statistic":
                self._hold(other, torch.eye(int(other.index.sum())).double())
        try:
            reach = self._directions(piece)[1]
            goal = _whole(reach) & (self._of(piece) != 0)
            if goal.any():
                self._move(piece, goal)
        finally:
            zero = self._of(piece) == 0
            self._hold(piece, torch.eye(len(zero)).double()[:, zero])

    def _move(self, piece, goal):
        """Make these numbers zero by the shortest move of them and of what makes up for them."""
        family, b = self.freedom.families[piece], self._of(piece)
        others = self.freedom.absorbers(piece, goal, self.order)
        moving = torch.zeros(len(family.basis), dtype=torch.bool)
        for places in (family.places[piece][goal], *(family.places[p] for p in others)):
            moving[places] = True
        basis, rows = _meeting(family.basis, family.basis[~moving]), family.places[piece][goal]
        left, values, right = _svd(basis[rows])
        there = values > NOTHING
        move = basis @ (right[there].T @ ((left[:, there].T @ -b[goal]) / values[there]))
        missed = move[rows] + b[goal]
        if not missed.norm() <= IN_RANGE * b[goal].norm():
            raise Stays("no move of other biases makes up for it")
        self._demand_short(move)
        for one in others:
            self._add(one, move[family.places[one]])
        self._add(piece, 0, goal)
        named = (p.name + (" (new)" if p.kind == "made" else "") for p in others)
        by = "with " + " and ".join(sorted({p.symbol for p in others}))
        self._write(piece, goal, f"into {', '.join(dict.fromkeys(named))}", by, "passed")

    def _demand_short(self, move):
        if not move.norm() <= LONGEST:
            raise Stays(f"the move, {move.norm():.0e} long, costs more digits than it is worth")
        self.longest = max(self.longest, move.norm().item())

    def _kept(self, piece):
        """The row of what is left of a piece."""
        rest, verdict = self._of(piece) != 0, "kept"
        if why := self._because(piece, rest, "unknown", "corner") or self.refused.get(piece):
            verdict = "refused"
        elif (dimensions := self._directions(piece)[1].shape[1]) > 1:
            others = self.freedom.absorbers(piece, ..., self.order)
            names = ", ".join(dict.fromkeys(p.name for p in others))
            why = (f"{dimensions} of {len(rest)} dimensions could go into {names}, "
                   "and none of its numbers would be zero")  # fmt: skip
        else:
            some = "" if rest.all() else f"{int(rest.sum())} of {len(rest)} numbers: "
            why = self._because(piece, rest, "turned") or self._because(piece, rest, "seen", "bent")
            why = some + why
        return Row(verdict, piece.name, piece.symbol, why)

    # --- the numbers and their account

    def _of(self, piece):
        return self.values[piece.name].flatten()[piece.index]

    def _add(self, piece, move, zero=slice(0)):
        """Add a move to a piece's numbers, and make some of them zero exactly."""
        numbers, mine = self.values[piece.name].flatten().clone(), self._of(piece) + move
        mine[zero] = 0
        numbers[piece.index] = mine
        self.values[piece.name] = numbers.view_as(self.values[piece.name])

    def _write(self, piece, gone, where, by, *kinds):
        """Enter that these numbers have gone, and why they may: the event of these kinds."""
        why = next(filter(None, (self._because(piece, gone, k, proved=True) for k in kinds)), "")
        some = "" if gone.all() or not by else f"{int(gone.sum())} of {len(gone)} numbers "
        text = f"{some}{where}{why and ': '}{why}"
        zeros = int(gone.sum()) if by else 0
        self.rows.append(Row("moved", piece.name, piece.symbol, text, zeros, by))

    def _because(self, piece, mask, *kinds, proved=False):
        """The words of the event of these kinds (with a theorem, if ``proved``) that most met."""
        numbers, met = piece.index.nonzero()[:, 0][mask], Counter()
        for event, labels in self.found.met(piece.name).items():
            if event.kind in kinds and labels[numbers].any() and (event.theorem or not proved):
                met[event] += int(labels[numbers].sum())
        if not met:
            return ""
        event = met.most_common(1)[0][0]
        return f"{event.words} [{event.theorem}]" if event.theorem else event.words

    # --- the space of moves

    def _directions(self, piece):
        """Bases of the directions of a piece that go alone, and of those that go at all."""
        left, values, _ = _svd(self.freedom.families[piece].rows(piece))
        _demand_clear(values)
        return left[:, 1 - values < 4 * OUTSIDE**2], left[:, values > OUTSIDE]

    def _hold(self, piece, directions):
        """From now on a piece moves at right angles to some directions only."""
        family = self.freedom.families[piece]
        basis = _meeting(family.basis, directions.T @ family.rows(piece))
        family = Family(basis, family.places)
        self.freedom.families.update(dict.fromkeys(family.places, family))
        self.held.append((piece, directions))


def _meeting(basis, conditions):
    """The directions of a basis (numbers, directions) that meet some conditions on them."""
    if not len(conditions) or not basis.shape[1]:
        return basis
    _, values, right = _svd(conditions, full=True)
    _demand_clear(values)
    return basis @ right[int((values > OUTSIDE).sum()) :].T


def _svd(matrix, full=False):
    """The singular value decomposition; by way of the turned matrix, where the plain one fails."""
    try:
        return torch.linalg.svd(matrix, full_matrices=full)
    except torch.linalg.LinAlgError:
        chance = torch.Generator().manual_seed(0)
        turn = torch.randn(matrix.shape[1], matrix.shape[1], generator=chance, dtype=matrix.dtype)
        turn = torch.linalg.qr(turn).Q
        left, values, right = torch.linalg.svd(matrix @ turn, full_matrices=full)
        return left, values, right @ turn.T


def _whole(directions):
    """Which numbers can each be made any other along some directions (orthonormal columns)."""
    return directions.square().sum(1) > 1 - NOTHING


def _demand_clear(values):
    if ((values > OUTSIDE) & (values < INSIDE)).any():
        raise Unclear("it is not clear whether it can go: another bias hardly depends on it")


def _apart(freedom, pieces):
    """(piece, the `Family` in which it moves, its names the pieces)."""
    for family in {id(f): f for f in freedom.families.values()}.values():
        mine = [p for p in pieces if freedom.families[p.name] is family]
        if mine:
            rows = [family.places[p.name][p.index] for p in mine]
            order, still = torch.cat(rows), torch.ones(len(family.basis), dtype=torch.bool)
            still[order] = False
            ends = torch.arange(len(order)).split([len(r) for r in rows])
            basis = _meeting(family.basis, family.basis[still])[order]
            made = Family(basis, dict(zip(mine, ends)))
            yield from ((piece, made) for piece in mine)
