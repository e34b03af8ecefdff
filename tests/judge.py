"""The second judge: a theorem's statement, evaluated at every combination of small sizes.

It reads the tree of expressions that a theorem prints and shares no code with the kernel, nor
with the entries, the torch code and the interpreter of the package: see ``fuzz.values``.  Numbers
are exact rationals as long as a statement has no more; an exponential, a root or a function makes
them numbers of 60 digits.  Permutations and masks are enumerated, draws take all patterns of two
distributions, and letters are found that fulfil an equation that is assumed.
"""

import itertools
import random
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from derivation.letters import Bijection, Family, Index
from derivation.reasons import Given
from fuzz.values import DIGITS, FLOATS, Domain, Inexact, Undefined, World, _meets

SIZES = (1, 2, 3)
WORLDS = 700  # for one theorem, over all combinations
STEPS = 40  # towards letters that fulfil an equation
LARGER = 5  # combinations of larger sizes, in floats


def _not_rational(*_):
    raise Inexact


def _rational_root(values):
    roots = np.vectorize(
        lambda q: Fraction(int(q.numerator**0.5 + 0.5), int(q.denominator**0.5 + 0.5))
    )
    if np.any(roots(values) ** 2 != values):
        raise Inexact
    return roots(values)


RATIONALS = Domain(Fraction, object, *[_not_rational] * 4, _rational_root, None)


@dataclass(frozen=True)
class Judged:
    """What was tried of a theorem, and where it fails, if it does.

    ``tried`` are the combinations of sizes at which a world met the hypotheses, ``untried`` the
    others; ``exact`` is how many worlds were of rationals.
    """

    worlds: int = 0
    exact: int = 0
    tried: tuple = ()
    untried: tuple = ()
    refuted: str = ""

    def and_then(self, other, at):
        """Together with what was tried at other sizes."""
        tried, untried = ((at,), ()) if other.worlds else ((), (at,))
        return Judged(
            self.worlds + other.worlds, self.exact + other.exact, self.tried + tried,
            self.untried + untried, self.refuted or other.refuted,
        )  # fmt: skip


