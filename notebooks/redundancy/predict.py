"""Which directions of an attention layer's biases are redundant, and why, before any number.

    for prediction in predict(model, inputs):       # a float64 copy, see `precision`
        prediction.dimension, prediction.why        # None where the architecture is unknown

The model runs once for each bias.  PyTorch records, for gradients, the operations that the bias
passes (`record`), and each of them is looked up in what the book has proved:

    key      S: softmax ignores a constant in a row of scores (Theorems 3.1 to 3.3), so the
             directions that are the same at every key are redundant: all, or those that rotary
             positions leave alone (5.4), or, behind a LayerNorm of the keys, its mean (7.1)
    value    R: rows of weights sum to one number (4.1), so b_V moves into b_O (4.3); without
             b_O it takes the place of b_O, and only what W_O does not show is redundant
    query    reweights the keys (4.5): nothing is redundant, but its mean behind a LayerNorm
    output   its mean, if nothing but LayerNorms reads the stream (8.1 to 8.3)

No parameter's value is read, but for a factor that is one number; where a bias is linear, what a
norm erases and what the keys span are read off Jacobians.  An operation that no theorem speaks of
is not guessed at: the prediction then says which it is, and no dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch

from .kinds import (
    Lost,
    Unknown,
)
from .layers import find_attention
from .progress import progress
from .record import record_of, run
from .scores import predict_key, predict_query
from .values import predict_output, predict_value


@dataclass(frozen=True)
class Prediction:
    """What is predicted for one bias of one layer.

    ``dimension`` counts the redundant directions, None where the architecture is unknown;
    ``directions`` is a basis of them, (dimension x size), where it does not depend on weights;
    ``why`` are sentences.
    """

    layer: str
    role: str
    size: int
    dimension: int | None
    why: tuple[str, ...]
    directions: torch.Tensor | None = None


def predict(model, inputs, layers=None, absent=frozenset()):
    """A Prediction for every bias of every attention layer, by (layer, role).

    ``model`` is a float64 copy in which every projection has a bias (`precision.generic_copy`),
    ``absent`` the names of those that the model itself does not have, ``inputs`` a pair
    (tuple, dict).
    """
    layers = find_attention(model) if layers is None else layers
    calls = _calls(model, inputs, layers)
    return {
        (layer.name, prediction.role): prediction
        for layer in progress(layers, "layers read")
        for prediction in predict_layer(model, layer, inputs, absent, calls)
    }


def _calls(model, inputs, layers):
    """How often each layer, and the module of each of its maps, is called in one run."""
    modules = {p.weights.module for layer in layers for p in layer.projections.values()}
    calls = dict.fromkeys(modules | {layer.module for layer in layers}, 0)

    def count(module, *_):
        calls[module] += 1

    hooks = [module.register_forward_hook(count) for module in calls]
    try:
        run(model, inputs, {})
    finally:
        for hook in hooks:
            hook.remove()
    return calls


def _demand_no_other_use(layer, projection, calls):
    """Raises Unknown where a map is called more often, or less often, than its layer."""
    own, whole = calls.get(projection.weights.module), calls.get(layer.module)
    if own and whole and own != whole:
        raise Unknown(f"the map of the {projection.role} is called outside of its layer, or twice")


def predict_layer(model, layer, inputs, absent=frozenset(), calls=None):
    """The predictions for one layer: query, key, value, and output where there is one.

    Where `add_bias_kv` appends a key and a value, also for "bias_k" moved with the key bias, and
    "bias_v" with the value bias.
    """
    keys = record_of(model, inputs, layer.key, layer.module)
    shown = _attempt(layer, "output", lambda: predict_output(model, layer, inputs))
    foldable = layer.output is not None and layer.output.bias_name not in absent

    def value(*moved):
        return predict_value(model, layer, inputs, keys, shown, foldable, moved)

    asked = {
        "query": lambda: predict_query(model, layer, inputs),
        "key": lambda: predict_key(layer, keys),
        "value": lambda: value(layer.value),
    }
    if layer.appended:
        together = record_of(model, inputs, (layer.key, layer.appended["key"]), layer.module)
        asked["bias_k"] = lambda: predict_key(layer, together)
        asked["bias_v"] = lambda: value(layer.value, layer.appended["value"])

    def unless_used(role, ask):
        together = ("value", "output") if role in ("value", "bias_v") else (role,)
        for projection in (layer.projections.get(r) for r in together):
            if projection is not None:
                _demand_no_other_use(layer, projection, calls or {})
        return ask()

    found = [_attempt(layer, role, partial(unless_used, role, ask)) for role, ask in asked.items()]
    return found + ([shown] if layer.output else [])


def _attempt(layer, role, ask):
    projection = layer.projections.get({"bias_k": "key", "bias_v": "value"}.get(role, role))
    size = projection.size if projection else 0
    try:
        dimension, why, *directions = ask()
    except Lost as reason:
        return Prediction(layer.name, role, size, 0, (str(reason),))
    except Unknown as reason:
        return Prediction(layer.name, role, size, None, (str(reason),))
    return Prediction(layer.name, role, size, dimension, tuple(why), *directions)
