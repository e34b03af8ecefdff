"""The imagined processor changes only results that real processors may round differently.

Every notebook tests that it changes them by little, and that what IEEE 754 fixes stays the same.
"""

import io
from contextlib import redirect_stdout
from pathlib import Path

from small_notebooks import nbval, written

from tests.processors.imagined import LAYOUT
from tools.files import NOTEBOOKS

MADE = "import torch\ny = (torch.arange(1200, dtype=torch.float64).view(30, 40) * 0.61) % 1 + 0.25"
DIFFERENT = (
    "torch.addmm(x[:, :1], x, x.T)",
    "x.T @ torch.ones(len(x), 1).to(x)",
    "x.sum(0)",
    "torch.nn.functional.layer_norm(x, x.shape[1:])",
    "x.clone().exp_()",
    "torch.stack(torch.std_mean(x, dim=1))",
)
THE_SAME = ("x * x.flip(0)", "x[:, :6].round() @ x[:, :6].round().T", "(8 * x).round().sum()")


def test_exactly_the_cells_that_rely_on_a_last_digit_fail(tmp_path):
    codes = [(code, dtype) for dtype in LAYOUT for code in DIFFERENT + THE_SAME]
    cells = [f"x = y.to({dtype})\nprint(({code}).tolist())" for code, dtype in codes]
    exec(MADE, names := {})
    said = []
    for cell in cells:
        with redirect_stdout(io.StringIO()) as printed:
            exec(cell, names)
        said.append(printed.getvalue())
    written(tmp_path / "some.ipynb", MADE, *cells, said=said)
    path = f"{Path(__file__).parent}:{NOTEBOOKS}"
    _, verdicts = nbval(tmp_path, PYTHONPATH=path, IMAGINED_PROCESSOR="1")
    failed = [verdicts["some", f"Cell {n}"] == "FAILED" for n in range(1 + len(cells))]
    assert failed == [False, *(code in DIFFERENT for code, _ in codes)]
