"""A small checker for derivations about matrices of symbolic shape.

It has five layers, each of which imports only earlier layers: ``kernel``, the only one that is
trusted; ``printing``, which prints symbols; ``language``, in which a user writes; ``refuting``,
which looks for counterexamples; ``proving``, derivations.  ``checks``, for numeric checks, needs
torch. ``versions`` runs first and checks the installed version of SymPy.
"""

# ruff: noqa: E402 (the other modules import SymPy, so the version check comes first)
from .versions import require as _require

_require("sympy")

from .kernel import ProofError
from .language import (
    ANGLE_ADDITION, COUNT, EXP_OF_SUM, LINEARITY, ORDER, REINDEX, SECOND_MOMENTS, SPLIT, Heads,
    Sequence, batch_norm, causal, cos, define, derivative, diag, entry_of, entrywise, exp, exp_of,
    expectation, hadamard, head, heads, identity, join, last_row, layer_norm, log, log_of, mask,
    masked_softmax, matrix, normalise, ones, over, permutation, position_numbers, random_matrix,
    recursion, relu, rms_norm, root_of, scalars, sequence, sigmoid, sin, sizes, softmax, softmax_one,
    stack, tabulate, tanh, total, zeros)  # fmt: skip
from .proving import Derivation, Induction, Theorem, attempt, given, proves, refusal, unfold
from .refuting import Counterexample, NoCounterexample, counterexample
