"""A second judge agrees with every theorem that the notebooks prove; nothing is run in torch.

The judge evaluates each theorem at all combinations of sizes 1 to 3: see the folder ``judge``.
"""

import os

import pytest
import sympy as sp
from cell_proofs import proof_cells, proved_by
from derivation import *
from judge.statements import Claim, judged

#: Worlds (values for all letters) to try per theorem; ``make nightly ONLY=judge`` tries more.
WORLDS = int(os.environ.get("JUDGE_WORLDS", 60))
SEEN = set()  # (notebook, theorem) pairs that were already judged
CELLS = [pytest.param(*found, id=f"{found[0]}-{found[1].index}") for found in proof_cells()]


@pytest.mark.parametrize("notebook, cell", CELLS)
def test_the_kernel_proves_it_and_the_judge_agrees(notebook, cell):
    theorems, _ = proved_by(cell)
    for theorem in theorems:
        if (notebook, repr(theorem)) not in SEEN:
            SEEN.add((notebook, repr(theorem)))
            found = judged(theorem, WORLDS)
            assert not found.refuted, f"{theorem!r}\nis false in {found.refuted}"
            assert found.tried, f"{theorem!r}\nno world met its hypotheses"
            assert found.tried == [()] or max(map(max, found.tried)) >= 2, f"{theorem!r}"


n, m = sizes("n m")
A, B, S, w = matrix("A", n, n), matrix("B", n, n), matrix("S", m, n), matrix("w", n)
R, P, M, tau = random_matrix("R", n, n, 1), permutation("Π", n), mask("M", n, n), scalars("tau")
orthogonal = given(A.T @ A, identity(n))

FALSE = {
    "a shift of keys": Claim(softmax(S + ones(m) @ w.T), softmax(S)),
    "false from n = 3 on": Claim(P @ P, identity(n)),
    "masks are ones": Claim(M, ones(n, n)),
    "a third moment": Claim(expectation(R * R * R * R), ones(n, n)),
    "a derivative": Claim(derivative(exp(A + tau * A), tau), A),
    "a rational, by little": Claim(A, (1 + sp.Rational(1, 10**99)) * A),
    "beside an equation": Claim(A @ B, zeros(n, n), (orthogonal,)),
}


@pytest.mark.parametrize("name", FALSE)
def test_the_judge_refutes(name):
    assert judged(FALSE[name], 700).refuted


def test_the_judge_finds_letters_that_satisfy_a_hypothesis():
    found = judged(Claim(A.T @ A @ B, B, (orthogonal,)), 60)
    assert not found.refuted and found.tried[:3] == [(1,), (2,), (3,)]
