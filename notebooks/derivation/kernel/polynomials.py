"""Polynomials in atoms: numbers as sums of products over the rationals, and their normal form.

A polynomial is a dict {product: rational}; a product is a frozenset of (atom, exponent); an atom is a
term.  A divisor that is a sum stays together as an atom ``add`` with a negative exponent.  Exponents
are integers, except those of exponentials.

Each step of the normal form replaces a number by an equal number, whatever its form: no step relies
on an earlier one.  A badly chosen order of steps can make two equal terms look different, so that a
true line is refused, but cannot make a false line pass.  There is one invariant: unless a product
is folded, it contains no sum with a positive power, because ``product`` multiplies such sums out.
"""

from fractions import Fraction
from math import isqrt, lcm, prod
from types import MappingProxyType

from sympy import QQ
from sympy.polys.rings import ring

from .sorts import ABOVE_ZERO, is_mask, sign
from .terms import NOTHING, ONE, ZERO, ProofError, Term, must, put

EXP, ANGLE = "exponential of a sum", "angle addition"
MOST_STEPS = 10_000  # 10,000 steps take one or two seconds

#: The sign in f(-x) = ± f(x).
PARITY = {"cos": 1, "sin": -1, "tanh": -1}
UNITY = MappingProxyType({NOTHING: Fraction(1)})


def atom(t):
    """A term as a polynomial."""
    return {frozenset([(t, 1)]): Fraction(1)}


def constant(q):
    """A rational as a polynomial."""
    return {NOTHING: Fraction(q)} if q else {}


def plus(*polynomials):
    total = {}
    for p in polynomials:
        for m, c in p.items():
            total[m] = total.get(m, 0) + c
    return {m: c for m, c in total.items() if c}


def scaled(p, q):
    """A polynomial times a rational."""
    return {m: c * q for m, c in p.items()} if q else {}


def width(p):
    """The bit length of the longest rational, or the largest exponent, whichever is greater."""
    bits = [max(map(abs, c.as_integer_ratio())).bit_length() for c in p.values()]
    return max([1, *bits, *[abs(e) for m in p for _, e in m]])


def letters_of(factors):
    return frozenset().union(*[a.letters for a, _ in factors])


def term_of(p: dict) -> Term:
    """A polynomial as a term."""
    terms = [product_term(m, c) for m, c in p.items()]
    return ZERO if not terms else terms[0] if len(terms) == 1 else Term("add", *terms)


def product_term(m, c=1):
    """A product times a rational, as a term."""
    factors = [_power_term(a, e) for a, e in m] + ([Term("num", Fraction(c))] if c != 1 else [])
    return ONE if not factors else factors[0] if len(factors) == 1 else Term("mul", *factors)


def _power_term(a, e):
    if e < 0:
        return Term("inv", _power_term(a, -e))
    if e != int(e):  # only exponentials have fractional exponents
        return Term("exp", Term("mul", Term("num", Fraction(e)), a.args[0]))
    return a if e == 1 else Term("pow", a, int(e))


def rank(item: tuple) -> tuple:
    """A key that orders the products of a polynomial: high degree first, then by name."""
    return -sum(e for _, e in item[0]), sorted((a.key, -e) for a, e in item[0])


# ── Identities of quotients, by polynomial rings: the only part of SymPy that is trusted ─────


def numerator(p, poly):
    """Yield ([(atom, exponent >= 0)], rational) for the terms of a polynomial, after multiplying it
    by all its divisors.  ``poly`` returns the polynomial of an atom ``add``.
    """
    roots = {}  # {atom: the q such that its exponents are multiples of 1/q}
    for a, e in _factors(p, poly):
        roots[a] = lcm(roots.get(a, 1), Fraction(e).denominator)
    rationals, *generators = ring([f"x{k}" for k in range(len(roots) or 1)], QQ)
    values = {a: (x, rationals(1)) for a, x in zip(roots, generators)}
    for powers, c in rationals(_quotient(p, poly, values, roots)[0]).terms():
        factors = [(a, Fraction(e, q)) for (a, q), e in zip(roots.items(), powers) if e]
        yield factors, Fraction(int(c.numerator), int(c.denominator))


def _factors(p, poly):
    """All atoms with their exponents, including those in divisors."""
    for a, e in (factor for m in p for factor in m):
        yield from _factors(poly(a), poly) if a.op == "add" else [(a, e)]


def _quotient(p, poly, values, roots):
    """A polynomial as two SymPy polynomials: a numerator and a common denominator."""
    products = [(dict(m), QQ(c.numerator, c.denominator)) for m, c in p.items()]
    ends = {}  # {atom: (its least exponent, its largest)}
    for a in {a for m in p for a, _ in m}:
        exponents = [0, *[m.get(a, 0) for m, _ in products]]
        values[a] = values[a] if a in values else _quotient(poly(a), poly, values, roots)
        ends[a] = min(exponents), max(exponents)

    def over(m):
        found = [(*values[a], roots.get(a, 1), m.get(a, 0), *ends[a]) for a in ends]
        powers = [n ** int((e - lo) * q) * d ** int((hi - e) * q) for n, d, q, e, lo, hi in found]
        return prod(powers)

    return sum(c * over(m) for m, c in products), over({})


