"""Random mutations of proved lines: not one may be accepted that torch refutes.

Every line that the theorems' tests prove is recorded, its claim is changed at random (factors
swapped, transposed, negated, dropped, a letter renamed, an axis exchanged, a scale added), and
offered for the same reasons with the alarm off.  What is accepted is then run in torch.
"""

import random

import pytest
import test_theorems
from derivation import ProofError, proofs
from derivation.alarm import listen
from derivation.letters import Family
from derivation.matrices import (
    HADAMARD,
    LETTER,
    ONES,
    PRODUCT_OF,
    SCALED,
    SUM_OF,
    TRANSPOSE,
    Expression,
    hadamard,
    ones,
)
from derivation.proofs import Derivation
from derivation.reasons import Given
from derivation.steps import Step, _checked_reason
from derivation.theorems import _hypotheses

MUTANTS = 450
AT_LEAST_REFUSED = 0.8


def swapped(x, draw):
    if x.operation in (PRODUCT_OF, SUM_OF) and len(x.args) > 1:
        args = list(x.args)
        i, j = draw.sample(range(len(args)), 2)
        args[i], args[j] = args[j], args[i]
        return x.rebuilt(args)
    if x.operation.defined and len(x.args) > 1:
        return x.rebuilt(x.args[::-1])
    return None


def transposed(x, draw):
    if x.operation is TRANSPOSE:
        return x.args[0]
    return x.T if x.operation is LETTER else None


def negated(x, draw):
    return -x


def dropped(x, draw):
    if x.operation in (PRODUCT_OF, SUM_OF) and len(x.args) > 1:
        args = list(x.args)
        args.pop(draw.randrange(len(args)))
        return args[0] if len(args) == 1 else x.rebuilt(args)
    return x.args[0] if x.operation is SCALED else None


def renamed(x, draw):
    if x.operation is not LETTER:
        return None
    family = x.params[0]
    other = Family(family.name + "'", family.kind, family.sizes, *family.args[3:])
    return Expression(LETTER, params=[other, *x.params[1:]], shape=x.shape)


def doubled(x, draw):
    return 2 * x


def squared(x, draw):
    return hadamard(x, x)


def wrong_axis(x, draw):
    """softmax or a norm along the other axis."""
    return (
        x.operation.build(*[y.T for y in x.args], *x.params).T
        if x.operation.defined and x.args
        else None
    )


def shifted(x, draw):
    return x + ones(*x.shape)


def ones_for_letter(x, draw):
    return ones(*x.shape) if x.operation is LETTER else None


def zero_for_ones(x, draw):
    return 0 * x if x.operation is ONES else None


def first_for_both(x, draw):
    return hadamard(x.args[0], x.args[0]) if x.operation is HADAMARD else None


MUTATIONS = [swapped, transposed, negated, dropped, renamed, doubled, squared, wrong_axis, shifted,
             ones_for_letter, zero_for_ones, first_for_both]  # fmt: skip


def mutated(x, draw):
    """x with one sub-expression changed, or None where the change does not fit there."""
    places = list(x.walk())
    target, mutation = draw.choice(places), draw.choice(MUTATIONS)
    try:
        new = mutation(target, draw)
        if new is None or new.shape != target.shape or new == target:
            return None
        return replaced(x, target, new)
    except (ProofError, IndexError, TypeError):
        return None


def replaced(x, target, new):
    if x is target:
        return new
    for k, y in enumerate(x.args):
        inner = replaced(y, target, new)
        if inner is not y:
            return x.rebuilt([*x.args[:k], inner, *x.args[k + 1 :]])
    return x


@pytest.fixture(scope="module")
def proved_lines():
    """(before, claim, reasons) of every line in the theorems' tests."""
    lines, by = [], Derivation.by

    def recording(self, claim, *reasons, note=""):
        before = self.lines[-1][0]
        result = by(self, claim, *reasons, note=note)
        lines.append((before, claim, tuple(_checked_reason("recorded", r) for r in reasons)))
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Derivation, "by", recording)
        patch.setattr(proofs, "torch_is_here", lambda: False)
        for name, test in vars(test_theorems).items():
            if name.startswith("test_") and name != "test_lemmas":
                test()
    return lines


def test_no_mutant_is_accepted_that_torch_refutes(proved_lines, monkeypatch):
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)
    draw = random.Random(20)
    tried, accepted, wrong = 0, 0, []
    while tried < MUTANTS:
        before, claim, reasons = draw.choice(proved_lines)
        mutant = mutated(claim, draw)
        if mutant is None:
            continue
        tried += 1
        step = Step("mutant", before, mutant, reasons)
        try:
            proved = step._justified(reasons)
            if proved is None:
                continue
            assumed = _hypotheses(proved, step.offered())
        except ProofError:
            continue
        accepted += 1
        complaint = listen(before, mutant, assumed)
        if complaint:
            wrong.append(f"{before!r} = {mutant!r}: {complaint}")
    assert not wrong, "\n".join(wrong)
    assert tried >= 300 and accepted <= (1 - AT_LEAST_REFUSED) * tried, (
        f"{accepted} of {tried} accepted"
    )


def test_the_alarm_hears_a_false_line(proved_lines):
    """The control: of mutants that negate a whole claim, torch refutes all but those of zero."""
    refuted = 0
    for before, claim, reasons in proved_lines:
        if any(isinstance(r, Given) for r in reasons):
            continue
        refuted += listen(before, -claim) is not None
    assert refuted >= 0.85 * len(proved_lines)
