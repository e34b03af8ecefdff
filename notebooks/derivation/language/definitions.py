"""Words with definitions: those of the book's vocabulary, a reader's abbreviations, recursions.

At its first use, a reader's definition is called with letters that stand for arbitrary arguments,
and the result is stored as a `Template`.  Each use puts its arguments into the template, where no
binder captures them.  A definition therefore hides nothing, cannot change, and means the same for
every argument.  Nothing here is trusted.
"""

import functools
from collections.abc import Callable
from typing import Any

import sympy as sp
from sympy import S
from sympy.core.symbol import Str

from .. import kernel as k
from ..kernel import ONLY, Term, must
from ..printing import ATOM, in_the_kernel
from .index_forms import Number, Position
from .letters import (Family, as_size, check_word, eta, is_size, kernel_letter, letter, scalar_term,
                      show_number, size_term)  # fmt: skip
from .matrices import Expression
from .layout import show_call, shown_slots
from .operations import DERIVATIVE, OVER, TABULATED, NotRun, Operation, alike, known, never
from .symbols import mask, parameter_of, sizes_in, taken_by
from .templates import STEP, Template


class Word:
    """An operation with a definition: call it to build an expression, or unfold it in a line.

    Expressions come first in a call, then parameters (scalars, positions, heads, sequences).
    Each word has its own identity: a second word with the same name does not affect earlier proofs.
    """

    shown = None  # the number of arguments that are always printed; None for all
    places = 0  # how many leading parameters select a row and are printed outside the call

    def __init__(self, name, takes, shape, written, **parts):
        self.name, self._takes, self._written = name, takes, written
        self._operation = Operation(
            name, axes=shape, takes=(takes[0], *[sp.Expr] * takes[1]), word=self,
            entry=lambda x, i, j: self._definition.applied(x, i, j), **parts,
        )  # fmt: skip

    @functools.cached_property
    def _definition(self):
        generic = _AnyArguments(*self._takes)
        x = Expression(self._operation, generic.args, generic.params)
        return _Function(self.name, generic, x.axes, lambda i, j: self._written(x, i, j))

    def __setattr__(self, name, value):
        if "_operation" in vars(self) and not name.startswith("_"):
            raise AttributeError(f"the word {self.name} keeps its {name}")
        super().__setattr__(name, value)

    def __call__(self, *arguments):
        return Expression(self._operation, *taken_by(self.name, arguments))

    def always_shows(self, k, slot):
        """Whether the k-th argument of a call is always printed."""
        return isinstance(slot, Expression) and (self.shown is None or k < self.shown)

    @property
    def terms(self):
        """The words of the kernel that ``unfold(self)`` unfolds: none before the first use."""
        return [] if self._operation is None else [self._definition.term]

    def __repr__(self):
        return f"<the word {self.name}>"


def word(name, entry, run, takes=(1, 0), show=None, needs=lambda x: (), shape=None, doc=None):
    """Return a word with its entry and its torch code; readers have to check that these agree.

    ``entry(x, i, j, *entries)`` receives the expression x and the entries of its arguments as
    functions of two positions, and returns a ``Number``; ``run(*tensors, *scalars)`` computes in
    torch; ``takes`` gives the numbers of expressions and of scalars in a call.
    """

    def written(x, i, j):
        entries = [lambda p, q, y=y: Number(y.entry(p.place, q.place), frozenset()) for y in x.args]
        return entry(x, Position.of(i), Position.of(j), *entries).term

    def run_on(x, sample):
        return run(*[y.run(sample) for y in x.args], *[sample.scalar(p) for p in x.params])

    shape, show = shape or alike("and"), show or show_call
    made = Word(name, takes, shape, written, run=run_on, show=show, needs=needs)
    made.__doc__ = doc
    return made


def define(name: str, body: Callable, shown: int | None = None) -> Word:
    """A word that abbreviates an expression: ``define("attention", lambda Q, K, V, tau: …)``.

    The body must be closed: every letter, scalar, permutation and free index in it is an argument
    (expressions come first).  It must be one formula: it may not compare its arguments, and may use
    their ``shape`` only to write matrices.  ``shown`` is the number of arguments to print, for
    words with many weights.
    """
    return _Abbreviation(name, body, shown)


class _Abbreviation(Word):
    """A word whose body is read at its first use, when the sorts of its arguments are known."""

    def __init__(self, name, body, shown=None, step=None):
        check_word("a word", name)
        self.name, self._body, self.shown, self._step = name, body, shown, step
        self._template: Any = None
        self._operation: Any = None

    def __call__(self, *arguments):
        return self._called(*taken_by(self.name, arguments))

    def _called(self, args, params, at=()):
        if self._template is None:
            template = Template(self.name, args, params, self._body, self._step)
            self._definition = self._defined_by(self.name, template)
            self._template, self._operation = template, known(self._made(template))
        made = Expression(self._operation, args, (*at, *params))
        self._template.read_again(args, params, *at)
        return made

    def _defined_by(self, name, template):
        return _Function(name, template, template.result.axes, template.result.entry)

    def _made(self, template):
        def expand(x):
            return template.filled(template.result, x.args, x.params)

        return Operation(
            self.name, takes=None, axes=template.axes, entry=self._definition.applied, word=self,
            run=lambda x, sample: expand(x).run(sample), show=show_call, expand=expand,
        )  # fmt: skip


def recursion(name: str, first: Callable, step: Callable) -> Word:
    """Define rows by recursion: the row at 1, and the row at t + 1 from the row at t.

    ``first(*data)`` and ``step(previous, t, *data)`` return one row; data are sequences, heads or
    scalars.  Call the result as ``name(t, *data)``.
    """
    return _Recursion(name, first, step=step)


