"""Models that the tests of `redundancy` share, with functions that randomise and compare models."""

import functools

import torch
from architectures.cases import made
from redundancy.fold import difference
from redundancy.measure.precision import with_every_bias_random, with_every_weight_random
from redundancy.models.tiny import quiet, some_inputs, tiny
from redundancy.what_can_go.attention import Attention as AnyAttention
from redundancy.what_can_go.piece import Sizes
from torch import nn

d, h, k = 12, 3, 4  # d = h k
#: Relative errors must be below this bound; the measured errors are far smaller.
EQUAL = 1e-8


#: Attention in which functions act on the keys (``norm_k``) and on the heads' outputs (``finish``),
#: or replace softmax (``weigh``).
Attention = functools.partial(AnyAttention, Sizes(d, h, h, k, 0, 0, 0))


@made(lambda watched=False: {"norm": nn.LayerNorm(d), "attn": Attention(), "watched": watched})
def pre_norm(self, x):
    """A pre-norm attention block; if ``watched``, a sine also reads the norm's output."""
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
    return randomised(tiny(kind, **given))


def apart(model, other, inputs=None, seed=5):
    """The largest relative difference between outputs, by default at inputs new to `fold`."""
    inputs = inputs or some_inputs(other, batch=3, tokens=9, seed=seed)
    return difference(model, other, inputs)


def changed(model, other):
    """The names in `state_dict` whose tensors differ between two models."""
    new = other.state_dict()
    return {name for name, value in model.state_dict().items() if not torch.equal(value, new[name])}
