"""Sums, means and positions: the part of the normal form that deals with indices.

In a sum over an index, factors free of the index move out, a Kronecker delta fixes the index, inner
sums that depend on the index are opened, factors that share no index become a product of sums, and
the remaining sum is written with its indices in one canonical order.
"""

from itertools import chain, groupby, islice, permutations, product

from .polynomials import UNITY, Arithmetic, atom, letters_of, plus, product_term, scaled, term_of
from .terms import ONLY, UNIT, Term, abstract, fresh, inverse, looked_into, opened, pos
from .terms import put

REINDEX, SPLIT, COUNT = "reindexing by a bijection", "splitting a sum", "counting"
MOMENTS, LINEAR = "second moments", "linearity of the mean"
ORDER = "of two positions one comes first"
MOST_ORDERS = 720
BLOCKS = ("inl", "inr")


class Sums(Arithmetic):
    """Computes the normal form of sums, positions and means."""

    def _sum(self, f):
        body, marks = looked_into(f)
        return self.summed(marks, self.poly(body))

    def summed(self, indices, p, moved=frozenset()):
        """The sum of a polynomial over ``indices``.

        ``moved`` are the letters that replace permuted letters.  They only help to choose among
        equal forms; correctness does not depend on them.
        """
        found = [(c, u) for m, c in p.items() for u in self.unpacked(m, frozenset(indices))]
        sums = [(self._sum_of([*indices, *more], n, moved), c * d) for c, (more, n, d) in found]
        return plus(*[scaled(q, c) for q, c in sums])

    def unpacked(self, m, about):
        """Yield (indices, product, rational) after opening sums that contain any of ``about``."""
        for a, e in m:
            if a.op == "sum" and e > 0 and not a.letters.isdisjoint(about):
                body, marks = looked_into(a.args[0])
                rest = [(b, f) for b, f in m if b is not a] + [(a, e - 1)] * (e > 1)
                flat = self.times(self.poly(body), self.product(rest))
                for k, c in flat.items():
                    for more, n, d in self.unpacked(k, about.union(marks)):
                        yield marks + more, n, c * d
                return
        yield [], m, 1

    def _sum_of(self, indices, m, moved):
        """The sum of one product over ``indices``.

        A delta that relates two indices may replace k by π l, or l by the inverse image of k.  Both
        ways are correct; the remaining index joins ``moved``, so that both lead to the same form.
        """
        for k in indices:
            size = k.args[1].args[0]
            if size == UNIT or SPLIT in self.laws and size.op == "join":
                return self._at(k, [([], ONLY)] if size == UNIT else halves(k), indices, m, moved)
        for a, e in m:
            for k, there in _solutions(a) if a.op == "delta" and e > 0 else ():
                if k in indices:
                    moved |= {_base(there)} if there.op == "move" or k in moved else set()
                    rest = [f for f in m if f[0] is not a]
                    return self._at(k, [([], there)], indices, rest, moved)
        return self._separated(indices, m, moved)

    def _at(self, k, places, indices, m, moved):
        """The sum over k, as one sum per (new indices, place that replaces k) in ``places``."""
        others = [i for i in indices if i != k]
        found = [(new, self.poly(put(product_term(m), {k: there}))) for new, there in places]
        return plus(*[self.summed([*others, *new], p, moved) for new, p in found])

    def _separated(self, indices, m, moved):
        """Move constants out, count unused indices, and separate parts that share no index."""
        outside = [f for f in m if f[0].letters.isdisjoint(indices)]
        inside = [f for f in m if f not in outside]
        result, unused, parts = self.product(outside), set(indices), []
        for factor in inside:
            mine = factor[0].letters.intersection(indices)
            near = [part for part in parts if not mine.isdisjoint(letters_of(part))]
            parts = [part for part in parts if part not in near]
            parts.append([factor, *chain(*near)])
        for part in parts:
            seen = [k for k in indices if k in letters_of(part)]
            unused -= set(seen)
            result = self.times(result, self._connected(seen, part, moved))
        return self.times(result, *[self._size(k.args[1].args[0]) for k in unused])

    def _connected(self, indices, factors, moved):
        """The sum as an atom with indices in canonical order; a count of all k ≤ i becomes i."""
        if COUNT in self.laws and len(indices) == len(factors) == 1:
            [(a, e)], [k] = factors, indices
            if a.op == "le" and e == 1 and a.args[0] == k and k not in a.args[1].letters:
                return self._place(a.args[1])
        found = [(1, product_term(factors))]
        free = indices if REINDEX in self.laws else [k for k in indices if k in moved]
        for p in map(self.poly, reindexed(free, found[0][1]) if free else ()):
            found += [(c, product_term(m)) for m, c in p.items()] if len(p) == 1 else []
        forms = [(_in_order(indices, body), c) for c, body in found]
        form, c = min(forms, key=lambda f: (len(f[0].key), f[0].key))
        return scaled(atom(Term("sum", form)), c)

    def position(self, p):
        """A position in its shortest form: a range of size 1 has one position; π⁻¹(π i) is i."""
        if _range(p) == UNIT:
            return ONLY
        if p.op == "last" and p.args[0].op == "join":
            first, second = p.args[0].args
            return Term("inr", first, self.position(Term("last", second)))
        if p.op in BLOCKS:
            return Term(p.op, p.args[0], self.position(p.args[1]))
        if p.op == "move":
            perm, way, inner = p.args[0], p.args[1], self.position(p.args[2])
            undone = inner.op == "move" and inner.args[:2] == (perm, -way)
            return inner.args[2] if undone else Term("move", perm, way, inner)
        return p

    def _place(self, p):
        """The number of a position, counted from 1."""
        p = self.position(p)
        if p.op in ("only", "last"):
            return self._size(_range(p))
        if p.op in BLOCKS:
            before = self._size(p.args[0]) if p.op == "inr" else {}
            return plus(before, self._place(p.args[1]))
        return atom(Term("place", p))

    def _delta(self, p, q):
        """1 if two positions coincide, else 0; a delta of both positions if that is undecided."""
        p, q = self.position(p), self.position(q)
        if p == q:
            return UNITY
        if _age(q) > _age(p):
            p, q = q, p
        while p.op == "move":
            p, q = p.args[2], self.position(Term("move", p.args[0], -p.args[1], q))
        if p.op in BLOCKS and q.op in BLOCKS:
            return self._delta(p.args[1], q.args[1]) if p.op == q.op else {}
        if p.op != "let":
            p, q = sorted((p, q), key=lambda x: (x.op != "let", x.key))
        return UNITY if p == q else atom(Term("delta", p, q))

    def _le(self, p, q):
        """1 if the first position does not come after the second, else 0."""
        p, q = self.position(p), self.position(q)
        if p == q or q.op == "last":
            return UNITY
        if p.op in BLOCKS and q.op in BLOCKS:
            other = UNITY if p.op == "inl" else {}
            return self._le(p.args[1], q.args[1]) if p.op == q.op else other
        if ORDER in self.laws and _age(p) < _age(q):
            return plus(UNITY, self._delta(p, q), scaled(atom(Term("le", q, p)), -1))
        return atom(Term("le", p, q))

    def _mean(self, f):
        """The mean over draws, by moments if each product has at most two entries of each draw."""
        sorts = [s.args for s in f.args[1:]]
        draws = [fresh(Term("DRAW", law, self.canonical(v), *at)) for law, v, *at in sorts]
        p = self.poly(opened(f, *draws))
        if MOMENTS in self.laws:
            parts = [self._moments(m, draws) for m in p]
            if None not in parts:
                return plus(*[scaled(part, c) for part, c in zip(parts, p.values())])
        if LINEAR in self.laws and len(p) > 1:
            means = {m: Term("mean", abstract(draws, product_term(m))) for m in p}
            return plus(*[scaled(self.poly(means[m]), c) for m, c in p.items()])
        common, c, rest = self.content(p)
        free = [(a, e) for a, e in common if a.letters.isdisjoint(draws)]
        tied = self.times(self.product([f for f in common if f not in free]), rest)
        outside = scaled(self.product(free), c)
        if not any(d in x.letters for m in tied for x, _ in m for d in draws):
            return self.times(outside, tied)
        f = abstract([d for d in draws if d in letters_of(chain(*tied))], term_of(tied))
        return self.times(outside, atom(Term("mean", f)))

    def _moments(self, m, draws):
        """The mean of one product; None if first and second moments do not determine it."""
        total = []
        for indices, n, c in self.unpacked(m, frozenset(draws)):
            rest = [(a, e) for a, e in n if a.letters.isdisjoint(draws)]
            values = [self._moment(d, [(a, e) for a, e in n if d in a.letters]) for d in draws]
            if None in values:
                return None  # checked first: each mean must exist, even if another is 0
            total.append(scaled(self.summed(indices, self.times(self.product(rest), *values)), c))
        return plus(*total)

    def _moment(self, d, factors):
        """The mean of a product of at most two entries of one draw; None for any other factors."""
        entries = [a for a, e in factors for _ in range(int(e))]
        plain = all(a.op == "app" and a.args[0] == d and e in (1, 2) for a, e in factors)
        if not plain or len(entries) > 2:
            return None
        if len(entries) < 2:
            return {} if entries else UNITY
        pairs = zip(*[a.args[1:] for a in entries])
        return self.times(self.poly(d.args[1].args[1]), *[self._delta(p, q) for p, q in pairs])


