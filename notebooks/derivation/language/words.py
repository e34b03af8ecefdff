"""Words of the book as words of the kernel: functions of everything on which they depend.

A word takes the functions that its body names, its sizes, its matrices, its parameters, and the
position of the entry.  Nothing here is trusted.
"""

from __future__ import annotations

import sympy as sp

from ..kernel import terms as k
from ..kernel.terms import ONLY, ProofError, Term
from ..printing.notation import in_the_kernel
from .letters import Family, Index, eta, is_size, letter, scalar_letter, scalar_term, size_term
from .symbols import mask

#: The letters for the step of a recursion and for the previous row, while its body is read.
STEP = sp.Symbol("stepʼnumber", integer=True, positive=True)
BEFORE = "rowʼbefore"


class Generic:
    """The letters that a word is read with: matrices of one shape, and scalars."""

    def __init__(self, expressions, scalars):
        m, n = sp.symbols("m n", integer=True, positive=True)
        self.sizes = {m, n}
        self.args = [mask(f"argumentʼ{k}", m, n) for k in range(expressions)]
        self.params = [sp.Symbol(f"parameterʼ{k}", real=True) for k in range(scalars)]


class Definition:
    """The kernel's word for a template: letters, parameters, and an entry made of them.

    ``template`` has ``sizes``, ``args`` (letters) and ``params``; ``entry(i, j)`` is its entry.
    """

    def __init__(self, name, template, shape, entry):
        self._read(template)
        at = self._places(shape)
        body = entry(*at)
        self._functions = _functions_in(body)
        self.term = Term("word", in_the_kernel(name), self._closed(body, self._named(at)))

    def _read(self, template):
        self._sizes = sorted(template.sizes, key=str)
        self._letters = [x.params[0] for x in template.args]
        self._params = template.params

    @staticmethod
    def _places(shape):
        return [ONLY if s == 1 else k.fresh(k.pos(size_term(s)))
                for s in shape]  # fmt: skip

    @staticmethod
    def _named(at):
        return [k.fresh(k.pos(k.UNIT)) if p == ONLY else p for p in at]

    def _closed(self, body, more):
        """The body as a function of all that it uses: matrices of any kind, and any numbers."""
        own = {x: _of_any_kind(x) for x in [*[f.term for f in self._letters], *self._data()]}
        sizes = map(size_term, self._sizes)
        letters = [*self._functions, *sizes, *own.values(), *more]
        return k.abstract(letters, k.put(body, own))

    def _data(self):
        """The letters of the parameters that are not sizes."""
        kept = [p for p in self._params if not is_size(p)]
        return [p.term if isinstance(p, (Family, Index)) else scalar_letter(p) for p in kept]

    def applied(self, x, i, j):
        """The entry (i, j) of an expression that applies this word."""
        return Term("app", self.term, *self._arguments(x, x.params), i, j)

    def _arguments(self, x, params):
        """What replaces the functions, sizes, letters and parameters."""
        meant = {}
        for mine, y in zip(self._letters, x.args):
            meant |= dict(zip(mine.sizes, y.axes))
        found = [y.function for y in x.args]
        for mine, p in zip(self._params, params):
            if isinstance(mine, Family):
                meant |= dict(zip(mine.sizes, p.sizes))
                found.append(p.function)
            elif isinstance(mine, Index):
                meant[mine.size] = p.size
                found.append(p.term)
            elif is_size(mine):
                meant[mine] = p
            else:
                found.append(scalar_term(p))
        return [*map(eta, self._functions), *[size_term(meant[s]) for s in self._sizes], *found]


class RecursiveDefinition(Definition):
    """A row defined by recursion over the natural numbers, as a recursion of the kernel."""

    def __init__(self, name, template):
        self._read(template)
        at = self._places(template.result.axes)
        width, row = template.result.axes[1], template.before.params[0].term
        before = letter(row.args[0], k.fun(k.pos(size_term(width))))
        as_one = Term("abs", Term("app", before, Term("var", 0)), *row.args[1].args[2:])
        start = template.result.entry(*at)
        after = k.put(template.after.entry(*at), {row: as_one})
        self._functions = _functions_in(start, after)
        places = self._named(at)[1:]
        start, after = (
            self._closed(start, places), self._closed(after, [*places, size_term(STEP), before])
        )  # fmt: skip
        self.term = Term("rec", name, start, after)

    def applied(self, x, i, j):
        t, *params = x.params
        return Term("app", self.term, size_term(t), *self._arguments(x, params), j)


def _functions_in(*bodies):
    """The letters in these bodies that denote arbitrary functions of one number."""
    letters = frozenset().union(*[body.letters for body in bodies])
    return sorted((x for x in letters if x.args[1] == k.fun(k.NUM)), key=lambda x: x.args[0])


def _of_any_kind(x):
    name, sort = x.args
    if sort.op == "NUM":
        return letter(name, k.NUM)
    if sort.op == "DRAW":
        raise ProofError(f"{name} is a draw, which cannot be a parameter of a definition")
    return letter(name, Term("FUN", "any", *sort.args[1:])) if sort.op == "FUN" else x
