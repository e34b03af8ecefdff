"""How a derivation is printed: one aligned block with a line and its reason for each step.

Expressions that recur in lines too long for a page get names; lines that are still too long break
at a sum or a product.  "Where" rows tell the shape and the kind of each letter, because
``softmax(X) = 1`` is true if X has one column and false otherwise.
"""

import re
from collections import Counter

import sympy as sp

from .. import kernel as k
from ..printing import SUM, Latex, Text, in_words, names_in
from ..language import (WIDEST, Bijection, Family, Index, aligned, brief_words, broken,
                        kept_back_in, kernels_letters, length, operations_in, show_number, size_of,
                        telling_sizes, width)  # fmt: skip

WIDEST_WITH_REASON = 46  # the most characters of a line with its reason beside it, on a phone
WIDEST_BELOW = 54  # the most characters of a reason and its note below a line
WORTH_NAMING = 12
NAMES = "ABCDFGHUVWZ"  # without E, which denotes the mean
SHORT_START = 18
QUAD = r"\quad"
#: The largest number of characters in a row, not counting spaces: on a phone, where the word
#: "where" stands beside it, and in a terminal.
WHERE, WHERE_IN_TEXT = 26, 40


def latex_of(proof):
    """The proof as a block of LaTeX, for a notebook and a page.

    A reason is printed beside its line, or below it if both together are wider than a phone.
    """
    page = _Page(proof, Latex)
    (start, *_), *lines = page.lines
    below = page.reasons_stand_below()
    if lines and page.width(start) <= SHORT_START and not below:
        rows, opening = [], start.show(page.style, SUM, page.names) + " "
    else:
        rows, opening = [f"& {row}" for row in page.broken(start)], ""
    for expression, reasons, note in lines:
        first, *rest = page.broken(expression)
        reason = _reason(reasons, note)
        rows.append(f"{opening}&= {first}" + ("" if below else f" && {QUAD.join(reason)}"))
        rows += [rf"&\qquad {row}" for row in rest]
        rows += _rows_below(reason, len(note)) if below else []
        opening = ""
    for x, name in page.names.items():
        first, *rest = page.broken(x)
        rows.append(rf"& \text{{where }} {x.show(page.style, 0, {x: name})} = {first}")
        rows += [rf"&\qquad {row}" for row in rest]
    whole = [*[x for x, *_ in page.lines], *page.names]
    printed = " ".join(x.show(page.style.plain, SUM, page.names) for x in whole)
    rows += [f"& {row}" for row in page.told(printed)]
    return f"$${aligned(rows)}$$"


def text_of(proof):
    """The proof as plain text, for a terminal."""
    page = _Page(proof, Text)
    (start, *_), *lines = page.lines
    rows = [f"{proof.title}:", *[f"    {row}" for row in page.broken(start)]]
    for expression, reasons, note in lines:
        first, *rest = page.broken(expression)
        reason = ", ".join(r.text for r in reasons) + (f" ({note})" if note else "")
        rows.append(f"  = {first}".ljust(WIDEST + 6) + f"  -- {reason}")
        rows += [f"      {row}" for row in rest]
    for x, name in page.names.items():
        others = {y: other for y, other in page.names.items() if y != x}
        left, right = (x.show(page.style, 0, names) for names in ({x: name}, others))
        rows.append(f"  where {left} = {right}")
    rows += [f"  {row}" for row in page.told("\n".join(rows))]
    return "\n".join(rows)


