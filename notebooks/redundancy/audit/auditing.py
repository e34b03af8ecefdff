"""Find out which biases of a model are redundant: predict from its operations, then measure.

    report = audit(model, inputs)          # any module, as it is
    report = audit(config)                 # a small model with the structure of a configuration
    report = audit("org/name")             # the same for a checkpoint, by name or folder
    print(report)                          # a table: bias, answer, counts, parameter
    report.disagreements                   # the rows in which theory and model differ

All added parameters, such as biases, are moved together.  Each operation of the model passes the
change on, cancels it or depends on it (`shift`).  Then the Jacobian of the outputs and its null
space are computed in float64 at a generic point, and finite moves are made (`measure`).  The two
methods share no step.  The given model is not changed.
"""

from __future__ import annotations

from dataclasses import replace
from operator import itemgetter
from typing import Any

import torch

from ..measure.inputs import as_call, demand_runs, in_float64
from ..measure.nullity import UnclearRank
from ..measure.precision import demand_values, one_thread_if_small
from ..measure.subject import Subject, unwrapped
from ..models.checkpoints import config_of, is_config, is_name, load
from ..models.shrinking import shrink
from ..shift.null_space import Unclear
from .checking import LARGE, Check
from .confirming import confirm
from .report import Audit

#: The scales of the random matrices at the points at which an audit is tried until all is clear.
#: Smaller matrices saturate softmax less, so rounding hides less.
SCALES = 1.0, 0.5, 1.0, 0.5


def audit(
    model: Any,
    inputs: Any = None,
    inject: bool = False,
    weights: str = "random",
    seed: int = 0,
    training: bool = False,
) -> Audit:
    """Predict and measure which added parameters of a model are redundant; return an `Audit`.

    ``model`` is a module, a configuration of transformers, the name or folder of a checkpoint, or a
    configuration file.  Unless it is a module, only its structure is audited, on a small model with
    random weights (`models.shrinking`); that takes seconds for any size, and the report says what
    was shrunk.  If a module of transformers has many biases, a small model with its structure is
    audited first, and then, in evaluation mode, the module's own biases are moved in the predicted
    directions.  ``inputs`` is a dict, a tuple or a tensor; by default, suitable inputs are drawn.
    ``training`` selects training mode, with BatchNorm's batch statistics and with dropout.
    ``inject`` adds zero biases to linear maps and convolutions without a bias and audits these too.
    ``weights`` selects where the Jacobian is computed: "random" replaces every matrix of a copy, so
    that the answer concerns the architecture; "own" keeps the matrices, or loads a checkpoint's.
    Both add random numbers to biases, gains and sinks, so that none keeps a value such as 0 or 1.
    The copy runs on the CPU, wherever the model is.

    Raises CannotRead (for a quantised model, or on the meta device), CannotShrink, WrongInputs,
    NoCheckpoint, and Unclear or UnclearRank if rounding spoils the audit at all points tried.
    """
    if weights not in ("random", "own"):
        raise ValueError(f'weights must be "random" or "own", not {weights!r}')
    small = full = None
    if is_name(model) and weights == "own":
        model = load(model)
    if is_name(model) or is_config(model):
        small = shrink(config_of(model), seed)
    else:
        model = unwrapped(model)
        demand_values(model)
        if weights == "random" and _is_large(model):
            full, small, inputs = (model, inputs), shrink(model.config, seed, full=model), None
    model = small.model if small else model
    with (
        torch.inference_mode(False),
        torch.enable_grad(),
        torch.random.fork_rng([]),
        one_thread_if_small(model),
    ):
        call = as_call(model, inputs)
        demand_runs(model, call)
        report = _clearest(model, in_float64(call), training, weights == "random", inject, seed)
        if full and not training:
            call = as_call(*full)
            demand_runs(full[0], call, times=1)
            report = confirm(full[0], in_float64(call), report, seed)
    if small is None or not small.changes:
        return report
    return replace(report, shrunk=small.changes, notes=(*report.notes, small.account()))


def _is_large(model):
    """Whether the vectors of a transformers model have too many numbers for a direct audit."""
    vectors = sum(p.numel() for p in model.parameters() if p.dim() == 1)
    return vectors > 2 * LARGE and hasattr(model, "config")


def _clearest(model, call, training, weights, inject, seed):
    """The clearest report from several points, as at one point a unit may be off for all inputs."""
    found: list[tuple[int, Audit]] = []
    for i, scale in enumerate(SCALES):
        subject = Subject(model, training, weights, inject, seed + i, scale=scale)
        try:
            check = Check(subject, call)
            report = check.report()
        except (Unclear, UnclearRank) as reason:
            problem = reason
            continue
        found.append((len(report.disagreements) + len(check.doubts), report))
        if not found[-1][0]:
            break
    if not found:
        raise problem
    return min(found, key=itemgetter(0))[1]
