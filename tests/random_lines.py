"""Random lines, “before = claim” with reasons, that are either true or near misses.

They are made from the proved lines of the notebooks, their theorems with other letters, and the
true lines in the kernel's tests.  A true line is one of these, perhaps put into a larger expression
and partly rewritten; a near miss is a true line with one part changed.  A seed reproduces its line.
"""

import functools
import random
import zlib
from dataclasses import dataclass, replace

import sympy as sp
from cell_proofs import proof_cells, proved_by
from derivation import *  # noqa: F403  the public vocabulary is under test
from derivation.language import operations as ops
from derivation.language.letters import Family
from derivation.language.matrices import Expression, plus, product
from derivation.printing.styles import Text
from derivation.proving.reasons import Given, title_of
from derivation.proving.theorems import Instance
from test_proving_steps import TRUE

EVERY_LAW = (REINDEX, EXP_OF_SUM, SPLIT, ANGLE_ADDITION, SECOND_MOMENTS, COUNT)
EPS = scalars("ε", positive=True)
PHI = entrywise("φ")
#: A near miss may exchange a word for another in the same tuple.
NORMALISERS, NORMS = (softmax, softmax_one, normalise), (layer_norm, rms_norm, batch_norm)
FUNCTIONS = (exp, tanh, cos, sin, PHI)
NEAR_MISSES = 0.6  # as a share of all lines
LARGEST = 30  # the most sub-expressions in one side of a line


@dataclass(frozen=True)
class Line:
    """A line to be checked; ``about`` names its source and the changes made to it."""

    seed: str
    kind: str
    before: object
    claim: object
    reasons: tuple = ()
    about: str = ""

    @property
    def rests_on_theorems(self):
        """Whether the reasons contain hypotheses or theorems, on which the line may depend."""
        return any(isinstance(r, (Instance, Given, Theorem)) for r in self.reasons)

    def __str__(self):
        return (
            f"seed {self.seed} ({self.kind}: {self.about})\n"
            f"before   {self.before.show(Text())}\nclaim    {self.claim.show(Text())}\n"
            f"reasons  {', '.join(map(title_of, self.reasons)) or 'algebra'}"
        )


class NoLine(Exception):
    """No random change fits the expression, so another line must be drawn."""


@functools.cache
def roots():
    """The book's theorems, the lines of their proofs, and the true lines in the kernel's tests."""
    found = {}  # keyed by text, as many cells prove the same lemma
    for _, cell in proof_cells():
        if ".qed(" in cell.source and "counterexample(" not in cell.source:
            theorems, lines = proved_by(cell)
            proved = [(x.before, x.claim, x.reasons, x.derivation.name) for x in lines]
            proved += [(t.lhs, t.rhs, (t,), t.name) for t in theorems if t.name]
            found |= {repr(line): Line("", "true", *line) for line in proved}
    true = [Line("", "true", *sides[:2], about=name) for name, sides in TRUE.items()]
    return [*found.values(), *map(_with_every_reason, true)]


def _with_every_reason(line):
    words = {x.operation.word for side in (line.before, line.claim) for x in side.walk()} - {None}
    kept = [r for r in line.reasons if isinstance(r, (Instance, Given, Theorem))]
    definitions = [unfold(w) for w in sorted(words, key=lambda w: w.name)]
    return replace(line, reasons=(*kept, *definitions, *EVERY_LAW), about=line.about + "; all")


# ── Rewriting a line ──────────────────────────────────────────────────────────────────────


def letter(rows, columns, name="Z"):
    """A letter whose name contains a digest of its shape, so that equal names mean equal shapes."""
    return matrix(f"{name}_{zlib.crc32(repr((rows, columns)).encode()) % 10**6}", rows, columns)


