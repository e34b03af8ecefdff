"""Find sizes of ones, zeros, identities and tables that nothing else in a printed line shows.

Readers know the shapes of the letters of a line, and the sizes of all that must conform with them.
Every other size is printed in one place of the line, as in exp(0[n×m]) exp(0) = m 11ᵀ.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import sympy as sp

from .. import kernel as k
from ..printing import is_a_place_of_a_letter
from . import operations as ops

if TYPE_CHECKING:  # `matrices` prints with this module
    from .matrices import Expression

#: Operations whose printed form is the same at every size.
_SILENT = (ops.ONES, ops.ZEROS, ops.IDENTITY, ops.CAUSAL, ops.TABULATED)


def telling_sizes(
    *expressions: Expression, all_of_them: bool = False, beside: Iterable = (), sizes: Iterable = ()
) -> tuple:
    """The same expressions, of one shape, with sizes printed where nothing else shows them.

    A line is true whatever the sizes of its sides, so these are printed only if an expression
    ``beside`` the line, or a condition with these ``sizes``, contains them.  A hypothesis holds
    only for its own shape, so for its sides a caller passes ``all_of_them``.
    """
    axes = _Axes()
    axes.scalars |= set(sizes)
    for part in (part for x in beside for part in x.walk()):
        axes.scalars |= {s for x in (*part.axes, *part.params) for s in x.atoms(sp.Symbol)}
    for root, x in enumerate(expressions):
        axes.read(x, (root,))
        for axis in (0, 1):
            axes.same(((root,), axis), ((0,), axis))
    told = axes.to_say(all_of_them)
    return tuple(_saying(x, (root,), told) for root, x in enumerate(expressions))


class _Axes:
    """The axes (path, 0 for rows or 1 for columns), united where the text shows equal sizes."""

    def __init__(self):
        self.above, self.sizes, self.silent = {}, {}, []
        self.told, self.scalars = set(), set()

    def same(self, one, other):
        """Record that printed text shows two axes to have the same size."""
        self.above[self.find(one)] = self.find(other)

    def find(self, axis):
        """The representative of all axes that are united with this one."""
        while self.above.get(axis, axis) != axis:
            axis = self.above[axis]
        return axis

    def read(self, x, path, transposed=False):
        """Record all axes of an expression and of its parts."""
        self.sizes |= {(path, axis): size for axis, size in enumerate(x.axes)}
        self.scalars.update(*[p.atoms(sp.Symbol) for p in x.params])
        below = [(*path, at) for at in range(len(x.args))]
        for y, there in zip(x.args, below):
            self.read(y, there, x.operation is ops.TRANSPOSE)
        for one, other in _LINKS.get(x.operation, _axis_by_axis)(x, path, below):
            self.same(one, other)
        single = x.operation is ops.ONES and x.axes == (1, 1)  # prints as the number 1
        if x.operation in (ops.STACK, ops.LAST_ROW):
            self.told.add((path, 0))
        elif x.operation.expand or not x.args and x.operation not in _SILENT:
            self.told |= {(path, 0), (path, 1)}  # a word's definition and arguments show its sizes
        elif x.operation in _SILENT and (transposed or not single):
            self.silent.append(path)  # 1ᵀ without its size would be read as a row
            self.told |= {(path, k) for k in (0, 1) if not single and _shows_itself(x, k)}

    def to_say(self, all_of_them):
        """{path: the axes whose size has to be printed at this path}."""
        told, found = {self.find(axis) for axis in self.told}, {}
        for path in sorted(self.silent):
            for axis in (0, 1):
                united = self.find((path, axis))
                if united not in told and (all_of_them or not self._is_any_size(united)):
                    found.setdefault(path, set()).add(axis)
                    told.add(united)
        return found

    def _is_any_size(self, united):
        """Whether the size belongs to a whole side and nothing else in the text depends on it."""
        size = self.sizes[united]
        others = {s for axis, s in self.sizes.items() if self.find(axis) != united}
        mentioned = self.scalars.union(*[s.free_symbols for s in others])
        outer = united in {self.find(((0,), axis)) for axis in (0, 1)}
        return outer and size.is_Symbol and size not in mentioned


def _axis_by_axis(x, path, below):
    if x.operation.expand:
        return []  # the arguments of a reader's word need not conform
    return [((path, axis), (y, axis)) for y in below for axis in (0, 1)]


def _chained(x, path, below):
    inner = [((p, 1), (q, 0)) for p, q in zip(below, below[1:])]
    return [((path, 0), (below[0], 0)), ((path, 1), (below[-1], 1)), *inner]


_LINKS = {
    ops.PRODUCT_OF: _chained,
    ops.TRANSPOSE: lambda x, path, below: [((path, k), (below[0], 1 - k)) for k in (0, 1)],
    ops.DIAG: lambda x, path, below: [((path, k), (below[0], 0)) for k in (0, 1)],
    ops.STACK: lambda x, path, below: [((path, 1), (y, 1)) for y in below],
    ops.LAST_ROW: lambda x, path, below: [((path, 1), (below[0], 1))],
    ops.IDENTITY: lambda x, path, below: [((path, 0), (path, 1))],
    ops.CAUSAL: lambda x, path, below: [((path, 0), (path, 1))],
}


def _shows_itself(x, axis):
    """Whether x prints so that this size is clear: it is 1, or a letter in a table shows it."""
    if x.operation is ops.ONES:
        return x.axes[axis] == 1
    if x.operation is not ops.TABULATED:
        return False
    body, marks = k.looked_into(x.params[0].function)
    return x.axes[axis] == 1 or is_a_place_of_a_letter(marks[axis], body)


def _saying(x, path, told):
    if path in told:
        return type(x)(ops.SIZED, [x], [*map(sp.Integer, sorted(told[path]))])
    args = [_saying(y, (*path, at), told) for at, y in enumerate(x.args)]
    unchanged = all(y is z for y, z in zip(args, x.args))
    return x if unchanged else type(x)(x.operation, args, x.params, x.axes)
