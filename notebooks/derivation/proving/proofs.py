"""Derivations, inductions, and the refusal of unjustified lines.

A derivation is a chain of equal expressions.  Each line names its reasons: laws, definitions,
theorems, hypotheses.  A line may use only the reasons that it names, and must need all of them.
Only ``qed`` makes a theorem.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import sympy as sp
from sympy.core.cache import clear_cache

from .. import kernel
from ..kernel import NUM, SIZE, ProofError, must
from ..printing import Latex, Text, check_words, readable, words_in
from ..language import (Bijection, Expression, Family, NotRun, Substitution, Word, check_indices,
                        check_names, join, kernels_letters, operations_in, written, free_names)  # fmt: skip
from ..refuting import run_in_torch, torch_is_here
from . import proof_search
from .display import latex_of, text_of
from .reasons import (INDUCTION, Definition, Given, Reason, check_expression, check_label,
                      check_shapes, checked_title)  # fmt: skip
from .steps import Step, checked_reason
from .theorems import Instance, Theorem, equations_among, printed_hypotheses


class Derivation:
    """A chain of equal expressions, checked line by line as it is written.

    >>> Derivation("shift invariance", softmax(S + c @ ones(n).T)).by(
    ...     softmax(S), unfold(softmax), EXP_OF_SUM).qed()

    Raises ProofError at the first line that is not justified.
    """

    def __init__(self, name: str, start: Expression):
        self._name = name = checked_title("the name of a proof", name)
        check_expression(name, start)
        check_names(name, [start])
        check_indices(name, [start])
        self._lines: tuple = ((start, (), ""),)
        self._proved, self._local = None, ()
        self._offered, self._random, self._not_run = [], [], []

    not_run = ()  # a theorem says which of its lines were not run in torch
    name = title = property(lambda self: self._name)
    lines = property(lambda self: self._lines, doc="The lines so far: (expression, reasons, note).")

    @property
    def hypotheses(self):
        """The assumptions of the lines so far."""
        found = printed_hypotheses(self._proved, self._offered) if self._proved else ()
        return tuple(h for h in found if h not in self._local)

    @property
    def random(self):
        """The random letters of the lines so far."""
        return tuple(dict.fromkeys(self._random))

    def by(self, claim: Expression, *reasons, note: str = "") -> Derivation:
        """Append the next expression of the chain, with its reasons; no reason means plain algebra.

        A reason is a law, ``unfold(word)``, a theorem called with the objects that replace its
        letters, or a hypothesis made by ``given``.  ``note`` is printed beside the checked reason.
        Python's ``...`` marks a part that is still to be written; a ProofError says so.
        """
        where, before = f"{self.name}, line {len(self.lines)}", self.lines[-1][0]
        check_words(f"{where}: a note", note)
        check_shapes(where, before, claim)
        reasons = tuple(checked_reason(where, r) for r in reasons)
        lines = [*[line for line, *_ in self.lines], claim]
        cited = equations_among(reasons)
        sides = [x for r in cited for x in (r.lhs, r.rhs)]
        assumed = [h for r in cited for h in r.hypotheses]
        words = [r.word for r in reasons if isinstance(r, Definition)]
        check_names(where, [*lines, *sides], (*assumed, *self.hypotheses), words)
        check_indices(where, lines)
        step = Step(where, before, claim, reasons, self.hypotheses)
        proved, offered = step.check(), step.offered()
        check_indices(where, [*lines, *step.stages])
        needed = printed_hypotheses(proved, offered)
        check_names(where, lines, needed, words)
        self._run_in_torch(where, before, claim, needed)
        try:
            self._proved = kernel.chain(self._proved, proved) if self._proved else proved
        except ProofError as error:
            raise ProofError(f"{where}: {readable(error)}") from None
        self._offered += offered
        self._random += step.random()
        told = tuple(dict.fromkeys(map(Reason.of, reasons))) or (Reason("algebra", "algebra"),)
        self._lines += ((claim, told, note),)
        return self

    def _run_in_torch(self, where, before, claim, hypotheses):
        if not torch_is_here():
            self._not_run.append("not run in torch, which is not installed")
            return
        complaint = None
        try:
            complaint = run_in_torch(before, claim, hypotheses)
        except NotRun as reason:
            self._not_run.append(f"not run in torch: {reason}")
        except Exception as error:
            complaint = f"the torch run failed ({type(error).__name__}: {error!s:.200})"
        must(not complaint, "{}: {}, though the line passed the checker", where, complaint)

    def qed(self, label: str = "") -> Theorem:
        """The theorem that the first expression equals the last; ``label`` becomes its number."""
        must(len(self.lines) > 1, "{}: a proof needs at least one line", self.name)
        must(not self._local, "{}: a part of an induction is not a theorem by itself", self.name)
        return _theorem(self.name, label, self.lines, self._proved, (self,))

    _repr_latex_ = lambda self: latex_of(self)

    def __repr__(self):
        return text_of(self)


def _theorem(name, label, lines, proved, proofs):
    """The theorem that the derivations ``proofs`` prove together."""
    check_label(label)
    hypotheses = printed_hypotheses(proved, [h for p in proofs for h in p._offered])
    check_names(name, [x for p in proofs for x, *_ in p.lines], hypotheses)
    together = lambda part: tuple(dict.fromkeys(x for p in proofs for x in getattr(p, part)))
    return Theorem._made(
        proved, name=name, label=label, lhs=lines[0][0], rhs=lines[-1][0], lines=tuple(lines),
        hypotheses=hypotheses, random=together("_random"),
        proof=tuple(proofs), not_run=together("_not_run"),
    )  # fmt: skip


class Induction:
    """A proof of a claim for every natural number t: at 1, and at t + 1 if it holds at t.

    >>> Induction("the running sum", t, total(t), closed(t)).base(
    ...     lambda line: line.by(...)).step(
    ...     lambda line, hypothesis: line.by(..., hypothesis)).qed()

    The base starts from the left side at t = 1 and must end with the right side at 1.  The step
    does the same at t + 1, and may give the claim at t as a reason.
    """

    def __init__(self, name: str, t: sp.Symbol, lhs: Expression, rhs: Expression):
        name = checked_title("the name of a proof", name)
        size = isinstance(t, sp.Symbol) and t.is_integer and t.is_positive
        must(size, "{}: induction runs over a size symbol, not {}", name, t)
        check_shapes(name, lhs, rhs)
        self._name, self._t, self._lhs, self._rhs = name, t, lhs, rhs
        self._parts: dict[str, Derivation] = {}

    def base(self, write: Callable) -> Induction:
        """Prove the claim at 1; ``write`` receives the derivation to continue."""
        return self._part("base", sp.S.One, write)

    def step(self, write: Callable) -> Induction:
        """Prove the claim at t + 1; ``write`` receives the derivation and the claim at t."""
        return self._part("step", join(self._t, 1), write, Given(self._lhs, self._rhs, INDUCTION))

    def _part(self, part, value, write, *hypothesis):
        start, goal = map(Substitution({self._t: value}), (self._lhs, self._rhs))
        where = f"{self._name}, {part}"
        derivation = Derivation(where, start)
        derivation._local = hypothesis
        line = written(where, write, derivation, *hypothesis)
        last = derivation.lines[-1][0]
        must(line is not None, "{}: the function returned nothing: return the line", where)
        must(len(derivation.lines) > 1, "{}: a proof needs at least one line", where)
        ends = line is derivation and proof_search.same(last, goal)
        must(ends, "{}: ends with {!r}, not with {!r}", where, last, goal)
        self._parts[part] = derivation
        return self

    def qed(self, label: str = "") -> Theorem:
        """The theorem for every t, once base and step are proved."""
        both = set(self._parts) == {"base", "step"}
        must(both, "{}: an induction needs a base and a step", self._name)
        base, step, t = self._parts["base"], self._parts["step"], self._t.name
        by = Reason(f"induction on ${Latex().name(t)}$", f"induction on {Text().name(t)}")
        lines = (self._lhs, (), ""), (self._rhs, (by,), "")
        parts = base._proved, step._proved
        try:
            proved = proof_search.induction(self._t, self._lhs, self._rhs, *parts)
        except ProofError as error:
            raise ProofError(f"{self._name}: {readable(error)}") from None
        return _theorem(self._name, label, lines, proved, (base, step))


@dataclass(frozen=True)
class Refusal:
    """The checker's answer to an unjustified line."""

    message: str

    def __repr__(self):
        return self.message


