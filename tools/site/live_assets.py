"""Collect what the live proofs load: Pyodide, SymPy and the checker, in `.venv/live/site`.

Pyodide comes from npm, in the version that `tools/site/live/package-lock.json` pins; SymPy and mpmath
come from this environment.  All Python code is compiled here; an archive whose files have not
changed is not compiled again.  If npm or its registry is missing, one line says that the live
proofs are left out, and the book is built without them.
"""

import json
import shutil
import subprocess
import zipfile
from importlib.metadata import distribution
from io import BytesIO
from pathlib import Path

from tools.files import ROOT, Fault, demand

SOURCE = Path(__file__).with_name("live")
CHECKER = ROOT / "notebooks" / "derivation"
LIVE = ROOT / ".venv" / "live"
SITE = LIVE / "site"  # the extension `live_proofs` copies it into the book
PYODIDE = LIVE / "node_modules" / "pyodide"

OURS = ("package.json", "package-lock.json", "precompile.mjs")
FROM_PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm")
NEEDS_TORCH = "checks.py"
#: Parts of SymPy that neither its core nor the checker imports; they are a third of its size.
LEFT_OUT = {
    "tests", "benchmarks", "biomechanics", "categories", "continuum_mechanics", "control",
    "crypto", "diffgeom", "hep", "holonomic", "liealgebras", "mechanics", "optics", "quantum",
    "sandbox", "stats", "testing",
}  # fmt: skip
NOTICE = """\
The files here run Python in the reader's browser. Each stands under its own licence:
Pyodide: Mozilla Public License 2.0, https://github.com/pyodide/pyodide
Python and its standard library: PSF License, https://docs.python.org/3/license.html
SymPy and mpmath: BSD License, their texts are in libraries.zip
"""


def main():
    try:
        install_pyodide()
        gather()
    except Fault as reason:
        shutil.rmtree(SITE, ignore_errors=True)
        print(f"Live proofs are left out: {reason}")


def install_pyodide():
    """Run `npm ci` in `.venv/live`, unless it has already run with the same files."""
    if all(kept(LIVE / name) == (SOURCE / name).read_bytes() for name in OURS):
        return
    shutil.rmtree(LIVE, ignore_errors=True)
    shutil.copytree(SOURCE, LIVE, ignore=shutil.ignore_patterns("precompile.mjs"))
    run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1")
    shutil.copy(SOURCE / "precompile.mjs", LIVE)  # copied last, to show that the rest is complete


def kept(path):
    """The bytes of a file, or None if there is no such file."""
    return path.read_bytes() if path.is_file() else None


def gather():
    SITE.mkdir(exist_ok=True)
    for name in FROM_PYODIDE:
        shutil.copy(PYODIDE / name, SITE)
    lock = json.loads((PYODIDE / "pyodide-lock.json").read_text())
    lock["packages"] = {}  # or Pyodide would try to fetch packages that are not here
    (SITE / "pyodide-lock.json").write_text(json.dumps(lock))
    (SITE / "LICENCES.txt").write_text(NOTICE)
    compiled("python_stdlib.zip", (PYODIDE / "python_stdlib.zip").read_bytes())
    compiled("libraries.zip", zipped(files_of("sympy") | files_of("mpmath")))
    checker = {p.relative_to(CHECKER.parent): p for p in CHECKER.rglob("*.py")}
    compiled("checker.zip", zipped({n: p for n, p in checker.items() if n.name != NEEDS_TORCH}))


def files_of(package):
    """{name: path} of the Python files and the licence of an installed package."""
    files = distribution(package).files
    return {
        file: file.locate()
        for file in files
        if "LICENSE" in file.name or (file.suffix == ".py" and not LEFT_OUT & set(file.parts))
    }


def zipped(files):
    """An archive of the files {name: path}; equal contents give equal bytes."""
    made = BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, path in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(str(name)), path.read_bytes())
    return made.getvalue()


def compiled(name, sources):
    """Compile the Python files of an archive for the site, if they have changed."""
    if kept(LIVE / name) != sources or not (SITE / name).is_file():
        print(f"Compiling {name} for the live proofs, once …", flush=True)
        (LIVE / "sources.zip").write_bytes(sources)
        run("node", "precompile.mjs", "sources.zip", SITE / name)
        (LIVE / name).write_bytes(sources)  # written last, in case of an interruption


def run(command, *arguments):
    """Run a command in `.venv/live`; raises a Fault with the first line that reports an error."""
    demand(shutil.which(command), f"{command} is not installed")
    done = subprocess.run([command, *arguments], cwd=LIVE, capture_output=True, text=True)
    complaints = [line.strip() for line in done.stderr.splitlines() if "rror" in line]
    demand(not done.returncode, f"{command} failed ({[*complaints, 'no reason given'][0]})")
