"""What a definition is read on: letters of the most general kind, and what is put into them."""

from __future__ import annotations

import itertools

import sympy as sp
from sympy import S

from .kernel.terms import ProofError
from .letters import End, Family, Index, Join, written
from .matrices import Expression, free_names, is_mask
from .operations import DERIVATIVE, EXPECTATION, OVER
from .substitution import Substitution
from .symbols import mask, matrix
from .vocabulary import argument_of


class Template:
    """The body of a definition on fresh letters, and how arguments are put into it.

    Each letter is of the most general kind that the body takes: a mask only where it wants one,
    a whole number is a size (1) only where it wants one, and the size of a matrix beside it (2)
    only where it has to be that one: otherwise a print would not tell which it is.
    """

    def __init__(self, name, args, params, body):
        narrow = [is_mask(x) for x in args] + [2 * _is_size(p) for p in params]
        for kinds in sorted(itertools.product(*[range(1 + n) for n in narrow]), key=sum):
            try:
                self._read(name, args, params, body, kinds)
                return
            except RecursionError:
                raise ProofError(f"the definition of {name} calls itself: see recursion") from None
            except ProofError as error:
                refused = error
        raise refused

    def _read(self, name, args, params, body, kinds):
        self.sizes = {}
        self.args = [self._fresh_letter(f"argumentʼ{k}", x, kinds[k]) for k, x in enumerate(args)]
        self.params = [
            self._fresh_parameter(f"parameterʼ{k}", p, kinds[len(args) + k])
            for k, p in enumerate(params)
        ]
        meant = [*self.args, *map(argument_of, self.params)]
        self.result = written(f"the definition of {name}", body, *meant)
        if not isinstance(self.result, Expression):
            raise ProofError(f"the definition of {name} makes {self.result!r}, not an expression")
        if any(x.operation is EXPECTATION for x in self.result.walk()):
            raise ProofError(
                f"the definition of {name} takes a mean, but of what, nobody knows yet: write E outside"
            )
        bound = {x.params[0] for x in self.result.walk() if x.operation in (OVER, DERIVATIVE)}
        if bound & set(self.params):
            raise ProofError(
                f"the definition of {name} binds its own parameter: bind a letter of its own"
            )
        known = set(self.sizes.values()).union(
            *map(free_names, self.args), *map(_names_of, self.params)
        )
        hidden = sorted(str(getattr(x, "name", x)) for x in free_names(self.result) - known)
        if hidden:
            raise ProofError(
                f"the definition of {name} hides {', '.join(hidden)}: make it an argument"
            )

    def _size(self, size):
        if size == 1:
            return size
        if size not in self.sizes:
            self.sizes[size] = sp.Symbol(f"sizeʼ{len(self.sizes)}", integer=True, positive=True)
        return self.sizes[size]

    def _fresh_letter(self, name, x, as_mask):
        shape = [self._size(s) for s in x.shape]
        return mask(name, *shape) if as_mask else matrix(name, *shape)

    def _fresh_parameter(self, name, p, kind):
        if isinstance(p, Family):
            if p.random:
                raise ProofError(f"{p.name} is a draw, which is no parameter of a definition")
            sizes = [s if s is S.Naturals else self._size(s) for s in p.sizes]
            return Family(name, p.kind, sizes)
        if isinstance(p, (Index, End)):  # the only place of a range is read as one of any range
            return Index(name, self._size(p.size if isinstance(p, Index) else sp.Symbol(name)))
        if kind == 1 and p != 1:
            return self.sizes.setdefault(name, _fresh_size(f"sizeʼ{len(self.sizes)}"))
        return self._size(p) if kind else sp.Symbol(name, real=True)

    def special_cases(self):
        """(arguments, parameters) of this kind where a body may branch: a size is 1 or another
        one's equal, a number is small and whole, two numbers or two arguments are equal."""
        sizes = list(self.sizes.values())
        changes = [{s: S(value)} for s in sizes for value in (1, 2, 3)]
        changes += [{s: other} for s, other in itertools.combinations(sizes, 2)]
        numbers = [p for p in self.params if _is_symbol(p) and p not in sizes]
        changes += [{p: S(value)} for p in numbers for value in (0, 1, 2, -1)]
        changes += [{p: other} for p, other in itertools.combinations(numbers, 2)]
        for change in changes:
            yield ([_with_sizes(x, change) for x in slots] for slots in (self.args, self.params))
        for x, y in itertools.combinations(self.args, 2):
            change = dict(zip(x.shape, y.shape))
            args = [_with_sizes(z, change) for z in self.args]
            args[self.args.index(x)] = args[self.args.index(y)]
            yield args, [_with_sizes(p, change) for p in self.params]

    def filled(self, expression, args, params):
        """A part of the template with arguments in the place of its letters."""
        families, symbols, indices = {}, {}, {}
        for letter, x in zip(self.args, args):
            families[letter.params[0]] = x
            _put_sizes(symbols, letter.shape, x.shape)
        for mine, p in zip(self.params, params):
            if isinstance(mine, Family):
                families[mine] = argument_of(p)
                _put_sizes(symbols, mine.sizes, p.sizes)
            elif isinstance(mine, Index):
                indices[mine] = p
                _put_sizes(symbols, mine.args[1:], (p.size,))
            else:
                _put_sizes(symbols, (mine,), (p,))
        return Substitution(families, {}, symbols, indices)(expression)

    def same_kind(self, args, params):
        """Whether arguments have the shapes and kinds that this template was made for."""
        try:
            symbols = {}
            for letter, x in zip(self.args, args, strict=True):
                if is_mask(letter) and not is_mask(x):
                    return False
                _put_sizes(symbols, letter.shape, x.shape)
            for mine, p in zip(self.params, params, strict=True):
                if isinstance(mine, (Family, Index)) != isinstance(p, (Family, Index, End)):
                    return False
                if isinstance(mine, Family):
                    if mine.kind != p.kind or len(mine.sizes) != len(p.sizes):
                        return False
                    _put_sizes(symbols, mine.sizes, p.sizes)
                elif isinstance(mine, Index):
                    _put_sizes(symbols, mine.args[1:], (p.size,))
                elif _is_size(mine) and not _is_size(p):
                    return False
                else:
                    _put_sizes(symbols, (mine,), (p,))
        except (ProofError, ValueError):
            return False
        return True


