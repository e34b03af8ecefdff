"""Find what the cells of the notebooks prove without torch."""

import contextlib
import io
import json
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


def proved_by(cell):
    """(theorems, lines) that a cell proves; every derivation starts with empty caches.

    A line is (the expression before, the claim, the reasons, the name of the derivation).
    """
    theorems, lines = [], []
    check, make = Derivation.by, proofs._theorem

    def by(self, claim, *reasons, note=""):
        if len(self.lines) == 1:
            proofs.forget()
        before, result = self.lines[-1][0], check(self, claim, *reasons, note=note)
        lines.append((before, claim, reasons, self.name))
        return result

    def made(*parts):
        theorems.append(make(*parts))
        return theorems[-1]

    with (
        mock.patch.object(proofs, "torch_is_here", lambda: False),
        mock.patch.object(Derivation, "by", by),
        mock.patch.object(proofs, "_theorem", made),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        source = f"{cell.prelude}\n{cell.source}"
        exec(compile(source, "<cell>", "exec"), {"__name__": "__cell__", "display": print})
    return theorems, lines
