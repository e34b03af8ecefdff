"""Make mistakes in the notebooks and in the checker, and record those that no test notices.

    python tests/mutants/run.py                         8 in each notebook, one for every 25 lines
                                                        of the checker
    python tests/mutants/run.py kernel.rules --seed 2   in some notebooks or modules only
    python tests/mutants/run.py 03-exercises --count 40

Each mistake is made in a copy of the checkout, where the tests of the place then run until one
fails.  Only a run of all places writes book/records/mutants.json, from which the page is made.  In
that record a person writes, under "why", why an unnoticed mistake makes no difference; a new record
keeps the reason.  The exit code is 1 if an unnoticed mistake has no reason, or if tests fail on
unchanged code.
"""

import argparse
import datetime
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (1, 2)]  # tests; tools

from mutants.places import ROOT, all_places, mutants_in

from tools.files import Fault, in_a_sentence, write
from tools.site.mutants_page import RECORD

INLINE = "module://matplotlib_inline.backend_inline"  # as in the stored outputs
LEFT_BEHIND = shutil.ignore_patterns("__pycache__", "node_modules")
AT_A_TIME = 2  # places tried in parallel
#: With a mistake, tests may take SECONDS, plus TIMES as long as they take on unchanged code.
SECONDS, TIMES = 120, 6


@in_a_sentence
def main(arguments=None):
    """Run the command; return 1 if an unnoticed mistake has no reason, else 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("only", nargs="*", help="notebooks and modules; all, if none is named")
    parser.add_argument("--count", type=int, help="how many mistakes in each")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from")
    options = parser.parse_args(arguments)

    places = [place for place in all_places() if place.name in options.only or not options.only]
    if unknown := set(options.only) - {place.name for place in places}:
        raise Fault(f"There is no notebook and no module {', '.join(sorted(unknown))}.")
    record, unexplained = {}, 0
    with ThreadPoolExecutor(AT_A_TIME) as workers:
        tried = workers.map(partial(try_place, count=options.count, seed=options.seed), places)
        for place, entry in zip(places, tried):
            about = {"taken": datetime.date.today().isoformat(), "seed": options.seed}
            sums = record.setdefault(place.part, about)
            for name, more in entry.items():
                sums[name] = sums[name] + more if name in sums else more
            unexplained += tell(place, entry)
    if not options.only:
        write(RECORD, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    return int(unexplained > 0)


def try_place(place, count=None, seed=1):
    """Make mistakes in a place and return the results; raise Fault if unchanged code fails."""
    mutants = list(mutants_in(place))
    chosen = drawn(mutants, count or place.count, f"{seed}:{place.name}")
    limit = SECONDS + TIMES * seconds_as_it_is(tuple(place.judge))
    entry = {"places": 1, "possible": len(mutants), "made": Counter(), "survivors": []}
    with a_copy() as copy:
        for piece, mutant in chosen:
            (copy / place.path).write_text(place.with_piece(piece, mutant.source), "utf-8")
            entry["made"][mutant.kind] += 1
            if not failure(copy, place.judge, limit):
                entry["survivors"].append(survivor(place, piece, mutant))
    return entry


def drawn(mutants, count, seed):
    """Draw ``count`` mutants, taking the kinds in turn, so that rare kinds are drawn, too."""
    made = Counter()
    turn = lambda one: made.update([one[1].kind]) or made[one[1].kind]
    return sorted(random.Random(seed).sample(mutants, len(mutants)), key=turn)[:count]


@contextmanager
def a_copy():
    """A temporary copy of the parts of the checkout that the tests need."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("notebooks", "tests", "tools"):
            shutil.copytree(ROOT / name, Path(folder, name), ignore=LEFT_BEHIND)
        shutil.copy(ROOT / "pytest.ini", folder)
        yield Path(folder)


@cache
def seconds_as_it_is(judge):
    """The seconds that the tests take on unchanged code; raises Fault if they fail."""
    start = time.monotonic()
    with a_copy() as copy:
        if said := failure(copy, judge, timeout=3600):
            raise Fault(f"Without a mistake these tests fail: {' '.join(judge)}\n{said}")
    return time.monotonic() - start


def failure(copy, judge, timeout):
    """Run tests in a copy; return their output if one fails or the time is up, else ""."""
    # Write no bytecode: Python would reuse it if a file changed within a second and kept its size.
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *judge]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1", "MPLBACKEND": INLINE}
    environment |= {"OMP_NUM_THREADS": "1", "UNTRIED_VERSIONS": "quiet"}
    options = {"cwd": copy, "env": environment, "timeout": timeout, "text": True}
    try:
        done = subprocess.run(command, capture_output=True, **options)
    except subprocess.TimeoutExpired as late:
        return str(late)
    return done.stdout[-2000:] + done.stderr[-2000:] if done.returncode else ""


def survivor(place, piece, mutant):
    """A mistake's entry in the record, with the reason that the last record gives for it."""
    entry = {"place": place.name, "piece": piece, "kind": mutant.kind}
    entry |= {"before": mutant.before, "after": mutant.after}
    last = json.loads(RECORD.read_text(encoding="utf-8"))[place.part]["survivors"]
    return entry | {"why": next((one["why"] for one in last if entry.items() <= one.items()), "")}


def tell(place, entry):
    """Print the result for a place; return how many unnoticed mistakes lack a reason."""
    made, survivors = entry["made"].total(), entry["survivors"]
    open_ones = [one for one in survivors if not one["why"]]
    print(f"{place.name}: {made} of {entry['possible']} made, {len(survivors)} not noticed")
    if open_ones:
        print("Mend the check; or say in the record, once it is there, why it makes no difference:")
        print(json.dumps(open_ones, indent=1, ensure_ascii=False))
    sys.stdout.flush()
    return len(open_ones)


if __name__ == "__main__":
    sys.exit(main())
