"""Laws, sizes, indices, and the objects that letters denote: what a reader writes first.

Sizes and scalars are SymPy's symbols.  Each letter has a term of the kernel.  Nothing here is trusted:
a mistake can only lead to a theorem about a letter other than the intended one.
"""

import inspect
import operator
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

import sympy as sp
from sympy import Basic, Expr, S, Tuple
from sympy.core.symbol import Str

from .. import kernel as k
from ..kernel import ANGLE, EXP, KNOWN, ProofError, Term, must
from ..printing import Style, Text, name_parts, show_term


def written(what: str, body: Callable, *arguments: object) -> Any:
    """Call a reader's function; raise ProofError if it does not take these arguments, or fails."""
    must(callable(body), "{} must be a function, such as lambda x: ..., not {!r}", what, body)
    try:
        inspect.signature(body).bind(*arguments)
    except TypeError:
        count = f"{len(arguments)} argument" + "s" * (len(arguments) != 1)
        raise ProofError(f"{what} is a function of {count} here") from None
    except ValueError:  # Python cannot find this function's signature
        pass
    try:
        return body(*arguments)
    except (TypeError, ValueError, ArithmeticError, LookupError, AttributeError) as error:
        raise ProofError(f"{what} must be one formula, but Python says: {error}") from error


class Sealed:
    """An object that a definition's body may use but not compare, so the body cannot branch."""

    __slots__ = ()
    looks = 0  # counts comparisons, because a body may catch the errors that they raise

    def _look(self, other=None):
        Sealed.looks += 1
        raise ProofError(
            "a formula holds for every size, number and position: it cannot branch on one, and SymPy's "
            "functions cannot evaluate one; write the root of c as c ** Rational(1, 2)"
        )

    __bool__ = __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __hash__ = _look


class Formula(Sealed):
    """A sealed object that can be added, multiplied and divided; ``_op`` builds the result."""

    __slots__ = ()
    __array_ufunc__ = None  # NumPy must not broadcast over a formula

    __add__ = __radd__ = lambda self, other: self._op(operator.add, self, other)
    __mul__ = __rmul__ = lambda self, other: self._op(operator.mul, self, other)
    __sub__ = lambda self, other: self._op(operator.sub, self, other)
    __rsub__ = lambda self, other: self._op(operator.sub, other, self)
    __truediv__ = lambda self, other: self._op(operator.truediv, self, other)
    __rtruediv__ = lambda self, other: self._op(operator.truediv, other, self)
    __neg__ = lambda self: self._op(operator.mul, -1, self)


class Scalar(Formula):
    """A sealed size, scalar or index: an argument of a definition, or a size from a shape."""

    __slots__ = ("_inside",)

    def __init__(self, inside):
        self._inside = inside

    def __repr__(self):
        return "a sealed size, scalar or index"  # one text for all, so that it reveals nothing

    @staticmethod
    def _op(operation, one, other):
        try:
            return Scalar(operation(exact(one), exact(other)))
        except ProofError:
            return NotImplemented

    __pow__ = lambda self, other: self._op(operator.pow, self, other)


#: A size or a scalar as a reader writes it.
Size: TypeAlias = int | Expr | Scalar
ExactNumber: TypeAlias = int | Fraction | Expr | Scalar


def unsealed(x):
    """The object inside x if x is sealed; otherwise x itself."""
    return x._inside if type(x) is Scalar else x


class Mismatch(ProofError):
    """Two sizes that must be equal differ; `Template` then unites them and reads the body again."""

    def __init__(self, sizes, message, *parts):
        shown = [shape_text(p) if isinstance(p, (tuple, Tuple)) else p for p in parts]
        super().__init__("{}", message.format(*shown))
        self.sizes = sizes


def conform(ones, others, message, *parts):
    """Raise Mismatch, with ``parts`` put into the message, if a size differs from its counterpart."""
    for sizes in zip(ones, others):
        if sizes[0] != sizes[1]:
            raise Mismatch(sizes, message, *parts)


def shape_text(axes: Sequence) -> str:
    """A shape in words for a message."""
    return "(" + ", ".join(show_number(Text(), s) for s in axes) + ")"


