"""Each operation's entry formula and its torch code agree with PyTorch's own function.

Proofs rely on an operation's entry formula, and runs of lines on its torch code.  These tests
compare both with a PyTorch function that neither of them calls.
"""

import pytest
import torch
import torch.nn.functional as F
from derivation.language import vocabulary
from derivation.language.letters import Bijection, Family
from derivation.refuting.torch_runs import Sample
from shared_letters import *

A, K_2 = matrix("A", d, n), matrix("K_2", k, d)
W, z = Heads("W", h, d, k), sequence("z", d)
draw = random_matrix("R", 1, 2, 9)
LETTERS = {f.params[0] for f in (X, Y, A, v, S)}


def normed(x, dim, eps):
    spread = x.var(dim, unbiased=False, keepdim=True) + eps
    return (x - x.mean(dim, keepdim=True)) * torch.rsqrt(spread)


#: {title: (expression, function by which PyTorch computes its value from the letters' tensors)}
CASES = {
    "matmul": (X @ A, lambda t: t["X"].matmul(t["A"])),
    "add": (X + Y, lambda t: torch.add(t["X"], t["Y"])),
    "scalar": (c * X, lambda t: torch.mul(t["X"], t["c"])),
    "transpose": (X.T, lambda t: t["X"].transpose(0, 1)),
    "hadamard": (X * Y, lambda t: torch.mul(t["X"], t["Y"])),
    "diag": (diag(v), lambda t: torch.diag_embed(t["v"].flatten())),
    "ones": (ones(n, d), lambda t: torch.ones_like(t["X"])),
    "identity": (identity(n), lambda t: torch.diag(torch.ones(len(t["X"]), dtype=torch.float64))),
    "causal": (causal(n), lambda t: torch.tril(torch.ones(len(t["X"]), len(t["X"]), dtype=torch.float64))),
    "positions": (position_numbers(n), lambda t: torch.ones_like(t["v"]).cumsum(0)),
    "permuted rows": (P @ X, lambda t: t["X"].index_select(0, t["Π"])),
    "unpermuted rows": (P.T @ X, lambda t: t["X"].index_select(0, t["Π"].argsort())),
    "stack": (stack(X, K_2), lambda t: torch.vstack((t["X"], t["K_2"]))),
    "last row": (last_row(X), lambda t: t["X"].select(0, -1).unsqueeze(0)),
    "exp": (exp(X), lambda t: torch.exp(t["X"])),
    "tanh": (tanh(X), lambda t: F.tanh(t["X"])),
    "sigmoid": (sigmoid(X), lambda t: torch.special.expit(t["X"])),
    "relu": (relu(X), lambda t: F.relu(t["X"])),
    "cos": (cos(X), lambda t: torch.cos(t["X"])),
    "sin": (sin(X), lambda t: torch.sin(t["X"])),
    "softmax": (softmax(S), lambda t: F.softmax(t["S"], dim=-1)),
    "masked softmax": (
        masked_softmax(M, S), lambda t: torch.exp(F.log_softmax(t["S"] + torch.log(t["M"]), dim=1))),
    "softmax off by one": (
        softmax_one(S), lambda t: torch.exp(t["S"] - torch.logaddexp(
            torch.logsumexp(t["S"], 1, keepdim=True), torch.zeros(1, dtype=torch.float64)))),
    "normalise": (normalise(exp(S)), lambda t: F.normalize(torch.exp(t["S"]), p=1, dim=1)),
    "layer norm": (layer_norm(X, eps), lambda t: normed(t["X"], 1, t["ε"])),
    "batch norm": (batch_norm(X, eps), lambda t: normed(t["X"], 0, t["ε"])),
    "rms norm": (rms_norm(X, eps), lambda t: t["X"] / (t["X"].square().mean(1, keepdim=True) + t["ε"]).sqrt()),
    "a head": (X @ W[a], lambda t: t["X"] @ t["W"][t["a"]]),
    "sum over heads": (over(a, X @ W[a]), lambda t: torch.einsum("nd,hdk->nk", t["X"], t["W"])),
    "term of a sequence": (z[3], lambda t: t["z"][2:3]),
    "prefix of a sequence": (z.prefix(n), lambda t: t["z"][: len(t["X"])]),
    "derivative": (derivative(exp(X + s * Y), s),
                   lambda t: torch.autograd.functional.jvp(torch.exp, t["X"], t["Y"])[1]),
    "second moment": (
        expectation(draw @ draw.T), lambda t: torch.full((1, 1), 18.0, dtype=torch.float64)),
    "index form": (
        tabulate(lambda i, j: total(lambda l: entry_of(X, i, l) * entry_of(A, l, j), d), n, n),
        lambda t: torch.einsum("ik,kj->ij", t["X"], t["A"])),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_entry_formula_and_torch_code_agree_with_pytorch(case):
    x, by_pytorch = CASES[case]
    basics = LETTERS | x.atoms(Family) | x.atoms(Bijection) | {a}
    for seed in range(7):
        sample = Sample(seed, x.free_scalars() | {n, m, d, k, h, c, eps}, basics=basics)
        by_name = {f.name: sample.family(f) for f in basics if isinstance(f, Family)}
        by_name |= {"Π": sample.permutation(P.params[0]).argmax(1), "a": sample.position(a)}
        expected = by_pytorch(by_name | {"c": sample.scalar(c), "ε": sample.scalar(eps)})
        entry, (rows, columns) = sample.value(x.function), sample.shape(x)
        cells = [[entry(i + 1, j + 1) for j in range(columns)] for i in range(rows)]
        cells = torch.tensor(cells, dtype=torch.float64)
        torch.testing.assert_close(cells, expected, rtol=1e-10, atol=1e-10)
        if case != "second moment":  # cells and x.run average a second moment over signs
            torch.testing.assert_close(cells, x.run(sample), rtol=1e-7, atol=1e-7)


def test_every_word_of_the_vocabulary_is_compared_with_pytorch():
    words = {word for word in vars(vocabulary).values() if isinstance(word, vocabulary.Word)}
    assert words <= {x.operation.word for given, _ in CASES.values() for x in given.walk()}
