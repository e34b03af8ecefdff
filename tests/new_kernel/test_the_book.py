"""Every proof and every refusal in the notebooks, with the new kernel in the checker's place."""

import contextlib
import io
import json
from pathlib import Path

import pytest
from live_proofs import live_cells

from .by_the_kernel import every_line

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
#: Cells that show a refusal of what the kernel takes: that a mask's letter is its own square.
TAKEN_NOW = {("00-how-this-book-proves-things", 19)}


def cells():
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        for cell in live_cells(json.loads(path.read_text(encoding="utf-8"))):
            yield pytest.param(path.stem, cell, id=f"{path.stem}-{cell.index}")


@pytest.mark.parametrize("notebook, cell", [*cells()])
def test_the_kernel_proves_it(notebook, cell):
    source = "\n".join([*[s.source for s in cell.prelude], cell.source])
    run = compile(source, notebook, "exec")
    with every_line(), contextlib.redirect_stdout(io.StringIO()):
        if (notebook, cell.index) not in TAKEN_NOW:
            exec(run, {"__name__": notebook})
            return
        with pytest.raises(AssertionError, match="accepted what it should refuse"):
            exec(run, {"__name__": notebook})


def test_the_kernel_was_asked(monkeypatch):
    """A control: with a kernel that refuses every line, a proof does not pass."""
    from . import justify
    from .kernel.rules import Differ

    def refuse(*_):
        raise Differ("refused")

    monkeypatch.setattr(justify, "line", refuse)
    from derivation import Derivation, ProofError, identity, permutation, sizes

    P = permutation("Π", sizes("n"))
    with every_line(), pytest.raises(ProofError, match="not justified"):
        Derivation("undone", P.T @ P).by(identity(sizes("n")))
