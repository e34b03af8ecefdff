"""How long every proof of the book takes.

    python tools/proof_times.py      # a minute or two: writes notebooks/records/proof_times.json

A proof is the derivation, or the induction, that carries the number of the theorem.  The cell that
holds it is run three times, and the time of its lines is added up.  What is timed is the checker
alone: not each line's run in torch, which is no part of the proof.  Theorems that are cited are
proved already.

All times are CPU seconds of one thread.
"""

import datetime
import itertools
import json
import os
import platform
import sys
from collections import defaultdict
from operator import itemgetter

from files import NOTEBOOKS, Fault, in_a_sentence, write

RECORD = NOTEBOOKS / "records" / "proof_times.json"
sys.path.insert(0, str(NOTEBOOKS))

import sympy  # noqa: E402
from cell_proofs import proof_cells, proved_by  # noqa: E402
from derivation.operations import PRODUCT_OF, SUM_OF  # noqa: E402
from register import read_register  # noqa: E402

REPEATS = 3


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
    }
    write(RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
