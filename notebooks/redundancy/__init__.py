"""Which directions of a model's parameters are redundant: numbers only, torch only.

``jacobian`` counts the redundant directions of any function's parameters.  ``audit`` predicts
and measures them for the attention biases of a model, and ``fold`` takes them away.

To read it, module by module: ``nullity``; ``layers``, ``layout`` and ``precision`` (what a model
holds, and a float64 copy of it); ``kinds``, ``hidden`` and ``record`` (what a bias passes through),
``scores``, ``values`` and ``predict`` (what becomes of it there); ``measure`` and ``auditing``; ``wiring``,
``surgery``, ``equality`` and ``folding``; ``centring``.
``checkpoints`` and ``zoo`` make models of the library `transformers`; the rest needs torch alone.
"""

from .auditing import audit
from .centring import as_rms_norm
from .comparing import compare
from .folding import fold
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
