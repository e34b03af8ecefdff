"""Replace letters by terms: the only way to instantiate a theorem.

A substitution is simultaneous, checks sorts again, and avoids capture: the index of a sum or the
scalar of a derivative is renamed if a substituted term contains its name.
"""

import sympy as sp

from .. import kernel as k
from ..kernel import Normal, Term, must
from . import operations as ops
from .index_forms import Table
from .letters import (Bijection, End, Family, Index, Join, Scalar, as_size, exact, kernel_letter,
                      number, scalar_term, size_term, unsealed)  # fmt: skip
from .matrices import (Expression, derivative, expression, free_names, is_mask, is_permutation,
                       made_of)  # fmt: skip
from .symbols import Heads, Sequence, sizes_in


class Substitution:
    """Replaces letters, all at once: ``meant`` is {letter: value}.

    An expression, heads or a sequence replace a family, an expression replaces a permutation, a size
    or a scalar replaces a symbol, and an index replaces a free index.
    """

    def __init__(self, meant):
        self._meant = meant
        self.symbols = {x: value for x, value in meant.items() if isinstance(x, sp.Symbol)}
        self.taken = set().union(*map(_names_in, meant.values()))

    def values(self):
        """The expressions that are substituted; a scalar becomes a 1 × 1 matrix."""
        numbers = [Expression.number(s) for old, s in self.symbols.items() if not old.is_integer]
        return [v for v in self._meant.values() if isinstance(v, Expression)] + numbers

    def __call__(self, x):
        operation = x.operation
        if operation is ops.LETTER:
            return self._letter(x)
        if operation is ops.PERMUTATION:
            return self._permutation(x.params[0])
        if x.binds:
            binder, inner = self.bind(x.params[0], free_names(x.args[0]))
            body = inner(x.args[0])
            return _sum(binder, body) if operation is ops.OVER else derivative(body, binder)
        args = [self(y) for y in x.args]
        if operation in (ops.PRODUCT_OF, ops.SUM_OF):
            return x.rebuilt(args)
        params = [self._parameter(p) for p in x.params]
        return Expression(operation, args, params, tuple(self.size(s) for s in x.axes))

    def bind(self, binder, inside):
        """A binder with its new range, and the substitution below it.

        The binder is renamed if its name occurs in a substituted term or free ``inside`` its scope.
        """
        taken, new = self.taken | set(map(self._position, inside - {binder})), binder
        if isinstance(binder, Index):
            new = Index(binder.name, self.size(binder.size))
        while new in taken and not isinstance(new, End):
            name = new.name + "'"
            new = Index(name, new.size) if isinstance(new, Index) else sp.Symbol(name, real=True)
        return new, Substitution({**self._meant, binder: new})

    def size(self, size):
        """A size with its symbols replaced."""
        return as_size(size.xreplace(self.symbols))

    def _letter(self, x):
        family, *heads = x.params
        if isinstance(self._meant.get(family), Expression):
            return self._meant[family]
        family = self.family(family)
        return Expression(ops.LETTER, params=[family, *map(self._position, heads)])

    def family(self, family):
        """What replaces a family: another family, or the same family with new sizes."""
        meant = self._meant.get(family)
        if meant is not None:
            return meant.params[0] if isinstance(meant, Expression) else meant.family
        sizes = [s if s is sp.S.Naturals else self.size(s) for s in family.sizes]
        variance = [_rebuilt(v, self.symbols) for v in family.args[3:]]
        return Family(family.name, family.kind, sizes, *variance)

    def _permutation(self, old):
        if old in self._meant:
            return self._meant[old]
        return Expression(ops.PERMUTATION, params=[Bijection(old.name, self.size(old.size))])

    def _position(self, p):
        """What replaces an index; anything else stays as it is."""
        if not isinstance(p, Index):
            return p
        return self._meant[p] if p in self._meant else Index(p.name, self.size(p.size))

    def _parameter(self, p):
        if isinstance(p, Family):
            whole = not isinstance(self._meant.get(p), Expression)
            must(whole, "{} occurs inside a definition as a family of matrices", p.name)
            return self.family(p)
        if isinstance(p, Index):
            return self._position(p)
        if isinstance(p, Join) or isinstance(p, sp.Symbol) and p.is_integer:
            return self.size(p)
        if isinstance(p, Table):
            used = frozenset().union(*map(self._used, p.uses))
            return Table(k.put(p.function, self.meant()), used)
        return exact(_rebuilt(p, self.symbols)) if isinstance(p, sp.Expr) else p

    def _used(self, letter):
        """The objects that a table uses instead of this letter after the substitution."""
        if isinstance(letter, Family):
            x = self._meant.get(letter)
            return made_of(x) if isinstance(x, Expression) else {self.family(letter)}
        if isinstance(letter, ops.Operation):
            return {letter}
        if isinstance(letter, Bijection):
            return made_of(self._permutation(letter))
        if isinstance(letter, sp.Symbol):
            return set(self.symbols.get(letter, letter).free_symbols)
        return {self._position(letter)}

    def meant(self):
        """The substitution for the kernel: {letter: term}."""
        found = {}
        for letter, value in self._meant.items():
            if isinstance(letter, Family) and letter.random:  # a mean binds the draw, not its law
                found[letter.law] = self.family(letter).law
            else:
                found[kernel_letter(letter)] = _term_of(letter, value)
        return found

    @classmethod
    def checked(cls, theorem, meant):
        """The substitution that keywords describe; raises ProofError for what does not fit."""
        return cls(_Matching(theorem).match(meant))


