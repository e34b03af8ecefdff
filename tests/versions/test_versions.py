"""The symbolic part of every notebook, on other versions of Python and of SymPy, without torch.

Colab changes both without asking: a copy has to run on what it finds there.
"""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from files import ROOT
from live_proofs import live_cells

FOLDER, RUNNER = ROOT / "notebooks", ROOT / "book" / "static" / "live"
#: Newer interpreters with the SymPy that is pinned, and the minor version before it.
PAIRS = [("3.11", "1.13.3"), ("3.12", "1.14.0"), ("3.13", "1.14.0")]

EACH = """
import json, sys
from runner import run
for prelude, source in json.load(sys.stdin):
    result = json.loads(run(prelude, source))
    print(json.dumps(result.get("error") or result.get("refusal") or ""), flush=True)
"""

#: The cells of each notebook that a reader can edit and run: its symbolic part.  An audit has none.
LIVE = {
    path.stem: [("\n".join(s.source for s in cell.prelude), cell.source) for cell in cells]
    for path in sorted(FOLDER.glob("*.ipynb"))
    if (cells := list(live_cells(json.loads(path.read_text(encoding="utf-8")))))
}


@pytest.fixture(scope="module", params=PAIRS, ids=lambda pair: f"python {pair[0]}, sympy {pair[1]}")
def python(request):
    """An environment that holds SymPy and nothing else."""
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


def test_nearly_all_notebooks_have_proofs():
    assert len(LIVE) > 0.9 * len([*FOLDER.glob("*.ipynb")])


@pytest.mark.parametrize("name", LIVE)
def test_its_proofs_pass(python, name):
    env = {"PYTHONPATH": f"{FOLDER}:{RUNNER}", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [python, "-c", EACH], input=json.dumps(LIVE[name]), capture_output=True, text=True, env=env
    )
    assert done.returncode == 0, done.stderr[-2000:]
    faults = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(faults) == len(LIVE[name])
    assert not any(faults), "\n".join(filter(None, faults))
