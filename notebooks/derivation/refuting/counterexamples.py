"""Find a smallest exact instance in which a claim is false.

"Not proved" does not mean "false": only an instance refutes a claim.  The search tries small sizes
first and, for each size, entries with few non-zeros; exact numbers then confirm what it has found.
"""

import itertools
import math
import sys
import time
from textwrap import wrap

import sympy as sp
from sympy.printing.str import StrPrinter

from .. import kernel as k
from ..kernel import must
from ..printing import Latex, Text, check_words, superscript
from ..language import (Bijection, Expression, Family, aligned, brief_words, check_names,
                        equation_rows, expression, kept_back_in, kernel_letter, number,
                        telling_sizes)  # fmt: skip
from .evaluation import EXACT, FLOAT, Instance, TooLong, Undefined

SIZES = (1, 2, 3)
ENTRIES = (0, 1, -1, 2)
SCALARS = (1, 2, -1)
LARGEST = 24  # the largest cost that the search tries; `_Search.instances` defines the cost
MOST_INSTANCES = 6_000
MOST_STEPS = 1_000_000  # the most steps of the interpreter in one search, about three seconds
MOST_ENTRIES = 200  # the most entries in total of matrices whose sizes are plain numbers
WIDEST_WORDS = 48  # the most characters in a row of words that fits on a phone
MOST_PLACES = 10**4  # the most entries at which the two sides are compared


class NoCounterexample:
    """The result of a search that found nothing; its truth value is False."""

    def __init__(self, tried):
        self.tried = tried

    __bool__ = lambda self: False

    def __repr__(self):
        if not self.tried:
            return "No counterexample was found: no instance could be evaluated."
        return f"No counterexample among the first {self.tried} instances; that is not a proof."


class Counterexample:
    """Sizes, entries and both exact values of an instance in which lhs and rhs differ.

    Attributes: ``sizes`` and ``values`` (names to exact values), ``at`` (the entry at which the sides
    differ, counted from 1), ``lhs`` and ``rhs`` (the two exact numbers), ``without`` (the dropped
    hypothesis, in words).
    """

    def __init__(self, sizes, values, at, lhs, rhs, claim):
        self.sizes, self.values, self.at, self.claim = sizes, values, at, claim
        self.lhs, self.rhs, self.without = lhs, rhs, ""

    def _parts(self, style):
        """(the sizes, the values, how the sides differ, how draws are distributed)."""
        sizes = [f"{style.name(k)} = {v}" for k, v in self.sizes.items()]
        values = [f"{style.name(k)} = {_show_value(style, v)}" for k, v in self.values.items()]
        shown = sp.latex if isinstance(style, Latex) else _plain
        differ = style.unequal.join(map(shown, (self.lhs, self.rhs)))
        if self.at != (1, 1):
            differ += style.text(f" at row {self.at[0]}, column {self.at[1]}")
        families = set().union(*[x.atoms(Family) for x in self.claim])
        names = ", ".join(sorted(style.name(f.name) for f in families if f.random))
        coins = style.text("(") + names + style.text(": ± the deviation, by fair coins)")
        return ", ".join(sizes), ", ".join(values), differ, names and coins

    def _repr_latex_(self):
        style = Latex(brief_words(self.claim))
        sizes, values, differ, draws = self._parts(style)
        without = self.without and wrap(f"without “{self.without}”:", WIDEST_WORDS)
        left, right = telling_sizes(*self.claim)
        equation = equation_rows(left, right, style)
        stated = *map(style.text, without), *equation, *kept_back_in(style)
        at = style.text("is false at " if sizes or values else "is false:") + (sizes or values)
        rows = *stated, at, sizes and values, differ, draws
        return f"$${aligned([f'& {row}' for row in rows if row])}$$"

    def __str__(self):
        return self._in_text("")

    def __repr__(self):
        """The text includes the claim, so that a notebook's output changes if the claim does."""
        style = Text(brief_words(self.claim))
        claim = " = ".join(x.show(style) for x in telling_sizes(*self.claim))
        return self._in_text("; ".join([claim, *kept_back_in(style)]) + " is false: ")

    def _in_text(self, claim):
        without = f"without “{self.without}”: " if self.without else ""
        sizes, values, differ, draws = self._parts(Text())
        at = (sizes and sizes + "; ") + (values and values + ": ")
        return f"{without}{claim}{at}{differ} {draws}".rstrip()