def _names_in(value):
    """All names in a value that a binder around it could capture."""
    if isinstance(value, Expression):
        return free_names(value)
    return set() if isinstance(value, (Heads, Sequence)) else {value} | value.free_symbols


def _term_of(letter, value):
    """The kernel's term for what replaces a letter."""
    if isinstance(letter, sp.Symbol):
        return size_term(value) if letter.is_integer else scalar_term(value)
    if isinstance(letter, Bijection):
        mark = k.fresh(k.pos(size_term(value.axes[0])))
        return k.abstract([mark], _moved(value, 1, mark))
    if isinstance(letter, Index):
        return value.term
    if not isinstance(value, Expression):
        return value.family.function
    if letter.kind != "mask":
        return value.function
    body, marks = k.looked_into(value.function)  # `is_mask` may hold only for the normal form
    return k.abstract(marks, Normal().canonical(body))


def over(index: Index | End | Scalar, body: Expression) -> Expression:
    """The sum of ``body`` over an index made by ``head``, as in multi-head attention.

    If an inner sum has an index of the same name, this index gets a prime.
    """
    runs = unsealed(index)
    fits = isinstance(runs, (Index, End))
    must(fits, "over needs an index made by head(name, count), not {!r}", runs)
    bound = expression(body, "over").bound()
    while runs in bound:
        renamed = Index(runs.name + "'", runs.size)
        runs, body = renamed, Substitution({runs: renamed})(body)
    return _sum(runs, body)


def _sum(index, body):
    return body if isinstance(index, End) else Expression(ops.OVER, [body], [index])


def _moved(x, way, place):
    """The image of a position; row i of (P Q) X is row π_Q(π_P(i)) of X."""
    if x.operation is ops.PERMUTATION:
        return Term("move", x.params[0].term, way, place)
    if x.operation is ops.IDENTITY:
        return place
    if x.operation is ops.TRANSPOSE:
        return _moved(x.args[0], -way, place)
    for y in x.args if way > 0 else reversed(x.args):
        place = _moved(y, way, place)
    return place


def _rebuilt(scalar, symbols):
    """Replace symbols in a scalar, all at once; a joined size becomes its number n + m."""
    return scalar.xreplace({symbol: number(value) for symbol, value in symbols.items()})