def judged(theorem, worlds=WORLDS, larger=LARGER, most=None):
    """What becomes of a theorem at every combination of small sizes, and at a few larger ones.

    About so many ``worlds`` are tried in all, at least one at each combination; with ``most``, at
    so many of the combinations only, all 2 first.
    """
    statement = _Statement(theorem)
    count = len(statement.sizes)
    small = list(itertools.product(SIZES, repeat=count))
    if most is not None and len(small) > most:
        drawn = random.Random(repr(theorem.lhs)).sample(small, most - 1)
        small = list(dict.fromkeys([(2,) * count, *drawn]))
    large = (
        [tuple(4 + (k * j + j) % 4 for j in range(count)) for k in range(larger)] if count else []
    )
    found = Judged()
    for at in [*small, *([] if theorem.random else large)]:
        domains = (RATIONALS, DIGITS) if at in small else (FLOATS, DIGITS)
        found = found.and_then(
            statement.at(dict(zip(statement.sizes, at)), domains, max(1, worlds // len(small))), at
        )
        if found.refuted:
            break
    return found


class Patient(World):
    """A world in which a mean goes through more patterns of signs."""

    most_signs = 9


class _Statement:
    def __init__(self, theorem):
        self.sides, self.hypotheses = (theorem.lhs, theorem.rhs), theorem.hypotheses
        everything = [*self.sides, *[x for h in self.hypotheses for x in h.sides()]]
        kinds = (Family, Bijection, Index)
        self.uses = set().union(*[x.atoms(kind) for x in everything for kind in kinds])
        self.uses |= set().union(*[x.free_scalars() for x in everything])
        self.sizes = sorted((s for s in self.uses if getattr(s, "is_integer", False)), key=str)
        self.equations = [h for h in self.hypotheses if isinstance(h, Given)]
        found = set().union(*[x.atoms(Family) for h in self.equations for x in h.sides()], set())
        self.unknown = sorted((f for f in found if f.kind == "matrix"), key=str)

    def at(self, sizes, domains, most):
        """What becomes of it at these sizes, in the first numbers that will do.

        What floats refute has to be refuted in digits as well.
        """
        for domain in domains:
            try:
                found = self._tried(sizes, domain, most)
                if not (found.refuted and domain is FLOATS):
                    return found
            except Inexact:
                continue
        return found

    def _tried(self, sizes, domain, most):
        worlds = 0
        for seed, fixed in enumerate(self._ways(Patient(1, sizes, domain), most)):
            world = Patient(seed + 3, sizes, domain, fixed)
            try:
                with np.errstate(all="ignore"):
                    world = self._solved(world) if self.equations else world
                    if not all(_meets(world, h, self.uses) for h in self.hypotheses):
                        continue
                    left, right = map(world, self.sides)
                    agree = _agree(left, right, domain)
            except (Undefined, ZeroDivisionError, OverflowError):
                continue
            worlds += 1
            if not agree:
                shown = ", ".join(f"{s} = {k}" for s, k in sizes.items())
                return Judged(worlds, refuted=f"world {seed + 3} at {shown or 'its only size'}")
        return Judged(worlds, worlds if domain is RATIONALS else 0)

    def _ways(self, world, most):
        """Values for permutations and masks: all of them, or as many as are tried."""
        slots = []
        for b in sorted(self.uses, key=str):
            if isinstance(b, Bijection):
                slots.append(
                    [(b, list(p)) for p in itertools.permutations(range(world.size(b.size)))]
                )
            elif isinstance(b, Family) and b.kind == "mask":
                rows, columns = (world.size(s) for s in b.sizes[-2:])
                cells = itertools.product((1, 0), repeat=rows * columns)
                masks = itertools.islice(cells, 64 if len(b.sizes) == 2 else 0)
                slots.append(
                    [(b, world.array(_rows(map(Fraction, c), columns))) for c in masks] or [()]
                )
        ways = list(itertools.islice(itertools.product(*slots), 4096))
        kept = ways[:: max(1, len(ways) // most)][:most]
        for way in kept if len(kept) > 1 or most == 1 else kept * 3:
            yield dict(pair for pair in way if pair)

    def _solved(self, world):
        """The world with its matrices moved to where the equations hold; in 60 digits, or floats."""
        if all(_meets(world, h, self.uses) for h in self.equations):
            return world
        if world.domain is RATIONALS:
            raise Inexact  # a solution is seldom rational
        if not self.unknown:
            raise Undefined
        start = [world.letter(f) for f in self.unknown]
        flat = np.concatenate([x.ravel() for x in start])
        steps = 1e-6 * np.eye(len(flat))
        for _ in range(STEPS):
            gap = self._gaps(world, start, flat)
            if np.all(abs(gap) < (1e-13 if world.domain is FLOATS else 1e-50)):
                break
            floats = Patient(world.seed, world.sizes, FLOATS, _in_floats(world.fixed))
            point = flat.astype(float)
            slopes = np.array([self._gaps(floats, start, point + s) - self._gaps(floats, start, point - s)
                               for s in steps]).T / 2e-6  # fmt: skip
            inverse = np.linalg.pinv(slopes.astype(float), rcond=1e-6)
            flat = flat - world.array([map(_exactly, row) for row in inverse]) @ gap
        if np.any((abs(flat) < 1e-6) & (abs(flat) > 1e-12)):
            raise Undefined  # what is moved nearly to 0 may be divided by
        return self._having(world, start, np.where(abs(flat) <= 1e-12, 0 * flat, flat))

    def _having(self, world, start, flat):
        cuts = np.split(flat, np.cumsum([x.size for x in start])[:-1])
        parts = {f: part.reshape(x.shape) for f, x, part in zip(self.unknown, start, cuts)}
        return world.having(parts)

    def _gaps(self, world, start, flat):
        world = self._having(world, start, flat)
        return np.concatenate([(world(h.lhs) - world(h.rhs)).ravel() for h in self.equations])


def _in_floats(fixed):
    return {b: v.astype(float) if isinstance(v, np.ndarray) else v for b, v in fixed.items()}


def _exactly(x):
    return Fraction(float(x))


def _rows(cells, columns):
    cells = list(cells)
    return [cells[k : k + columns] for k in range(0, len(cells), columns)]


def _agree(left, right, domain):
    if domain is RATIONALS:
        return bool(np.all(left == right))
    scale = max(1, abs(left).max(), abs(right).max())
    if not scale < 1e30:
        raise Undefined
    return bool(abs(left - right).max() <= (1e-8 if domain is FLOATS else 1e-15) * scale)
