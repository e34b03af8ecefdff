"""The live cells of every page give the stored outputs when they run without torch.

They use the browser's runner, prelude and source, but run in this Python, which is faster.
"""

import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tools.files import NOTEBOOKS as FOLDER
from tools.files import ROOT
from tools.site import live_proofs

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


def run(cells, python=sys.executable):
    """Run the cells in order in a process without torch; return the runner's results."""
    jobs = [(cell.prelude, cell.source) for cell in cells]
    # no bytecode, because everything in the runner's folder is published
    env = {"PYTHONPATH": f"{FOLDER}:{RUNNER}", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    command, given = [python, "-c", WITHOUT_TORCH], json.dumps(jobs)
    done = subprocess.run(command, input=given, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_every_cell_gives_what_the_notebook_stores(path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = live_cells(notebook)
    for cell, result in zip(cells, run(cells), strict=True):
        assert not {"error", "refusal"} & set(result), result
        outputs = notebook["cells"][cell.index]["outputs"]
        printed = "".join("".join(output.get("text", "")) for output in outputs).splitlines()
        stored = ["".join(o["data"].get("text/latex", "")) for o in outputs if "data" in o]
        said = result["printed"].splitlines()
        if cell.shortened:  # such a cell prints only some of the stored lines, in order
            rest = iter(printed)
            assert all(line in rest for line in said), result
        else:
            assert said == printed, result
            assert result.get("latex", []) == [latex.strip("$") for latex in stored if latex]


def cells_of(*sources):
    """The live cells of a notebook with these code cells."""
    return live_cells({"cells": [{"cell_type": "code", "source": source} for source in sources]})


def test_a_live_cell_has_only_what_it_needs_and_nothing_that_needs_torch():
    (cell,) = cells_of(
        "import torch\nfrom derivation import Derivation, matrix, sizes",
        "m, n = sizes('m n')\nS, T = matrix('S', m, n), 1\nunused = 2",
        "def twice(x):\n    return two * x\n\ntwo = 2\nother = torch.ones(2)",
        "print(other)\nDerivation('twice', twice(S)).by(2 * S)",
    )
    begun = [line.split()[0] for line in cell.prelude.splitlines() if re.match(r"\w", line)]
    assert begun == ["from", "m,", "S,", "def", "two"]
    assert cell.source == "Derivation('twice', twice(S)).by(2 * S)" and cell.shortened


def test_runs_of_cells_do_not_affect_each_other():
    before = "from derivation import *\nx = matrix('x', sizes('n'))\nproof = Derivation('p', x)"
    source = "Derivation\nproof.by(2 * x - x)\nprint(len(proof.lines))\nleft = 1"
    cell = cells_of(before, source)[-1]
    *twice, left = run([cell, cell, replace(cell, source="left")])
    assert [result["printed"] for result in twice] == ["2\n", "2\n"]
    assert left["error"] == "Line 1 of the cell raises NameError: name 'left' is not defined."
