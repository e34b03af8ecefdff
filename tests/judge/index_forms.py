"""The value, in a world, of an index form or of a condition given as a term.

Few theorems have either.  The package's interpreter of terms evaluates them.  It shares nothing
with the kernel's normal form, and ``test_operations`` compares it with PyTorch's functions.
"""

import itertools
from fractions import Fraction

import numpy as np
from derivation.evaluation import Instance
from derivation.letters import Bijection, Family, Index, scalar_letter, size_term
from derivation.operations import Operation

from .arithmetic import Undefined, divided, root, slope


class Terms(Instance):
    """An interpreter of terms whose letters have values in a world, with the judge's arithmetic."""

    def __init__(self, world, uses):
        functions = {name: one_number(world, name) for name in KNOWN}
        functions |= {"root": lambda x: root(x).item(), "number": Fraction}
        super().__init__(Letters(world, uses), functions)

    def at(self, form, *positions):
        """The value of an abstraction at positions, as a Fraction or a number of 60 digits."""
        value = self.value(form)(*positions)
        return Fraction(value) if isinstance(value, int) else value

    def ranges(self, form):
        """All positions that an abstraction binds, combined; raises Undefined for other sorts."""
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
    """The world's function of this name, applied to one number instead of an array."""
    return lambda x: world.function(name)(np.array([x], dtype=object))[0]


class Letters(dict):
    """{letter of the kernel: its value in a world}; an absent letter is a function of its name."""

    def __init__(self, world, uses):
        self.world = world
        for b in uses:
            if isinstance(b, (Family, Bijection, Index)):
                self[b.term] = self.meaning(b)
            elif not isinstance(b, Operation):  # a word's term contains its definition
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
