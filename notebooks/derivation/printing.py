"""Two ways to print an expression: LaTeX for a page, plain text for a terminal.

A printer says how each construct looks; an operation says which constructs it is made of.
"""

from __future__ import annotations

import itertools
import re
import unicodedata

import sympy as sp

from .kernel.terms import ProofError
from .letters import Index, Join

#: How tightly a printed piece holds together; a looser piece inside a tighter one is bracketed.
SUM, PRODUCT, SIGNED, POWER, ATOM = 1, 2, 1.5, 3, 9


class Latex:
    """LaTeX for MathJax.  Words in ``brief`` print without what they mean to keep to themselves."""

    def __init__(self, brief=None):
        self.brief, self.plain = brief or {}, Text(brief)
        self.reserved = frozenset()  # what nothing bound is called

    def name(self, name):
        return _upright(sp.latex(sp.Symbol(_greek(name))))

    def brackets(self, piece):
        return rf"\left({piece}\right)"

    def transposed(self, piece):
        return piece + r"^{\top}"

    def ones(self, rows, columns, sizes=("", "")):
        long, wide = [r"\mathbf{1}" + (f"_{{{s}}}" if s else "") for s in sizes]
        if columns == 1:
            return "1" if rows == 1 else long
        return rf"{wide}^{{\top}}" if rows == 1 else rf"{long}{wide}^{{\top}}"

    def by(self, sizes):
        return r" \times ".join(sizes)

    def call(self, name, *pieces, index=None):
        escaped_name = name.replace("_", r"\_")
        name = rf"\operatorname{{{escaped_name}}}" if len(name) > 1 else self.name(name)
        name = r"\mathbb{E}" if name == "E" else name
        name += f"_{{{index}}}" if index else ""
        return rf"{name}\!\left({', '.join(pieces)}\right)"

    def at(self, piece, *indices):
        piece = f"{{{piece}}}" if piece.endswith("'") else piece  # room for an exponent
        inside = ("" if all(i.isalpha() and len(i) == 1 for i in indices) else ",").join(indices)
        if named := re.fullmatch(r"(\\?[A-Za-z]+)_\{([^{}]*)\}('*)", piece):
            return f"{named[1]}_{{{named[2]},{inside}}}{named[3]}"
        return f"{piece}_{{{inside}}}" if "_{" not in piece else f"{{{piece}}}_{{{inside}}}"

    def sum_over(self, index, size, piece):
        return rf"\sum_{{{index}=1}}^{{{size}}} {piece}"

    def exponential(self, piece):
        return rf"e^{{{piece}}}"

    def entrywise_exponential(self, piece):
        return rf"e^{{\circ {piece}}}"

    def power(self, piece, exponent):
        return f"{piece}^{{{exponent}}}"

    def fraction(self, above, below):
        return rf"\frac{{{above}}}{{{below}}}"

    def root(self, piece):
        return rf"\sqrt{{{piece}}}"

    def at_most(self, first, second):
        return rf"[{first} \le {second}]"

    def coincide(self, first, second):
        return f"[{first} = {second}]"

    def up_to(self, index, size):
        return rf"{index} \le {size}"

    def copy(self, name, number):
        return rf"{name}^{{({number})}}"

    def cases(self, first, second):
        return rf"\begin{{cases}} {first} \\ {second} \end{{cases}}"

    def derivative(self, scalar, piece):
        return rf"\left.\tfrac{{d}}{{d{scalar}}}\right|_{{{scalar}=0}} {piece}"

    def stacked(self, first, second):
        return rf"\begin{{bmatrix}}{first}\\{second}\end{{bmatrix}}"

    def tabulated(self, piece, indices):
        return rf"\Bigl({piece}\Bigr)_{{{','.join(indices)}}}" if indices else piece

    def joined(self, *sizes):
        return "+".join(sizes)

    hadamard, times, minus, dot = r" \odot ", r"\,", "-", r"\cdot "
    opening, closing = r"\Bigl(", r"\Bigr)"
    centred = r" \cdot "
    unequal, greater = r" \neq ", " > "
    others_and, and_others = r"\dots;\, ", r",\, \dots"

    def text(self, words):
        return rf"\text{{{words}}}"


