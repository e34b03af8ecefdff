"""How a derivation is printed: one aligned block with a line and its reason for each step.

Expressions that recur in lines too long for a page get names; lines that are still too long break
at a sum or a product.
"""

from __future__ import annotations

from collections import Counter

import sympy as sp

from ..kernel.terms import SIZE
from ..language.omitted_arguments import brief_words, kept_back_in
from ..language.letters import Bijection, Family, Index, size_symbol
from ..language.matrices import operations_in
from ..language.line_breaks import WIDEST, aligned, broken, length, width
from ..language.shown_sizes import telling_sizes
from ..printing.notation import names_in
from ..printing.styles import SUM, Latex, Text, in_words
from .where_clause import draws_rows, where_rows

WIDEST_WITH_REASON = 46  # the most characters of a line with its reason beside it, on a phone
WIDEST_BELOW = 54  # the most characters of a reason and its note below a line
WORTH_NAMING = 12
NAMES = "ABCDFGHUVWZ"  # without E, which denotes the mean
SHORT_START = 18
QUAD = r"\quad"


def latex_of(proof):
    """The proof as a block of LaTeX, for a notebook and a page.

    A reason is printed beside its line, or below it if both together are wider than a phone.
    """
    lines = _lines(proof)
    style, names = _style_and_names(proof, lines, Latex)
    start, below = lines[0][0], _reasons_stand_below(lines, names, style)
    if len(lines) > 1 and width(start, names, style) <= SHORT_START and not below:
        rows, opening = [], start.show(style, SUM, names) + " "
    else:
        rows, opening = [f"& {row}" for row in broken(start, names, style)], ""
    for expression, reasons, note in lines[1:]:
        first, *rest = broken(expression, names, style)
        reason = _reason(reasons, note)
        rows.append(f"{opening}&= {first}" + ("" if below else f" && {QUAD.join(reason)}"))
        rows += [rf"&\qquad {row}" for row in rest]
        rows += _rows_below(reason, len(note)) if below else []
        opening = ""
    for x, n in names.items():
        first, *rest = broken(x, _inner(names, x), style)
        rows += [
            rf"& \text{{where }} {x.show(style, 0, {x: n})} = {first}",
            *[rf"&\qquad {row}" for row in rest],
        ]
    printed = " ".join(x.show(style.plain, SUM, names) for x in (*[x for x, *_ in lines], *names))
    rows += [f"& {row}" for row in _told(proof, style, names, printed)]
    return f"$${aligned(rows)}$$"


def _lines(proof):
    """The lines of a proof as they are printed: with the sizes that nothing else shows."""
    hypotheses = getattr(proof, "hypotheses", ())
    beside = [side for h in hypotheses for side in h.sides()]
    letters = {x for h in hypotheses if not h.sides() for x in h.about.letters}
    sizes = [size_symbol(x) for x in letters if x.args[1] == SIZE]
    told = telling_sizes(*[x for x, *_ in proof.lines], beside=beside, spoken_of=sizes)
    return [(x, *rest) for x, (_, *rest) in zip(told, proof.lines)]


def _style_and_names(proof, lines, style):
    """The style for everything that a proof prints, and names for expressions that recur."""
    sides = [side for h in getattr(proof, "hypotheses", ()) for side in h.sides()]
    style = style(brief_words([*[x for x, *_ in lines], *sides]))
    conditions = [h.about for h in getattr(proof, "hypotheses", ()) if hasattr(h, "about")]
    taken = set().union(*map(names_in, conditions))
    taken |= {f.name for f in getattr(proof, "random", ())}
    style.reserved = style.plain.reserved = taken | {
        x.name for y in [*[x for x, *_ in lines], *sides] for x in _named_in(y)
    }
    return style, _names(lines, sides, style, taken)


def _named_in(x):
    """The names that a printed expression contains: letters, indices, sizes, words."""
    kinds = Family, Bijection, Index, sp.Symbol
    words = {y.operation.word for y in x.walk()} - {None}
    return words.union(*[x.atoms(kind) for kind in kinds], *[s.free_symbols for s in x.axes])


