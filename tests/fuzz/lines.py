"""Random lines before = claim with reasons: true ones, near misses, arbitrary pairs.

They grow from what the book proves: every line of its notebooks, every theorem at letters of its
own and at others, and the true lines of the kernel's tests.  A true line is such a line in a larger
expression, with places of it written otherwise; a near miss is a true line with one place changed.
Every line has a seed of its own, from which it is made again.
"""

import contextlib
import functools
import io
import json
import random
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import sympy as sp
from derivation import *  # noqa: F403  the public vocabulary is under test
from derivation import operations as ops
from derivation import proofs
from derivation.letters import Family
from derivation.matrices import Expression, plus, product
from derivation.printing import Text
from derivation.reasons import Given, _title
from derivation.theorems import Instance
from live_proofs import live_cells
from test_lines import TRUE

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
EVERY_LAW = (REINDEX, EXP_OF_SUM, SPLIT, ANGLE_ADDITION, SECOND_MOMENTS, COUNT)
PLAIN_WORDS, NORMS = (softmax, softmax_one, normalise), (layer_norm, rms_norm, batch_norm)
KINDS = {"true": 4, "near miss": 5, "arbitrary": 1}  # and how often each is drawn
LARGEST = 30  # sub-expressions on a side
EPS = scalars("ε", positive=True)
PHI = entrywise("φ")


@dataclass(frozen=True)
class Line:
    """A line to be checked; ``about`` says what it grew from and what was changed in it."""

    seed: str
    kind: str
    before: object
    claim: object
    reasons: tuple = ()
    about: str = ""

    def show(self):
        """The line and how to make it again, in plain text."""
        reasons = ", ".join(map(_title, self.reasons)) or "algebra"
        return (
            f"  seed {self.seed} ({self.kind}: {self.about})\n    before   {self.before.show(Text())}\n"
            f"    claim    {self.claim.show(Text())}\n    reasons  {reasons}"
        )


class NoLine(Exception):
    """A choice that fits nowhere: choose again."""


# ── What the book proves ──────────────────────────────────────────────────────────────────


@functools.cache
def roots():
    """[(name, before, claim, reasons)]: lines of proofs, theorems, and the kernel's true lines."""
    found, theorems, by, made = [], [], Derivation.by, proofs._theorem
    torch_is_here = proofs.torch_is_here

    def recording(self, claim, *reasons, note=""):
        before, result = self.lines[-1][0], by(self, claim, *reasons, note=note)
        found.append((self.name, before, self.lines[-1][0], reasons))
        return result

    def keeping(*parts):
        theorems.append(made(*parts))
        return theorems[-1]

    Derivation.by, proofs._theorem, proofs.torch_is_here = recording, keeping, lambda: False
    try:
        for source in sources():
            with contextlib.redirect_stdout(io.StringIO()):
                exec(compile(source, "a notebook", "exec"), {"__name__": "a notebook"})
    finally:
        Derivation.by, proofs._theorem, proofs.torch_is_here = by, made, torch_is_here
    found += [(t.name, t.lhs, t.rhs, (t,)) for t in theorems if t.name]
    found = list({repr(root): root for root in found}.values())  # a lemma is proved in many cells
    true = [Line("", "true", *line[:2], about=name) for name, line in TRUE.items()]
    return found + [(x.about, x.before, x.claim, _with_every_reason(x).reasons) for x in true]


