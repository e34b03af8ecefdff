"""The calculus of shifts: move all added parameters at once, and see which moves change nothing.

Read the modules in this order: ``moves`` (the space of moves, and how a tensor responds to them)
and ``solving`` (its conditions); ``rules`` (what each operation does to a response); ``following``
(one run through all rules) and ``liveness`` (operations that no output uses); ``null_space`` (what
the redundant moves imply for each parameter); ``roles`` and ``factors`` (which parameters a model
adds, and which it multiplies by).
"""

from .following import Event, Following, follow
from .moves import Moves, Shift
from .null_space import NullSpace, Unclear
from .roles import Roles

__all__ = ["Event", "Following", "Moves", "NullSpace", "Roles", "Shift", "Unclear", "follow"]
