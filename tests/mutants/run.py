"""Tries deliberate mistakes in the notebooks and in the checker, and records which are noticed.

    python tests/mutants/run.py                    8 mistakes in each notebook, 240 in the checker
    python tests/mutants/run.py --per-notebook 40 --seed 2 notebooks/03*.ipynb
    python tests/mutants/run.py --in-checker 500 sums proofs    some notebooks or modules only

A line for each notebook and module says how many were noticed, and which were not.  The record is written
after each: stop it when you like, and run it again to go on.  What has not changed since it was
tried is not tried again; --again does.  The exit code is 1 when a mistake went unnoticed without a
reason in tests/mutants/equivalent.yml, or when a notebook or the tests do not pass as they are.
"""

import argparse
import multiprocessing
import os
import sys
from pathlib import Path

if __name__ == "__main__":
    ROOT = Path(__file__).resolve().parents[2]
    sys.path[:0] = [str(ROOT / folder) for folder in ("tests", "notebooks", "tools")]

from mutants import checker, notebooks, record
from mutants.record import RECORD, SURVIVED

PER_NOTEBOOK = 8
IN_CHECKER = 240


def main(arguments=None):
    """The command."""
    options = options_of(arguments)
    if not hasattr(os, "fork"):
        print("This system cannot fork a process: mutants are tried on Linux and macOS.")
        return 1
    modules = [name for name in checker.modules() if name in options.only]
    paths = [Path(name).resolve() for name in options.only if name not in modules]
    if not options.only:
        modules, paths = checker.modules(), sorted(notebooks.FOLDER.glob("*.ipynb"))
    missing = [path.name for path in paths if not path.is_file()]
    if missing:
        print("There is no notebook and no module", ", ".join(missing))
        return 1
    try:
        kept = record.read(options.record)
        failing = try_notebooks(paths, options, kept) if paths else False
        failing |= try_checker(modules, options, kept) if modules else False
    except record.RecordError as wrong:
        print(wrong)
        return 1
    record.write(kept, options.record)
    return int(conclude(kept) > 0 or failing)


def options_of(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "only", nargs="*", help="which notebooks, and modules of the checker; all, if none is named"
    )
    parser.add_argument(
        "--per-notebook", type=int, default=PER_NOTEBOOK, help="how many mistakes in each"
    )
    parser.add_argument(
        "--in-checker", type=int, default=IN_CHECKER, help="how many mistakes in the whole checker"
    )
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from")
    parser.add_argument("--workers", type=int, default=2, help="how many notebooks at a time")
    parser.add_argument("--again", action="store_true", help="also what was tried already")
    parser.add_argument("--record", type=Path, default=RECORD, help="where the record is kept")
    return parser.parse_args(arguments)


def try_notebooks(paths, options, kept):
    """Tries what is not in the record, and enters it there; whether a notebook fails as it is."""
    draw = ("notebooks", options.seed, options.per_notebook)
    open_ones = [
        path for path in paths
        if options.again
        or not record.up_to_date(kept, *draw, path.stem, notebooks.source_of(path))
    ]  # fmt: skip
    if len(open_ones) < len(paths):
        print(f"{len(paths) - len(open_ones)} notebooks were tried already.", flush=True)
    failing = False
    jobs = ((path, options.per_notebook, options.seed) for path in open_ones)
    for number, (path, entry, complaint) in enumerate(in_processes(jobs, options.workers), 1):
        opening = f"[{number}/{len(open_ones)}] {path.name}"
        if complaint:
            failing = True
            print(f"{opening} does not pass as it is: {complaint}", flush=True)
            continue
        record.add(kept, *draw, path.stem, entry)
        record.write(kept, options.record)
        print(f"{opening} {in_words(entry)}", flush=True)
    return failing


def try_checker(modules, options, kept):
    """Tries the modules that are not in the record, one after the other; whether the tests fail."""
    draw = ("checker", options.seed, options.in_checker)
    open_ones = [
        name for name in modules
        if options.again or not record.up_to_date(kept, *draw, name, checker.source_of())
    ]  # fmt: skip
    if len(open_ones) < len(modules):
        print(f"{len(modules) - len(open_ones)} modules were tried already.", flush=True)
    if not open_ones:
        return False
    print("Which tests reach which lines of the checker?", flush=True)
    drawn = checker.drawn(options.in_checker, options.seed, open_ones)
    for number, (name, entry, complaint) in enumerate(checker.tried(open_ones, drawn), 1):
        opening = f"[{number}/{len(open_ones)}] {name}.py"
        if complaint:
            print(f"{opening}: the tests do not pass as they are: {complaint}", flush=True)
            return True
        record.add(kept, *draw, name, entry)
        record.write(kept, options.record)
        print(f"{opening} {in_words(entry)}", flush=True)
    return False


def in_processes(jobs, workers):
    """The results of the jobs, each from a process of its own, as they come."""
    import matplotlib  # noqa: F401  what notebooks import is read once
    import sympy  # noqa: F401
    import torch
    import transformers  # noqa: F401

    torch.set_num_threads(1)
    with multiprocessing.get_context("fork").Pool(workers, maxtasksperchild=1) as pool:
        yield from pool.imap_unordered(one_notebook, jobs)


def one_notebook(job):
    """(the notebook, its entry, None), or why it does not pass as it is."""
    multiprocessing.current_process()._config["daemon"] = False  # a chapter starts processes
    path, count, seed = job
    try:
        return path, notebooks.try_notebook(path, count, seed)[0], None
    except notebooks.NotebookFails as fails:
        return path, None, str(fails)


def in_words(entry):
    fates = record.summed(entry["tried"].values())
    words = ", ".join(f"{count} {fate}" for fate, count in fates.items() if count)
    lines = [f"... {entry['seconds']:.0f} s of CPU, of {entry['possible']}: {words or 'none'}"]
    for one in entry["survivors"]:
        why = one["why"] or "WHY?"
        lines.append(
            f"    {one['piece']}, line {one['line']}, {one['kind']}: {why}\n"
            f"      {one['before']}\n      {one['after']}"
        )
    return "\n".join(lines)


def conclude(kept):
    """Prints the totals; whether a survivor has no reason."""
    unexplained = 0
    for part, there in kept["parts"].items():
        fates = record.summed(record.totals(there["places"]).values())
        entries = there["places"].values()
        without = sum(not one["why"] for entry in entries for one in entry["survivors"])
        unexplained += without
        print(
            f"{part}: {sum(fates.values())} tried, {record.rate(fates):.1%} noticed, "
            f"{fates[SURVIVED]} not, {without} of these without a reason"
        )
    if unexplained:
        print(
            "\nMend the check, or say in tests/mutants/equivalent.yml why it makes no difference:\n"
        )
        print(record.to_explain(kept))
    return unexplained


if __name__ == "__main__":
    sys.exit(main())
