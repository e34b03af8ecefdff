"""Words that a reader defines: abbreviations and recursions.

At its first use, a definition is called with letters that stand for arbitrary arguments, and the
result is stored as a template (`Template`).  Each use puts its arguments into the template, where
no binder captures them.  A definition therefore hides nothing, cannot change, and
means the same for every argument.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp
from sympy import S
from sympy.core.symbol import Str

from ..printing.styles import ATOM
from .omitted_arguments import show_call, shown_slots
from .letters import as_size, check_word, show_number
from .matrices import Expression
from .operations import DERIVATIVE, OVER, TABULATED, NotRun, Operation, known
from .templates import Template
from .vocabulary import Word, parameter_of, taken_by
from .words import Definition, RecursiveDefinition


def define(name, body, shown=None):
    """A word that abbreviates an expression: ``define("attention", lambda Q, K, V, tau: …)``.

    The body must be closed: every letter, scalar, permutation and free index in it is an argument
    (expressions come first).  It must be one formula: it may not compare its arguments, and may use
    their ``shape`` only to write matrices.  ``shown`` is the number of arguments to print, for
    words with many weights.
    """
    return _Abbreviation(name, body, shown)


@dataclass(frozen=True, eq=False)
class _Defined(Operation):
    """An operation that a reader has defined; ``term`` is the kernel's word.

    ``rows(x, t)`` writes out a recursion up to t, for evaluation.
    """

    term: object = None
    rows: object = None


class _Abbreviation(Word):
    """A word whose body is read at its first use, when the sorts of its arguments are known."""

    def __init__(self, name, body, shown):
        check_word("a word", name)
        self.name, self._body, self.shown = name, body, shown
        self._template = self._operation = None

    def __call__(self, *arguments):
        args, params = taken_by(self.name, arguments)
        if self._template is None:
            template = Template(self.name, args, params, self._body)
            self._template, self._operation = template, self._made(template)
        made = Expression(self._operation, args, params)
        self._template.read_again(args, params)
        return made

    def _made(self, template):
        def expand(x):
            return template.filled(template.result, x.args, x.params)

        body = template.result
        definition = Definition(self.name, template, body.axes, body.entry)
        operation = _Defined(
            self.name, axes=template.axes, takes=None, entry=definition.applied, expand=expand, word=self,
            run=lambda x, sample: expand(x).run(sample), term=definition.term,
            show=lambda x, style, show: (show_call(x, style, show), ATOM),
        )  # fmt: skip
        return known(operation)

    @property
    def operations(self):
        """The operations that ``unfold(self)`` unfolds: none before the first use."""
        return frozenset({self._operation} - {None})

    @property
    def terms(self):
        """The words of the kernel that ``unfold(self)`` unfolds: none before the first use."""
        return [operation.term for operation in self.operations]


def recursion(name, first, step):
    """Define rows by recursion: the row at 1, and the row at t + 1 from the row at t.

    ``first(*data)`` and ``step(previous, t, *data)`` return one row; data are sequences, heads or
    scalars.  Call the result as ``name(t, *data)``.
    """
    return _Recursion(name, first, step)


class _Recursion(_Abbreviation):
    places = 1

    def __init__(self, name, first, step):
        super().__init__(name, first, None)
        self._step = step

    def __call__(self, t, *data):
        params = [parameter_of(self.name, a) for a in data]
        if self._template is None:
            template = Template(self.name, (), params, self._body, self._step)
            self._template, self._operation = template, self._made(template)
        made = Expression(self._operation, (), (as_size(t), *params))
        self._template.read_again((), params, made.params[0])
        return made

    def _made(self, template):
        definition = RecursiveDefinition(self.name, template)

        def axes(args, params, wanted):
            return template.axes(args, params[1:])

        def rows(x, t):
            """Yield (None, the row at 1), then (row before, row after) for each step up to t."""
            _, *params = x.params
            yield None, template.filled(template.result, (), params)
            for at in range(1, t):
                before = Expression(_VALUE, params=[S(at), Str(self.name)], wanted=x.axes)
                yield before, template.filled(template.after, (), params, S(at), before)

        binds = {OVER, DERIVATIVE, TABULATED} & template.after.operations()

        def run(x, sample):
            if binds:
                raise NotRun(f"the step of {self.name} contains an index form, a sum or a slope")
            row = None
            for before, after in rows(x, sample.size(x.params[0])):
                row = after.run(sample if before is None else sample.holding(before, row))
            return row

        operation = _Defined(
            self.name, axes=axes, takes=None, entry=definition.applied, run=run, word=self,
            show=self._show, term=definition.term, rows=rows,
        )  # fmt: skip
        return known(operation)

    def always_shows(self, k, slot):
        """Whether an argument is a scalar; scalars are always printed."""
        return isinstance(slot, sp.Expr)

    def _show(self, x, style, show):
        """The printed row with its position, and with the data on which it depends."""
        row = style.at(style.name(self.name), show_number(style, x.params[0]))
        pieces = shown_slots(x, style, show)
        return f"{row}({', '.join(pieces)})" if pieces else row, ATOM


#: The previous row while a recursion runs; its value is in the sample.
_VALUE = Operation(
    "value",
    takes=None,
    axes=lambda args, params, wanted: wanted,
    entry=None,
    run=lambda x, sample: sample.values[x],
    show=None,
)
