"""Ask a model which of its attention biases are redundant: predict, then measure.

    report = audit(model, inputs)          # or audit("a/checkpoint")
    print(report)                          # a table: layer, bias, predicted, measured, verdict
    report.disagreements                   # the rows in which theory and model differ

For each bias of each attention layer, `predict` says from the operations which directions are
redundant and why.  Then the Jacobian of what the model returns, by that bias, is computed in
float64 and its nullity counted, at a generic point; and the bias is moved a finite way.  The
model given is never changed.
"""

from __future__ import annotations

import os
import re
import textwrap
from dataclasses import dataclass

import torch
from torch import nn

from .checkpoints import load
from .layers import find_attention, find_others
from .layout import with_true_layout
from .measure import Measurement
from .nullity import UnclearRank
from .precision import double_precision, generic_copy, halve_matrices, plain_kernels
from .predict import Prediction, predict
from .record import tensors
from .variations import variations

BIASES = {
    **{"query": "b_Q", "key": "b_K", "bias_k": "b_K, bias_k"},
    **{"value": "b_V", "bias_v": "b_V, bias_v", "output": "b_O"},
}
AGREE, DISAGREE, MEASURED = "agree", "DISAGREE", "measured only"
#: Sentences in the report are broken into lines of so many characters.
WIDE = 72
UNREACHED, ABSENT, UNCLEAR = "not reached", "absent", "UNCLEAR"


class WrongInputs(ValueError):
    """The model does not run on the inputs given, or cannot be judged on them."""


@dataclass(frozen=True)
class Row:
    """One bias of one layer: what was predicted, what was measured, and why."""

    layer: str
    role: str
    size: int
    predicted: int | None
    measured: int | None
    verdict: str
    why: tuple[str, ...]
    could_go: int

    @property
    def bias(self):
        return BIASES.get(self.role, self.role)


@dataclass(frozen=True)
class Audit:
    """The report of `audit`: ``rows``, and ``notes`` on how it was made."""

    model: str
    rows: tuple[Row, ...]
    notes: tuple[str, ...]

    @property
    def disagreements(self):
        return [row for row in self.rows if row.verdict in (DISAGREE, UNCLEAR)]

    @property
    def could_go(self):
        """How many numbers the model could do without, at no change to what it computes."""
        return sum(row.could_go for row in self.rows)

    def row(self, role, layer=None):
        """The row of a bias: in the layer named, or in the first one."""
        return next(r for r in self.rows if r.role == role and layer in (None, r.layer))

    def __str__(self):
        return render(self)


def audit(model, inputs=None, inject=False, weights="random", seed=0):
    """Predict and measure which attention biases of a model are redundant.

    ``model`` is a module, or the name of a checkpoint (a folder, or one of the hub's);
    ``inputs`` a dict, a tuple or a tensor, by default random ones of the kind it takes.
    ``inject`` also audits biases that the model does not have, as if they were zero.
    ``weights`` says where the Jacobian is taken: "random" replaces every matrix of a copy, so
    that the answer is the architecture's; "own" keeps them.  Biases, gains and sinks are moved
    off their special values in both.

    Raises NoAttention, CannotRead (quantised, or on the meta device), WrongInputs.
    """
    if weights not in ("random", "own"):
        raise ValueError(f'weights is "random" or "own", not {weights!r}')
    if isinstance(model, str | os.PathLike):
        model = load(model)
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        model = model.module
    with torch.inference_mode(False), torch.enable_grad(), torch.random.fork_rng([]):
        return _audit(model, inputs, inject, weights, seed)


