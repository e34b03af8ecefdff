"""The numbers that the second judge computes with: Fractions, until a function needs 60 digits."""

import math
from fractions import Fraction

import mpmath
import numpy as np

NEAR_ZERO = 1e-2  # a divisor below it is not tried
CLOSE = 1e-30  # what differs by less, beside its size, differs by rounding
DIGITS = mpmath.MPContext()
DIGITS.dps = 60
STEP = DIGITS.mpf(10) ** -12
#: Functions of arrays, entry by entry.
FUNCTIONS = {
    name: np.frompyfunc(getattr(DIGITS, name), 1, 1)
    for name in ("exp", "log", "tanh", "cos", "sin")
}


class Undefined(Exception):
    """An expression has no value here, or a hypothesis does not hold: draw another world."""


def array(rows):
    """Rows of ints and Fractions as an array."""
    return np.array([[Fraction(q) for q in row] for row in rows], dtype=object)


def in_digits(values):
    """An array or a number that has no Fractions any more."""
    return values * DIGITS.one


def difference(left, right):
    """Of arrays or numbers: mpmath adds to a Fraction, and does not subtract from one."""
    return left + -1 * right


def divided(values, by):
    """A quotient of arrays or numbers; Undefined where a divisor is near zero."""
    if np.any(abs(by) < NEAR_ZERO):
        raise Undefined
    return values * (1 / by)


@np.vectorize(otypes=[object])
def root(x):
    """The square roots of an array; that of a rational square is rational."""
    if x < 0:
        raise Undefined
    if isinstance(x, Fraction):
        found = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
        if found * found == x:
            return found
    return DIGITS.sqrt(x)


def slope(f):
    """The derivative of f at 0, from four values around it."""
    at = {k: in_digits(f(k * STEP)) for k in (-2, -1, 1, 2)}
    return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * STEP)


def agree(left, right):
    """Whether two arrays are equal: rationals exactly, other numbers but for rounding."""
    gap = difference(left, right)
    if all(isinstance(x, Fraction) for x in gap.flat):
        return not gap.any()
    size = max(1, abs(in_digits(left)).max(), abs(in_digits(right)).max())
    if not size < 1e30:
        raise Undefined
    return bool(abs(in_digits(gap)).max() <= CLOSE * size)
