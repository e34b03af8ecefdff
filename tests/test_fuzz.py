"""The checker accepts no random line that a run in torch refutes.

``make nightly ONLY=fuzz`` tries more lines; ``FUZZ_SEED`` draws different ones.
"""

import os
from collections import Counter

import pytest
from derivation import Derivation, ProofError
from derivation.language.operations import NotRun
from derivation.proving import proofs, steps
from derivation.refuting.torch_runs import run_in_torch
from random_lines import line_of, roots

pytestmark = pytest.mark.nightly
LINES, TOGETHER = int(os.environ.get("FUZZ_LINES", 2000)), 500  # as many lines in one test
SEED = os.environ.get("FUZZ_SEED", "suite")
MOST_STEPS = 800  # limit of the normal form, which suffices for lines this small


@pytest.fixture(autouse=True)
def the_checker_alone(monkeypatch):
    """Switch off the checker's torch runs, its search for counterexamples, and its refusal of
    needless reasons, because a line with needless reasons must be sound as well."""
    roots()  # these must be proved by the unchanged checker
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)
    monkeypatch.setattr(steps.Step, "_would_do", lambda self, reasons: False)
    monkeypatch.setattr(steps.Step, "_refusal", lambda self: "not justified")
    monkeypatch.setattr(steps.Step._justified, "__defaults__", (MOST_STEPS,))


def fate(line):
    """(whether the checker accepts a line, whether torch refutes it or None if it cannot run it)."""
    proofs.forget()
    try:
        proof = Derivation("fuzzed", line.before).by(line.claim, *line.reasons)
        hypotheses = proof.qed().hypotheses
    except (ProofError, RecursionError):
        hypotheses = None
    try:
        refuted = bool(run_in_torch(line.before, line.claim, hypotheses or ()))
    except NotRun:
        refuted = None
    except ProofError:  # the notation refuses a changed part, such as a wrong mask
        assert hypotheses is None or line.kind == "true"  # such a near miss must be refused
        refuted = None
    return hypotheses is not None, refuted


@pytest.mark.parametrize("first", range(0, LINES, TOGETHER))
def test_no_false_line_is_accepted(first):
    seen = Counter()
    for number in range(first, first + TOGETHER):
        line = line_of(f"{SEED}:{number}")
        try:
            is_accepted, refuted = fate(line)
            assert not (is_accepted and refuted), "accepted, and false"
            by_construction = line.kind == "true" and not line.theorems()
            assert not (by_construction and refuted), "not true"
        except Exception as error:
            error.add_note(f"{SEED}:{number}: {line}")
            raise
        seen[line.kind, "accepted"] += is_accepted
        seen[line.kind, "false"] += bool(refuted)
        seen["untried"] += is_accepted and refuted is None
    # The test is not vacuous: many true lines were accepted, and many false ones were tried.
    assert min(seen["true", "accepted"], seen["near miss", "false"]) > TOGETHER / 4, seen
    assert seen["untried"] < TOGETHER / 50, seen
