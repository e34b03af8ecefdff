"""Random lines, “before = claim” with reasons, that are either true or near misses.

They are made from the proved lines of the notebooks, their theorems with other letters, and the
true lines in the kernel's tests.  A true line is one of these, perhaps put into a larger expression
and partly rewritten; a near miss is a true line with one part changed.  A seed reproduces its line.
"""

import contextlib
import functools
import random
import zlib
from typing import NamedTuple

import sympy as sp
from cell_proofs import proof_cells, proved_by
from derivation import *  # noqa: F403  the public vocabulary is under test
from derivation.language import operations as ops
from derivation.language.letters import Family
from derivation.language.matrices import Expression
from derivation.proving.reasons import Given
from derivation.proving.theorems import Instance
from test_proving_steps import TRUE

EPS, PHI = scalars("ε", positive=True), entrywise("φ")
EVERY_LAW = (REINDEX, EXP_OF_SUM, SPLIT, ANGLE_ADDITION, SECOND_MOMENTS, COUNT)
#: A near miss may exchange a word for another in the same tuple.
NORMALISERS, NORMS = (softmax, softmax_one, normalise), (layer_norm, rms_norm, batch_norm)
FUNCTIONS = (exp, tanh, cos, sin, PHI)


class Line(NamedTuple):
    """A line to be checked; ``about`` names its source and the changes made to it."""

    kind: str
    before: object
    claim: object
    reasons: tuple = ()
    about: str = ""

    def theorems(self):
        """The reasons that are hypotheses or theorems, on which the line may depend."""
        return [r for r in self.reasons if isinstance(r, (Instance, Given, Theorem))]

    def with_every_reason(self):
        both = (*self.before.walk(), *self.claim.walk())
        words = {x.operation.word for x in both} - {None}
        definitions = [unfold(w) for w in sorted(words, key=lambda w: w.name)]
        return self._replace(reasons=(*self.theorems(), *definitions, *EVERY_LAW))


@functools.cache
def roots():
    """The book's theorems, the lines of their proofs, and the true lines in the kernel's tests."""
    found = {}  # keyed by text, as many cells prove the same lemma
    for _, cell in proof_cells():
        if ".qed(" in cell.source and "counterexample(" not in cell.source:
            theorems, lines = proved_by(cell)
            proved = [*lines, *[(t.lhs, t.rhs, (t,), t.name) for t in theorems if t.name]]
            found |= {repr(line): Line("true", *line) for line in proved}
    true = [Line("true", *sides[:2], about=name) for name, sides in TRUE.items()]
    return [*found.values(), *[line.with_every_reason() for line in true]]


def letter(rows, columns):
    """A letter whose name contains a digest of its shape, so that equal names mean equal shapes."""
    return matrix(f"Z_{zlib.crc32(repr((rows, columns)).encode()) % 10**6}", rows, columns)


def _context(g, rows, columns):
    """A function that puts an expression of this shape into a larger one."""
    A, k = letter(rows, columns), g.choice((rows, columns, sizes("k")))
    P = permutation("Π_" + letter(rows, 1).params[0].name[2:], rows)
    around = [
        *(lambda x: x + A, lambda x: A - x, lambda x: 2 * x, lambda x: x.T, lambda x: x + PHI(A)),
        *(lambda x: letter(k, rows) @ x, lambda x: x @ letter(columns, k), lambda x: P @ x),
        *(PHI, exp, softmax, normalise, lambda x: layer_norm(x, EPS), last_row),
        *(lambda x: hadamard(A, x), lambda x: stack(x, A), lambda x: over(head("o", k), x)),
    ]
    return g.choice(around)


def _longer(g, x):
    """An expression equal to x."""
    P, A = permutation("Σ", x.axes[0]), letter(*x.axes)
    return g.choice((x.T.T, 2 * x - x, P.T @ P @ x, x + A - A, x @ identity(x.axes[1])))


def places(x, put=lambda new: new):
    """Yield (y, a function that puts another expression there) for x and each part y of it."""
    yield x, put
    for k, y in enumerate(x.args):
        rest = x.args[:k], x.args[k + 1 :]
        yield from places(y, lambda new, rest=rest: put(x.rebuilt([*rest[0], new, *rest[1]])))


def changed(g, x, changes, tries=40):
    """(x with a random sub-expression changed, name of the change); ProofError if no change fits."""
    for _ in range(tries):
        change, (y, put) = g.choice(changes), g.choice(list(places(x)))
        new = change(g, y)
        if new is not None and new.axes == y.axes and new != y:
            return put(new), change.__name__
    raise ProofError("no random change fits")


# ── Near misses: each function returns a changed expression, or None ──────────────────────


def _transposed(g, x):
    if x.args and x.operation.word in (*NORMALISERS, *NORMS) and g.random() < 0.5:
        return x.operation.word(x.args[0].T, *x.params).T
    return x.args[0] if x.operation is ops.TRANSPOSE else x.T


