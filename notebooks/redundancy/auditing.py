"""Ask a model which of its attention biases are redundant: predict, then measure.

    report = audit(model, inputs)          # a module: the model itself
    report = audit(config)                 # a configuration, or the name or folder of a
    report = audit("org/name")             # checkpoint: its structure, shrunk; no weights
    print(report)                          # a table: layer, bias, predicted, measured, answer
    report.disagreements                   # the rows in which theory and model differ

For each bias of each attention layer, `predict` says from the operations which directions are
redundant and why.  Then the Jacobian of what the model returns, by that bias, is computed in
float64 and its nullity counted, at a generic point; and the bias is moved a finite way.  The
model given is never changed.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace

import torch
from torch import nn

from .checkpoints import config_of, is_config, is_name, load
from .inputs import (
    WrongInputs,
    as_call,
    demand_runs,
    first_line,
    in_float64,
    some_inputs_within,
    words_in,
)
from .large import (
    WORDS,
    CannotCarry,
    Moves,
    carried_over,
    generic_lean_copy,
    is_large,
    small_like,
)
from .layers import find_attention, find_others
from .layout import with_true_layout
from .measure import Measurement
from .nullity import UnclearRank
from .precision import (
    double_precision,
    generic_copy,
    halve_matrices,
    one_thread_if_small,
    plain_kernels,
)
from .predict import Prediction, predict
from .progress import progress
from .report import (
    ABSENT,
    AGREE,
    DISAGREE,
    MEASURED,
    UNCLEAR,
    UNKNOWN,
    UNMEASURED,
    UNREACHED,
    Audit,
    Row,
)
from .shrinking import shrink
from .variations import variations


def audit(model, inputs=None, inject=False, weights="random", seed=0):
    """Predict and measure which attention biases of a model are redundant; an `Audit`.

    ``model`` is a module; or a configuration of transformers, the name or folder of a checkpoint,
    or a configuration's file: of these the structure is audited, shrunk to a small model with
    random weights (`shrinking`), in seconds for a model of any size; the report says what was
    shrunk.  ``inputs`` is a dict, a tuple or a tensor, by default random ones of the kind it takes.
    ``inject`` also audits biases that the model does not have, as if they were zero.
    ``weights`` says where the Jacobian is taken: "random" replaces every matrix of a copy, so
    that the answer is the architecture's; "own" keeps them, and loads those of a checkpoint.
    Biases, gains and sinks are moved off their special values in both.

    Raises NoAttention, CannotRead (quantised, or on the meta device), CannotShrink, WrongInputs,
    NoCheckpoint.
    """
    if weights not in ("random", "own"):
        raise ValueError(f'weights is "random" or "own", not {weights!r}')
    changes = ()
    if is_name(model) and weights == "own":
        model = load(model)
    elif is_name(model) or is_config(model):
        small = shrink(config_of(model), seed)
        model, changes = small.model, small.changes
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        model = model.module
    _demand_module(model)
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.random.fork_rng([]),
        one_thread_if_small(model),
    ):
        report = _audit(model, inputs, inject, weights, seed)
    if not changes:
        return report
    return replace(report, shrunk=changes, notes=(*report.notes, small.account()))


def _demand_module(model):
    if not isinstance(model, nn.Module):
        raise TypeError(f"expected a model (torch.nn.Module), not {type(model).__name__}")


@dataclass(frozen=True)
class Examined:
    """A model, its ``layers`` in a float64 copy, what was predicted of them, and the ``report``."""

    model: nn.Module
    layers: list
    predictions: dict
    report: Audit


def _audit(model, inputs, inject, weights, seed):
    layers = find_attention(model, demand=False)
    if is_large(model, layers):
        try:
            return _audit_large(model, inputs, inject, weights, seed)
        except CannotCarry as reason:
            print(f"redundancy: {reason}; its whole Jacobian may take long", file=sys.stderr)
    return examine(model, inputs, inject, weights, seed).report


def _audit_large(model, inputs, inject, weights, seed):
    """The report on a large model: ranks from a small one like it, finite moves on itself."""
    small = small_like(model, seed)
    with one_thread_if_small(small.model):
        examined = examine(small.model, None, True, "random", seed)
    inputs = as_call(model, some_inputs_within(model, WORDS) if inputs is None else inputs)
    demand_runs(model, inputs, times=1)
    own = _names(_blocks(find_attention(model), {}))
    copied = generic_lean_copy(model, words_in(inputs, WORDS), seed, weights == "random")
    layers = find_attention(copied)
    predictions = carried_over(layers, examined)
    with double_precision(), plain_kernels():
        moves = Moves(copied, in_float64(inputs))
        asked = [
            (layer, predictions[layer.name, role], _folds(layer, own))
            for layer in layers
            for role in layer.projections
        ]
        moves.listen([a for a in asked if a[1].dimension])
        rows = [
            _row_of_large(moves, *one, examined, own, inject, predictions)
            for one in progress(asked, "biases moved")
        ]
    note = (
        f"{sum(p.size for la in layers for p in la.projections.values())} numbers in the biases: "
        "ranks were counted on a small model of the same structure; on the model itself each bias "
        "was moved along all that is redundant, and along the rest"
    )
    return Audit(type(model).__name__, tuple(rows), (note, *examined.report.notes))


def _folds(layer, own):
    """Whether a layer has a b_O that can take b_V."""
    return layer.output is not None and layer.output.bias_name in own


def _row_of_large(moves, layer, found, foldable, examined, own, inject, predictions):
    """The row of one bias of a large model."""
    projection = layer.projections[found.role]
    has = projection.bias_name in own
    if not (has or inject):
        return Row(layer.name, found.role, found.size, None, None, ABSENT, (), 0)
    row = (layer.name, found.role, found.size, found.dimension)
    if found.dimension is None:
        return Row(*row, None, UNMEASURED, tuple(UNKNOWN + w for w in found.why), 0)
    wrong = [r for r in examined.report.disagreements if r.role == found.role]
    said = wrong[0].why[-1] if wrong else moves.confirm(layer, found, foldable)
    if said:
        return Row(*row, None, DISAGREE, (*found.why, said), 0)
    alone = found.dimension
    if found.role == "value" and foldable:
        mean = predictions[layer.name, "output"].dimension or 0
        alone = max(0, found.size - layer.output.size + mean)
    counts = (found.dimension, alone) if has else (0, 0)
    return Row(*row, found.dimension, AGREE, found.why, *counts)


def examine(model, inputs, inject, weights, seed):
    """Predict and measure; an `Examined`."""
    layers, others = find_attention(model, demand=False), find_others(model)
    if not layers and not others:
        find_attention(model)
    inputs = as_call(model, inputs)
    demand_runs(model, inputs)
    own = _names(_blocks(layers, others))
    copied = generic_copy(model, seed, weights=weights == "random")
    inputs = in_float64(inputs)
    with double_precision() as patch, plain_kernels():
        try:
            copied(*inputs[0], **inputs[1])
        except Exception as problem:
            raise WrongInputs(
                f"{type(model).__name__} runs on these inputs, but not in float64: "
                f"{first_line(problem)}"
            ) from problem
    layers = [with_true_layout(copied, la, inputs) for la in find_attention(copied, demand=False)]
    others = find_others(copied)
    blocks = _blocks(layers, others)
    absent = _names(blocks) - own
    predictions = predict(copied, inputs, layers, absent)
    for name, inside in others.items():
        for role, projection in inside.items():
            why = ("queries, keys and values were not told apart",)
            predictions[name, role] = Prediction(name, role, projection.size, None, why)
    questions = _questions(layers, others, absent)
    questions = [q for q in questions if inject or q.projection.bias_name in own]
    found, stuck = [Measured()] * len(questions), False
    for halved in (False, True) if weights == "random" else (False,):
        if halved:
            halve_matrices(copied)
        found, anew = _at_one_point(copied, inputs, blocks, questions, found, seed)
        stuck = stuck or anew
    rows = [
        _judge(predictions[q.layer, q.role], measured, q.projection, absent)
        for q, measured in zip(questions, found)
    ]
    missing = [] if inject else _absent(layers, absent)
    notes = [*_notes(model, patch, rows, stuck), *_unjudged(others, rows)]
    report = Audit(type(model).__name__, tuple(rows + missing), tuple(notes))
    return Examined(model, layers, predictions, report)


@dataclass(frozen=True)
class Question:
    """A bias that is asked about, by its layer and role; and ``partners`` that may make up for it."""

    layer: str
    role: str
    projection: object
    partners: tuple = ()

    @property
    def together(self):
        """The bias and its partners."""
        return (self.projection, *self.partners)


def _at_one_point(copied, inputs, blocks, questions, found, seed):
    """What is now known of each question, and whether the model runs on these inputs only."""
    if not questions:
        return found, False
    asked = [q.together for q in questions] + [q.partners for q in questions if q.partners]
    measurement = Measurement(copied, variations(copied, inputs, seed), blocks, asked, seed)
    pairs = progress(zip(found, questions), "biases measured")
    return [_measured(measurement, old, q) for old, q in pairs], measurement.stuck


@dataclass(frozen=True)
class Measured:
    """What was measured of one bias at one point: its redundant directions, or why none is said.

    ``moved`` tells whether finite moves confirm it, ``alone`` counts without the partners.
    """

    dimension: int | None = None
    moved: bool = False
    unclear: str | None = None
    alone: int = 0


def _measured(measurement, old, question):
    """What is now known of one bias, with ``old`` known from another point.

    A rank is never too high by accident, but it is too low where softmax is saturated.  So of
    two points the one with the fewer redundant directions is right; what was predicted has no
    say in it.  Neither number nor reason where the layer is not reached.
    """
    if not measurement.reaches(question.layer):
        return old
    projection, partners = question.projection, question.partners
    try:
        dimension = measurement.dimension(projection, partners)
        if old.dimension is None or (dimension, old.moved) < (old.dimension, True):
            alone = _alone(measurement, projection) if partners else dimension
            return Measured(dimension, measurement.moves(projection, partners), alone=alone)
    except UnclearRank as reason:
        return Measured(unclear=str(reason)) if old.dimension is None else old
    return old


def _alone(measurement, projection):
    """How many directions are redundant without partners; none where it is not clear."""
    try:
        return measurement.dimension(projection)
    except UnclearRank:
        return 0


def _blocks(layers, others):
    """The biases of each layer, by its name."""
    found = {la.name: [*la.projections.values(), *la.appended.values()] for la in layers}
    return found | {name: list(inside.values()) for name, inside in others.items()}


def _names(blocks):
    """The names of the biases that there are."""
    return {p.bias_name for block in blocks.values() for p in block if p.has_bias}


def _questions(layers, others, absent):
    """A Question for every bias."""
    for layer in layers:
        output = () if layer.output is None or layer.output.bias_name in absent else (layer.output,)
        for role, projection in layer.projections.items():
            partners = output if role == "value" else ()
            yield Question(layer.name, role, projection, partners)
            if role in layer.appended:
                extra = layer.appended[role]
                yield Question(layer.name, extra.role, projection, (extra, *partners))
    for name, inside in others.items():
        for role, projection in inside.items():
            yield Question(name, role, projection)


def _absent(layers, absent):
    """Rows for the biases that the model does not have."""
    return [
        Row(layer.name, role, projection.size, None, None, ABSENT, (), 0)
        for layer in layers
        for role, projection in layer.projections.items()
        if projection.bias_name in absent
    ]


def _judge(prediction, found, projection, absent):
    """The row of one bias: the prediction beside what is measured."""
    predicted, why = prediction.dimension, prediction.why
    row = (prediction.layer, prediction.role, prediction.size, predicted)
    if found.unclear:
        return Row(*row, None, UNCLEAR, (*why, found.unclear), 0)
    if found.dimension is None:
        why = ("these inputs do not reach the layer",)
        return Row(*row[:3], None, None, UNREACHED, why, 0)
    if predicted is None:
        verdict = MEASURED if found.moved else UNCLEAR
        why = tuple(UNKNOWN + w for w in why)
    else:
        verdict = AGREE if predicted == found.dimension and found.moved else DISAGREE
    if not found.moved:
        why = (*why, "a finite move along the measured directions changes the outputs")
    goes = projection.bias_name not in absent and verdict == AGREE
    counts = (found.dimension, found.alone) if goes else (0, 0)
    return Row(*row, found.dimension, verdict, why, *counts)


def _notes(model, patch, rows, stuck):
    if stuck:
        yield (
            "the model does not run on other inputs of this kind: measured at those given only, "
            "so what is measured may be too high"
        )
    if model.training:
        yield (
            "the model is in training mode and was audited in eval mode; dropout of attention "
            "weights, where there is any, changes the row sums, and b_V then does not fold"
        )
    if patch.caught:
        yield "asks for float32, computed in float64 here: " + ", ".join(sorted(patch.caught))
    if any(row.verdict == MEASURED for row in rows):
        yield "unknown architecture: where it says so, nothing was predicted"


def _unjudged(others, rows):
    """The layers that call themselves attention, and have no bias that a row could speak of."""
    names = others.keys() - {row.layer for row in rows}
    if names:
        named = sorted({re.sub(r"\b\d+\b", "*", name) for name in names})
        yield "not told apart, and without a bias to judge: " + ", ".join(named)
