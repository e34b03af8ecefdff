"""Ask a model which of its biases are redundant: predict from its operations, then measure.

    report = audit(model, inputs)          # any module: the model itself
    report = audit(config)                 # a configuration, or the name or folder of a
    report = audit("org/name")             # checkpoint: its structure, shrunk; no weights
    print(report)                          # a table: bias, answer, counts, parameter
    report.disagreements                   # the rows in which theory and model differ

All parameters that the model adds are moved together, and each operation that it runs passes the
change on, cancels it or depends on it (`shift`).  Then the Jacobian of what the model returns is
computed in float64 and its null space counted, at a generic point, and finite moves are made
(`measuring`).  The two ways share no step.  No number of the model given is changed.
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

#: At so many points an audit is tried, as long as some answer is not clear.
POINTS = 4


def audit(model, inputs=None, inject=False, weights="random", seed=0, training=False, tables=False):
    """Predict and measure which added parameters of a model are redundant; an `Audit`.

    ``model`` is a module; or a configuration of transformers, the name or folder of a checkpoint,
    or a configuration's file: of these the structure is audited, shrunk to a small model with
    random weights (`models.shrinking`), in seconds for a model of any size; the report says what
    was shrunk.  ``inputs`` is a dict, a tuple or a tensor, by default random ones of the kind it takes.
    ``training`` asks about the mode in which BatchNorm takes its statistics from the batch and dropout
    acts.  ``inject`` also asks about the biases that linear maps and convolutions do not have, as if they
    were zero; ``tables`` about added parameters that differ from token to token, like positions.
    A model of transformers with many biases is answered for by a small one in the same way, and its
    own biases are moved along what was said.
    ``weights`` says where the Jacobian is taken: "random" replaces every matrix of a copy, so
    that the answer is the architecture's; "own" keeps them, and loads those of a checkpoint.
    Biases, gains and sinks are moved off their special values in both.

    Raises CannotRead (quantised, or on the meta device), CannotShrink, WrongInputs, NoCheckpoint; Unclear or
    UnclearRank where rounding leaves everything unclear at each of some points.
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
    """Whether a model of transformers has so many vectors that a small one like it is asked instead."""
    vectors = sum(p.numel() for p in model.parameters() if p.dim() == 1)
    return vectors > 2 * LARGE and hasattr(model, "config")


def _clearest(model, call, training, weights, inject, seed, tables):
    """The report at the first generic point where all is clear; at some a unit is off for all inputs."""
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
    """The report, where rows that are not clear are taken from another point that predicts the same."""
    agree = {(r.name, r.part, r.alone, r.together): r for r in (other.rows if other else ())
             if r.verdict == AGREE}  # fmt: skip
    clear = lambda r: agree.get((r.name, r.part, r.alone, r.together), r)
    return replace(best, rows=tuple(clear(r) if r.verdict == UNCLEAR else r for r in best.rows))
