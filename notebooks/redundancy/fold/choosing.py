"""Decide which biases move where, by linear algebra on the space of redundant directions.

A `Piece` is all or part of a bias: a fused bias has one each for queries, keys and values.
First, numbers on which no output depends, such as a key bias, become zero.  Then, piece by piece,
numbers for which a few other pieces can compensate become zero, too.  Zeros stay zero.  Last, each
piece loses the part on which no output depends, such as the mean before a norm.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from ..audit.report import SYMBOLS
from ..measure.inputs import variations
from ..measure.nullity import svd
from ..shift.following import follow
from ..shift.null_space import INSIDE, OUTSIDE, Family, NullSpace, Unclear
from ..tables import listed
from .equality import runs
from .one_move import CannotFold, Steps

#: The longest permitted move: a longer one would cost too much precision, so the bias stays.
LONGEST = 1e4
#: The largest share of a bias that may remain after a move, and the largest number that counts
#: as zero.
IN_RANGE, NOTHING = 1e-9, 1e-12
#: The kinds of pieces, in the order in which they are moved; "shifts" are those of norms.
KINDS = ("value", "query", "key", "other", "output", "shifts")
#: The verdicts on numbers that are zero afterwards.
GONE = ("moved", "removed")


@dataclass(frozen=True)
class Outcome:
    """What happened to a bias, or to a part of it.

    ``verdict`` is "moved" (elsewhere), "removed" (no output depends on it), "kept" or "refused".
    ``zeros`` counts the numbers that became zero; ``by`` is "alone", or says what absorbed them.
    ``price`` is the cost of moving a bias into its weight (`weights`).
    """

    verdict: str
    place: str
    constant: str
    text: str
    zeros: int = 0
    by: str = ""
    price: tuple = ()


class Stays(Exception):
    """Raised with the reason why numbers stay."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Numbers of a parameter that are used in the same way; ``index`` selects them."""

    name: str
    kind: str
    index: torch.Tensor

    @property
    def symbol(self) -> str:
        return SYMBOLS.get(self.kind) or {"shifts": "β", "statistic": "μ"}.get(self.kind, "b")


def split(name, mask, parts, kind="other"):
    """Yield a `Piece` for each part of attention in a mask, and one for the rest of the mask."""
    for part, its in (*parts.items(), (kind, mask)):
        if (mine := its & mask).any():
            yield Piece(name, part, mine)
            mask = mask & ~its


def variants(subject, calls):
    """Yield runs without end: one on all ``calls``, then each on new inputs like one of them."""
    yield lambda: [out for call in calls for out in subject.run(call)]
    others = [itertools.islice(variations(subject.model, c, subject.seed), 1, None) for c in calls]
    for seed, like in enumerate(itertools.cycle(others), 1):
        call = next(like)
        call = call if runs(subject, call, seed) else calls[0]
        yield lambda call=call, seed=seed: subject.run(call, seed=seed)


def move_biases(bench, kinds: Iterable[str]) -> None:
    """Make the biases of these kinds zero, in this order, as far as possible."""
    try:
        Choice(bench).go(kinds)
    except Unclear as reason:
        raise CannotFold(f"it is unclear which biases are redundant: {reason}") from None