def refusal(write: Callable) -> Refusal:
    """The checker's refusal of what ``write()`` derives; raises AssertionError if there is none."""
    if not callable(write):
        raise TypeError(f"refusal takes a function, as in refusal(lambda: ...), not {write!r}")
    try:
        write()
    except ProofError as error:
        return Refusal(str(error))
    raise AssertionError("the checker accepted what it should refuse")


def attempt(write: Callable) -> object:
    """The checker's answer to an unfinished proof: what ``write()`` returns, or a refusal.

    >>> attempt(lambda: Derivation("twice", S + S).by(...).qed())
    twice, line 1: the expression is still to be written, in place of ...
    """
    try:
        return write()
    except ProofError as error:
        return Refusal(str(error))
    except Exception as error:  # an unfinished proof may be any Python code
        return Refusal(f"this is not a proof that can be read: {error}")


def proves(theorem: Theorem, lhs: Expression, rhs: Expression, needs: Iterable[str] = ()) -> bool:
    """Whether this checker proved ``theorem``, and the theorem states lhs = rhs.

    A side may be written differently from the theorem's if plain algebra shows both to be equal.
    ``needs`` are the hypotheses that the theorem may have, about letters of these sides, in plain
    text as the theorem prints them.  Raises ProofError if a side is not an expression.
    """
    for side in (lhs, rhs):
        check_expression("proves", side)
    needs = (needs,) if isinstance(needs, str) else needs or ()
    fits = isinstance(needs, (tuple, list, set)) and all(isinstance(x, str) for x in needs)
    must(fits, "proves: hypotheses are given in plain text, as a theorem prints them")
    return (
        type(theorem) in (Theorem, Instance)
        and {h.show(Text()) for h in theorem.hypotheses} <= set(needs)
        and not theorem.random
        and _needs_are_about(theorem, [lhs, rhs])
        and _says_no_more(theorem, theorem.lhs, lhs)
        and _says_no_more(theorem, theorem.rhs, rhs)
    )


