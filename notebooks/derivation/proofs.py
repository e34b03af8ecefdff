"""Derivations, theorems, and the refusal of a line that is not justified.

A derivation is a chain of equal expressions.  Each line names its reasons: laws, definitions,
theorems, hypotheses.  A line may use what it names and nothing else, and must need all of it.
Only ``qed`` makes a theorem.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import chain

import sympy as sp
from sympy.core.cache import clear_cache

from . import hypotheses, justify, matrices
from .alarm import NotRun, listen, torch_is_here
from .counterexamples import counterexample
from .display import latex_of, text_of
from .goals import left_to_show
from .hypotheses import in_words, offered_by
from .kernel import rules, sorts
from .kernel.terms import LAW, ProofError
from .letters import LAWS, Bijection, Family, Law
from .matrices import (
    CAUSAL,
    DERIVATIVE,
    EXPECTATION,
    IDENTITY,
    OVER,
    Expression,
    NonZero,
    _shape,
    join,
)
from .notation import readable
from .printing import Latex, Text, brief_words, kept_back_in
from .substitution import Substitution
from .vocabulary import Word

SEARCH_AFTER_A_REFUSAL = 400  # instances: about a second


@dataclass(frozen=True)
class Definition:
    """The reason "by the definition of this word"."""

    word: Word

    def __str__(self):
        return f"definition of {self.word.name}"


def unfold(word):
    """The definition of a word, as a reason."""
    if not isinstance(word, Word):
        raise ProofError(f"unfold takes a word of the vocabulary, not {word!r}")
    return Definition(word)


@dataclass(frozen=True)
class Given:
    """An equation assumed; every theorem whose proof uses it prints it as a hypothesis."""

    lhs: Expression
    rhs: Expression
    title: str = "hypothesis"

    def __post_init__(self):
        _same_shape("a hypothesis", self.lhs, self.rhs)

    def show(self, style, names=None):
        """The equation in print."""
        return f"{self.lhs.show(style, 0, names)} = {self.rhs.show(style, 0, names)}"

    def substituted(self, substitution):
        """The equation for what a substitution puts for the letters."""
        return Given(substitution(self.lhs), substitution(self.rhs), self.title)

    def sides(self):
        """The expressions it speaks of."""
        return [self.lhs, self.rhs]

    def met_in(self, sample):
        """Whether it holds in a sample."""
        return (self.lhs.run(sample) - self.rhs.run(sample)).abs().max().item() < 1e-12

    @property
    def proved(self):
        """The kernel's theorem that it holds where it is assumed."""
        return justify.given(self.lhs, self.rhs)

    hypotheses = property(lambda self: (self,))
    random = ()


@dataclass(frozen=True)
class Reason:
    """How a checked reason prints, in LaTeX and in plain text."""

    latex: str
    text: str

    @classmethod
    def of(cls, reason):
        """The print of a law, a definition, a theorem or a hypothesis."""
        return cls(reason.latex if isinstance(reason, Law) else _title(reason), _title(reason))


def given(lhs, rhs):
    """The hypothesis that two expressions are equal, to be used as a reason."""
    return Given(lhs, rhs)


# ── Theorems ──────────────────────────────────────────────────────────────────────────────