class _Plain(StrPrinter):
    """SymPy's plain text, with e for Euler's number instead of SymPy's E."""

    _print_Exp1 = lambda self, number: "e"


_plain = lambda x: _Plain().doprint(x).replace("**", "^")


def _show_value(style, value):
    if not isinstance(value, sp.MatrixBase):
        return str(value)
    if value.shape == (1, 1):
        return str(value[0, 0])
    if value.cols == 1:
        return style.transposed(_show_value(style, value.T))
    if isinstance(style, Latex):
        return sp.latex(value, mat_str="smallmatrix", mat_delim="(")
    rows = ["(" + ", ".join(map(str, value.row(r))) + ")" for r in range(value.rows)]
    return rows[0] if value.rows == 1 else "(" + ", ".join(rows) + ")"


def counterexample(
    lhs: Expression, rhs: Expression, most_instances: int = MOST_INSTANCES, without: str = ""
) -> Counterexample | NoCounterexample:
    """A smallest exact instance in which ``lhs`` and ``rhs`` differ.

    ``without`` says in words which hypothesis the claim lacks, and is printed.  Returns a
    Counterexample, or a NoCounterexample, which is falsy and proves nothing.  Raises ProofError if
    the two shapes differ.
    """
    shapes = {expression(x, "counterexample").axes for x in (lhs, rhs)}
    must(len(shapes) == 1, "the two sides of a claim must have one shape")
    check_words("a hypothesis", without)
    check_names("a claim", [lhs, rhs])
    fixed = [f.sizes for f in lhs.atoms(Family) | rhs.atoms(Family)]
    small = sum(sp.prod(s) for s in fixed if all(n.is_Integer for n in s)) <= MOST_ENTRIES
    must(small, "its matrices are too large to look for a counterexample")
    search, tried, begun, waiting = _Search(lhs, rhs), 0, time.monotonic(), sys.stderr.isatty()
    for instance in itertools.islice(search.instances(), most_instances):
        if search.steps > MOST_STEPS:
            break
        if waiting and time.monotonic() - begun > 1:
            print("Still looking for a counterexample …", file=sys.stderr)
            waiting = False
        try:
            at = search.differ(instance)
        except (ZeroDivisionError, OverflowError, TooLong):
            continue  # here a side is undefined or too large
        tried += 1
        if at is not None and (found := search.exactly(instance, at)) is not None:
            found.without = without
            euler = sp.Tuple(found.lhs, found.rhs).has(sp.E, sp.exp)
            clash = euler and "e" in {*found.sizes, *found.values}
            must(not clash, "a letter e would print like Euler's number: choose another")
            return found
    return NoCounterexample(tried)


