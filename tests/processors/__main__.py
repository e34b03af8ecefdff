"""Run notebooks and tests as other processors would; at the end, which cells print something else?

    python -m tests.processors --seeds 1 2 3 --variants avx2 no-avx two-threads -- notebooks/*.ipynb

Processors of two kinds: imagined ones, one for each seed (``other_processor``), and what torch
offers on the one that is here: older instructions, two threads.  `make test` is one thread.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.last_lines import VARIABLE, good, read

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NBVAL = ["--nbval", "--nbval-current-env", "--nbval-cell-timeout=1200", "-p", "no:cacheprovider"]
NBVAL += ["-p", "tests.forkserver", "-p", "tests.notebook_reports", "-p", "tests.last_lines"]
NBVAL += ["-p", "tests.processors.in_tests"]
SEED = "IMAGINED_PROCESSOR"

#: torch's own kernels, MKL's, oneDNN's and those of NumPy's OpenBLAS each choose for themselves.
VARIANTS = {
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "no-avx": {
        "ATEN_CPU_CAPABILITY": "default",
        "MKL_ENABLE_INSTRUCTIONS": "SSE4_2",
        "ONEDNN_MAX_CPU_ISA": "SSE41",
        "OPENBLAS_CORETYPE": "Nehalem",
    },
    "two-threads": {"OMP_NUM_THREADS": "2"},
}
#: What torch says of itself where a variant is in force.
SAYS = (
    "import torch; print(torch.backends.cpu.get_cpu_capability().lower(), torch.get_num_threads())"
)
IN_FORCE = {"avx2": "avx2 1", "no-avx": "default 1", "two-threads": " 2"}


def imagined(seed):
    """The environment in which kernels, and the processes they start, are an imagined processor."""
    return {
        SEED: str(seed),
        "PYTHONSTARTUP": str(HERE / "start_up.py"),
        "PYTHONPATH": str(HERE / "ranks"),
    }


def in_force(variant):
    """Whether the processor that is here can be that variant of itself."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | VARIANTS[variant]
    said = subprocess.check_output([sys.executable, "-c", SAYS], env=environment, text=True)
    return IN_FORCE[variant] in said


def outcome(environment, paths, workers):
    """What pytest finds of these notebooks and tests, with this in the environment."""
    command = [sys.executable, "-m", "pytest", "-n", str(workers), "--dist", "loadscope"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "outcome.json"
        environment = {**os.environ, **environment, VARIABLE: str(path)}
        subprocess.run([*command, *NBVAL, *paths], cwd=ROOT, env=environment, check=False)
        return read(path)


def verdict(name, found):
    """What to say of one processor."""
    if found is None:
        yield f"{name}: the run ended before its last cell"
        return
    cells = {}
    for test, why in found["failed"]:
        notebook, _, cell = test.partition("::")
        cells.setdefault(notebook, []).append(f"{cell} ({why})")
    number = sum(map(len, cells.values()))
    yield f"{name}: {len(found['passed'])} as stored or stated" + (
        f", {number} not" if number else ""
    )
    for notebook, which in cells.items():
        yield f"    {Path(notebook).name}: {', '.join(which)}"
    if not number and not good(found):
        yield f"    and the run stopped early (status {found['status']} of pytest)"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="make test-processors", description=__doc__)
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3])
    parser.add_argument("--variants", nargs="*", choices=[*VARIANTS], default=[*VARIANTS])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("paths", nargs="+", help="notebooks, and files of tests")
    options = parser.parse_args(arguments)

    processors = {f"imagined processor {seed}": imagined(seed) for seed in options.seeds}
    here = [variant for variant in options.variants if in_force(variant)]
    processors |= {variant: VARIANTS[variant] for variant in here}
    found = {}
    for name, environment in processors.items():
        print(f"\n── {name} ──", flush=True)
        found[name] = outcome(environment, options.paths, options.workers)

    print()
    for name, each in found.items():
        print("\n".join(verdict(name, each)))
    for variant in set(options.variants) - set(here):
        print(f"{variant}: not on this processor")
    return 0 if found and all(map(good, found.values())) else 1


if __name__ == "__main__":
    sys.exit(main())
