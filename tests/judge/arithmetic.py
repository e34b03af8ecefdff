"""Arithmetic of the second judge: Fractions, or 60-digit numbers once a function needs them."""

import math
from fractions import Fraction

import mpmath
import numpy as np

NEAR_ZERO = 1e-2  # worlds with smaller divisors are skipped
CLOSE = 1e-30  # a smaller relative difference counts as rounding
DIGITS = mpmath.MPContext()
DIGITS.dps = 60
STEP = DIGITS.mpf(10) ** -12
#: Functions that act on each entry of an array.
FUNCTIONS = {
    name: np.frompyfunc(getattr(DIGITS, name), 1, 1)
    for name in ("exp", "log", "tanh", "cos", "sin")
}


class Undefined(Exception):
    """In a world, an expression has no value or a hypothesis fails, so another world is drawn."""


def array(rows):
    return np.array([[Fraction(q) for q in row] for row in rows], dtype=object)


def in_digits(values):
    """Convert a Fraction, or an array of Fractions, to 60-digit numbers."""
    return values * DIGITS.one


def difference(left, right):
    """left - right, written as a sum because mpmath cannot subtract a number from a Fraction."""
    return left + -1 * right


def divided(values, by):
    """The quotient of arrays or numbers; raises Undefined if a divisor is near zero."""
    if np.any(abs(by) < NEAR_ZERO):
        raise Undefined
    return values * (1 / by)


@np.vectorize(otypes=[object])
def root(x):
    """The square root of each entry, exact for squares of Fractions; raises Undefined below 0."""
    if x < 0:
        raise Undefined
    if isinstance(x, Fraction):
        found = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
        if found * found == x:
            return found
    return DIGITS.sqrt(x)


def slope(f):
    """The derivative of f at 0, from four values near 0."""
    at = {k: in_digits(f(k * STEP)) for k in (-2, -1, 1, 2)}
    return (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * STEP)


def agree(left, right):
    """Whether two arrays are equal: exactly if all entries are Fractions, else up to rounding."""
    gap = difference(left, right)
    if all(isinstance(x, Fraction) for x in gap.flat):
        return not gap.any()
    size = max(1, abs(in_digits(left)).max(), abs(in_digits(right)).max())
    if not size < 1e30:
        raise Undefined
    return bool(abs(in_digits(gap)).max() <= CLOSE * size)
