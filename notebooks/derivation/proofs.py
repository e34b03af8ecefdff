"""Derivations, theorems, and the refusal of a line that is not justified.

A derivation is a chain of equal expressions.  Each line names its reasons: laws, definitions,
theorems, hypotheses.  A line may use what it names and nothing else, and must need all of it.
Only ``qed`` makes a theorem.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import sympy as sp

from . import sums
from .alarm import listen, torch_is_here
from .counterexamples import counterexample
from .display import latex_of, text_of
from .matrices import (
    CAUSAL,
    DERIVATIVE,
    EXPECTATION,
    IDENTITY,
    OVER,
    PRODUCT_OF,
    SCALED,
    SUM_OF,
    Expression,
    NonZero,
    _shape,
    free_names,
    generic_positions,
    join,
    product,
)
from .printing import Latex, Text
from .substitution import Substitution
from .sums import SECOND_MOMENTS, SPLIT, Law, Normaliser, ProofError, equal
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

    hypotheses = property(lambda self: (self,))
    random, averages = (), False


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

_GENUINE = weakref.WeakSet()
_BY_QED = object()


class Theorem:
    """An equation proved for all sizes and all values of its letters; immutable.

    Attributes: ``name``, ``label`` ("Theorem 3.2" or ""), ``lhs``, ``rhs``, ``hypotheses``
    (what must not vanish, what is assumed), ``random`` (the letters whose moments were used),
    ``averages`` (whether a mean was worked out: then no fixed letter may stand for a draw) and
    ``lines`` ((expression, reasons, note); the first has no reason).  Call it with what its
    letters stand for to cite it: ``shift_invariance(S=tau * Q @ K.T, c=tau * Q @ b)``.
    """

    def __init__(self, token, **parts):
        if token is not _BY_QED:
            raise ProofError("a theorem is made by qed and by nothing else")
        for name, value in parts.items():
            object.__setattr__(self, name, value)
        _GENUINE.add(self)

    def __setattr__(self, name, value):
        raise AttributeError("a theorem is immutable")

    def __delattr__(self, name):
        raise AttributeError("a theorem is immutable")

    @property
    def title(self):
        """The number and the name, or the name alone."""
        return f"{self.label} ({self.name})" if self.label else self.name

    def __call__(self, **meant):
        """An instance: each keyword says what a letter, permutation, scalar or size stands for."""
        if self not in _GENUINE:
            raise ProofError(f"{self.name} was not proved by this checker")
        put = Substitution.checked(self, meant)
        needed = [h for value in put.values() for h in _needs(value, frozenset())]
        return Instance(
            _BY_QED, title=self.title, lhs=put(self.lhs), rhs=put(self.rhs),
            hypotheses=(*[h.substituted(put) for h in self.hypotheses], *needed),
            random=tuple(map(put.family, self.random)), averages=self.averages,
        )  # fmt: skip

    @property
    def assumptions(self):
        """What is assumed of random letters, in a sentence; empty when nothing is."""
        return _independence(self.random)

    def _repr_latex_(self):
        return latex_of(self)

    def __repr__(self):
        return text_of(self)


class Instance:
    """A theorem with something put for its letters; a reason in a line."""

    def __init__(self, token, **parts):
        if token is not _BY_QED:
            raise ProofError("an instance is made by calling a theorem")
        for name, value in parts.items():
            object.__setattr__(self, name, value)
        _GENUINE.add(self)

    def __setattr__(self, name, value):
        raise AttributeError("an instance is immutable")

    def reversed(self):
        """The same equation read from right to left."""
        return Instance(
            _BY_QED, title=self.title, lhs=self.rhs, rhs=self.lhs, hypotheses=self.hypotheses,
            random=self.random, averages=self.averages,
        )  # fmt: skip


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
        self._hypotheses, self._random, self._averages = [], [], False
        self._local = ()

    name = property(lambda self: self._name)
    lines = property(lambda self: self._lines, doc="The lines so far: (expression, reasons, note).")

    @property
    def hypotheses(self):
        """What the lines so far assume."""
        return _without_repetition(self._hypotheses)

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
        before = self.lines[-1][0]
        _check_expression(where, claim)
        if before.shape != claim.shape:
            raise ProofError(f"{where}: shapes differ: {_shape(before)} = {_shape(claim)}")
        reasons = tuple(_checked_reason(where, r) for r in reasons)
        lines = [*[line for line, *_ in self.lines], claim]
        assumed = [h for r in reasons if isinstance(r, (Instance, Given)) for h in r.hypotheses]
        sides = [side for h in (*assumed, *self._hypotheses) for side in h.sides()]
        _check_names(where, [*lines, *_expressions(reasons), *sides])
        _check_indices(where, lines)
        step = _Step(where, before, claim, reasons)
        step.check()
        _check_indices(where, [*lines, *step.stages()])
        hypotheses = step.hypotheses()
        self._sound_the_alarm(where, before, claim, hypotheses)
        self._hypotheses += [h for h in hypotheses if h not in self._local]
        self._random += step.random()
        self._averages |= step.averages()
        self._lines += ((claim, step.reason_text(), note),)
        return self

    def _sound_the_alarm(self, where, before, claim, hypotheses):
        if not torch_is_here():
            return
        conditions = [h for h in hypotheses if isinstance(h, NonZero)]
        equations = [(h.lhs, h.rhs) for h in hypotheses if isinstance(h, Given)]
        try:
            complaint = listen(before, claim, conditions, equations)
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
        return _theorem(self.name, label, self.lines, (self,))

    def _repr_latex_(self):
        return latex_of(self)

    def __repr__(self):
        return text_of(self)


def _theorem(name, label, lines, proofs):
    """The theorem that the derivations ``proofs`` prove together."""
    return Theorem(
        _BY_QED, name=name, label=label, lhs=lines[0][0], rhs=lines[-1][0], lines=tuple(lines),
        hypotheses=_without_repetition([h for p in proofs for h in p._hypotheses]),
        random=tuple(dict.fromkeys(f for p in proofs for f in p._random)),
        averages=any(p._averages for p in proofs), proof=tuple(proofs), ran_in_torch=torch_is_here(),
    )  # fmt: skip


class _Step:
    """One line: from an expression to the next, for reasons."""

    def __init__(self, where, before, claim, reasons):
        self.where, self.before, self.claim, self.reasons = where, before, claim, reasons

    def check(self):
        """Raises unless the reasons justify the line and each of them is needed."""
        if not self._justified(self.reasons):
            raise ProofError(self._refusal())
        for k, reason in enumerate(self.reasons):
            if self._would_do(self.reasons[:k] + self.reasons[k + 1 :]):
                raise ProofError(f"{self.where}: {_title(reason)} is not needed; leave it out")

    def _would_do(self, reasons):
        try:
            return self._justified(reasons)
        except ProofError:
            return False

    def _justified(self, reasons):
        laws = frozenset(r for r in reasons if isinstance(r, Law))
        words = self._words(reasons)
        try:
            return same(self.stages(reasons)[-1], self.claim, words, laws)
        except RecursionError:
            raise ProofError(f"{self.where}: the step is too large: split it") from None
        except ProofError as error:
            raise ProofError(f"{self.where}: {error}") from None

    def stages(self, reasons=None):
        """The expression before the line, and after each theorem cited has been put to use."""
        stages = [self.before]
        for equation in self.reasons if reasons is None else reasons:
            if isinstance(equation, (Instance, Given)):
                stages.append(rewritten(stages[-1], equation))
        return stages

    @staticmethod
    def _words(reasons):
        return frozenset().union(*[r.word.operations for r in reasons if isinstance(r, Definition)])

    def hypotheses(self):
        """What must not vanish for the line to make sense, and what it assumes."""
        words = self._words(self.reasons)
        carried = []
        for r in self.reasons:
            carried += self._carried(r) if isinstance(r, (Instance, Given)) else ()
        shown = [*self.stages(), self.claim, *[side for h in carried for side in h.sides()]]
        found = [h for x in shown for h in _needs(x, words)] + carried
        self._check_divisors(shown, found, words)
        return [h for h in found if not _holds(self.where, h)]

    def _carried(self, equation):
        """The hypotheses of a citation, for every value of an index that is bound in the line."""
        free = self.before.free_positions() | self.claim.free_positions()
        carried = []
        for h in equation.hypotheses:
            loose = set().union(*[side.free_positions() for side in h.sides()]) - free
            for index in sorted(loose - set(getattr(h, "bound", ())), key=str):
                if isinstance(h, Given):
                    raise ProofError(
                        f"{self.where}: {_title(equation)} assumes something about an index bound here"
                    )
                h = h.quantified(index)
            carried.append(h)
        return carried

    def _check_divisors(self, shown, declared, words):
        """Whatever the entries divide by must be among what the operations declare."""
        declared = [h for h in declared if isinstance(h, NonZero)]
        known = {(form, h.positive) for h in declared for form in h.closed_forms(words)}
        for x in shown:
            for i, j in generic_positions(x.shape):
                for divisor, must_be_positive in set(sums.divisors(x.entry(i, j, words))):
                    normalise = Normaliser()
                    divisor = normalise(divisor)
                    form = normalise.closed(divisor, {i, j})
                    if (
                        not sums.positive(divisor)
                        and not {(form, must_be_positive), (form, True)} & known
                    ):
                        raise ProofError(
                            f"{self.where}: divides by something not provably non-zero"
                        )

    def random(self):
        """The random letters whose moments the line uses."""
        found = [f for r in self.reasons if isinstance(r, (Instance, Given)) for f in r.random]
        if SECOND_MOMENTS in self.reasons:
            families = self.before.atoms(sums.Family) | self.claim.atoms(sums.Family)
            found += sorted((f for f in families if f.kind == "random"), key=lambda f: f.name)
        return found

    def averages(self):
        """Whether the line, or a theorem it cites, works out a mean."""
        return SECOND_MOMENTS in self.reasons or any(
            r.averages for r in self.reasons if isinstance(r, (Instance, Given))
        )

    def reason_text(self):
        return tuple(dict.fromkeys(map(Reason.of, self.reasons))) or (Reason("algebra", "algebra"),)

    def _refusal(self):
        reasons = ", ".join(map(_title, self.reasons)) or "algebra alone"
        claim = f"{self.before.show(Text())} = {self.claim.show(Text())}"
        found = ""
        if any(r.hypotheses for r in self.reasons if isinstance(r, (Instance, Given))):
            return (
                f"{self.where} is not justified.\n  Claimed: {claim}\n  Reasons given: {reasons}."
            )
        try:
            instance = counterexample(self.before, self.claim, SEARCH_AFTER_A_REFUSAL)
            found = f"\n  It is false: {instance!r}." if instance else ""
        except (
            Exception
        ):  # the search is a courtesy: a claim it cannot read is refused all the same
            pass
        return f"{self.where} is not justified.\n  Claimed: {claim}\n  Reasons given: {reasons}.{found}"


def _title(reason):
    if isinstance(reason, Law):
        return reason.name
    return str(reason) if isinstance(reason, Definition) else reason.title


def _checked_reason(where, reason):
    _check_written(where, "a reason", reason)
    if isinstance(reason, Theorem):
        reason = reason()
    if isinstance(reason, Instance) and reason not in _GENUINE:
        raise ProofError(f"{where}: {reason!r} was not proved by this checker")
    if isinstance(reason, Law) and reason not in sums.LAWS:
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
    names = ", ".join(f.name for f in families)
    return (
        f"the entries of {names} are independent, symmetric about 0 and of the variance stated",
    )


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


def _check_names(where, expressions):
    """One name, one meaning: no two shapes or kinds, no two definitions."""
    meaning = {}
    for x in expressions:
        for basic in x.atoms(sums.Family) | x.atoms(sums.Bijection) | x.free_scalars():
            if meaning.setdefault(Latex().name(basic.name), basic) != basic:
                raise ProofError(f"{where}: the name {basic.name} is used with two shapes or kinds")
        for index in x.index_names():
            name = Latex().name(index.args[0].name)
            if meaning.setdefault(name, index) != index:
                raise ProofError(
                    f"{where}: the name {name} of an index is used for something else as well"
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
        clash = next(iter(bound & free))
        raise ProofError(
            f"{where}: {getattr(clash, 'name', clash.args and clash.args[0])} is used free and bound"
        )


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
        for h in step._hypotheses:
            if self._t in set().union(*map(free_names, h.sides())):
                raise ProofError(
                    f"{self._name}: the step assumes {h.show(Text())}, which would be needed for every "
                    f"{self._t} before; assume something that does not speak of {self._t}"
                )
        return _theorem(self._name, label, lines, (base, step))


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


def proves(theorem, lhs, rhs, needs=()):
    """Whether ``theorem`` was proved by this checker and says that lhs = rhs.

    Each side may be written otherwise, as long as plain algebra shows it to be equal.  ``needs``
    are the hypotheses that it may have, each in plain text as the theorem prints it.
    """
    return (
        isinstance(theorem, Theorem)
        and theorem in _GENUINE
        and {h.show(Text()) for h in theorem.hypotheses} <= set(needs)
        and not theorem.random
        and same(theorem.lhs, lhs)
        and same(theorem.rhs, rhs)
    )


# ── Equality of expressions ───────────────────────────────────────────────────────────────

_NORMAL_FORMS = {}


def _normal_forms(x, words, laws):
    """The normal forms of the generic entries of an expression."""
    key = (x, words, laws)
    if key not in _NORMAL_FORMS:
        normalise, positions = Normaliser(laws), generic_positions(x.shape, SPLIT in laws)
        _NORMAL_FORMS[key] = tuple(normalise(x.entry(i, j, words)) for i, j in positions)
    return _NORMAL_FORMS[key]


def same(a, b, words=frozenset(), laws=frozenset()):
    """Whether two expressions have equal generic entries under the definitions and laws named."""
    if a == b:
        return True
    if a.shape != b.shape:
        return False
    pairs = zip(_normal_forms(a, words, laws), _normal_forms(b, words, laws))
    return all(equal(x, y) for x, y in pairs)


def rewritten(x, equation, bound=()):
    """``x`` with every instance of the left side of an equation replaced by its right side.

    Sub-products and sub-sums count as instances; what has been put in is not searched again.
    """
    if same(x, equation.lhs):
        _refuse_capture(equation, bound)
        return equation.rhs
    if x.operation is PRODUCT_OF:
        replaced = _in_product(x, equation, bound)
        if replaced is not None:
            return replaced
    if x.operation is SUM_OF and equation.lhs.operation is SUM_OF:
        replaced = _in_sum(x, equation, bound)
        if replaced is not None:
            return replaced
    inner = (*bound, *_bound_by(x))
    args = [rewritten(y, equation, inner) for y in x.args]
    return x if all(a is b for a, b in zip(args, x.args)) else x.rebuilt(args)


def _bound_by(x):
    """What an operation binds: its index or scalar, and an expectation every random letter."""
    word = x.operation.expand
    if x.operation is EXPECTATION or (word is not None and EXPECTATION in word(x).operations()):
        return (EXPECTATION,)
    return (x.params[0],) if x.operation in (OVER, DERIVATIVE) else ()


def _refuse_capture(equation, bound):
    """A hypothesis about what is bound around a place must not be used there.

    That something vanishes for no value of an index may: it is then carried for every value.
    """
    for h in equation.hypotheses:
        names = set().union(*map(free_names, h.sides())) & set(bound)
        if isinstance(h, NonZero):
            names = {name for name in names if not isinstance(name, sums.Index)}
        if names or (
            EXPECTATION in bound and _random_letters(set().union(*map(free_names, h.sides())))
        ):
            raise ProofError(f"{equation.title} has a hypothesis about what is bound here")


def _random_letters(names):
    return [f for f in names if isinstance(f, sums.Family) and f.kind == "random"]


def _in_product(x, equation, bound):
    factors, count = x.args, len(x.args)
    for width in range(count - 1, 1, -1):
        for start in range(count - width + 1):
            part = product(*factors[start : start + width])
            if same(part, equation.lhs):
                _refuse_capture(equation, bound)
                before, after = factors[:start], factors[start + width :]
                pieces = ([rewritten(product(*before), equation, bound)] if before else []) + [
                    equation.rhs
                ]
                return product(
                    *pieces, *([rewritten(product(*after), equation, bound)] if after else [])
                )
    return None


def _in_sum(x, equation, bound):
    """A sub-sum: each term of the left side is found among the terms of x."""
    rest = list(x.args)
    for term in equation.lhs.args:
        match = next((y for y in rest if same(y, term)), None)
        if match is None:
            return None
        rest.remove(match)
    _refuse_capture(equation, bound)
    return sum((rewritten(y, equation, bound) for y in rest[1:]), equation.rhs + rewritten(rest[0], equation, bound)
               ) if rest else equation.rhs  # fmt: skip


# ── Hypotheses ────────────────────────────────────────────────────────────────────────────


def _needs(x, words):
    """What must not vanish in an expression once the words named are unfolded."""
    found = list(x.operation.needs(x)) if x.operation in words or not x.operation.defined else []
    if x.operation in words and x.operation.expand is not None:
        found += _needs(x.operation.expand(x), words)
    for y in x.args:
        found += _needs(y, words)
    if x.operation is OVER:
        return [h.quantified(x.params[0]) for h in found]
    if x.operation is EXPECTATION and any(_random_letters(free_names(h.expression)) for h in found):
        raise ProofError("an expectation of a quotient of random letters is not defined here")
    if x.operation is DERIVATIVE:  # smooth near 0 is what it takes, so non-zero at 0
        at_zero = Substitution(symbols={x.params[0]: sp.S.Zero})
        return [NonZero(_without_zeros(at_zero(h.expression)), h.positive, h.bound) for h in found]
    return found


def _without_zeros(x):
    """The expression without terms that are multiplied by zero."""
    args = [_without_zeros(y) for y in x.args]
    if x.operation is SUM_OF:
        args = [y for y in args if y.operation is not SCALED or y.params[0] != 0] or args[:1]
        return args[0] if len(args) == 1 else x.rebuilt(args)
    return x.rebuilt(args) if args else x


def _holds(where, hypothesis):
    """Whether a hypothesis is true by its form, and need not be printed; a false one is refused."""
    if isinstance(hypothesis, Given):
        return same(hypothesis.lhs, hypothesis.rhs)
    if hypothesis.is_evident():
        return True
    if hypothesis.closed_forms() == {sp.S.Zero}:
        raise ProofError(f"{where}: it needs that {hypothesis.show(Text())}, which never holds")
    return False


def _without_repetition(hypotheses):
    kept = []
    for h in sorted(hypotheses, key=lambda h: len(h.show(Text()))):
        if not any(_same_hypothesis(h, other) for other in kept):
            kept.append(h)
    return tuple(kept)


def _same_hypothesis(a, b):
    if a == b:
        return True
    if not (isinstance(a, NonZero) and isinstance(b, NonZero)) or a.positive != b.positive:
        return False
    laws = (sums.REINDEX,)
    return a.closed_forms(laws=laws) == b.closed_forms(laws=laws)
