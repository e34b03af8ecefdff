"""Compare a port with its original: which biases one of them lacks, and who could have seen it.

    found = compare(original, port)
    print(found)                    # a line for each bias that differs
    found.lost                      # the differences that outputs could show

A test that compares outputs passes for two reasons: because the bias that is missing does nothing,
in any model of this architecture, or because it was zero in the model that was tested.  The first
is a theorem's affair and `audit` knows it; the second is read off the original.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from .auditing import audit
from .checkpoints import is_name, load
from .layers import find_attention
from .report import AGREE, BIASES

#: What rounding in the weights' own dtype may leave of an equality, in units of its last place.
ROUNDED = 64

REDUNDANT = "no output shows it: it is redundant"
ZERO = "no output of this model shows it: it is zero here, and counts where it is not"
MOVED = "no output shows it: the port's b_O holds W_O b_V"
SEEN = "outputs show it"
UNSEEN_PART = "no output of this model shows it: what is not redundant of it is zero here"
UNKNOWN = "not known: no theorem here covers it"


class CannotCompare(ValueError):
    """The two models are not built alike; says where."""


@dataclass(frozen=True)
class Difference:
    """A bias that one of two models has: its ``layer``, in ``which`` model, and who sees it."""

    layer: str
    role: str
    which: str  # "the original", "the port"
    seen: str

    @property
    def bias(self):
        return BIASES.get(self.role, self.role)

    def __str__(self):
        other = "the port" if self.which == "the original" else "the original"
        return f"{self.layer}: {self.bias} is in {self.which} and not in {other}: {self.seen}"


@dataclass(frozen=True)
class Comparison:
    """The report of `compare`: ``differences`` of attention, and ``others`` by parameter name."""

    differences: tuple[Difference, ...]
    others: tuple[str, ...]

    @property
    def lost(self):
        """The differences that outputs show, or may show."""
        return [d for d in self.differences if d.seen in (SEEN, UNKNOWN)]

    @property
    def blind(self):
        """The differences that a test on this original cannot see, and a test on others can."""
        return [d for d in self.differences if d.seen in (ZERO, UNSEEN_PART)]

    def __str__(self):
        lines = {}
        for d in self.differences:
            lines.setdefault(re.sub(r"\b\d+\b", "*", str(d)), []).append(d)
        said = [t + (f" ({len(d)} layers)" if len(d) > 1 else "") for t, d in lines.items()]
        said += [f"{name}, which is no bias of attention: not judged" for name in self.others]
        return "\n".join(said) or "both have the same biases"


def compare(original, port, inputs=None):
    """Which biases one of two models has and the other lacks; a `Comparison`.

    Both are modules, or names or folders of checkpoints, with the same layers of attention in the
    same order; how they are called may differ.  ``inputs`` suit both, as for `audit`.  Raises
    CannotCompare where layers do not match, and what `audit` raises.
    """
    models = [load(m) if is_name(m) else m for m in (original, port)]
    layers = [find_attention(m) for m in models]
    _demand_alike(*layers)
    reports = {}
    found = []
    for pair in zip(*layers):
        for role in pair[0].projections.keys() | pair[1].projections.keys():
            both = [layer.projections.get(role) for layer in pair]
            has = [p is not None and p.has_bias for p in both]
            if has[0] == has[1]:
                continue
            which = has.index(True)
            if which not in reports:
                reports[which] = audit(models[which], inputs)
            row = reports[which].row(role, pair[which].name)
            seen = _seen(row, pair[which], pair[1 - which])
            found.append(
                Difference(pair[which].name, role, ("the original", "the port")[which], seen)
            )
    order = {role: i for i, role in enumerate(BIASES)}
    names = [layer.name for layer in layers[0]]
    found.sort(key=lambda d: (names.index(d.layer) if d.layer in names else 0, order[d.role]))
    return Comparison(tuple(found), tuple(_others(models, layers)))


def _demand_alike(one, other):
    if len(one) != len(other):
        raise CannotCompare(
            f"one model has {len(one)} layers of attention and the other {len(other)}: "
            "compare models with the same layers in the same order"
        )
    for a, b in zip(one, other):
        sizes = [(la.heads, la.key_value_heads, la.head_dim, la.value_dim) for la in (a, b)]
        if sizes[0] != sizes[1]:
            raise CannotCompare(
                f"{a.name} and {b.name} are cut into other heads (heads, heads of keys, width of a "
                f"key, of a value): {sizes[0]} and {sizes[1]}"
            )


def _seen(row, owner, other):
    """Whether outputs could show that a bias is there in one layer and not in the other."""
    bias = owner.projections[row.role].bias().double()
    if row.verdict == AGREE and row.alone == row.size:
        return REDUNDANT
    if not bias.any():
        return ZERO
    if row.role == "value" and _took_over(owner, other):
        return MOVED
    if row.verdict != AGREE:
        return UNKNOWN
    if row.role == "output" and row.alone == 1 and _rounds_to(bias, bias.mean().expand_as(bias)):
        return UNSEEN_PART
    return SEEN


def _took_over(owner, other):
    """Whether the other layer's b_O is the owner's b_O + W_O b_V."""
    if owner.output is None or not (owner.output.has_bias and other.output.has_bias):
        return False
    each = owner.value.bias().double().view(owner.key_value_heads, -1)
    each = each.repeat_interleave(owner.group, 0).flatten()
    whole = owner.output.bias().double() + owner.output.weight().double() @ each
    return _rounds_to(other.output.bias(), whole)


def _rounds_to(found, expected):
    """Whether two vectors are equal up to the rounding of the first's dtype."""
    unit = torch.finfo(found.dtype).eps if found.dtype != torch.float64 else 1e-15
    gap = (found.double() - expected.double()).abs().max()
    return bool(gap <= ROUNDED * unit * expected.double().abs().max())


def _others(models, layers):
    """Sentences on biases outside attention, where both models call their parameters alike."""
    own = [{p.bias_name for la in some for p in la.projections.values()} for some in layers]
    names = [
        {n for n, _ in m.named_parameters() if n.endswith("bias")} - o for m, o in zip(models, own)
    ]
    for which, (mine, theirs) in enumerate((names, names[::-1])):
        other = dict(models[1 - which].named_parameters())
        there = [n for n in sorted(mine - theirs) if n.removesuffix("bias") + "weight" in other]
        for name in there:
            yield f"{name} is in {('the original', 'the port')[which]} only"
