"""The calculus of shifts: move all added parameters at once, and see which moves change nothing.

Read the modules in this order: ``moves`` (the space of moves, and how a tensor responds to them) and
``solving`` (its conditions); ``rules`` (what each operation does to a response); ``following`` (one
run through all rules) and ``living`` (operations that no output uses); ``freedom`` (what the moves
that are left say about each parameter); ``uses`` and ``factors`` (which parameters a model adds, and
by which it multiplies).
"""

from .following import Event, Following, follow
from .freedom import Freedom, Unclear
from .moves import Moves, Shift
from .uses import Uses

__all__ = ["Event", "Following", "Freedom", "Moves", "Shift", "Unclear", "Uses", "follow"]