def _other_letter(g, x):
    """Another letter, another index, or for a sum over heads an index that is not bound."""
    if x.operation is ops.OVER:
        return over(head("o", x.params[0].size), x.args[0])
    if x.operation is ops.PERMUTATION:
        return g.choice((x.T, x @ x, identity(x.axes[0]), permutation("Σ", x.axes[0])))
    if x.operation is ops.LETTER and x.params[0].kind in ("matrix", "random"):
        family, *heads = x.params
        if len(heads) == 2:
            return Expression(ops.LETTER, params=[family, heads[0], heads[0]], wanted=x.axes)
        other = Family(family.name + "′", family.kind, family.sizes, *family.args[3:])
        return Expression(ops.LETTER, params=[other, *heads], wanted=x.axes)


def _dropped(g, x):
    if x.operation in (ops.SUM_OF, ops.PRODUCT_OF) and len(x.args) > 1:
        k = g.randrange(len(x.args))
        return x.args[1 - k] if len(x.args) == 2 else x.rebuilt([*x.args[:k], *x.args[k + 1 :]])
    if x.operation in (ops.SCALED, ops.EXPECTATION, ops.DERIVATIVE):
        return x.args[0]


def _swapped(g, x):
    """Swap two arguments, or put the first in both places."""
    if len(x.args) > 1:
        i, j = sorted(g.sample(range(len(x.args)), 2))
        alike, args = x.args[i].axes == x.args[j].axes, list(x.args)
        args[i], args[j] = (args[j], args[i]) if not alike or g.random() < 0.7 else 2 * [args[i]]
        if alike or x.operation is ops.PRODUCT_OF:
            return x.rebuilt(args)


def _factor(g, x):
    letters = sorted((s for s in x.free_scalars() if s.is_integer), key=str)
    n = g.choice(letters or [sp.Integer(2)])
    if x.operation is ops.SCALED and g.random() < 0.5:
        return (x.params[0] + g.choice((1, -1, n))) * x.args[0]
    return g.choice((-1, -1, 2, sp.Rational(1, 2), n, 1 / n)) * x


def _other_function(g, x):
    """Another word, or f(g(x)) turned into g(f(x))."""
    word, inner = x.operation.word, x.args[-1] if x.args else x
    if word in NORMALISERS or word is masked_softmax:
        return g.choice(NORMALISERS)(inner)
    if word in NORMS:
        return g.choice(NORMS)(inner, g.choice((1, 2)) * x.params[0])
    if len(inner.args) == len(x.args) == 1 and x.axes == inner.axes == inner.args[0].axes:
        return inner.rebuilt([x.rebuilt([inner.args[0]])])
    if len(x.args) == 1 and x.operation in [f(inner).operation for f in FUNCTIONS]:
        return g.choice(FUNCTIONS)(inner)


def _entrywise(g, x):
    """Multiply entrywise: the two factors of a product, or x by itself."""
    factors = x.args if x.operation is ops.PRODUCT_OF else (x, x)
    if len(factors) == 2 and factors[0].axes == factors[1].axes:
        return hadamard(*factors)


MUTATIONS = (_transposed, _other_letter, _dropped, _swapped, _factor, _other_function, _entrywise)


def _instance(g, theorem):
    """The theorem, or an instance of it with other letters."""
    meant = {}
    for family in sorted(theorem.lhs.atoms(Family) | theorem.rhs.atoms(Family), key=str):
        if family.kind == "matrix" and len(family.sizes) == 2 and g.random() < 0.5:
            x, other = matrix(family.name, *family.sizes), letter(*family.sizes)
            meant[family.name] = g.choice([x + other, 2 * x, other, hadamard(x, x), PHI(x)])
    return theorem(**meant) if meant else theorem


def _true(g):
    line = g.choice(roots())
    before, claim, reasons = line.before, line.claim, line.reasons
    if len(reasons) == 1 and isinstance(reasons[0], Theorem):
        found = _instance(g, reasons[0])
        before, claim, reasons = found.lhs, found.rhs, (found,)
    while g.random() < 0.4:
        place = _context(g, *before.axes)
        before, claim = place(before), place(claim)
    if g.random() < 0.5 and not line.theorems():
        before, claim = claim, before
    for _ in range(g.choice((0, 0, 1, 2))):
        claim, _ = changed(g, claim, [_longer])
    return line._replace(before=before, claim=claim, reasons=reasons)


def _near_miss(g):
    line = _true(g)
    claim, change = changed(g, line.claim, MUTATIONS)
    line = line._replace(kind="near miss", claim=claim, about=f"{line.about}; {change}")
    return line.with_every_reason() if g.random() < 0.5 else line


def line_of(seed):
    """The random line for a seed, of at most 30 sub-expressions a side; most are near misses."""
    g = random.Random(seed)
    make = _near_miss if g.random() < 0.6 else _true
    while True:
        with contextlib.suppress(ProofError):  # no change fits, or the notation refuses one
            line = make(g)
            if max(len(list(side.walk())) for side in (line.before, line.claim)) <= 30:
                return line
