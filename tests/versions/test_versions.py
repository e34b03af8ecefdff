"""The proofs of every notebook pass on other versions of Python and SymPy, without torch.

Colab may change both versions at any time, and a copy must run on whatever it finds there.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from test_live_cells import FOLDER, live_cells, run

from tools.files import ROOT

#: (Python, SymPy): the previous minor version of SymPy, then newer Pythons with the pinned one.
PAIRS = [("3.11", "1.13.3"), ("3.12", "1.14.0"), ("3.13", "1.14.0")]


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: f"python {pair[0]}, sympy {pair[1]}")
def python(request):
    """The interpreter of an environment in which only SymPy is installed."""
    version, sympy = request.param
    managed = Path.home().glob(f".pyenv/versions/{version}*/bin/python{version}")
    found = next(managed, shutil.which(f"python{version}"))
    if not found:
        pytest.skip(f"there is no Python {version} here")
    folder = ROOT / ".venv" / f"symbolic-{version}-{sympy}"
    if not (folder / ".installed").exists():
        subprocess.run([found, "-m", "venv", "--clear", folder], check=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", f"sympy=={sympy}"]
        subprocess.run(pip, check=True)
        (folder / ".installed").touch()
    return folder / "bin" / "python"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.ipynb")), ids=lambda path: path.stem)
def test_the_proofs_of_a_notebook_pass(python, path):
    results = run(live_cells(json.loads(path.read_text(encoding="utf-8"))), python)
    assert [result for result in results if {"error", "refusal"} & set(result)] == []
