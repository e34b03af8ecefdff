"""The value of a term in a world: of an index form, or of a condition that nobody has words for."""

import itertools
import math
from fractions import Fraction

import numpy as np
from derivation.letters import Bijection, Family, Index, scalar_letter, size_term
from derivation.operations import Operation

from .arithmetic import Undefined, divided, root, slope


class Terms:
    """Terms made of some of the reader's letters.

    Positions count from 1; what is bound stands in a tuple.
    """

    def __init__(self, world, uses):
        self.world, self.meant = world, {}
        for b in uses:
            if isinstance(b, (Family, Bijection, Index)):
                self.meant[b.term] = b
            elif not isinstance(b, Operation):  # its term says what a word does
                self.meant[size_term(b) if b.is_integer else scalar_letter(b)] = b

    def __call__(self, term, bound=()):
        """A number, a size, a position or a function."""
        if term.op == "abs":
            return lambda *more: self(term.args[0], (*bound, *more))
        if term.op == "var":
            return bound[len(bound) - 1 - term.args[0]]
        if term.op == "let":
            return self.letter(term)
        if term.op not in TERMS:
            raise Undefined
        return TERMS[term.op](self, lambda below: self(below, bound), *term.args)

    def letter(self, term):
        """What a letter of the kernel means in the world."""
        b, world = self.meant.get(term), self.world
        if b is None:  # a function that may be any
            return lambda x: self.call(term.args[0], x)
        if isinstance(b, Index):
            return world.place(b) + 1
        if isinstance(b, Bijection):
            return [k + 1 for k in world.images(b)]
        if not isinstance(b, Family):
            return world.size(b) if b.is_integer else world.scalar(b)
        if b.kind == "sequence":
            return lambda t, j: world.row_of(b, int(t))[0, j - 1]
        return lambda *at: world.letter(b, tuple(k - 1 for k in at[:-2]))[at[-2] - 1, at[-1] - 1]

    def call(self, name, x):
        """A function of one number."""
        return self.world.function(name)(np.array([x], dtype=object))[0]


def ranges_of(of, abstraction):
    """All values of what an abstraction over positions binds."""
    if any(sort.op != "POS" for sort in abstraction.args[1:]):
        raise Undefined
    ranges = [range(1, of(sort.args[0]) + 1) for sort in abstraction.args[1:]]
    return itertools.product(*ranges)


def _applied(terms, of, head, *arguments):
    return of(head.args[1] if head.op == "word" else head)(*map(of, arguments))


def _moved(terms, of, images, way, position):
    images, p = of(images), of(position)
    return images[p - 1] if way > 0 else images.index(p) + 1


def _case(terms, of, at, first, second):
    block = of(first.args[1].args[0])
    return of(first)(of(at)) if of(at) <= block else of(second)(of(at) - block)


#: op: (the evaluator, the value of what is below, what is below) to a value.
TERMS = {
    "app": _applied,
    "sum": lambda terms, of, f: sum(of(f)(*at) for at in ranges_of(of, f)),
    "case": _case,
    "deriv": lambda terms, of, f, at: slope(lambda step: of(f)(of(at) + step)),
    # sizes and positions
    "lit": lambda terms, of, k: k,
    "times": lambda terms, of, *sizes: math.prod(map(of, sizes)),
    "join": lambda terms, of, a, b: of(a) + of(b),
    "only": lambda terms, of: 1,
    "last": lambda terms, of, s: of(s),
    "inl": lambda terms, of, other, p: of(p),
    "inr": lambda terms, of, other, p: of(other) + of(p),
    "move": _moved,
    # numbers
    "num": lambda terms, of, q: q,
    "size": lambda terms, of, s: Fraction(of(s)),
    "place": lambda terms, of, p: Fraction(of(p)),
    "add": lambda terms, of, *parts: sum(map(of, parts)),
    "mul": lambda terms, of, *factors: math.prod(map(of, factors)),
    "pow": lambda terms, of, x, e: of(x) ** e,
    "inv": lambda terms, of, x: divided(Fraction(1), of(x)),
    "sqrt": lambda terms, of, x: root(of(x)).item(),
    "exp": lambda terms, of, x: terms.call("exp", of(x)),
    "call": lambda terms, of, name, x: terms.call(name, of(x)),
    "delta": lambda terms, of, p, q: Fraction(of(p) == of(q)),
    "le": lambda terms, of, p, q: Fraction(of(p) <= of(q)),
}
