"""Theorems, and the only rules that make them.

A theorem is an equation between two functions (of positions, or of anything that was generalised),
with the conditions that its proof requires and the equations that it assumes.  It holds for all sizes
>= 1 and for all values of its letters.
"""

from collections.abc import Iterable
from functools import cache
from itertools import chain as chained, islice, permutations, product

from .conditions import EXISTS, NONZERO, SMOOTH, conditions, for_all, holds, under
from .normal import LAWS, Normal
from .polynomials import MOST_STEPS
from .sorts import KNOWN, check_function, check_sort, fits
from .sums import MOST_ORDERS, SPLIT, reindexed, split_positions
from .terms import NUM, SIZE, UNIT, Frozen, Term, abstract, fun, is_name, looked_into, must
from .terms import ProofError, opened, put


class Differ(ProofError):
    """Raised if two sides have different normal forms."""


class Proved(Frozen):
    """lhs = rhs wherever the conditions and the hypotheses hold.

    ``lhs`` and ``rhs`` are closed ``abs`` terms of the same sorts; ``conditions`` is a frozenset of
    (relation, closed ``abs`` or letter); ``hypotheses`` is a frozenset of pairs of closed ``abs``.

    Only the rules below make theorems.  Python cannot stop code that uses a name with a leading
    underscore or ``object.__setattr__``, or that rebinds a name of a module.
    """

    __slots__ = ("lhs", "rhs", "conditions", "hypotheses", "__weakref__")


def _proved(lhs, rhs, needs, hypotheses=frozenset()):
    must(lhs.args[1:] == rhs.args[1:], "the two sides have different shapes")
    _one_thing_each_name([lhs, rhs, *[x for _, x in needs], *chained(*hypotheses)])
    made = object.__new__(Proved)
    made._keep(lhs=lhs, rhs=rhs, conditions=frozenset(needs), hypotheses=frozenset(hypotheses))
    return made


def _one_thing_each_name(terms):
    """Refuse letters or words that share a name, because they would look the same when printed."""
    known, todo, seen = dict.fromkeys(KNOWN), {*terms}, set()
    while todo:
        t = todo.pop()
        seen.add(t)
        todo |= {a for a in t.args if type(a) is Term} - seen
        if t.op in ("let", "word", "rec"):
            must(not t.args[0].startswith("#"), "something bound escapes its binder: {}", t)
            must(known.setdefault(t.args[0], t) == t, "there are two things called {}", t.args[0])


def _public(*terms):
    """Refuse letters that a reader cannot write, and draws that no mean binds."""
    for t in terms:
        must(type(t) is Term and not t.loose, "{} is not a closed term", t)
        for x in t.letters:
            must(is_name(x.args[0]), "{} has no name that a reader can write", x)
            check_sort(x.args[1])


def _side(f):
    """A side of an equation, checked to be a function whose values are numbers."""
    _public(f)
    check_function(f)
    return f


def _sides_ask(sides, words=()):
    """The conditions of the sides, with these words unfolded."""
    return _conditions(chained(*[under(f, words) for f in sides]))


def _conditions(triples):
    """Conditions in normal form, together with the conditions under which they make sense."""
    return frozenset().union(*[_condition(r, abstract(letters, x)) for r, letters, x in triples])


@cache
def _condition(relation, closed):
    """A condition in normal form with its own conditions; refuses a literal number that violates it."""
    (x, letters), normal = looked_into(closed), Normal(None, LAWS)
    if relation == SMOOTH or holds(relation, x):
        return {(relation, x)} if relation == SMOOTH else set()
    found = _conditions(for_all(letters, conditions(x)[1 if relation == EXISTS else 0 :]))
    if relation == EXISTS:  # the first condition listed is that x exists
        known = all(a.op != "mean" for m in normal.poly(x) for a, _ in m)
        return found if known else found | {(EXISTS, closed)}
    form = (normal.vanishing if relation == NONZERO else normal.canonical)(normal.canonical(x))
    if holds(relation, form):
        return found
    must(form.op != "num", "it needs that {} {}, which never holds", form, relation)
    bound = [m for m in letters if m in form.letters]
    free = [m for m in bound if not any(m in x.letters for x in bound if x != m)]
    forms = [normal.canonical(other) for other in reindexed(free, form)]
    orders = [*islice(permutations(bound), MOST_ORDERS)]
    bindings = (abstract(o, f) for f, o in islice(product(forms, orders), MOST_ORDERS))
    closed = [f for f in bindings if f.letters.isdisjoint(bound)]
    return found | {(relation, min(closed, key=lambda f: (len(f.key), f.key)))}


