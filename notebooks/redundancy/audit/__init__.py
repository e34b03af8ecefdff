"""Predict which biases of a model are redundant, measure which are, and compare the two results.

Read ``auditing`` first (`audit`), then ``checking`` (measurement against prediction),
``confirming`` (moves of a large model), ``report`` (what is printed) and ``command``
(`bias-audit`).
"""

from .auditing import audit
from .report import Audit, Row

__all__ = ["Audit", "Row", "audit"]
