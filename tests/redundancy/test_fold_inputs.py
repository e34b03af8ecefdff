"""`fold` respects masks, modes, and matrices that the given inputs do not use."""

import copy
import random

import numpy
import pytest
import torch
from derivation.checks import normal
from redundancy import fold
from redundancy.fold import equality
from redundancy.measure.inputs import tensors
from redundancy.measure.precision import with_every_bias_random
from redundancy.measure.subject import Subject, exactly
from redundancy.models.tiny import some_inputs, tiny
from shared_models import *


def constants(rows):
    return {row.constant for row in rows}


# --- training ---


def test_a_query_bias_stays_where_layers_are_dropped_at_random():
    """No shift absorbs a query bias where LayerDrop may skip layers, here only in the encoder."""
    rates = {"dropout": 0.0, "attention_dropout": 0.0, "activation_dropout": 0.0}
    model = copy.deepcopy(random_model("bart", **rates, encoder_layerdrop=0.02)).train()
    result, inputs = fold(model), some_inputs(model)
    queries = [row.place for row in result.moved if row.constant == "b_Q"]
    assert queries and not any("encoder.layers" in place for place in queries), str(result)
    model.encoder.layerdrop = result.model.encoder.layerdrop = 0.5
    with exactly(), torch.no_grad():
        one, other = (Subject(m, own=True) for m in (model, result.model))
        ways = [(one.run(((), inputs), seed=n), other.run(((), inputs), seed=n)) for n in range(20)]
    assert max(equality.apart(*way) for way in ways) <= result.bound


class OftenLeftOut(Watched):
    """A block that skips its attention at random, with numbers from ``draw``, not from PyTorch."""

    def __init__(self, draw):
        super().__init__()
        self.draw = draw

    def forward(self, x):
        return super().forward(x) if self.draw() < 0.3 else 2 * x


@pytest.mark.parametrize("draw", [random.random, lambda: numpy.random.random()])
def test_python_and_numpy_draw_the_same_numbers_for_both_models(draw):
    result = fold(randomised(OftenLeftOut(draw)).train(), {"x": normal(2, 5, d)})
    assert result.error <= result.bound


class Tracking(nn.Module):
    """An attention layer after a BatchNorm, which updates its running statistics in training."""

    def __init__(self):
        super().__init__()
        self.norm, self.attn = nn.BatchNorm1d(d), Attention()

    def forward(self, x):
        return self.attn(self.norm(x.mT).mT)


def test_running_statistics_are_not_changed_by_the_comparison():
    model = Tracking().train()
    before = copy.deepcopy(model.state_dict())
    result = fold(model, {"x": normal(2, 5, d, dtype=torch.float32)})
    for one in (model, result.model):
        state = one.state_dict()
        assert all(torch.equal(state[n], v) for n, v in before.items() if "running" in n)
        assert state["norm.num_batches_tracked"] == 0


# --- which operations read a norm, and when ---


@pytest.mark.filterwarnings("ignore:Use of index_put_ on expanded tensors")
def test_an_unused_matrix_is_taken_to_depend_on_any_bias():
    """No attention bias moves while Longformer's matrices for global tokens are unused."""
    model = with_every_bias_random(tiny("longformer", attention_window=[4, 4])).double()
    result, inputs = fold(model), some_inputs(model, tokens=8)
    assert not constants(result.moved) & {"b_Q", "b_K", "b_V"} and "_global" in str(
        result.refused[0]
    )
    first = torch.zeros(2, 8, dtype=torch.long)
    first[:, 0] = 1
    everywhere = inputs | {"global_attention_mask": first}
    assert apart(result.model, model, everywhere) <= result.bound
    assert "not used" not in str(fold(model, everywhere))


@pytest.mark.parametrize("watched", [False, True])
def test_a_norm_that_something_else_reads_keeps_its_shift(watched):
    result = fold(randomised(Watched(watched)), {"x": normal(2, 5, d)})
    assert ("b_Q" in constants(result.moved)) != watched
    assert not result.model.attn.v_proj.bias.any()


class Weighted(nn.Module):
    def __init__(self, alpha):
        super().__init__()
        self.first, self.attn, self.norm = nn.LayerNorm(d), Attention(), nn.LayerNorm(d)
        self.up, self.down, self.alpha = nn.Linear(d, 2 * d), nn.Linear(2 * d, d), alpha

    def forward(self, x):
        x = self.norm(self.attn(self.first(x)))
        return x, [self.first(torch.add(x, self.down(self.up(x).relu()), alpha=self.alpha))]


def test_the_weight_of_a_sum_is_respected():
    """`fold` respects the factor alpha of `torch.add`, by which the second bias is scaled."""
    model, x = randomised(Weighted(0.5)), {"x": normal(2, 5, d)}
    assert len(tensors(model(**x))) == 2  # tensors inside lists count as outputs
    result = fold(model, x)
    assert apart(result.model, model, {"x": normal(2, 6, d, seed=1)}) <= result.bound
    assert {"b_K", "b_V", "b"} <= constants(result.moved)


# --- lengths, masks, flags ---


@pytest.mark.parametrize("flags", [{}, {"add_bias_kv": True}, {"add_zero_attn": True}])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kdim", [None, 12])
def test_the_attention_of_pytorch_with_its_flags(flags, bias, kdim):
    given = nn.MultiheadAttention(16, 2, bias=bias, kdim=kdim, vdim=kdim, batch_first=True, **flags)
    model, sizes = randomised(given), {"query": 16, "key": kdim or 16, "value": kdim or 16}
    inputs = lambda n: {name: normal(2, n, size, seed=n) for name, size in sizes.items()}
    result = fold(model, inputs(4))
    # bias_k and bias_v absorb the key and value biases; the zeros of add_zero_attn cannot
    zeros = 0 if not bias or "add_zero_attn" in flags else 2 * 16
    assert sum(row.zeros for row in result.moved) == zeros, str(result)
    assert apart(result.model, model, inputs(7)) <= result.bound


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("norm_first", [True, False])
def test_the_encoder_of_pytorch_on_its_fast_path_and_off_it(norm_first):
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first)
    model = randomised(nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first))
    x, hidden = normal(2, 7, 16), torch.zeros(2, 7, dtype=torch.bool)
    result, hidden[0, 5:] = fold(model, {"src": x[:, :5]}), True
    for grad, mask in ((False, None), (True, None), (False, hidden), (True, hidden)):
        with torch.set_grad_enabled(grad):
            one, other = (m(x, src_key_padding_mask=mask) for m in (result.model, model))
        assert (one - other).abs().max() <= result.bound * other.abs().max()