_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class Text:
    """Plain text with mathematical letters, for a terminal."""

    def __init__(self, brief=None):
        self.brief, self.plain, self.reserved = brief or {}, self, frozenset()

    def name(self, name):
        return name

    def brackets(self, piece):
        return f"({piece})"

    def transposed(self, piece):
        return piece + "ᵀ"

    def ones(self, rows, columns, sizes=("", "")):
        long, wide = ["1" + (f"[{s}]" if s else "") for s in sizes]
        if columns == 1:
            return "1" if rows == 1 else long
        return f"{wide}ᵀ" if rows == 1 else f"{long}{wide}ᵀ"

    def by(self, sizes):
        return "×".join(sizes)

    def call(self, name, *pieces, index=None):
        if index:
            name += index.translate(_SUBSCRIPTS) if index.isdigit() else f"[{index}]"
        return f"{name}({', '.join(pieces)})"

    def at(self, piece, *indices):
        return f"{piece}[{','.join(indices)}]"

    def sum_over(self, index, size, piece):
        return f"Σ_{index}≤{size} {piece}"

    def exponential(self, piece):
        return f"exp({piece})"

    entrywise_exponential = exponential

    def power(self, piece, exponent):
        return f"{piece}^{exponent}"

    def fraction(self, above, below):
        return "/".join(p if p.isalnum() or p[-1:] in ")]" and " " not in p and "/" not in p
                        else f"({p})" for p in (above, below))  # fmt: skip

    def root(self, piece):
        return f"√({piece})"

    def at_most(self, first, second):
        return f"[{first} ≤ {second}]"

    def coincide(self, first, second):
        return f"[{first} = {second}]"

    def up_to(self, index, size):
        return f"{index}≤{size}"

    def copy(self, name, number):
        return f"{name}⁽{number.translate(_SUPERSCRIPTS)}⁾"

    def cases(self, first, second):
        return f"{{{first}; {second}}}"

    def derivative(self, scalar, piece):
        return f"d/d{scalar}|₀ {piece}"

    def stacked(self, first, second):
        return f"[{first}; {second}]"

    def tabulated(self, piece, indices):
        return f"({piece})[{','.join(indices)}]" if indices else piece

    def joined(self, *sizes):
        return "+".join(sizes)

    hadamard, times, minus, dot = " ⊙ ", " ", "-", "· "
    opening, closing = "(", ")"
    centred = " · "
    unequal, greater = " ≠ ", " > "
    others_and, and_others = "…; ", ", …"

    def text(self, words):
        return words


def superscript(number):
    """A whole number as an exponent in plain text."""
    return str(number).translate(_SUPERSCRIPTS)


def check_words(what, words):
    """Refuses text that would print as more than itself: other rows, or mathematics."""
    if type(words) is not str or not words.isprintable() or re.search(r"[\\{}$]", words):
        raise ProofError(f"{what} is words in one row, without a backslash, a brace or a dollar")


def _greek(name):
    """Greek letters spelled out, as SymPy's printer expects them: Π_m becomes Pi_m."""
    spelled = []
    for letter in name:
        words = unicodedata.name(letter, "").split()
        if words[:1] == ["GREEK"] and len(words) >= 4:
            letter = words[3].title() if words[1] == "CAPITAL" else words[3].lower()
            letter = letter.replace("Lamda", "Lambda").replace("lamda", "lambda")
        spelled.append(letter)
    return "".join(spelled)


def _upright(name):
    """A name of several letters is one word, and no product of theirs."""
    return re.sub(r"^([A-Za-z][A-Za-z0-9]+)", r"\\mathrm{\1}", name)


