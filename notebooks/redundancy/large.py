"""A model too large for its Jacobian: ranks on a small one like it, finite moves on itself.

The Jacobian of GPT-2 small by its attention biases has 36,864 columns.  Which directions are
redundant is therefore predicted and counted on a small model of the same structure (`shrinking`:
the same classes, switches and ratios), and carried over: all of a bias, nothing, the mean, the
same share of every head, or what W_O does not show.  On the model itself, in float64 with its own
or with random weights, each bias is then moved a finite way: along all that is called redundant,
which no output may show, and along the rest, which an output must show.

One copy of the model is made, in float64, its tables of words cut to those that the inputs use:
with the model given, 12 bytes for each number in it, and 8 while it is drawn anew.
"""

from __future__ import annotations

import copy
import re
from dataclasses import replace

import torch
from torch import nn

from .layers import demand_values, find_attention, find_others, layers_of
from .measure import SEEN, UNSEEN
from .precision import plainly_attending, with_every_bias_random, with_every_weight_random
from .record import run, tensors
from .scores import are_means
from .shrinking import CannotShrink, kind_of, plain, shrink

#: A model with more numbers in its attention biases than this is large.
LARGE = 6000
#: Tables with more words than this are cut.
WORDS = 512


class CannotCarry(ValueError):
    """What was found on a small model says nothing certain about the large one; says why."""


def is_large(model, layers):
    """Whether a model is too large for its Jacobian, and there is a small one like it."""
    count = sum(p.size for layer in layers for p in layer.projections.values())
    return count > LARGE and hasattr(model, "config") and not find_others(model)


def small_like(model, seed=0):
    """The `Shrunk` model with the structure of this one; raises CannotCarry."""
    try:
        return shrink(model.config, seed, full=model)
    except CannotShrink as reason:
        raise CannotCarry(str(reason)) from None


# --- the copy ---------------------------------------------------------------------------------


def lean_copy(model, words):
    """A float64 copy in eval mode whose tables of words are cut, if they are longer than that.

    No parameter is there twice: each is made in float64 at once.
    """
    demand_values(model)
    table = model.get_input_embeddings()
    rows = len(table.weight) if isinstance(table, nn.Embedding) else 0
    memo = {}
    for parameter in model.parameters():
        value = parameter.detach()
        if rows > words and len(value) == rows:
            value = value[:words]
        memo[id(parameter)] = nn.Parameter(value.double(), requires_grad=False)
    copied = copy.deepcopy(model, memo).double().eval()
    for module in copied.modules():
        if isinstance(module, nn.Embedding):
            module.num_embeddings = len(module.weight)
        elif isinstance(module, nn.Linear):
            module.out_features = len(module.weight)
    return plainly_attending(copied)


def generic_lean_copy(model, words, seed, weights):
    """The `lean_copy` with a bias wherever attention has none, all at random; see `generic_copy`."""
    copied = lean_copy(model, words)
    for layer in find_attention(copied):
        for projection in layer.projections.values():
            projection.inject_bias()
    if weights:
        with_every_weight_random(copied, seed)
    return with_every_bias_random(copied, seed)


# --- what is carried over ---------------------------------------------------------------------


def twins(layers, small):
    """The layer of the small model that each layer of the large one is like; raises CannotCarry.

    Of layers of one kind the last is like the last, and all others are like the first.
    """
    known = {}
    for layer in small:
        known.setdefault((plain(layer.name), kind_of(layer.module)), []).append(layer)
    places = [(plain(layer.name), kind_of(layer.module)) for layer in layers]
    for place, layer in zip(places, layers):
        if place not in known:
            raise CannotCarry(f"no layer of the small model is like {layer.name}")
    last = {place: i for i, place in enumerate(places)}
    return [known[place][-1 if last[place] == i else 0] for i, place in enumerate(places)]


def carried(found, layer, small):
    """The `Prediction` for a bias of a large layer, from that for its twin.

    Its ``dimension`` is None, with a reason, where the answer has no form that carries over.
    """
    projection = layer.projections[found.role]
    made = replace(found, layer=layer.name, size=projection.size, directions=None)
    made = replace(made, why=tuple(_at_size(why, found, made, layer, small) for why in found.why))
    if found.dimension is None or found.dimension == 0:
        none = found.directions is not None
        return replace(made, directions=torch.zeros(0, made.size).double()) if none else made
    if found.dimension == found.size:
        return replace(made, dimension=projection.size, directions=_whole(found, projection))
    if found.role == "value" and found.directions is None:
        hidden = small.output.size - (found.size - found.dimension)
        return replace(made, dimension=max(0, made.size - layer.output.size + hidden))
    directions = _scaled(found, layer, small)
    if directions is None:
        why = "part of it is redundant on a small model, and it is not clear which part here"
        return replace(made, dimension=None, why=(*found.why, why))
    return replace(made, dimension=len(directions), directions=directions)


def _at_size(sentence, found, made, layer, small):
    """A sentence that counts dimensions of a small head, with those of a large one."""
    if "per head" in sentence:
        times = made.size * small.key_value_heads // (found.size * layer.key_value_heads)
        return re.sub(r"\d+", lambda number: str(times * int(number[0])), sentence)
    if sentence.startswith("W_O shows"):
        seen = layer.output.size - (small.output.size - (found.size - found.dimension))
        return f"W_O shows {seen} of its {made.size} directions"
    return sentence


