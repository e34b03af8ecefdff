"""Measure redundant directions in float64, without any prediction.

Read ``nullity`` first (the rank of a Jacobian), then ``precision``, ``inputs`` and ``subject`` (a
float64 copy of a model, and how it is run), and ``measurement`` (the Jacobian of a model's added
parameters, and finite moves).
"""

from .measurement import Measurement
from .nullity import Jacobian, Nullity, UnclearRank, jacobian

__all__ = ["Jacobian", "Measurement", "Nullity", "UnclearRank", "jacobian"]
