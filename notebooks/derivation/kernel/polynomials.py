"""Polynomials in atoms: numbers as sums of products over the rationals.

A polynomial is a dict {product: rational}; a product is a frozenset of (atom, exponent); an atom
is a term.  What is divided by keeps its sum together: it is an atom ``add`` with a negative
exponent.  Exponents are whole, but for those of exponentials.  What multiplies two products is in
``normal``: a root, a mask and a Kronecker delta have laws of their own.
"""

from fractions import Fraction
from math import lcm
from types import MappingProxyType

from sympy import QQ
from sympy.polys.rings import ring

from .terms import NOTHING, ONE, ZERO, Term

UNITY = MappingProxyType({NOTHING: Fraction(1)})


def atom(t):
    """A term as a polynomial."""
    return {frozenset([(t, 1)]): Fraction(1)}


def constant(q):
    """A rational as a polynomial."""
    return {NOTHING: Fraction(q)} if q else {}


def plus(*polynomials):
    """Their sum."""
    total = {}
    for p in polynomials:
        for m, c in p.items():
            total[m] = total.get(m, 0) + c
    return {m: c for m, c in total.items() if c}


def scaled(p, q):
    """A polynomial times a rational."""
    return {m: c * q for m, c in p.items()} if q else {}


def width(p):
    """How many bits its longest rational has, or what its largest exponent is, if that is more."""
    bits = [max(map(abs, c.as_integer_ratio())).bit_length() for c in p.values()]
    return max([1, *bits, *[abs(e) for m in p for _, e in m]])


def letters_of(factors):
    """The letters in some factors."""
    return frozenset().union(*[a.letters for a, _ in factors])


def term_of(p):
    """A polynomial as a term again."""
    terms = [product_term(m, c) for m, c in p.items()]
    return ZERO if not terms else terms[0] if len(terms) == 1 else Term("add", *terms)


def product_term(m, c=1):
    """A product as a term."""
    factors = [_power_term(a, e) for a, e in m] + ([Term("num", Fraction(c))] if c != 1 else [])
    return ONE if not factors else factors[0] if len(factors) == 1 else Term("mul", *factors)


def _power_term(a, e):
    if e < 0:
        return Term("inv", _power_term(a, -e))
    if e != int(e):  # of exponentials alone
        return Term("exp", Term("mul", Term("num", Fraction(e)), a.args[0]))
    return a if e == 1 else Term("pow", a, int(e))


def rank(item):
    """The order of products in a polynomial: high degree first, then by name."""
    return -sum(e for _, e in item[0]), sorted((a.key, -e) for a, e in item[0])


# ── Identities of quotients: SymPy's polynomial rings, all of SymPy that is trusted ──────────


def numerator(p, poly):
    """What a polynomial comes to when all its divisors are multiplied out: pairs of a list of
    (atom, exponent >= 0) and a rational.  ``poly`` gives the polynomial of an atom ``add``.
    """
    roots = {}  # q, where the exponents of an atom are multiples of 1/q
    for a, e in _factors(p, poly):
        roots[a] = lcm(roots.get(a, 1), Fraction(e).denominator)
    rationals, *generators = ring([f"x{k}" for k in range(len(roots) or 1)], QQ)
    values = {a: (x, rationals(1)) for a, x in zip(roots, generators)}
    for powers, c in rationals(_quotient(p, poly, values, roots)[0]).terms():
        factors = [(a, Fraction(e, q)) for (a, q), e in zip(roots.items(), powers) if e]
        yield factors, Fraction(int(c.numerator), int(c.denominator))


def _factors(p, poly):
    """All atoms and their exponents, also in what is divided by."""
    for a, e in (factor for m in p for factor in m):
        yield from _factors(poly(a), poly) if a.op == "add" else [(a, e)]


def _quotient(p, poly, values, roots):
    """A polynomial as a quotient of two of SymPy's, over a common denominator."""
    exponents = {}  # that an atom has
    for a, e in (factor for m in p for factor in m):
        exponents.setdefault(a, {0}).add(e)
        if a not in values:
            values[a] = _quotient(poly(a), poly, values, roots)
    top, below = 0, 1
    for m, c in p.items():
        powers, term = dict(m), QQ(c.numerator, c.denominator)
        for a, seen in exponents.items():
            (n, d), e, q = values[a], powers.get(a, 0), roots.get(a, 1)
            term = term * n ** int((e - min(seen)) * q) * d ** int((max(seen) - e) * q)
        top = top + term
    for a, seen in exponents.items():
        (n, d), q = values[a], roots.get(a, 1)
        below = below * n ** int(-min(seen) * q) * d ** int(max(seen) * q)
    return top, below