# ── 1 to 3: equations ────────────────────────────────────────────────────────────────────────


def by_normal_form(
    lhs: Term, rhs: Term, words: Iterable = (), laws: Iterable[str] = (), most: int = MOST_STEPS
) -> Proved:
    """Rule 1: two functions whose values have the same normal form are equal.

    ``words`` are unfolded; ``laws`` are names from ``LAWS``; ``most`` bounds the steps.  Raises Differ
    if the normal forms differ.
    """
    words, laws = frozenset(words), frozenset(laws)
    must(laws <= set(LAWS), "the laws are {}", LAWS)
    marks = looked_into(_side(lhs))[1]
    for values in split_positions(marks) if SPLIT in laws else [marks]:
        one, other = opened(lhs, *values), opened(_side(rhs), *values)
        if not _equal(one, other, words, laws, most):
            raise Differ("the two sides differ")
    return _proved(lhs, rhs, _sides_ask((lhs, rhs), words))


def _equal(one, other, words, laws, most):
    """Whether two numbers have the same normal form; multiplies out only if necessary."""
    try:
        alike = Normal(words, laws, True, most).same(one, other)
    except (ProofError, RecursionError):  # the second attempt, not folded, reports the error
        alike = False
    return alike or Normal(words, laws, False, most).same(one, other)


def chain(first: Proved, second: Proved) -> Proved:
    """Rule 2: from a = b and b = c, a = c."""
    _genuine(first, second)
    must(first.rhs == second.lhs, "the second equation does not begin where the first one ends")
    needs, assumed = first.conditions | second.conditions, first.hypotheses | second.hypotheses
    return _proved(first.lhs, second.rhs, needs, assumed)


def reverse(theorem: Proved) -> Proved:
    """Rule 3: from a = b, conclude b = a."""
    _genuine(theorem)
    return _proved(theorem.rhs, theorem.lhs, theorem.conditions, theorem.hypotheses)


# ── 4 to 6: other letters, other positions ───────────────────────────────────────────────────


def instance(theorem: Proved, meant: dict[Term, Term]) -> Proved:
    """Rule 4: replace letters by terms, everywhere at once; ``meant`` is {letter: term}."""
    _genuine(theorem)
    meant = dict(meant)
    must(all(type(x) is Term and x.op == "let" for x in meant), "only letters can be replaced")
    sizes = {x: t for x, t in meant.items() if x.args[1] == SIZE}
    for x, t in meant.items():
        _public(t)
        fits(put(x.args[1], sizes), t)
    needs = set().union(*[_carried(relation, x, meant) for relation, x in theorem.conditions])
    hypotheses = [tuple(_side(put(x, meant)) for x in pair) for pair in theorem.hypotheses]
    sides = [_side(put(f, meant)) for f in (theorem.lhs, theorem.rhs)]
    return _proved(sides[0], sides[1], needs | _sides_ask(sides), hypotheses)


def _carried(relation, x, meant):
    """The conditions that a condition requires after the substitution ``meant``."""
    new = put(x, meant) if x not in meant else meant[x]
    if relation == SMOOTH and new.op == "let":
        return {(relation, new)}
    if relation == SMOOTH:  # a composition is smooth if its parts are smooth at every point
        must(new.args[1:] == (NUM,), "only a function of one number can replace a smooth letter")
        return _sides_ask([Term("abs", Term("deriv", new, Term("var", 0)), NUM)])
    return _condition(relation, new)


