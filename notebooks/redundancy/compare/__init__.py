"""`compare(original, port)`: find the numbers in which two models differ, and whether they matter.

    found = compare(original, port)
    print(found)            # a sentence for each difference, and how far the outputs differ
    found.same              # whether both models compute the same outputs, up to rounding

``pairing`` finds the numbers that two models use in the same place, ``compared_model`` runs one
model, and ``judging`` decides which differences the outputs depend on.
"""

from .judging import Comparison, Difference, compare
from .pairing import CannotCompare

__all__ = ["CannotCompare", "Comparison", "Difference", "compare"]
