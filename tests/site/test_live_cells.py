"""What the page takes from a notebook for its live cells, run without torch as a browser would.

The same runner, prelude and source as in the browser, in this Python: that is much faster.
"""

import json
import subprocess
import sys
from pathlib import Path

import live_proofs
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "notebooks"
RUNNER = ROOT / "book" / "static" / "live"

WITHOUT_TORCH = """
import json, sys
for absent in ("torch", "matplotlib", "numpy"):
    sys.modules[absent] = None  # importing it now fails
from runner import run
print(json.dumps([json.loads(run(prelude, source)) for prelude, source in json.load(sys.stdin)]))
"""


def live_cells(notebook):
    return list(live_proofs.live_cells(notebook))


def run(cells):
    """What the runner makes of the cells, one after the other, where there is no torch."""
    jobs = [("\n".join(s.source for s in cell.prelude), cell.source) for cell in cells]
    # no compiled copy of the runner: its folder is published as it is
    env = {"PYTHONPATH": f"{FOLDER}:{RUNNER}", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH], input=json.dumps(jobs), capture_output=True,
        text=True, timeout=300, env=env,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def agree(cell, stored, result):
    """Whether a run gives what is stored, the lines apart that need torch."""
    streams = [o for o in stored["outputs"] if o["output_type"] == "stream"]
    printed = "".join("".join(output["text"]) for output in streams).splitlines()
    shown = [output["data"] for output in stored["outputs"] if "data" in output]
    latex = ["".join(data.get("text/latex", "")).strip("$") for data in shown]
    if "error" in result or "refusal" in result:
        return False
    if cell.shortened:  # what is left of it prints some of the stored lines, in their order
        rest = iter(printed)
        return all(line in rest for line in result["printed"].splitlines())
    return result["printed"].splitlines() == printed and result.get("latex", "") in (latex or [""])


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_cell_gives_what_the_notebook_stores(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = live_cells(notebook)
    for cell, result in zip(cells, run(cells)):
        assert agree(cell, notebook["cells"][cell.index], result), f"cell {cell.index}: {result}"


def notebook(*sources):
    cells = [{"cell_type": "code", "source": source} for source in sources]
    return {"cells": [{"cell_type": "markdown", "source": "# a title"}, *cells]}


def sources(cell):
    return [statement.source for statement in cell.prelude]


def test_a_cell_brings_what_it_needs_and_no_more():
    (cell,) = live_cells(
        notebook(
            "import torch\nfrom derivation import Derivation, matrix, sizes",
            "m, n = sizes('m n')\nS, T = matrix('S', m, n), 1\nunused = 2",
            "def twice(x):\n    return two * x\n\ntwo = 2",
            "Derivation('twice', twice(S)).by(2 * S)",
        )
    )
    assert cell.index == 4 and not cell.shortened
    assert [text.split()[0] for text in sources(cell)] == ["from", "m,", "S,", "def", "two"]


def test_lines_that_need_torch_are_left_out():
    (cell,) = live_cells(
        notebook(
            "import torch\nfrom derivation import *",
            "x = torch.ones(2)\n\nprint(counterexample(S, T))\ny = x + 1\n",
        )
    )
    assert cell.source == "print(counterexample(S, T))" and cell.shortened


def test_an_import_inside_a_block_counts():
    first = "from derivation import *\nimport warnings"
    second = "with warnings.catch_warnings():\n    from transformers import GPT2Config"
    assert not live_cells(notebook(first, second, "counterexample(S, GPT2Config)"))


def test_a_cell_that_is_about_torch_is_not_live():
    check = "judge(counterexample, lambda t: error(t))"
    first = "from derivation import counterexample\nfrom derivation.checks import error, judge"
    assert not live_cells(notebook(first, check))


def test_a_proof_continued_in_another_cell_comes_whole():
    cells = live_cells(
        notebook(
            "from derivation import *\nS = 1",
            "proof = Derivation('p', S)",
            "proof.by(S, note='one')",
            "Derivation.__name__\nproof",
        )
    )
    assert "proof.by(S, note='one')" in sources(cells[-1])


def test_a_proof_does_not_bring_the_proofs_before_it():
    cells = live_cells(
        notebook(
            "from derivation import *\nS = 1",
            "Derivation('first', S).by(S)",
            "second = Derivation('second', S).by(S)",
            "Derivation('third', S).by(S)",
        )
    )
    assert [len(cell.prelude) for cell in cells] == [2, 2, 2]


def test_a_run_leaves_nothing_to_the_next():
    before = "from derivation import *\nx = matrix('x', sizes('n'))\nproof = Derivation('p', x)"
    cells = live_cells(notebook(before, "Derivation\nproof.by(2 * x - x)\nprint(len(proof.lines))"))
    results = run(cells[-1:] * 2)
    assert [result["printed"] for result in results] == ["2\n", "2\n"]
