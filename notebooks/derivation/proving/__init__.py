"""Derivations and inductions, their reasons and hypotheses, and the theorems that they prove.

``proofs`` is what a reader calls; ``steps`` justifies a line; ``display`` prints.
"""

from .proofs import Derivation, Induction, Refusal, attempt, proves, refusal
from .reasons import given, unfold
from .theorems import Instance, Theorem

__all__ = ["Derivation", "Induction", "Instance", "Refusal", "Theorem", "attempt", "given",
           "proves", "refusal", "unfold"]  # fmt: skip
