"""Models that the tests of `redundancy` share, with functions that randomise and compare models."""

import functools

import torch
from redundancy.fold import difference
from redundancy.measure.precision import with_every_bias_random, with_every_weight_random
from redundancy.models.tiny import quiet, some_inputs, tiny
from torch import nn

d, h, k = 12, 3, 4  # d = h k
#: Relative errors must be below this bound; the measured errors are far smaller.
EQUAL = 1e-8
#: {kind of model: options without which this kind has no value bias}
GIVEN = {"llama": {"attention_bias": True}}


def softmax(scores):
    return torch.softmax(scores, -1)


def unchanged(x):
    return x


class Attention(nn.Module):
    """softmax(Q K^T / 2) V W_O, in which the given functions replace softmax or come between steps.

    The parameters have common names, but an audit must judge by the operations alone.
    """

    def __init__(self, weigh=softmax, on_keys=unchanged, before_output=lambda out, x: out):
        super().__init__()
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(d, d) for _ in range(4))
        self.num_heads, self.weigh = h, weigh
        self.on_keys, self.before_output = on_keys, before_output

    def forward(self, x):
        maps = self.q_proj, self.k_proj, self.v_proj
        q, keys, v = (read(x).unflatten(-1, (h, k)).transpose(1, 2) for read in maps)
        out = self.weigh(q @ self.on_keys(keys).mT / 2) @ v
        return self.o_proj(self.before_output(out.transpose(1, 2).flatten(-2), x))


class Watched(nn.Module):
    """A pre-norm attention block; if ``watched``, a sine also reads the norm's output."""

    def __init__(self, watched=False):
        super().__init__()
        self.norm, self.attn, self.watched = nn.LayerNorm(d), Attention(), watched

    def forward(self, x):
        read = self.norm(x)
        out = x + self.attn(read)
        return out + read.sin() if self.watched else out


def randomised(model):
    """The model in float64 and evaluation mode, with random biases and weights."""
    return with_every_bias_random(with_every_weight_random(model)).double().eval()


def config(kind, **given):
    """The default configuration of an architecture, with the given fields changed."""
    with quiet():
        from transformers import AutoConfig

        return AutoConfig.for_model(kind, **given)


@functools.cache
def random_model(kind, **given):
    return randomised(tiny(kind, **(GIVEN.get(kind, {}) | given)))


def apart(model, other, inputs=None, seed=5):
    """The largest relative difference between outputs, by default at inputs new to `fold`."""
    inputs = inputs or some_inputs(other, batch=3, tokens=9, seed=seed)
    return difference(model, other, inputs)


def changed(model, other):
    """The names in `state_dict` whose tensors differ between two models."""
    new = other.state_dict()
    return {name for name, value in model.state_dict().items() if not torch.equal(value, new[name])}
