"""Print terms of the kernel as a textbook writes them.

Only this module names bound variables: k and l are positions, s and t numbers, R and S draws.
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import chain, count
from math import prod

from .. import kernel as k
from ..kernel import Term
from .latex_and_text import ATOM, POWER, PRODUCT, SIGNED, SUM, Style, Text, beside

POOLS = {"POS": "klpqrstuvw", "NUM": "stuvw", "DRAW": "RSQUVW", "FUN": "FGHK", "SIZE": "nmpq"}
#: {operator: the place of such factors in a printed product}; other factors have place 5.
LAST = {"num": 0, "size": 1, "place": 1, "let": 2, "delta": 3, "le": 3, "app": 4, "sum": 9}


def show_term(style: Style, term: Term, names: dict | None = None, tightness: float = 0) -> str:
    """Print a number in index form; ``names`` maps letters for free positions to printed names."""
    return _Printer(style, names or {}, term).tight(term, tightness)


def show_position(style: Style, term: Term, names: dict) -> str:
    """Print a position that is a term of the kernel."""
    return _Printer(style, names, term).position(term)


def is_a_place_of_a_letter(mark: Term, body: Term) -> bool:
    """Whether a position indexes a letter in ``body``; the letter's shape then shows the range."""
    heads = "let", "var"  # a draw is a bound variable
    if body.op == "app" and body.args[0].op in heads and mark in body.args[1:]:
        return True
    return any(type(t) is k.Term and is_a_place_of_a_letter(mark, t) for t in body.args)


def _looks(names):
    """Names without underscores, which TeX does not show: k1 and k_1 look alike."""
    return {name.replace("_", "") for name in names}


def show_table(style: Style, function: Term, sizes: Sequence[str] = ("", "")) -> tuple[str, float]:
    """(a function of two positions printed as a matrix, how tightly the printed text binds)."""
    body, (i, j) = k.looked_into(function)
    taken = _looks(names_in(body) | style.reserved)
    names = chain("ijpqrstuvwxyz", (f"i_{number}" for number in count(1)))
    free = (name for name in names if name.replace("_", "") not in taken)
    letters = {p: next(free) for p in (i, j) if p.args[1].args[0] != k.UNIT}
    only = {p: "1" for p in (i, j) if p not in letters}
    piece = show_term(style, body, letters | only)
    ends = [style.up_to(letters[p], s) if s else letters[p]
            for p, s in zip((i, j), sizes) if p in letters]  # fmt: skip
    table = style.tabulated(piece, ends)
    if list(letters) == [j]:
        return style.transposed(table), POWER  # a row prints as a column, transposed
    return table, ATOM if letters else SUM


def in_the_kernel(name: str) -> str:
    """The kernel's name for a word of the book, without spaces or subscript digits."""
    return name.replace(" ", "'").replace("₁", "'1")


def in_the_book(name: str) -> tuple[str, str | None]:
    """(a reader's name for a word of the kernel, the index of that name or None)."""
    index = "1" if name.endswith("'1") else None
    return name.removesuffix("'1").replace("'", " "), index


def words_in(term: Term, in_definitions: bool = True) -> set[Term]:
    """The kernel's words in a term and, unless ``in_definitions`` is false, in their definitions."""
    found, todo = {term}, [term]
    while todo:
        t = todo.pop()
        if in_definitions or t.op not in ("word", "rec"):
            below = {a for a in t.args if type(a) is k.Term} - found
            found |= below
            todo += below
    return {t for t in found if t.op in ("word", "rec")}


def names_in(term: Term) -> set[str]:
    """The names of the letters and words in a term."""
    called = {in_the_book(word.args[0])[0] for word in words_in(term)}
    return called | {x.args[0] for x in term.letters}


