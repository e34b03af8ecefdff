"""From the book's notation to the kernel's terms.  Not trusted.

An expression is a matrix; ``function`` makes of it the kernel's function of two positions, from
the index form that ``Expression.entry`` gives.  What is written wrongly here is proved of another
expression than the one printed; it cannot make a theorem of what is false.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import sympy as sp
from derivation import matrices, sums
from derivation.definitions import _Abbreviation, _Recursion
from derivation.matrices import _letter, mask
from sympy import S

from .kernel import terms as k
from .kernel.sorts import KNOWN
from .kernel.terms import ProofError, Term

#: What ``entry`` is asked for here: words as they are, derivatives as they are.
AS_IT_IS = frozenset({"as it is"})
POSITIONS = (sums.Index, sums.End, sums.Part, sums.Moved)


def _slope(x, i, j, unfold, worked_out=matrices.DERIVATIVE.entry):
    """A derivative as it is; the book's own entry works it out, or not at all."""
    if unfold is not AS_IT_IS:
        return worked_out(x, i, j, unfold)
    return sums.Slope(x.args[0].entry(i, j, unfold), x.params[0])


object.__setattr__(matrices.DERIVATIVE, "entry", _slope)


def size(s):
    """A size."""
    if isinstance(s, sums.Join):
        return Term("join", *map(size, s.args))
    if s.is_Integer:
        return Term("lit", int(s))
    if s.is_Symbol:
        return k.letter(s.name, k.SIZE)
    return Term("times", *map(size, s.args))


def scalar(symbol):
    """The letter of a scalar."""
    return k.letter(symbol.name, k.POSITIVE if symbol.is_positive else k.NUM)


def permutation(bijection):
    """The letter of a permutation."""
    range_ = k.pos(size(bijection.size))
    return k.letter(bijection.name, k.fun(range_, kind="perm", result=range_))


def family(f):
    """The letter of a family of numbers; a sequence is a function of a number."""
    axes = [k.NUM if s is S.Naturals else k.pos(size(s)) for s in f.sizes]
    return k.letter(f.name, k.fun(*axes, kind="mask" if f.kind == "mask" else "any"))


class Reading:
    """Reads index forms; ``bound`` says what stands for the indices, scalars and draws bound."""

    def __init__(self, bound=None):
        self.bound = bound or {}

    def under(self, new):
        """The same, below a binder."""
        return Reading({**self.bound, **new})

    def position(self, p):
        """A position."""
        if p in self.bound:
            return self.bound[p]
        if isinstance(p, sums.Index):
            return k.letter(p.args[0].name, k.pos(size(p.args[1])))
        if isinstance(p, sums.End):
            return k.ONLY if p.args[0] == 1 else Term("last", size(p.args[0]))
        if isinstance(p, sums.Part):
            side, inner, whole = p.args
            other = size(whole.args[0 if side else 1])
            return Term("inr" if side else "inl", other, self.position(inner))
        if isinstance(p, sums.Moved):
            found = self.position(p.args[1])
            for bijection, sign in reversed(p.args[0]):
                found = Term("move", permutation(bijection), int(sign), found)
            return found
        raise ProofError(f"{p} is no position")

    def number(self, t):
        """A number."""
        for kind, rule in _RULES:
            if isinstance(t, kind):
                return rule(self, t)
        if isinstance(t, POSITIONS):
            return Term("place", self.position(t))
        if t in self.bound:
            return self.bound[t]
        if t.is_Rational:
            return k.num(Fraction(int(t.p), int(t.q)))
        if t.is_Symbol:
            return Term("size", size(t)) if t.is_integer else scalar(t)
        if t.is_Add or t.is_Mul:
            return Term("add" if t.is_Add else "mul", *map(self.number, t.args))
        if t.is_Pow:
            return self.power(*t.args)
        raise ProofError(f"{t} is no number of the book")

    def power(self, base, e):
        base = self.number(base)
        if e.q == 2:
            base, e = Term("sqrt", base), 2 * e
        if e.q != 1:
            raise ProofError(f"an exponent is a whole number or a half, not {e}")
        found = Term("pow", base, abs(int(e)))
        return found if e > 0 else Term("inv", found)

    def entry(self, t):
        f, *at = t.args
        head = self.bound.get(f) or family(f)
        if isinstance(head, Row):
            return Term("app", head.letter, self.position(at[1]))
        if f.kind == "random" and f not in self.bound:
            raise ProofError(
                f"{f.name} is a draw, which is bound by a mean and stands nowhere else"
            )
        read = [self.number if s is S.Naturals else self.position for s in f.sizes]
        return Term("app", head, *[go(p) for go, p in zip(read, at)])

    def call(self, t):
        name, x = t.args[0].name, self.number(t.args[1])
        if name in KNOWN:
            return Term("call", name, x)
        return Term("app", k.letter(name, k.fun(k.NUM)), x)

    def binder(self, body, indices):
        """The function of indices that a body is."""
        marks = [k.fresh(k.pos(size(sums.range_of(i)))) for i in indices]
        return k.abstract(marks, self.under(dict(zip(indices, marks))).number(body))

    def sum(self, t):
        return Term("sum", self.binder(t.args[0], t.args[1:]))

    def slope(self, t):
        body, symbol = t.args
        mark = k.fresh(k.NUM)
        return Term("deriv", k.abstract([mark], self.under({symbol: mark}).number(body)), k.ZERO)

    def mean(self, t):
        draws = sorted(
            (f for f in t.atoms(sums.Family) if f.kind == "random"), key=lambda f: f.name
        )
        marks = []
        for f in draws:
            axes = [k.pos(size(s)) for s in f.sizes]
            marks.append(k.fresh(Term("DRAW", self.number(f.variance), *axes)))
        body = self.under(dict(zip(draws, marks))).number(t.args[0])
        return Term("mean", k.abstract(marks, body)) if marks else body

    def cases(self, t):
        at, *branches = t.args
        return Term("case", self.position(at), *[self.function(f) for f in branches])

    def function(self, abstraction):
        """A function of positions."""
        return self.binder(abstraction.args[0], abstraction.args[1:])

    def word(self, t):
        """An entry of a word that no line has unfolded."""
        _, serial, params, shapes, at, *arguments = t.args
        return definition(int(serial)).applied(self, params, shapes, at, arguments)


