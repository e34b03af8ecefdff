"""Load models of the library `transformers` or make small ones, and draw inputs for them.

The rest of `redundancy` needs only torch and NumPy.
"""

__all__ = ["checkpoints", "defaults", "guessing", "shrinking", "sizes", "tiny"]
