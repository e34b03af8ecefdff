"""What the page takes from a notebook for its live cells, run without torch as a browser would.

The same runner, prelude and source as in the browser, in this Python: that is much faster.
"""

import json
import subprocess
import sys
from dataclasses import replace
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


def disagreements(notebook, cells, results):
    """The cells whose run does not give what is stored, the lines apart that need torch."""
    assert len(cells) == len(results)
    for cell, result in zip(cells, results):
        outputs = notebook["cells"][cell.index]["outputs"]
        printed = "".join("".join(output.get("text", "")) for output in outputs).splitlines()
        shown = [
            "".join(o["data"].get("text/latex", "")).strip("$") for o in outputs if "data" in o
        ]
        said = result["printed"].splitlines()
        if cell.shortened:  # what is left of it prints some of the stored lines, in their order
            rest = iter(printed)
            same = all(line in rest for line in said)
        else:
            same = said == printed and result.get("latex", "") in (shown or [""])
        if not same or {"error", "refusal"} & set(result):
            yield f"cell {cell.index}: {result}"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_cell_gives_what_the_notebook_stores(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = live_cells(notebook)
    assert not [*disagreements(notebook, cells, run(cells))]


def cells_of(*sources):
    """The live cells of a notebook with a title and these cells of code."""
    code = [{"cell_type": "code", "source": source} for source in sources]
    return live_cells({"cells": [{"cell_type": "markdown", "source": "# a title"}, *code]})


def test_a_cell_brings_what_it_needs_and_no_more():
    (cell,) = cells_of(
        "import torch\nfrom derivation import Derivation, matrix, sizes",
        "m, n = sizes('m n')\nS, T = matrix('S', m, n), 1\nunused = 2",
        "def twice(x):\n    return two * x\n\ntwo = 2",
        "Derivation('twice', twice(S)).by(2 * S)",
    )
    assert cell.index == 4 and not cell.shortened
    assert [s.source.split()[0] for s in cell.prelude] == ["from", "m,", "S,", "def", "two"]


def test_lines_that_need_torch_are_left_out():
    (cell,) = cells_of(
        "import torch\nfrom derivation import *",
        "x = torch.ones(2)\n\nprint(counterexample(S, T))\ny = x + 1\n",
    )
    assert cell.source == "print(counterexample(S, T))" and cell.shortened


@pytest.mark.parametrize(
    "sources",
    [
        (
            "from derivation import *\nimport warnings",
            "with warnings.catch_warnings():\n    from transformers import GPT2Config",
            "counterexample(S, GPT2Config)",
        ),
        (
            "from derivation import counterexample\nfrom derivation.checks import error, judge",
            "judge(counterexample, lambda t: error(t))",
        ),
    ],
    ids=["an import inside a block", "a check"],
)
def test_a_cell_that_is_about_torch_is_not_live(sources):
    assert not cells_of(*sources)


def test_a_proof_continued_in_another_cell_comes_whole_and_without_those_before_it():
    *_, last = cells_of(
        "from derivation import *\nS = 1",
        "Derivation('first', S).by(S)",
        "second = Derivation('second', S).by(S)",
        "proof = Derivation('p', S)",
        "proof.by(S, note='one')",
        "Derivation.__name__\nproof",
    )
    assert [s.source[:8] for s in last.prelude] == ["from der", "S = 1", "proof = ", "proof.by"]


def test_a_run_leaves_nothing_to_the_next():
    before = "from derivation import *\nx = matrix('x', sizes('n'))\nproof = Derivation('p', x)"
    cell = cells_of(before, "Derivation\nproof.by(2 * x - x)\nprint(len(proof.lines))\nleft = 1")[
        -1
    ]
    *twice, left = run([cell, cell, replace(cell, source="left")])
    assert [result["printed"] for result in twice] == ["2\n", "2\n"]
    assert "NameError" in left["error"]
