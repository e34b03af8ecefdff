"""Words that the reader defines: abbreviations and recursions.

A definition is read once, on fresh letters of the shapes it is first used with, and kept as
that template; every use puts its arguments into the template by a capture-avoiding
substitution.  So a definition can hide nothing, cannot change after it has been used, and
means the same for every argument.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import sympy as sp
from sympy import S
from sympy.core.symbol import Str

from .justify import same
from .kernel.terms import ProofError
from .letters import Join, as_size, check_word
from .matrices import Expression, _shape
from .notation import KIND
from .operations import DERIVATIVE, OVER, TABULATED, Operation, known
from .printing import ATOM, show_call, show_number, shown_slots
from .templates import Template, class_of_slot, shared, sizes_in
from .vocabulary import Word, argument_of, parameter_of
from .words import Definition, RecursiveDefinition


def define(name, body, shown=None):
    """A word that abbreviates an expression: ``define("attention", lambda Q, K, V, tau: …)``.

    The body must be closed: every letter, scalar, permutation and free index in it comes in as
    an argument, expressions first.  ``shown`` prints that many arguments only, for words with
    many weights.
    """
    return _Abbreviation(name, body, shown)


@dataclass(frozen=True, eq=False)
class _Defined(Operation):
    """An operation that a reader has defined; ``term`` is the kernel's word.

    ``rows(x, t)`` writes out a recursion up to t, for who evaluates it.
    """

    term: object = None
    rows: object = None


def _kernel_name(word):
    """A word of the kernel for each kind of arguments, told apart by a number."""
    return word.name + (f"{KIND}{len(word._known) + 1}" if word._known else "")


def _refuse_another(name, meant, filled):
    """A body must say here what its template says: a branch in Python, or a change, would be lost."""
    if meant != filled and not (type(meant) is Expression and same(meant, filled)):
        raise ProofError(
            f"the definition of {name} is another here: a definition is one formula, and cannot "
            "branch or change"
        )


def _refuse_branches(name, template, body):
    """Reads a body once more wherever it may branch; what cannot be read there branches nowhere."""
    for args, params in template.special_cases():
        try:
            meant = body(*args, *map(argument_of, params))
            filled = template.filled(template.result, args, params)
        except (ProofError, ArithmeticError, TypeError):
            continue
        _refuse_another(name, meant, filled)


def _refuse_mixture(name, template, earlier):
    """A number, a position and a matrix of one entry print alike: one word takes one of them."""
    slots = zip([*template.args, *template.params], [*earlier.args, *earlier.params])
    if any(class_of_slot(x) != class_of_slot(y) for x, y in slots):
        raise ProofError(f"{name} takes a number here and a matrix there: define two words")


class _Abbreviation(Word):
    def __init__(self, name, body, shown):
        check_word("a word", name)
        self.name, self._body, self.shown, self._known = name, body, shown, []

    def __call__(self, *arguments):
        args = list(itertools.takewhile(lambda a: isinstance(a, Expression), arguments))
        params = [parameter_of(self.name, a) for a in arguments[len(args) :]]
        for template, operation in self._known:
            if template.same_kind(args, params):
                filled = template.filled(template.result, args, params)
                _refuse_another(self.name, self._body(*args, *map(argument_of, params)), filled)
                return Expression(operation, args, params, filled.shape)
        template = Template(self.name, args, params, self._body)
        _refuse_branches(self.name, template, self._body)
        for earlier, _ in self._known:
            _refuse_mixture(self.name, template, earlier)
            if both := shared(template, earlier):
                bodies = (each.filled(each.result, *both) for each in (template, earlier))
                _refuse_another(self.name, *bodies)
        self._known.append((template, self._operation(template)))
        return self(*arguments)

    def _operation(self, template):
        def expand(x):
            return template.filled(template.result, x.args, x.params)

        body = template.result
        definition = Definition(_kernel_name(self), template, body.shape, body.entry)
        operation = _Defined(
            self.name,
            entry=definition.applied,
            run=lambda x, sample: expand(x).run(sample),
            show=lambda x, style, show: (show_call(x, style, show), ATOM),
            build=self, expand=expand, word=self, term=definition.term,
        )  # fmt: skip
        return known(operation)

    @property
    def operations(self):
        """The operations that unfolding this word unfolds: one for each kind of arguments."""
        return frozenset(operation for *_, operation in self._known)

    @property
    def terms(self):
        """The words of the kernel that unfolding this word unfolds."""
        return [operation.term for operation in self.operations]


def recursion(name, first, step):
    """A row defined along the natural numbers: its value at 1, and at t + 1 from that at t.

    ``first(*data)`` and ``step(previous, t, *data)`` are expressions of one row; data are
    sequences, heads or scalars.  Call the result as ``name(t, *data)``.
    """
    return _Recursion(name, first, step)


class _Recursion(_Abbreviation):
    def __init__(self, name, first, step):
        check_word("a word", name)
        self.name, self._first, self._step, self._known = name, first, step, []

    def __call__(self, t, *data):
        t, params = as_size(t), [parameter_of(self.name, a) for a in data]
        for first, step, operation in self._known:
            if first.same_kind((), params):
                self._refuse_another(first, step, params, (_STEP, *_parts(t)))
                shape = first.filled(first.result, (), params).shape
                return Expression(operation, (), (t, *params), shape)
        first = Template(self.name, (), params, self._first)
        shape = first.result.shape
        if shape[0] != 1:
            raise ProofError(
                f"{self.name} must be a row, not a matrix of shape {_shape(first.result)}"
            )
        width = first.filled(first.result, (), params)
        step = Template(self.name, (width,), (_STEP, *params), self._step)
        self._refuse_branches(first, step)
        if step.result.shape != step.args[0].shape:
            raise ProofError(
                f"{self.name} must stay a row of one shape: its step makes {_shape(step.result)}"
            )
        for start, after, _ in self._known:
            _refuse_mixture(self.name, first, start)
            if both := shared(first, start):
                _refuse_another(self.name, *(x.filled(x.result, *both) for x in (first, start)))
                row = first.filled(first.result, *both)
                given = (row,), (_STEP, *both[1])
                _refuse_another(self.name, *(x.filled(x.result, *given) for x in (step, after)))
        self._known.append((first, step, self._operation(first, step)))
        return self(t, *data)

    def _refuse_another(self, first, step, params, places):
        """Compares the start, and the step from these places on, with those of the template."""
        data, start = [*map(argument_of, params)], first.filled(first.result, (), params)
        _refuse_another(self.name, self._first(*data), start)
        for t in places:
            after = step.filled(step.result, (start,), (t, *params))
            _refuse_another(self.name, self._step(start, t, *data), after)

    def _refuse_branches(self, first, step):
        """Reads start and step once more wherever they may branch."""
        _refuse_branches(self.name, first, self._first)
        _refuse_branches(self.name, step, self._step)
        start = first.filled(first.result, (), first.params)
        row, data = step.args[0], first.params
        sizes = {s for x in [row, *data] for s in sizes_in(x) if s is not S.Naturals}
        for t in (S(1), S(2), S(3), *sizes):
            try:
                meant = self._step(start, t, *map(argument_of, data))
                filled = step.filled(step.result, (start,), (t, *data))
            except (ProofError, ArithmeticError, TypeError):
                continue
            _refuse_another(self.name, meant, filled)

    def _operation(self, first, step):
        def after(row, t):
            return step.filled(step.result, (row,), (t, *first.params)).entry

        definition = RecursiveDefinition(
            _kernel_name(self), first, first.result.shape, first.result.entry, after
        )

        def rows(x, t):
            """What the row is at 1, and at each step up to t, made of the row before: pairs."""
            _, *params = x.params
            yield None, first.filled(first.result, (), params)
            for at in range(1, t):
                before = Expression(_VALUE, params=[S(at), Str(self.name)], shape=x.shape)
                yield before, step.filled(step.result, (before,), (S(at), *params))

        binds = {OVER, DERIVATIVE, TABULATED} & step.result.operations()

        def run(x, sample):
            if binds:
                from .torch_runs import NotRun  # which reads what is defined here

                raise NotRun(f"the step of {self.name} holds an index form, a sum or a slope")
            row = None
            for before, after in rows(x, sample.size(x.params[0])):
                row = after.run(sample if before is None else sample.holding(before, row))
            return row

        operation = _Defined(
            self.name, entry=definition.applied, run=run, build=self, word=self, show=self._show,
            term=definition.term, rows=rows,
        )  # fmt: skip
        return known(operation)

    places = 1

    def always_shows(self, k, slot):
        """Scalars: they may be meant to vary."""
        return isinstance(slot, sp.Expr)

    def _show(self, x, style, show):
        """The row at its place, and the data that it depends on."""
        row = style.at(style.name(self.name), show_number(style, x.params[0]))
        pieces = shown_slots(x, style, show)
        return f"{row}({', '.join(pieces)})" if pieces else row, ATOM


def _parts(t):
    """A place, and what it is joined of."""
    return (t, *(part for p in t.args for part in _parts(p))) if isinstance(t, Join) else (t,)


#: The step of a recursion, where it is read.
_STEP = sp.Symbol("t", integer=True, positive=True)
#: A row whose value is already known, while a recursion is run.
_VALUE = Operation("value", entry=None, run=lambda x, sample: sample.values[x], show=None)