class Theorem:
    """An equation proved for all sizes and all values of its letters; immutable.

    Attributes: ``name``, ``label`` ("Theorem 3.2" or ""), ``lhs``, ``rhs``, ``hypotheses``
    (what must not vanish, what is assumed), ``random`` (the letters whose moments were used),
    ``lines`` ((expression, reasons, note); the first has no reason) and ``proved``, the theorem
    of the kernel that it prints.  Call it with what its letters stand for to cite it:
    ``shift_invariance(S=tau * Q @ K.T, c=tau * Q @ b)``.
    """

    __slots__ = ("proved", "name", "label", "lhs", "rhs", "hypotheses", "random", "lines",
                 "proof", "not_run", "__weakref__")  # fmt: skip

    def __init__(self, proved, **parts):
        if type(proved) is not rules.Theorem:
            raise ProofError("a theorem is made by qed and by nothing else")
        for part, value in {"proved": proved, **parts}.items():
            object.__setattr__(self, part, value)
        _check_that_it_prints(self)

    def __setattr__(self, name, value=None):
        raise AttributeError(f"this {type(self).__name__.lower()} is immutable")

    __delattr__ = __setattr__

    def __copy__(self):
        return self

    @property
    def title(self):
        """The number and the name, or the name alone."""
        return f"{self.label} ({self.name})" if self.label else self.name

    def __call__(self, **meant):
        """An instance: each keyword says what a letter, permutation, scalar or size stands for."""
        put = Substitution.checked(self, meant)
        lhs, rhs = put(self.lhs), put(self.rhs)
        try:
            proved = justify.instance(self.proved, put, lhs, rhs)
        except rules.Differ:
            raise ProofError(f"{self.title} does not say this: its draws must keep apart") from None
        except ProofError as error:
            raise ProofError(f"{self.title}: {readable(error)}") from None
        needed = [h for value in put.values() for h in offered_by(value, ())]
        offered = [h.substituted(put) for h in self.hypotheses]
        hypotheses = _hypotheses(proved, [*offered, *needed])
        return _cited(proved, self.title, lhs, rhs, hypotheses, tuple(map(put.family, self.random)))

    @property
    def assumptions(self):
        """What is assumed of random letters, in a sentence; empty when nothing is."""
        return _independence(self.random)

    def _repr_latex_(self):
        return latex_of(self)

    def __repr__(self):
        return text_of(self)


class Instance(Theorem):
    """A theorem with something put for its letters; a reason in a line."""

    __slots__ = ()
    title = property(lambda self: self.name)

    def reversed(self):
        """The same equation read from right to left."""
        return _cited(
            rules.reverse(self.proved), self.name, self.rhs, self.lhs, self.hypotheses, self.random
        )


def _cited(proved, name, lhs, rhs, hypotheses, random):
    lines = (lhs, (), ""), (rhs, (Reason(name, name),), "")
    return Instance(
        proved, name=name, label="", lhs=lhs, rhs=rhs, hypotheses=hypotheses, random=random,
        lines=lines, proof=(), not_run=(),
    )  # fmt: skip


def _hypotheses(proved, offered):
    """What a theorem of the kernel rests on, in the words offered."""
    assumed = {(h.lhs.function, h.rhs.function): h for h in offered if isinstance(h, Given)}
    phrases = [h for h in offered if isinstance(h, NonZero)]
    equations = [assumed[pair] for pair in assumed if pair in proved.hypotheses]
    return (*in_words(proved.conditions, phrases), *equations)


def _conditions_of(hypothesis):
    """The conditions of the kernel that a hypothesis says in print."""
    if isinstance(hypothesis, hypotheses.Condition):
        return {(hypothesis.relation, hypothesis.about)}
    return hypotheses.says(hypothesis) or set() if isinstance(hypothesis, NonZero) else set()


def _check_that_it_prints(theorem):
    """Refuses a print that is not what the kernel has proved."""
    proved, printed = theorem.proved, {(theorem.lhs.function, theorem.rhs.function)}
    assumed = {(h.lhs.function, h.rhs.function) for h in theorem.hypotheses if isinstance(h, Given)}
    said = set().union(*[_conditions_of(h) for h in theorem.hypotheses])
    terms = [proved.lhs, proved.rhs, *[x for _, x in proved.conditions], *chain(*assumed)]
    laws = {x.args[0] for t in terms for x in t.letters if x.args[1] == LAW}
    if (
        {(proved.lhs, proved.rhs)} != printed
        or assumed != set(proved.hypotheses)
        or not proved.conditions <= said
        or not laws <= {f.name for f in theorem.random}
    ):
        raise ProofError(f"{theorem.title} would print otherwise than it was proved")


# ── Derivations ───────────────────────────────────────────────────────────────────────────


