"""Run what is too long for every change, stage by stage, and say what each took.

    make nightly                      # all of it: hours
    make nightly ONLY="fuzz judge"    # some stages

Each stage is a command that can be given by itself; a stage that fails does not stop the others.
"""

import os
import shlex
import subprocess
import sys
import time

from files import ROOT

PYTHON = shlex.quote(sys.executable)
PYTEST = f"{PYTHON} -m pytest -n 2 -rs"
NBVAL = f"{PYTEST} --dist loadscope --nbval --nbval-current-env -p tests.notebook_kernels"
TESTS = shlex.quote(str(ROOT / "tests"))
INLINE = "MPLBACKEND=module://matplotlib_inline.backend_inline"

#: Three imagined processors; and what torch offers on the one that is here: its own kernels, MKL's,
#: oneDNN's and those of NumPy's OpenBLAS each choose instructions for themselves.
PROCESSORS = [
    *[f"PYTHONPATH={TESTS}/processors IMAGINED_PROCESSOR={seed}" for seed in (1, 2, 3)],
    "ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2"
    " OPENBLAS_CORETYPE=Haswell",
    "ATEN_CPU_CAPABILITY=default MKL_ENABLE_INSTRUCTIONS=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41"
    " OPENBLAS_CORETYPE=Nehalem",
    "OMP_NUM_THREADS=2",
]
#: The tests of what computes in torch.
WITH_TORCH = (
    "tests/redundancy tests/derivation/test_alarm.py tests/derivation/test_operations.py"
    " tests/test_checks.py tests/test_context_parallel.py tests/test_norm_placement.py"
    " tests/test_which_bias_can_go.py tests/test_gpu_record.py"
)

#: What stands behind each name; a command is run in the root of the checkout, by a shell.
STAGES = {
    # what of the tests themselves is too long for every change
    "tests": f"{PYTEST} --dist loadscope -m nightly tests"
    " --ignore=tests/site --ignore=tests/course --ignore=tests/versions --ignore=tests/rocq",
    # every page, every copy for Colab, every assignment by both routes
    "site": f"{PYTEST} --dist worksteal -m 'not timed' tests/site tests/course"
    f" && {PYTEST} -n 0 -m timed tests/site",
    # random lines, true and false: each that is accepted is evaluated
    "fuzz": f"FUZZ_LINES=50000 FUZZ_SEED=1 {PYTEST} tests/test_fuzz.py",
    # every theorem at all combinations of small sizes, in many worlds each
    "judge": f"JUDGE_WORLDS=700 {PYTEST} tests/derivation/test_the_book.py",
    # mistakes on purpose, in the notebooks and in the checker
    "mutants": f"{PYTHON} tests/mutants/run.py",
    # the proofs on other Pythons, and on the SymPy before the pinned one
    "versions": f"{PYTEST} tests/versions",
    # notebooks and tests on imagined processors, older instructions, two threads
    "processors": " && ".join(
        f"{processor} {INLINE} {NBVAL} --nbval-cell-timeout=1200 notebooks {WITH_TORCH}"
        for processor in PROCESSORS
    ),
    # every notebook on a pretended accelerator, then the device itself
    "device": f"PYTHONSTARTUP={TESTS}/pretended_device/start_up.py {INLINE}"
    f" {NBVAL} --nbval-cell-timeout=1800 notebooks"
    f" && {PYTEST} tests/pretended_device/on_the_device.py",
    # the core theorems once more, by another checker
    "rocq": f"{PYTHON} tools/rocq.py && {PYTEST} tests/rocq",
}


def main(names):
    unknown = [name for name in names if name not in STAGES]
    if unknown:
        print(f"There is no stage {', '.join(unknown)}; there are {', '.join(STAGES)}.")
        return 2
    told = []
    for name in names or STAGES:
        print(f"\n── {name}: {STAGES[name].replace(sys.executable, 'python')}", flush=True)
        start = time.monotonic()
        code = subprocess.run(STAGES[name], shell=True, cwd=ROOT, env=environment()).returncode
        told.append((name, time.monotonic() - start, code))
    print()
    for name, seconds, code in told:
        print(f"{name:12}{seconds / 60:7.1f} min   {'passed' if code == 0 else 'FAILED'}")
    return int(any(code for _, _, code in told))


def environment():
    """As `make` has it, where this is called without it."""
    usual = {"OMP_NUM_THREADS": "1", "UNTRIED_VERSIONS": "quiet"}
    return usual | {"IPYTHONDIR": str(ROOT / ".venv" / "ipython")} | os.environ


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
