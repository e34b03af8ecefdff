"""Operations that do nothing at the inputs at hand, and something at others: never taken on trust.

Each of them is the identity, or nearly, where numbers are small, and the Jacobian cannot tell.
"""

import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal
from redundancy import audit, fold
from redundancy.equality import difference
from shared_models import *

FAR = 50.0


class Clone(torch.autograd.Function):
    """A function of somebody's own, called like one that PyTorch has."""

    generate_vmap_rule = True

    @staticmethod
    def forward(t):
        return t.clamp(-FAR, FAR)

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def in_place(change):
    def changed(t):
        t = t.clone()
        change(t)
        return t

    return changed


def under_no_grad(t):
    with torch.no_grad():
        t.clamp_(-FAR, FAR)


def overwrite(t):
    t[t > FAR] = FAR


#: the identity on (-50, 50), on which all that a small model computes lies
PARTLY = {
    "clamp": lambda t: t.clamp(-FAR, FAR),
    "clamp_ on a view": in_place(lambda t: t[..., :2].clamp_(-FAR, FAR)),
    "clamp_ on the whole": in_place(lambda t: t.clamp_(-FAR, FAR)),
    "clamp_ under no_grad": in_place(under_no_grad),
    "clamp_ on the data": in_place(lambda t: t.data.clamp_(-FAR, FAR)),
    "a function called Clone": Clone.apply,
    "hardtanh": lambda t: F.hardtanh(t, -FAR, FAR),
    "relu on one side": lambda t: F.relu(t + FAR) - FAR,
    "leaky relu on one side": lambda t: F.leaky_relu(t + FAR) - FAR,
    "hardswish": lambda t: F.hardswish(t + FAR) - FAR,
    "hardsigmoid": lambda t: 300 * F.hardsigmoid(t / 50) - 150,
    "abs": lambda t: (t + FAR).abs() - FAR,
    "maximum": lambda t: torch.maximum(t, torch.tensor(-FAR)),
    "max pooling": lambda t: F.max_pool1d(t.flatten(0, 1), 1).view_as(t),
    "where on values": lambda t: torch.where(t > FAR, 2 * t, t),
    "masked_fill on values": lambda t: t.masked_fill(t > FAR, 0),
    "a factor": lambda t: t * (t < FAR),
    "written over": in_place(overwrite),
    "a branch": lambda t: t.tanh() if t.abs().max() > FAR else t,
    "routing": lambda t: t.gather(-1, t.clamp(max=FAR).lt(FAR).long() * 0 + torch.arange(t.shape[-1])),
}  # fmt: skip

PLACES = {
    "keys": ("key", lambda op: {"on_keys": op}),
    "values": ("value", lambda op: {"on_values": op}),
    "scores": ("key", lambda op: {"weigh": lambda s: softmax(op(s))}),
    "before W_O": ("value", lambda op: {"before_output": lambda out, x: op(out)}),
}


@pytest.mark.parametrize("operation", PARTLY)
@pytest.mark.parametrize("place", PLACES)
def test_what_may_become_active_is_unknown(operation, place):
    role, given = PLACES[place]
    layer = Attention(**given(PARTLY[operation]))
    row = audit(layer, normal(3, 6, d, dtype=torch.float32)).row(role)
    assert (row.predicted, row.measured, row.could_go) == (None, h * k, 0), row
    assert row.verdict in ("measured only", "UNCLEAR")  # the slope of hardsigmoid is off by 1e-8


@pytest.mark.parametrize("place", ["keys", "values"])
def test_it_is_not_folded(place):
    role, given = PLACES[place]
    result = fold(randomised(Attention(**given(PARTLY["where on values"]))), {"x": normal(2, 5, d)})
    constant = {"key": "b_K", "value": "b_V"}[role]
    (row,) = [row for row in result.refused if row.constant == constant]
    assert "no gradient shows" in row.text


def test_the_comparison_would_not_have_seen_it():
    """The control: folded as if nothing stood there, equal where numbers are small, not beyond."""
    model = randomised(Attention(on_values=PARTLY["where on values"]))
    plain, x = randomised(Attention()), normal(2, 5, d)
    plain.load_state_dict(model.state_dict())
    folded = fold(plain, {"x": x}).model
    folded.on_values = model.on_values
    assert difference(folded, model, {"x": x}) < EQUAL
    assert difference(folded, model, {"x": 100 * x}) > 1e-3


@pytest.mark.parametrize("kind", ["olmo", "olmoe"])
def test_clipped_projections(kind):
    model = tiny(kind, num_hidden_layers=1, clip_qkv=50.0, attention_bias=True)
    row = audit(model).row("value")
    assert (row.predicted, row.measured, row.could_go) == (None, 16, 0)
    assert "CopySlices" in row.why[0]