_RULES = [
    (sums.Entry, Reading.entry), (sums.Sigma, Reading.sum), (sums.Opaque, Reading.word),
    (sums.Apply, Reading.call), (sums.Slope, Reading.slope), (sums.Expect, Reading.mean),
    (sums.Cases, Reading.cases),
    (sums.Exp, lambda self, t: Term("exp", self.number(t.args[0]))),
    (sums.Reciprocal, lambda self, t: Term("inv", self.number(t.args[0]))),
    (sums.ReciprocalRoot, lambda self, t: Term("inv", Term("sqrt", self.number(t.args[0])))),
    (sums.Delta, lambda self, t: Term("delta", *map(self.position, t.args))),
    (sums.AtMost, lambda self, t: Term("le", *map(self.position, t.args))),
    (sums.Join, lambda self, t: Term("size", size(t))),
]  # fmt: skip

#: The operations that expressions were made of, by their serial number.
OPERATIONS = {}


@lru_cache(maxsize=None)
def definition(serial):
    """The word of the kernel for an operation."""
    operation = OPERATIONS[serial]
    word = operation.word
    known = getattr(word, "_known", [])
    number = [entry[-1] for entry in known].index(operation) if known else 0
    name = f"{word.name} {number + 1}" if number else word.name  # a word for each kind of arguments
    if isinstance(word, _Abbreviation):
        template = known[number][0]
        return Definition(name, template, *_entry_of(template.result))
    if isinstance(word, _Recursion):
        first, step, _ = known[number]

        def after(row, t):
            return _entry_of(step.filled(step.result, (_letter(row),), (t, *first.params)))[1]

        return RecursiveDefinition(name, first, *_entry_of(first.result), after)
    template = Generic(*word._takes)
    x = word(*template.args, *template.params)
    return Definition(name, template, x.shape, lambda i, j: operation.entry(x, i, j, AS_IT_IS))


def _entry_of(x):
    """The shape of an expression, and its entry as it is."""
    remember(x)
    return x.shape, lambda i, j: x.entry(i, j, AS_IT_IS)


def remember(x):
    """Enters the operations of an expression."""
    OPERATIONS.update({o.serial: o for o in x.operations() if o.defined})


class Generic:
    """The letters that a word of the vocabulary is read on: matrices of one shape, and scalars."""

    def __init__(self, expressions, scalars):
        m, n = sp.symbols("m n", integer=True, positive=True)
        self.sizes = {m: m, n: n}
        self.args = [mask(f"argument {k}", m, n) for k in range(expressions)]
        self.params = [sp.Symbol(f"parameter {k}", real=True) for k in range(scalars)]


