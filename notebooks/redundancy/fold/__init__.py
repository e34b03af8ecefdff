"""`fold(model)`: move every bias that can move, and return an equal model without it.

``folding`` is the way in; ``reading`` says what runs of a model show, ``choosing`` what goes where,
``moving`` puts norms and biases into weights, ``centring`` makes RMSNorms of LayerNorms,
``equality`` compares the two models, and ``removing`` takes out what is zero, and saves.
"""

from .centring import as_rms_norm
from .equality import NotEqual, difference
from .folding import Folded, fold
from .reading import CannotFold

__all__ = ["CannotFold", "Folded", "NotEqual", "as_rms_norm", "difference", "fold"]