class Derivation:
    """A chain of equal expressions, checked line by line as it is written.

    >>> Derivation("shift invariance", softmax(S + c @ ones(n).T)).by(
    ...     softmax(S), unfold(softmax), EXP_OF_SUM).qed()

    Raises ProofError at the first line that is not justified.
    """

    def __init__(self, name, start):
        self._name = name
        _check_expression(name, start)
        _check_names(name, [start])
        _check_indices(name, [start])
        self._lines = ((start, (), ""),)
        self._proved, self._offered, self._random, self._local = None, [], [], ()
        self._not_run = []

    name = property(lambda self: self._name)
    lines = property(lambda self: self._lines, doc="The lines so far: (expression, reasons, note).")

    @property
    def hypotheses(self):
        """What the lines so far assume."""
        found = _hypotheses(self._proved, self._offered) if self._proved else ()
        return tuple(h for h in found if h not in self._local)

    @property
    def assumptions(self):
        """What the lines so far assume of random letters, in a sentence."""
        return _independence(tuple(dict.fromkeys(self._random)))

    def by(self, claim, *reasons, note=""):
        """The next expression in the chain, for the reasons given; none means plain algebra.

        A reason is a law, ``unfold(word)``, a theorem called with what its letters stand for,
        or a hypothesis made by ``given``.  ``note`` is printed beside the checked reason.
        The dots of Python, ``...``, stand for what is still to be written: a ProofError says so.
        """
        where = f"{self.name}, line {len(self.lines)}"
        if not isinstance(note, str) or re.search(r"[\\{}\n]", note):
            raise ProofError(f"{where}: a note is words in one row, without a backslash or a brace")
        before = self.lines[-1][0]
        _check_expression(where, claim)
        if before.shape != claim.shape:
            raise ProofError(f"{where}: shapes differ: {_shape(before)} = {_shape(claim)}")
        reasons = tuple(_checked_reason(where, r) for r in reasons)
        lines = [*[line for line, *_ in self.lines], claim]
        assumed = [h for r in reasons if isinstance(r, (Instance, Given)) for h in r.hypotheses]
        sides = [side for h in (*assumed, *self.hypotheses) for side in h.sides()]
        _check_names(where, [*lines, *_expressions(reasons), *sides])
        _check_indices(where, lines)
        step = _Step(where, before, claim, reasons)
        proved = step.check()
        _check_indices(where, [*lines, *step.stages])
        offered = step.offered()
        self._sound_the_alarm(where, before, claim, _hypotheses(proved, offered))
        try:
            self._proved = rules.chain(self._proved, proved) if self._proved else proved
        except ProofError as error:
            raise ProofError(f"{where}: {readable(error)}") from None
        self._offered += offered
        self._random += step.random()
        self._lines += ((claim, step.reason_text(), note),)
        return self

    def _sound_the_alarm(self, where, before, claim, hypotheses):
        if not torch_is_here():
            self._not_run.append("not run in torch, which is not installed")
            return
        try:
            complaint = listen(before, claim, hypotheses)
        except NotRun as reason:
            self._not_run.append(f"not run in torch: {reason}")
            return
        except Exception as error:
            complaint = f"the torch run failed ({type(error).__name__}: {error})"
        if complaint:
            raise ProofError(f"{where}: {complaint}, though the line passed the checker")

    def qed(self, label=""):
        """The theorem that the first expression equals the last; ``label`` is its number."""
        if len(self.lines) < 2:
            raise ProofError(f"{self.name}: a proof needs at least one line")
        if self._local:
            raise ProofError(f"{self.name}: a part of an induction is no theorem by itself")
        return _theorem(self.name, label, self.lines, self._proved, (self,))

    def _repr_latex_(self):
        return latex_of(self)

    def __repr__(self):
        return text_of(self)


def _theorem(name, label, lines, proved, proofs):
    """The theorem that the derivations ``proofs`` prove together."""
    return Theorem(
        proved, name=name, label=label, lhs=lines[0][0], rhs=lines[-1][0], lines=tuple(lines),
        hypotheses=_hypotheses(proved, [h for p in proofs for h in p._offered]),
        random=tuple(dict.fromkeys(f for p in proofs for f in p._random)),
        proof=tuple(proofs), not_run=tuple(dict.fromkeys(r for p in proofs for r in p._not_run)),
    )  # fmt: skip