def _whole(found, projection):
    return None if found.role == "value" else torch.eye(projection.size, dtype=torch.float64)


def _scaled(found, layer, small):
    """A basis at full size: the mean of all or of each head, or the same share of each head."""
    basis, size = found.directions, layer.projections[found.role].size
    if basis is None:
        return None
    heads = {"query": layer.heads, "key": layer.key_value_heads}.get(found.role, 1)
    few = {"query": small.heads, "key": small.key_value_heads}.get(found.role, 1)
    if are_means(basis) and len(basis) in (1, few):
        parts = 1 if len(basis) == 1 and few != heads else heads if len(basis) == few else 1
        one = torch.eye(parts, dtype=torch.float64).repeat_interleave(size // parts, 1)
        return one / one.norm(dim=1, keepdim=True)
    share = (basis.T @ basis).diagonal().view(few, -1)
    kept, (times, rest) = share > 0.5, divmod(size // heads, found.size // few)
    plain_axes = ((share - kept.to(share)).abs() < 1e-9).all() and (kept == kept[0]).all()
    if not plain_axes or rest:
        return None
    chosen = kept[0].repeat_interleave(times).repeat(heads)
    return torch.eye(size, dtype=torch.float64)[chosen]


# --- finite moves -----------------------------------------------------------------------------


class Moves:
    """Finite moves of the biases of a model, and by how much they change what it returns."""

    def __init__(self, model, inputs):
        self.model, self.inputs, self.silent = model, inputs, False
        with torch.no_grad():
            self.base = self._outputs({})
        self.noise = max(max(p.shape) for p in model.parameters()) * torch.finfo(torch.float64).eps

    def _outputs(self, shifts):
        shifts = {p: shift.to(p.biases.parameter.device) for p, shift in shifts.items()}
        return torch.cat([t.flatten() for t in tensors(run(self.model, self.inputs, shifts))])

    def change(self, shifts):
        """How far the outputs move, relative to the largest; ``shifts`` by projection."""
        with torch.no_grad():
            moved = self._outputs(shifts) - self.base
        return (moved.abs().max() / self.base.abs().max()).item()

    def listen(self, asked):
        """Move all that is redundant in all layers at once; what no output shows is not asked again.

        ``asked`` are (layer, prediction, foldable).  A function that does not change along a random
        move of everything does not, but for chance, change along a part of it.
        """
        together = {}
        for layer, found, foldable in asked:
            for projection, shift in (_moves(layer, found, foldable)[0] or {}).items():
                together[projection] = together.get(projection, 0) + shift
        self.silent = not together or self.change(together) < self.noise

    def confirm(self, layer, found, foldable):
        """None if outputs show the rest of a bias and not what is redundant; a sentence if not."""
        redundant, rest = _moves(layer, found, foldable)
        loud = self.change(rest) if rest else 1.0
        hidden = max(UNSEEN * min(loud, 1.0), self.noise)
        if redundant and not self.silent and not self.change(redundant) < hidden:
            return "a finite move along what is called redundant changes the outputs"
        if rest and not loud > hidden * SEEN / UNSEEN:
            return "a finite move along what is called seen changes no output"
        return None


def _drawn(size):
    generator = torch.Generator().manual_seed(1)
    return torch.randn(size, generator=generator, dtype=torch.float64)


def _moves(layer, found, foldable):
    """Shifts along what is redundant of a bias, and along the rest; None where there is neither."""
    projection = layer.projections[found.role]
    drawn = _drawn(found.size)
    if found.role == "value" and foldable and found.dimension == found.size:
        return {projection: drawn, layer.output: -_shown(layer) @ drawn}, {projection: drawn}
    if found.role == "value" and found.dimension:
        along = _not_shown(layer, found.dimension, drawn)
    elif found.dimension == 0:
        along = torch.zeros_like(drawn)
    else:
        along = found.directions.T @ (found.directions @ drawn)
    rest = drawn - along if found.dimension < found.size else None
    return (
        {projection: along} if found.dimension else None,
        None if rest is None else {projection: rest},
    )


def _shown(layer):
    """W_O as it acts on the value bias, (out x size of the bias): shared heads are added up."""
    weight = layer.output.weight().cpu()
    heads = weight.view(len(weight), layer.key_value_heads, layer.group, layer.value_dim)
    return heads.sum(2).flatten(1)


def _not_shown(layer, dimension, drawn):
    """The part of a vector in the directions that W_O shows least, or as a mean only."""
    shown = _shown(layer)
    if dimension > max(0, shown.shape[1] - shown.shape[0]):
        shown = shown - shown.mean(0)
    right = torch.linalg.svd(shown, full_matrices=True).Vh[-dimension:]
    return right.T @ (right @ drawn)


def carried_over(layers, examined):
    """{(layer, role): Prediction} for a large model, from the audit of a small one."""
    small = examined.layers
    stored = layers_of(examined.model)
    for true, read in zip(small, stored):
        for role, p in read.projections.items():
            if not torch.equal(p.biases.rows, true.projections[role].biases.rows):
                raise CannotCarry(f"the rows of {p.bias_name} are not where its class keeps them")
    found = {}
    for layer, twin in zip(layers, twins(layers, small)):
        for role in layer.projections:
            answer = examined.predictions[twin.name, role]
            found[layer.name, role] = carried(answer, layer, twin)
    return found
