"""`fold(model)`: move every bias that can move, and return an equal model without these biases.

``folding`` is the entry; ``reading`` finds out what runs of a model show, ``choosing`` what goes where;
``moving`` puts norms and biases into weights, ``centring`` turns LayerNorms into RMSNorms, ``equality``
compares the two models, and ``removing`` deletes parameters that are zero, and saves.
"""

from .centring import as_rms_norm
from .equality import NotEqual, difference
from .folding import Folded, fold
from .reading import CannotFold

__all__ = ["CannotFold", "Folded", "NotEqual", "as_rms_norm", "difference", "fold"]
