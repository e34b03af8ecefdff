"""Derivations whose every line is justified by the new kernel, and by nothing else.

Until the kernel takes the old normal form's place, this puts it there for a while: what a line
claims, what a reason too many is, what a theorem cited becomes, and what an induction proves.
"""

from contextlib import contextmanager
from unittest import mock
from weakref import WeakKeyDictionary

from derivation import proofs
from derivation.substitution import Substitution
from derivation.sums import Law, ProofError

from . import justify
from .kernel.rules import Differ
from .kernel.terms import ProofError as Refused

#: The kernel's theorems, by the theorems and instances of the book.
PROVED = WeakKeyDictionary()


def _of(reason):
    return justify.given(reason) if isinstance(reason, proofs.Given) else PROVED[reason]


def _justified(step, reasons):
    laws = [r for r in reasons if isinstance(r, Law)]
    equations = [(r, _of(r)) for r in reasons if isinstance(r, (proofs.Instance, proofs.Given))]
    try:
        found = justify.line(
            step.before, step.claim, equations, step._words(reasons), laws, proofs.rewritten
        )
    except Differ:
        return False
    except Refused as error:
        raise ProofError(f"{step.where}: {error}") from None
    if reasons is step.reasons:  # all of them: others are tried without one
        LINES.append(found)
    return True


def _cited(theorem, **meant):
    found = CALL(theorem, **meant)
    put = Substitution.checked(theorem, meant)
    PROVED[found] = justify.instance(PROVED[theorem], put, found.lhs, found.rhs)
    return found


def _reversed(instance):
    found = REVERSED(instance)
    PROVED[found] = justify.rules.reverse(PROVED[instance])
    return found


def _by(derivation, claim, *reasons, **more):
    LINES.clear()
    BY(derivation, claim, *reasons, **more)
    before = CHAINS.get(derivation)
    CHAINS[derivation] = justify.rules.chain(before, LINES[0]) if before else LINES[0]
    return derivation


def _theorem(name, label, lines, parts):
    found = THEOREM(name, label, lines, parts)
    if len(parts) == 1:
        PROVED[found] = CHAINS[parts[0]]
    return found


def _by_induction(induction, label=""):
    found = QED(induction, label)
    parts = [CHAINS[induction._parts[part]] for part in ("base", "step")]
    PROVED[found] = justify.induction(induction._t, found.lhs, found.rhs, *parts)
    return found


#: What is proved of each derivation so far, and of the line that is being written.
CHAINS, LINES = WeakKeyDictionary(), []
CALL, REVERSED = proofs.Theorem.__call__, proofs.Instance.reversed
BY, THEOREM, QED = proofs.Derivation.by, proofs._theorem, proofs.Induction.qed


@contextmanager
def every_line():
    """While it is entered, the kernel justifies; torch does not listen."""
    with (
        mock.patch.object(proofs._Step, "_justified", _justified),
        mock.patch.object(proofs.Theorem, "__call__", _cited),
        mock.patch.object(proofs.Instance, "reversed", _reversed),
        mock.patch.object(proofs.Derivation, "by", _by),
        mock.patch.object(proofs, "_theorem", _theorem),
        mock.patch.object(proofs.Induction, "qed", _by_induction),
        mock.patch.object(proofs, "same", justify.same),
        mock.patch.object(proofs, "torch_is_here", lambda: False),
    ):
        yield
