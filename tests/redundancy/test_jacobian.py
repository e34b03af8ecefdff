"""`jacobian` counts redundant directions correctly where the count was worked out by hand."""

from unittest.mock import DEFAULT, Mock

import pytest
import torch
from derivation.checks import normal, with_random_biases
from redundancy import UnclearRank, jacobian
from redundancy.measure.nullity import CUT, TURNS, singular_values, svd
from redundancy.what_can_go.attention import Attention
from redundancy.what_can_go.piece import SIZES, generic
from torch import nn


def drawn(*shape):
    """Return a function that draws standard normal inputs of this shape from a seed."""
    return lambda seed: (normal(*shape, seed=100 + seed),)


def product(p, x):
    return x @ p["A"] @ p["B"]


FACTORS = {"A": normal(5, 3, seed=1), "B": normal(3, 4, seed=2)}


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_the_nullity_of_a_product_does_not_depend_on_the_chunk_size(chunk):
    found = jacobian(product, drawn(2, 5), FACTORS, chunk=chunk)
    assert str(found.nullity()) == "9 of 27"
    assert found.nullity("A").dimension == found.nullity("B").dimension == 0
    whole = jacobian(product, drawn(2, 5), FACTORS)
    values = [torch.linalg.svdvals(one.triangle) for one in (whole, found)]
    assert torch.allclose(*values, atol=1e-12)


def test_a_threshold_relative_to_the_whole_jacobian_finds_a_redundant_part():
    found = jacobian(generic(Attention(SIZES[0])), drawn(3, 5, 8))
    assert found.nullity("k.bias").dimension == 8 and found.nullity("k.bias").kept is None
    assert found.nullity("q.bias").dimension == 0
    own = torch.linalg.svdvals(found.triangle[:, found.columns("k.bias")])
    assert (own > CUT * own.max()).sum() == 8, "a cut relative to the part would answer 0"


def test_a_parameter_of_small_effect_counts_and_one_at_the_threshold_is_refused():
    faint = lambda size: lambda p, x: p["a"] * x + size * p["b"]
    parameters = {"a": torch.ones((), dtype=torch.float64), "b": normal()}
    assert jacobian(faint(1e-6), drawn(3), parameters).nullity().dimension == 0
    assert jacobian(faint(1e-12), drawn(3), parameters).nullity().dimension == 1
    with pytest.raises(UnclearRank, match="too near the cut"):
        jacobian(faint(1e-9), drawn(3), parameters).nullity()


def test_inputs_are_drawn_until_the_rank_settles():
    """Inputs are added until the rank settles; a rule that counts outputs would stop too early."""
    width, heads = 12, 2
    attention = with_random_biases(nn.MultiheadAttention(width, heads, batch_first=True))
    found = jacobian(attention, lambda seed: (normal(4, 2, width, seed=seed),) * 3)
    assert found.nullity().dimension == 2 * width * width // heads + 2 * width


def test_a_jacobian_that_cannot_be_measured_is_refused():
    with pytest.raises(ValueError, match="'weight' is torch.float32"):
        jacobian(nn.Linear(2, 2), drawn(3, 2))
    with pytest.raises(ValueError, match="no outputs"):
        jacobian(product, drawn(0, 5), FACTORS)
    with pytest.raises(KeyError, match="'C'; the parameters are A, B"):
        jacobian(product, drawn(2, 5), FACTORS).nullity("C")


def test_a_matrix_whose_svd_fails_is_rotated_and_tried_again(monkeypatch):
    """While LAPACK fails, here as often as is allowed, the matrix is rotated and tried again."""
    failed, matrix = torch.linalg.LinAlgError("the algorithm failed to converge"), normal(6, 4)
    tried = Mock(side_effect=[*TURNS * [failed], DEFAULT], wraps=torch.linalg.svd)
    monkeypatch.setattr(torch.linalg, "svd", tried)
    left, values, right = svd(matrix)
    assert torch.allclose(left * values @ right, matrix, atol=1e-12)
    first, *_, last = (call.args[0] for call in tried.call_args_list)
    assert tried.call_count == TURNS + 1 and not torch.equal(first, last)
    again = Mock(side_effect=[failed, DEFAULT], wraps=torch.linalg.svdvals)
    monkeypatch.setattr(torch.linalg, "svdvals", again)
    assert torch.allclose(singular_values(matrix), values, atol=1e-12)
