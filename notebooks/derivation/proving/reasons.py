"""Two kinds of reason, definitions and hypotheses, and how all kinds of reason are printed."""

import re
import unicodedata
from dataclasses import dataclass

from .. import kernel
from ..kernel import must
from ..printing import check_words, in_words
from ..language import Expression, Law, Word, shape_text, telling_sizes


@dataclass(frozen=True)
class Definition:
    """The reason "by the definition of this word"."""

    word: Word

    def __post_init__(self):
        fits = isinstance(self.word, Word)
        must(fits, "unfold takes a word that has a definition, not {!r}", self.word)

    def __str__(self):
        return f"definition of {self.word.name}"


def unfold(word: Word) -> Definition:
    """The definition of a word, as a reason."""
    return Definition(word)


HYPOTHESIS, INDUCTION = "hypothesis", "induction hypothesis"


@dataclass(frozen=True)
class Given:
    """An assumed equation; every theorem whose proof uses it prints it as a hypothesis."""

    lhs: Expression
    rhs: Expression
    title: str = HYPOTHESIS

    def __post_init__(self):
        object.__setattr__(self, "title", checked_title("the title of a hypothesis", self.title))
        check_shapes("a hypothesis", self.lhs, self.rhs)

    def show(self, style, names=None):
        """The equation as printed text."""
        sides = telling_sizes(self.lhs, self.rhs, all_of_them=True)
        return " = ".join(x.show(style, 0, names) for x in sides)

    def substituted(self, substitution):
        """The equation after a substitution for the letters."""
        return Given(substitution(self.lhs), substitution(self.rhs), self.title)

    def sides(self):
        """The expressions that the equation contains."""
        return [self.lhs, self.rhs]

    def met_in(self, sample):
        """Whether the equation holds in a sample."""
        return (self.lhs.run(sample) - self.rhs.run(sample)).abs().max().item() < 1e-12

    @property
    def cited(self):
        """The words by which a line names the hypothesis as its reason."""
        return self.title if self.title in (HYPOTHESIS, INDUCTION) else f"“{self.title}”"

    @property
    def proved(self):
        """The kernel's theorem that the equation follows from itself as a hypothesis."""
        return kernel.given(self.lhs.function, self.rhs.function)

    hypotheses = property(lambda self: (self,))
    random = ()


def given(lhs: Expression, rhs: Expression) -> Given:
    """The hypothesis that two expressions are equal, to be used as a reason."""
    return Given(lhs, rhs)


@dataclass(frozen=True)
class Reason:
    """How a checked reason is printed, in LaTeX and in plain text."""

    latex: str
    text: str

    @classmethod
    def of(cls, reason):
        """The printed form of a law, a definition, a theorem or a hypothesis."""
        words = title_of(reason)
        return cls(reason.latex if isinstance(reason, Law) else in_words(words), words)


def title_of(reason):
    """A reason in words; names that a reader chose are in quotation marks."""
    if isinstance(reason, Law):
        return reason.name
    return str(reason) if isinstance(reason, Definition) else reason.cited


def check_expression(where, x):
    check_written(where, "the expression", x)
    fits = type(x) is Expression  # a subclass could print anything
    must(fits, "{}: expected an expression of the book, not {!r}", where, x)


def checked_title(what, title):
    """A name that a reader chose, with normal white space, for use in quotation marks.

    Refuses a name that `check_words` refuses, or one with letters that are neither Latin nor Greek.
    """
    check_words(what, title)
    letters = [unicodedata.name(c, "").split()[:1] for c in title if c.isalpha()]
    fits = all(script in (["LATIN"], ["GREEK"]) for script in letters) and not set("“”") & {*title}
    must(fits, "{} must be in Latin and Greek letters, without quotation marks", what)
    return " ".join(title.split())


def check_label(label):
    """Refuse a label that is neither empty nor numbered like "Theorem 3.2"."""
    check_words("the label of a theorem", label)
    fits = not label or re.fullmatch(r"[A-Z][a-z]+ [0-9A-Z]+(\.[0-9]+)*[a-z]?", label)
    must(fits, 'the label of a theorem must be like "Theorem 3.2", not {!r}', label)


def check_written(where, what, x):
    must(x is not ..., "{}: {} is still to be written, in place of ...", where, what)


def check_shapes(where, a, b):
    """Refuse two sides that are not expressions of the same shape."""
    for x in (a, b):
        check_expression(where, x)
    shapes = shape_text(a.axes), shape_text(b.axes)
    must(a.axes == b.axes, "{}: shapes differ: {} = {}", where, *shapes)