def congruence(theorem: Proved, context: Term, hole: Term) -> Proved:
    """Rule 5: replace equals by equals.  ``context`` is a function that contains the letter ``hole``."""
    _genuine(theorem)
    _public(hole)
    must(hole.args[1:] == (fun(*theorem.lhs.args[1:]),), "the hole is not of the equation's sort")
    f, g = (put(_side(context), {hole: x}) for x in (theorem.lhs, theorem.rhs))
    return _proved(f, g, theorem.conditions | _sides_ask([_side(f), _side(g)]), theorem.hypotheses)


def for_every(theorem: Proved, letters: Iterable[Term]) -> Proved:
    """Rule 6: what holds of a letter holds for all its values, if no hypothesis contains the letter."""
    _genuine(theorem)
    letters, assumed = tuple(letters), [f.letters for f in chained(*theorem.hypotheses)]
    _public(*letters)
    for x in letters:
        must(x.op == "let" and x.args[1].op in ("NUM", "POS"), "{} cannot be generalised", x)
        must(not any(x in spoken for spoken in assumed), "a hypothesis contains {}", x.args[0])
    needs = {(r, x) for r, x in theorem.conditions if r == SMOOTH}
    for relation, f in theorem.conditions - needs:
        body, marks = looked_into(f)
        needs |= _conditions([(relation, [*letters, *marks], body)])
    sides = [looked_into(f) for f in (theorem.lhs, theorem.rhs)]
    lhs, rhs = (abstract([*letters, *marks], body) for body, marks in sides)
    return _proved(lhs, rhs, needs, theorem.hypotheses)


# ── 7 to 9: assumptions ──────────────────────────────────────────────────────────────────────


def given(lhs: Term, rhs: Term) -> Proved:
    """Rule 7: an assumed equation is a theorem whose hypothesis is that equation."""
    return _proved(_side(lhs), _side(rhs), (), {(lhs, rhs)})


def discharge(theorem: Proved, proof: Proved) -> Proved:
    """Rule 8: an assumed equation that has been proved is dropped from the hypotheses."""
    _genuine(theorem, proof)
    pair = (proof.lhs, proof.rhs)
    must(pair in theorem.hypotheses, "{} = {} is not assumed", *pair)
    left = theorem.hypotheses - {pair} | proof.hypotheses
    return _proved(theorem.lhs, theorem.rhs, theorem.conditions | proof.conditions, left)


def induction(base: Proved, step: Proved, size: Term) -> Proved:
    """Rule 9: P(1), together with P(n + 1) given P(n), implies P(n) for every n.

    ``size`` is n.  No other letter of P may depend on n, nor may any condition.
    """
    _genuine(base, step)
    _public(size)
    must(size.op == "let" and size.args[1] == SIZE, "induction is on a size")
    about = [pair for pair in step.hypotheses if any(size in f.letters for f in pair)]
    must(len(about) == 1, "the step assumes the statement, and nothing else about the size")
    [(lhs, rhs)] = about
    for x in lhs.letters | rhs.letters:
        must(x == size or size not in x.letters, "{} is of that size", x.args[0])
    for theorem, at in ((base, UNIT), (step, Term("join", size, UNIT))):
        wanted = tuple(put(f, {size: at}) for f in (lhs, rhs))
        must((theorem.lhs, theorem.rhs) == wanted, "that is not the statement at {}", at)
    needs = base.conditions | step.conditions
    others = [*[x for _, x in needs], *chained(*base.hypotheses)]
    must(not any(size in x.letters for x in others), "a condition depends on the size")
    return _proved(lhs, rhs, needs, base.hypotheses | step.hypotheses - {(lhs, rhs)})


def _genuine(*theorems):
    must(all(type(t) is Proved for t in theorems), "not a theorem: {}", theorems)
