"""A small checker for derivations about matrices of symbolic shape.

Layers, each importing only those before it: ``sums`` (the trusted core), ``printing``,
``matrices``, ``vocabulary``, ``substitution``, ``definitions``, ``evaluation``, ``alarm``,
``counterexamples``, ``display``, ``proofs``; and beside them ``checks``, the numeric side, which needs torch.
``versions`` is asked first: is there a SymPy, and is it one that has been tried?
"""

# ruff: noqa: E402, I001 (the other modules import SymPy, and come after the question)
from .versions import require as _require

_require("sympy")

from .counterexamples import Counterexample, NoCounterexample, counterexample
from .definitions import define, recursion
from .matrices import (
    Heads,
    Sequence,
    causal,
    derivative,
    diag,
    entry_of,
    exp_of,
    expectation,
    hadamard,
    head,
    heads,
    identity,
    join,
    last_row,
    mask,
    matrix,
    ones,
    over,
    permutation,
    position_numbers,
    random_matrix,
    scalars,
    sequence,
    sizes,
    stack,
    tabulate,
    zeros,
)
from .proofs import Derivation, Induction, Theorem, attempt, given, proves, refusal, unfold
from .sums import (
    ANGLE_ADDITION,
    COUNT,
    EXP_OF_SUM,
    REINDEX,
    SECOND_MOMENTS,
    SPLIT,
    ProofError,
    total,
)
from .vocabulary import (
    batch_norm,
    cos,
    entrywise,
    exp,
    layer_norm,
    masked_softmax,
    normalise,
    relu,
    rms_norm,
    sigmoid,
    sin,
    softmax,
    softmax_one,
    tanh,
)
