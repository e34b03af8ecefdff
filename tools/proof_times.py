"""How long every proof of the book takes, and how long expanding takes instead.

    python tools/proof_times.py                 # writes notebooks/records/proof_times.json
    python tools/proof_times.py --seconds 2 --out _build/times.json     # stops expanding sooner

A proof is the derivation, or the induction, that carries the number of the theorem.  The cells
that hold it are run once, without torch, and every line is kept with its reasons; then all the
lines are checked anew, three times, each time with empty caches.  What is timed is the checker
alone: not torch's run of each line, which is an alarm and no part of the proof, and not the
search for the proof, which the reader did.  Theorems that are cited are proved already.

Some equations are proved by expanding as well, at n = 2 to 6, in both ways of `expanding.py`,
until one takes more than it is allowed to.  Each way must refuse the same equation with its right
side doubled; where it does not, nothing is recorded.

All times are CPU seconds of one thread.  On a quiet machine it takes about five minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import gc
import io
import itertools
import json
import os
import platform
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
RECORD = NOTEBOOKS / "records" / "proof_times.json"
if str(NOTEBOOKS) not in sys.path:
    sys.path.insert(0, str(NOTEBOOKS))

import expanding  # noqa: E402
import sympy  # noqa: E402
from derivation import Derivation, proofs  # noqa: E402
from derivation.operations import PRODUCT_OF, SUM_OF  # noqa: E402
from files import Fault, in_a_sentence, write  # noqa: E402
from live_proofs import live_cells  # noqa: E402
from register import read_register  # noqa: E402

REPEATS = 3
SIZES = range(2, 7)
LONG = 1  # a second: expanding that takes longer is timed once
#: Equivariance, shift invariance, key bias, value bias of all heads, LayerNorm.
EXPANDED = ("Theorem 1.5", "Theorem 3.1", "Theorem 3.2", "Theorem 4.3", "Theorem 7.1")


class Wrong(Fault):
    """Why nothing is recorded, in one sentence."""


# ── The proofs of the book ────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Proof:
    """A theorem, and each derivation of its proof with the lines (claim, reasons) it was given."""

    theorem: proofs.Theorem
    parts: tuple

    def again(self):
        """Checks every line again."""
        for before, lines in self.parts:
            derivation = Derivation(before.name, before.lines[0][0])
            derivation._local = before._local  # the hypothesis of an induction's step
            for claim, reasons in lines:
                derivation.by(claim, *reasons)


def proof_of(entry, cells):
    """The proof of an entry of the register; ``cells`` are its notebook's live cells."""
    for cell in cells:
        if f'.qed("{entry.label}")' in cell.source:
            made, lines = run(cell)
            for theorem in made:
                if theorem.label == entry.label:
                    return Proof(theorem, tuple((part, lines[part]) for part in theorem.proof))
    raise Wrong(f"{entry.notebook.name}: no cell that runs without torch proves {entry.label}.")


