"""Move the bias of a layer that follows a LayerNorm into the layer's weight.

An output y of a LayerNorm with gain gamma and shift beta satisfies

    y_1 / gamma_1 + ... + y_d / gamma_d = beta_1 / gamma_1 + ... + beta_d / gamma_d = kappa,

so for a linear layer that reads y, the weight W + b (1 / gamma)^T / kappa replaces W and b (Theorem
7.8).  Digits are lost: b is recovered as a sum of d terms, at most (d + |beta / gamma|_1) / |kappa|
times as large as b.  Training changes gamma and beta, so the two models are equal only at these
values.

The operations of a run show which norm a layer reads.  The change is followed through all
operations, to make sure that nothing else depends on it.
"""

from __future__ import annotations

import math

import torch

from .choosing import GONE, LONGEST, Outcome, Stays, split
from .equality import Bench
from .one_move import Steps, followed


def absorb_into_weights(bench: Bench) -> None:
    """Move biases of linear maps that read a LayerNorm into their weights; record the outcomes."""
    parts, readings = {}, {}
    for call in bench.calls:
        parts = bench.after.roles(call).parts | parts
        readings = _readings(bench.after, call) | readings
    for bias, (weight, *read) in readings.items():
        pieces = split(bias, (bench.after.tensors[bias] != 0).flatten(), parts.get(bias, {}))
        counts = {piece.symbol: int(piece.index.sum()) for piece in pieces}
        try:
            price = _absorb(bench, bias, weight, *read)
        except Stays as reason:
            if bias not in {row.place for row in bench.rows}:
                bench.rows += [Outcome("refused", bias, s, str(reason)) for s in counts]
            continue
        bench.rows = [row for row in bench.rows if row.verdict in GONE or row.place != bias]
        for symbol, many in counts.items():
            by = "into the weight beside it"
            bench.rows.append(Outcome("moved", bias, symbol, f"into {weight}", many, by, price))


def _readings(subject, call):
    """{bias: (its weight, the matrix as used, the step that made the input)}."""
    found, run = {}, Steps(subject, call)
    for step in (s for s in run.steps if s.name == "addmm"):
        bias, weight = run.named(step, 0), run.named(step, 2)
        if bias and weight and subject.tensors[bias].any():
            found.setdefault(bias, (weight, step.args[2], run.source(step.args[1])[1]))
    return found


def _absorb(bench, bias, weight, matrix, read):
    """Move a bias into the weight of its map, or raise Stays; return numbers for `price_of`."""
    gain, shift = read.args[2:4] if read and read.name == "native_layer_norm" else (None, None)
    if shift is None or shift.dim() > 1 or (gain is not None and not gain.all()):
        raise Stays(f"the input of {weight} is no LayerNorm with a shift and nonzero gains")
    b, W = (bench.after.tensors[n].detach() for n in (bias, weight))
    inverse = torch.ones_like(shift) if gain is None else gain.reciprocal()
    terms = shift * inverse
    kappa, size = terms.sum().item(), len(terms) + terms.abs().sum().item()
    if size * b.norm() > LONGEST * abs(kappa):
        raise Stays("kappa, the norm's sum of beta / gamma, is zero or too small")
    change = torch.outer(b.flatten(), inverse) / kappa
    change = change.T if matrix.shape == W.shape and torch.equal(matrix, W) else change
    both = {weight: change, bias: -b}
    if change.shape != W.shape or followed(bench.after, bench.calls, both).failed:
        raise Stays(f"another operation depends on {weight} or on its input")
    bench.after.tensors[weight].data, bench.after.tensors[bias].data = W + change, b - b
    factor = size / abs(kappa)
    bench.longest = max(bench.longest, factor * b.norm().item())
    return (change.norm() / W.norm()).item(), 1 / abs(kappa), factor


def price_of(rows: list[Outcome], dtype: torch.dtype) -> str:
    """The cost of the new weights, in words.

    Bounds are rounded up to powers of ten, so that they are the same on every processor.
    """
    change, inverse, factor = map(max, zip(*(row.price for row in rows)))
    change, inverse = (f"{10.0 ** math.ceil(math.log10(n)):g}" for n in (change, inverse))
    lost, digits = math.ceil(math.log10(factor)), math.floor(-math.log10(torch.finfo(dtype).eps))
    return (
        f"price: weights change by less than {change} times their norm, 1/|kappa| is below "
        f"{inverse}, and biases lose up to {lost} of {digits} digits"
    )