class Choice:
    """Makes the biases of a bench's model zero, one piece after the other, as its runs allow."""

    def __init__(self, bench):
        self.bench, self.subject, self.refused = bench, bench.after, {}
        subject, calls = bench.after, bench.calls
        roles = [subject.roles(call) for call in calls]
        names = dict.fromkeys(name for one in roles for name in one.added)
        self.run = follow(variants(subject, calls), {n: subject.tensors[n] for n in names})
        if self.run.unclear:
            raise Unclear(self.run.unclear)
        parts = {n: part for one in reversed(roles) for n, part in one.parts.items()}
        shifts = {name for call in calls for name in Steps(subject, call).shifts()}
        own = {name for name, _ in subject.model.named_parameters()}
        kinds = {n: "other" if n in own else "statistic" for n in names}
        kinds |= dict.fromkeys(shifts, "shifts") | dict.fromkeys(subject.injected, "made")
        self.pieces = [p for n in names for p in self._pieces(n, parts.get(n, {}), kinds[n])]
        self.space = NullSpace(_by_piece(NullSpace.of(self.run.moves), self.pieces), {})
        first = {"statistic": 0, "made": 2}  # statistics compensate first, new biases last
        self.order = sorted(self.pieces, key=lambda p: first.get(p.kind, 1))

    def _pieces(self, name, parts, kind):
        """The pieces of a parameter that contain numbers which some operation used.

        A table of which only some rows were read has no pieces, so it does not move.  A norm's
        stored mean ("statistic") or a new bias ("made") only compensates for other pieces.
        """
        used, tensor = self.run.used[name], self.subject.tensors[name]
        return split(name, used, parts, kind) if tensor.squeeze().dim() < 2 or used.all() else ()

    def go(self, kinds):
        """Make as many pieces of these kinds zero as possible; record what happened, and why."""
        pieces = [piece for kind in kinds for piece in self.pieces if piece.kind == kind]
        for step in (self._go_alone, self._go_together, self._go_in_part):
            for piece in pieces:
                try:
                    step(piece)
                except Stays as reason:
                    self.refused[piece] = str(reason)
                except Unclear as reason:
                    self.refused[piece] = f"it is not clear whether it can go: {reason}"
        self.bench.rows += [self._kept(p) for p in pieces if self._of(p).any()]

    def _go_alone(self, piece):
        """Make zero the numbers of a piece on which no output depends."""
        self._erase(piece, _axes(_whole(self._directions(piece)[0])), by="alone")

    def _go_in_part(self, piece):
        """Remove from a piece the part on which no output depends, if it exceeds rounding noise."""
        free, some = self._directions(piece)[0], "{1} of {0} dimensions"
        if free.shape[1] == 1 and free.max() - free.min() < IN_RANGE:
            free, some = torch.ones_like(free) / len(free) ** 0.5, "its mean"
        least = max(NOTHING, torch.finfo(self.bench.like.dtype).eps * len(free) ** 0.5)
        self._erase(piece, free, some.format(*free.shape), least=least)

    def _erase(self, piece, free, some="", by="", least=0.0):
        """Subtract from a piece its part along ``free``, and let no later move restore it."""
        b = self._of(piece)
        part = free @ (free.T @ b)
        if part.abs().max() > least * b.abs().max():
            self._demand_short(part)
            self._add(piece, -part)
            self._write("removed", piece, part != 0, some, by, "erased", "seen")
        self._hold(piece, free)

    def _go_together(self, piece):
        """Make zero all numbers of a piece that other pieces can compensate for; zeros stay zero.

        A norm's shift does not move into a stored mean, which is not used in training.
        """
        for other in self.order if piece.kind == "shifts" else ():
            if other.kind == "statistic":
                self._hold(other, torch.eye(len(self._of(other))).double())
        try:
            goal = _whole(self._directions(piece)[1]) & (self._of(piece) != 0)
            if goal.any():
                self._move(piece, goal)
        finally:
            self._hold(piece, _axes(self._of(piece) == 0))

    def _move(self, piece, goal):
        """Make these numbers zero by the shortest move in which other pieces compensate."""
        family, b = self.space.families[piece], self._of(piece)
        others = self.space.absorbers(piece, goal, self.order)
        moving = torch.zeros(len(family.basis), dtype=torch.bool)
        for places in (family.places[piece][goal], *(family.places[p] for p in others)):
            moving[places] = True
        basis, rows = _meeting(family.basis, family.basis[~moving]), family.places[piece][goal]
        left, values, right = svd(basis[rows])
        there = values > NOTHING
        move = basis @ (right[there].T @ ((left[:, there].T @ -b[goal]) / values[there]))
        if not (move[rows] + b[goal]).norm() <= IN_RANGE * b[goal].norm():
            raise Stays("no move of other biases makes up for it")
        self._demand_short(move)
        for one in others:
            self._add(one, move[family.places[one]])
        self._add(piece, 0, goal)
        named = (p.name + (" (new)" if p.kind == "made" else "") for p in others)
        by = "into " + listed(sorted({p.symbol for p in others}))
        self._write("moved", piece, goal, f"into {listed(dict.fromkeys(named))}", by, "passed")

    def _demand_short(self, move):
        if not move.norm() <= LONGEST:
            raise Stays(f"a move of length {move.norm():.0e} would cost too much precision")
        self.bench.longest = max(self.bench.longest, move.norm().item())

    # --- changing numbers, and reporting the changes

    def _of(self, piece):
        return self.subject.tensors[piece.name].flatten()[piece.index]

    def _add(self, piece, move, zero=slice(0)):
        """Add a move to a piece's numbers, and set those that ``zero`` selects to exactly 0."""
        tensor, mine = self.subject.tensors[piece.name], self._of(piece) + move
        mine[zero] = 0
        tensor.data = tensor.masked_scatter(piece.index.view_as(tensor), mine)

    def _write(self, verdict, piece, gone, where, by, *kinds):
        """Append an `Outcome`; its reason is an event of the first kind that occurred."""
        why = next(filter(None, (self._because(piece, gone, k, proved=True) for k in kinds)), "")
        why = re.sub(r"cancels only [^\[]*\b", "cancels it", why)
        zeros = int(gone.sum()) if by else 0
        some = "" if gone.all() or not by else f"{zeros} of {len(gone)} numbers"
        text = ": ".join(filter(None, (" ".join(filter(None, (some, where))), why)))
        self.bench.rows.append(Outcome(verdict, piece.name, piece.symbol, text, zeros, by))

    def _kept(self, piece):
        """The `Outcome` for the numbers of a piece that are still nonzero."""
        rest, verdict = self._of(piece) != 0, "kept"
        if why := self._because(piece, rest, "unknown", "corner") or self.refused.get(piece):
            verdict = "refused"
        elif (dimensions := self._directions(piece)[1].shape[1]) > 1:
            others = self.space.absorbers(piece, ..., self.order)
            names = listed(dict.fromkeys(p.name for p in others))
            why = (f"{dimensions} of {len(rest)} dimensions could go into {names}, "
                   "but that would make none of its numbers zero")  # fmt: skip
        else:
            some = "" if rest.all() else f"{int(rest.sum())} of {len(rest)} numbers: "
            why = self._because(piece, rest, "turned") or self._because(piece, rest, "seen", "bent")
            why = some + why
        return Outcome(verdict, piece.name, piece.symbol, why)

    def _because(self, piece, mask, *kinds, proved=False):
        """The event with the most numbers in ``mask``, in words; if ``proved``, with a theorem."""
        numbers = piece.index.nonzero()[:, 0][mask]
        labels = {
            e: masks[piece.name] for e, masks in self.run.labels.items() if piece.name in masks
        }
        met = {e: int(mask[numbers].sum()) for e, mask in labels.items() if e.kind in kinds}
        met = {e: n for e, n in met.items() if n and (e.theorem or not proved)}
        event = max(met, key=met.__getitem__, default=None)
        theorem = f" [{event.theorem}]" if event and event.theorem else ""
        return f"{event.words}{theorem}" if event else ""

    # --- the space of moves

    def _directions(self, piece):
        """Bases of a piece's directions: those that are redundant alone, and all redundant ones."""
        left, values, _ = svd(self.space.families[piece].rows(piece))
        _demand_clear(values)
        return left[:, 1 - values < 4 * OUTSIDE**2], left[:, values > OUTSIDE]

    def _hold(self, piece, directions):
        """Restrict the moves of a piece to those orthogonal to ``directions``."""
        family = self.space.families[piece]
        basis = _meeting(family.basis, directions.T @ family.rows(piece))
        family = Family(basis, family.places)
        self.space.families.update(dict.fromkeys(family.places, family))


