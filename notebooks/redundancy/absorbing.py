"""Put a bias into the weight beside it, where a LayerNorm with a shift stands before: Theorem 7.8.

An output y of a LayerNorm with gain gamma and shift beta satisfies

    y_1 / gamma_1 + ... + y_d / gamma_d = beta_1 / gamma_1 + ... + beta_d / gamma_d = kappa,

so W + b (1 / gamma)^T / kappa does what W and b do, and no other reader of the norm has to change.
Which matrix reads which norm is seen from the operations of a run, and the change is followed
through all of them.  The price is digits: b comes back as a sum of d terms, (d + |beta / gamma|_1)
/ |kappa| times as large as b at most.  Training moves gamma and beta, so the two models are equal
only as they are.
"""

from __future__ import annotations

import math

import torch

from .choosing import LONGEST, Piece, Row, Stays
from .steps import changes_nothing, steps_of

#: Of sums, the share that rounding leaves of zero.
ROUNDING = 1e-12


def absorb_into_weights(bench):
    """Clear the bias of every linear map that reads a LayerNorm; writes into the account."""
    parts = {}
    for call in bench.calls:
        parts = bench.after.uses(call).parts | parts
    for bias, reading in _readings(bench).items():
        constants = _constants(bias, bench.after.tensors[bias], parts.get(bias, {}))
        try:
            price = _absorb(bench, bias, *reading)
        except Stays as reason:
            known = {row.place for row in bench.rows}
            bench.rows += [
                Row(reason.verdict, bias, c, str(reason)) for c in constants if bias not in known
            ]
            continue
        text, by = f"into {reading[0]}", "with the weight beside it"
        bench.rows = [row for row in bench.rows if row.verdict == "moved" or row.place != bias]
        bench.rows += [Row("moved", bias, c, text, n, by, price) for c, n in constants.items()]


def _readings(bench):
    """{bias: (the weight beside it, its matrix as used, the step that it reads, its name)}."""
    found = {}
    for call in bench.calls:
        steps = steps_of(bench.after, call)
        for step in steps.steps:
            if step.name != "addmm":
                continue
            bias, weight, (name, read) = (
                steps.named(step, 0),
                steps.named(step, 2),
                steps.source(step.args[1]),
            )
            if bias and weight and bench.after.tensors[bias].any():
                gain = steps.named(read, 2) if read and "norm" in read.name else None
                name = (
                    gain.removesuffix(".weight")
                    if gain
                    else name or (read.name if read else "an input")
                )
                found.setdefault(bias, (weight, step.args[2], read, name))
    return found


def _constants(name, b, parts):
    """{symbol: how many numbers that are not zero} of a bias."""
    rest, found = (b != 0).flatten(), {}
    for part, mask in (*parts.items(), ("other", rest)):
        if many := int((mask & rest).sum()):
            found[Piece(name, part, mask).symbol] = many
            rest = rest & ~mask
    return found


def _absorb(bench, bias, weight, matrix, read, name):
    """Change a weight and a bias; returns the price, see `price_of`.  Raises Stays."""
    b, W = (bench.after.tensors[n].detach() for n in (bias, weight))
    inverse, shift = _norm_of(read, name)
    terms = shift * inverse
    kappa, size = terms.sum().item(), len(terms) + terms.abs().sum().item()
    if abs(kappa) <= ROUNDING * size:
        raise Stays(f"kappa, the sum of beta / gamma in {name}, is zero")
    factor = size / abs(kappa)
    if factor * b.norm() > LONGEST:
        raise Stays(f"kappa, the sum of beta / gamma in {name}, is too small")
    change = torch.outer(b.flatten(), inverse) / kappa
    change = change.T if matrix.shape == W.shape and torch.equal(matrix, W) else change
    if change.shape != W.shape or not changes_nothing(
        bench.after, bench.calls, {weight: change, bias: -b}
    ):
        raise Stays(f"{weight} does something else besides, or reads something else than {name}")
    bench.after.tensors[weight].data, bench.after.tensors[bias].data = (
        W + change,
        torch.zeros_like(b),
    )
    bench.longest = max(bench.longest, factor * b.norm().item())
    return (change.norm() / W.norm()).item(), 1 / abs(kappa), factor


def _norm_of(read, name):
    """1 / gamma and beta of the LayerNorm that made what a map reads; raises Stays."""
    if read is None or read.name != "native_layer_norm":
        raise Stays(
            f"it stands beside what {name} returns: only a LayerNorm's sum is known", "kept"
        )
    gain, shift = read.args[2:4]
    if shift is None or not shift.any():
        raise Stays(f"{name} has no shift, so kappa is zero", "kept")
    if shift.dim() > 1:
        raise Stays(f"{name} runs over several dimensions, and a linear map reads the last", "kept")
    if gain is not None and not gain.all():
        raise Stays(f"the gain of {name} has a zero, and 1 / gamma is not there", "kept")
    return torch.ones_like(shift) if gain is None else gain.reciprocal(), shift


def price_of(rows, dtype):
    """What the weights cost, in words: bounds by powers of ten, the same on every processor."""
    change, inverse, factor = map(max, zip(*(row.price for row in rows)))
    change, inverse = (f"{10.0 ** math.ceil(math.log10(n)):g}" for n in (change, inverse))
    lost, digits = math.ceil(math.log10(factor)), math.floor(-math.log10(torch.finfo(dtype).eps))
    return (
        f"price: weights change by less than {change} times their size, 1/|kappa| is below "
        f"{inverse}, and biases lose up to {lost} of {digits} digits"
    )