def _audit(model, inputs, inject, weights, seed):
    layers, others = find_attention(model, demand=False), find_others(model)
    if not layers and not others:
        find_attention(model)
    inputs = _as_call(model, inputs)
    _demand_runs(model, inputs)
    own = _names(_blocks(layers, others))
    copied = generic_copy(model, seed, weights=weights == "random")
    inputs = _in_float64(inputs)
    with double_precision() as patch, plain_kernels():
        try:
            copied(*inputs[0], **inputs[1])
        except Exception as problem:
            raise WrongInputs(
                f"{type(model).__name__} runs on these inputs, but not in float64: {_line(problem)}"
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
    return Audit(type(model).__name__, tuple(rows + missing), tuple(notes))


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
    return [_measured(measurement, old, q) for old, q in zip(found, questions)], measurement.stuck


@dataclass(frozen=True)
class Measured:
    """What was measured of one bias at one point: its redundant directions, or why none is said.

    ``moved`` tells whether finite moves confirm it.
    """

    dimension: int | None = None
    moved: bool = False
    unclear: str | None = None


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
            return Measured(dimension, measurement.moves(projection, partners))
    except UnclearRank as reason:
        return Measured(unclear=str(reason)) if old.dimension is None else old
    return old


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
        why = tuple("unknown architecture: " + w for w in why)
    else:
        verdict = AGREE if predicted == found.dimension and found.moved else DISAGREE
    if not found.moved:
        why = (*why, "a finite move along the measured directions changes the outputs")
    goes = projection.bias_name not in absent and verdict == AGREE
    return Row(*row, found.dimension, verdict, why, found.dimension if goes else 0)


# --- what may be wrong with what was given ----------------------------------------------------


def _as_call(model, inputs):
    """Positional and named inputs, whatever form they were given in."""
    if inputs is None:
        if not hasattr(model, "main_input_name"):
            raise WrongInputs(f"give inputs: it is not known what {type(model).__name__} takes")
        from .zoo import some_inputs

        inputs = some_inputs(model)
    if isinstance(inputs, torch.Tensor):
        inputs = (inputs,)
    if hasattr(inputs, "items"):
        return (), dict(inputs)
    if isinstance(inputs, tuple | list):
        return tuple(inputs), {}
    raise WrongInputs(
        f"inputs are a dict, a tuple or a tensor, not {type(inputs).__name__}: "
        'say {"input_ids": ids}, for instance'
    )


def _in_float64(inputs):
    positional, named = inputs
    return tuple(map(_wide, positional)), {name: _wide(value) for name, value in named.items()}


def _wide(value):
    if not isinstance(value, torch.Tensor):
        return value
    return value.detach().double() if value.is_floating_point() else value.clone()


def _line(problem):
    """The first line of what an error says."""
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]


def _demand_runs(model, inputs):
    """Raises WrongInputs unless the model runs, the same way twice, and returns finite numbers."""
    modes = {module: module.training for module in model.modules()}
    try:
        with torch.no_grad():
            model.eval()
            first, second = (tensors(model(*inputs[0], **inputs[1])) for _ in range(2))
    except Exception as problem:
        raise WrongInputs(
            f"{type(model).__name__} does not run on these inputs: {_line(problem)}"
        ) from problem
    finally:
        for module, training in modes.items():
            module.training = training
    if not first:
        raise WrongInputs(f"{type(model).__name__} returns no tensor of numbers")
    if not all(t.numel() for t in first):
        raise WrongInputs(f"{type(model).__name__} returns nothing on these inputs: they are empty")
    if not all(t.isfinite().all() for t in first):
        raise WrongInputs(
            f"{type(model).__name__} returns infinite numbers, or NaN, on these inputs"
        )
    if not all(torch.equal(a, b) for a, b in zip(first, second, strict=True)):
        raise WrongInputs(
            f"{type(model).__name__} returns other numbers when it runs again: it draws random "
            "numbers in eval mode, and no bias can be judged"
        )


# --- the report -------------------------------------------------------------------------------


def _notes(model, patch, rows, stuck):
    if stuck:
        yield (
            "the model does not run on other inputs of this kind: measured at those given only, "
            "so what is measured may be too high"
        )
    if model.training:
        yield (
            "the model is in training mode and was audited in eval mode; dropout of attention "
            "weights, where there is any, takes R away, and b_V then does not fold"
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


def render(report):
    """The report as a table; layers with the same answers share a line."""
    table = [("layer", "bias", "size", "predicted", "measured", "verdict", "could go")]
    for rows in _alike(report.rows):
        row = rows[0]
        name = row.layer if len(rows) == 1 else re.sub(r"\b\d+\b", "*", row.layer)
        table.append((
            (name or "(the model)") + (f" ({len(rows)} layers)" if len(rows) > 1 else ""),
            row.bias, row.size, _shown(row.predicted), _shown(row.measured), row.verdict,
            sum(r.could_go for r in rows),
        ))  # fmt: skip
    widths = [max(len(str(line[i])) for line in table) for i in range(7)]
    form = "{:{}}  {:{}} {:>{}} {:>{}} {:>{}}  {:{}} {:>{}}"
    lines = [f"{report.model}: attention biases", ""]
    for line in table:
        lines.append(form.format(*(part for pair in zip(line, widths) for part in pair)))
    lines += ["", f"numbers that could go: {report.could_go}", ""]
    for rows in _alike(report.rows):
        if rows[0].why:
            loud = "!!! " if rows[0].verdict in (DISAGREE, UNCLEAR) else ""
            said = f"{loud}{rows[0].bias}: " + "; ".join(rows[0].why)
            lines += textwrap.wrap(said, WIDE, subsequent_indent="     ")
    notes = [line for note in report.notes for line in textwrap.wrap(note, WIDE)]
    return "\n".join([*lines, "", *notes] if notes else lines)


def _shown(number):
    return "-" if number is None else str(number)


def _alike(rows):
    """Rows of layers that differ only in their number and agree in everything else, together."""

    def key(row):
        return (row.bias, re.sub(r"\d+", "*", row.layer), row.size, row.predicted,
                row.measured or 0, row.verdict, row.why)  # fmt: skip

    order = {}
    for row in rows:
        order.setdefault(key(row), []).append(row)
    return list(order.values())
