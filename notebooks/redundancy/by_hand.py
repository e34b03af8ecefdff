"""A softmax that is written out, e / e.sum(-1, keepdim=True) with e = exp(scores), is a softmax.

By definition, and by Theorem 3.1 also behind the subtraction of the largest score.  With a constant
added to the sum ("off by one") it is a softmax with one more logit, a sink.
"""

from __future__ import annotations

#: What the two are called in a record.
SOFTMAX, WITH_SINK = "Softmax", "SoftmaxOne"
#: A sink has more of a row's weight than this somewhere; 1e-9 against a division by zero is none.
SHARE = 1e-3


def written_out(steps):
    """{step of the division: (its name, exponential, axis, the steps that it replaces)}."""
    readers = {}
    for step in steps:
        for _, before, _ in step.reads:
            readers.setdefault(before, []).append(step)
    found = {}
    for step in steps:
        parts = _parts(step, readers) if step.name == "Div" and step.places == (0, 1) else None
        if parts:
            found[step] = parts
    return found


def _parts(division, readers):
    """(name, exponential, axis, steps between) of a softmax that ends in this division, or None."""
    exponential, below = division.reads[0][1], division.reads[1][1]
    name, between = SOFTMAX, []
    while below.name in ("Unsqueeze", "Add") and len(below.reads) == 1:
        if below.name == "Add":
            name = WITH_SINK
        if readers[below] != [below_reader(division, between)]:
            return None
        between.append(below)
        below = below.reads[0][1]
    if exponential.name != "Exp" or below.name != "Sum" or below.reads[0][1] is not exponential:
        return None
    axes, rank = below.saved("dim"), len(exponential.shape)
    if axes is None or len(axes) != 1 or readers[below] != [below_reader(division, between)]:
        return None
    axis = (axes[0] - 2**64 if axes[0] >= 2**63 else axes[0]) % rank - rank
    if name == WITH_SINK and not _takes_a_share(division, axis):
        return None
    alone = sorted(map(id, readers[exponential])) == sorted(map(id, (division, below)))
    whole = len(division.reads[1][1].shape) == rank and division.reads[1][1].shape[axis] == 1
    return (name, exponential, axis, [exponential, below, *between]) if alone and whole else None


def _takes_a_share(division, axis):
    """Whether what is added to the sums takes a part of the weight that can be seen."""
    above, below = division.saved("self"), division.saved("other")
    return above is not None and bool((1 - (above / below).sum(axis) > SHARE).any())


def below_reader(division, between):
    """Who has to read what comes next on the way from the division to its sum, and nobody else."""
    return between[-1] if between else division
