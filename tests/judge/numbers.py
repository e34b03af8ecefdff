"""The numbers that the second judge computes with: rationals, or 60 digits."""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Callable

import mpmath
import numpy as np

NEAR_ZERO = 1e-2  # a divisor below it is not tried
FUNCTIONS = ("exp", "tanh", "cos", "sin", "sqrt")


class Undefined(Exception):
    """An expression has no value here, or a hypothesis does not hold: draw another world."""


class Inexact(Exception):
    """A number that is no rational, where rationals are wanted."""


@dataclass(frozen=True)
class Domain:
    """Some numbers: how one is made of a Fraction, and their functions, which take arrays."""

    number: Callable
    functions: dict
    tolerance: float  # of what is equal, beside its size
    step: object = None  # None: no difference is near enough to a derivative

    def array(self, rows):
        """Rows of ints and Fractions as an array."""
        return np.array([[self.number(Fraction(q)) for q in row] for row in rows])

    def of_number(self, function, x):
        """A function of arrays, of one number."""
        return function(np.array([x], dtype=object))[0]

    def root(self, x):
        """The square root of a number."""
        if x < 0:
            raise Undefined
        return self.of_number(self.functions["sqrt"], x)

    def slope(self, f):
        """The derivative of f at 0, from its values around it."""
        if self.step is None:
            raise Inexact
        at = {k: f(k * self.step) for k in (-2, -1, 1, 2)}
        return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * self.step)

    def agree(self, left, right):
        """Whether two arrays are equal, but for what these numbers round."""
        scale = max(1, abs(left).max(), abs(right).max())
        if self.tolerance and not scale < 1e30:
            raise Undefined
        return bool(abs(left - right).max() <= self.tolerance * scale)


def divided(values, by):
    """A quotient of arrays or numbers; Undefined where a divisor is near zero."""
    if np.any(abs(by) < NEAR_ZERO):
        raise Undefined
    return values / by


def _not_rational(_):
    raise Inexact


def _rational_root(values):
    roots = [Fraction(math.isqrt(q.numerator), math.isqrt(q.denominator)) for q in values.flat]
    roots = np.array(roots, dtype=object).reshape(values.shape)
    if np.any(roots * roots != values):
        raise Inexact
    return roots


_many = mpmath.MPContext()
_many.dps = 60
RATIONALS = Domain(
    Fraction, dict.fromkeys(FUNCTIONS, _not_rational) | {"sqrt": _rational_root}, tolerance=0
)
DIGITS = Domain(
    lambda q: _many.mpf(q.numerator) / q.denominator,
    {name: np.frompyfunc(getattr(_many, name), 1, 1) for name in FUNCTIONS},
    tolerance=1e-15,
    step=_many.mpf(10) ** -12,
)
