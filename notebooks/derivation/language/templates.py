"""Read definitions by calling them with the most general letters, and substitute arguments.

A body is Python, and Python can branch.  The body is therefore called with letters that reveal neither
a size nor a number, so that its result is one formula for all arguments.
"""

import itertools

import sympy as sp
from sympy import S

from ..kernel import ProofError, must
from ..printing import Text
from .letters import (End, Family, Index, Mismatch, Sealed, as_size, conform, is_size, show_number,
                      written)  # fmt: skip
from .matrices import Expression, free_names, is_mask, read_blindly, same
from .operations import EXPECTATION
from .substitution import Substitution
from .symbols import argument_of, mask, matrix, sizes_in

MOST_READINGS = 100
#: The letters for the step of a recursion and for the previous row, while its body is read.
STEP = sp.Symbol("stepʼnumber", integer=True, positive=True)
BEFORE = "rowʼbefore"


class Template:
    """The result of a body for fresh letters, and the substitution of arguments for the letters.

    ``args`` and ``params`` are the letters, ``sizes`` the sizes in their shapes, and ``result`` is the
    body's result; for a recursion, ``result`` is its first row, and ``after`` is the row after
    ``before``.  At first all sizes differ; if the body requires two of them to be equal, they are
    united and the body is read again.  A letter is a mask, and a number a size, only if the body
    requires it.
    """

    def __init__(self, name, args, params, body, step=None):
        self.name, self._body, self._step = name, body, step
        self._kinds = [*map(_kind, args), *map(_kind, params)]
        self._count = len(args)
        narrow = [is_mask(x) for x in args] + [is_size(p) for p in params]
        for narrowed in sorted(itertools.product(*[range(1 + n) for n in narrow]), key=sum):
            try:
                self._narrowed, self._known = narrowed, {}
                self._read_until_it_fits()
                return
            except RecursionError:
                raise ProofError(f"the definition of {name} calls itself: see recursion") from None
            except ProofError as error:
                refused = error
        raise refused

    def _read_until_it_fits(self):
        """Read the body, uniting sizes that it requires to be equal, until it fits."""
        for _ in range(MOST_READINGS):
            try:
                return self._read()
            except Mismatch as mismatch:
                one, other = mismatch.sizes
                if one not in self.sizes:
                    one, other = other, one
                if one not in self.sizes or one in other.free_symbols:
                    raise
                put = {one: other}
                self._known = {old: size.xreplace(put) for old, size in self._known.items()} | put
        raise ProofError(f"the definition of {self.name} requires too many sizes to be equal")

    def _read(self):
        self._made = itertools.count()
        letters = [self._letter(k, kind) for k, kind in enumerate(self._kinds)]
        self.args, self.params = letters[: self._count], letters[self._count :]
        self.sizes = {s for x in letters for size in sizes_in(x) for s in size.free_symbols}
        meant = [*self.args, *map(argument_of, self.params)]
        looks = Sealed.looks
        with read_blindly():
            self.result = self._made_by("definition", self._body, *meant)
            if self._step is not None:
                self._read_step(meant)
        caught = "the definition of {} catches the refusal to branch: a definition is one formula"
        must(Sealed.looks == looks, caught, self.name)
        self._refuse_what_it_hides()

    def _read_step(self, data):
        rows, width = self.result.axes
        told = "{} must be a row, not a matrix of shape {}"
        conform([rows], [S.One], told, self.name, self.result.axes)
        self.before = matrix(BEFORE, 1, width)
        self.after = self._made_by("step", self._step, self.before, argument_of(STEP), *data)
        told = "{} must stay a row of one shape: its step makes {}"
        conform(self.after.axes, self.before.axes, told, self.name, self.after.axes)

    def _made_by(self, part, body, *arguments):
        made = written(f"the {part} of {self.name}", body, *arguments)
        fits = isinstance(made, Expression)
        must(fits, "the definition of {} makes {!r}, not an expression", self.name, made)
        return made

    def _refuse_what_it_hides(self):
        results = [self.result] if self._step is None else [self.result, self.after]
        nodes = [x for result in results for x in result.walk()]
        mean = "the definition of {} takes a mean of an unknown argument: write E outside it"
        must(all(x.operation is not EXPECTATION for x in nodes), mean, self.name)
        bound = set().union(*[x.binds for x in nodes])
        self._bound = {x.name for x in bound}
        itself = "the definition of {} binds its own parameter: bind another letter"
        must(bound.isdisjoint(self.params), itself, self.name)
        own = [*self.args] + ([] if self._step is None else [self.before])
        known = self.sizes.union({STEP}, *map(free_names, own), *map(_names_of, self.params))
        hidden = set().union(*map(free_names, results)) - known
        names = ", ".join(sorted(str(getattr(x, "name", x)) for x in hidden))
        must(not hidden, "the definition of {} hides {}: make it an argument", self.name, names)

    def _letter(self, k, kind):
        if isinstance(kind, tuple):  # the kind of a family, and the number of its axes
            sizes = [self._size() for _ in range(kind[1])]
            sizes[0] = S.Naturals if kind[0] == "sequence" else sizes[0]
            return Family(f"parameterʼ{k}", kind[0], sizes)
        if kind is Index:
            return Index(f"parameterʼ{k}", self._size())
        if kind is Expression:
            letter = mask if self._narrowed[k] else matrix
            return letter(f"argumentʼ{k}", self._size(), self._size())
        return self._size() if self._narrowed[k] else sp.Symbol(f"parameterʼ{k}", real=True)

    def _size(self):
        """A size about which nothing is known except what the body requires."""
        size = sp.Symbol(f"sizeʼ{next(self._made)}", integer=True, positive=True)
        return self._known.get(size, size)

    def read_again(self, args, params, at=None):
        """Refuse a body whose result on these arguments differs from the template's."""
        data = [*args, *map(argument_of, params)]
        with read_blindly(False):
            first = self.filled(self.result, args, params)
            self._compare(self._body(*data), first)
            for t in (STEP, at) if self._step is not None else ():
                after = self.filled(self.after, args, params, t, first)
                self._compare(self._step(first, argument_of(t), *data), after)

    def _compare(self, said, meant):
        if not (isinstance(said, Expression) and same(said, meant)):
            raise ProofError(
                f"the definition of {self.name} has another meaning here than at its first use: "
                "a definition is one formula, which cannot look at its arguments or change"
            )

    def filled(self, expression, args, params, step=None, before=None):
        """The expression, a part of the template, with arguments in place of its letters."""
        meant = self._meant(args, params)
        if step is not None:
            meant |= {STEP: step, self.before.params[0]: before}
        return Substitution(meant)(expression)

    def axes(self, args, params, wanted=None):
        """The shape of the result of a call."""
        return tuple(map(Substitution(self._meant(args, params)).size, self.result.axes))

    def _meant(self, args, params):
        """What replaces the letters; raises ProofError for a misfit."""
        given = [*args, *params]
        wanted, count = len(self._kinds), len(given)
        must(wanted == count, "{} takes {} arguments, not {}", self.name, wanted, count)
        for name in sorted(self._bound & {x.name for y in given for x in _names_of(y)}):
            captured = (
                "the definition of {} binds {}, which its argument contains: bind another letter"
            )
            raise ProofError(captured, self.name, name)
        meant, sizes = {}, []
        for mine, x, kind in zip([*self.args, *self.params], given, self._kinds):
            other = "{} was first used with another kind of argument than {!r}: define two words"
            must(_kind(x) == kind, other, self.name, x)
            if kind is Expression:
                mask = "{} takes a mask first, zeros and ones by its form, not {!r}"
                must(is_mask(x) or not is_mask(mine), mask, self.name, x)
                meant[mine.params[0]] = x
            elif not is_size(mine):
                meant[mine] = argument_of(x) if isinstance(x, Family) else x
            if sizes_in(mine):
                sizes += zip(sizes_in(mine), sizes_in(x) or [as_size(x)])
        return meant | self._matched(sizes)

    def _matched(self, pairs):
        """Match first the sizes that are letters; then all sizes have to agree."""
        symbols = {}
        for mine, size in pairs:
            if mine in self.sizes:
                symbols.setdefault(mine, size)
        for mine, size in [*[p for p in pairs if p[0] in self.sizes], *pairs]:
            wanted = mine.xreplace(symbols)
            if wanted != size:
                shown = [show_number(Text(), s) for s in (wanted, size)]
                told = "{} requires the size {} here, not {}"
                raise Mismatch((wanted, size), told, self.name, *shown)
        return symbols


def _kind(x):
    """The kind of an argument; a definition accepts only one kind in each place."""
    if isinstance(x, Expression):
        return Expression
    if isinstance(x, Family):
        must(not x.random, "{} is a draw, which cannot be a parameter of a definition", x.name)
        return x.kind, len(x.sizes)
    return Index if isinstance(x, (Index, End)) else sp.Symbol


def _names_of(x):
    """The names in an argument that a binder around it could capture."""
    if isinstance(x, Expression):
        return free_names(x)
    return {x for x in (x, *x.free_symbols) if isinstance(x, (sp.Symbol, Index, Family))}
