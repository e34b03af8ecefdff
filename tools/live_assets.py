"""Gather what the live proofs load: Pyodide, SymPy and the checker, into `.venv/live/site`.

    python tools/live_assets.py

Pyodide comes from npm, at the version that `tools/live/package-lock.json` pins; SymPy and
mpmath are those of this environment.  All Python code is compiled once, here.  What is
there already and has not changed is left alone.  Where npm or its registry is missing, one
line says that the live proofs are left out, and the book is built without them.
"""

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "tools" / "live"
CHECKER = ROOT / "notebooks" / "derivation"
LIVE = ROOT / ".venv" / "live"
SITE = LIVE / "site"  # the extension `live_proofs` copies it into the book
PYODIDE = LIVE / "node_modules" / "pyodide"

FROM_PYODIDE = ("pyodide.mjs", "pyodide.asm.mjs", "pyodide.asm.wasm")
NEEDS_TORCH = ("checks.py",)
#: Parts of SymPy that neither its core nor the checker ever imports: a third of its size.
LEFT_OUT = {
    "tests", "benchmarks", "__pycache__", "biomechanics", "categories", "continuum_mechanics",
    "control", "crypto", "diffgeom", "hep", "holonomic", "liealgebras", "mechanics", "optics",
    "quantum", "sandbox", "stats", "testing",
}  # fmt: skip
NOTICE = """\
The files here run Python in the reader's browser. Each stands under its own licence:
Pyodide {pyodide}: Mozilla Public License 2.0, https://github.com/pyodide/pyodide
Python and its standard library: PSF License, https://docs.python.org/3/license.html
SymPy {sympy} and mpmath {mpmath}: BSD License, their texts are in libraries.zip
"""


class LeftOut(Exception):
    """Why there are no live proofs in this build."""


def main():
    try:
        install_pyodide()
        gather()
    except LeftOut as reason:
        shutil.rmtree(SITE, ignore_errors=True)
        print(f"Live proofs are left out: {reason}.")


def install_pyodide():
    """`npm ci` in `.venv/live`, unless what it would install is there."""
    npm = shutil.which("npm")
    if npm is None:
        raise LeftOut("npm is not installed")
    key, stamp = digest(SOURCE / "package-lock.json"), LIVE / "node_modules" / ".installed"
    if stamp.is_file() and stamp.read_text() == key:
        return
    LIVE.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCE / name, LIVE)
    quietly = ("--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1")
    run([npm, "ci", *quietly], "npm could not install Pyodide")
    stamp.write_text(key)


def gather():
    """The site folder, each archive made anew where its sources have changed."""
    SITE.mkdir(parents=True, exist_ok=True)
    shutil.copy(SOURCE / "precompile.mjs", LIVE)  # beside node_modules, where it finds Pyodide
    for name in FROM_PYODIDE:
        shutil.copy(PYODIDE / name, SITE)
    lock = json.loads((PYODIDE / "pyodide-lock.json").read_text())
    lock["packages"] = {}  # those that it lists are not here: nothing can be fetched
    (SITE / "pyodide-lock.json").write_text(json.dumps(lock))
    versions = {name: version(name) for name in ("sympy", "mpmath")}
    versions["pyodide"] = json.loads((PYODIDE / "package.json").read_text())["version"]
    (SITE / "LICENCES.txt").write_text(NOTICE.format(**versions))
    key = f"{versions} {digest(SOURCE / 'precompile.mjs')} {digest(Path(__file__))}"
    checker = sorted(set(CHECKER.rglob("*.py")) - {CHECKER / name for name in NEEDS_TORCH})
    archive("python_stdlib.zip", key, partial(shutil.copy, PYODIDE / "python_stdlib.zip"))
    archive("libraries.zip", key, zip_libraries)
    key += f" {[*map(digest, checker)]}"
    archive("checker.zip", key, lambda to: zip_files(to, checker, CHECKER.parent))


def archive(name, key, collect):
    """An archive of compiled files in the site folder, unless it was made with this key."""
    stamp, sources = LIVE / f"{name}.key", LIVE / name
    if (SITE / name).is_file() and stamp.is_file() and stamp.read_text() == key:
        return
    stamp.unlink(missing_ok=True)  # until the archive is whole: this may be interrupted
    print(f"Compiling {name} for the live proofs, once …", flush=True)
    collect(sources)
    command = [shutil.which("node") or "node", "precompile.mjs", sources, SITE / name]
    run(command, "node could not compile the Python files")
    stamp.write_text(key)


def zip_libraries(target):
    """SymPy and mpmath as this environment has them, and their licences."""
    files = []
    for package in ("sympy", "mpmath"):
        folder = Path(find_spec(package).origin).parent
        sources = sorted(folder.rglob("*.py"))
        files += [p for p in sources if not LEFT_OUT & set(p.relative_to(folder).parts)]
        files += sorted(folder.parent.glob(f"{package}-*.dist-info/**/LICENSE*"))
    zip_files(target, files, folder.parent)


def zip_files(target, files, root):
    with zipfile.ZipFile(target, "w") as archive:
        for path in files:
            archive.write(path, path.relative_to(root))


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run(command, failure):
    """Run a command in `.venv/live`; its first line of complaint becomes the reason."""
    try:
        done = subprocess.run(command, cwd=LIVE, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LeftOut(f"{failure} ({error})") from None
    if done.returncode:
        complaints = [line for line in done.stderr.splitlines() if "rror" in line]
        raise LeftOut(f"{failure} ({(complaints or ['no reason given'])[0].strip()})")


if __name__ == "__main__":
    sys.exit(main())