@dataclass(frozen=True)
class Law:
    """A rule that a line may use if it names the rule; ``latex`` is the rule's printed form."""

    name: str
    latex: str


REINDEX = Law(k.REINDEX, k.REINDEX)
EXP_OF_SUM = Law(EXP, r"$e^{a+b}=e^a e^b$")
SPLIT = Law(k.SPLIT, k.SPLIT)
ANGLE_ADDITION = Law(ANGLE, ANGLE)
SECOND_MOMENTS = Law(k.MOMENTS, "linearity of E, second moments")
COUNT = Law(k.COUNT, r"$\sum_k[k\le i]=i$")
ORDER = Law(k.ORDER, k.ORDER)
LINEARITY = Law(k.LINEAR, "linearity of E")
LAWS = (REINDEX, EXP_OF_SUM, SPLIT, ANGLE_ADDITION, SECOND_MOMENTS, COUNT, ORDER, LINEARITY)


class Final:
    """A base for classes without subclasses, because a reader's subclass could print anything."""

    __slots__ = ()

    def __init_subclass__(cls, **more):
        if any(issubclass(base, Final) and base is not Final for base in cls.__bases__):
            name = cls.__bases__[-1].__name__
            raise TypeError(f"{name} has no subclasses, because they could print anything")
        super().__init_subclass__(**more)


class Join(Final, Expr):
    """The size n + m of a range made of a first block of n and a second block of m.

    Unlike the number n + m, it keeps the order of the blocks.
    """

    is_commutative = is_integer = is_positive = True
    is_number = False

    def __new__(cls, first, second):
        return Expr.__new__(cls, as_size(first), as_size(second))


def as_size(size):
    """``size`` as a SymPy expression that is provably a positive integer; raises ProofError otherwise."""
    try:
        size = sp.sympify(unsealed(size), strict=True)
    except sp.SympifyError:
        size = None
    must(isinstance(size, Expr), "a size is an integer >= 1 or a letter made by sizes")
    product = size.is_Mul and all(map(_is_size, size.args))
    why = "it must be provably an integer >= 1"
    if size.is_Add and len(size.args) == 2:
        why = "write join({1}, {0}) or join({0}, {1}), which say which block comes first"
        why = why.format(*size.args)
    fits = isinstance(size, Join) or _is_size(size) or product
    must(fits, "{} is not a size: {}", size, why)
    return size


def is_size(x):
    try:
        return bool(as_size(x))
    except ProofError:
        return False


def _is_size(size):
    letter = type(size) is sp.Symbol and size.is_integer and size.is_positive
    return letter or _is_sympys(size) and size.is_Integer and size > 0


def number(size: Expr) -> Expr:
    """The size as a number: ``join(n, m)`` becomes n + m."""
    of = operator.add if isinstance(size, Join) else size.func
    return of(*map(number, size.args)) if size.args else size


def exact(scalar):
    """``scalar`` as an exact SymPy number or symbol; refuses floats and foreign objects."""
    try:
        scalar = sp.sympify(unsealed(scalar), strict=True)
    except sp.SympifyError:
        raise ProofError(f"{scalar!r} is not a scalar") from None
    must(not scalar.atoms(Index, End), "{} is not a scalar: it depends on a position", scalar)
    exact_only = "{} is a float: a derivation takes exact numbers only, such as Rational(1, 2)"
    must(not scalar.atoms(sp.Float), exact_only, scalar)
    must(isinstance(scalar, sp.Expr), "{} is not a scalar", scalar)
    scalar = number(scalar) if scalar.has(Join) else scalar
    for part in sp.preorder_traversal(scalar):
        foreign = "{} is not a scalar of the book: use scalars(), rationals and whole powers"
        must(_is_exact(part), foreign, part)
    return _evaluated(scalar)


def _evaluated(x):
    """The number x, evaluated, because SymPy prints an unevaluated -1/(1/2) as -1/1/2."""
    return x.func(*map(_evaluated, x.args)) if x.args else x


def _is_sympys(x):
    """Whether the class of x is SymPy's own; a reader's class could print anything."""
    kind = type(x)
    own = getattr(sys.modules.get(kind.__module__), kind.__name__, None) is kind
    return own and kind.__module__.startswith("sympy.")