def halves(k):
    """([a new index], its place in a joined range), for the first block and for the second."""
    one, other = k.args[1].args[0].args
    first, second = fresh(pos(one)), fresh(pos(other))
    return ([first], Term("inl", other, first)), ([second], Term("inr", one, second))


def split_positions(marks: list[Term]) -> list[list[Term]]:
    """All lists of places for some letters, one for each choice of blocks in joined ranges."""
    return [list(way) for way in product(*map(_places, marks))]


def _places(k):
    if k.args[1].op != "POS" or k.args[1].args[0].op != "join":
        return [k]
    return [put(there, {mark: inner}) for [mark], there in halves(k) for inner in _places(mark)]


def _range(p):
    """The size of the range of a position; None if the term is not a position."""
    p = _base(p)
    if p.op in ("only", "last"):
        return UNIT if p.op == "only" else p.args[0]
    return p.args[1].args[0] if p.op == "let" and p.args[1].op == "POS" else None


def _base(p):
    """A position without the permutations that act on it."""
    while p.op == "move":
        p = p.args[2]
    return p


def _age(p):
    """A key by which newer letters are eliminated first."""
    p = _base(p)
    return p.op == "let" and p.args[0][0] == "#", p.key


def _undone(path, x):
    """The inverse of a chain of permutations around a letter, applied to x."""
    return opened(inverse(abstract([_base(path)], path)), x)


