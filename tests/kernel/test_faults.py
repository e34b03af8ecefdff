"""One fault after the other is planted in the kernel: a check notices each."""

import pytest
import test_conditions
import test_kernel_attacks
import test_kernel_rules
import test_lines
import test_random_letters
import test_theorems
from derivation import Derivation, ProofError, proofs, steps

from . import faults


@pytest.fixture(autouse=True)
def without_alarm(monkeypatch):
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)
    monkeypatch.setattr(steps, "SEARCH_AFTER_A_REFUSAL", 0)


def is_refused(before, claim, *reasons):
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
    **{f"true: {name}": (lambda name=name: passes(test_lines.test_what_is_true_is_taken_and_says_what_it_needs, name))
       for name in test_lines.TRUE},
    **{f"false: {name}": (lambda name=name: passes(test_lines.test_the_kernel_refuses_it_whatever_is_named, name))
       for name in test_lines.FALSE | test_lines.NOT_SHOWN},
    **_examples(test_kernel_rules, "rule"),
    **_examples(test_kernel_attacks, "kernel"),
    **_examples(test_lines, "kernel"),
    **{f"line: {name}": (lambda line=line: is_refused(*line))
       for name, line in [*test_lines.UNJUSTIFIED.items(), *test_lines.FALSE.items()]},
    **_examples(test_theorems, "theorem"),
    **_examples(test_conditions, "soundness"),
    **_examples(test_random_letters, "soundness"),
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