class _Step:
    """One line: from an expression to the next, for reasons."""

    def __init__(self, where, before, claim, reasons):
        self.where, self.before, self.claim, self.reasons = where, before, claim, reasons

    def check(self):
        """The kernel's theorem of the line; raises unless the reasons justify it, each needed."""
        proved = self._justified(self.reasons)
        if proved is None:
            raise ProofError(self._refusal())
        for k, reason in enumerate(self.reasons):
            if self._would_do(self.reasons[:k] + self.reasons[k + 1 :]):
                raise ProofError(f"{self.where}: {_title(reason)} is not needed; leave it out")
        return proved

    def _would_do(self, reasons):
        try:
            return self._justified(reasons)
        except ProofError:
            return None

    def _justified(self, reasons):
        equations = [(r.lhs, r.rhs, r.proved) for r in reasons if isinstance(r, (Instance, Given))]
        laws = [r for r in reasons if isinstance(r, Law)]
        stages = [self.before]
        if reasons is self.reasons:
            self.stages = stages
        try:
            proved = justify.line(stages, self.claim, equations, self._words(reasons), laws)
        except rules.Differ:
            return None
        except RecursionError:
            raise ProofError(f"{self.where}: the step is too large: split it") from None
        except ProofError as error:
            raise ProofError(f"{self.where}: {self._in_words(error)}") from None
        return proved

    def _in_words(self, error):
        """What the kernel complains of; what never holds, in the words of an operation."""
        phrases = [h for h in self.offered() if isinstance(h, NonZero)]
        never = next(filter(hypotheses.never_holds, phrases), None)
        return (
            f"it needs that {never.show(Text())}, which never holds" if never else readable(error)
        )

    @staticmethod
    def _words(reasons):
        return [r.word for r in reasons if isinstance(r, Definition)]

    def offered(self):
        """Words for what must not vanish for the line to make sense, and what it assumes."""
        words = self._words(self.reasons)
        carried = [
            h for r in self.reasons if isinstance(r, (Instance, Given)) for h in r.hypotheses
        ]
        bound = {x.params[0] for s in self.stages for x in s.walk() if x.operation is OVER}
        for h in [h for h in carried if isinstance(h, NonZero)]:
            for index in sorted(bound, key=str):
                h = h.quantified(index)
            carried.append(h)
        shown = [*self.stages, self.claim, *[side for h in carried for side in h.sides()]]
        return [h for x in shown for h in offered_by(x, words)] + carried

    def random(self):
        """The random letters of the line, and those of what it cites."""
        found = [f for r in self.reasons if isinstance(r, (Instance, Given)) for f in r.random]
        sides = [x for r in self.reasons if isinstance(r, Given) for x in r.sides()]
        families = set().union(*[x.atoms(Family) for x in (*self.stages, self.claim, *sides)])
        return found + sorted((f for f in families if f.random), key=lambda f: f.name)

    def reason_text(self):
        return tuple(dict.fromkeys(map(Reason.of, self.reasons))) or (Reason("algebra", "algebra"),)

    def _refusal(self):
        style = Text(brief_words([self.before, self.claim]))
        claim = f"{self.before.show(style)} = {self.claim.show(style)}"
        reasons = ", ".join(map(_title, self.reasons)) or "algebra alone"
        laws = [r for r in self.reasons if isinstance(r, Law)]
        words = self._words(self.reasons)
        false = self._searched()
        rows = [
            f"{self.where} is not justified.",
            f"Claimed: {claim}",
            *kept_back_in(style),
            f"Reasons given: {reasons}.",
            left_to_show(self.stages[-1], self.claim, words, laws, "is false" in false),
            false,
        ]
        return "\n  ".join(row for row in rows if row)

    def _searched(self):
        """Whether the line is false, as far as a search can tell."""
        if any(r.hypotheses for r in self.reasons if isinstance(r, (Instance, Given))):
            return "A counterexample was not looked for: the line rests on hypotheses."
        try:
            found = counterexample(self.before, self.claim, SEARCH_AFTER_A_REFUSAL)
        except Exception:  # a claim that the search cannot read is refused all the same
            return "A counterexample could not be looked for."
        return f"It is false: {found!r}." if found else f"{found!r}"


def _title(reason):
    if isinstance(reason, Law):
        return reason.name
    return str(reason) if isinstance(reason, Definition) else reason.title


