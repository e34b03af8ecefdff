"""How each ATen operation passes a shift on, cancels part of it, or depends on it.

A rule receives the run and the call, records what is cancelled (`note`), and returns the shift of
each result.  Where the response is nonlinear, the rule poses a condition (`see`).  A rule may name
a theorem.  An operation without a rule makes the answer unknown.

Read the modules in this order: ``common`` (the registry, and what rules share), ``dependent``,
``passing``, ``products``, ``norms``, ``exponentials``.
"""

from ..rules import dependent, norms, passing, products  # noqa: F401, each registers its rules
from .common import RULES
from .exponentials import factored

#: Operations that read only the shape, dtype or device of a tensor.
SHAPES_ONLY = set(
    "zeros_like ones_like full_like empty_like rand_like randn_like randint_like zero "
    "isnan isinf isfinite".split()
)

__all__ = ["RULES", "SHAPES_ONLY", "factored"]
