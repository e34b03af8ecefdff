"""One fault after the other is planted in the kernel: a check notices each."""

import pytest
import test_refusals
import test_soundness_rules
import test_theorems
from derivation import Derivation, ProofError, proofs, steps

from . import faults, test_kernel, test_rules


@pytest.fixture(autouse=True)
def without_alarm(monkeypatch):
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)
    monkeypatch.setattr(steps, "SEARCH_AFTER_A_REFUSAL", 0)


def is_refused(before, claim, reasons):
    try:
        Derivation("fault", before).by(claim, *reasons)
    except ProofError:
        return True
    return False


def passes(test, *args):
    try:
        test(*args)
    except Exception:
        return False
    except pytest.fail.Exception:
        return False
    return True


def _examples(module, kind):
    tests = [f for name, f in vars(module).items() if name.startswith("test_") and callable(f)]
    plain = [
        f for f in tests if not f.__code__.co_argcount and "names_all_there_is" not in f.__name__
    ]
    return {f"{kind}: {f.__name__.removeprefix('test_')}": (lambda f=f: passes(f)) for f in plain}


#: Each is true of the kernel as it is, and false with some fault; quick ones first.
EXAMINATION = {
    **{f"true: {name}": (lambda name=name: passes(test_kernel.test_what_is_true_is_taken_and_says_what_it_needs, name))
       for name in test_kernel.TRUE},
    **{f"false: {name}": (lambda name=name: passes(test_kernel.test_what_is_false_is_refused, name))
       for name in test_kernel.FALSE},
    **_examples(test_rules, "rule"),
    **_examples(test_kernel, "kernel"),
    **{f"line: {name}": (lambda line=line: is_refused(*line))
       for name, line in [*test_refusals.UNJUSTIFIED.items(), *test_refusals.FALSE.items()]},
    **_examples(test_theorems, "theorem"),
    **_examples(test_soundness_rules, "soundness"),
    **_examples(test_refusals, "refusal"),
}  # fmt: skip


@pytest.mark.parametrize("name", faults.FAULTS)
def test_the_fault_is_noticed(name):
    fault = faults.FAULTS[name]
    check = EXAMINATION[fault.noticed_by]
    with faults.planted(fault):
        assert not check()
    assert check(), "the fault stays when it was taken out"


def test_every_function_of_the_kernel_has_a_fault_or_is_too_plain_for_one():
    """A function added to the kernel wants a fault, or a place among those that only hold."""
    rules = {fault.rule for fault in faults.FAULTS.values()}
    assert rules | faults.PLAIN == set(faults.functions())
    assert not rules & faults.PLAIN