def _solutions(delta):
    """Yield (letter, position) such that a delta is 1 exactly if the two are equal."""
    x, there = delta.args
    if x.op == "let" and x not in there.letters:
        yield x, there
    base = _base(there)
    if base.op == "let" and base not in x.letters:
        yield base, _undone(there, x)


def _paths(t, k):
    """The chains of permutations that act on a letter in a term, including the empty chain."""
    if k not in t.letters:
        return set()
    if _base(t) == k:
        return {t}
    return set().union(*[_paths(a, k) for a in t.args if type(a) is Term])


def reindexed(indices, body):
    """Yield the term, then the term reindexed by the permutations that act on its indices."""
    ways = [[k, *sorted(_paths(body, k) - {k}, key=lambda w: w.key)] for k in indices]
    for choice in islice(product(*ways), MOST_ORDERS):
        yield put(body, {k: _undone(w, k) for k, w in zip(indices, choice)})


def _in_order(indices, body):
    """The binder over indices, ordered by their roles in the body; ties go to the least key."""
    role, known = {k: k.args[1].key for k in indices}, 0
    while known < len(kinds := sorted({*role.values()})) < len(indices):
        known, mark = len(kinds), lambda k, n: Term("let", f"#{n}", k.args[1])
        marks = {k: mark(k, kinds.index(role[k])) for k in indices}
        role = {k: f"{marks[k]} {put(body, {**marks, k: mark(k, '')})}" for k in indices}
    ordered = sorted(indices, key=role.__getitem__)
    groups = [[*islice(permutations(g), MOST_ORDERS)] for _, g in groupby(ordered, key=role.get)]
    orders = islice(product(*groups), MOST_ORDERS)
    forms = (abstract([k for group in order for k in group], body) for order in orders)
    return min(forms, key=lambda f: f.key)
