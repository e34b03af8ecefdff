"""The checker accepts no random line that a run in torch refutes.

``make nightly ONLY=fuzz`` tries more lines; ``FUZZ_SEED`` draws different ones.
"""

import inspect
import os
import textwrap
from collections import Counter

import pytest
from derivation import Derivation, ProofError
from derivation.kernel import polynomials, sums
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
    monkeypatch.setattr(steps, "SEARCH_AFTER_A_REFUSAL", 0)
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
            error.add_note(repr(line))
            raise
        seen[line.kind, "accepted"] += is_accepted
        seen[line.kind, "false"] += bool(refuted)
        seen["untried"] += is_accepted and refuted is None
    # The test is not vacuous: many true lines were accepted, and many false ones were tried.
    assert min(seen["true", "accepted"], seen["near miss", "false"]) > TOGETHER / 4, seen
    assert seen["untried"] < TOGETHER / 50, seen


#: Faults that random lines find: {title: (class of the kernel, method, text, faulty text)}.
FAULTS = {
    "linked sums are separated": (
        sums.Sums, "_separated", "not mine.isdisjoint(letters_of(part))]", "False]"),
    "an exponential loses its sign": (
        polynomials.Arithmetic, "_exp", "[(product_term(m), c)", "[(product_term(m), abs(c))"),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_core_is_found(name, monkeypatch, request):
    """With a fault planted in the kernel, the checker accepts a false line among the first 300."""
    owner, method, old, new = FAULTS[name]
    source = textwrap.dedent(inspect.getsource(vars(owner)[method]))
    assert source.count(old) == 1, f"{method} has changed: plant another fault"
    made = {}
    exec(source.replace(old, new), vars(inspect.getmodule(owner)), made)
    monkeypatch.setattr(owner, method, made[method])
    request.addfinalizer(proofs.forget)
    found = (fate(line_of(f"{SEED}:{number}")) for number in range(300))
    assert any(is_accepted and refuted for is_accepted, refuted in found)