def _is_drawn(x):
    """Whether an expression contains a draw that no mean in it binds."""
    return any(y.args[1].op == "DRAW" for y in x.function.letters)


class _Matching:
    """Reads the keywords that replace the letters of a theorem."""

    def __init__(self, theorem):
        self.title, self._later = theorem.title, []
        sides = [theorem.lhs, theorem.rhs, *[x for h in theorem.hypotheses for x in h.sides()]]
        self.letters = {basic.name: basic for x in sides for basic in free_names(x)}
        families = set().union(*[x.atoms(Family) for x in sides])
        self.draws = sorted((f for f in families if f.kind == "random"), key=str)
        self.meant = {}

    def match(self, given):
        for name, value in given.items():
            known, names = name in self.letters, ", ".join(sorted(self.letters))
            must(known, "{} has no free letter {}; it has {}", self.title, name, names)
            self._put(self.letters[name], value)
        symbols = {x: value for x, value in self.meant.items() if isinstance(x, sp.Symbol)}
        for letter, pattern, size in self._later:
            wanted = "{}: {} has an axis of {}, which cannot be {} here"
            fits = pattern.xreplace(symbols) == size
            must(fits, wanted, self.title, letter.name, number(pattern), number(size))
        self._refuse_dependent_draws(symbols)
        return self.meant

    def _put(self, letter, value):
        if isinstance(letter, sp.Symbol):
            value = as_size(value) if letter.is_integer else exact(value)
        for wanted, fits in _demands(letter):
            complaint = "{}: {} stands for {}, not for {!r}"
            must(fits(value), complaint, self.title, letter.name, wanted, value)
        for pattern, size in zip(sizes_in(letter), sizes_in(value)):
            self._put_size(letter, pattern, size)
        self.meant[letter] = value

    def _put_size(self, letter, pattern, size):
        if not isinstance(pattern, sp.Symbol):
            self._later.append((letter, pattern, size))
            return
        known = self.meant.setdefault(pattern, size)
        told = "{}: {} makes {} = {}, but it is {} already"
        must(known == size, told, self.title, letter.name, pattern, number(size), number(known))

    def _refuse_dependent_draws(self, symbols):
        """Check that independent letters stay independent and keep their variances."""
        draws = self.draws
        images = [self.meant[f].params[0] if f in self.meant else f for f in draws]
        distinct = len({i.name for i in images}) == len(images)
        must(distinct, "{}: independent letters cannot be replaced by the same letter", self.title)
        for f, image in zip(draws, images):
            kept = image is f or image.variance == _rebuilt(f.variance, symbols)
            parts = self.title, f.name, f.variance, image.name
            must(kept, "{}: {} has variance {}, {} another", *parts)


def _demands(letter):
    """Yield (what may replace a letter, in words, and a test of a value)."""
    if isinstance(letter, Bijection):
        yield "a permutation matrix", lambda x: isinstance(x, Expression) and is_permutation(x)
    elif isinstance(letter, Index):
        yield "an index", lambda x: isinstance(x, (Index, End))
    elif isinstance(letter, sp.Symbol):
        yield "a provably positive scalar", lambda x: x.is_positive or not letter.is_positive
    elif letter.kind == "sequence":
        yield "a sequence", lambda x: isinstance(x, Sequence)
    elif len(letter.sizes) > 2:
        count, kind = len(letter.sizes), letter.kind
        yield "a family of heads", lambda x: isinstance(x, Heads) and len(x.family.sizes) == count
        yield f"heads of the kind {kind}", lambda x: x.family.kind == kind
    else:
        yield "an expression", lambda x: isinstance(x, Expression)
        if letter.kind == "mask":
            yield "a mask (zeros and ones by its form)", is_mask
        if letter.kind == "random":
            yield "a random matrix", lambda x: x.operation is ops.LETTER and x.params[0].random
        else:
            yield "something that is not random", lambda x: not _is_drawn(x)
