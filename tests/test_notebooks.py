"""Every committed notebook is complete, in normal form, and reads well."""

import ast
import json
import math
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
#: What float64 and exact arithmetic leave far behind: a bound above it needs a reason.
TIGHT = 1e-9
#: The bounds above it that have one: what they are bounds of was computed in float32, or is small
#: and not zero.
LOOSE = {
    "02-masks-break-the-symmetry": [1e-6, 1e-6],  # float32
    "02-exercises": 4 * [1e-5],  # float32
    "02c-masks-and-pytorch-traps": 7 * [1e-5]
    + 2 * [1e-4],  # float32, PyTorch's traps as they are met
    "09-how-depth-scales": [1e-3],  # a norm's eps
    "11-exercises": [1e-6],  # of first order in a small step
    "12b-what-an-audit-finds": [1e-5],  # the noise of float32 is what is measured
    "12c-the-bias-folded-away": [1e-4, 1e-4],  # weights stored in float32
    # Adam's eps, twice; how small noise is beside it; a mean over a random walk
    "13-redundant-is-not-inert": [1e-8, 2e-7, 1e-3, 1e-3],
    "13-exercises": [1e-6, 1e-5, 1e-4],  # float32; Adam's eps; of first order in the decay
    "13b-the-price-of-a-large-key-bias": [1e-6],  # a difference of outputs near one
}
TRACE_OF_A_MACHINE = re.compile(r"/tmp\b|/root\b|/home\b|site-packages|\b0x[0-9a-f]{4,}")

each_notebook = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def read(path):
    return json.loads(path.read_text(encoding="utf-8"))


def cells(path, kind="code"):
    """The cells of one kind, each with its place in the notebook."""
    for number, cell in enumerate(read(path)["cells"]):
        if cell["cell_type"] == kind:
            yield number, {**cell, "source": "".join(cell["source"])}


def stored(path):
    """Every stored output: (place of its cell, the cell, the output)."""
    for number, cell in cells(path):
        for output in cell["outputs"]:
            yield number, cell, output


def words(output):
    """What an output says, its pictures aside."""
    data = output.get("data", {})
    said = [data[kind] for kind in data if not kind.startswith("image/")]
    said += [output.get("text", ""), output.get("traceback", "")]
    return "\n".join("".join(text) for text in said)


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


def is_number(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, float)


def test_there_are_notebooks():
    assert NOTEBOOKS, f"There is no notebook in {FOLDER.name}/: nothing would be tested."


@each_notebook
def test_every_code_cell_was_run_once_in_order(path):
    counts = [cell["execution_count"] for _, cell in cells(path)]
    expected = list(range(1, len(counts) + 1))
    assert counts == expected, "Restart and run all, or `make notebooks`."


@each_notebook
def test_no_code_cell_is_empty(path):
    assert [number for number, cell in cells(path) if not cell["source"].strip()] == []


@each_notebook
def test_an_error_is_stored_only_where_it_is_meant(path):
    for number, cell, output in stored(path):
        meant = "raises-exception" in cell["metadata"].get("tags", [])
        assert meant or output["output_type"] != "error", f"cell {number} failed"


@each_notebook
def test_pictures_are_png_with_alternative_text(path):
    for number, cell, output in stored(path):
        pictures = [k for k in output.get("data", {}) if k.startswith("image/")]
        alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
        assert set(pictures) <= {"image/png"}, f"cell {number} stores {pictures}"
        assert not pictures or alt.strip(), (
            f"cell {number} shows a picture without alternative text: "
            'set its metadata {"mystnb": {"image": {"alt": "…"}}}'
        )


@each_notebook
def test_nothing_is_stored_about_the_run(path):
    for number, cell in cells(path):
        assert "execution" not in cell["metadata"], f"cell {number} stores its timing"
    metadata = read(path)["metadata"]
    assert metadata["kernelspec"]["name"] == "python3"
    assert metadata["language_info"] == {"name": "python"}


@each_notebook
def test_no_output_names_a_machine(path):
    for number, _, output in stored(path):
        found = TRACE_OF_A_MACHINE.search(words(output))
        assert not found, f"the output of cell {number} holds {found[0]!r}"


@each_notebook
def test_imports_stand_in_the_first_code_cell(path):
    for number, cell in list(cells(path))[1:]:
        for node in ast.walk(ast.parse(cell["source"])):
            late = isinstance(node, ast.Import | ast.ImportFrom)
            assert not late, f"cell {number} imports: {ast.unparse(node)}"


@each_notebook
def test_code_fits_the_page(path):
    for number, cell in cells(path):
        for line in cell["source"].splitlines():
            assert len(line) <= 88, f"cell {number} has a line of {len(line)}: {line}"


@each_notebook
def test_a_tolerance_is_as_small_as_rounding_allows(path):
    bounds = sorted(bound for _, cell in cells(path) for bound in loose_bounds(cell["source"]))
    assert bounds == LOOSE.get(path.stem, []), (
        f"state a bound of at most {TIGHT}, or enter a wider one, for which there is a reason, in LOOSE"
    )
