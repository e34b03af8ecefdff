"""How long the notebooks take: the suite on forked and on plain kernels, nbmake, and one script.

    python tools/bench.py                          every notebook, each way once
    python tools/bench.py --repeat 3 notebooks/0*.ipynb

The script is the floor.  It is one Python process that runs every code cell of the notebooks given,
in order, each notebook in names of its own.  What is imported, and what the book's packages
remember, is paid for once; nothing is displayed, drawn into the page or compared.

Wall time suffers from whatever else the machine does; processor time (user and system, of the run
and of all that it started) suffers less.  Both are printed, and the ratios of both to the script.
The best of the repeats counts.  All of it is written to _build/bench.json.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
import types
from pathlib import Path

from files import in_a_sentence, write

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
NBMAKE = "1.5.5"
NBMAKE_FOLDER = ROOT / ".venv" / f"nbmake-{NBMAKE}"
PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--dist=loadscope"]
NBVAL = [*PYTEST, "--nbval", "--nbval-current-env", "--nbval-cell-timeout=600"]
NBVAL += ["-p", "tests.notebook_reports"]
INLINE = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}


def ways():
    """(name, command, what it adds to the environment), the floor first."""
    forked = [*NBVAL, "-p", "tests.forkserver"]
    nbmake = {**INLINE, "PYTHONPATH": str(NBMAKE_FOLDER)}
    nbmake_command = [*PYTEST, "--nbmake", "--nbmake-timeout=600", "-n1"]
    return [
        ("one script", [sys.executable, __file__, "--script"], {"MPLBACKEND": "agg"}),
        ("suite, 1 worker", [*forked, "-n1"], INLINE),
        ("suite, 2 workers", [*forked, "-n2"], INLINE),
        ("plain kernels, 1 worker", [*NBVAL, "-n1"], INLINE),
        ("plain kernels, 2 workers", [*NBVAL, "-n2"], INLINE),
        ("nbmake, 1 worker", nbmake_command, nbmake),
    ]


def run_as_script(paths):
    """The floor: every code cell, one notebook after another, in this process."""
    os.chdir(ROOT / "notebooks")
    sys.path[0] = ""
    for path in paths:
        cells = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
        names = sys.modules["__main__"] = types.ModuleType("__main__")
        for number, cell in enumerate(cells):
            if cell["cell_type"] == "code":
                run_cell(cell, f"{path}, cell {number}", vars(names))
        if "matplotlib.pyplot" in sys.modules:
            sys.modules["matplotlib.pyplot"].close("all")


def run_cell(cell, where, names):
    try:
        exec(compile("".join(cell["source"]), where, "exec"), names)
    except Exception:
        if "raises-exception" not in cell["metadata"].get("tags", []):
            raise


def install_nbmake():
    """Into a folder of its own: the book does not use it, so no other command sees it."""
    if not NBMAKE_FOLDER.exists():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        target = ["--no-deps", "--target", str(NBMAKE_FOLDER), f"nbmake=={NBMAKE}"]
        subprocess.run([*pip, *target], check=True)


def measure(command, additions, paths):
    """Wall and processor seconds of one run; a run that fails or forks nothing counts for nothing."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **additions}
    environment["IPYTHONDIR"] = str(ROOT / ".venv" / "ipython")
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [*command, *paths], cwd=ROOT, env=environment, text=True, capture_output=True
    )
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode or "Plain kernels, not forked ones" in done.stdout:
        sys.exit(f"\n{done.stdout[-3000:]}{done.stderr[-3000:]}\nThis way failed: {command}")
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return {"wall": round(wall, 2), "processor": round(cpu, 2)}


def best(runs):
    return {kind: min(run[kind] for run in runs) for kind in runs[0]}


def table(results):
    """The best of each way, and its ratios to the first."""
    floor = best(next(iter(results.values())))
    lines = [f"{'':26}{'wall':>9}{'ratio':>8}{'processor':>12}{'ratio':>8}"]
    for name, runs in results.items():
        took = best(runs)
        ratios = {kind: took[kind] / floor[kind] for kind in took}
        lines.append(
            f"{name:26}{took['wall']:>7.1f} s{ratios['wall']:>8.2f}"
            f"{took['processor']:>10.1f} s{ratios['processor']:>8.2f}"
        )
    return "\n".join(lines)


@in_a_sentence
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("notebooks", nargs="*", help="all of them, if none is named")
    parser.add_argument("--repeat", type=int, default=1, help="how often each way is run")
    parser.add_argument("--only", action="append", help="a way, by the start of its name")
    parser.add_argument("--script", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    found = options.notebooks or sorted(map(str, (ROOT / "notebooks").glob("*.ipynb")))
    paths = [str(Path(each).resolve()) for each in found]
    if options.script:
        return run_as_script(paths)

    only = tuple(options.only or ("",))
    chosen = [way for way in ways() if way[0].startswith(("one script", *only))]
    if any(name.startswith("nbmake") for name, *_ in chosen):
        install_nbmake()
    results = {name: [] for name, *_ in chosen}
    for _ in range(options.repeat):
        for name, command, additions in chosen:
            print(f"{name} …", end=" ", flush=True)
            results[name].append(measure(command, additions, paths))
            print("{wall:.1f} s, processor {processor:.1f} s".format(**results[name][-1]))

    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.platform()}"
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    print(f"\n{len(paths)} notebooks; {machine}; load at the end: {load}\n\n{table(results)}")
    record = {"machine": machine, "load": load, "notebooks": len(paths), "runs": results}
    BUILD.mkdir(exist_ok=True)
    write(BUILD / "bench.json", json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