def _is_size(p):
    if isinstance(p, sp.Mul):
        return all(map(_is_size, p.args))
    return isinstance(p, Join) or (
        isinstance(p, (sp.Symbol, sp.Integer)) and bool(p.is_integer and p.is_positive)
    )


def _names_of(p):
    return {p} | {a for a in p.free_symbols if isinstance(a, sp.Symbol)}


def _put_sizes(symbols, patterns, sizes):
    for pattern, size in zip(patterns, sizes):
        fits = (
            symbols.setdefault(pattern, size) == size
            if isinstance(pattern, sp.Symbol)
            else pattern == size
        )
        if not fits:
            raise ProofError("the sizes differ from those of the definition")


class _Meeting:
    """Which sizes two templates (0 and 1) have in common where both take the same arguments."""

    def __init__(self):
        self._above = {}

    def _found(self, which, size):
        at = (which, size) if isinstance(size, sp.Symbol) else size
        while at in self._above:
            at = self._above[at]
        return at

    def unite(self, size, its):
        """A size of the first template is one of the second; ProofError where it cannot be."""
        one, other = self._found(0, size), self._found(1, its)
        one, other = (one, other) if isinstance(one, tuple) else (other, one)
        if one != other and not isinstance(one, tuple):
            raise ProofError("no size is both")
        if one != other:
            self._above[one] = other

    def size(self, size):
        """What a size of the first template is for both."""
        at = self._found(0, size)
        if not isinstance(at, tuple):
            return at
        which, known = at
        return _fresh_size(known.name.replace("size", ("mine", "its")[which]))


def _fresh_size(name):
    return sp.Symbol(name, integer=True, positive=True)


def shared(one, other):
    """(arguments, parameters) that both templates take, as general as can be; None if there are none."""
    try:
        slots = list(zip([*one.args, *one.params], [*other.args, *other.params], strict=True))
        meeting = _Meeting()
        for x, y in slots:
            if _kind_of_slot(x) != _kind_of_slot(y):
                return None
            for size, its in zip(sizes_in(x), sizes_in(y)):
                meeting.unite(size, its)
    except (ProofError, ValueError):
        return None
    made = [_taken_by_both(f"bothʼ{k}", x, y, meeting.size) for k, (x, y) in enumerate(slots)]
    return made[: len(one.args)], made[len(one.args) :]


def _kind_of_slot(x):
    if isinstance(x, Family):
        return x.kind, len(x.sizes)
    return sp.Symbol if _is_symbol(x) or x is S.One else type(x)


def _is_symbol(x):
    return isinstance(x, sp.Symbol) and not isinstance(x, Index)


def sizes_in(x):
    """The sizes of what a template takes in one place."""
    if _is_symbol(x) or x is S.One:
        return (x,) if _is_size(x) else ()
    return x.args[1:] if isinstance(x, Index) else x.sizes if isinstance(x, Family) else x.shape


def _with_sizes(x, change):
    """What a template takes in one place, where some of its sizes and numbers are others."""
    if _is_symbol(x) or x is S.One:
        return change.get(x, x)
    sizes = [change.get(s, s) for s in sizes_in(x)]
    if isinstance(x, Family):
        return Family(x.name, x.kind, sizes)
    if isinstance(x, Index):
        return Index(x.name, *sizes)
    return (mask if is_mask(x) else matrix)(x.params[0].name, *sizes)


def _taken_by_both(name, x, y, size):
    """A letter of the kind that two templates take in one place."""
    sizes = [size(s) for s in sizes_in(x)]
    if isinstance(x, Family):
        return Family(name, x.kind, sizes)
    if isinstance(x, Index):
        return Index(name, *sizes)
    if _is_symbol(x) or x is S.One:
        if S.One in (x, y):
            return S.One
        as_size = _is_size(x) or _is_size(y)
        return (sizes or [_fresh_size(name) if as_size else sp.Symbol(name, real=True)])[0]
    return (mask if is_mask(x) or is_mask(y) else matrix)(name, *sizes)


def class_of_slot(x):
    return next((kind for kind in (Expression, Family, Index) if isinstance(x, kind)), sp.Symbol)