class NotWorkedOut(ProofError):
    """No rule gives a slope, or a step is too large; `_deriv` then leaves the slope as it is."""


class Arithmetic:
    """Computes normal forms, with some words unfolded and some laws applied.

    ``words`` are terms, or None for all words; ``laws`` are names.  A ``folded`` form keeps products of
    sums, and slopes, as they are.  It shows in few steps that two sides of the same structure are
    equal, but can show no other equality.
    """

    def __init__(self, words=(), laws=(), folded=False, most=MOST_STEPS):
        self.words = None if words is None else frozenset(words)
        self.laws, self.folded, self.known = frozenset(laws), folded, {}
        self.left = most * (5 if folded else 1)  # the steps that are left

    def poly(self, t):
        """The normal form of a number without loose variables."""
        if t not in self.known:
            self.known[t] = getattr(self, f"_{t.op}")(*t.args)
        return self.known[t]

    def canonical(self, t):
        """The normal form of a term, as a term."""
        return term_of(self.poly(t))

    def same(self, x, y):
        """Whether two numbers are equal wherever none of their divisors is 0."""
        difference = plus(self.poly(x), scaled(self.poly(y), -1))
        escaped = letters_of([f for m in difference for f in m]) - x.letters - y.letters
        must(not escaped, "something bound escapes its binder: {}", escaped)
        top = numerator(difference, self.poly) if difference and not self.folded else ()
        whole = plus(*[scaled(self.product(m), c) for m, c in top])
        return not difference or not (self.folded or whole)

    def times(self, *polynomials):
        out = UNITY
        for q in polynomials:
            q = atom(term_of(q)) if self.folded and len(q) > 1 else q
            pairs = [(m, n, c * d) for m, c in out.items() for n, d in q.items()]
            out = plus(*[scaled(self.product([*m, *n]), c) for m, n, c in pairs])
        return out

    def power(self, p, e):
        must(abs(e) * width(p) < MOST_STEPS, "the power {} of {} is too large", e, term_of(p))
        return self.times(*[p if e >= 0 else self.inverse(p)] * abs(e))

    def product(self, factors):
        """The product of a list of (atom, exponent), as a polynomial."""
        self.left -= 1
        if self.left < 0:
            raise NotWorkedOut("the step is too large: split it, or cite a lemma")
        powers = {}
        for a, e in factors:
            e = powers.get(a, 0) + e
            powers[a] = 1 if e > 1 and is_mask(a) else int(e) if e == int(e) else e
        powers = {a: e for a, e in powers.items() if e}
        for a, e in powers.items():
            instead = self._instead(a, e, [(b, f) for b, f in powers.items() if b is not a])
            if instead is not None:
                return instead
        return {frozenset(powers.items()): Fraction(1)}

    def _instead(self, a, e, rest):
        """The product of a**e and ``rest``, by a law for this power; None if no law applies."""
        if a.op == "sqrt" and e not in (0, 1):  # (√p)² = p, and 1/√p = √p/p
            square = self.power(self.poly(a.args[0]), e // 2)
            return self.times(square, self.product([*rest, (a, e % 2)]))
        if a.op == "exp" and a.args[0].op == "log" and e == int(e):  # exp(log p) = p
            return self.times(self.power(self.poly(a.args[0].args[0]), int(e)), self.product(rest))
        if a.op == "add" and e > 0 and not self.folded:
            return self.times(self.power(self.poly(a), e), self.product(rest))
        if a.op == "call" and a.args[0] == "sin" and e > 1 and ANGLE in self.laws:
            cosine = self._call("cos", a.args[1])
            square = plus(UNITY, scaled(self.times(cosine, cosine), -1))
            return self.times(square, self.product([*rest, (a, e - 2)]))
        if a.op == "delta" and e > 0:  # replace one of two equal positions by the other
            x, there = a.args
            sorts = [y.args[1] for y in letters_of(rest)]  # the sort of a draw may contain x
            free = x.op == "let" and x.args[0][0] == "#" and x not in there.letters
            if free and x in letters_of(rest) and not any(x in s.letters for s in sorts):
                return self.times(atom(a), self.poly(put(product_term(rest), {x: there})))
        return None

    def inverse(self, p):
        """1/p, with the common factors of p kept as separate factors."""
        common, c, rest = self.content(p)
        must(rest, "divides by zero")
        below = [(a, -e) for a, e in common]
        if len(rest) > 1:
            return scaled(self.product([*below, (term_of(rest), -1)]), 1 / c)
        [(m, d)] = rest.items()
        return scaled(self.product([*below, *[(a, -e) for a, e in m]]), 1 / (c * d))

    def content(self, p):
        """(common, c, rest) with product p; c is a rational, and rest begins with coefficient 1."""
        products = [dict(m) for m in p]
        lows = {a: min(m.get(a, 0) for m in products) for a in set().union(*products)}
        kept = ("add", "sqrt") if len(p) > 1 else ()
        common = [(a, e) for a, e in lows.items() if e < 0 or e > 0 and a.op not in kept]
        c = p[min(p.items(), key=rank)[0]] if p else Fraction(0)
        lower = [(a, -e) for a, e in common]
        rest = plus(*[scaled(self.product([*m, *lower]), d / c) for m, d in p.items()])
        return common, c, rest

    def _without_positive(self, p):
        """(factors of p whose form shows that they are above 0, a rational, the rest)."""
        common, c, rest = self.content(p)
        out = [(a, e) for a, e in common if sign(a) == ABOVE_ZERO]
        return out, c, self.times(self.product([f for f in common if f not in out]), rest)

    def vanishing(self, x):
        """A term that vanishes where x does: x without the factors that never vanish."""
        common, _, rest = self.content(self.poly(x))
        below = {a for a, e in common if e < 0}
        above = [a for a, e in common if e > 0 and sign(a) != ABOVE_ZERO]
        above = [a.args[0] if a.op == "sqrt" else a for a in above]
        return term_of(self.times(*[self.poly(a) for a in above if a not in below], rest))

    _num = staticmethod(constant)
    _let = lambda self, *parts: atom(Term("let", *parts))
    _add = lambda self, *terms: plus(*map(self.poly, terms))
    _mul = lambda self, *factors: self.times(*map(self.poly, factors))
    _pow = lambda self, base, e: self.power(self.poly(base), e)
    _inv = lambda self, x: self.inverse(self.poly(x))

    def _sqrt(self, x):
        """The root of a number >= 0; positive factors and even powers move out of the root."""
        common, c, rest = self.content(self.poly(x))
        c, rest = abs(c), scaled(rest, 1 if c > 0 else -1)
        inside, out = [], []
        for a, e in common:
            if a.op == "exp":
                out.append((a, Fraction(e, 2)))
            elif sign(a) == ABOVE_ZERO or sign(a) and e % 2 == 0:  # √(a²) = a even if a = 0
                out += [(a, e // 2), (Term("sqrt", a), e % 2)]
            else:
                inside.append((a, e))
        n, r = c.numerator * c.denominator, isqrt(c.numerator * c.denominator)
        square, free = (r, 1) if r * r == n else (1, n)
        inside = self.times(self.product(inside), rest)
        roots = [(Term("sqrt", term_of(q)), 1) for q in (constant(free), inside) if q != UNITY]
        return scaled(self.product([*out, *roots]), Fraction(square, c.denominator))

    def _exp(self, x):
        p = self.poly(x)
        apart = [(product_term(m), c) for m, c in p.items()]
        each = apart if EXP in self.laws else [(term_of(p), 1)]
        return self.product([(Term("exp", t), c) for t, c in each if t != ZERO])

    def _log(self, x):
        """The logarithm of a number > 0; evidently positive factors become terms of a sum."""
        out, c, rest = self._without_positive(self.poly(x))
        inside = scaled(rest, c)
        left = atom(Term("log", term_of(inside))) if inside != UNITY else {}
        log = lambda a: self.poly(a.args[0]) if a.op == "exp" else atom(Term("log", a))
        return plus(left, *[scaled(log(a), e) for a, e in out])

    def _size(self, s):
        if s.op == "lit":
            return constant(s.args[0])
        if s.op == "let":
            return atom(Term("size", s))
        below = map(self._size, s.args)
        return plus(*below) if s.op == "join" else self.times(*below)

    def _call(self, name, x):
        """A function for which the kernel has laws: cos, sin, tanh or relu."""
        p = self.poly(x)
        if name == "relu":
            return self._relu(p)
        if name in ("cos", "sin") and ANGLE in self.laws and len(p) > 1:
            return self._of_a_sum(name, dict(p))
        if name in PARITY and not p:
            return UNITY if name == "cos" else {}
        negative = name in PARITY and self.content(p)[1] < 0
        value = atom(Term("call", name, term_of(scaled(p, -1 if negative else 1))))
        return scaled(value, PARITY[name] if negative else 1)

    def _of_a_sum(self, name, p):
        """The cosine or the sine of a sum of angles."""
        first = min(p.items(), key=rank)[0]
        a, b = term_of({first: p.pop(first)}), term_of(p)
        cos, sin = (lambda x, f=f: self._call(f, x) for f in ("cos", "sin"))
        if name == "cos":
            return plus(self.times(cos(a), cos(b)), scaled(self.times(sin(a), sin(b)), -1))
        return plus(self.times(sin(a), cos(b)), self.times(cos(a), sin(b)))

    def _relu(self, p):
        """relu(c x) = c relu(x) for c > 0."""
        out, c, rest = self._without_positive(p)
        value = atom(Term("call", "relu", term_of(scaled(rest, 1 if c > 0 else -1))))
        return self.times(self.product(out), value, constant(abs(c)))