def _is_exact(part):
    """Whether a SymPy node is allowed in a scalar: rationals, the book's symbols, +, *, powers."""
    if not _is_sympys(part):
        return False
    if isinstance(part, sp.Symbol):
        kinds = ({"real": True}, {"positive": True}, {"integer": True, "positive": True})
        return any(part == sp.Symbol(part.name, **kind) for kind in kinds)
    if part.is_Pow:
        return part.exp.is_Rational and part.exp.q in (1, 2)
    return part.is_Rational or part.is_Add or part.is_Mul


def exact_number(q):
    """The kernel's term for a whole number or a Fraction."""
    must(type(q) in (int, Fraction), "{!r} is not an exact number", q)
    return Term("num", Fraction(q))


#: The names that letters and words may have: Latin letters or one Greek letter, subscripts, primes.
_PART = "(?:[A-Za-z]+|[ΓΔΘΛΞΠΣΦΨΩα-ξπρσ-ω])"
READERS = re.compile(f"{_PART}(?:_?[0-9]+|_{_PART})*'*")
#: Names of letters that the checker introduces; the mark ʼ occurs in no reader's name.
_INNER = re.compile("[a-z]+ʼ[a-z0-9]+")
_SPELLING = "Latin letters or a Greek one, subscripts after an underscore, digits"
#: Names that the book prints itself, and well-known ones; a reader's word may not have them.
PRINTED = {"softmax", "sigmoid", "normalise", "LN", "BN", "RMS", "diag", "last", "exp", "sqrt", "sum", "E", "I",
           "L", "det", "tr", "trace", "rank", "max", "min", "sup", "inf", "lim", "log", "ln",
           "tan", "sinh", "cosh", "arctan", "sgn", "abs", "arg", "dim", "ker", "Re", "Im", "Pr",
           *KNOWN}  # fmt: skip


def letter(name: str, sort: Term) -> Term:
    return Term("let", _named(name).name, sort)


def _named(name):
    """A name as SymPy stores it; raises ProofError for a name that does not print as written."""
    name = getattr(name, "name", name)
    return (_checked if type(name) is str else _checked.__wrapped__)(name)


@lru_cache(maxsize=4096)
def _checked(name):
    fits = type(name) is str and (READERS.fullmatch(name) or _INNER.fullmatch(name))
    must(fits, "{!r} is no name of a letter: {}, and primes behind them", name, _SPELLING)
    return Str(name)


def check_word(what, name):
    """Refuse a name for a word or a function if it prints like one of the book's names."""
    fits = type(name) is str and READERS.fullmatch(name) and "'" not in name  # f' denotes a slope
    must(fits, "{} cannot be called {!r}: {}", what, name, _SPELLING)
    first, longer = name_parts(name)[0], {known.lower() for known in PRINTED if known[1:]}
    taken = first in PRINTED or first.lower() in longer
    must(not taken, "the book already uses the name {}: choose another", name)


def size_term(s: Size) -> Term:
    """The kernel's term for a size."""
    s = as_size(s)
    if isinstance(s, Join):
        return Term("join", *map(size_term, s.args))
    if s.is_Integer:
        return Term("lit", int(s))
    return letter(s.name, k.SIZE) if s.is_Symbol else Term("times", *map(size_term, s.args))


def size_of(term: Term) -> Expr:
    """The size that a kernel term denotes."""
    if term.op == "let":
        return sp.Symbol(term.args[0], integer=True, positive=True)
    parts = [size_of(t) if type(t) is Term else sp.Integer(t) for t in term.args]
    return Join(*parts) if term.op == "join" else sp.Mul(*parts)


def scalar_letter(symbol):
    """The kernel's letter for a scalar symbol."""
    return letter(symbol.name, k.POSITIVE if symbol.is_positive else k.NUM)


def scalar_term(s):
    """The kernel's term for a scalar, or for a size used as a number."""
    if isinstance(s, Join):
        return Term("size", size_term(s))
    if s.is_Rational:
        return exact_number(Fraction(int(s.p), int(s.q)))
    if s.is_Symbol:
        return Term("size", size_term(s)) if s.is_integer else scalar_letter(s)
    if s.is_Add or s.is_Mul:
        return Term("add" if s.is_Add else "mul", *map(scalar_term, s.args))
    base, exponent = scalar_term(s.base), s.exp
    if exponent.q == 2:
        base, exponent = Term("sqrt", base), 2 * exponent
    power = base if abs(exponent) == 1 else Term("pow", base, abs(int(exponent)))
    return power if exponent > 0 else Term("inv", power)


