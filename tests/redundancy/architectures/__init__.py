"""Small copies of published modules, each with its hand-derived number of redundant directions.

    ARCHITECTURES["GRU"].build()       # the module, at small sizes
    ARCHITECTURES["GRU"].redundant     # directions of all its biases together that can go

Read `cases` first.  A `trap` is a module whose code can mislead the calculus or the Jacobian.
"""

from . import attention, recurrent, sequence, traps, vision, wrappers  # noqa: F401
from .cases import ARCHITECTURES as ARCHITECTURES