class _Printer:
    """Prints a term with these ``names`` for letters; bound variables avoid names in ``term``."""

    def __init__(self, style, names, term):
        self.style, self.names = style, dict(names)
        self.reserved = _looks(names_in(term) | style.reserved)

    def show(self, t):
        """(the printed text of a term, how tightly it binds)."""
        outside = dict(self.names)
        shown = getattr(self, f"_{t.op}")(*t.args)
        self.names = outside  # forget the names of variables bound inside
        return shown

    def tight(self, t, tightness=0):
        piece, holds = self.show(t)
        return piece if holds >= tightness else self.style.brackets(piece)

    def opened(self, f):
        """(the body of a binder, its variables, their printed names)."""
        body, marks = k.looked_into(f)
        for mark in marks:
            sort, taken = mark.args[1], {*self.names.values()}
            self.names[mark] = next(x for x in self._names_for(sort) if x not in taken)
        return body, marks, [self.names[mark] for mark in marks]

    def _names_for(self, sort):
        """Yield names: for a draw, its law's name and numbered copies; else, names from a pool."""
        if sort.op == "DRAW":
            law = self.style.name(sort.args[0].args[0])
            return chain([law], (self.style.copy(law, str(number)) for number in count(2)))
        pool = POOLS[sort.op]
        numbered = (f"{pool[0]}_{number}" for number in count(1))
        return (x for x in chain(pool, numbered) if x.replace("_", "") not in self.reserved)

    def _let(self, name, sort):
        letter = k.Term("let", name, sort)
        return (self.names.get(letter) or self.style.name(name)), ATOM

    def size(self, s):
        if s.op in ("lit", "let"):
            return str(s.args[0]) if s.op == "lit" else self._let(*s.args)[0]
        if s.op == "join":
            return self.style.joined(*map(self.size, s.args))
        parts = [self._size(p) for p in s.args]
        shown = [p if holds > PRODUCT else self.style.brackets(p) for p, holds in parts]
        return self.style.times.join(shown)

    _size = lambda self, s: (self.size(s), {"join": SUM, "times": PRODUCT}.get(s.op, ATOM))

    def position(self, p):
        if p.op == "move":
            name = self.tight(p.args[0])
            name = name if p.args[1] == 1 else self.style.power(name, "-1")
            return name + self.style.brackets(self.position(p.args[2]))
        if p.op in ("only", "last"):
            return "1" if p.op == "only" else self.size(p.args[0])
        if p.op in ("inl", "inr"):
            inner = self.position(p.args[1])
            return inner if p.op == "inl" else self.style.joined(self.size(p.args[0]), inner)
        return self.tight(p)

    def _place(self, p):
        shown = self.position(p)
        return shown, SUM if "+" in shown else PRODUCT if self.style.times in shown else ATOM

    def _num(self, q):
        sign = self.style.minus if q < 0 else ""
        if q.denominator == 1:
            return sign + str(abs(q.numerator)), SIGNED if sign else ATOM
        return sign + self.style.fraction(str(abs(q.numerator)), str(q.denominator)), SIGNED

    def _add(self, *terms):
        pieces = [self.tight(t, SUM) for t in terms]
        pieces.sort(key=lambda piece: piece.startswith(self.style.minus))
        return " + ".join(pieces).replace("+ " + self.style.minus, "- "), SUM

    def _mul(self, *factors):
        number = prod([f.args[0] for f in factors if f.op == "num"], start=Fraction(1))
        counts = Counter(f for f in factors if f.op != "num")
        powers = [f if n == 1 else k.Term("pow", f, n) for f, n in counts.items()]
        above = [f for f in powers if f.op != "inv"]
        below = [f.args[0] for f in powers if f.op == "inv"]
        above.append(k.Term("num", Fraction(abs(number.numerator))))
        below.append(k.Term("num", Fraction(number.denominator)))
        sign = self.style.minus if number < 0 else ""
        divided = any(f != k.ONE for f in below)
        piece = self.product(above, 0 if divided else PRODUCT)
        if divided:
            piece = self.style.fraction(piece, self.product(below, 0))
        piece = sign + piece
        return piece, SIGNED if piece.startswith(self.style.minus) else PRODUCT

    def product(self, factors, alone):
        """Print a product, sums last; ``alone`` is how tightly a single factor must bind."""
        factors = [f for f in factors if f != k.ONE]
        factors.sort(key=lambda f: LAST.get(f.op, 5))
        pieces = [self.tight(f, PRODUCT if len(factors) > 1 else alone) for f in factors]
        return beside(self.style, pieces) if pieces else "1"

    _pow = lambda self, base, e: (self.style.power(self.tight(base, POWER + 1), str(e)), POWER)
    _inv = lambda self, x: (self.style.fraction("1", self.tight(x)), PRODUCT)
    _sqrt = lambda self, x: (self.style.root(self.tight(x)), ATOM)
    _exp = lambda self, x: (self.style.exponential(self.tight(x)), POWER)
    _call = lambda self, name, x: (self.style.call(name, self.tight(x)), ATOM)
    _log = lambda self, x: self._call("log", x)
    _delta = lambda self, p, q: (self.style.coincide(self.position(p), self.position(q)), ATOM)
    _le = lambda self, p, q: (self.style.at_most(self.position(p), self.position(q)), ATOM)

    def _app(self, head, *arguments):
        if head.op not in ("word", "rec"):
            return self.entry(self.tight(head), arguments)
        sorts = head.args[1].args[1:]
        size, rest = (arguments[:1], arguments[1:]) if head.op == "rec" else ((), arguments)
        kinds = [*zip(sorts, rest)]
        data = [(self.tight if s.op == "NUM" else self.matrix)(a) for s, a in kinds
                if s.op in ("NUM", "FUN") and s != k.fun(k.NUM)]  # fmt: skip
        taken, sizes = ", ".join(data), self.told_sizes(head, rest)
        if sizes:  # say "size", because readers cannot tell which numbers are sizes
            said = self.style.text("sizes " if len(sizes) > 1 else "size ") + ", ".join(sizes)
            taken = f"{taken}; {said}" if taken else said
        name, index = in_the_book(head.args[0])
        call = self.style.call(name, taken, index=index)
        at = [*size, *[a for s, a in kinds if s.op == "POS"]]
        return self.entry(call, at)

    def told_sizes(self, head, arguments):
        """The sizes that a word takes and that no matrix among its arguments shows."""
        marks = k.looked_into(head.args[1])[1]
        told = frozenset().union(*[m.args[1].letters for m in marks if m.args[1].op == "FUN"])
        of = zip(marks, arguments)
        return [self.size(a) for m, a in of if m.args[1] == k.SIZE and m not in told]

    def entry(self, name, at):
        """Print a name with positions as indices, except positions in a range of size 1."""
        if len(at) == 1 and self.is_number(at[0]):
            return self.style.call(name, self.tight(at[0])), ATOM
        shown = [self.place_or_number(a) for a in at if not self.is_only(a)]
        return (self.style.at(name, *shown) if shown else name), ATOM

    def place_or_number(self, a):
        """Print a position, a size or a number that stands in an index."""
        if a.op in ("lit", "times", "join"):
            return self.size(a)
        return self.position(a) if a.op in ("move", "only", "last", "inl", "inr") else self.tight(a)

    def ranging(self, mark, body):
        """Print a bound variable, with its range if no letter that it indexes shows the range."""
        name, sort = self.names[mark], mark.args[1]
        if sort.op != "POS" or is_a_place_of_a_letter(mark, body):
            return name
        return self.style.up_to(name, self.size(sort.args[0]))

    @staticmethod
    def is_number(a):
        """Whether an argument of a function is a number, not a position or a size."""
        if a.op == "let":
            return a.args[1].op == "NUM"
        return a.op not in ("only", "move", "inl", "inr", "last", "lit")

    @staticmethod
    def is_only(p):
        return p == k.ONLY or p.op == "let" and p.args[1] == k.pos(k.UNIT)

    def say_only(self, marks):
        """Print the only position in a range as 1, as no "where" row would explain a letter."""
        self.names |= {m: "1" for m in marks if self.is_only(m)}

    def matrix(self, f):
        """Print a function of positions: by name if it is a letter or word, else as a matrix."""
        body, marks, names = self.opened(f)
        self.say_only(marks)
        if body.op == "app" and body.args[0].op == "let" and self.are(marks, body.args[1:]):
            return self.tight(body.args[0])
        taken = body.args[: -len(marks)]
        word = body.op == "app" and body.args[0].op == "word"
        if word and self.are(marks, body.args[-len(marks) :]):
            if not any(m in a.letters for m in marks for a in taken):  # the call suffices
                return self.tight(k.Term("app", *taken, *[k.ONLY] * len(marks)))
        at = [m for m in marks if not self.is_only(m)]
        table = self.style.tabulated(self.tight(body, SUM), [self.ranging(m, body) for m in at])
        return self.style.transposed(table) if len(marks) > 1 and at == list(marks[1:]) else table

    def are(self, marks, at):
        """Whether the places ``at`` are the bound variables, in their order."""
        return [self.is_only(p) or p for p in at] == [self.is_only(m) or m for m in marks]

    def _sum(self, f):
        body, marks, names = self.opened(f)
        piece = self.tight(body, PRODUCT)
        for mark, name in reversed([*zip(marks, names)]):
            size = mark.args[1].args[0]
            shown = self.size(size)
            shown = self.style.brackets(shown) if size.op == "times" else shown
            piece = self.style.sum_over(name, shown, piece)
        return piece, PRODUCT

    def _case(self, at, *branches):
        pieces = []
        for f in branches:
            body, (mark,), (name,) = self.opened(f)
            self.say_only([mark])
            known = is_a_place_of_a_letter(mark, body) or self.is_only(mark)
            pieces.append(self.tight(body) + ("" if known else f", {self.ranging(mark, body)}"))
        return self.style.at(self.style.cases(*pieces), self.position(at)), ATOM

    def _deriv(self, f, at):
        body, (mark,), (name,) = self.opened(f)
        if body.op == "app" and body.args[1:] == (mark,):
            return self.style.call(self.tight(body.args[0]) + "'", self.tight(at)), ATOM
        piece = self.style.derivative(name, self.tight(body, PRODUCT))
        place = "" if at == k.ZERO else f" ({name} = {self.tight(at)})"
        return piece + (self.style.text(place) if place else ""), PRODUCT

    def _mean(self, f):
        body, _, _ = self.opened(f)
        return self.style.call("E", self.tight(body)), ATOM


