"""Justify a line of a derivation by the kernel's rules.  Not trusted: this module only searches."""

import sympy as sp
from sympy import S

from .. import kernel as k
from ..kernel import MOST_STEPS, REINDEX, Normal
from ..language import (HOLE, PRODUCT_OF, SUM_OF, TRANSPOSE, Expression, Family, free_names,
                        kernel_letter, letter, product, same, size_term)  # fmt: skip


def rewritten_as(theorem, lhs, rhs):
    """A theorem with its sides rewritten as ``lhs`` and ``rhs``, which must have equal values."""
    same_value = lambda f, g: k.by_normal_form(f, g, (), [REINDEX])
    if theorem.lhs != lhs:
        theorem = k.chain(same_value(lhs, theorem.lhs), theorem)
    if theorem.rhs != rhs:
        theorem = k.chain(theorem, same_value(theorem.rhs, rhs))
    return theorem


def instance(proved, put, lhs, rhs, assumed):
    """The instance of a kernel theorem, without hypotheses that algebra proves after substitution.

    ``assumed`` has (sides before, sides after the substitution) for each assumed equation.
    """
    meant = put.meant()
    found = rewritten_as(k.instance(proved, meant), lhs.function, rhs.function)
    for before, after in assumed:
        found = _assumed_as(found, [k.put(x.function, meant) for x in before], after)
    for a, b in found.hypotheses:
        try:
            found = k.discharge(found, k.by_normal_form(a, b))
        except k.Differ:
            pass
    return found


def _assumed_as(theorem, before, after):
    """The theorem, with one of its assumed equations rewritten in the form that will be printed."""
    sides = [x.function for x in after]
    if before == sides or tuple(before) not in theorem.hypotheses:
        return theorem
    return k.discharge(theorem, rewritten_as(k.given(*sides), *before))


def induction(t, lhs, rhs, base, step):
    """The kernel's theorem by induction, from the theorems of the base and the step."""
    size, sides = size_term(t), (lhs.function, rhs.function)
    at_one = [k.put(f, {size: k.UNIT}) for f in sides]
    after = [k.put(f, {size: k.Term("join", size, k.UNIT)}) for f in sides]
    return k.induction(rewritten_as(base, *at_one), rewritten_as(step, *after), size)


def line(stages, claim, equations, words, laws, most=MOST_STEPS):
    """The theorem that ``stages[0]`` equals ``claim``; expressions in between go into ``stages``.

    ``equations`` are triples (left, right, the kernel's theorem), used in this order.  Algebra
    follows, by the definitions of ``words`` and by ``laws``, in at most ``most`` steps.  A left
    side that is a number and does not occur as written is sought again with ``words`` unfolded.
    """
    proved, left = None, []
    for lhs, rhs, theorem in equations:
        after = rewritten(stages[-1], lhs, rhs)
        if after == stages[-1]:
            left += [(lhs, rhs, theorem)] if lhs.axes == (1, 1) else []
            continue
        step = _cited(stages[-1], after, lhs, rhs, theorem)
        proved = k.chain(proved, step) if proved else step
        stages.append(after)
    terms = [term for word in words for term in word.terms]
    named = [x.name for x in laws]
    last = _by_numbers(stages[-1].function, claim.function, left, terms, named, most)
    return k.chain(proved, last) if proved else last


def _by_numbers(f, g, equations, words, laws, most):
    """The theorem f = g by algebra, after rewriting by equations of numbers, from left to right."""
    if not equations:
        return k.by_normal_form(f, g, words, laws, most)
    (lhs, rhs, theorem), *others = equations
    hole = letter("theʼnumber", k.fun(k.pos(k.UNIT), k.pos(k.UNIT)))
    context = _around(f, lhs, hole, Normal(words, laws, most=most))
    if hole not in context.letters:  # the number is absent or has no letters
        return _by_numbers(f, g, others, words, laws, most)
    before, after = (k.put(context, {hole: x.function}) for x in (lhs, rhs))
    there = k.by_normal_form(f, before, words, laws, most)
    cited = k.congruence(theorem, context, hole)
    return k.chain(k.chain(there, cited), _by_numbers(after, g, others, words, laws, most))


def _around(f, number, hole, normal):
    """The normal form of a function, with a hole in place of a number that it contains."""
    body, marks = k.looked_into(f)
    wanted = normal.canonical(number.entry(k.ONLY, k.ONLY))
    there = k.Term("app", hole, k.ONLY, k.ONLY)

    def replaced(t, _=0):
        return there if t == wanted and wanted.letters else k.rebuilt(t, replaced)

    return k.abstract(marks, replaced(normal.canonical(body)))


def _cited(before, after, lhs, rhs, proved):
    """The theorem before = after, by a context with a hole in place of the left side.

    Variables bound around the hole that occur in the equation are generalised first.
    """
    free = sorted(before.bound() & (free_names(lhs) | free_names(rhs)), key=str)
    sizes = [S.Naturals if isinstance(b, sp.Symbol) else b.size for b in free]
    family = Family("theʼhole", "matrix", [*sizes, *lhs.axes])
    context = rewritten(before, lhs, Expression(HOLE, params=[family, *free]))
    general = k.for_every(proved, map(kernel_letter, free)) if free else proved
    step = k.congruence(general, context.function, family.term)
    return rewritten_as(step, before.function, after.function)


def rewritten(x, lhs, rhs):
    """``x`` with ``rhs`` in place of every ``lhs``.

    Sub-products and sub-sums also match; a replaced part is not searched again.
    """
    if same(x, lhs):
        return rhs
    replaced = None
    if x.operation is PRODUCT_OF or len(_transposed_factors(x)) > 1:
        replaced = _in_product(product(x), lhs, rhs)
    elif x.operation is lhs.operation is SUM_OF:
        replaced = _in_sum(x, lhs, rhs)
    if replaced is not None:
        return replaced
    args = [rewritten(y, lhs, rhs) for y in x.args]
    return x if all(a is b for a, b in zip(args, x.args)) else x.rebuilt(args)


def _in_product(x, lhs, rhs):
    """Replace ``lhs`` among the factors of x, also with (A B)ᵀ read as Bᵀ Aᵀ; None if absent."""
    transposed = [f for y in x.args for f in _transposed_factors(y)]
    replaced = _among(x.args, lhs, rhs)
    if replaced is None and len(transposed) > len(x.args):
        replaced = _among(transposed, lhs, rhs)
    return replaced


def _transposed_factors(x):
    if x.operation is TRANSPOSE and x.args[0].operation is PRODUCT_OF:
        return [f for y in reversed(x.args[0].args) for f in _transposed_factors(y.T)]
    if x.operation is TRANSPOSE and x.args[0].operation is TRANSPOSE:
        return _transposed_factors(x.args[0].args[0])
    return [x]


def _among(factors, lhs, rhs):
    count = len(factors)
    for width in range(count - 1, 1, -1):
        for start in range(count - width + 1):
            if same(product(*factors[start : start + width]), lhs):
                around = (factors[:start], factors[start + width :])
                before, after = ([rewritten(product(*f), lhs, rhs)] if f else [] for f in around)
                return product(*before, rhs, *after)
    return None


def _in_sum(x, lhs, rhs):
    """Replace a sub-sum, if each term of the left side is a term of x; otherwise return None."""
    rest = list(x.args)
    for term in lhs.args:
        match = next((y for y in rest if same(y, term)), None)
        if match is None:
            return None
        rest.remove(match)
    return sum((rewritten(y, lhs, rhs) for y in rest), rhs)