def _context(g, rows, columns):
    """A function that puts an expression of this shape into a larger one."""
    A, k = letter(rows, columns), g.choice((rows, columns, sizes("k")))
    P = permutation("Π_" + letter(rows, 1).params[0].name[2:], rows)
    around = [
        *(lambda x: x + A, lambda x: A - x, lambda x: 2 * x, lambda x: x.T, lambda x: x + PHI(A)),
        *(lambda x: letter(k, rows) @ x, lambda x: x @ letter(columns, k), lambda x: P @ x),
        *(PHI, exp, softmax, normalise, lambda x: layer_norm(x, EPS), last_row),
        lambda x: masked_softmax(ones(*x.axes), x),
        *(lambda x: hadamard(A, x), lambda x: stack(x, A), lambda x: over(head("o", k), x)),
    ]
    return g.choice(around)


def _reordered(g, x, line):
    if x.operation in (ops.SUM_OF, ops.HADAMARD):
        return x.rebuilt(g.sample(x.args, len(x.args)))


def _multiplied_out(g, x, line):
    if x.operation is ops.PRODUCT_OF:
        for k, y in enumerate(x.args):
            if y.operation is ops.SUM_OF:
                return plus(*[product(*x.args[:k], z, *x.args[k + 1 :]) for z in y.args])


def _transposed_inside(g, x, line):
    if x.operation is ops.TRANSPOSE and x.args[0].operation in (ops.PRODUCT_OF, ops.SUM_OF):
        args = [y.T for y in x.args[0].args]
        return product(*args[::-1]) if x.args[0].operation is ops.PRODUCT_OF else plus(*args)


def _and_back(g, x, line):
    P, A = permutation("Σ", x.axes[0]), letter(*x.axes)
    return g.choice((x.T.T, 2 * x - x, P.T @ P @ x, x + A - A))


def _with_a_neutral(g, x, line):
    left, right = map(identity, x.axes)
    return g.choice((left @ x, x @ right, hadamard(x, ones(*x.axes)), x + zeros(*x.axes)))


#: Functions of (random generator, x, its line) that return an expression equal to x, or None.
REWRITES = (_reordered, _multiplied_out, _transposed_inside, _and_back, _with_a_neutral)


def places(x, path=()):
    """Yield (path, sub-expression) for x and all its sub-expressions."""
    yield path, x
    for k, y in enumerate(x.args):
        yield from places(y, (*path, k))


def replaced_at(x, place, new):
    """x with ``new`` in place of the sub-expression at ``place``, a path of argument numbers."""
    if not place:
        return new
    k, *rest = place
    return x.rebuilt([*x.args[:k], replaced_at(x.args[k], rest, new), *x.args[k + 1 :]])


def changed(g, line, changes, tries=40):
    """The line with a random part of its claim changed; NoLine if no change fits."""
    for _ in range(tries):
        change, (path, y) = g.choice(changes), g.choice(list(places(line.claim)))
        new = change(g, y, line)
        if new is not None and new.axes == y.axes and new != y:
            about = f"{line.about}; {change.__name__[1:].replace('_', ' ')}"
            return replace(line, claim=replaced_at(line.claim, path, new), about=about)
    raise NoLine


# ── Near misses ───────────────────────────────────────────────────────────────────────────


def _another_part(g, x, line):
    """Another part of the line that has the same shape, such as another letter or an argument."""
    parts = {y for side in (line.before, line.claim) for y in side.walk()}
    return g.choice([y for y in sorted(parts, key=repr) if y.axes == x.axes and y != x] or [None])


def _dropped(g, x, line):
    """One of the terms or factors dropped, or an operation left out."""
    k = g.randrange(len(x.args)) if x.args else 0
    if x.operation in (ops.SUM_OF, ops.PRODUCT_OF) and len(x.args) > 2:
        return x.rebuilt([*x.args[:k], *x.args[k + 1 :]])
    return x.args[k] if x.args else None


def _swapped(g, x, line):
    """Two arguments exchanged."""
    alike = x.operation is ops.PRODUCT_OF or len({y.axes for y in x.args}) == 1
    return x.rebuilt(g.sample(x.args, len(x.args))) if alike and len(x.args) > 1 else None