def readable(error: Exception) -> str:
    """The text of an error of the kernel, with terms as a textbook writes them."""
    message, *parts = error.args
    return message.format(*[_in_text(part) for part in parts]) if parts else message


def _in_text(part):
    if type(part) is not k.Term:
        return part
    printer = _Printer(Text(), {}, part)
    try:
        return printer.matrix(part) if part.op == "abs" else printer.place_or_number(part)
    except AttributeError:  # sorts and terms that make no sense cannot be printed
        return part


def show_condition(style: Style, relation: str, x: Term) -> str:
    """Print a condition of a theorem, such as "… ≠ 0 for every k"."""
    if x.op == "let":
        return style.name(x.args[0]) + style.text(" is smooth")
    printer = _Printer(style, {}, x)
    body, marks, names = printer.opened(x)
    told = [m for m in marks if m in body.letters and not printer.is_only(m)]
    told.sort(key=_places(body).index)
    printer.names |= dict(zip(told, names))
    printer.say_only(marks)
    every = ", ".join(printer.ranging(m, body) for m in told)
    every = style.text(" for every ") + every if every else ""
    if relation == "exists":
        return printer.tight(body) + style.text(" exists") + every
    signs = {"≠ 0": style.unequal, "≥ 0": style.at_least}
    return printer.tight(body, SUM) + signs[relation] + "0" + every


def _places(t):
    """A term and all terms inside it, in the order in which they are printed."""
    return [t, *[x for a in t.args if type(a) is k.Term for x in _places(a)]]
