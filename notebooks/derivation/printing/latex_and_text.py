"""Two ways to print an expression: LaTeX for a page, plain text for a terminal.

A style decides how each construct looks; an operation chooses which constructs to use.
"""

import re
from collections.abc import Callable
from typing import TypeAlias

from ..kernel import must

#: How tightly a printed piece binds; a looser piece inside a tighter one gets brackets.
SUM, PRODUCT, SIGNED, POWER, ATOM = 1, 2, 1.5, 3, 9

_LETTERS = {name: letter for letter, name in {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "epsilon", "ζ": "zeta", "η": "eta",
    "θ": "theta", "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi",
    "ρ": "rho", "σ": "sigma", "τ": "tau", "υ": "upsilon", "φ": "phi", "χ": "chi", "ψ": "psi",
    "ω": "omega", "Γ": "Gamma", "Δ": "Delta", "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi",
    "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega"}.items()}  # fmt: skip
_COMMANDS = {letter: name for name, letter in _LETTERS.items()}
#: Finds in a sentence each Greek letter, and each letter with a subscript or an exponent.
_LETTER = re.compile(r"\b([A-Za-zα-ωΑ-Ω]+_[A-Za-z0-9]+'*|[α-ωΑ-Ω]\b)((?:\^[a-z0-9])?)")
_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


class _Shared:
    """What the two styles share.  Each construct takes printed pieces and returns a printed piece.

    ``brief`` says which arguments calls leave out (`layout.brief_words`); ``reserved``
    are names that no bound variable gets; ``plain`` is the plain text in which widths are measured.
    """

    ones_of_size: Callable
    transposed: Callable
    table: Callable
    gap: str
    cross: str

    def __init__(self, brief=None):
        self.brief: dict = brief or {}
        self.reserved: frozenset[str] | set[str] = frozenset()
        self.plain = self if type(self) is Text else Text(brief)

    def ones(self, rows, columns, sizes=("", "")):
        """A matrix of ones; ``sizes`` are the printed numbers of rows and columns, or empty."""
        long, wide = map(self.ones_of_size, sizes)
        if columns == 1:
            return "1" if rows == 1 else long
        return self.transposed(wide) if rows == 1 else long + self.gap + self.transposed(wide)

    def joined(self, *sizes):
        """The size of a joined range."""
        return "+".join(sizes)

    def tabulated(self, piece, indices):
        """A matrix with these entries; ``indices`` are the printed row and column."""
        return self.table(piece, ",".join(indices)) if indices else piece

    coincide = "[{} = {}]".format
    minus = "-"


class Latex(_Shared):
    """LaTeX for KaTeX."""

    brackets = r"\left({}\right)".format
    transposed = r"{}^{{\top}}".format
    power = "{}^{{{}}}".format
    fraction = r"\frac{{{}}}{{{}}}".format
    root = r"\sqrt{{{}}}".format
    exponential = "e^{{{}}}".format
    entrywise_exponential = r"e^{{\circ {}}}".format
    sum_over = r"\sum_{{{}=1}}^{{{}}} {}".format
    derivative = r"\left.\tfrac{{d}}{{d{0}}}\right|_{{{0}=0}} {1}".format
    at_most = r"[{} \le {}]".format
    up_to = r"{} \le {}".format
    copy = r"{}^{{({})}}".format
    cases = r"\begin{{cases}} {} \\ {} \end{{cases}}".format
    stacked = r"\begin{{bmatrix}}{}\\{}\end{{bmatrix}}".format
    table = r"\Bigl({}\Bigr)_{{{}}}".format
    positions = r"(1,2,\dots,{})^{{\top}}".format
    invented = r"\mathcal{{{}}}".format  # names a recurring part, in a font that no letter has

    one_position, zero_times = "(1)", r"0 \times "
    hadamard, times, dot, centred, cross = r" \odot ", r"\,", r"\cdot ", r" \cdot ", r" \times "
    opening, closing, gap = r"\Bigl(", r"\Bigr)", ""
    unequal, greater, at_least = r" \neq ", " > ", r" \ge "
    others_and, and_others = r"\dots;\, ", r",\, \dots"

    def name(self, name):
        """The name of a letter, in italics; names of words are upright."""
        return self._spelled(name, r"\mathit")

    def _spelled(self, name, font):
        first, *subscripts = map(in_greek, name_parts(name))
        piece = first if len(first) == 1 else rf"{font}{{{first}}}"
        below = [x if len(x) == 1 or x.isdigit() else rf"\mathrm{{{x}}}" for x in subscripts]
        piece += f"_{{{','.join(below)}}}" if below else ""
        return _with_commands(piece) + "'" * name.count("'")

    def ones_of_size(self, size):
        """A column of ones."""
        return r"\mathbf{1}" + (f"_{{{size}}}" if size else "")

    def call(self, name, *pieces, index=None):
        """A function or a word, applied."""
        name = r"\mathbb{E}" if name == "E" else self._spelled(name, r"\operatorname")
        name += f"_{{{index}}}" if index else ""
        return rf"{name}\!\left({', '.join(pieces)}\right)"

    def at(self, piece, *indices):
        """A piece with indices."""
        piece = f"{{{piece}}}" if piece.endswith("'") else piece  # an exponent may follow the prime
        inside = ("" if all(i.isalpha() and len(i) == 1 for i in indices) else ",").join(indices)
        if named := re.fullmatch(r"(\\?[A-Za-z]+)_\{([^{}]*)\}('*)", piece):
            return f"{named[1]}_{{{named[2]},{inside}}}{named[3]}"
        return f"{piece}_{{{inside}}}" if "_{" not in piece else f"{{{piece}}}_{{{inside}}}"

    text = lambda self, words: rf"\text{{{in_words(words)}}}"  # words inside a formula