class _Search:
    def __init__(self, lhs, rhs):
        self.steps = 0  # counts steps of the interpreter
        self.claim, self.functions = (lhs, rhs), (lhs.function, rhs.function)
        symbols = lhs.free_scalars() | rhs.free_scalars()
        self.sizes = sorted((s for s in symbols if s.is_integer), key=str)
        self.scalars = sorted((s for s in symbols if not s.is_integer), key=str)
        letters = lhs.function.letters | rhs.function.letters
        families = {f for f in lhs.atoms(Family) | rhs.atoms(Family) if f.term in letters}
        permutations = lhs.atoms(Bijection) | rhs.atoms(Bijection)
        indices = lhs.free_positions() | rhs.free_positions()
        self.families, self.permutations, self.indices = (
            sorted(found, key=lambda b: b.name) for found in (families, permutations, indices))  # fmt: skip
        chosen = *symbols, *self.families, *self.permutations, *self.indices
        self.terms = {x: kernel_letter(x) for x in chosen}
        unknown = {x for x in letters if x.args[1] == k.fun(k.NUM)}
        self.unknown = sorted(unknown, key=lambda x: x.args[0])

    def instances(self):
        """Yield instances by rising cost: all sizes plus each value's index in its candidates."""
        shapes = sorted(itertools.product(SIZES, repeat=len(self.sizes)), key=lambda s: (sum(s), s))
        for largest in range(LARGEST + 1):
            for sizes in (sizes for sizes in shapes if sum(sizes) <= largest):
                symbols = dict(zip(self.sizes, sizes))
                slots = self._slots(symbols)
                for choice in _choices([len(v) for *_, v in slots], largest - sum(sizes)):
                    yield symbols, [(*slot[:2], slot[2][c]) for slot, c in zip(slots, choice)]

    def _slots(self, symbols):
        """The choices to be made at these sizes: [(letter, place, candidates)]."""
        size = lambda s: int(number(s).xreplace(symbols))
        slots: list[tuple] = []
        for family in self.families:
            shape = [2 * max(SIZES) + 1 if s is sp.S.Naturals else size(s) for s in family.sizes]
            values = (1, 0) if family.kind == "mask" else ENTRIES
            places = itertools.product(*[range(1, n + 1) for n in shape])
            slots += [(family, at, values) for at in places]
        for s in self.scalars:
            slots.append((s, None, tuple(v for v in SCALARS if v > 0 or not s.is_positive)))
        for p in self.permutations:
            slots.append((p, None, tuple(itertools.permutations(range(1, size(p.size) + 1)))))
        return slots + [(p, None, tuple(range(1, size(p.size) + 1))) for p in self.indices]

    def _instance(self, instance, functions):
        """(the `Instance`, its tables of entries, {sequence: the last place that was read})."""
        sizes, chosen = instance
        meant = {self.terms[s]: n for s, n in sizes.items()}
        tables, read = {f: {} for f in self.families}, {}
        for what, at, value in chosen:
            if at is not None:
                tables[what][at] = value
            else:
                meant[self.terms[what]] = value
        for f, table in tables.items():
            meant[self.terms[f]] = _reader(f, table, functions["number"], read)
        meant |= {x: lambda v, e=e: v**e for e, x in enumerate(self.unknown, start=2)}
        return Instance(meant, functions), tables, read

    def differ(self, instance):
        """The first entry at which the two sides differ, or None.

        Raises ZeroDivisionError or OverflowError if a side is undefined or too large.
        """
        evaluated, *_ = self._instance(instance, FLOAT)
        found = None  # returned only if no entry raises an error
        try:
            left, right = map(evaluated.value, self.functions)
            sizes = [evaluated.value(s.args[0]) for s in self.functions[0].args[1:]]
            if math.prod(sizes) > MOST_PLACES:
                raise TooLong
            for at in itertools.product(*[range(1, size + 1) for size in sizes]):
                one, other = left(*at), right(*at)
                if math.isnan(one) or math.isnan(other):
                    raise Undefined
                gap = abs(one - other)  # `exactly` decides whether a small gap is rounding
                if gap > 1e-9 or gap > 1e-14 and gap > 1e-6 * max(abs(one), abs(other)):
                    found = found or at
        finally:
            self.steps += evaluated.steps
        return found

    def exactly(self, instance, at):
        """The `Counterexample` in exact numbers, or None if the difference was only rounding."""
        evaluated, tables, read = self._instance(instance, EXACT)
        left, right = (sp.simplify(evaluated.value(f)(*at)) for f in self.functions)
        gap = sp.N(left - right, 30)
        if not gap.is_finite or abs(gap) < 1e-20:
            return None
        shown = lambda f, at: f.kind != "sequence" or at[0] <= read.get(f, 1)
        values = {f.name: _array({at: v for at, v in table.items() if shown(f, at)})
                  for f, table in tables.items()}  # fmt: skip
        others = (*self.permutations, *self.scalars, *self.indices)
        values |= {x.name: evaluated.meant[self.terms[x]] for x in others}
        values |= {x.args[0]: f"x ↦ x{superscript(e)}" for e, x in enumerate(self.unknown, 2)}
        sizes = {s.name: n for s, n in instance[0].items()}
        return Counterexample(sizes, values, at, left, right, self.claim)


def _reader(family, table, number, read):
    """A function that looks up entries in a table and records the last place in ``read``."""

    def entry(*at):
        at = tuple(map(int, at))
        if at not in table:  # the sequence continues beyond the table
            raise Undefined
        read[family] = max(at[0], read.get(family, 1))
        return number(table[at])

    return entry


def _array(entries):
    axes = [max(at[k] for at in entries) for k in range(len(next(iter(entries))))]
    if len(axes) == 2:
        return sp.Matrix(axes[0], axes[1], lambda r, c: entries[r + 1, c + 1])
    return sp.Array([entries[at] for at in sorted(entries)], tuple(axes))


def _choices(counts, cost):
    """Yield all tuples with sum ``cost`` whose k-th number is >= 0 and below ``counts[k]``."""
    if not counts:
        yield from [()] * (cost == 0)
        return
    first, *rest = counts
    room = sum(c - 1 for c in rest)
    for here in range(max(0, cost - room), min(first - 1, cost) + 1):
        for others in _choices(rest, cost - here):
            yield (here, *others)
