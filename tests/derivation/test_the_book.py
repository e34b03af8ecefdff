"""Every proof and every refusal in the notebooks, with torch left out; and a second judge.

Each theorem that a cell proves is evaluated at all combinations of sizes 1 to 3: see ``judge``.
"""

import contextlib
import io
import json
import os
from pathlib import Path

import pytest
from derivation import *
from derivation import proofs
from judge import judged
from live_proofs import live_cells

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
WORLDS = int(
    os.environ.get("JUDGE_WORLDS", 60)
)  # for one theorem; ``make nightly ONLY=judge`` tries more
SEEN = set()  # theorems that another cell has proved before


def cells():
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        for cell in live_cells(json.loads(path.read_text(encoding="utf-8"))):
            yield pytest.param(path.stem, cell, id=f"{path.stem}-{cell.index}")


@pytest.mark.parametrize("notebook, cell", [*cells()])
def test_the_kernel_proves_it_and_the_judge_agrees(notebook, cell, monkeypatch):
    proved, make = [], proofs._theorem
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)
    monkeypatch.setattr(
        proofs, "_theorem", lambda *parts: proved.append(make(*parts)) or proved[-1]
    )
    source = "\n".join([*[s.source for s in cell.prelude], cell.source])
    run = compile(source, notebook, "exec")
    with contextlib.redirect_stdout(io.StringIO()):
        exec(run, {"__name__": notebook})
    for theorem in proved:
        if (notebook, repr(theorem)) not in SEEN:
            SEEN.add((notebook, repr(theorem)))
            found = judged(theorem, WORLDS, larger=1)
            assert not found.refuted, f"{theorem!r}\nis false in {found.refuted}"
            assert found.tried, f"{theorem!r}\nno world met its hypotheses"
            if found.tried != ((),):
                assert max(map(max, found.tried)) >= 2, f"{theorem!r}\nwas tried at sizes 1 only"


# ── The judge itself ─────────────────────────────────────────────────────────────────────────

n, m, d = sizes("n m d")
A, B, S, c, w = (
    matrix("A", n, n),
    matrix("B", n, n),
    matrix("S", m, n),
    matrix("c", m),
    matrix("w", n),
)
R, P, M = random_matrix("R", n, n, 1), permutation("Π", n), mask("M", n, n)
tau = scalars("tau", positive=True)


class Claim:
    """Two sides and what they rest on, as a theorem has them."""

    def __init__(self, lhs, rhs, *hypotheses):
        self.lhs, self.rhs, self.hypotheses, self.random = lhs, rhs, hypotheses, ()


FALSE = {
    "a shift of keys": Claim(softmax(S + ones(m) @ w.T), softmax(S)),
    "n and n²": Claim(n * w, n**2 * w),
    "false from n = 3 on": Claim(P @ P, identity(n)),
    "true at 1 and 2 only": Claim((n - 1) * (n - 2) * w, zeros(n)),
    "masks are ones": Claim(M, ones(n, n)),
    "a mean": Claim(expectation(R @ R.T), identity(n)),
    "a third moment": Claim(expectation(R * R * R * R), ones(n, n)),
    "a derivative": Claim(derivative(exp(A + tau * A), scalars("s")), A),
    "beside an equation": Claim(A @ B, zeros(n, n), given(A.T @ A, identity(n))),
    "beside another": Claim(A @ w, w, given(w.T @ ones(n), zeros(1))),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_the_judge_refutes(name):
    assert judged(FALSE[name]).refuted


TRUE = {
    "rationals": Claim(A @ (B + A), A @ B + A @ A),
    "an equation": Claim(A.T @ A @ B, B, given(A.T @ A, identity(n))),
    "two letters": Claim(A @ w, B @ w, given(A, B)),
    "a mean": Claim(expectation(R @ R.T), n * identity(n)),
}


@pytest.mark.parametrize("name", TRUE)
def test_the_judge_agrees(name):
    found = judged(TRUE[name], larger=0)
    assert not found.refuted and len(found.tried) >= 3
    assert found.exact == found.worlds or name != "rationals"
