"""The checker proves again, from empty caches, what the cells of the notebooks prove."""

import pytest
from cell_proofs import proof_cells, proved_by

CELLS = [pytest.param(cell, id=f"{notebook}-{cell.index}") for notebook, cell in proof_cells()]


@pytest.mark.parametrize("cell", CELLS)
def test_the_checker_proves_the_cell_again(cell):
    theorems, lines = proved_by(cell)  # raises ProofError for a line that is not justified
    assert not theorems or lines
