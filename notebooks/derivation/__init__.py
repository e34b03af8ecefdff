"""A small checker for derivations about matrices of symbolic shape.

Only ``kernel`` is trusted; read it first.  What a reader writes is in ``letters``, ``index_forms``,
``operations``, ``matrices``, ``symbols``, ``words``, ``vocabulary``, ``substitution``,
``templates``, ``definitions`` and ``names``; ``printing``, ``notation`` and ``display`` print it;
``justify``, ``hypotheses`` and ``proofs`` ask the kernel; ``evaluation``, ``torch_runs`` and
``counterexamples`` look for numbers that contradict it.  ``checks``, the numeric side, needs torch.
``versions`` runs first and checks the installed version of SymPy.
"""

# ruff: noqa: E402, I001 (the other modules import SymPy, so the version check comes first)
from .versions import require as _require

_require("sympy")

from .counterexamples import Counterexample, NoCounterexample, counterexample
from .definitions import define, recursion
from .index_forms import exp_of, log_of, root_of, total
from .kernel.terms import ProofError
from .letters import (
    ANGLE_ADDITION,
    COUNT,
    EXP_OF_SUM,
    LINEARITY,
    ORDER,
    REINDEX,
    SECOND_MOMENTS,
    SPLIT,
)
from .matrices import (
    causal,
    derivative,
    diag,
    entry_of,
    expectation,
    hadamard,
    identity,
    last_row,
    ones,
    position_numbers,
    stack,
    tabulate,
    zeros,
)
from .substitution import over
from .symbols import (
    Heads,
    Sequence,
    head,
    heads,
    join,
    mask,
    matrix,
    permutation,
    random_matrix,
    scalars,
    sequence,
    sizes,
)
from .operations import complete as _complete
from .proofs import Derivation, Induction, attempt, proves, refusal
from .reasons import given, unfold
from .theorems import Theorem
from .vocabulary import (
    batch_norm,
    cos,
    entrywise,
    exp,
    layer_norm,
    log,
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

_complete()
