"""Evaluate, in a world, matrices that are given entry by entry, and conditions given as terms.

Few theorems need this.  The module uses the package's interpreter of terms, which shares no code
with the kernel's normal form and which ``test_operations`` compares with PyTorch's functions.
"""

import itertools
from fractions import Fraction

import numpy as np
from derivation.language.letters import Bijection, Family, Index, scalar_letter, size_term
from derivation.language.operations import Operation
from derivation.refuting.evaluation import Instance

from .arithmetic import Undefined, divided, root, slope


class Terms(Instance):
    """The interpreter of terms, with a world's values for letters and the judge's arithmetic."""

    def __init__(self, world, uses):
        functions = {name: one_number(world, name) for name in KNOWN}
        functions |= {"root": lambda x: root(x).item(), "number": Fraction}
        super().__init__(Letters(world, uses), functions)

    def at(self, form, *positions):
        """The value of a function of positions, as a Fraction or a 60-digit number."""
        value = self.value(form)(*positions)
        return Fraction(value) if isinstance(value, int) else value

    def ranges(self, form):
        """All combinations of positions; raises Undefined if a variable is not a position."""
        if any(sort.op != "POS" for sort in form.args[1:]):
            raise Undefined
        return itertools.product(*self._ranges(form, ()))

    def _inv(self, env, x):
        return divided(Fraction(1), Fraction(0) + self.any(x, env))

    def _deriv(self, env, f, at):
        f, at = self.any(f, env), self.any(at, env)
        return slope(lambda step: f(at + step))


KNOWN = ("exp", "log", "tanh", "relu", "cos", "sin")


def one_number(world, name):
    """The world's function of this name, as a function of one number instead of an array."""
    return lambda x: world.function(name)(np.array([x], dtype=object))[0]


class Letters(dict):
    """{kernel letter: its value in a world}; a missing letter stands for the function it names."""

    def __init__(self, world, uses):
        self.world = world
        for b in uses:
            if isinstance(b, (Family, Bijection, Index)):
                self[b.term] = self.meaning(b)
            elif not isinstance(b, Operation):  # an operation needs no value
                size = b.is_integer
                self[size_term(b) if size else scalar_letter(b)] = (
                    world.size(b) if size else world.scalar(b)
                )

    def __missing__(self, term):
        return one_number(self.world, term.args[0])

    def meaning(self, b):
        world = self.world
        if isinstance(b, Index):
            return world.place(b) + 1
        if isinstance(b, Bijection):
            return [k + 1 for k in world.images(b)]
        if b.kind == "sequence":
            return lambda t, j: world.row_of(b, int(t))[0, j - 1]
        return lambda *at: world.letter(b, tuple(k - 1 for k in at[:-2]))[at[-2] - 1, at[-1] - 1]
