"""The checker imports and proves without torch, and says that the lines were not run."""

import subprocess
import sys
from pathlib import Path

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
CODE = """
import sys, derivation
print("torch" in sys.modules, "before")  # the checker imports it where a line is run
sys.modules["torch"] = None  # importing torch now fails
from derivation import *
m, n = sizes("m n")
S, c = matrix("S", m, n), matrix("c", m)
print(Derivation("T", softmax(S + c @ ones(n).T)).by(softmax(S), unfold(softmax), EXP_OF_SUM).qed())
print(counterexample(softmax(S), softmax(2 * S)))
print(refusal(lambda: Derivation("x", S).by(2 * S)))
try:
    import derivation.checks
except ImportError:
    print("checks need torch")
"""
SAID = "False before|= softmax(S)|not run in torch|≠|is not justified|checks need torch"


def test_proofs_counterexamples_and_refusals_without_torch():
    command = [sys.executable, "-c", CODE]
    said = subprocess.check_output(command, cwd=NOTEBOOKS, text=True, timeout=120)
    assert [part for part in SAID.split("|") if part not in said] == [], said