class _Page:
    """What a proof prints in one style: its lines, and names for expressions that recur in them."""

    def __init__(self, proof, style):
        self.proof, self.hypotheses = proof, proof.hypotheses
        self.sides = [side for h in self.hypotheses for side in h.sides()]
        self.conditions = [h.about for h in self.hypotheses if not h.sides()]
        letters = set().union(*[about.letters for about in self.conditions])
        sizes = [size_of(x) for x in letters if x.args[1] == k.SIZE]
        told = telling_sizes(*[x for x, *_ in proof.lines], beside=self.sides, sizes=sizes)
        self.lines = [(x, *rest) for x, (_, *rest) in zip(told, proof.lines)]
        self.expressions = [*told, *self.sides]
        self.style, self.names = style(brief_words(self.expressions)), {}
        taken = set().union(*map(names_in, self.conditions)) | {f.name for f in proof.random}
        named = {basic.name for x in self.expressions for basic in _named_in(x)}
        self.style.reserved = self.style.plain.reserved = taken | named
        self._name_what_recurs(taken)

    def width(self, x):
        """The number of characters of an expression in plain text."""
        return width(x, self.names, self.style)

    def broken(self, x):
        """An expression in one or more rows; a name is not printed in its own explanation."""
        return broken(x, {y: name for y, name in self.names.items() if y != x}, self.style)

    def reasons_stand_below(self):
        """Whether the widest line and the longest reason together are too wide for a phone."""
        rows = [max(map(len, broken(x, self.names, self.style.plain))) for x, *_ in self.lines]
        if rows[0] <= SHORT_START:
            rows = [rows[0] + 3 + width for width in rows[1:]]  # later lines are indented
        reasons = [length(", ".join(r.latex for r in rs) + note) for _, rs, note in self.lines[1:]]
        return max(rows, default=0) + max(reasons, default=0) > WIDEST_WITH_REASON

    def told(self, printed):
        """The rows below the lines: left-out arguments, conditions, letters, draws."""
        style = self.style
        yield from kept_back_in(style)
        yield from (style.text("needs ") + h for h in self._needed(style))
        printed = " ".join([printed, *self._needed(style.plain)])
        yield from _where_rows(self.expressions, self.conditions, style, printed)
        yield from _draws_rows(self.proof.random, style)
        yield from map(style.text, self.proof.not_run)

    def _needed(self, style):
        """A row for each hypothesis; conditions of the kernel that print alike share a row."""
        rows = [(h.show(style, self.names), tuple(h.sides())) for h in self.hypotheses]
        return [row for row, _ in dict.fromkeys(rows)]

    def _name_what_recurs(self, taken):
        """Name expressions that recur in lines too wide for a page, the widest first.

        No name is a letter of a line or of a hypothesis, or in ``taken``.
        """
        nodes = [y for x in self.expressions for y in x.walk()]
        taken |= {o.name.removeprefix("entrywise ") for y in nodes for o in operations_in(y)}
        taken |= {basic.name for x in self.expressions for kind in KINDS for basic in x.atoms(kind)}
        taken |= {letter.args[0] for x in self.expressions for letter in x.function.letters}
        free = [n for n in NAMES if n not in {name.partition("_")[0] for name in taken}]
        lines = [x for x, *_ in self.lines]
        bound = set().union(*[x.bound() for x in lines])
        while free and any(self.width(x) > WIDEST for x in lines):
            counts = Counter(y for x in lines for y in _visible(x, self.names))
            recurring = [y for y, n in counts.items() if n > 1 and y.args and y not in lines]
            worth = [y for y in recurring
                     if self.width(y) >= WORTH_NAMING and not y.free_scalars() & bound]  # fmt: skip
            if not worth:
                break
            gain = lambda y, counts=counts: ((counts[y] - 1) * self.width(y), repr(y))
            self.names[max(worth, key=gain)] = free.pop(0)
        self.names = _in_order_of_appearance(self.names, lines)


KINDS = Family, Bijection, Index, sp.Symbol


def _named_in(x):
    """The names that a printed expression contains: letters, indices, sizes, words."""
    words = {y.operation.word for y in x.walk()} - {None}
    return words.union(*[x.atoms(kind) for kind in KINDS], *[s.free_symbols for s in x.axes])


def _reason(reasons, note):
    """The names of the reasons, and the note if there is one, in LaTeX."""
    words = rf"\text{{{', '.join(_definitions_together(r.latex for r in reasons))}}}"
    return [words, rf"\textit{{({in_words(note)})}}"] if note else [words]


def _rows_below(reason, length_of_note):
    """A reason below its line; its note gets a row of its own if a phone is too narrow for both."""
    if length(reason[0]) + length_of_note <= WIDEST_BELOW:
        reason = [QUAD.join(reason)]
    return [rf"&\qquad \small{by}{words}" for by, words in zip((r"\text{by }", QUAD), reason)]


