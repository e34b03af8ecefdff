"""Return a model that is equivalent to a given one and in which every bias that can move is zero.

    folded = fold(model, inputs)      # any module; or fold("a/checkpoint")
    print(folded)                     # what went where, what stayed, and why
    folded.model                      # compared with the given model before it is returned

The model runs in float64, and the operations of these runs determine how far biases may move.  The
moves are made on a copy and then verified: the outputs of both models are compared, and if they
differ, no model is returned.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from ..models.checkpoints import NoCheckpoint, load
from ..models.tiny import quiet
from ..tables import grouped, starred
from .choosing import GONE, KINDS, Outcome, move_biases
from .equality import Bench
from .one_move import CannotFold
from .removing import demand_loads_again, without_zeros
from .removing import remove as take_out
from .weights import absorb_into_weights, price_of


@dataclass(frozen=True)
class Folded:
    """An equal model, and what happened to its biases, which ``print`` shows as a table.

    Biases in ``moved`` are now zero, unless their row says otherwise; those in ``kept`` have an
    effect that no other parameter has; those in ``refused`` may be redundant, but their row says
    why they stay.  ``error`` is the relative difference of outputs in float64, at most
    ``bound``; ``rounding`` is the error (before, after) in the model's dtype, compared with
    float64.  ``removable`` lists, as (name, numbers, bytes), the biases that are now zero and that
    the model can do without; ``removed`` says whether they are deleted.  Caches and inner
    activations differ from those of the given model.
    """

    model: nn.Module
    rows: tuple[Outcome, ...]
    error: float
    bound: float
    rounding: tuple[float, float]
    removable: tuple[tuple[str, int, int], ...] = ()
    removed: bool = False

    moved = property(lambda self: [row for row in self.rows if row.verdict in GONE])
    kept = property(lambda self: [row for row in self.rows if row.verdict == "kept"])
    refused = property(lambda self: [row for row in self.rows if row.verdict == "refused"])

    def save(self, folder):
        """Save the model as a checkpoint from which ``from_pretrained`` restores this model.

        Raises CannotFold, and writes nothing, if a different model would be restored: a
        configuration may have no field for a bias that ``add_bias`` made, or for a new norm.
        """
        demand_loads_again(self.model)
        with quiet():
            self.model.save_pretrained(folder)  # type: ignore[operator]  # of transformers

    def __str__(self):
        lines = [*_table([*self.moved, *self.kept, *self.refused])]
        return "\n".join([*(lines or ["no bias can move"]), *self._counts()])

    def _counts(self):
        """Say how many numbers are now zero, by destination, and how many biases can be deleted."""
        zeros: Counter = Counter()
        for row in self.moved:
            zeros[row.constant, row.by] += row.zeros
        said = [f"{n} of {constant} ({by})" for (constant, by), n in zeros.items() if n]
        if said:
            yield f"{zeros.total()} numbers are now zero: " + ", ".join(said)
        if priced := [row for row in self.moved if row.price]:
            yield price_of(priced, next(self.model.parameters()).dtype)
        numbers = sum(count for _, count, _ in self.removable)
        size = sum(size for *_, size in self.removable)
        if numbers:
            what = "taken out" if self.removed else "remove=True would take out"
            yield f"{what}: {len(self.removable)} biases, {numbers} numbers, {size} bytes"


def _table(rows):
    """Yield lines of text; rows that differ only in a layer's number share a line."""
    alike = lambda row: (row.verdict, row.constant, starred(row.place), starred(row.text))
    for row, *others in grouped(rows, alike):
        place, text = alike(row)[2:] if others else (row.place, row.text)
        times = f" ({len(others) + 1} times)" if others else ""
        yield f"{row.verdict:8} {row.constant:4} {place}{times}: {text}"


def fold(
    model: nn.Module | str,
    inputs: Any = None,
    *,
    move: str | Sequence[str] = KINDS,
    into_weights: bool = False,
    add_bias: bool = False,
    remove: bool = False,
) -> Folded:
    """A `Folded`: an equal model in which every bias that can move has moved.

    ``model`` is a module, which is not changed, or the name or folder of a checkpoint; ``inputs``
    are a dict, a tuple or a tensor (by default, drawn at random).  The two models are compared at
    these inputs and at others made from them (`other_ways`), in the mode that the model is in, and
    only for queries that see a key: the weights of a query that sees none do not sum to one.

    ``move`` selects among the kinds "key", "value", "query", "other" (the biases of other maps),
    "output" and "shifts" (of norms); the kinds named first move first, into those named later.
    ``into_weights=True`` finally moves what is left of a bias (all of it, if ``move=()``) into its
    weight if the map reads a LayerNorm with a shift, and reports the cost.  ``add_bias=True`` gives
    a bias to a map that has none and needs one; if the configuration has no field for this bias,
    ``Folded.save`` refuses.  ``remove=True`` deletes biases that end up zero.

    Raises CannotFold with a reason, and NotEqual if outputs would change.
    """
    move = (move,) if isinstance(move, str) else move
    if not {*move} <= {*KINDS}:
        raise CannotFold(f"`move` may contain only {', '.join(KINDS)}, not {move!r}")
    try:
        model = model if isinstance(model, nn.Module) else load(model)
    except NoCheckpoint as reason:
        raise CannotFold(str(reason)) from None
    bench = Bench(model, inputs, inject=add_bias)
    with bench.open():
        if move:
            move_biases(bench, move)
        if into_weights:
            absorb_into_weights(bench)
    return finished(bench, remove)


def finished(bench: Bench, remove: bool = False) -> Folded:
    """Compare the two models of a bench and return the `Folded`; raises NotEqual if they differ."""
    error, bound = bench.error()
    made = bench.made()
    names = without_zeros(made, bench)
    sizes = {n: (p.numel(), p.numel() * p.itemsize) for n, p in made.named_parameters()}
    if remove:
        take_out(made, names)
    removable = tuple((n, *sizes[n]) for n in names)
    rounding = bench.rounding(made)
    return Folded(made, tuple(bench.rows), error, bound, rounding, removable, remove)
