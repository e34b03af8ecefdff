"""How the conditions and hypotheses on which a theorem rests are printed.

The kernel lists the conditions of a theorem.  An operation offers words for some ("no row of A sums
to zero"); any other condition is printed in index form.
"""

import itertools
from dataclasses import dataclass
from functools import lru_cache

from sympy import S

from .. import kernel as k
from ..kernel import EXISTS, SMOOTH, ProofError, Term
from ..printing import Text, show_condition
from ..language import DERIVATIVE, OVER, SCALED, SUM_OF, NonZero, Substitution, kernel_letter


@dataclass(frozen=True)
class Condition:
    """A condition of the kernel for which no operation offers words."""

    relation: str
    about: Term

    def sides(self):
        """No expressions, because the condition is a term of the kernel."""
        return []

    def met_in(self, sample):
        """Whether the condition holds in a sample, by a margin."""
        if self.relation in (SMOOTH, EXISTS):
            return True  # the functions of a sample are smooth, and its draws take two values
        size = lambda p: range(1, sample.value(p.args[0]) + 1)
        try:
            entry = sample.value(self.about)
            ranges = [size(p) if p.op == "POS" else (0.0, 0.7) for p in self.about.args[1:]]
            values = [entry(*at) for at in itertools.product(*ranges)]
        except KeyError:  # the line lacks a letter of the condition
            return True
        return all(v >= 0 if self.relation == "≥ 0" else abs(v) > 1e-3 for v in values)

    def show(self, style, names=None):
        """The condition in index form."""
        return show_condition(style, self.relation, self.about)

    def substituted(self, substitution):
        """The condition itself, because the kernel's instance already contains the substitution."""
        return self


def in_words(conditions, offered):
    """The kernel's conditions as printed: as offered phrases where these fit, else unchanged."""
    left, chosen = set(conditions), []
    known = {phrase: says(phrase) for phrase in set(offered)}
    for phrase in sorted(known, key=lambda h: (-len(known[h]), *_by_print(h))):
        said = known[phrase]
        if said <= conditions and said & left:
            chosen.append(phrase)
            left -= said
    return sorted([*chosen, *[Condition(*c) for c in left]], key=_by_print)


def _by_print(hypothesis):
    """A sort key that puts short conditions first."""
    shown = hypothesis.show(Text())
    return len(shown), shown


@lru_cache(maxsize=None)
def says(hypothesis):
    """The kernel's conditions that a printed hypothesis expresses; none if they never hold."""
    if isinstance(hypothesis, Condition):
        return frozenset({(hypothesis.relation, hypothesis.about)})
    try:
        return _said(hypothesis) if isinstance(hypothesis, NonZero) else frozenset()
    except ProofError:
        return frozenset()


def never_holds(phrase):
    """Whether the condition in a phrase can never hold."""
    try:
        _said(phrase)
    except ProofError as error:
        return str(error.args[0]).endswith(("never holds", "by zero"))
    return False


def _said(phrase):
    """The conditions that a phrase expresses, without any that say "is smooth" or "exists"."""
    body, marks = k.looked_into(phrase.expression.function)
    root = Term("sqrt", body) if phrase.positive else body
    divided = k.abstract(marks, Term("inv", root))
    bound = [*map(kernel_letter, phrase.bound)]
    theorem = k.by_normal_form(divided, divided)
    conditions = (k.for_every(theorem, bound) if bound else theorem).conditions
    return frozenset(c for c in conditions if c[0] not in (SMOOTH, EXISTS))


def offered_by(x, words):
    """The phrases that the operations of an expression offer, with ``words`` unfolded."""
    found = []
    if x.operation.word in words or x.operation.word is None:
        found += [h if isinstance(h, NonZero) else NonZero(h) for h in x.operation.needs(x)]
    if x.operation.word in words and x.operation.expand is not None:
        found += offered_by(x.operation.expand(x), words)
    for y in x.args:
        found += offered_by(y, words)
    if x.operation is OVER:
        return [h.quantified(x.params[0]) for h in found]
    if x.operation is DERIVATIVE:
        at_zero = Substitution({x.params[0]: S.Zero})
        return [NonZero(_without_zeros(at_zero(h.expression)), h.positive, h.bound) for h in found]
    return found


def _without_zeros(x):
    """The expression without terms that are multiplied by zero."""
    args = [_without_zeros(y) for y in x.args]
    if x.operation is SUM_OF:
        args = [y for y in args if y.operation is not SCALED or y.params[0] != 0] or args[:1]
        return args[0] if len(args) == 1 else x.rebuilt(args)
    return x.rebuilt(args) if args else x
