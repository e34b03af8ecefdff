"""Normal forms of numbers.

Each step here puts a number in the place of an equal one, whatever that number looks like: no
step relies on another one having come before.  So an order badly chosen can make two equal terms
look different, and a true line be refused; it cannot make a false line pass.  The one invariant:
a product holds no sum to a positive power, since ``product`` multiplies it out.
"""

from fractions import Fraction
from math import isqrt

from .polynomials import UNITY, atom, constant, letters_of, numerator, plus, product_term, rank
from .polynomials import scaled, term_of, width
from .sorts import is_mask, sign
from .sums import COUNT, MOMENTS, ORDER, REINDEX, SPLIT, Sums
from .terms import NUM, ONE, ProofError, Term, abstract, fresh, looked_into, need, opened
from .terms import put, unfolded

EXP = "exponential of a sum"
ANGLE = "angle addition"
LAWS = (EXP, REINDEX, SPLIT, ANGLE, MOMENTS, COUNT, ORDER)
MOST_STEPS = 10_000  # a second or two

#: f(-x) = f(x), or -f(x).
PARITY = {"cos": 1, "sin": -1, "tanh": -1}


class NotWorkedOut(ProofError):
    """An atom whose slope is not taken: the derivative stays written."""


class TooLarge(ProofError):
    """A normal form that takes more steps than somebody waits for."""