def show_number(style, expression):
    """A scalar that is free of positions: τ, 1/d, 2."""
    if isinstance(expression, Join):
        return style.joined(*[show_number(style, s) for s in expression.args])
    if isinstance(style, Latex):
        symbols = [s for s in expression.free_symbols if isinstance(s, sp.Symbol)]
        return sp.latex(expression, symbol_names={s: style.name(s.name) for s in symbols})
    return sp.sstr(expression)


def beside(style, pieces):
    """Factors beside each other; a dot between two digits."""
    found = pieces[0]
    for piece in pieces[1:]:
        digits = found[-1:].isdigit() and re.match(r"\d|\\frac\{\d", piece)
        found += (style.centred if digits else style.times) + piece
    return found


# ── Words and what they take ──────────────────────────────────────────────────────────────


def show_call(x, style, show):
    """A word of what it takes, without what it keeps to itself."""
    word = x.operation.word
    return style.call(word.name, *shown_slots(x, style, show))


def shown_slots(x, style, show):
    """What is printed of what a word takes."""
    kept = style.brief.get(x.operation.word, ())
    return [show_slot(style, slot, show) for k, slot in enumerate(slots(x)) if k not in kept]


def slots(x):
    """What a word takes: arguments, then parameters, those left out that say where it is."""
    return (*x.args, *x.params[x.operation.word.places :])


def show_slot(style, slot, show=None):
    """An argument; or a parameter: a number, or a family or an index by its name."""
    if hasattr(slot, "operation"):
        return show(slot) if show else slot.show(style)
    number = isinstance(slot, sp.Expr)
    return show_number(style, slot) if number else style.name(getattr(slot, "name", "1"))


def brief_words(expressions):
    """{word: {which of what it takes: that}}, for what is the same wherever the word stands.

    What a word always shows is not among it.
    """
    found = {}
    for x in expressions:
        for y in x.walk():
            if y.operation.word is not None:
                found.setdefault(y.operation.word, set()).add(slots(y))
    slopes = [y for x in expressions for y in x.walk() if y.operation.name == "derivative"]
    bound = {y.params[0] for y in slopes if y.operation.word is None}
    return {word: _kept(word, taken, bound) for word, taken in found.items()}


def _kept(word, taken, bound):
    first, *others = taken
    if any(len(other) != len(first) for other in others):
        return Kept()
    same = [all(other[k] == slot for other in others) for k, slot in enumerate(first)]
    told = [word.always_shows(k, s) or s.atoms(sp.Symbol) & bound for k, s in enumerate(first)]
    back = [not t and s for t, s in zip(told, same)]
    places = range(len(first))  # the last ones, or else the first: nobody asks which they are
    last = [*itertools.takewhile(back.__getitem__, reversed(places))]
    found = last or [*itertools.takewhile(back.__getitem__, places)]
    return Kept({k: first[k] for k in sorted(found)}, leading=not last)


class Kept(dict):
    """What a brief word keeps to itself: {place: what}, the last places or the ``leading`` ones."""

    def __init__(self, slots=(), leading=False):
        super().__init__(slots)
        self.leading = leading


def kept_back_in(style):
    """What brief words keep to themselves: "with LN(…; ε)" or "with v(x, …)", one for each."""
    found = sorted(style.brief.items(), key=lambda item: item[0].name)
    return [_kept_back(style, word, kept) for word, kept in found if kept]


def _kept_back(style, word, kept):
    told = ", ".join(show_slot(style, s) for s in kept.values())
    told = told + style.and_others if kept.leading else style.others_and + told
    every = sorted({style.name(x.name) for s in kept.values() for x in _indices(s)})
    row = style.text("with ") + style.call(word.name, told)
    return row + (style.text(" for every ") + ", ".join(every) if every else "")


def _indices(slot):
    """The indices, such as a head's, that something speaks of."""
    return slot.free_positions() if hasattr(slot, "free_positions") else slot.atoms(Index)
