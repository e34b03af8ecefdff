"""Run notebooks and tests as other processors would: does each cell print what is stored?

    python -m tests.processors --seeds 1 2 3 --variants avx2 no-avx two-threads -- notebooks/*.ipynb

Processors of two kinds: imagined ones, one for each seed (``imagined``), and what torch offers on
the one that is here: older instructions, two threads.  `make test` is one thread.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
START = ROOT / "tests" / "processors" / "start"
NBVAL = [
    sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadscope", "--nbval",
    "--nbval-current-env", "--nbval-cell-timeout=1200", "-p", "no:cacheprovider",
    "-p", "tests.notebook_kernels", "-p", "tests.processors.__main__",
]  # fmt: skip

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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Tests, too, run on the imagined processor; of a cell it is the kernel that does."""
    if "IMAGINED_PROCESSOR" not in os.environ or not isinstance(item, pytest.Function):
        return (yield)
    from .imagined import OtherProcessor

    with OtherProcessor(int(os.environ["IMAGINED_PROCESSOR"])):
        return (yield)


def imagined(seed):
    """The environment in which kernels, and the processes they start, are an imagined processor."""
    return {
        "IMAGINED_PROCESSOR": str(seed),
        "PYTHONSTARTUP": str(START / "sitecustomize.py"),
        "PYTHONPATH": str(START),
    }


def in_force(variant):
    """Whether the processor that is here can be that variant of itself."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"} | VARIANTS[variant]
    said = subprocess.check_output([sys.executable, "-c", SAYS], env=environment, text=True)
    return IN_FORCE[variant] in said


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.processors", description=__doc__)
    parser.add_argument("--seeds", nargs="*", type=int, default=[1, 2, 3])
    parser.add_argument("--variants", nargs="*", choices=[*VARIANTS], default=[*VARIANTS])
    parser.add_argument("paths", nargs="*", default=with_torch(), help="notebooks and tests")
    options = parser.parse_args()
    processors = {f"imagined processor {seed}": imagined(seed) for seed in options.seeds}
    processors |= {variant: VARIANTS[variant] for variant in options.variants}
    told, failed = [], False
    for name, environment in processors.items():
        if name in VARIANTS and not in_force(name):
            told.append(f"{name}: not on this processor")
            continue
        print(f"\n── {name} ──", flush=True)
        done = subprocess.run([*NBVAL, *options.paths], cwd=ROOT, env=os.environ | environment)
        told.append(f"{name}: {'as stored and stated' if done.returncode == 0 else 'DIFFERS'}")
        failed |= done.returncode != 0
    print("", *told, sep="\n")
    return int(failed)


def with_torch():
    """Every notebook, and the tests that have torch in them."""
    tests = sorted(
        path
        for folder in (".", "derivation", "redundancy")
        for path in (ROOT / "tests" / folder).glob("test_*.py")
    )
    found = [path for path in tests if re.search("^import torch", path.read_text(), re.M)]
    return [str(path.relative_to(ROOT)) for path in [ROOT / "notebooks", *found]]


if __name__ == "__main__":
    sys.exit(main())
