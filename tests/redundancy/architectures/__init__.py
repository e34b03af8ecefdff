"""Modules in the way in which their projects write them, each with the number of directions that can go.

    ARCHITECTURES["BERT"].build()       # the module, at small sizes
    ARCHITECTURES["BERT"].redundant     # derived by hand, of all added parameters together

Read `cases` first.  A `trap` is a module whose code can mislead whoever counts.
"""

from . import attention, recurrent, sequence, traps, vision, wrappers  # noqa: F401
from .cases import ARCHITECTURES as ARCHITECTURES