def _needs_are_about(theorem, sides):
    """Whether the hypotheses contain only letters and words of the sides.

    A text in ``needs`` does not show a letter's shape or kind, so another letter could be meant.
    """
    kinds = Family, Bijection, sp.Symbol
    letters = lambda xs: set().union(*[x.free(kind) for x in xs for kind in kinds])
    used = lambda xs: {o for x in xs for y in x.walk() for o in operations_in(y)}
    words = lambda xs: {o for o in used(xs) if type(o.word) not in _BOOKS}
    assumed = [x for h in theorem.hypotheses for x in h.sides()]
    in_index_form = [h.about for h in theorem.hypotheses if not h.sides()]
    known = words(assumed) <= words(sides) and letters(assumed) <= letters(sides)
    return known and all(_condition_is_about(about, sides) for about in in_index_form)


def _condition_is_about(about, sides):
    """Whether a condition in index form contains only letters and words of the sides."""
    known = set().union(*map(kernels_letters, sides))
    words = {t for x in sides for o in x.operations() if o.word for t in o.word.terms}
    plain = lambda x: x.args[1] in (SIZE, NUM) or x.args[1].args[:1] == ("any",)
    return all(map(plain, about.letters - known)) and words_in(about) <= words


_BOOKS = (type(None), Word)  # types of ``word``: None for no word, Word for the book's own


def _says_no_more(theorem, mine, asked):
    """Whether algebra shows that two sides are equal, under the theorem's conditions only."""
    if mine.axes != asked.axes:
        return False
    try:
        found = kernel.by_normal_form(mine.function, asked.function)
    except ProofError:
        return False
    return found.conditions <= theorem.proved.conditions


def forget():
    """Clear all caches, before a time is measured or a planted mistake is tested."""
    package = __name__.partition(".")[0] + "."
    for module in [module for name, module in sys.modules.items() if name.startswith(package)]:
        for remembered in vars(module).values():
            if isinstance(remembered, type(free_names)):
                remembered.cache_clear()
    clear_cache()
