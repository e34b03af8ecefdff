"""Random lines: none is accepted that an independent evaluation refutes.

The long run, with the same generator: ``make nightly ONLY=fuzz``.
"""

import inspect
import textwrap

import pytest
from derivation import matrix, proofs, sizes, softmax
from derivation.kernel import normal, sums
from fuzz.lines import KINDS, Line, roots
from fuzz.run import MOST_STEPS, Tally, checker_alone, evaluated, run, smaller

pytestmark = pytest.mark.nightly
LINES = 2000
n = sizes("n")
SEED = "suite"
#: Faults that random lines find: in a method of the kernel, one text becomes another.
FAULTS = {
    "linked sums are separated": (
        sums.Sums, "_separated", "not mine.isdisjoint(letters_of(part))]", "False]"),
    "constants are summed away": (
        sums.Sums, "_separated",
        "self.product(outside), set(indices), []", "UNITY, set(indices), []"),
    "an exponential loses its sign": (
        normal.Normal, "_exp", "product_term(m)), c)", "product_term(m)), abs(c))"),
}  # fmt: skip
#: So many lines are offered until one finds the fault.
WITHIN = 300


@pytest.fixture(scope="module")
def tally():
    found = run(SEED, range(LINES))
    print(f"\n{found}\n" + "\n".join(found.rarely_accepted()))
    return found


def test_no_line_is_accepted_that_is_false(tally):
    assert not tally.holes, "\n".join(tally.holes)


def test_nothing_but_a_refusal_stops_the_checker(tally):
    assert not tally.crashes, "\n".join(tally.crashes)


def test_the_lines_that_are_true_by_construction_are_true(tally):
    """The generator and the evaluator, which know nothing of each other, agree."""
    assert not tally.mistakes, "\n".join(tally.mistakes)


def test_the_run_says_something(tally):
    """All lines are offered; true ones are accepted and false ones offered in great number."""
    assert sum(tally.offered.values()) == LINES and not tally.slow
    assert set(tally.offered) == set(KINDS) and len(tally.by_schema) > 100
    assert tally.accepted["true"] > LINES / 4 and tally.false["near miss"] > LINES / 4
    assert sum(tally.untried.values()) < LINES / 100


def plant(monkeypatch, owner, name, old, new):
    """Puts a fault into a method; nothing is remembered from before."""
    source = textwrap.dedent(inspect.getsource(vars(owner)[name]))
    assert source.count(old) == 1, f"{name} has changed: plant another fault"
    made = {}
    exec(source.replace(old, new), vars(inspect.getmodule(owner)), made)
    monkeypatch.setattr(owner, name, made[name])
    proofs.forget()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_core_is_found(name, monkeypatch):
    roots()  # which are proved before the fault is there
    with monkeypatch.context() as patch:
        plant(patch, *FAULTS[name])
        assert any(run(SEED, [number]).holes for number in range(WITHIN))
    proofs.forget()


def test_a_hole_is_shown_as_small_as_it_gets(monkeypatch):
    A, B = matrix("A", n, n), matrix("B", n, n)
    line = Line("none", "near miss", softmax(A + 2 * B.T), softmax(A + 2 * B))
    monkeypatch.setattr(normal.Normal, "same", lambda self, a, b: True)
    with checker_alone():
        small = smaller(line)
        assert evaluated(small, ()).refuted and evaluated(line, ()).refuted
    assert max(len(repr(x)) for x in (small.before, small.claim)) <= 4


def test_the_checker_is_itself_again_afterwards():
    steps = normal.MOST_STEPS
    run(SEED, range(2))
    assert normal.MOST_STEPS == steps != MOST_STEPS


def test_a_tally_counts_a_line_that_is_true_and_refuted_as_a_mistake():
    A = matrix("A", n, n)
    tally = Tally()
    with checker_alone():
        tally.add(Line("none", "true", A, A.T))
    assert tally.mistakes and not tally.holes
