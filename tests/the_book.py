"""What the notebooks prove, cell by cell, with torch left out."""

import contextlib
import io
import json
from pathlib import Path
from unittest import mock

from derivation import Derivation, proofs
from live_proofs import live_cells

NOTEBOOKS = Path(__file__).resolve().parents[1] / "notebooks"


def cells():
    """(notebook, cell) of every proof and every refusal."""
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        for cell in live_cells(json.loads(path.read_text(encoding="utf-8"))):
            yield path.stem, cell


def proved_by(cell):
    """([theorem], [(name, before, after, reasons)]): what a cell proves, and its lines."""
    theorems, lines = [], []
    by, made = Derivation.by, proofs._theorem

    def recording(self, claim, *reasons, note=""):
        before, result = self.lines[-1][0], by(self, claim, *reasons, note=note)
        lines.append((self.name, before, self.lines[-1][0], reasons))
        return result

    def keeping(*parts):
        theorems.append(made(*parts))
        return theorems[-1]

    source = "\n".join([*[statement.source for statement in cell.prelude], cell.source])
    with (
        mock.patch.object(Derivation, "by", recording),
        mock.patch.object(proofs, "_theorem", keeping),
        mock.patch.object(proofs, "torch_is_here", lambda: False),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        exec(compile(source, "a notebook", "exec"), {"__name__": "a notebook"})
    return theorems, lines
