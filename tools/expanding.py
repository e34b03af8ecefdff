"""The other way to prove an equation: at one size n, every matrix written out, entry by entry.

Every size of the equation becomes n and every entry of a letter a symbol.  Both sides are worked
out, operation by operation, each entry once, and SymPy decides for each entry whether the
difference is zero.  There are two ways to ask it, and neither is always the quicker
one; on other equations `cancel` came close to them, and `simplify` was never clearly quicker.

A permutation is tried as a swap and as a cycle.  All others are composed of these two; that the
equation then holds for all n! of them is an argument of its own, which is granted here.
"""

import itertools
import signal
from contextlib import contextmanager

import sympy as sp
from derivation import matrix
from derivation.evaluation import EXACT, Instance
from derivation.letters import Bijection, Family, scalar_letter, size_term
from derivation.matrices import Expression
from derivation.operations import DERIVATIVE, EXPECTATION, LETTER, OVER, PRODUCT_OF


class Stopped(BaseException):  # an `except Exception` on the way must not catch it
    """It took longer than it was allowed to."""


def over_one_denominator(difference):
    """Whether it is zero: the numerator over one denominator expands to zero."""
    return sp.expand(sp.numer(sp.together(difference))) == 0


def expanded_first(difference):
    """Whether it is zero: so that what cancels is gone before a denominator is sought."""
    difference = sp.expand(difference)
    return difference == 0 or over_one_denominator(difference)


WAYS = {"over one denominator": over_one_denominator, "expanded first": expanded_first}


@contextmanager
def at_most(seconds):
    """Raises Stopped as soon as the code inside has used that much CPU time."""

    def stop(*_):
        raise Stopped(f"stopped after {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def holds_at(n, lhs, rhs, is_zero=over_one_denominator):
    """Whether SymPy finds lhs = rhs where every size is n.  True is a proof, False is none."""
    for meant in every_meaning(n, lhs, rhs):
        left, right = written_out(lhs, meant), written_out(rhs, meant)
        sizes = [Instance(meant, EXACT).size(size_term(size)) for size in lhs.shape]
        places = itertools.product(*[range(1, size + 1) for size in sizes])
        if not all(is_zero(left(*at) - right(*at)) for at in places):
            return False
    return True


def every_meaning(n, lhs, rhs):
    """What the letters mean at size n: once with each permutation a swap, once with it a cycle."""
    atoms = lambda kind: sorted(lhs.atoms(kind) | rhs.atoms(kind), key=str)
    scalars = lhs.free_scalars() | rhs.free_scalars()
    meant = {size_term(s): n for s in scalars if s.is_integer}
    meant |= {scalar_letter(s): s for s in scalars if not s.is_integer}
    meant |= {family.term: symbols(family) for family in atoms(Family)}
    swap, cycle = (2, 1, *range(3, n + 1)), (*range(2, n + 1), 1)
    permutations = [p.term for p in atoms(Bijection)]
    for images in itertools.product(sorted({swap, cycle}), repeat=len(permutations)):
        yield meant | dict(zip(permutations, images))


def symbols(family):
    """A symbol for each entry of a letter, real as the letters of the book are."""
    assert family.kind == "matrix", f"{family.name} is a {family.kind}, which is not written out"
    return lambda *at: sp.Symbol("_".join([family.name, *map(str, at)]), real=True)


def written_out(x, meant):
    """The entries of an expression, as a function of two positions that works each out once."""
    if x.operation.expand is not None:
        return written_out(x.operation.expand(x), meant)
    assert x.operation not in (DERIVATIVE, EXPECTATION), "it depends on more than entries"
    if x.operation is LETTER:
        return Instance(meant, EXACT).value(x.function)
    if x.operation is OVER:
        index = x.params[0]
        places = range(1, Instance(meant, EXACT).size(size_term(index.size)) + 1)
        parts = [written_out(x.args[0], meant | {index.term: place}) for place in places]
        return lambda *at: sum(part(*at) for part in parts)
    args = list(x.args)
    while x.operation is PRODUCT_OF and len(args) > 2:
        first, second = args[:2]
        args[:2] = [Expression(PRODUCT_OF, (first, second), (), (first.shape[0], second.shape[1]))]
    letters = [matrix(f"argumentʼ{k}", *y.shape) for k, y in enumerate(args)]
    own = {letter.params[0].term: written_out(y, meant) for letter, y in zip(letters, args)}
    alone = Expression(x.operation, letters, x.params, x.shape)
    return Instance(meant | own, EXACT).value(alone.function)