class Text(_Shared):
    """Plain text with mathematical letters, for a terminal."""

    brackets = "({})".format
    transposed = "{}ᵀ".format
    power = "{}^{}".format
    root = "√({})".format
    exponential = entrywise_exponential = "exp({})".format
    sum_over = "Σ_{}≤{} {}".format
    derivative = "d/d{}|₀ {}".format
    at_most = "[{} ≤ {}]".format
    up_to = "{}≤{}".format
    cases = "{{{}; {}}}".format
    stacked = "[{}; {}]".format
    table = "({})[{}]".format
    positions = "(1,…,{})ᵀ".format

    one_position, zero_times = "1[1]", "0*"  # (1) could be a matrix of ones
    hadamard, times, dot, centred, cross = " ⊙ ", " ", "· ", " · ", "×"
    opening, closing, gap = "(", ")", " "
    unequal, greater, at_least = " ≠ ", " > ", " ≥ "
    others_and, and_others = "…; ", ", …"

    def name(self, name):
        """The name of a letter, in quotation marks if it could be read as a word."""
        first, rest = _first(name)
        return (first if len(first) == 1 else f'"{first}"') + rest

    invented = name

    def ones_of_size(self, size):
        """A column of ones."""
        return "1" + (f"[{size}]" if size else "")

    def call(self, name, *pieces, index=None):
        """A function or a word, applied."""
        name = "".join(_first(name))
        if index:
            name += index.translate(_SUBSCRIPTS) if index.isdigit() else f"[{index}]"
        return f"{name}({', '.join(pieces)})"

    def at(self, piece, *indices):
        """A piece with indices."""
        return f"{piece}[{','.join(indices)}]"

    def fraction(self, above, below):
        """A quotient, with brackets around anything that is more than a name or a call."""
        return "/".join(p if re.fullmatch(r"[\w^\"]+", p) or p[-1:] in ")]" and " " not in p and "/" not in p
                        else f"({p})" for p in (above, below))  # fmt: skip

    copy = lambda self, name, number: f"{name}⁽{superscript(number)}⁾"
    text = lambda self, words: words


Style: TypeAlias = Latex | Text


def name_parts(name: str) -> list[str]:
    """The parts of a name: the letter, then each subscript."""
    return re.split(r"_|(?<=[^0-9_])(?=[0-9])", name.rstrip("'"))


def in_words(words: str) -> str:
    """Words in LaTeX: Greek letters, and letters with a subscript, become formulas."""
    return _LETTER.sub(lambda found: f"${Latex().name(found[1])}{found[2]}$", words)


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


def superscript(number: int) -> str:
    """A whole number as an exponent in plain text."""
    return str(number).translate(_SUPERSCRIPTS)


def check_words(what: str, words: str) -> None:
    """Refuse text that could print as more than words, such as a new row or a formula."""
    plain = type(words) is str and words.isprintable() and not re.search(r"[\\{}$]", words)
    wanted = "{} must be one line of words, without a backslash, a brace or a dollar sign"
    must(plain, wanted, what)


def beside(style: Style, pieces: list[str]) -> str:
    """Factors side by side, with a dot between two digits."""
    found = pieces[0]
    for piece in pieces[1:]:
        digits = found[-1:].isdigit() and re.match(r"\d+(?!\d|ᵀ|\[[^]]*\]ᵀ)|\\frac\{\d", piece)
        found += (style.centred if digits else style.times) + piece
    return found
