"""Terms, binders, and the only substitution.

A term is a node with an operator and parts.  A matrix is a function of two positions, so one binder is
enough: ``abs`` over typed variables, with a body.  A sum, a mean, a derivative, a definition and a
"for every" are each an operator on an ``abs``.  A bound variable has no name: it is a number, counted
from the innermost binder, so nothing can be captured and nothing has to be renamed.

    sorts      SIZE | LAW | NUM kind | POS size | FUN kind result *arguments
               | DRAW law variance *positions
    sizes      lit k | times a b … | join a b                  (join: a block of a, then one of b)
    positions  move π ±1 p | inl b p | inr a p | only | last s
    numbers    num q | size s | place p | add … | mul … | pow x e | inv x | sqrt x | exp x | log x
               call f x | delta p q | le p q | sum F | case p F G | deriv F x | mean F
    anywhere   let name sort | var k | app head … | abs body *sorts
    heads      let … | var k | word name F | rec name F G

``F`` and ``G`` are ``abs`` nodes.  The sorts of an ``abs`` may depend on the variables that it binds
before them: a word binds its sizes first, then its matrices, then the positions of the entry.  A
recursion has rows: ``rec F G`` is F(data, k) at 1, and G(data, k, t, row t) at t + 1.  The entries of a
draw are independent, and so are different draws; each entry has mean 0 and the given variance.  The
law of a draw is a letter for the rest of its distribution, about which nothing is assumed.
"""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from weakref import WeakValueDictionary


class ProofError(Exception):
    """A line is not justified, or a term makes no sense; the message says why."""

    def __str__(self):
        return self.args[0].format(*self.args[1:]) if self.args[1:] else self.args[0]


def must(condition: object, message: str, *parts: object) -> None:
    """Raise ProofError, with the ``parts`` put into ``message``, unless the condition holds."""
    if not condition:
        raise ProofError(message, *parts)


class Frozen:
    """An immutable object; types are compared exactly, so no subclass is accepted."""

    __slots__ = ()

    def __getattr__(self, name, value=None):  # for type checkers: any slot may hold anything
        raise AttributeError(f"a {type(self).__name__} is immutable, without other attributes")

    __delattr__ = __setattr__ = __getattr__

    def _keep(self, **parts):
        for name, value in parts.items():
            object.__setattr__(self, name, value)


class Term(Frozen):
    """A node with an operator ``op`` and parts ``args``.  Terms of equal structure are one object.

    ``loose`` counts the outer variables to which the term may refer; ``letters`` are its letters;
    ``key`` is a string that serves only to order and print terms.
    """

    __slots__ = ("op", "args", "loose", "letters", "key", "__weakref__")

    def __new__(cls, op, *args):
        exact = type(op) is str and {*map(type, args)} <= {Term, str, int, Fraction}
        letter = op != "let" or [*map(type, args)] == [str, Term]
        must(exact and letter, "no term is made of {!r} {!r}", op, args)
        args = tuple(map(_plain, sorted(args, key=_key) if op in ("add", "mul", "times") else args))
        known = (op, args, *map(type, args))  # distinguishes the integer 1 from the rational 1
        made = _made.get(known)
        if made is None:
            made = object.__new__(cls)
            made._complete(op, args)
            _made[known] = made
        return made

    def _complete(self, op, args):
        text = args[0] if op in ("word", "rec") else " ".join(map(_key, args))
        self._keep(op=op, args=args, key=f"({op} {text})")
        below = _below(self)
        found = [a.letters for a, _ in below if a.letters]
        letters = found[0].union(*found[1:]) if found else NOTHING
        loose = args[0] + 1 if op == "var" else max([a.loose - n for a, n in below], default=0)
        must(op != "let" or not loose, "the sort of a letter refers to something bound")
        self._keep(letters=letters | {self} if op == "let" else letters, loose=loose)

    def __repr__(self):
        return self.key


_made: WeakValueDictionary = WeakValueDictionary()  # all terms in use, by operator and parts
NOTHING: frozenset = frozenset()


def _plain(a):
    """Rebuild a Fraction, so that its parts are Python's own integers."""
    return Fraction(*map(int, a.as_integer_ratio())) if type(a) is Fraction else a


def _key(a):
    return a.key if type(a) is Term else str(a)


def _below(t):
    """The parts of a node, each with the number of variables that the node binds around it."""
    if t.op != "abs":
        return [(a, 0) for a in t.args if type(a) is Term]
    body, *sorts = t.args
    return [(body, len(sorts)), *zip(sorts, itertools.count())]


def rebuilt(t: Term, go: Callable[[Term, int], Term]) -> Term:
    """The node with each part replaced by ``go(part, number of variables bound around it)``."""
    if t.op == "abs":
        return Term("abs", *[go(a, n) for a, n in _below(t)])
    return Term(t.op, *[go(a, 0) if type(a) is Term else a for a in t.args])


