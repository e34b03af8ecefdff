"""What the cells of the notebooks prove, with torch left out, and the CPU time that it takes."""

import contextlib
import io
import json
import time
from collections import defaultdict
from pathlib import Path
from unittest import mock

from derivation import Derivation, proofs
from live_proofs import live_cells

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


def proof_cells():
    """(notebook, cell) of every proof and every refusal."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        for cell in live_cells(json.loads(path.read_text(encoding="utf-8"))):
            yield path.stem, cell


def proved_by(cell):
    """([theorem], {derivation: CPU seconds of its lines}) of all that a cell proves.

    Each derivation begins with empty caches.
    """
    theorems, seconds = [], defaultdict(float)
    check, make = Derivation.by, proofs._theorem

    def by(self, *claim, **more):
        if self not in seconds:
            proofs.forget()
        start = time.process_time()
        result = check(self, *claim, **more)
        seconds[self] += time.process_time() - start
        return result

    def made(*parts):
        theorems.append(make(*parts))
        return theorems[-1]

    source = "\n".join([*(statement.source for statement in cell.prelude), cell.source])
    with (
        mock.patch.object(proofs, "torch_is_here", lambda: False),
        mock.patch.object(Derivation, "by", by),
        mock.patch.object(proofs, "_theorem", made),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        exec(compile(source, "<cell>", "exec"), {"__name__": "__cell__"})
    return theorems, seconds
