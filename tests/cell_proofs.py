"""Find what the cells of the notebooks prove without torch, and time each proved line."""

import contextlib
import io
import json
import time
from typing import NamedTuple
from unittest import mock

from derivation import Derivation
from derivation.proving import proofs

from tools.files import NOTEBOOKS
from tools.site.live_proofs import live_cells


def proof_cells():
    """Yield (name of the notebook, cell) for each cell that proves, refutes or refuses a claim."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        for cell in live_cells(json.loads(path.read_text(encoding="utf-8"))):
            yield path.stem, cell


class Line(NamedTuple):
    """A proved line of a derivation; ``before`` is the expression in the line above."""

    derivation: object
    before: object
    claim: object
    reasons: tuple
    seconds: float  # of CPU time


def proved_by(cell):
    """The theorems and Lines that a cell proves; every derivation starts with empty caches."""
    theorems, lines = [], []
    check, make = Derivation.by, proofs._theorem

    def by(self, claim, *reasons, note=""):
        if len(self.lines) == 1:
            proofs.forget()
        before, start = self.lines[-1][0], time.process_time()
        result = check(self, claim, *reasons, note=note)
        lines.append(Line(self, before, claim, reasons, time.process_time() - start))
        return result

    def made(*parts):
        theorems.append(make(*parts))
        return theorems[-1]

    source = f"{cell.prelude}\n{cell.source}"
    with (
        mock.patch.object(proofs, "torch_is_here", lambda: False),
        mock.patch.object(Derivation, "by", by),
        mock.patch.object(proofs, "_theorem", made),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        exec(compile(source, "<cell>", "exec"), {"__name__": "__cell__", "display": print})
    return theorems, lines
