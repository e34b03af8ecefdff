"""The live cells of every page give the stored outputs when they run without torch.

They use the browser's runner, prelude and source, but run in this Python, which is faster.
"""

import json
import subprocess
import sys

import pytest

from tools.files import NOTEBOOKS as FOLDER
from tools.files import ROOT
from tools.site.live_proofs import live_cells

RUNNER = ROOT / "book" / "static" / "live"

WITHOUT_TORCH = """
import json, sys
for absent in ("torch", "matplotlib", "numpy"):
    sys.modules[absent] = None  # importing it now fails
from runner import run
print(json.dumps([json.loads(run(prelude, source)) for prelude, source in json.load(sys.stdin)]))
"""


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
    cells = list(live_cells(notebook))
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