def _changed_by_an_operation(g, x, line):
    """The transpose, a multiple, an entrywise product."""
    sizes_ = [s for s in line.claim.free_scalars() if s.is_integer] or [sp.Integer(2)]
    n, others = g.choice(sorted(sizes_, key=str)), [x, ones(*x.axes), zeros(*x.axes)]
    others += [identity(x.axes[0])] if x.axes[0] == x.axes[1] else []
    scaled = [-x, 2 * x, x / 2, n * x, (1 / n) * x]
    if x.operation is ops.SCALED:
        scaled += [(x.params[0] + q) * x.args[0] for q in (1, -1, n)]
    return g.choice([x.T, g.choice(scaled), hadamard(x, g.choice(others))])


def _another_word(g, x, line):
    """Another word of the same kind, or the same word along the other axis."""
    word = x.operation.word
    if word is masked_softmax:
        return softmax(x.args[1])
    if word in (*NORMALISERS, *NORMS) and g.random() < 0.4:
        return word(x.args[0].T, *x.params).T
    if word in NORMALISERS:
        return g.choice(NORMALISERS)(x.args[0])
    if word in NORMS:
        return g.choice(NORMS)(x.args[0], g.choice((1, 2)) * x.params[0])
    if len(x.args) == 1 and x.operation in [f(x.args[0]).operation for f in FUNCTIONS]:
        return g.choice(FUNCTIONS)(x.args[0])


def _another_letter(g, x, line):
    """Another letter or permutation, or another index in a letter or a sum."""
    if x.operation is ops.OVER:
        return over(head("o", x.params[0].size), x.args[0])
    if x.operation is ops.PERMUTATION:
        return g.choice((x.T, x @ x, identity(x.axes[0]), permutation("Σ", x.axes[0])))
    if x.operation is ops.LETTER:
        family, *indices = x.params
        if len(indices) == 2 and g.random() < 0.5:
            indices = [indices[0]] * 2
        elif family.kind in ("matrix", "random"):
            family = Family(family.name + "′", family.kind, family.sizes, *family.args[3:])
        return Expression(ops.LETTER, params=[family, *indices], shape=x.axes)


#: Functions of (random generator, x, its line) that return something similar to x, or None.
MUTATIONS = (
    *(_another_part, _dropped, _swapped, _changed_by_an_operation),
    *(_another_word, _another_letter),
)


# ── Lines ─────────────────────────────────────────────────────────────────────────────────


def _instance(g, theorem):
    """The theorem, or an instance of it with other letters or sizes."""
    meant = {}
    for family in sorted(theorem.lhs.atoms(Family) | theorem.rhs.atoms(Family), key=str):
        if family.kind == "matrix" and len(family.sizes) == 2 and g.random() < 0.5:
            x, other = matrix(family.name, *family.sizes), letter(*family.sizes)
            meant[family.name] = g.choice([x + other, 2 * x, other, hadamard(x, x), PHI(x)])
    for scalar in sorted(theorem.lhs.free_scalars(), key=str):
        if scalar.is_integer and g.random() < 0.1 and not meant:
            meant[scalar.name] = 1
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
    if g.random() < 0.5 and not line.rests_on_theorems:
        before, claim = claim, before
    line = replace(line, before=before, claim=claim, reasons=reasons)
    for _ in range(g.choice((0, 0, 1, 2))):
        line = changed(g, line, REWRITES)
    return line


def _near_miss(g):
    line = replace(changed(g, _true(g), MUTATIONS), kind="near miss")
    return _with_every_reason(line) if g.random() < 0.5 else line


def line_of(seed):
    """The random line for a seed, which is a string "base:number"."""
    g = random.Random(seed)
    make = _near_miss if g.random() < NEAR_MISSES else _true
    while True:
        try:
            line = make(g)
        except (NoLine, ProofError):  # no change fits, or the notation refuses one
            continue
        if max(len(list(line.before.walk())), len(list(line.claim.walk()))) <= LARGEST:
            return replace(line, seed=seed)