def _definitions_together(reasons):
    """Join two definitions as "definition of softmax and normalise", which fits on a phone."""
    start, reasons = "definition of ", list(reasons)
    words = [r.removeprefix(start) for r in reasons if r.startswith(start)]
    others = [r for r in reasons if not r.startswith(start)]
    return [start + " and ".join(words), *others] if words else others


def _in_order_of_appearance(names, lines):
    letters, shown = sorted(names.values(), key=NAMES.index), {}
    seen = [y for x in lines for y in _visible(x, names) if y in names]
    for y in [*seen, *names]:
        if y not in shown:
            shown[y] = letters[len(shown)]
    return shown


def _visible(x, names):
    """The sub-expressions of x that are printed; those inside an expression with a name are not."""
    yield x
    if x not in names:
        for y in x.args:
            yield from _visible(y, names)


def _where_rows(expressions, conditions, style, printed):
    """Rows that explain a proof's letters, and the sizes that occur in its text, ``printed``."""
    groups = {}
    for name, what in sorted(_kinds(expressions, conditions, style, printed).items()):
        groups.setdefault(what, []).append(style.name(name))
    several = lambda what: re.sub(r"\ba (number|size)\b", r"\1s", what)
    pieces = [", ".join(names) + (what if len(names) == 1 else several(what))
              for what, names in groups.items()]  # fmt: skip
    rows, widest = [], WHERE if isinstance(style, Latex) else WHERE_IN_TEXT
    for piece in sorted(pieces):
        if rows and _characters(rows[-1]) + _characters(piece) < widest:
            rows[-1] += style.text("; ") + piece
        else:
            rows.append(piece)
    return [style.text("where " if n == 0 else "and ") + row for n, row in enumerate(rows)]


def _draws_rows(families, style):
    """Yield rows with the assumptions behind the moments of random letters."""
    of = {}
    for f in families:
        of.setdefault(show_number(style, f.variance), []).append(style.name(f.name))
    told = [v + (style.text(" of ") + ", ".join(f) if len(of) > 1 else "") for v, f in of.items()]
    names = ", ".join(style.name(f.name) for f in families)
    if families:
        yield style.text("the entries of ") + names + style.text(" are independent,")
        yield style.text("of mean 0 and of variance ") + style.text(", ").join(told)


def _kinds(expressions, conditions, style, printed):
    """{name: its shape or kind, as printed text}."""
    letters = set().union(*map(kernels_letters, expressions), *[x.letters for x in conditions])
    draws = {f for x in expressions for f in x.atoms(Family) if f.random}
    found = {f.name: _shape(style, f.sizes, " random") for f in draws}
    found |= {x.args[0]: what for x in letters if (what := _kind(x.args[1], style))}
    known = {size.args[0] for x in letters for size in x.args[1].letters}
    known |= {size.name for f in draws for size in f.sizes.free_symbols}
    sizes = {x.args[0] for x in letters if x.args[1] == k.SIZE} - known
    told = [s for s in sizes if re.search(rf"(?<![\w\"]){re.escape(s)}(?![\w\"])", printed)]
    return found | {s: style.text(": a size") for s in told}


def _kind(sort, style):
    """The kind of a letter as printed text, from its sort; None if other text shows the kind."""
    if sort == k.POSITIVE:
        return f"{style.greater}0"
    if sort == k.NUM:
        return style.text(": a number")
    if sort.op != "FUN" or sort.args[2:] == (k.NUM,):
        return None  # a size, a draw, an index, or a function of one number
    kind, _, *axes = sort.args
    if kind == "perm":
        return style.text(": permutation of ") + show_number(style, size_of(axes[0].args[0]))
    sizes = [sp.S.One if a == k.NUM else size_of(a.args[0]) for a in axes]
    return _shape(style, sizes, " in a sequence" if k.NUM in axes else " mask" * (kind == "mask"))


def _shape(style, sizes, more):
    shown = [show_number(style, s) for s in sizes]
    shape = style.cross.join([style.brackets(s) if "+" in s else s for s in shown])
    return style.text(": ") + shape + (more and style.text(more))


def _characters(row):
    """The approximate width of a row, in characters, in LaTeX or plain text."""
    words = re.sub(r"\\(text|mathrm|mathit|left|right)\b", "", row)
    return len(re.sub(r"[{}^_ ]", "", re.sub(r"\\[A-Za-z]+", "x", words)))
