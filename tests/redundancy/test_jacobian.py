"""`jacobian` counts redundant directions correctly where the count was worked out by hand."""

import pytest
import torch
from derivation.checks import normal, with_random_biases
from redundancy import UnclearRank, jacobian
from redundancy.measure.nullity import CUT, TURNS, singular_values, svd
from torch import nn


def drawn(*shape):
    """Return a function that draws standard normal inputs of this shape from a seed."""
    return lambda seed: (normal(*shape, seed=100 + seed),)


def product(p, x):
    return x @ p["A"] @ p["B"]


FACTORS = {"A": normal(5, 3, seed=1), "B": normal(3, 4, seed=2)}


@pytest.mark.parametrize("chunk", [1, 7, 1000])
def test_two_factors_share_a_change_of_basis_whatever_the_size_of_a_chunk(chunk):
    found = jacobian(product, drawn(2, 5), FACTORS, chunk=chunk)
    assert str(found.nullity()) == "9 of 27"
    assert found.nullity("A").dimension == found.nullity("B").dimension == 0
    whole = jacobian(product, drawn(2, 5), FACTORS)
    values = [torch.linalg.svdvals(one.triangle) for one in (whole, found)]
    assert torch.allclose(*values, atol=1e-12)


class Plain(nn.Module):
    """Attention whose softmax ignores the key bias, but not the query bias."""

    def __init__(self):
        super().__init__()
        self.query, self.key = nn.Linear(4, 3), nn.Linear(4, 3)
        self.double()

    def forward(self, x):
        return torch.softmax(self.query(x) @ self.key(x).mT, -1) @ x


def test_an_absolute_cut_finds_a_wholly_redundant_part():
    found = jacobian(Plain(), drawn(3, 5, 4))
    assert found.nullity("key.bias").dimension == 3 and found.nullity("key.bias").kept is None
    assert found.nullity("query.bias").dimension == 0
    own = torch.linalg.svdvals(found.triangle[:, found.columns("key.bias")])
    assert (own > CUT * own.max()).sum() == 3, "a cut relative to the part would answer 0"


def test_a_faint_parameter_counts_and_one_at_the_cut_is_refused():
    faint = lambda size: lambda p, x: p["a"] * x + size * p["b"]
    parameters = {"a": torch.ones((), dtype=torch.float64), "b": normal()}
    assert jacobian(faint(1e-6), drawn(3), parameters).nullity().dimension == 0
    assert jacobian(faint(1e-12), drawn(3), parameters).nullity().dimension == 1
    with pytest.raises(UnclearRank, match="too near the cut"):
        jacobian(faint(1e-9), drawn(3), parameters).nullity()


def test_inputs_are_drawn_until_they_are_enough():
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


@pytest.mark.parametrize("name", ["svd", "svdvals"])
def test_a_matrix_that_does_not_converge_is_turned(monkeypatch, name):
    """While LAPACK fails, here as often as is allowed, the matrix is rotated and tried again."""
    matrix, seen, decompose = normal(6, 4), [], getattr(torch.linalg, name)

    def decomposed(given, **options):
        seen.append(given)
        if len(seen) <= TURNS:
            raise torch.linalg.LinAlgError("the algorithm failed to converge")
        return decompose(given, **options)

    expected = torch.linalg.svdvals(matrix)
    monkeypatch.setattr(torch.linalg, name, decomposed)
    if name == "svd":
        left, values, right = svd(matrix)
        assert torch.allclose(left * values @ right, matrix, atol=1e-12)
    else:
        values = singular_values(matrix)
    assert torch.allclose(values, expected, atol=1e-12)
    assert len(seen) == TURNS + 1 and not torch.equal(seen[0], seen[-1])
