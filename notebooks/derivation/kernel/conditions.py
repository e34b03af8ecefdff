"""The conditions under which a term makes sense, collected from all its parts and never dropped.

Here 1/x, √x, log x, a derivative and a mean are defined everywhere: 1/0 is some unknown number, and
a mean that does not exist is some number that is still linear in what is averaged.  Other laws
hold only where both sides have their usual values, so a line carries conditions: "x ≠ 0", "x ≥ 0",
"f is smooth", each for every value of the variables bound around it.  A condition is a
pair (relation, closed ``abs``), except that for "is smooth" the pair is (relation, letter).
"""

from .sorts import ABOVE_ZERO, AT_LEAST_ZERO, full, sign
from .terms import NUM, Term, fresh, looked_into, must, opened, put, unfolded

NONZERO, NONNEGATIVE, SMOOTH, EXISTS = "≠ 0", "≥ 0", "is smooth", "exists"
PARTIAL = {"inv": [NONZERO], "sqrt": [NONNEGATIVE], "log": [NONZERO, NONNEGATIVE], "mean": [EXISTS]}


def conditions(t, words=None):
    """The conditions of a term once these words (None: all words) have been unfolded in it.

    In each (relation, letters, term), the relation must hold at all values of the letters.
    """
    if t.op in ("let", "word", "rec"):
        return []
    if t.op == "deriv":
        return _of_derivative(t.args[0], t.args[1], words)
    known = t.op == "app" and t.args[0].op in ("word", "rec")
    written = unfolded(t) if known and (words is None or t.args[0] in words) else None
    if written is not None:
        return conditions(written, words)
    found = [(r, (), t if t.op == "mean" else t.args[0]) for r in PARTIAL.get(t.op, ())]
    for a in t.args:
        if type(a) is Term:
            found += under(a, words, t.op == "mean") if a.op == "abs" else conditions(a, words)
    return found


def for_all(marks, triples):
    """The triples, required for all values of the letters ``marks``."""
    must(not any(r == SMOOTH and x in marks for r, _, x in triples), "a smooth function stays free")
    return [(r, (*[m for m in marks if m in x.letters], *others), x) for r, others, x in triples]


def under(f, words, averaged=False):
    """The conditions of a binder's body; raises ProofError if one in a mean depends on a draw."""
    body, marks = looked_into(f)
    sorts = [c for m in marks for c in conditions(m.args[1], words)]
    found = for_all(marks, conditions(body, words) + sorts)
    if averaged:
        random = [x for r, m, x in found if r != EXISTS and {*marks} & {*m} and not holds(r, x)]
        must(not random, "a mean of a quotient or a root of draws is not defined here")
    return found


def _of_derivative(f, at, words):
    """The conditions of a slope, at its point only, as "≠ 0" and "> 0" extend to nearby points."""
    s = fresh(NUM)
    body = full(opened(f, s))
    found = conditions(body, words) + _smooth(body, s)
    return [(r, letters, put(x, {s: at})) for r, letters, x in found] + conditions(at, words)


def _smooth(t, s):
    """The conditions under which a term is smooth in s, beyond those under which it makes sense."""
    if s not in t.letters:
        return []
    head = t.args[0]
    opaque = t.op == "mean" or t.op == "app" and head.op != "let"
    must(not opaque, "no derivative is taken of this {}: work it out first", t.op)
    found = [(SMOOTH, (), head)] if t.op == "app" else []
    if t.op == "sqrt" or t.op == "call" and head == "relu":
        found.append((NONZERO, (), t.args[-1]))
    if t.op == "deriv":  # the inner function must be smooth in both scalars at the point
        body, (r,) = looked_into(head)
        below = _smooth(body, s) + _smooth(body, r)
        found += [(c, letters, put(x, {r: t.args[1]})) for c, letters, x in below]
        return found + _smooth(t.args[1], s)
    for a in t.args:
        if type(a) is Term:
            body, marks = looked_into(a) if a.op == "abs" else (a, [])
            found += for_all(marks, _smooth(body, s))
    return found


def holds(relation, x):
    """Whether the form of x alone shows that the relation, "≠ 0" or "≥ 0", holds for x."""
    wanted = AT_LEAST_ZERO if relation == NONNEGATIVE else ABOVE_ZERO
    return max(sign(x), sign(full(x))) >= wanted
