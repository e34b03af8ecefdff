"""The second judge, which evaluates a theorem's statement at every combination of small sizes.

It reads the theorem's expressions as trees and shares no code with the kernel.  A *world* gives
each letter a value (``worlds``).  Numbers are exact rationals until a root or another function
needs 60 digits.  Permutations and masks are enumerated, random letters take all patterns of two
distributions, and Newton's method finds letters that satisfy an assumed equation.
"""

import itertools
import random
from dataclasses import dataclass, field

import numpy as np
from derivation.language.letters import Bijection, Family, Index
from derivation.language.nonzero import NonZero
from derivation.proving.hypotheses import Condition
from derivation.proving.reasons import Given

from .arithmetic import CLOSE, NEAR_ZERO, STEP, Undefined, agree, array, difference, in_digits
from .index_forms import Terms
from .worlds import World

SIZES = (1, 2, 3)
STEPS = 40  # the most steps of Newton's method


@dataclass(frozen=True)
class Claim:
    """A statement to judge, with the attributes of a theorem."""

    lhs: object
    rhs: object
    hypotheses: tuple = ()
    random: tuple = ()


@dataclass
class Judged:
    """The sizes at which the hypotheses held, and the refuting world ("" if there is none)."""

    tried: list = field(default_factory=list)
    refuted: str = ""


def judged(theorem, worlds, most=None):
    """Judge a theorem at every combination of small sizes, and at one larger combination.

    About ``worlds`` worlds are tried in total, and at least one at each combination.  ``most``
    limits the number of combinations; all are then small, and every size is 2 in the first.
    """
    statement, found = _Statement(theorem), Judged()
    count = len(statement.sizes)
    small = list(itertools.product(SIZES, repeat=count))
    combinations = list(small)
    if most is None and count and not theorem.random:
        combinations.append(tuple(4 + j % 4 for j in range(count)))
    elif most is not None and len(small) > most:
        drawn = random.Random(repr(theorem.lhs)).sample(small, most - 1)
        combinations = list(dict.fromkeys([(2,) * count, *drawn]))
    for at in combinations:
        sizes = dict(zip(statement.sizes, at))
        tried, found.refuted = statement.at(sizes, max(1, worlds // len(small)))
        found.tried += [at] * tried
        if found.refuted:
            break
    return found


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

    def at(self, sizes, most):
        """(whether hypotheses hold in a world of these sizes, a world refuting the claim or "")."""
        tried = False
        for seed, fixed in enumerate(self._ways(World(1, sizes), most), 3):
            try:
                world = self._solved(World(seed, sizes, fixed))
                if not all(_meets(world, h, self.uses) for h in self.hypotheses):
                    continue
                equal = agree(*map(world, self.sides))
            except (Undefined, ZeroDivisionError, OverflowError):
                continue
            tried = True
            if not equal:
                shown = ", ".join(f"{s} = {k}" for s, k in sizes.items())
                return True, f"world {seed} at {shown or 'its only size'}"
        return tried, ""

    def _ways(self, world, most):
        """Yield values for permutations and masks: all combinations, or a selection of ``most``."""
        slots = []
        for b in sorted(self.uses, key=str):
            if isinstance(b, Bijection):
                orders = itertools.permutations(range(world.size(b.size)))
                slots.append([{b: list(order)} for order in orders])
            elif isinstance(b, Family) and b.kind == "mask" and len(b.sizes) == 2:
                shape = tuple(map(world.size, b.sizes))
                cells = itertools.product((1, 0), repeat=shape[0] * shape[1])
                masks = (np.reshape(c, shape).tolist() for c in itertools.islice(cells, 64))
                slots.append([{b: array(mask)} for mask in masks])
        ways = list(itertools.islice(itertools.product(*slots), 4096))
        kept = ways[:: max(1, len(ways) // most)][:most]
        for way in kept if len(kept) > 1 or most == 1 else kept * 3:
            yield {b: value for slot in way for b, value in slot.items()}

    # -- letters that satisfy the assumed equations

    def _solved(self, world):
        """The world, with matrices changed by Newton's method to satisfy the assumed equations."""
        if all(_meets(world, h, self.uses) for h in self.equations):
            return world
        if not self.unknown:
            raise Undefined
        flat = in_digits(np.concatenate([world.letter(f).ravel() for f in self.unknown]))
        for _ in range(STEPS):
            gap = self._gaps(world, flat)
            if np.all(abs(gap) < 1e-50):
                break
            inverse = np.linalg.pinv(self._slopes(world, flat), rcond=1e-6)
            flat = flat - inverse.astype(object) @ gap
        if np.any((abs(flat) < 1e-6) & (abs(flat) > 1e-12)):
            raise Undefined  # too large to be a rounded zero, too small to be a divisor
        return self._moved(world, np.where(abs(flat) <= 1e-12, 0 * flat, flat))

    def _moved(self, world, flat):
        """The world with the entries of the unknown matrices taken from ``flat``, in order."""
        parts, start = {}, 0
        for f in self.unknown:
            shape = world.letter(f).shape
            end = start + shape[0] * shape[1]
            parts[f], start = flat[start:end].reshape(shape), end
        return world.having(parts)

    def _gaps(self, world, flat):
        world = self._moved(world, flat)
        return np.concatenate([_gap(world, h).ravel() for h in self.equations])

    def _slopes(self, world, flat):
        """The Jacobian of the gaps, in floats."""
        steps = STEP * np.eye(len(flat), dtype=object)
        here = self._gaps(world, flat)
        gaps = [difference(self._gaps(world, flat + step), here) for step in steps]
        return (in_digits(np.array(gaps, dtype=object)).T / STEP).astype(float)


# ── Hypotheses ────────────────────────────────────────────────────────────────────────────


def _meets(world, hypothesis, uses):
    """Whether a hypothesis holds in a world; inequalities must hold by a margin."""
    if isinstance(hypothesis, Condition):
        return _meets_condition(world, hypothesis, uses)
    if isinstance(hypothesis, NonZero):
        return _is_non_zero(world, hypothesis)
    return bool(np.all(abs(_gap(world, hypothesis)) < CLOSE))


def _gap(world, equation):
    return difference(world(equation.lhs), world(equation.rhs))


def _is_non_zero(world, hypothesis):
    """Whether a hypothesis holds for all values of its indices; False if it binds a scalar."""
    if not all(isinstance(k, Index) for k in hypothesis.bound):
        return False
    for at in itertools.product(*[range(world.size(k.size)) for k in hypothesis.bound]):
        values = world.having(dict(zip(hypothesis.bound, at)))(hypothesis.expression)
        if not np.all((values if hypothesis.positive else abs(values)) > NEAR_ZERO):
            return False
    return True


def _meets_condition(world, condition, uses):
    """Whether a condition holds at every position; the functions of a world are all smooth."""
    if condition.relation in ("is smooth", "exists"):
        return True
    terms = Terms(world, uses)
    values = [terms.at(condition.about, *at) for at in terms.ranges(condition.about)]
    return all(v >= 0 if condition.relation == "≥ 0" else abs(v) > NEAR_ZERO for v in values)
