"""Offers random lines to the checker and evaluates those that it accepts.

    python tests/fuzz/run.py --lines 50000 --seed 7            one long run
    python tests/fuzz/run.py --lines 25000 --from 25000 ...    the second half, elsewhere
    python tests/fuzz/run.py --line 7:1234                     one line again

The torch alarm is off.  The exit code is 1 when an accepted line was refuted.
"""

import argparse
import contextlib
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[2]
    sys.path[:0] = [
        str(ROOT / folder) for folder in ("tests", "tests/derivation", "notebooks", "tools")
    ]

from derivation import Derivation, ProofError, Theorem, proofs, steps
from derivation.kernel import normal
from derivation.reasons import Given
from judge import judged

from fuzz.lines import KINDS, line_of, places, replaced_at, roots

MOST_STEPS = 800  # of the normal form: a fuzzed line is small
WORLDS = 7  # for a line, each at another combination of sizes
MOST_SECONDS = 20  # of CPU for a line, in a long run


class TooSlow(Exception):
    """The line took longer than a long run allows."""


@contextlib.contextmanager
def checker_alone():
    """The checker without its alarm, without its search for an example, and without its limit
    on reasons: a line with one that it does not need has to be sound as well."""
    changes = [
        (proofs, "torch_is_here", lambda: False), (steps, "SEARCH_AFTER_A_REFUSAL", 0),
        (steps.Step, "_would_do", lambda self, reasons: False),
        (steps.Step, "_refusal", lambda self: "not justified"),
        (normal, "MOST_STEPS", MOST_STEPS),
    ]  # fmt: skip
    before = [getattr(where, name) for where, name, _ in changes]
    for where, name, new in changes:
        setattr(where, name, new)
    try:
        yield
    finally:
        for (where, name, _), old in zip(changes, before):
            setattr(where, name, old)


def accepted(line):
    """The hypotheses under which the checker accepts a line; None when it refuses.

    An acceptance counts when the line can also be made a theorem.
    """
    proofs.forget()
    try:
        derivation = Derivation("fuzzed", line.before).by(line.claim, *line.reasons)
        return derivation.qed().hypotheses
    except (ProofError, RecursionError):
        return None


@dataclass(frozen=True)
class Claim:
    """A line and what it rests on, as a theorem has them."""

    lhs: object
    rhs: object
    hypotheses: tuple
    random: tuple = ()


def evaluated(line, hypotheses):
    """What the second judge finds of a line, at a few combinations of small sizes."""
    return judged(Claim(line.before, line.claim, tuple(hypotheses)), WORLDS, larger=0, most=WORLDS)


@dataclass
class Tally:
    """What became of the lines, by kind."""

    offered: Counter = field(default_factory=Counter)
    accepted: Counter = field(default_factory=Counter)
    false: Counter = field(default_factory=Counter)  # whatever the checker said
    untried: Counter = field(default_factory=Counter)  # accepted, and no world met the hypotheses
    slow: Counter = field(default_factory=Counter)
    by_schema: dict = field(default_factory=dict)
    holes: list = field(default_factory=list)
    mistakes: list = field(default_factory=list)  # of the generator or of the evaluator
    crashes: list = field(default_factory=list)

    def add(self, line):
        """Offers a line and records what became of it."""
        self.offered[line.kind] += 1
        hypotheses = None
        try:
            hypotheses = accepted(line)
            verdict = evaluated(line, hypotheses or ())
        except TooSlow:
            self.slow[line.kind] += 1
            return
        except Exception as error:
            if isinstance(error, ProofError) and hypotheses is None:
                return  # a change has made what nobody could write down, and it was refused
            self.crashes.append(f"{line.show()}\n    raised   {type(error).__name__}: {error}")
            return
        self.false[line.kind] += bool(verdict.refuted)
        if line.kind == "true":
            offered, passed = self.by_schema.get(line.about, (0, 0))
            self.by_schema[line.about] = offered + 1, passed + (hypotheses is not None)
            if verdict.refuted and not any(isinstance(r, (Theorem, Given)) for r in line.reasons):
                self.mistakes.append(f"{line.show()}\n    false in {verdict.refuted}")
        if hypotheses is None:
            return
        self.accepted[line.kind] += 1
        self.untried[line.kind] += not verdict.worlds
        if verdict.refuted:
            self.holes.append(reproduction(line))

    def __str__(self):
        rows = [f"{'':12}{'offered':>9}{'accepted':>9}{'false':>9}{'untried':>9}{'too slow':>9}"]
        for kind in KINDS:
            counts = (self.offered, self.accepted, self.false, self.untried, self.slow)
            rows.append(f"{kind:12}" + "".join(f"{c[kind]:9}" for c in counts))
        rows.append(f"accepted and refuted: {len(self.holes)}")
        return "\n".join(rows)

    def rarely_accepted(self):
        """The schemas of true lines of which fewer than half are accepted."""
        rare = [
            (p / o, name, o) for name, (o, p) in self.by_schema.items() if o >= 4 and p / o < 0.5
        ]
        return [f"{share:5.0%} of {o:4}  {name}" for share, name, o in sorted(rare)]


