"""The value of an index form, or of a condition that nobody has words for, in a world.

Few theorems have one.  They are terms, and read by the package's interpreter, which shares nothing
with the kernel's normal form and is held to PyTorch's functions in ``test_operations``.
"""

import itertools
from fractions import Fraction

import numpy as np
from derivation.evaluation import Instance
from derivation.letters import Bijection, Family, Index, scalar_letter, size_term
from derivation.operations import Operation

from .arithmetic import Undefined, divided, root, slope


class Terms(Instance):
    """Terms made of some of the reader's letters, in the numbers of the judge."""

    def __init__(self, world, uses):
        functions = {name: one_number(world, name) for name in KNOWN}
        functions |= {"root": lambda x: root(x).item(), "number": Fraction}
        super().__init__(Letters(world, uses), functions)

    def at(self, form, *positions):
        """A value of an abstraction over positions, as a Fraction or a number of digits."""
        value = self.value(form)(*positions)
        return Fraction(value) if isinstance(value, int) else value

    def ranges(self, form):
        """All values of what an abstraction binds; Undefined where that is not positions."""
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
    """A function of the world, of one number."""
    return lambda x: world.function(name)(np.array([x], dtype=object))[0]


class Letters(dict):
    """What the letters of the kernel mean in the world; a function that may be any has its name."""

    def __init__(self, world, uses):
        self.world = world
        for b in uses:
            if isinstance(b, (Family, Bijection, Index)):
                self[b.term] = self.meaning(b)
            elif not isinstance(b, Operation):  # its term says what a word does
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
