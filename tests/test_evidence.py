"""A mark in a theorem's box is held to what its page prints.  Every box of the book passes."""

import pytest
from evidence import check_evidence, read_clauses
from files import Fault

PAGE = """\
Theorem 3.2 (The key bias cancels):
    softmax(Q (K + 1 bᵀ)ᵀ)
  = softmax(Q Kᵀ)                                               -- shift invariance
the running mean, step:
    r[t+1]
  = (1 - m) r[t]                                                -- definition of r
without the mask, line 1 is not justified.
  Claimed: x = y
  It is false: n = 2; x = (0, 1): 1/2 ≠ 1.
PASS  control: another mask: seen in float64, float32
"""

REFUSED = [
    ("all: *checked*, Theorem 3.2", "quotes no evidence"),
    ("all: *checked*, “Theorem 3.3”", "does not print"),
    ("what was refused: *checked*, “without the mask”", "does not print"),
    ("what was claimed: *checked*, “Claimed: x = y”", "does not print"),
    ("half of it: *checked*, “Theorem 3.2” and “the running variance”", "does not print"),
    ("what was measured: *checked*, “another mask”", "does not print"),
    ("only if: *by hand*, it is obvious", "does not say how"),
    ("speed: *measured*, “faster”", "does not print"),
]


@pytest.mark.parametrize(("bullet", "why"), REFUSED)
def test_evidence_that_is_missing_is_refused(bullet, why):
    clauses = read_clauses(f"- {bullet}")
    with pytest.raises(Fault, match=why):
        check_evidence(clauses, PAGE, elsewhere=["Theorem 1.1"])