def refuted_though_accepted(line):
    """The sentence that refutes an accepted line, or nothing."""
    try:
        hypotheses = accepted(line)
        return "" if hypotheses is None else evaluated(line, hypotheses).refuted
    except Exception:
        return ""


def smaller(line):
    """The line with sub-expressions left out, as long as it stays accepted and refuted."""
    shrunk = True
    while shrunk:
        shrunk = False
        for before, claim in _smaller_sides(line):
            other = replace(line, before=before, claim=claim)
            if refuted_though_accepted(other):
                line, shrunk = other, True
                break
    return line


def _smaller_sides(line):
    """One argument for the whole, in one side or in the same place of both."""
    sides = (line.before, line.claim)
    cuts = [
        [(path, y, z) for path, y in places(x) for z in y.args if z.shape == y.shape] for x in sides
    ]
    if line.before.operation is line.claim.operation and len(line.before.args) == len(
        line.claim.args
    ):
        yield from ((a, b) for a, b in zip(line.before.args, line.claim.args) if a.shape == b.shape)
    for path, _, z in cuts[0]:
        for other, _, w in cuts[1]:
            if w == z:
                yield replaced_at(line.before, path, z), replaced_at(line.claim, other, w)
    yield from ((replaced_at(line.before, path, z), line.claim) for path, _, z in cuts[0])
    yield from ((line.before, replaced_at(line.claim, path, z)) for path, _, z in cuts[1])


def reproduction(line):
    """What to print of a hole: the line, a smaller one like it, and where it is false."""
    small = smaller(line)
    where = refuted_though_accepted(small)
    shown = line.show() + f"\n    false in {refuted_though_accepted(line)}"
    return (
        shown if small is line else f"{shown}\n  or, smaller:\n{small.show()}\n    false in {where}"
    )


def run(base, numbers, each=lambda tally, number: None):
    """Offers the lines of the seeds base:number; returns the tally."""
    tally = Tally()
    roots()  # which are proved by the checker as it is
    with checker_alone():
        for number in numbers:
            tally.add(line_of(f"{base}:{number}"))
            each(tally, number)
    return tally


def _limited():
    """A limit on the CPU time of a line, where the system has one: a way to restart it."""
    if not hasattr(signal, "setitimer"):
        return lambda: None

    def late(signum, frame):
        raise TooSlow

    signal.signal(signal.SIGVTALRM, late)
    return lambda: signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)


def main():
    """The command."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--lines", type=int, default=50_000, help="how many lines to offer")
    parser.add_argument("--seed", default="1", help="what the lines are drawn from")
    parser.add_argument(
        "--from", type=int, default=0, dest="first", help="the number of the first line"
    )
    parser.add_argument(
        "--line", help="offer this one line, seed:number, and say what becomes of it"
    )
    options = parser.parse_args()
    if options.line:
        return one(options.line)
    restart, started = _limited(), time.process_time()

    def each(tally, number):
        restart()
        done = number + 1 - options.first
        if done % 1000 == 0 or tally.holes[reported[0] :]:
            for hole in tally.holes[reported[0] :]:
                print("ACCEPTED AND FALSE\n" + hole, flush=True)
            reported[0] = len(tally.holes)
            seconds = time.process_time() - started
            print(
                f"{done} lines in {seconds:.0f} s of CPU; to go on: --from {number + 1}\n{tally}",
                flush=True,
            )

    reported = [0]
    roots()
    restart()
    tally = run(options.seed, range(options.first, options.first + options.lines), each)
    print(f"\n{tally}\n")
    for title, what in (("Crashes", tally.crashes), ("Mistakes of the generator", tally.mistakes),
                        ("True lines that are rarely accepted", tally.rarely_accepted())):  # fmt: skip
        print(f"{title}: {len(what)}")
        print("\n".join(what))
    return bool(tally.holes or tally.crashes or tally.mistakes)


def one(seed):
    """Offers one line and prints what becomes of it."""
    line = line_of(seed)
    print(line.show())
    with checker_alone():
        hypotheses = accepted(line)
        verdict = evaluated(line, hypotheses or ())
    assumed = "; ".join(x.show(proofs.Text()) for x in hypotheses or ())
    print(
        "    checker ",
        "refuses" if hypotheses is None else f"accepts, assuming: {assumed or 'nothing'}",
    )
    print(
        "    values  ",
        f"differ in {verdict.refuted}" if verdict.refuted else f"agree in {verdict.worlds} worlds",
    )
    return hypotheses is not None and bool(verdict.refuted)


if __name__ == "__main__":
    sys.exit(main())
