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
from pathlib import Path
from unittest import mock

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS = ROOT / "notebooks"
RECORD = NOTEBOOKS / "records" / "proof_times.json"
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


# ── The proofs of the book ────────────────────────────────────────────────────────────────


def proofs_of(cell):
    """{label: (theorem, each derivation of its proof with the lines that it was given)}"""
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
    return {t.label: (t, [(part, lines[part]) for part in t.proof]) for t in theorems if t.label}


def again(parts):
    """Check every line again."""
    for before, lines in parts:
        derivation = Derivation(before.name, before.lines[0][0])
        derivation._local = before._local  # the hypothesis of an induction's step
        for claim, reasons in lines:
            derivation.by(claim, *reasons)


def without_alarm():
    """Torch does not run the lines."""
    return mock.patch.object(proofs, "torch_is_here", lambda: False)


def operations(x):
    """The operations in an expression, each abbreviation written out.

    A product of three factors is two operations, and so is a sum of three terms.  A letter is
    none, and a word of the checker's own vocabulary, such as softmax, is one.
    """
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


def expanding_times(theorem, way, allowed):
    """What the record says of proving a theorem's equation by expanding, at each n."""
    sides, is_zero = (theorem.lhs, theorem.rhs), expanding.WAYS[way]
    if expanding.holds_at(SIZES[0], theorem.lhs, 2 * theorem.rhs, is_zero):
        raise Fault(f"Expanding ({way}) accepts {theorem.label} with its right side doubled.")
    for n in SIZES:
        entry, times = {"label": theorem.label, "way": way, "n": n}, []
        try:
            while not times or (len(times) < REPEATS and times[0] < LONG):
                with expanding.at_most(allowed):
                    seconds, equal = timed(lambda n=n: expanding.holds_at(n, *sides, is_zero))
                if not equal:
                    raise Fault(f"Expanding ({way}) leaves {theorem.label} open at n = {n}.")
                times.append(seconds)
        except expanding.Stopped:
            yield entry | {"stopped": allowed}
            return
        yield entry | {"seconds": times}


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
    entries, times, proved = read_register(NOTEBOOKS), [], {}
    for notebook in dict.fromkeys(entry.notebook for entry in entries):
        for cell in live_cells(json.loads(notebook.read_text(encoding="utf-8"))):
            if ".qed(" in cell.source:
                proved |= proofs_of(cell)
    for entry in entries:
        if entry.label not in proved:
            raise Fault(
                f"{entry.notebook.name}: no cell that runs without torch proves {entry.label}."
            )
        theorem, parts = proved[entry.label]
        with without_alarm():
            seconds = [timed(lambda parts=parts: again(parts))[0] for _ in range(REPEATS)]
        times.append(
            {
                "label": entry.label,
                "name": entry.name,
                "notebook": entry.notebook.stem,
                "size": operations(theorem.lhs) + operations(theorem.rhs),
                "seconds": seconds,
            }
        )
        print(f"[{len(times)}/{len(entries)}] {entry.label}: {min(seconds):.3f} s", flush=True)
    expansions = []
    for label, way in itertools.product(EXPANDED, expanding.WAYS):
        for run in expanding_times(proved[label][0], way, allowed):
            took = f"{min(run['seconds']):.3f} s" if "seconds" in run else "stopped"
            print(f"{label}, {way}, n = {run['n']}: {took}", flush=True)
            expansions.append(run)
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