def _reasons_stand_below(lines, names, style):
    """Whether the widest line and the longest reason together are too wide for a phone."""
    rows = [max(map(len, broken(x, names, style.plain))) for x, *_ in lines]
    if rows[0] <= SHORT_START:
        rows = [rows[0] + 3 + width for width in rows[1:]]  # later lines are indented
    reasons = [length(", ".join(r.latex for r in rs) + note) for _, rs, note in lines[1:]]
    return max(rows, default=0) + max(reasons, default=0) > WIDEST_WITH_REASON


def text_of(proof):
    """The proof as plain text, for a terminal."""
    lines = _lines(proof)
    style, names = _style_and_names(proof, lines, Text)
    rows = [f"{getattr(proof, 'title', proof.name)}:"]
    rows += [f"    {row}" for row in broken(lines[0][0], names, style)]
    for expression, reasons, note in lines[1:]:
        first, *rest = broken(expression, names, style)
        reason = ", ".join(r.text for r in reasons) + (f" ({note})" if note else "")
        rows.append(f"  = {first}".ljust(WIDEST + 6) + f"  -- {reason}")
        rows += [f"      {row}" for row in rest]
    rows += [
        f"  where {x.show(style, 0, {x: n})} = {x.show(style, 0, _inner(names, x))}"
        for x, n in names.items()
    ]
    rows += [f"  {row}" for row in _told(proof, style, names, "\n".join(rows))]
    return "\n".join(rows)


def _inner(names, x):
    return {y: n for y, n in names.items() if y != x}


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


def _hypotheses(proof, style, names):
    """A row for each hypothesis; conditions of the kernel that print alike share a row."""
    hypotheses = getattr(proof, "hypotheses", ())
    rows = [(h.show(style, names), h.sides() and h) for h in hypotheses]
    return [row for row, _ in dict.fromkeys((row, tuple(h and [h])) for row, h in rows)]


def _told(proof, style, names, printed):
    """The rows below a printed proof's lines: left-out arguments, conditions, letters, draws."""
    yield from kept_back_in(style)
    needed = _hypotheses(proof, style, names)
    yield from (style.text("needs ") + h for h in needed)
    yield from where_rows(
        proof, style, " ".join([printed, *_hypotheses(proof, style.plain, names)])
    )
    yield from draws_rows(getattr(proof, "random", ()), style)
    yield from (style.text(words) for words in getattr(proof, "not_run", ()))


# ── Names ───────────────────────────────────────────────────────────────


def _names(lines, sides, style, taken):
    """{expression: name} for expressions that recur in lines too wide for a page, the widest first.

    No name is a letter of a line or of a hypothesis (``sides``), or in ``taken``.
    """
    names = {}
    expressions = [*[x for x, *_ in lines], *sides]
    operations = set().union(*[operations_in(y) for x in expressions for y in x.walk()])
    used = {operation.name.removeprefix("entrywise ") for operation in operations}
    used |= {basic.name for x in expressions for kind in (Family, Bijection, Index, sp.Symbol)
            for basic in x.atoms(kind)}  # fmt: skip
    used |= {letter.args[0] for x in expressions for letter in x.function.letters}
    free = [n for n in NAMES if n not in {name.partition("_")[0] for name in used | taken}]
    while free and any(width(x, names, style) > WIDEST for x, *_ in lines):
        counts = Counter(y for x, *_ in lines for y in _visible(x, names))
        worth = [
            y
            for y, n in counts.items()
            if n > 1 and y.args and width(y, names, style) >= WORTH_NAMING
        ]
        bound = set().union(*[x.bound() for x, *_ in lines])
        worth = [
            y for y in worth if all(y != x for x, *_ in lines) and not y.free_scalars() & bound
        ]
        if not worth:
            break
        chosen = max(worth, key=lambda y: ((counts[y] - 1) * width(y, names, style), repr(y)))
        names[chosen] = free.pop(0)
    return _in_order_of_appearance(names, lines)


def _in_order_of_appearance(names, lines):
    letters, shown = sorted(names.values(), key=NAMES.index), {}
    seen = [y for x, *_ in lines for y in _visible(x, names) if y in names]
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
