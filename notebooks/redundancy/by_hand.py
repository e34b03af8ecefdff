"""A softmax that is written out, recognised among the steps of a record.

    e = s.exp();  e / e.sum(-1, keepdim=True)     also with a factor on e, such as a mask
    (s - s.logsumexp(-1, keepdim=True)).exp()     s.log_softmax(-1).exp()

Where something is added to the sum, as in softmax off by one, the weights do not sum to one, and
a constant in s is seen.  A largest score that is taken off before is a step on the way to s.
"""

from __future__ import annotations

from .kinds import signed

OFF_BY_ONE = "SoftmaxOffByOne"


def with_softmax(steps):
    """The steps; the last one of a softmax written by hand reads its scores now, as Softmax does."""
    for step in steps:
        found = _quotient(step) or _of_logarithms(step)
        if found:
            step.name, (_, scores, which), step.given = found
            step.reads = [(0, scores, which)]
    return steps


def _quotient(step):
    """(name, the read of the scores, what is known) of e / e.sum(); else None."""
    if step.name != "Div" or step.places != (0, 1):
        return None
    weights, total = _same(step.reads[0][1]), _same(step.reads[1][1], "Expand")
    is_more = total.name == "Add" and len(total.reads) == 1
    summed = _same(total.reads[0][1]) if is_more else total
    axis, exponential = _kept_axis(summed), _exponential(weights)
    if axis is None or exponential is None or not _are_one(_same(summed.reads[0][1]), weights):
        return None
    above, below = step.saved("self").detach(), step.saved("other").detach()
    given = {"dim": axis, "result": above / below}
    if is_more:
        given["added"] = below / above.sum(axis, keepdim=True) - 1
    return OFF_BY_ONE if is_more else "Softmax", exponential.reads[0], given


def _of_logarithms(step):
    """The same of exp(log_softmax(s)) and exp(s - logsumexp(s))."""
    if step.name != "Exp":
        return None
    before = _same(step.reads[0][1])
    if before.name == "LogSoftmax":
        given = {"dim": before.saved("dim"), "result": step.saved("result")}
        return "Softmax", before.reads[0], given
    if before.name != "Sub" or before.places != (0, 1) or before.saved("alpha") != 1:
        return None
    scores, total = before.reads[0], before.reads[1][1]
    axis = _kept_axis(total) if total.name == "Logsumexp" else None
    if axis is None or total.reads[0][1:] != scores[1:]:
        return None
    return "Softmax", scores, {"dim": axis, "result": step.saved("result")}


def _same(step, *more):
    """What a step is a copy of."""
    while step.name in ("Clone", "Alias", *more):
        step = step.reads[0][1]
    return step


def _are_one(step, other):
    """Whether two steps made the same numbers: one step, or two exponentials of one thing."""
    return step is other or step.name == other.name == "Exp" and step.reads == other.reads


def _kept_axis(step):
    """The one axis, counted from the end, that a sum is over, and that stays; else None."""
    axes = step.saved("dim") if step.name in ("Sum", "Logsumexp") else None
    if not axes or len(axes) != 1 or not step.saved("keepdim"):
        return None
    axis = signed(axes[0])
    return axis if axis < 0 else axis - len(step.shape)


def _exponential(step):
    """The exponential that a step is, maybe with factors of its shape on it; else None."""
    shape = step.shape
    while step.name == "Mul" and len(step.reads) == 1:
        step = _same(step.reads[0][1])
    return step if step.name == "Exp" and step.shape == shape else None