def run(cell):
    """What a cell proves: its theorems, and the lines that each derivation was given."""
    theorems, lines = [], {}
    line, theorem = Derivation.by, proofs._theorem

    def by(self, claim, *reasons, note=""):
        result = line(self, claim, *reasons, note=note)
        lines.setdefault(self, []).append((claim, reasons))
        return result

    def made(*parts):
        theorems.append(theorem(*parts))
        return theorems[-1]

    source = "\n".join([*(statement.source for statement in cell.prelude), cell.source])
    with (
        without_alarm(),
        mock.patch.object(Derivation, "by", by),
        mock.patch.object(proofs, "_theorem", made),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        exec(compile(source, "<cell>", "exec"), {"__name__": "__cell__"})
    return theorems, lines


def without_alarm():
    """Torch does not run the lines."""
    return mock.patch.object(proofs, "torch_is_here", lambda: False)


def size(theorem):
    """The operations in the two sides of its statement, each abbreviation written out.

    A product of three factors is two operations, and so is a sum of three terms.  A letter is
    none, and a word of the checker's own vocabulary, such as softmax, is one.
    """
    return operations(theorem.lhs) + operations(theorem.rhs)


def operations(x):
    """The operations in an expression, each abbreviation written out."""
    if x.operation.expand is not None:
        return operations(x.operation.expand(x))
    here = len(x.args) - 1 if x.operation in (PRODUCT_OF, SUM_OF) else bool(x.args)
    return here + sum(map(operations, x.args))


# ── Their times ───────────────────────────────────────────────────────────────────────────


def timed(work):
    """CPU seconds that ``work()`` takes with empty caches, and what it returns."""
    proofs.forget()
    gc.collect()
    start = time.process_time()
    result = work()
    return round(time.process_time() - start, 5), result


def proof_time(entry, proof):
    """What the record says of a proof."""
    with without_alarm():
        seconds = [timed(proof.again)[0] for _ in range(REPEATS)]
    return {
        "label": entry.label, "name": entry.name, "notebook": entry.notebook.stem,
        "size": size(proof.theorem), "seconds": seconds,
    }  # fmt: skip


def expanding_times(theorem, way, allowed):
    """What the record says of proving a theorem's equation by expanding, at each n."""
    lhs, rhs, is_zero = theorem.lhs, theorem.rhs, expanding.WAYS[way]
    if expanding.holds_at(SIZES[0], lhs, 2 * rhs, is_zero):
        raise Wrong(f"Expanding ({way}) accepts {theorem.label} with its right side doubled.")
    for n in SIZES:
        entry = {"label": theorem.label, "way": way, "n": n}
        try:
            yield entry | {"seconds": expanded(n, lhs, rhs, is_zero, allowed)}
        except expanding.Stopped:
            yield entry | {"stopped": allowed}
            return
        except Undecided:
            raise Wrong(f"Expanding ({way}) leaves {theorem.label} open at n = {n}.") from None


class Undecided(Exception):
    """SymPy did not find the two sides equal."""


def expanded(n, lhs, rhs, is_zero, allowed):
    """The seconds of every repeat."""
    times = []
    while not times or (len(times) < REPEATS and times[0] < LONG):
        with expanding.at_most(allowed):
            seconds, equal = timed(lambda: expanding.holds_at(n, lhs, rhs, is_zero))
        if not equal:
            raise Undecided
        times.append(seconds)
    return times


# ── The record ────────────────────────────────────────────────────────────────────────────


@in_a_sentence
def main(arguments):
    """Measures, shows how far it is, and writes the record."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--seconds", type=float, default=30, help="allowed to expand at one n")
    options.add_argument("--out", type=Path, default=RECORD)
    options = options.parse_args(arguments)
    record = measured(options.seconds)
    options.out.parent.mkdir(exist_ok=True)
    write(options.out, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    print(f"The record, taken in {time.process_time():.0f} s of CPU time: {options.out}")
    return 0


def measured(allowed):
    """The record."""
    entries = read_register(NOTEBOOKS)
    times, theorems, cells = [], {}, {}
    for number, entry in enumerate(entries, 1):
        if entry.notebook not in cells:
            notebook = json.loads(entry.notebook.read_text(encoding="utf-8"))
            cells = {entry.notebook: list(live_cells(notebook))}
        proof = proof_of(entry, cells[entry.notebook])
        times.append(proof_time(entry, proof))
        if entry.label in EXPANDED:
            theorems[entry.label] = proof.theorem
        print(
            f"[{number}/{len(entries)}] {entry.label}: {min(times[-1]['seconds']):.3f} s",
            flush=True,
        )
    expansions = []
    for label, way in itertools.product(EXPANDED, expanding.WAYS):
        for entry in expanding_times(theorems[label], way, allowed):
            took = f"{min(entry['seconds']):.3f} s" if "seconds" in entry else "stopped"
            print(f"{label}, {way}, n = {entry['n']}: {took}", flush=True)
            expansions.append(entry)
    return about() | {"allowed": allowed, "theorems": times, "expanding": expansions}


def about():
    """When and on what it was measured."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": f"one thread of {os.cpu_count()} cores, {platform.machine()}",
        "python": platform.python_version(),
        "sympy": sympy.__version__,
        "unit": "CPU seconds",
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
