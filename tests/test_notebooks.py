"""Every committed notebook is complete, in normal form, and reads well."""

import ast
import math
import re
from functools import cache

import nbformat
import pytest

from tools.files import NOTEBOOKS

PATHS = sorted(NOTEBOOKS.glob("*.ipynb"))
#: A bound that errors in float64 easily meet; a larger bound needs a reason.
TIGHT = 1e-9
#: Larger bounds, with their reasons: they bound errors in float32, or small numbers other than
#: rounding errors.
LOOSE = {
    "02-exercises": 4 * [1e-5],  # float32
    "02c-masks-and-pytorch-traps": 7 * [1e-5] + 2 * [1e-4],  # float32, as in users' code
    "09-how-depth-scales": [1e-3],  # a norm's eps
    "11-exercises": [1e-6],  # proportional to a small step
    "14-the-bias-folded-away": [1e-4],  # weights stored in float32
    "15-redundant-is-not-inert": [1e-3],  # a random walk in float32
    "15-exercises": [1e-6, 1e-5, 1e-4],  # float32; Adam's eps; proportional to the decay
    "15b-the-price-of-a-large-key-bias": [1e-6],  # a difference between outputs near 1
}
TRACE_OF_A_MACHINE = re.compile(r"/tmp\b|/root\b|/home\b|site-packages|\b0x[0-9a-f]{4,}")

each_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
is_number = lambda node: isinstance(node, ast.Constant) and isinstance(node.value, float)


@cache
def cells(path):
    """(place in the notebook, cell) for each code cell."""
    notebook = nbformat.read(path, as_version=4)
    return [(n, cell) for n, cell in enumerate(notebook.cells) if cell.cell_type == "code"]


def loose_bounds(source):
    """The tolerances in a piece of code that are wider than TIGHT, in order of size."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            terms = [node.left, *node.comparators]
            for operator, left, right in zip(node.ops, terms, terms[1:]):
                if isinstance(operator, ast.Gt | ast.GtE):
                    left, right = right, left
                if not isinstance(operator, ast.Eq | ast.NotEq) and not is_number(left):
                    of_error = isinstance(left, ast.Call) and ast.unparse(left.func) == "error"
                    found += [(right, math.inf if of_error else 1e-2)]
        elif isinstance(node, ast.keyword) and node.arg in ("atol", "rtol"):
            found += [(node.value, math.inf)]
    return sorted(n.value for n, most in found if is_number(n) and TIGHT < n.value <= most)


@each_notebook
def test_code_was_run_once_in_order_fits_the_page_and_imports_at_the_top(path):
    for count, (number, cell) in enumerate(cells(path), 1):
        assert cell.execution_count == count, "Restart and run all, or `make notebooks`."
        assert cell.source.strip(), f"cell {number} is empty"
        for line in cell.source.splitlines():
            assert len(line) <= 88, f"cell {number} has a line of {len(line)}: {line}"
        for node in ast.walk(ast.parse(cell.source)):
            late = count > 1 and isinstance(node, ast.Import | ast.ImportFrom)
            assert not late, f"cell {number} imports: {ast.unparse(node)}"


@each_notebook
def test_stored_outputs_are_complete_and_free_of_machine_traces(path):
    for number, cell in cells(path):
        assert "execution" not in cell.metadata, f"cell {number} stores its timing"
        meant = "raises-exception" in cell.metadata.get("tags", [])
        alt = cell.metadata.get("mystnb", {}).get("image", {}).get("alt", "")
        for output in cell.outputs:
            assert meant or output.output_type != "error", f"cell {number} failed"
            kinds = dict(output.get("data", {}))
            picture = kinds.pop("image/png", "")
            assert "image/" not in str([*kinds]), f"cell {number} stores {[*kinds]}"
            assert not picture or alt.strip(), (
                f"cell {number} shows a picture without alternative text: "
                'set its metadata {"mystnb": {"image": {"alt": "…"}}}'
            )
            for said in [*kinds.values(), output.get("text", ""), *output.get("traceback", [])]:
                found = TRACE_OF_A_MACHINE.search(str(said))
                assert not found, f"the output of cell {number} holds {found[0]!r}"
    metadata = nbformat.read(path, as_version=4).metadata
    assert metadata.kernelspec.name == "python3" and metadata.language_info == {"name": "python"}


@each_notebook
def test_a_tolerance_is_as_small_as_rounding_allows(path):
    bounds = sorted(bound for _, cell in cells(path) for bound in loose_bounds(cell.source))
    assert bounds == LOOSE.get(path.stem, []), (
        f"state a bound of at most {TIGHT}, or enter a wider one, for which there is a reason, in LOOSE"
    )
