"""How a fused matrix is cut into queries, keys and values, found by running the model.

Names do not say it: BLOOM and GPT-2 hold matrices of the same shape and cut them differently.
But the record of the fused bias does: its entries that reach the left side of the product which
makes the scores are the query bias, those on the right side the key bias, and those that the
weights are multiplied with the value bias.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from .kinds import WEIGHED
from .precision import double_precision
from .record import record_of


def with_true_layout(model, layer, inputs):
    """The layer, its rows corrected where the run shows that they are cut in another way."""
    places = layer.key.biases
    shared = {p.biases.parameter is places.parameter for p in (layer.query, layer.key, layer.value)}
    if shared != {True}:
        return layer
    whole = replace(layer.key, biases=replace(places, rows=torch.arange(places.parameter.numel())))
    with double_precision():
        record = record_of(model, inputs, whole, layer.module)
    found = None if record is None else _parts(record)
    stored = (layer.query, layer.key, layer.value)
    if found is None or all(set(f) == set(p.rows.tolist()) for f, p in zip(found, stored)):
        return layer
    return replace(layer, **{
        p.role: replace(p, weights=replace(p.weights, rows=torch.tensor(rows)),
                        biases=replace(p.biases, rows=torch.tensor(rows)))
        for p, rows in zip(stored, found)
    })  # fmt: skip


def _parts(record):
    """The places of queries, keys and values in the fused bias; None where it is not clear."""
    products = [s for s in record if s.name in WEIGHED and len(s.reads) == 2]
    if len(products) != 2:
        return None
    scores, weighed = products
    sides = [*scores.reads, weighed.reads[1]]
    parts = []
    for _, step, which in sides:
        touched = record.jacobian(step, which).flatten(0, -2).any(0)
        parts.append(touched.nonzero().flatten().tolist())
    everything = sorted(place for part in parts for place in part)
    return parts if everything == list(range(len(record.bias))) else None