def _checked_reason(where, reason):
    _check_written(where, "a reason", reason)
    if type(reason) is Theorem:
        reason = reason()
    if isinstance(reason, Instance):
        _check_that_it_prints(reason)
    if isinstance(reason, Law) and reason not in LAWS:
        raise ProofError(f"{where}: {reason.name!r} is no law of this checker")
    if isinstance(reason, Word):
        raise ProofError(f"{where}: write unfold({reason.name}) to use its definition")
    if not isinstance(reason, (Law, Definition, Instance, Given)):
        raise ProofError(
            f"{where}: {reason!r} is no reason: name a law, unfold(word), a theorem or a given"
        )
    return reason


def _expressions(reasons):
    return [x for r in reasons if isinstance(r, (Instance, Given)) for x in (r.lhs, r.rhs)]


def _independence(families):
    """The sentence that says what the moments of random letters rest on."""
    if not families:
        return ()
    names, of = ", ".join(f.name for f in families), {}
    for f in families:
        of.setdefault(sp.sstr(f.variance), []).append(f.name)
    told = [f"{v} ({', '.join(found)})" if len(of) > 1 else v for v, found in of.items()]
    return (f"the entries of {names} are independent, of mean 0 and of variance {', '.join(told)}",)


def _check_expression(where, x):
    _check_written(where, "the expression", x)
    if not isinstance(x, Expression):
        raise ProofError(f"{where}: an expression of the book is wanted, not {x!r}")


def _check_written(where, what, x):
    if x is ...:
        raise ProofError(f"{where}: {what} is still to be written, in place of ...")


def _same_shape(where, a, b):
    _check_expression(where, a)
    _check_expression(where, b)
    if a.shape != b.shape:
        raise ProofError(f"{where}: shapes differ: {_shape(a)} = {_shape(b)}")


def _look(name):
    """What a name looks like on a page, wherever its subscripts are cut."""
    return re.sub(r"[{}\s]", "", Latex().name(name))


def _check_names(where, expressions):
    """One name, one meaning: no two shapes or kinds, no two definitions."""
    meaning = {}
    for x in expressions:
        bound = {y.params[0] for y in x.walk() if y.operation is DERIVATIVE}
        for basic in x.atoms(Family) | x.atoms(Bijection) | x.free_scalars() | bound:
            if meaning.setdefault(_look(basic.name), basic) != basic:
                raise ProofError(
                    f"{where}: the name {basic.name} is used with two shapes or kinds, "
                    "or prints like another"
                )
        for index in x.index_names():
            if meaning.setdefault(_look(index.name), index) != index:
                raise ProofError(
                    f"{where}: the name {index.name} of an index is used for something else as well"
                )
        for operation in {y.operation for y in x.walk()}:
            if (
                operation.word
                and meaning.setdefault((operation.name,), operation.word) is not operation.word
            ):
                raise ProofError(f"{where}: the word {operation.name} is used with two definitions")
            reserved = {CAUSAL: "L", IDENTITY: "I", EXPECTATION: "E"}.get(operation)
            if reserved is not None and meaning.setdefault(reserved, operation) is not operation:
                raise ProofError(
                    f"{where}: the letter {reserved} prints like the book's own {operation.name}"
                )


def _check_indices(where, expressions):
    """No index and no scalar is both free and bound."""
    bound = {
        y.params[0] for x in expressions for y in x.walk() if y.operation in (OVER, DERIVATIVE)
    }
    free = set().union(*[x.free_positions() | x.free_scalars() for x in expressions])
    if bound & free:
        raise ProofError(f"{where}: {next(iter(bound & free)).name} is used free and bound")