SIZE, LAW, NUM, POSITIVE = Term("SIZE"), Term("LAW"), Term("NUM", "any"), Term("NUM", "positive")
UNIT, ONLY = Term("lit", 1), Term("only")
ZERO, ONE = Term("num", Fraction(0)), Term("num", Fraction(1))


def pos(size: Term) -> Term:
    """The sort of the positions 1, …, size."""
    return Term("POS", size)


def fun(*arguments: Term, kind: str = "any", result: Term = NUM) -> Term:
    """The sort of functions of these arguments; a matrix is a function of two positions."""
    return Term("FUN", kind, result, *arguments)


def is_name(name):
    """Whether a letter or a word may have this name: a letter, then letters, digits, _ and '."""
    return type(name) is str and name[:1].isalpha() and name.replace("'", "_").isidentifier()


_serial = itertools.count()


def fresh(sort: Term) -> Term:
    """A new letter for a bound variable; such letters sort by age."""
    return Term("let", f"#{next(_serial):015}", sort)


def abstract(letters: Sequence[Term], body: Term) -> Term:
    """The binder over some letters of a body; the letters lose their names."""
    bound = [_bound(x.args[1], letters[:n]) for n, x in enumerate(letters)]
    return Term("abs", _bound(body, letters), *bound)


def _bound(t, letters):
    variables = {x: Term("var", n) for n, x in enumerate(reversed(letters))}
    return put(_lift(t, len(letters)), variables)


def put(t: Term, letters: dict[Term, Term]) -> Term:
    """Replace letters by terms, all at once; the only way to substitute for letters."""
    return _put(t, (), letters, 0, {})


def filled(t, values):
    """A body in which values replace the variables of the innermost binder."""
    return _put(t, values, NOTHING, 0, {})


def _put(t, values, letters, depth, known):
    """Substitute for the variables of the binder ``depth`` levels out, and for letters.

    A substituted term is lifted over the binders that it passes, so nothing is captured.  A function
    that is put in front of arguments is applied to them at once.
    """
    if t.loose <= depth and (not letters or t.letters.isdisjoint(letters)):
        return t
    if t.op == "var":
        k, n = t.args[0] - depth, len(values)
        if k < n:
            return t if k < 0 else _lift(values[n - 1 - k], depth)
        return Term("var", depth + k - n)
    if t in letters:
        return _lift(letters[t], depth)
    if (t, depth) not in known:  # substitute in a shared part only once
        known[t, depth] = rebuilt(t, lambda a, n: _put(a, values, letters, depth + n, known))
    t = known[t, depth]
    if t.op in ("app", "move") and t.args[0].op == "abs":
        f = t.args[0] if t.op == "app" or t.args[1] == 1 else inverse(t.args[0])
        return filled(f.args[0], t.args[1:] if t.op == "app" else t.args[2:])
    return t


def _lift(t, by, floor=0):
    if by == 0 or t.loose <= floor:
        return t
    if t.op == "var":
        return Term("var", t.args[0] + by)
    return rebuilt(t, lambda a, more: _lift(a, by, floor + more))


def inverse(f):
    """The inverse of a function of a position, if it is a chain of permutations."""
    body, back = f.args[0], Term("var", 0)
    while body.op == "move":
        body, back = body.args[2], Term("move", body.args[0], -body.args[1], back)
    must(body == Term("var", 0), "{} is not a chain of permutations", f)
    return Term("abs", back, *f.args[1:])


def opened(f: Term, *values: Term) -> Term:
    """The body of a binder in which values replace the bound variables."""
    must(len(values) == len(f.args) - 1, "{} does not bind {} things", f, len(values))
    return filled(f.args[0], values)


def looked_into(f: Term) -> tuple[Term, list[Term]]:
    """The body of a binder, and the fresh letters that replace its bound variables."""
    marks = []
    for sort in f.args[1:]:
        marks.append(fresh(filled(sort, tuple(marks))))
    return opened(f, *marks), marks


def unfolded(t):
    """The definition of a word applied to arguments; None for a recursion except at 1 and t + 1."""
    head, *arguments = t.args
    if head.op == "word":
        return opened(head.args[1], *arguments)
    at, *data, k = arguments
    if at == UNIT:
        return opened(head.args[1], *data, k)
    if at.op == "join" and at.args[1] == UNIT:
        same = [_lift(a, 1) for a in (at.args[0], *data)]
        before = Term("app", head, *same, Term("var", 0))
        row = Term("abs", before, filled(head.args[1].args[-1], tuple(data)))
        return opened(head.args[2], *data, k, at.args[0], row)
    return None
