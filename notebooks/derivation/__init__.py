"""A small checker for derivations about matrices of symbolic shape.

It has five floors, each of which imports only the floors before it: ``kernel``, the only one that
is trusted; ``printing``, how signs look; ``language``, what a reader writes; ``refuting``, numbers
that contradict a line; ``proving``, derivations.  ``checks``, the numeric side, needs torch.
``versions`` runs first and checks the installed version of SymPy.
"""

# ruff: noqa: E402, I001 (the other modules import SymPy, so the version check comes first)
from .versions import require as _require

_require("sympy")

from .refuting.counterexamples import Counterexample, NoCounterexample, counterexample
from .language.definitions import define, recursion
from .language.index_forms import exp_of, log_of, root_of, total
from .kernel.terms import ProofError
from .language.letters import ANGLE_ADDITION, COUNT, EXP_OF_SUM, LINEARITY, ORDER, REINDEX
from .language.letters import SECOND_MOMENTS, SPLIT
from .language.matrices import causal, derivative, diag, entry_of, expectation, hadamard, identity
from .language.matrices import last_row, ones, position_numbers, stack, tabulate, zeros
from .language.substitution import over
from .language.symbols import Heads, Sequence, head, heads, join, mask, matrix, permutation
from .language.symbols import random_matrix, scalars, sequence, sizes
from .language.operations import complete as _complete
from .proving.proofs import Derivation, Induction, attempt, proves, refusal
from .proving.reasons import given, unfold
from .proving.theorems import Theorem
from .language.vocabulary import batch_norm, cos, entrywise, exp, layer_norm, log, masked_softmax
from .language.vocabulary import normalise, relu, rms_norm, sigmoid, sin, softmax, softmax_one, tanh

_complete()