def sources():
    """Every proof of the notebooks, each with the statements that it needs."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        for cell in live_cells(json.loads(path.read_text(encoding="utf-8"))):
            if ".qed(" in cell.source and "counterexample(" not in cell.source:
                yield "\n".join([*(s.source for s in cell.prelude), cell.source])


def letter(rows, columns, name="Z"):
    """A letter whose name tells its shape: no two of one name differ."""
    return matrix(f"{name}_{zlib.crc32(repr((rows, columns)).encode()) % 10**6}", rows, columns)


# ── Written otherwise ─────────────────────────────────────────────────────────────────────


def _context(g, rows, columns):
    """A place in a larger expression."""
    A, k = letter(rows, columns), g.choice((rows, columns, sizes("k")))
    P = permutation("Π_" + letter(rows, 1).params[0].name[2:], rows)
    return g.choice([
        lambda x: x + A, lambda x: A - x, lambda x: letter(k, rows) @ x, lambda x: x @ letter(columns, k),
        lambda x: x.T, lambda x: 2 * x, lambda x: hadamard(A, x), PHI, exp, softmax, last_row, normalise,
        lambda x: layer_norm(x, EPS), lambda x: P @ x, lambda x: x + PHI(A), lambda x: stack(x, A),
        lambda x: over(head("o", k), x), lambda x: masked_softmax(ones(*x.shape), x),
    ])  # fmt: skip


def _reordered(g, x):
    if x.operation in (ops.SUM_OF, ops.HADAMARD):
        return x.rebuilt(g.sample(x.args, len(x.args)))


def _multiplied_out(g, x):
    if x.operation is ops.PRODUCT_OF:
        for k, y in enumerate(x.args):
            if y.operation is ops.SUM_OF:
                return plus(*[product(*x.args[:k], z, *x.args[k + 1 :]) for z in y.args])


def _transposed_inside(g, x):
    if x.operation is ops.TRANSPOSE and x.args[0].operation in (ops.PRODUCT_OF, ops.SUM_OF):
        args = [y.T for y in x.args[0].args]
        return product(*args[::-1]) if x.args[0].operation is ops.PRODUCT_OF else plus(*args)


#: Rewrites that hold at any place: (draw, x) to x written otherwise, or None.
REWRITES = [
    _reordered, _multiplied_out, _transposed_inside, lambda g, x: x.T.T, lambda g, x: 2 * x - x,
    lambda g, x: identity(x.shape[0]) @ x, lambda g, x: x @ identity(x.shape[1]),
    lambda g, x: hadamard(x, ones(*x.shape)), lambda g, x: x + zeros(*x.shape),
    lambda g, x: (lambda P: P.T @ P @ x)(permutation("Σ", x.shape[0])),
    lambda g, x: (lambda A: x + A - A)(letter(*x.shape)),
]  # fmt: skip


def places(x, path=()):
    """(path, sub-expression) of x and all below it."""
    yield path, x
    for k, y in enumerate(x.args):
        yield from places(y, (*path, k))


def replaced_at(x, place, new):
    """x with the sub-expression at a path of argument numbers replaced."""
    if not place:
        return new
    k, *rest = place
    return x.rebuilt([*x.args[:k], replaced_at(x.args[k], rest, new), *x.args[k + 1 :]])


def changed(g, x, changes, tries=40):
    """(x with one place changed, the name of the change)."""
    for _ in range(tries):
        change, (path, y) = g.choice(changes), g.choice(list(places(x)))
        new = change(g, y)
        if new is not None and new.shape == y.shape and new != y:
            return replaced_at(x, path, new), change.__name__[1:].replace("_", " ")
    raise NoLine


# ── Near misses ───────────────────────────────────────────────────────────────────────────


def _size(g, x):
    """A size that the expression speaks of."""
    return g.choice([s for s in x.free_scalars() if s.is_integer] or [sp.Integer(2)])


def _transpose(g, x):
    return x.args[0] if x.operation is ops.TRANSPOSE else x.T


def _axis(g, x):
    if x.operation.defined and x.args and x.operation.word in (*PLAIN_WORDS, *NORMS):
        return x.operation.word(x.args[0].T, *x.params).T


def _index(g, x):
    if x.operation is ops.OVER:
        return over(head("o", x.params[0].size), x.args[0])  # the old index is free now


def _one_index_for_both(g, x):
    if x.operation is ops.LETTER and len(x.params) == 3:
        family, first, _ = x.params
        return Expression(ops.LETTER, params=[family, first, first], shape=x.shape)


def _dropped(g, x):
    if x.operation in (ops.SUM_OF, ops.PRODUCT_OF) and len(x.args) > 1:
        args = g.sample(x.args, len(x.args) - 1)
        kept = [y for y in x.args if y in args]
        return kept[0] if len(kept) == 1 else x.rebuilt(kept)
    unwrapped = (ops.SCALED, ops.EXPECTATION, ops.DERIVATIVE)
    return x.args[0] if x.operation in unwrapped else None


def _swapped(g, x):
    if len(x.args) > 1:
        i, j = g.sample(range(len(x.args)), 2)
        args = list(x.args)
        args[i], args[j] = args[j], args[i]
        if x.args[i].shape == x.args[j].shape or x.operation is ops.PRODUCT_OF:
            return x.rebuilt(args)


def _factor(g, x):
    return g.choice((2, -1, sp.Rational(1, 2), _size(g, x), 1 / _size(g, x))) * x


def _scale(g, x):
    if x.operation is ops.SCALED:
        return (x.params[0] + g.choice((1, -1, _size(g, x)))) * x.args[0]


def _wrong_letter(g, x):
    if x.operation is ops.LETTER and x.params[0].kind in ("matrix", "random"):
        family = x.params[0]
        other = Family(family.name + "′", family.kind, family.sizes, *family.args[3:])
        return Expression(ops.LETTER, params=[other, *x.params[1:]], shape=x.shape)


def _permutation(g, x):
    if x.operation is ops.PERMUTATION:
        return g.choice((x.T, x @ x, identity(x.shape[0]), permutation("Σ", x.shape[0])))


def _other_word(g, x):
    for family, params in ((PLAIN_WORDS, ()), (NORMS, x.params)):
        if x.operation.word in family:
            return g.choice([w for w in family if w is not x.operation.word])(x.args[0], *params)
    if x.operation.word is masked_softmax:
        return softmax(x.args[1])


def _other_eps(g, x):
    if x.operation.word in NORMS:
        return x.operation.word(x.args[0], 2 * x.params[0])


def _squared(g, x):
    return hadamard(x, x)


def _ones(g, x):
    return g.choice((ones, zeros))(*x.shape)


def _first_for_both(g, x):
    if len(x.args) == 2 and x.args[0].shape == x.args[1].shape:
        return x.rebuilt([x.args[0], x.args[0]])


def _entry_for_product(g, x):
    if x.operation is ops.PRODUCT_OF and len(x.args) == 2 and x.args[0].shape == x.args[1].shape:
        return hadamard(*x.args)


def _diagonal(g, x):
    if x.shape[0] == x.shape[1]:
        return hadamard(x, identity(x.shape[0]))


def _other_function(g, x):
    for old, new in ((exp, PHI), (tanh, PHI), (PHI, exp), (cos, sin), (sin, cos)):
        if len(x.args) == 1 and x.operation is old(x.args[0]).operation:
            return new(x.args[0])


def _inside_out(g, x):
    """f(g(x)) for g(f(x))."""
    inner = x.args[0] if len(x.args) == 1 else None
    if inner is not None and len(inner.args) == 1 and x.shape == inner.shape == inner.args[0].shape:
        return inner.rebuilt([x.rebuilt([inner.args[0]])])


MUTATIONS = [_transpose, _axis, _index, _one_index_for_both, _dropped, _swapped, _factor, _scale,
             _wrong_letter, _permutation, _other_word, _other_eps, _squared, _ones, _first_for_both,
             _entry_for_product, _diagonal, _other_function, _inside_out]  # fmt: skip


# ── Lines ─────────────────────────────────────────────────────────────────────────────────


def _instance(g, theorem):
    """A theorem at other letters, sizes or scalars than its own."""
    meant = {}
    for family in sorted(theorem.lhs.atoms(Family) | theorem.rhs.atoms(Family), key=str):
        if family.kind == "matrix" and len(family.sizes) == 2 and g.random() < 0.5:
            x = matrix(family.name, *family.sizes)
            other = letter(*family.sizes)
            meant[family.name] = g.choice(
                [x + other, 2 * x, other, hadamard(x, x), PHI(x), other.T.T]
            )
    for scalar in sorted(theorem.lhs.free_scalars() - theorem.lhs.atoms(Family), key=str):
        if scalar.is_integer and g.random() < 0.1 and not meant:
            meant[scalar.name] = 1
    return theorem(**meant) if meant else theorem


def _true(g):
    name, before, claim, reasons = g.choice(roots())
    if len(reasons) == 1 and isinstance(reasons[0], Theorem):
        found = _instance(g, reasons[0])
        before, claim, reasons = found.lhs, found.rhs, (found,)
    cited = any(isinstance(r, (Instance, Given, Theorem)) for r in reasons)
    while g.random() < 0.4:
        place = _context(g, *before.shape)
        before, claim = place(before), place(claim)
    if g.random() < 0.5 and not cited:
        before, claim = claim, before
    for _ in range(g.choice((0, 0, 1, 2))):
        claim, _ = changed(g, claim, REWRITES)
    return Line("", "true", before, claim, reasons, name)


def _with_every_reason(line):
    words = {x.operation.word for side in (line.before, line.claim) for x in side.walk()} - {None}
    kept = [r for r in line.reasons if isinstance(r, (Instance, Given, Theorem))]
    definitions = [unfold(w) for w in sorted(words, key=lambda w: w.name)]
    return replace(line, reasons=(*kept, *definitions, *EVERY_LAW), about=line.about + "; all")


def _near_miss(g):
    line = _true(g)
    claim, change = changed(g, line.claim, MUTATIONS)
    line = replace(line, kind="near miss", claim=claim, about=f"{line.about}; {change}")
    return _with_every_reason(line) if g.random() < 0.5 else line


def _arbitrary(g):
    """Two expressions of one shape, from two places of the book, or one changed twice."""
    name, before, claim, _ = g.choice(roots())
    others = [
        y for _, x, _, _ in g.sample(roots(), 20) for y in x.walk() if y.shape == before.shape
    ]
    claim = g.choice(others) if others and g.random() < 0.5 else changed(g, before, MUTATIONS)[0]
    claim, change = changed(g, claim, MUTATIONS)
    return _with_every_reason(Line("", "arbitrary", before, claim, (), f"{name}; {change}"))


MAKERS = {"true": _true, "near miss": _near_miss, "arbitrary": _arbitrary}


def line_of(seed):
    """The line of a seed, which is a string "base:number"."""
    g = random.Random(seed)
    kind = g.choices(list(KINDS), KINDS.values())[0]
    while True:
        try:
            line = MAKERS[kind](g)
        except (NoLine, ProofError):  # what cannot be written down is no line
            continue
        if max(len(list(line.before.walk())), len(list(line.claim.walk()))) <= LARGEST:
            return replace(line, seed=seed)