def _axes(mask):
    """The unit vectors of the selected numbers, as columns."""
    return torch.eye(len(mask), dtype=torch.float64)[:, mask]


def _whole(directions):
    """A mask of the numbers whose unit vectors lie in the span of ``directions`` (orthonormal)."""
    return directions.square().sum(1) > 1 - NOTHING


def _meeting(basis, conditions):
    """The combinations of a basis's columns that satisfy the ``conditions``, as a new basis."""
    if not len(conditions) or not basis.shape[1]:
        return basis
    _, values, right = svd(conditions, full=True)
    _demand_clear(values)
    return basis @ right[int((values > OUTSIDE).sum()) :].T


def _demand_clear(values):
    if ((values > OUTSIDE) & (values < INSIDE)).any():
        raise Unclear(
            "a redundant direction moves another bias so little that this may be a rounding error"
        )


def _by_piece(space, pieces):
    """{piece: its `Family`}; in these families, pieces stand in for parameter names."""
    made = {}
    for family in {id(f): f for f in space.families.values()}.values():
        mine = [p for p in pieces if space.families[p.name] is family]
        places = {p: family.places[p.name][p.index] for p in mine}
        still = torch.ones(len(family.basis), dtype=torch.bool)
        for rows in places.values():
            still[rows] = False
        if mine:
            basis = _meeting(family.basis, family.basis[still])
            made |= dict.fromkeys(mine, Family(basis, places))
    return made
