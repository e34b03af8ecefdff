"""`audit` and `fold` do not trust operations that do nothing on the inputs seen so far.

On small numbers each operation is the identity, or nearly so, and the Jacobian shows no effect.
"""

import warnings

import pytest
import torch
import torch.nn.functional as F
from derivation.checks import normal
from redundancy import audit, fold
from shared_models import *

FAR = 50.0


class Clone(torch.autograd.Function):
    """A user's clamp with the name of a PyTorch operation and with a wrong derivative."""

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


def doubled_far_out(t: torch.Tensor):
    return torch.where(t > 50.0, 2 * t, t)


with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch.jit.script is deprecated, but models use it
    scripted = torch.jit.script(doubled_far_out)


def overwrite(t):
    t[t > FAR] = FAR


#: operations that are the identity on (-50, 50), where all numbers of a small model lie
PARTLY = {
    "clamp": lambda t: t.clamp(-FAR, FAR),
    "clamp_ on a view": in_place(lambda t: t[..., :2].clamp_(-FAR, FAR)),
    "clamp_ on the whole": in_place(lambda t: t.clamp_(-FAR, FAR)),
    "clamp_ under no_grad": in_place(under_no_grad),
    "clamp_ on the data": in_place(lambda t: t.data.clamp_(-FAR, FAR)),
    "a function called Clone": Clone.apply,
    "relu on one side": lambda t: F.relu(t + FAR) - FAR,
    "hardsigmoid": lambda t: 300 * F.hardsigmoid(t / 50) - 150,
    "maximum": lambda t: torch.maximum(t, torch.tensor(-FAR)),
    "where on values": lambda t: torch.where(t > FAR, 2 * t, t),
    "masked_fill on values": lambda t: t.masked_fill(t > FAR, 0),
    "a factor": lambda t: t * (t < FAR),
    "written over": in_place(overwrite),
    "a scripted function": lambda t: scripted(t),
    "behind another linear map": lambda t: F.relu(t @ torch.eye(t.shape[-1]).to(t) + FAR) - FAR,
    "a branch": lambda t: t.tanh() if t.abs().max() > FAR else t,
    "routing": lambda t: t.gather(
        -1, t.clamp(max=FAR).lt(FAR).long() * 0 + torch.arange(t.shape[-1])),
}  # fmt: skip

PLACES = {
    "keys": ("key", lambda op: {"on_keys": op}),
    "values": ("value", lambda op: {"on_values": op}),
    "scores": ("key", lambda op: {"weigh": lambda s: softmax(op(s))}),
    "before W_O": ("value", lambda op: {"before_output": lambda out, x: op(out)}),
}


X = {"x": normal(2, 5, d)}


@pytest.mark.parametrize("operation", PARTLY)
@pytest.mark.parametrize("place", PLACES)
def test_a_bias_before_an_operation_that_may_act_is_not_folded(operation, place):
    """A bias that passes through the operation stays, and outputs agree at large inputs too."""
    role, given = PLACES[place]
    model = randomised(Attention(**given(PARTLY[operation])))
    result = fold(model, X)
    gone = sum(row.zeros for row in result.moved if row.place == f"{role[0]}_proj.bias")
    if operation == "clamp_ on a view":  # clamps two numbers of each head, or of the joined heads
        assert gone == {"scores": 0, "before W_O": h * k - 2}.get(place, h * (k - 2))
    else:
        assert gone == 0
    assert apart(result.model, model, {"x": 1e3 * X["x"]}) <= result.bound


@pytest.mark.parametrize("operation", ["clamp", "relu on one side", "a branch"])
@pytest.mark.parametrize("place", PLACES)
def test_a_bias_before_an_operation_that_may_act_is_unknown(operation, place):
    role, given = PLACES[place]
    row = audit(Attention(**given(PARTLY[operation])), normal(3, 6, d, dtype=torch.float32)).row(
        role
    )
    assert (row.together, row.measured[1], row.verdict) == (0, h * k, "unknown"), row


class ClampedLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x.clamp(-FAR, FAR))


class ClampedNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.clamp(-FAR, FAR))


class NormClamped(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x).clamp(-FAR, FAR)


class NormLessOne(nn.LayerNorm):
    """A LayerNorm with its own forward, which adds the shift unchanged, so the shift may move."""

    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, self.weight + 1, self.bias, self.eps)


class Block(nn.Module):
    """Attention, then an MLP between two norms; only the last norm reads the MLP's output."""

    def __init__(self, linear=nn.Linear, norm=nn.LayerNorm, last=nn.LayerNorm, hook=None):
        super().__init__()
        self.attn, self.norm, self.last = Attention(), norm(d), last(d)
        self.up, self.down = linear(d, 9), nn.Linear(9, d)
        if hook:
            self.up.register_forward_pre_hook(hook)

    def forward(self, x):
        x = x + self.attn(x)
        return self.last(x + self.down(torch.tanh(self.up(self.norm(x)))))


def clamp_first(module, args):
    return tuple(t.clamp(-FAR, FAR) for t in args)


#: {title: (options of the block, bias to be moved, whether it may move)}
MODULES = {
    "nothing between": ({}, "norm", True),
    "nothing between, the second bias": ({}, "down", True),
    "a gain that is stored less one": ({"norm": NormLessOne}, "norm", True),
    "a Linear that clamps": ({"linear": ClampedLinear}, "norm", False),
    "a hook before a Linear": ({"hook": clamp_first}, "norm", False),
    "a norm that clamps what it made": ({"norm": NormClamped}, "norm", False),
    "a norm that clamps what it reads": ({"last": ClampedNorm}, "down", False),
}


@pytest.mark.parametrize("what", MODULES)
def test_a_subclass_is_judged_by_its_code(what):
    given, bias, may = MODULES[what]
    result = fold(randomised(Block(**given)), X, move="shifts" if bias == "norm" else "other")
    assert (f"{bias}.bias" in {row.place for row in result.moved}) == may, str(result)


def test_the_value_bias_of_clipped_projections_is_unknown():
    """A clip that never acts on these inputs still keeps `audit` from calling b_V redundant."""
    row = audit(tiny("olmo", num_hidden_layers=1, clip_qkv=50.0, attention_bias=True)).row("value")
    assert (row.together, row.measured[1], row.verdict) == (0, row.size, "unknown"), row