class _Recursion(_Abbreviation):
    places = 1

    def __call__(self, t, *data):
        return self._called((), [parameter_of(self.name, a) for a in data], (as_size(t),))

    _defined_by = lambda self, name, template: _Recursive(name, template)

    def _made(self, template):
        binds = {OVER, DERIVATIVE, TABULATED} & template.after.operations()

        def run(x, sample):
            if binds:
                raise NotRun(f"the step of {self.name} contains an index form, a sum or a slope")
            _, *params = x.params
            row = template.filled(template.result, (), params).run(sample)
            for at in range(1, sample.size(x.params[0])):
                before = Expression(_VALUE, params=[S(at), Str(self.name)], wanted=x.axes)
                after = template.filled(template.after, (), params, S(at), before)
                row = after.run(sample.holding(before, row))
            return row

        return Operation(
            self.name, takes=None, axes=lambda args, params, wanted: template.axes(args, params[1:]),
            entry=self._definition.applied, run=run, show=self._show, word=self,
        )  # fmt: skip

    always_shows = lambda self, k, slot: isinstance(slot, sp.Expr)

    def _show(self, x, style, show):
        """The printed row with its position, and with the data on which it depends."""
        row = style.at(style.name(self.name), show_number(style, x.params[0]))
        pieces = shown_slots(x, style, show)
        return f"{row}({', '.join(pieces)})" if pieces else row, ATOM


#: The previous row while a recursion runs; its value is in the sample.
_VALUE = Operation("value", takes=None, axes=lambda args, params, wanted: wanted, entry=never,
    run=lambda x, sample: sample.values[x], show=never)  # fmt: skip


class _AnyArguments:
    """The letters with which a word of the book is read: matrices of one shape, and scalars."""

    def __init__(self, expressions, scalars):
        m, n = sp.symbols("m n", integer=True, positive=True)
        self.sizes = {m, n}
        self.args = [mask(f"argumentʼ{k}", m, n) for k in range(expressions)]
        self.params = [sp.Symbol(f"parameterʼ{k}", real=True) for k in range(scalars)]


class _Function:
    """A word as the kernel's function of everything on which an entry depends.

    These are the functions that its body names, its sizes, its matrices, its parameters, and the
    position of the entry.  ``template`` has ``sizes``, ``args`` (letters) and ``params``;
    ``entry(i, j)`` is its entry.
    """

    def __init__(self, name, template, shape, entry):
        self._template, at = template, _places(shape)
        body = entry(*at)
        self._functions = _functions_in(body)
        self.term = Term("word", in_the_kernel(name), self._closed(body, _named(at)))

    def _closed(self, body, more):
        """The body as a function of all that it uses: matrices of any kind, and any numbers."""
        numbers = [kernel_letter(p) for p in self._template.params if not is_size(p)]
        letters = [*[x.params[0].term for x in self._template.args], *numbers]
        own = {x: _of_any_kind(x) for x in letters}
        free = [*self._functions, *map(size_term, self._sizes()), *own.values(), *more]
        return k.abstract(free, k.put(body, own))

    _sizes = lambda self: sorted(self._template.sizes, key=str)

    def applied(self, x, i, j):
        """The entry (i, j) of an expression that applies this word."""
        return Term("app", self.term, *self._arguments(x, x.params), i, j)

    def _arguments(self, x, params):
        """What replaces the functions, sizes, letters and parameters."""
        sizes, found = {}, []
        for mine, y in zip([*self._template.args, *self._template.params], [*x.args, *params]):
            sizes |= dict(zip(sizes_in(mine), sizes_in(y)))
            if isinstance(y, (Expression, Family)):
                found.append(y.function)
            elif not is_size(mine):
                found.append(y.term if hasattr(y, "term") else scalar_term(y))
        return [*map(eta, self._functions), *[size_term(sizes[s]) for s in self._sizes()], *found]


class _Recursive(_Function):
    """A row defined by recursion over the natural numbers, as a recursion of the kernel."""

    def __init__(self, name, template):
        self._template, at = template, _places(template.result.axes)
        width, row = template.result.axes[1], template.before.params[0].term
        before = letter(row.args[0], k.fun(k.pos(size_term(width))))
        as_one = Term("abs", Term("app", before, Term("var", 0)), *row.args[1].args[2:])
        start = template.result.entry(*at)
        after = k.put(template.after.entry(*at), {row: as_one})
        self._functions = _functions_in(start, after)
        places = _named(at)[1:]
        after = self._closed(after, [*places, size_term(STEP), before])
        self.term = Term("rec", name, self._closed(start, places), after)

    def applied(self, x, i, j):
        t, *params = x.params
        return Term("app", self.term, size_term(t), *self._arguments(x, params), j)


_places = lambda shape: [ONLY if s == 1 else k.fresh(k.pos(size_term(s))) for s in shape]
_named = lambda at: [k.fresh(k.pos(k.UNIT)) if p == ONLY else p for p in at]


def _functions_in(*bodies):
    """The letters in these bodies that denote arbitrary functions of one number."""
    letters = frozenset().union(*[body.letters for body in bodies])
    return sorted((x for x in letters if x.args[1] == k.fun(k.NUM)), key=lambda x: x.args[0])


def _of_any_kind(x):
    name, sort = x.args
    must(sort.op != "DRAW", "{} is a draw, which cannot be a parameter of a definition", name)
    if sort.op == "FUN":
        return letter(name, Term("FUN", "any", *sort.args[1:]))
    return letter(name, k.NUM) if sort.op == "NUM" else x
