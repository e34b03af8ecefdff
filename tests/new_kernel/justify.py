"""A line of a derivation, justified by the kernel's rules.  Not trusted: it finds, rules decide."""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp
from derivation import sums
from derivation.matrices import DERIVATIVE, OVER, Expression, Operation
from derivation.substitution import _letters
from sympy import S, Tuple

from . import bridge
from .bridge import Reading, function
from .kernel import rules
from .kernel import terms as k
from .kernel.normal import ANGLE, EXP, Normal
from .kernel.sums import COUNT, MOMENTS, REINDEX, SPLIT

LAWS = {
    sums.REINDEX: REINDEX, sums.EXP_OF_SUM: EXP, sums.SPLIT: SPLIT, sums.ANGLE_ADDITION: ANGLE,
    sums.SECOND_MOMENTS: MOMENTS, sums.COUNT: COUNT,
}  # fmt: skip


def by_algebra(lhs, rhs, operations=(), laws=()):
    """The kernel's theorem that two expressions are equal by definitions and laws."""
    bridge.OPERATIONS.update({operation.serial: operation for operation in operations})
    words = [bridge.definition(operation.serial).term for operation in operations]
    return rules.by_normal_form(function(lhs), function(rhs), words, [LAWS[law] for law in laws])


def aligned(theorem, lhs, rhs):
    """A theorem, its sides written as those of two expressions that they are instances of."""
    return rewritten_as(theorem, function(lhs), function(rhs))


def rewritten_as(theorem, lhs, rhs):
    """A theorem, its sides written otherwise."""
    if theorem.lhs != lhs:
        theorem = rules.chain(rules.by_normal_form(lhs, theorem.lhs, laws=[REINDEX]), theorem)
    if theorem.rhs != rhs:
        theorem = rules.chain(theorem, rules.by_normal_form(theorem.rhs, rhs, laws=[REINDEX]))
    return theorem


@dataclass(frozen=True)
class Equation:
    """What ``rewritten`` looks for, and puts in its place."""

    lhs: Expression
    rhs: Expression
    hypotheses: tuple = ()
    title: str = ""


HOLE = Operation(
    "hole", entry=lambda x, i, j, unfold: sums.Entry(*x.params, i, j), run=None, show=None
)


def cited(stage, equation, proved, rewritten):
    """(the expression after an equation has been put to use, the theorem that it is equal)."""
    after = rewritten(stage, equation)
    if after == stage:
        return after, None
    binders = {x.params[0] for x in stage.walk() if x.operation in (OVER, DERIVATIVE)}
    spoken_of = set()
    for side in (equation.lhs, equation.rhs):
        spoken_of |= side.free_positions() | side.free_scalars()
    free = sorted(binders & spoken_of, key=str)
    sizes = [S.Naturals if isinstance(b, sp.Symbol) else sums.range_of(b) for b in free]
    family = sums.Family("hole", "matrix", [*sizes, *equation.lhs.shape])
    hole = Expression(HOLE, params=[family, *free], shape=equation.lhs.shape)
    context = rewritten(stage, Equation(equation.lhs, hole, equation.hypotheses, equation.title))
    letters = [
        bridge.scalar(b) if isinstance(b, sp.Symbol) else Reading().position(b) for b in free
    ]
    general = rules.for_every(proved, letters) if letters else proved
    step = rules.congruence(general, function(context), bridge.family(family))
    return after, aligned(step, stage, after)


def line(before, claim, equations, operations, laws, rewritten):
    """The theorem that two expressions are equal: equations put to use in turn, then algebra.

    ``equations`` are pairs (equation, the kernel's theorem of it), ``operations`` those of the
    words unfolded; ``rewritten(x, equation)`` puts the right side of an equation for its left one.
    """
    proved, stage = None, before
    for equation, theorem in equations:
        stage, step = cited(stage, equation, theorem, rewritten)
        if step is not None:
            proved = rules.chain(proved, step) if proved else step
    last = by_algebra(stage, claim, operations, laws)
    return rules.chain(proved, last) if proved else last


def given(equation):
    """The kernel's theorem of an equation assumed."""
    return rules.given(function(equation.lhs), function(equation.rhs))


def induction(t, lhs, rhs, base, step):
    """The kernel's theorem by induction, from those of the base and the step."""
    size, sides = bridge.size(t), (function(lhs), function(rhs))
    at_one = [k.put(f, (), {size: k.UNIT}) for f in sides]
    after = [k.put(f, (), {size: k.Term("join", size, k.UNIT)}) for f in sides]
    return rules.induction(rewritten_as(base, *at_one), rewritten_as(step, *after), size)


def same(a, b):
    """Whether plain algebra shows two expressions to be equal."""
    if a == b or a.shape != b.shape:
        return a == b
    marks = k.looked_into(function(a))[1]
    normal = Normal()
    return normal.same(*[k.opened(function(x), *marks) for x in (a, b)])


def instance(proved, put, lhs, rhs):
    """The kernel's instance for what a substitution puts in."""
    meant = {}
    for symbol, value in put.symbols.items():
        if symbol.is_integer:
            meant[bridge.size(symbol)] = bridge.size(value)
        else:
            meant[bridge.scalar(symbol)] = Reading().number(value)
    for family, value in put.families.items():
        if family.kind == "random":
            continue
        if isinstance(value, Expression):
            f = function(value)
            if family.kind == "mask":
                body, marks = k.looked_into(f)
                f = k.abstract(marks, Normal().canonical(body))
            meant[bridge.family(family)] = f
        else:
            meant[bridge.family(family)] = bridge._eta(bridge.family(value.family))
    for bijection, value in put.permutations.items():
        mark = sums.fresh(value.shape[0])
        letter = k.fresh(k.pos(bridge.size(value.shape[0])))
        moved = Reading({mark: letter}).position(sums.Moved(Tuple(*_letters(value, 1)), mark))
        meant[bridge.permutation(bijection)] = k.abstract([letter], moved)
    for index, value in put.indices.items():
        meant[Reading().position(index)] = Reading().position(value)
    return aligned(rules.instance(proved, meant), lhs, rhs)
