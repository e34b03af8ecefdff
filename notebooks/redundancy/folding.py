"""Move every constant of a model that can move, and return an equal model without it.

    folded = fold(model)          # or fold("a/checkpoint")
    print(folded)                 # what went where, what stayed and why
    folded.model                  # equal to the model given: compared before it is returned

The moves are those of `surgery`.  They are done in float64, on a copy, and not taken on trust:
the outputs of the two models are compared, and where they differ nothing is returned
(`equality` states the bound).  The model returned is rounded to the dtype of the model given;
what that costs, and what rounding cost before, stands in ``rounding``.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from dataclasses import dataclass, field

import torch
from torch import nn

from .absorbing import absorb_into_weights, price_of
from .auditing import examine
from .checkpoints import NoCheckpoint, load
from .equality import (
    CannotFold,
    batches_for,
    constants_of,
    demand_equal,
    demand_loads_again,
    demand_rounding,
    demand_runs,
    in_float64,
    other_ways,
    outputs,
    sharing_matrices,
    with_constants,
)
from .inputs import WrongInputs, words_in
from .large import WORDS, CannotCarry, carried_over, is_large, small_like
from .layers import CannotRead, NoAttention, demand_values, find_attention, layers_of
from .precision import double_precision
from .removing import remove as take_out
from .removing import without_zeros
from .report import BIASES as BIAS_NAMES
from .surgery import Row, Stays, Surgeon
from .zoo import quiet

#: What it takes that numbers of a bias may go, as `report` names it.
HOW = {
    "b_K": "alone",
    "b_V": "jointly with b_O",
    "b_Q": "with the shift of the norm before",
}
#: What `fold` moves unless told otherwise.
BIASES = ("key", "value", "query", "second")


@dataclass(frozen=True)
class Folded:
    """An equal model and the account of its constants; ``print`` it for a table.

    ``moved`` are zero now (or what the row says of them); ``kept`` do something that no other
    constant can do; ``refused`` might have moved, but not in the model as it was given.
    ``error`` is the relative difference of outputs in float64, at most ``bound``; ``rounding``
    the error (before, after) in the dtype of the model, against float64.  ``zeroed`` counts the
    numbers of b_K, b_V and b_Q that are zero now; ``removable`` lists the biases that the model
    can do without, each (name, numbers, bytes), and ``removed`` says whether they are out.  Caches
    of keys and values, and the states between layers, are not the same.
    """

    model: nn.Module
    rows: tuple[Row, ...]
    error: float
    bound: float
    rounding: tuple[float, float]
    zeroed: dict = field(default_factory=dict)
    removable: tuple[tuple[str, int, int], ...] = ()
    removed: bool = False

    moved = property(lambda self: [row for row in self.rows if row.verdict == "moved"])
    kept = property(lambda self: [row for row in self.rows if row.verdict == "kept"])
    refused = property(lambda self: [row for row in self.rows if row.verdict == "refused"])

    def save(self, folder):
        """Save the model as a checkpoint from which ``from_pretrained`` makes this model again.

        Raises CannotFold where it would make another one: a configuration may have no word for a
        bias that ``add_bias`` made, or for another norm.  Nothing is written to the folder then.
        """
        demand_loads_again(self.model)
        with quiet():
            self.model.save_pretrained(folder)

    def __str__(self):
        lines = [*table(self.moved), *table(self.kept), *table(self.refused)]
        lines = lines or ["no bias that could move"]
        return "\n".join([*lines, *self._counts()])

    def _counts(self):
        """How many numbers are zero now, by what it took; and what may be taken out."""
        absorbed = Counter()
        for row in self.moved:
            absorbed[row.constant] += row.absorbed
        other = {name: n - absorbed[name] for name, n in self.zeroed.items()}
        said = [f"{n} of {name} {HOW[name]}" for name, n in other.items() if n]
        said += [f"{n} of {name} with the weight beside it" for name, n in absorbed.items() if n]
        if said:
            total = sum(other.values()) + absorbed.total()
            yield f"numbers now zero: {total}: " + ", ".join(said)
        if absorbed.total():
            dtype = next(self.model.parameters()).dtype
            yield price_of([row for row in self.moved if row.absorbed], dtype)
        numbers, size = (sum(r[i] for r in self.removable) for i in (1, 2))
        if numbers:
            what = "taken out" if self.removed else "remove=True takes out"
            yield f"{what}: {len(self.removable)} biases, {numbers} numbers, {size} bytes"


def fold(
    model,
    inputs=None,
    *,
    move=BIASES,
    into_weights=False,
    add_bias=False,
    remove=False,
    surgeon=Surgeon,
):
    """A `Folded`: an equal model in which every constant that can move has moved.

    ``model`` is a module, which is not changed, or the name or folder of a checkpoint.
    ``inputs`` is a dict of keyword arguments at which the two models are compared; drawn at
    random if left out.  Both times `other_ways` adds inputs that may take another way through
    the code, and where a norm has other readers there, its shift stays.  Equal means: in the
    mode (training or not) that the model is in, and for every query that may see a key; one
    that may see none, such as padding on the left, has no row of weights that sums to one.
    ``move`` chooses among "key", "value", "query", "second" (the second
    bias of a feed-forward network) and "shifts" (every norm's shift into what reads it, instead
    of "query" and "second", which need the shifts).  ``into_weights=True`` then puts every bias
    that is left and reads a LayerNorm with a shift into the weight beside it (`absorbing`), and
    says what that costs; ``move=()`` puts all of them there.  ``add_bias=True`` gives a bias to a Linear
    that has none and needs one; a configuration may have no word for it, and then
    ``Folded.save`` refuses.  ``remove=True`` takes biases that are zero then out of the model: by
    the word that the configuration has for it, or as ``bias=None``.  ``surgeon`` is the class that
    makes the moves: another may be tried, for what it returns is compared all the same.

    Raises CannotFold with a reason, and NotEqual where outputs would change.
    """
    move = _chosen(move, into_weights)
    try:
        model = model if isinstance(model, nn.Module) else load(model)
    except NoCheckpoint as reason:
        raise CannotFold(str(reason)) from None

    predicted = _carried_over(model) if isinstance(model, nn.Module) else None

    def operate(after, batches):
        at_work = surgeon(after, batches, move, add_bias, predicted)
        at_work.operate()
        if into_weights:
            with torch.no_grad():
                absorb_into_weights(at_work)
        return at_work.rows, at_work.longest

    return operated(model, inputs, operate, copied=sharing_matrices, remove=remove)


def _carried_over(model):
    """The predictions for a model too large to be run at random; None for others."""
    try:
        demand_values(model)
        layers = find_attention(model, demand=False)
        if not is_large(model, layers):
            return None
        with torch.random.fork_rng([]):
            return carried_over(layers, examine(small_like(model).model, None, True, "random", 0))
    except (CannotRead, TypeError) as reason:
        raise CannotFold(str(reason)) from None
    except (CannotCarry, WrongInputs):
        return None


def operated(
    model, inputs, operate, shaped=lambda model, after: model, copied=copy.deepcopy, remove=False
):
    """A `Folded`: the model after an operation on a float64 copy, if its outputs are the same.

    ``operate(after, batches)`` changes the copy and returns (rows, the longest shift moved);
    ``shaped(model, after)`` is the model given with the modules of the changed one, its
    constants still the old, and ``copied`` makes the copy that is changed.  Raises CannotFold with
    a reason, and NotEqual.
    """
    try:
        demand_values(model)
        words = WORDS if is_large(model, layers_of(model)) else None
        batches = batches_for(model, inputs, words)
        before = in_float64(model, max(words, words_in(((), batches[-1]), 0)) if words else None)
        after = copied(before)
        with double_precision():
            demand_runs(before, batches)
            batches = [*batches, *other_ways(before, batches)]
            rows, longest = operate(after, batches)
            error, bound = demand_equal(after, before, batches, longest)
            expected = outputs(before, batches[0])
    except (CannotRead, NoAttention, Stays) as reason:
        raise CannotFold(str(reason)) from None
    constants, like = constants_of(after, before), shaped(model, after)
    del before, after  # a large model is there twice at most
    made = with_constants(like, constants)
    absorbed = {f"{row.place}.bias" for row in rows if row.absorbed and row.constant == "bias"}
    names, words = without_zeros(made, absorbed)
    sizes = {n: (p.numel(), p.numel() * p.itemsize) for n, p in made.named_parameters()}
    if remove:
        take_out(made, names, words)
    rounding = demand_rounding(made, model, expected, batches[0])
    zeroed = _zeroed(model, made)
    removed = tuple((n, *sizes[n]) for n in names)
    return Folded(made, tuple(rows), error, bound, rounding, zeroed, removed, remove)


def _zeroed(model, made):
    """{constant: how many of its numbers are zero now, or gone, and were not before}."""
    counts = dict.fromkeys(("b_K", "b_V", "b_Q"), 0)
    for old, new in zip(layers_of(model), layers_of(made)):
        for role in ("query", "key", "value"):
            before, after = old.projections[role].bias(), new.projections[role].bias()
            if before is not None:
                zero = torch.ones_like(before) if after is None else after == 0
                counts[BIAS_NAMES[role]] += int(((before != 0) & (zero != 0)).sum())
    return counts


def table(rows):
    """Lines of text; rows that differ by the number of a layer only are one."""
    groups = {}
    for row in rows:
        place, text = (
            re.sub(r"(?<=[a-z]\.)\d+\b|\b\d+(?=\.[a-z])", "*", part)
            for part in (row.place, row.text)
        )
        groups.setdefault((row.verdict, row.constant, place, text), []).append(row)
    lines = []
    for (verdict, constant, place, text), some in groups.items():
        times = f" ({len(some)} times)" if len(some) > 1 else ""
        lines.append(f"{verdict:8} {constant:5} {place}{times}: {text}")
    return lines


def _chosen(move, into_weights):
    several = isinstance(move, list | tuple | set | frozenset)
    move = tuple(move) if several else (move,)
    unknown = [name for name in move if name not in (*BIASES, "shifts")]
    if unknown or not (move or into_weights):
        raise CannotFold(f"move takes some of {', '.join(BIASES)}, shifts; not {unknown or move}")
    if "shifts" in move and {"query", "second"} & {*move}:
        raise CannotFold("query and second go into the shifts, so shifts cannot go as well")
    return move