class Index(Final, Basic):
    """A variable position in the range 1..size; if the size is 1, the only position, an ``End``."""

    def __new__(cls, name, size):
        size = as_size(size)
        if size == 1:
            return End(size)
        return Basic.__new__(cls, _named(name), size)

    def __str__(self):
        return self.name

    name = property(lambda self: self.args[0].name)
    size = property(lambda self: self.args[1])
    term = property(lambda self: letter(self.name, k.pos(size_term(self.size))))


class End(Final, Basic):
    """The only position in a range of size 1."""

    def __new__(cls, size=S.One):
        return Basic.__new__(cls, as_size(size))

    size = property(lambda self: self.args[0])
    term = property(lambda self: k.ONLY)


class Bijection(Final, Basic):
    """A bijection of the range 1..size onto itself."""

    def __new__(cls, name, size):
        return Basic.__new__(cls, _named(name), as_size(size))

    name = property(lambda self: self.args[0].name)
    size = property(lambda self: self.args[1])

    @property
    def term(self):
        """The kernel's letter for the bijection."""
        own = k.pos(size_term(self.size))
        return letter(self.name, k.fun(own, kind="perm", result=own))


KINDS = ("matrix", "mask", "random", "sequence")


class Family(Final, Basic):
    """What a letter denotes: a name, a kind, the sizes of the axes, and for a draw the variance.

    The first axis of a sequence is the natural numbers.
    """

    def __new__(cls, name, kind, sizes, *variance):
        sizes = [s if s is S.Naturals else as_size(s) for s in sizes]
        kind, variance = kind if isinstance(kind, Basic) else Str(kind), tuple(map(exact, variance))
        known = kind.name in KINDS and len(variance) == (kind.name == "random")
        must(known, "a letter is one of {}; a random one has a variance", ", ".join(KINDS))
        for v in variance:
            must(v.is_nonnegative, "a variance must be provably >= 0, which {} is not", v)
        return Basic.__new__(cls, _named(name), kind, Tuple(*sizes), *variance)

    name = property(lambda self: self.args[0].name)
    kind = property(lambda self: self.args[1].name)
    sizes = property(lambda self: self.args[2])
    variance = property(lambda self: self.args[3])
    random = property(lambda self: self.kind == "random")

    @property
    def law(self):
        """The kernel's letter for the law of a draw; no other draw has this law."""
        return letter(self.name, k.LAW)

    @property
    def term(self):
        """The kernel's letter for the family; if it is a draw, a mean has to bind it."""
        axes = [k.NUM if s is S.Naturals else k.pos(size_term(s)) for s in self.sizes]
        if self.random:
            return letter(self.name, Term("DRAW", self.law, scalar_term(self.variance), *axes))
        return letter(self.name, k.fun(*axes, kind="mask" if self.kind == "mask" else "any"))

    function = property(lambda self: eta(self.term), doc="The letter, as a function of positions.")


def eta(letter):
    """A letter for a function f, written as the function x ↦ f(x)."""
    sort = letter.args[1]
    free = "{} is a draw: it may occur only inside a mean"
    must(sort.op == "FUN", free, letter.args[0])
    marks = [k.fresh(s) for s in sort.args[2:]]
    return k.abstract(marks, Term("app", letter, *marks))


def kernel_letter(basic: Any) -> Term:
    """The kernel's letter for a size, a scalar, an index, a permutation or a family."""
    if isinstance(basic, sp.Symbol):
        return size_term(basic) if basic.is_integer else scalar_letter(basic)
    return basic.term


def show_number(style: Style, scalar: Expr) -> str:
    """Print a scalar or a size, which contains no position: τ, 1/d, 2."""
    if isinstance(scalar, Join):
        return style.joined(*[show_number(style, s) for s in scalar.args])
    return show_term(style, scalar_term(scalar))
