"""Two ways to print an expression: LaTeX for a page, plain text for a terminal.

A printer decides how each construct looks; an operation chooses which constructs to use.
"""

from __future__ import annotations

import re

from ..kernel.terms import ProofError

#: How tightly a printed piece binds; a looser piece inside a tighter one gets brackets.
SUM, PRODUCT, SIGNED, POWER, ATOM = 1, 2, 1.5, 3, 9


class Latex:
    """LaTeX for KaTeX.  ``brief`` says which arguments calls leave out (`omitted_arguments.brief_words`)."""

    def __init__(self, brief=None):
        self.brief, self.plain = brief or {}, Text(brief)
        self.reserved = frozenset()  # names that no bound variable gets

    def name(self, name):
        """The name of a letter, in italics; names of words are upright."""
        return self._spelled(name, r"\mathit")

    def invented(self, name):
        """A name for a recurring part of the printed text, in a font that no letter has."""
        return rf"\mathcal{{{name}}}"

    def _spelled(self, name, font):
        first, *subscripts = map(in_greek, name_parts(name))
        piece = first if len(first) == 1 else rf"{font}{{{first}}}"
        below = [x if len(x) == 1 or x.isdigit() else rf"\mathrm{{{x}}}" for x in subscripts]
        piece += f"_{{{','.join(below)}}}" if below else ""
        return _with_commands(piece) + "'" * name.count("'")

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
        name = r"\mathbb{E}" if name == "E" else self._spelled(name, r"\operatorname")
        name += f"_{{{index}}}" if index else ""
        return rf"{name}\!\left({', '.join(pieces)}\right)"

    def at(self, piece, *indices):
        piece = f"{{{piece}}}" if piece.endswith("'") else piece  # an exponent may follow the prime
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
        return rf"\text{{{in_words(words)}}}"


def name_parts(name):
    """The parts of a name: the letter, then each subscript."""
    return re.split(r"_|(?<=[^0-9_])(?=[0-9])", name.rstrip("'"))


#: Finds in a sentence each Greek letter, and each letter with a subscript or an exponent.
_LETTER = re.compile(r"\b([A-Za-zα-ωΑ-Ω]+_[A-Za-z0-9]+'*|[α-ωΑ-Ω]\b)((?:\^[a-z0-9])?)")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def in_words(words):
    """Words in LaTeX: Greek letters, and letters with a subscript, become formulas."""
    return _LETTER.sub(lambda found: f"${Latex().name(found[1])}{found[2]}$", words)


class Text:
    """Plain text with mathematical letters, for a terminal."""

    def __init__(self, brief=None):
        self.brief, self.plain, self.reserved = brief or {}, self, frozenset()

    def name(self, name):
        """The name of a letter, in quotation marks if it could be read as a word."""
        first, rest = _first(name)
        return (first if len(first) == 1 else f'"{first}"') + rest

    invented = name

    def brackets(self, piece):
        return f"({piece})"

    def transposed(self, piece):
        return piece + "ᵀ"

    def ones(self, rows, columns, sizes=("", "")):
        long, wide = ["1" + (f"[{s}]" if s else "") for s in sizes]
        if columns == 1:
            return "1" if rows == 1 else long
        return f"{wide}ᵀ" if rows == 1 else f"{long} {wide}ᵀ"

    def by(self, sizes):
        return "×".join(sizes)

    def call(self, name, *pieces, index=None):
        name = "".join(_first(name))
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
        return "/".join(p if re.fullmatch(r"[\w^\"]+", p) or p[-1:] in ")]" and " " not in p and "/" not in p
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


_LETTERS = {name: letter for letter, name in {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta",
    "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi",
    "ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi",
    "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi",
    "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega"}.items()}  # fmt: skip
_COMMANDS = {letter: name for name, letter in _LETTERS.items()}


def in_greek(part):
    """A part of a name as it is printed: gamma becomes γ."""
    return _LETTERS.get(part, part)


def _first(name):
    """(the letter of a name as it is printed, the rest of the name)."""
    first = name_parts(name)[0]
    return in_greek(first), name[len(first) :]


def _with_commands(piece):
    """A piece with its Greek letters as TeX commands, each separated from a letter after it."""
    spelled = "".join(rf"\{_COMMANDS[c]} " if c in _COMMANDS else c for c in piece)
    return re.sub(r" (?![A-Za-z])", "", spelled).rstrip()


def superscript(number):
    """A whole number as an exponent in plain text."""
    return str(number).translate(_SUPERSCRIPTS)


def check_words(what, words):
    """Refuse text that could print as more than words, such as a new row or a formula."""
    if type(words) is not str or not words.isprintable() or re.search(r"[\\{}$]", words):
        raise ProofError(
            f"{what} must be one line of words, without a backslash, a brace or a dollar sign"
        )


def beside(style, pieces):
    """Factors side by side, with a dot between two digits."""
    found = pieces[0]
    for piece in pieces[1:]:
        digits = found[-1:].isdigit() and re.match(r"\d+(?!\d|ᵀ|\[[^]]*\]ᵀ)|\\frac\{\d", piece)
        found += (style.centred if digits else style.times) + piece
    return found
