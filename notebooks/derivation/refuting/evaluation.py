"""Evaluate terms of the kernel at concrete sizes, without torch.

This interpreter reads terms as they are written.  It shares nothing with the kernel's normal form or
substitution, so it can contradict them.  It uses floats, exact numbers, or floats of many digits.
"""

import functools
import itertools
import math
import operator
from collections.abc import Callable

import mpmath
import sympy as sp

from ..kernel import Term

MOST_RANDOM_ENTRIES = 6
MOST_STEPS = 2_000_000
ROUNDING = 1e-40  # with many digits, a smaller |divisor| is zero
STEP = 1e-3  # the step of a fourth-order central difference, in floats

_NAMED = ("exp", "log", "tanh", "cos", "sin")


def _domain(library, largest, number):
    """The kernel's functions and numbers, computed by a library: {name: function}."""
    named = {name: getattr(library, name) for name in _NAMED}
    return named | {"relu": lambda x: largest(x, 0), "root": library.sqrt, "number": number}


FLOAT = _domain(math, max, float)
EXACT = _domain(sp, sp.Max, lambda q: sp.Rational(q.numerator, q.denominator))
PRECISE = _domain(mpmath, max, lambda q: mpmath.mpf(q.numerator) / q.denominator)

#: The operators whose value is, in every domain, this function of the values of their parts.
PLAIN: dict = {
    "lit": lambda k: k,
    "times": lambda *sizes: math.prod(sizes),
    "join": operator.add,
    "only": lambda: 1,
    "last": lambda size: size,
    "inl": lambda other, p: p,
    "inr": operator.add,
    "move": lambda images, way, p: images[p - 1] if way > 0 else images.index(p) + 1,
    "size": lambda size: size,
    "place": lambda p: p,
    "add": lambda *terms: sum(terms),
    "mul": lambda *factors: math.prod(factors),
    "pow": operator.pow,
    "delta": lambda p, q: int(p == q),
    "le": lambda p, q: int(p <= q),
}


class Undefined(ZeroDivisionError):
    """A term has no value in an instance."""


class TooLong(Exception):
    """The evaluation takes more steps than are worth waiting for."""


class Instance:
    """Values of the kernel's letters, with which terms are evaluated in one number domain.

    ``meant`` maps a letter to an int (a size, or a position from 1), a number, a function of ints, or,
    for a permutation, the tuple of images of 1, 2, ….  ``functions`` is FLOAT, EXACT or
    PRECISE.  ``env`` holds the values of bound variables, the innermost last.
    """

    def __init__(self, meant, functions=FLOAT):
        self.meant, self.functions = meant, functions
        self._known = {}  # values of terms without bound variables
        self._slopes = 0  # how many derivatives are being computed
        self.steps = 0

    def any(self, t, env=()):
        """The value of a number, a size, a position or a function."""
        if t.op == "var":
            return env[-1 - t.args[0]]
        if t.op == "let":
            return self.meant[t]
        if t.loose:
            return self._worked_out(t, env)
        if t not in self._known:
            self._known[t] = self._worked_out(t, ())
        return self._known[t]

    def _worked_out(self, t, env):
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise TooLong("it takes too many steps")
        if t.op == "abs":
            return functools.cache(lambda *values: self.any(t.args[0], (*env, *values)))
        if t.op in PLAIN:
            return PLAIN[t.op](*[self.any(a, env) if type(a) is Term else a for a in t.args])
        return getattr(self, f"_{t.op}")(env, *t.args)

    value = size = position = any

    _num = lambda self, env, q: self.functions["number"](q)

    def _inv(self, env, x):
        value = self.any(x, env)
        if value == 0 or self.functions is PRECISE and abs(value) < ROUNDING:
            raise Undefined
        return 1 / (self.functions["number"](value) if isinstance(value, int) else value)

    def _sqrt(self, env, x):
        value = self.any(x, env)
        if value.is_negative if isinstance(value, sp.Basic) else value < 0:
            raise Undefined
        self._refuse_a_kink(value)
        return self.functions["root"](value)

    def _log(self, env, x):
        value = self.any(x, env)
        if not (value.is_positive if isinstance(value, sp.Basic) else value > 0):
            raise Undefined
        return self.functions["log"](value)

    def _call(self, env, name, x):
        value = self.any(x, env)
        if name == "relu":
            self._refuse_a_kink(value)
        return self.functions[name](value)

    _exp = lambda self, env, x: self._call(env, "exp", x)

    def _refuse_a_kink(self, value):
        """Raise Undefined if the slope of a root or of relu is taken at 0."""
        if self._slopes and value == 0:
            raise Undefined

    def _case(self, env, at, first, second):
        at, in_first = self.any(at, env), self.any(first.args[1].args[0], env)
        return self.any(first, env)(at) if at <= in_first else self.any(second, env)(at - in_first)

    def _app(self, env, head, *arguments):
        values = [self.any(a, env) for a in arguments]
        if head.op == "word":
            return self.any(head.args[1])(*values)
        if head.op != "rec":
            return self.any(head, env)(*values)
        first, step = map(self.any, head.args[1:])
        at, *data, k = values
        row: Callable = lambda p: first(*data, p)  # noqa: E731
        for t in range(1, at):
            row = lambda p, t=t, row=row: step(*data, p, t, row)  # noqa: E731
        return row(k)

    def _ranges(self, f, env):
        """The range of each sort of a binder; a sort may depend on variables bound before it."""
        sorts = [(s, (*env, *[None] * n)) for n, s in enumerate(f.args[1:])]
        return [range(1, self.any(s.args[0], around) + 1) for s, around in sorts]

    def _sum(self, env, f):
        places = itertools.product(*self._ranges(f, env))
        return sum(self.any(f.args[0], (*env, *at)) for at in places)

    def _deriv(self, env, f, at):
        f, at = self.any(f, env), self.any(at, env)
        self._slopes += 1
        try:
            f(at)
        finally:
            self._slopes -= 1
        if self.functions is PRECISE:
            return mpmath.diff(f, at)
        if self.functions["number"] is float:
            g = {c: f(at + c * STEP) for c in (-2, -1, 1, 2)}
            return (8 * (g[1] - g[-1]) - (g[2] - g[-2])) / (12 * STEP)
        s = sp.Dummy(real=True)
        return sp.diff(f(s), s).subs(s, at)

    def _mean(self, env, f):
        """The mean over all signs, where each drawn entry is ± the square root of its variance."""
        sorts = [(s.args[1:], (*env, *[None] * n)) for n, s in enumerate(f.args[1:])]
        shapes = [[range(1, self.any(a.args[0], around) + 1) for a in positions]
                  for (_, *positions), around in sorts]  # fmt: skip
        slots = [(k, at) for k, shape in enumerate(shapes) for at in itertools.product(*shape)]
        if len(slots) > MOST_RANDOM_ENTRIES:
            raise Undefined("too many signs to average over")
        root = self.functions["root"]
        deviations = [root(self.any(variance, around)) for (variance, *_), around in sorts]
        total = 0
        for signs in itertools.product((1, -1), repeat=len(slots)):
            drawn = [{} for _ in shapes]
            for (k, at), sign in zip(slots, signs):
                drawn[k][at] = sign * deviations[k]
            total += self.any(f, env)(*[lambda *at, table=table: table[at] for table in drawn])
        return total / self.functions["number"](2 ** len(slots))
