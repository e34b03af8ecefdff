"""The normal form of any number: entries, definitions, branches and slopes, besides sums and products."""

from fractions import Fraction

from .polynomials import ANGLE, EXP, UNITY, NotWorkedOut, atom, plus, scaled, term_of
from .sums import COUNT, LINEAR, MOMENTS, ORDER, REINDEX, SPLIT, Sums
from .terms import NUM, Term, abstract, fresh, looked_into, opened, put, unfolded

LAWS = (EXP, REINDEX, SPLIT, ANGLE, MOMENTS, LINEAR, COUNT, ORDER)


class Normal(Sums):
    def _app(self, head, *arguments):
        """The normal form of an entry of a letter or a word; unfolds a word in ``words``."""
        named = head.op in ("word", "rec") and (self.words is None or head in self.words)
        written = unfolded(Term("app", head, *arguments)) if named else None
        if written is not None:
            return self.poly(written)
        return atom(Term("app", head, *map(self.argument, arguments)))

    def argument(self, a):
        """The normal form of a function, a position, a size or a number."""
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

    def _deriv(self, f, at):
        body, (s,) = looked_into(f)
        p = self.poly(body)
        slope = body.op == "app" and body.args[0].op == "let" and body.args[1:] == (s,)  # f'(s)
        if slope or self.folded and p == atom(body) and body != s:
            return atom(Term("deriv", abstract([s], body), self.canonical(at)))
        try:
            return self.poly(put(term_of(self.along(p, s)), {s: at}))
        except NotWorkedOut:
            return atom(Term("deriv", abstract([s], term_of(p)), self.canonical(at)))

    def along(self, p, s):
        """The derivative of a polynomial with respect to s, by the rules for sums and products."""
        out = []
        for m, c in p.items():
            for a, e in m:
                if s in a.letters:
                    rest = [(b, f) for b, f in m if b is not a] + [(a, e - 1)]
                    out.append(scaled(self.times(self.product(rest), self._slope(a, s)), c * e))
        return plus(*out)

    def _slope(self, a, s):
        """The derivative of an atom that contains s."""
        if a == s:
            return UNITY
        if a.op == "add":
            return self.along(self.poly(a), s)
        if self.folded:
            return atom(Term("deriv", abstract([s], a), s))
        if a.op in ("exp", "log"):
            p = self.poly(a.args[0])
            return self.times(atom(a) if a.op == "exp" else self.inverse(p), self.along(p, s))
        if a.op == "sqrt":  # (√p)' = p' √p / 2p
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
