"""Find the redundant directions of a model's parameters by numerical computation.

``jacobian`` counts the redundant directions of any function's parameters.  ``audit`` predicts and
measures them for every bias or other added parameter of a model, ``compare`` finds the numbers in
which a port differs from its original, and ``fold`` moves redundant parameters to zero.

Read the subpackages in this order: ``measure`` (the Jacobian and finite moves); ``shift`` (the
calculus of shifts, which predicts); ``audit`` (measurement against prediction); ``what_can_go``
(the table of answers, each predicted and measured on a model); ``fold`` (moves to zero, and the
check that the outputs stay the same); ``compare``.  ``models`` loads models of the library
`transformers` and makes small ones; everything else needs only torch and NumPy.
"""

from .audit import audit
from .compare import compare
from .fold import as_rms_norm, fold
from .measure import Jacobian, Nullity, UnclearRank, jacobian

__all__ = [
    "Jacobian",
    "Nullity",
    "UnclearRank",
    "as_rms_norm",
    "audit",
    "compare",
    "fold",
    "jacobian",
]
