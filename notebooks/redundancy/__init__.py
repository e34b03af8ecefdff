"""Which directions of a model's parameters are redundant: numbers only, torch only.

``jacobian`` counts the redundant directions of any function's parameters.  ``audit`` predicts
and measures them for the attention biases of a model, ``compare`` says which biases a port lost,
and ``fold`` takes redundant ones away.

To read it, module by module: ``nullity``; ``layers``, ``layout`` and ``precision`` (what a model
holds, and a float64 copy of it); ``kinds``, ``hidden``, ``by_hand`` and ``record`` (what a bias
passes through), ``scores``, ``values`` and ``predict`` (what becomes of it there); ``measure`` and
``auditing``; ``what_can_go`` (the one table of answers, each built and measured), ``reasons`` and
``report``; ``sizes``, ``shrinking`` and ``large`` (a small model for a large one); ``command``,
``expecting`` and ``comparing``; ``wiring``, ``surgery``, ``absorbing``, ``equality``, ``folding``
and ``removing``; ``centring``.
``checkpoints``, ``zoo``, ``defaults`` and ``guessing`` make models of the library `transformers`
and inputs for them; the rest needs torch alone.
"""

from .auditing import audit
from .centring import as_rms_norm
from .folding import fold
from .nullity import Jacobian, Nullity, UnclearRank, jacobian

__all__ = [
    "Jacobian",
    "Nullity",
    "UnclearRank",
    "as_rms_norm",
    "audit",
    "fold",
    "jacobian",
]
