"""Find out which biases of a model are redundant: predict from its operations, then measure.

    report = audit(model, inputs)          # any module: the model itself
    report = audit(config)                 # a configuration, or the name or folder of a
    report = audit("org/name")             # checkpoint: its structure, shrunk; no weights
    print(report)                          # a table: bias, answer, counts, parameter
    report.disagreements                   # the rows in which theory and model differ

All parameters that the model adds are moved together.  Each operation that it runs passes the change on,
cancels it or depends on it (`shift`).  Then the Jacobian of the model's outputs is computed in float64
at a generic point, its null space is counted, and finite moves are made (`measuring`).  The two methods
share no step.  The given model is not changed.
"""

from __future__ import annotations

from dataclasses import replace

import torch

from .checking import LARGE, Check
from .confirming import confirm
from .inputs import as_call, demand_runs, in_float64
from .models.checkpoints import config_of, is_config, is_name, load
from .models.shrinking import shrink
from .nullity import UnclearRank
from .precision import demand_values, one_thread_if_small
from .report import AGREE, UNCLEAR
from .shift.freedom import Unclear
from .subject import Subject, unwrapped

#: The number of points at which an audit is tried while some answer is unclear.
POINTS = 4


def audit(model, inputs=None, inject=False, weights="random", seed=0, training=False, tables=False):
    """Predict and measure which added parameters of a model are redundant; an `Audit`.

    ``model`` is a module, a configuration of transformers, the name or folder of a checkpoint, or a
    configuration file.  Except for a module, the structure is audited: it is shrunk to a small model with
    random weights (`models.shrinking`), which takes seconds for any size; the report says what was
    shrunk.  ``inputs`` is a dict, a tuple or a tensor, by default random inputs of a suitable kind.
    ``training`` selects the mode in which BatchNorm uses batch statistics and dropout acts.  ``inject``
    adds zero biases to linear maps and convolutions without one and audits these too; ``tables`` audits
    added parameters that differ from token to token, such as positions.
    If a transformers model has many biases, a small model is audited in the same way, and the large
    model's own biases are then moved along the predictions.
    ``weights`` selects where the Jacobian is computed: "random" replaces every matrix of a copy, so that
    the answer concerns the architecture; "own" keeps them, and loads those of a checkpoint.  Both move
    biases, gains and sinks off their special values.

    Raises CannotRead (quantised, or on the meta device), CannotShrink, WrongInputs, NoCheckpoint, and
    Unclear or UnclearRank if rounding leaves every answer unclear at each of several points.
    """
    if weights not in ("random", "own"):
        raise ValueError(f'weights must be "random" or "own", not {weights!r}')
    small = full = None
    if is_name(model) and weights == "own":
        model = load(model)
    elif is_name(model) or is_config(model):
        small = shrink(config_of(model), seed)
        model = small.model
    model = unwrapped(model)
    if small is None and weights == "random" and _is_large(model):
        small, full = shrink(model.config, seed, full=model), (model, inputs)
        model, inputs = small.model, None
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.random.fork_rng([]),
        one_thread_if_small(model),
    ):
        demand_values(model)
        call = as_call(model, inputs)
        demand_runs(model, call)
        report = _clearest(
            model, in_float64(call), training, weights == "random", inject, seed, tables
        )
        if full and not training:
            call = in_float64(as_call(*full))
            demand_runs(full[0], call, times=1)
            report = confirm(full[0], call, report, seed)
    if small is None or not small.changes:
        return report
    return replace(report, shrunk=small.changes, notes=(*report.notes, small.account()))


def _is_large(model):
    """Whether a transformers model has so many vectors that a small model represents it."""
    vectors = sum(p.numel() for p in model.parameters() if p.dim() == 1)
    return vectors > 2 * LARGE and hasattr(model, "config")


def _clearest(model, call, training, weights, inject, seed, tables):
    """The clearest report of several generic points, since at some a unit is always off."""
    best, least = None, 0
    for attempt in range(POINTS):
        subject = Subject(model, training, weights, inject, seed + attempt, halved=attempt % 2)
        try:
            check = Check(subject, call, tables)
            report = check.report()
        except (Unclear, UnclearRank) as reason:
            problem = reason
            continue
        doubts = len(report.disagreements) + len(check.doubts)
        if best is None or doubts < least:
            best, report, least, unclear = report, best, doubts, check.doubts
        best = _cleared(best, report)
        if not best.disagreements and not unclear:
            break
    if best is None:
        raise problem
    return best


def _cleared(best, other):
    """The report, with unclear rows replaced by those from another point with the same prediction."""
    agree = {(r.name, r.part, r.alone, r.together): r for r in (other.rows if other else ())
             if r.verdict == AGREE}  # fmt: skip
    clear = lambda r: agree.get((r.name, r.part, r.alone, r.together), r)
    return replace(best, rows=tuple(clear(r) if r.verdict == UNCLEAR else r for r in best.rows))
