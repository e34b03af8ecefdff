"""What the book uses to count and to remove redundant parameters: numbers only, torch only.

``jacobian`` measures: it counts the redundant directions of any function's parameters.
"""

from .jacobian import Jacobian, Nullity, UnclearRank, jacobian

__all__ = ["Jacobian", "Nullity", "UnclearRank", "jacobian"]