class Normal(Sums):
    """Brings numbers to normal form, with some words unfolded and some laws used.

    ``words`` are terms, or None for all of them; ``laws`` are names from ``LAWS``.  A form that
    is ``folded`` keeps products of sums, and slopes, as they stand: two sides that are alike are
    seen to be equal in few steps, and all others are not.
    """

    def __init__(self, words=(), laws=(), folded=False, most=MOST_STEPS):
        self.words = None if words is None else frozenset(words)
        self.laws, self.folded, self.known = frozenset(laws), folded, {}
        self.left = most * (5 if folded else 1)  # steps

    def poly(self, t):
        """The normal form of a number without loose variables."""
        if t not in self.known:
            self.known[t] = getattr(self, f"_{t.op}")(*t.args)
        return self.known[t]

    def canonical(self, t):
        """The term of the normal form."""
        return term_of(self.poly(t))

    def same(self, x, y):
        """Whether two numbers are equal wherever nothing that they divide by vanishes."""
        difference = plus(self.poly(x), scaled(self.poly(y), -1))
        escaped = letters_of([f for m in difference for f in m]) - x.letters - y.letters
        need(not escaped, "something bound escapes its binder: {}", escaped)
        if self.folded or not difference:
            return not difference
        top = numerator(difference, self.poly)
        return not plus(*[scaled(self.product(m), c) for m, c in top])

    # ── Products ─────────────────────────────────────────────────────────────────────────────

    def times(self, *polynomials):
        """Their product."""
        out = UNITY
        for q in map(self.fold, polynomials) if self.folded else polynomials:
            pairs = [(m, n, c * d) for m, c in out.items() for n, d in q.items()]
            out = plus(*[scaled(self.product([*m, *n]), c) for m, n, c in pairs])
        return out

    def fold(self, p):
        """A polynomial as one product: its terms together are a factor."""
        common, c, rest = self.content(p)
        below = [(term_of(rest), 1)] if len(rest) > 1 else [f for m in rest for f in m]
        return scaled(self.product([*common, *below]), c) if rest else {}

    def power(self, p, e):
        """A polynomial to a whole power."""
        need(abs(e) * width(p) < MOST_STEPS, "the power {} of {} is too large", e, term_of(p))
        return self.times(*[p if e >= 0 else self.inverse(p)] * abs(e))

    def product(self, factors):
        """The polynomial of a list of (atom, exponent)."""
        self.left -= 1
        if self.left < 0:
            raise TooLarge("the step is too large: split it, or cite a lemma")
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
        """What a power and the other factors come to by a law of its own, or None."""
        if a.op == "sqrt" and e not in (0, 1):  # √p² = p, and 1/√p = √p/p
            square = self.power(self.poly(a.args[0]), e // 2)
            return self.times(square, self.product([*rest, (a, e % 2)]))
        if a.op == "add" and e > 0 and not self.folded:
            return self.times(self.power(self.poly(a), e), self.product(rest))
        if a.op == "call" and a.args[0] == "sin" and e > 1 and ANGLE in self.laws:
            cosine = self._call("cos", a.args[1])
            square = plus(UNITY, scaled(self.times(cosine, cosine), -1))
            return self.times(square, self.product([*rest, (a, e - 2)]))
        if a.op == "delta" and e > 0:  # one of two equal positions in the place of the other
            x, there = a.args
            sorts = [y.args[1] for y in letters_of(rest)]  # a draw's may speak of x
            free = x.op == "let" and x.args[0][0] == "#" and x not in there.letters
            if free and x in letters_of(rest) and not any(x in s.letters for s in sorts):
                return self.times(atom(a), self.poly(put(product_term(rest), (), {x: there})))
        return None

    def inverse(self, p):
        """1/p, its common factors taken out."""
        common, c, rest = self.content(p)
        need(rest, "divides by zero")
        below = [(a, -e) for a, e in common]
        if len(rest) > 1:
            return scaled(self.product([*below, (term_of(rest), -1)]), 1 / c)
        [(m, d)] = rest.items()
        return scaled(self.product([*below, *[(a, -e) for a, e in m]]), 1 / (c * d))

    def content(self, p):
        """(common, c, rest): a polynomial as a product, a rational and a rest that starts with 1."""
        products = [dict(m) for m in p]
        lows = {a: min(m.get(a, 0) for m in products) for a in set().union(*products)}
        kept = ("add", "sqrt") if len(p) > 1 else ()
        common = [(a, e) for a, e in lows.items() if e < 0 or e > 0 and a.op not in kept]
        c = p[min(p.items(), key=rank)[0]] if p else Fraction(0)
        lower = [(a, -e) for a, e in common]
        rest = plus(*[scaled(self.product([*m, *lower]), d / c) for m, d in p.items()])
        return common, c, rest

    def vanishing(self, x):
        """What must not vanish for x not to: x without factors that cannot, if x makes sense."""
        common, _, rest = self.content(self.poly(x))
        below = {a for a, e in common if e < 0}
        above = [a.args[0] if a.op == "sqrt" else a for a, e in common if e > 0 and sign(a) != "+"]
        return term_of(self.times(*[self.poly(a) for a in above if a not in below], rest))

    # ── Numbers, one kind after the other ────────────────────────────────────────────────────

    _num = staticmethod(constant)

    def _let(self, name, sort):
        return atom(Term("let", name, sort))

    def _add(self, *terms):
        return plus(*map(self.poly, terms))

    def _mul(self, *factors):
        return self.times(*map(self.poly, factors))

    def _pow(self, base, e):
        return self.power(self.poly(base), e)

    def _inv(self, x):
        return self.inverse(self.poly(x))

    def _sqrt(self, x):
        """The root of what is at least 0: positive factors and even powers leave it."""
        common, c, rest = self.content(self.poly(x))
        c, rest = abs(c), scaled(rest, 1 if c > 0 else -1)
        inside, out = [], []
        for a, e in common:
            if a.op == "exp":
                out.append((a, Fraction(e, 2)))
            elif sign(a) == "+" or sign(a) and e % 2 == 0:  # at a = 0 both sides are 0
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
        if EXP not in self.laws:
            return atom(Term("exp", term_of(p))) if p else UNITY
        return self.product([(Term("exp", product_term(m)), c) for m, c in p.items()])

    def _call(self, name, x):
        """A function that something is known of: cos, sin, tanh, relu, or sigmoid."""
        p = self.poly(x)
        if name == "relu":
            return self._relu(p)
        if name in ("cos", "sin") and ANGLE in self.laws and len(p) > 1:
            return self._of_a_sum(name, dict(p))
        if name in PARITY and not p:
            return UNITY if name == "cos" else {}
        p, turned = _with_fewer_signs(p) if name in PARITY else (p, False)
        return scaled(atom(Term("call", name, term_of(p))), PARITY[name] if turned else 1)

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
        common, c, rest = self.content(p)
        out = [(a, e) for a, e in common if sign(a) == "+"]
        left = self.product([f for f in common if f not in out])
        inside = scaled(self.times(left, rest), 1 if c > 0 else -1)
        value = atom(Term("call", "relu", term_of(inside)))
        return self.times(self.product(out), value, constant(abs(c)))

    def _app(self, head, *arguments):
        """An entry: of a letter, of a word by its definition, or of a word as it is."""
        named = head.op in ("word", "rec") and (self.words is None or head in self.words)
        written = unfolded(Term("app", head, *arguments)) if named else None
        if written is not None:
            return self.poly(written)
        return atom(Term("app", head, *map(self.argument, arguments)))

    def argument(self, a):
        """The normal form of what stands in a place for a function, a position, a size, a number."""
        if a.op == "abs":
            body, marks = looked_into(a)
            return abstract(marks, self.argument(body))
        place = a.op in ("inl", "inr", "only", "last", "move", "lit", "times", "join")
        if place or a.op == "let" and a.args[1].op in ("POS", "SIZE"):
            return self.position(a)
        return self.canonical(a)

    def _case(self, at, first, second):
        at = self.position(at)
        if at.op in ("inl", "inr"):
            return self.poly(opened(first if at.op == "inl" else second, at.args[1]))
        return atom(Term("case", at, self.argument(first), self.argument(second)))

    def _size(self, s):
        if s.op == "lit":
            return constant(s.args[0])
        if s.op == "let":
            return atom(Term("size", s))
        below = map(self._size, s.args)
        return plus(*below) if s.op == "join" else self.times(*below)

    # ── Derivatives ──────────────────────────────────────────────────────────────────────────

    def _deriv(self, f, at):
        body, (s,) = looked_into(f)
        if body.op == "app" and body.args[0].op == "let" and body.args[1:] == (s,):
            return atom(Term("deriv", f, self.canonical(at)))  # f'
        p = self.poly(body)
        if self.folded:
            return plus(*[scaled(self._slope_as_it_is(m, s, at), c) for m, c in p.items()])
        try:
            return self.poly(put(term_of(self.along(p, s)), (), {s: at}))
        except NotWorkedOut:
            return atom(Term("deriv", abstract([s], term_of(p)), self.canonical(at)))

    def _slope_as_it_is(self, m, s, at):
        """The slope of a product, not worked out: what is free of s leaves."""
        free = [(a, e) for a, e in m if s not in a.letters]
        tied = product_term([f for f in m if f not in free])
        if tied == ONE or tied == s:
            return {} if tied == ONE else self.product(free)
        slope = Term("deriv", abstract([s], tied), self.canonical(at))
        return self.times(self.product(free), atom(slope))

    def along(self, p, s):
        """The derivative of a polynomial along the letter s: the rules of sums and products."""
        out = []
        for m, c in p.items():
            for a, e in m:
                if s in a.letters:
                    rest = [(b, f) for b, f in m if b is not a] + [(a, e - 1)]
                    out.append(scaled(self.times(self.product(rest), self._slope(a, s)), c * e))
        return plus(*out)

    def _slope(self, a, s):
        """The derivative of an atom that s stands in."""
        if a == s:
            return UNITY
        if a.op == "add":
            return self.along(self.poly(a), s)
        if a.op == "exp":
            return self.times(atom(a), self.along(self.poly(a.args[0]), s))
        if a.op == "sqrt":  # √p' = p' √p / 2p
            p = self.poly(a.args[0])
            return scaled(self.times(atom(a), self.inverse(p), self.along(p, s)), Fraction(1, 2))
        if a.op == "sum":
            body, marks = looked_into(a.args[0])
            return self.summed(marks, self.along(self.poly(body), s))
        if a.op == "case":
            branches = [looked_into(f) for f in a.args[1:]]
            slopes = [(term_of(self.along(self.poly(f), s)), marks) for f, marks in branches]
            return self.poly(Term("case", a.args[0], *[abstract(marks, t) for t, marks in slopes]))
        if a.op == "app" and a.args[0].op == "let" and a.args[0].args[1].args[2:] == (NUM,):
            hole = fresh(NUM)
            slope = Term("deriv", abstract([hole], Term("app", a.args[0], hole)), a.args[1])
            return self.times(atom(slope), self.along(self.poly(a.args[1]), s))
        raise NotWorkedOut("the slope of {} is not taken", a)


def _with_fewer_signs(p):
    """(p or -p, whether it is -p)."""
    turned = scaled(p, -1)
    signs = lambda q: (sum(c < 0 for c in q.values()), sorted((rank(i), i[1]) for i in q.items()))
    return (turned, True) if signs(turned) < signs(p) else (p, False)
