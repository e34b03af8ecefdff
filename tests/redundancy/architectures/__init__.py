"""Small modules, each with its hand-derived number of redundant directions.

    ARCHITECTURES["softermax"].build()       # the module, at small sizes
    ARCHITECTURES["softermax"].redundant     # how many directions of all its biases together can go

Read `cases` first.  Comments say what can go and, in parentheses, how many directions that makes.
"""

from . import attention, functions, networks, traps  # noqa: F401
from .cases import ARCHITECTURES as ARCHITECTURES