class Definition:
    """A word of the book as a word of the kernel.

    ``template`` has the sizes, letters and parameters that it is read on; ``entry(i, j)`` is its
    entry there.  What the kernel's word takes are the sizes, the letters as functions, the
    parameters, and the position of the entry.
    """

    functions = None  # the letters for any function whatever that the body names

    def __init__(self, name, template, shape, entry):
        self.template = template
        self.sizes = [s for s in template.sizes.values() if s != 1]
        self.letters = [x.params[0] for x in template.args]
        self.term = Term("word", name, self._function(shape, entry))

    def _function(self, shape, entry, more=(), bound=()):
        """A closed function of the parameters, the position, and more letters."""
        marks = self._marks()
        at = [k.letter(f"at {c}", k.pos(size(s))) for c, s in zip("ij", shape)]
        i, j = (sums.fresh(s) for s in shape)
        places = {p: m for p, m in zip((i, j), at) if isinstance(p, sums.Index)}
        body = Reading({**marks, **places, **dict(bound)}).number(entry(i, j))
        if self.functions is None:
            any_function = [x for x in body.letters if x.args[1] == k.fun(k.NUM)]
            self.functions = sorted(any_function, key=lambda x: x.args[0])
        letters = [*self.functions, *map(size, self.sizes), *marks.values()]
        return k.abstract([*letters, *self._places(at), *more], body)

    def _places(self, at):
        return at

    def _marks(self):
        marks = {f: family(f) for f in self.letters}
        for p in self.template.params:
            if isinstance(p, sums.Family):
                marks[p] = family(p)
            elif isinstance(p, sums.Index):
                marks[p] = Reading().position(p)
            elif p not in self.sizes and p != 1:
                marks[p] = k.letter(p.name, k.NUM)
        return {p: k.letter(m.args[0], _of_any_kind(m.args[1])) for p, m in marks.items()}

    def applied(self, reading, params, shapes, at, arguments):
        """An entry of the word."""
        found = self._data(reading, params, shapes, arguments)
        return Term("app", self.term, *found, *[reading.position(p) for p in at])

    def _data(self, reading, params, shapes, arguments):
        symbols = {}
        for letter, shape in zip(self.letters, shapes[1:]):
            symbols |= dict(zip(letter.sizes, shape))
        for mine, p in zip(self.template.params, params):
            if isinstance(mine, sums.Family):
                symbols |= dict(zip(mine.sizes, p.sizes))
            elif isinstance(mine, sums.Index):
                symbols[mine.args[1]] = sums.range_of(p)
            elif mine in self.sizes:
                symbols[mine] = p
        found = [*map(_eta, self.functions), *[size(symbols[s]) for s in self.sizes]]
        found += [reading.function(f) for f in arguments]
        for mine, p in zip(self.template.params, params):
            if isinstance(mine, sums.Family):
                found.append(_eta(reading.bound.get(p) or family(p)))
            elif isinstance(mine, sums.Index):
                found.append(reading.position(p))
            elif mine not in self.sizes and mine != 1:
                found.append(reading.number(p))
        return found


class RecursiveDefinition(Definition):
    """A row that is defined along the natural numbers, as a recursion of the kernel."""

    def __init__(self, name, template, shape, first, step):
        """``step(before, t)`` is the entry at t + 1, made of the letter of the row at t."""
        self.template, self.letters = template, []
        self.sizes = [s for s in template.sizes.values() if s != 1]
        t = sp.Symbol("step", integer=True, positive=True)
        row = sums.Family("the row before", "matrix", shape)
        before = k.letter("the row before", k.fun(k.pos(size(shape[1]))))
        start = self._function(shape, first)
        after = self._function(shape, step(row, t), [size(t), before], [(row, Row(before))])
        self.term = Term("rec", name, start, after)

    def _places(self, at):
        return at[1:]

    def applied(self, reading, params, shapes, at, arguments):
        t, *params = params
        found = self._data(reading, params, shapes, arguments)
        return Term("app", self.term, size(t), *found, reading.position(at[1]))


class Row:
    """The letter of a row, whose entries have one position."""

    def __init__(self, letter):
        self.letter = letter


def _of_any_kind(sort):
    return Term("FUN", "any", *sort.args[1:]) if sort.op == "FUN" else sort


def _eta(letter):
    """A letter for a function, as the function of what it takes."""
    marks = [k.fresh(s) for s in letter.args[1].args[2:]]
    return k.abstract(marks, Term("app", letter, *marks))


@lru_cache(maxsize=None)
def function(x):
    """An expression as the kernel's function of two positions."""
    remember(x)
    i, j = (sums.fresh(s) for s in x.shape)
    marks = [k.fresh(k.pos(size(s))) for s in x.shape]
    bound = {p: m for p, m in zip((i, j), marks) if isinstance(p, sums.Index)}
    return k.abstract(marks, Reading(bound).number(x.entry(i, j, AS_IT_IS)))