class Induction:
    """A proof for every natural number t: at 1, and at t + 1 if at t.

    >>> Induction("the running sum", t, total(t), closed(t)).base(
    ...     lambda line: line.by(...)).step(
    ...     lambda line, hypothesis: line.by(..., hypothesis)).qed()

    The base starts from the left side at t = 1 and must end with the right side there; the
    step likewise at t + 1, where the claim at t is a reason.
    """

    def __init__(self, name, t, lhs, rhs):
        if not (isinstance(t, sp.Symbol) and t.is_integer and t.is_positive):
            raise ProofError(f"{name}: induction runs over a size symbol, not {t}")
        _same_shape(name, lhs, rhs)
        self._name, self._t, self._lhs, self._rhs = name, t, lhs, rhs
        self._parts = {}

    def base(self, write):
        """Proves the claim at 1; ``write`` gets the derivation to continue."""
        at_one = Substitution(symbols={self._t: sp.S.One})
        self._parts["base"] = self._part("base", at_one, write)
        return self

    def step(self, write):
        """Proves the claim at t + 1; ``write`` gets the derivation and the claim at t."""
        hypothesis = Given(self._lhs, self._rhs, "induction hypothesis")
        after = Substitution(symbols={self._t: join(self._t, 1)})
        self._parts["step"] = self._part("step", after, write, hypothesis)
        return self

    def _part(self, part, at, write, *hypothesis):
        start, goal = at(self._lhs), at(self._rhs)
        derivation = Derivation(f"{self._name}, {part}", start)
        derivation._local = hypothesis
        written = write(derivation, *hypothesis)
        if written is not derivation or derivation.lines[-1][0] != goal:
            last = derivation.lines[-1][0].show(Text())
            raise ProofError(
                f"{self._name}, {part}: ends with {last}, not with {goal.show(Text())}"
            )
        return derivation

    def qed(self, label=""):
        """The theorem for every t, once base and step are proved."""
        if set(self._parts) != {"base", "step"}:
            raise ProofError(f"{self._name}: an induction needs a base and a step")
        base, step = self._parts["base"], self._parts["step"]
        lines = (
            (self._lhs, (), ""),
            (self._rhs, (Reason(f"induction on ${self._t}$", f"induction on {self._t}"),), ""),
        )
        try:
            proved = justify.induction(self._t, self._lhs, self._rhs, base._proved, step._proved)
        except ProofError as error:
            raise ProofError(f"{self._name}: {readable(error)}") from None
        return _theorem(self._name, label, lines, proved, (base, step))


class Refusal:
    """What the checker says to a line that is not justified."""

    def __init__(self, message):
        self.message = message

    def __repr__(self):
        return self.message


def refusal(write):
    """The checker's refusal of what ``write()`` derives; AssertionError should it be accepted."""
    try:
        write()
    except ProofError as error:
        return Refusal(str(error))
    raise AssertionError("the checker accepted what it should refuse")


def attempt(write):
    """What the checker says to a proof that somebody is writing: what it returns, or a refusal.

    >>> attempt(lambda: Derivation("twice", S + S).by(...).qed())
    twice, line 1: the expression is still to be written, in place of ...
    """
    try:
        return write()
    except ProofError as error:
        return Refusal(str(error))
    except (TypeError, ValueError, AttributeError, LookupError) as error:  # no line of a proof yet
        return Refusal(f"this is no proof that can be read: {error}")


def proves(theorem, lhs, rhs, needs=()):
    """Whether ``theorem`` was proved by this checker and says that lhs = rhs.

    Each side may be written otherwise, as long as plain algebra shows it to be equal.  ``needs``
    are the hypotheses that it may have, each in plain text as the theorem prints it.
    """
    return (
        isinstance(theorem, Theorem)
        and {h.show(Text()) for h in theorem.hypotheses} <= set(needs)
        and not theorem.random
        and _says_no_more(theorem, theorem.lhs, lhs)
        and _says_no_more(theorem, theorem.rhs, rhs)
    )


def _says_no_more(theorem, mine, asked):
    """Whether algebra shows two sides to be equal, under no other conditions than the theorem's."""
    if mine.shape != asked.shape:
        return False
    try:
        found = rules.by_normal_form(mine.function, asked.function)
    except ProofError:
        return False
    return found.conditions <= theorem.proved.conditions


def forget():
    """What was worked out before is worked out anew: for who measures times, or plants mistakes."""
    worked_out = (justify.same, hypotheses.says, matrices._function, matrices._operations)
    for remembered in (*worked_out, rules._condition):
        remembered.cache_clear()
    sorts._words.clear()
    clear_cache()
