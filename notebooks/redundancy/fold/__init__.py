"""`fold(model)`: return an equivalent model in which every bias that can move is zero.

Start with ``folding``.  ``one_move`` records the operations of a run and follows one move through
it, ``choosing`` decides which biases move where, ``weights`` puts biases into weights, ``centring``
turns LayerNorms into RMSNorms, ``equality`` compares two models, and ``removing`` deletes biases
that are zero.  `redundancy.compare` uses ``one_move`` and ``equality``, too.
"""

from .centring import as_rms_norm
from .equality import NotEqual, difference
from .folding import Folded, fold
from .one_move import CannotFold

__all__ = ["CannotFold", "Folded", "NotEqual", "as_rms_norm", "difference", "fold"]
