"""Put a bias into the weight beside it, where a LayerNorm with a shift stands before: Theorem 7.8.

An output y of a LayerNorm with gain gamma and shift beta satisfies

    y_1 / gamma_1 + ... + y_d / gamma_d = beta_1 / gamma_1 + ... + beta_d / gamma_d = kappa,

so W + b (1 / gamma)^T / kappa does what W and b do, and no other reader of the norm has to change.
The price is digits: b comes back as a sum of d terms, (d + |beta / gamma|_1) / |kappa| times as
large as b at most.  Training moves gamma and beta, so the two models are equal only as they are.
"""

from __future__ import annotations

import math

import torch
from torch import nn

from .report import BIASES
from .surgery import LONGEST, Row, Stays, is_layer_norm, is_linear, nonzero, weight_of

#: Of sums, the share that rounding leaves of zero.
ROUNDING = 1e-12


def absorb_into_weights(surgeon):
    """Clear the bias of every Linear that reads a LayerNorm; writes into the surgeon's account."""
    for linear in filter(is_linear, surgeon.names):
        sources = {call.sources[0] for run in surgeon.runs for call in run.calls[linear]}
        near = {node.module for source in sources for node in (source, *source.sources)}
        if nonzero(linear.bias) and any("Norm" in type(module).__name__ for module in near):
            _account(surgeon, linear, sources)
    surgeon.take_back()


def _account(surgeon, linear, sources):
    """Clear one bias, or say why it stays; what was kept of it before is then no longer kept."""
    held = {
        (layer.name, BIASES[role]): int(p.bias().count_nonzero())
        for layer in surgeon.layers
        for role, p in layer.projections.items()
        if p.biases.module is linear and nonzero(p.bias())
    } or {(surgeon.names[linear], "bias"): int(linear.bias.count_nonzero())}
    try:
        price = _absorb(surgeon, linear, sources)
    except Stays as reason:
        surgeon.rows += [Row(reason.verdict, *place, str(reason)) for place in held]
        return
    left = (r for r in surgeon.rows if r.verdict == "moved" or (r.place, r.constant) not in held)
    text = f"into {surgeon.names[linear]}.weight"
    surgeon.rows = [*left, *(Row("moved", *place, text, n, price) for place, n in held.items())]


def _absorb(surgeon, linear, sources):
    """Change a weight and a bias; returns the price, see `price_of`.  Raises Stays."""
    norm, name = _norm_read(surgeon, sources), surgeon.names[linear]
    for own in (linear.weight, linear.bias):
        if sum(p is own for _, p in surgeon.model.named_parameters(remove_duplicate=False)) > 1:
            raise Stays(f"{name} shares its weight or its bias with another module")
    terms, W, b = norm.bias / norm.weight, weight_of(linear), linear.bias
    kappa, size = terms.sum().item(), len(terms) + terms.abs().sum().item()
    if abs(kappa) <= ROUNDING * size:
        raise Stays(f"kappa, the sum of beta / gamma in {surgeon.names[norm]}, is zero")
    factor = size / abs(kappa)
    if factor * b.norm() > LONGEST:
        raise Stays(f"kappa, the sum of beta / gamma in {surgeon.names[norm]}, is too small")
    change = torch.outer(b, 1 / norm.weight) / kappa
    relative = (change.norm() / W.norm()).item()
    made = W + change if isinstance(linear, nn.Linear) else (W + change).T.contiguous()
    linear.weight = nn.Parameter(made)  # a new one: the model compared with shares the old
    surgeon.longest = max(surgeon.longest, factor * b.norm().item())
    b.zero_()
    return relative, 1 / abs(kappa), factor


def _norm_read(surgeon, sources):
    """The LayerNorm that is all that a Linear reads, in every call; raises Stays."""
    modules = {source.module for source in sources}
    if len(modules) > 1:
        raise Stays(f"it reads one thing here and another there: {', '.join(map(str, sources))}")
    (source, *_), (norm,) = sources, modules
    kind = type(norm).__name__
    if "Norm" not in kind:
        raise Stays(f"{source} stands between it and the norm")
    if not is_layer_norm(norm):
        raise Stays(f"{source} is a {kind}: only what a LayerNorm returns has a known sum", "kept")
    if norm.bias is None or norm.weight is None or not norm.bias.any():
        raise Stays(f"{source} has no shift, so kappa is zero", "kept")
    if norm.weight.ndim > 1:
        raise Stays(f"{source} runs over several dimensions, and a Linear reads the last")
    if not norm.weight.all():
        raise Stays(f"the gain of {source} has a zero, and 1 / gamma is not there", "kept")
    return norm


def price_of(rows, dtype):
    """What the weights cost, in words: bounds by powers of ten, the same on every processor."""
    change, inverse, factor = map(max, zip(*(row.price for row in rows)))
    change, inverse = (f"{10.0 ** math.ceil(math.log10(n)):g}" for n in (change, inverse))
    lost, digits = math.ceil(math.log10(factor)), math.floor(-math.log10(torch.finfo(dtype).eps))
    return (
        f"price: weights change by less than {change} times their size, 1/|kappa| is below "
        f"{inverse}, and biases lose up to {lost} of {digits} digits"
    )
