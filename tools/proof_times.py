"""How long every proof of the book takes, and how long expanding takes instead.

    python tools/proof_times.py      # about five minutes: writes notebooks/records/proof_times.json

A proof is the derivation, or the induction, that carries the number of the theorem.  The cell that
holds it is run three times, and the time of its lines is added up.  What is timed is the checker
alone: not torch's run of each line, which is an alarm and no part of the proof.  Theorems that are
cited are proved already.

Some equations are proved by expanding as well, at n = 2 to 6, in both ways of `expanding.py`,
until one takes longer than it is allowed to.  Each way must refuse the same equation with its right
side doubled; where it does not, nothing is recorded.

All times are CPU seconds of one thread.
"""

import datetime
import itertools
import json
import os
import platform
import sys
import time
from collections import defaultdict
from operator import itemgetter

from files import NOTEBOOKS, Fault, in_a_sentence, write

RECORD = NOTEBOOKS / "records" / "proof_times.json"
sys.path.insert(0, str(NOTEBOOKS))

import expanding  # noqa: E402
import sympy  # noqa: E402
from cell_proofs import proof_cells, proved_by  # noqa: E402
from derivation import proofs  # noqa: E402
from derivation.operations import PRODUCT_OF, SUM_OF  # noqa: E402
from register import read_register  # noqa: E402

REPEATS = 3
SIZES = range(2, 7)
ALLOWED = 30  # seconds, to expand at one n
LONG = 1  # a second: expanding that takes longer is timed once
#: Equivariance, shift invariance, key bias, value bias of all heads, LayerNorm.
EXPANDED = ("Theorem 1.5", "Theorem 3.1", "Theorem 3.2", "Theorem 4.3", "Theorem 7.1")


def timed_proofs():
    """{label: theorem} of the book, and {label: CPU seconds of its lines, each time anew}."""
    labelled, times = {}, defaultdict(list)
    for notebook, found in itertools.groupby(proof_cells(), key=itemgetter(0)):
        print(notebook, flush=True)
        for cell in REPEATS * [cell for _, cell in found if ".qed(" in cell.source]:
            theorems, lines = proved_by(cell)
            for theorem in theorems:
                labelled[theorem.label] = theorem
                took = sum(x.seconds for x in lines if x.derivation in theorem.proof)
                times[theorem.label].append(round(took, 5))
    return labelled, times


def operations(x):
    """The operations in an expression, each abbreviation written out.

    A product of three factors is two operations, and so is a sum of three terms.  A letter is
    none, and a word of the checker's own vocabulary, such as softmax, is one.
    """
    if x.operation.expand is not None:
        return operations(x.operation.expand(x))
    here = len(x.args) - 1 if x.operation in (PRODUCT_OF, SUM_OF) else bool(x.args)
    return here + sum(map(operations, x.args))


def expanding_times(theorem, way):
    """What the record says of proving a theorem's equation by expanding, at each n."""
    is_zero = expanding.WAYS[way]
    if expanding.holds_at(SIZES[0], theorem.lhs, 2 * theorem.rhs, is_zero):
        raise Fault(f"Expanding ({way}) accepts {theorem.label} with its right side doubled.")
    for n in SIZES:
        entry, times = {"label": theorem.label, "way": way, "n": n}, []
        try:
            while not times or (len(times) < REPEATS and times[0] < LONG):
                proofs.forget()
                start = time.process_time()
                with expanding.at_most(ALLOWED):
                    equal = expanding.holds_at(n, theorem.lhs, theorem.rhs, is_zero)
                times.append(round(time.process_time() - start, 5))
                if not equal:
                    raise Fault(f"Expanding ({way}) leaves {theorem.label} open at n = {n}.")
        except expanding.Stopped:
            yield entry | {"stopped": ALLOWED}
            return
        yield entry | {"seconds": times}


@in_a_sentence
def main():
    """Measures, says how far it is, and writes the record."""
    entries = read_register(NOTEBOOKS)
    theorems, seconds = timed_proofs()
    for entry in entries:
        if entry.label not in theorems:
            raise Fault(f"{entry.notebook.name}: no cell without torch proves {entry.label}.")
    record = {
        "date": datetime.date.today().isoformat(),
        "machine": f"one thread of {os.cpu_count()} cores, {platform.machine()}",
        "python": platform.python_version(),
        "sympy": sympy.__version__,
        "unit": "CPU seconds",
        "allowed": ALLOWED,
        "theorems": [
            {
                "label": entry.label,
                "name": entry.name,
                "notebook": entry.notebook.stem,
                "size": operations(theorems[entry.label].lhs)
                + operations(theorems[entry.label].rhs),
                "seconds": seconds[entry.label][:REPEATS],  # a later cell may prove it again
            }
            for entry in entries
        ],
        "expanding": [
            run
            for label, way in itertools.product(EXPANDED, expanding.WAYS)
            for run in expanding_times(theorems[label], way)
        ],
    }
    write(RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
