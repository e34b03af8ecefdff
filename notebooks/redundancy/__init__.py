"""Find the redundant directions of a model's parameters by numerical computation.

``jacobian`` counts the redundant directions of any function's parameters.  ``audit`` predicts and
measures them for every bias or other added parameter of a model, ``compare`` finds the numbers in
which a port differs from its original, and ``fold`` removes redundant parameters.

Read the modules in this order: ``nullity``; ``precision`` and ``subject`` (a float64 copy of a model, and
how it is run); ``shift`` (the calculus of shifts, which predicts); ``measuring`` and ``checking``
(measurement against prediction); ``report`` and ``auditing``; ``what_can_go`` (the table of
answers, each predicted and measured on a model); ``fold`` (removal, and the check that nothing
changes); ``aligning`` and ``comparing``; ``command`` and ``expecting``.
``models`` loads models of the library `transformers`, makes small ones, and, with ``inputs``, draws their
inputs; everything else needs only torch.
"""

from .auditing import audit
from .comparing import compare
from .fold import as_rms_norm, fold
from .nullity import Jacobian, Nullity, UnclearRank, jacobian

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
