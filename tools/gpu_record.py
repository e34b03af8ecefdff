"""Take the record of a GPU that the book draws a page from: `make gpu-record`.

    python tools/gpu_record.py                          # on a CUDA device, all of it
    python tools/gpu_record.py --minutes 9              # stop in time; run again to go on
    python tools/gpu_record.py --only rates scale       # a part of it
    python tools/gpu_record.py --device cpu --small     # rehearse it on a CPU, in _build

What is measured stands in `tools/gpu`, one module for each experiment.  After each step the
numbers are saved in _build; the record is written when it is whole.  Running it again goes on
where it stopped, and adds what is missing, as long as device, versions, source and sizes stay
the same; otherwise it begins anew.
"""

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import torch
from files import Fault, in_a_sentence
from gpu import gradients, precision, rates, scale
from gpu.bench import CLOCKS, SMALL, Bench, Sizes
from gpu.facts import facts
from gpu.record import EXPERIMENTS, FAILED, SCHEMA, check, write

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "book" / "records" / "gpu.json"
REHEARSAL = ROOT / "_build" / "gpu-rehearsal.json"
NOTEBOOKS = ROOT / "notebooks"
NO_CUDA = (
    "There is no CUDA device here, and a record is taken on one; "
    "`python tools/gpu_record.py --device cpu --small` rehearses it on a CPU."
)
CPU_IS_SMALL = "A CPU only rehearses: add --small."


class Refused(Fault):
    """Why nothing was recorded, in one sentence."""


@in_a_sentence
def main(arguments):
    take(parsed(arguments))
    return 0


def parsed(arguments):
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="small sizes: a rehearsal")
    parser.add_argument("--only", nargs="+", choices=EXPERIMENTS, default=EXPERIMENTS)
    parser.add_argument("--minutes", type=float, help="begin no step after this time")
    parser.add_argument("--output", type=Path, help="where to write it")
    parser.add_argument("--notebooks", type=Path, default=NOTEBOOKS)
    return parser.parse_args(arguments)


def take(options):
    """Take what the options name, and write it."""
    place = device(options)
    bench = Bench(place, SMALL if options.small else Sizes(), CLOCKS[place.type])
    output = options.output or (REHEARSAL if options.small else RECORD)
    draft = (output.parent if options.output else ROOT / "_build") / f"{output.stem}.part.json"
    record = resumed((draft, output), beginning(bench, rehearsal=options.small))
    steps = steps_of(bench, options.only, options.notebooks)
    if all(is_done(record, step) for step in steps) and not draft.exists():
        raise Refused(f"{output} holds all of this already: delete it to take it anew.")
    go_through(bench, steps, record, draft, options.minutes)
    check(record)
    write(record, output)
    draft.unlink(missing_ok=True)
    print(f"The {'rehearsal' if options.small else 'record'}: {output}")


def device(options):
    """The device of the options; refused where a record cannot be taken."""
    if options.device == "cuda":
        if not torch.cuda.is_available():
            raise Refused(NO_CUDA)
        return torch.device("cuda")
    if not options.small:
        raise Refused(CPU_IS_SMALL)
    os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the notebooks take the CPU too
    return torch.device("cpu")


def beginning(bench, rehearsal):
    """A record without results."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    start = {"schema": SCHEMA, "rehearsal": rehearsal, "date": now}
    start |= facts(bench.device) | {"settings": asdict(bench.sizes), "results": {}}
    return json.loads(json.dumps(start))  # as it is read again, without tuples


def resumed(paths, record):
    """What an earlier run left in the first of these files, if all was as now; or the record."""
    for path in paths:
        try:
            before = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if all(before.get(key) == record[key] for key in record.keys() - {"date", "results"}):
            return before
    return record


def steps_of(bench, experiments, notebooks):
    """{(experiment, name of the step): what to call}"""
    makers = {
        "rates": lambda: rates.steps(bench),
        "precision": lambda: precision.steps(bench),
        "gradients": lambda: gradients.steps_of_the_key_bias(bench),
        "batch_norm": lambda: gradients.steps_before_batch_norm(bench),
        "scale": lambda: scale.steps(bench),
        "chapters": lambda: steps_of_the_notebooks(notebooks),
    }
    return {
        (experiment, name): run
        for experiment in EXPERIMENTS
        if experiment in experiments
        for name, run in makers[experiment]().items()
    }


def steps_of_the_notebooks(folder):
    from gpu import chapters  # which needs nbclient; the other experiments need torch alone

    return chapters.steps(folder)


def is_done(record, step):
    experiment, name = step
    return name in record["results"].get(experiment, {})


def go_through(bench, steps, record, draft, minutes=None, clock=time.monotonic):
    """Run every step that has no result yet, and save after each."""
    start = clock()
    for count, ((experiment, name), run) in enumerate(steps.items(), 1):
        if is_done(record, (experiment, name)):
            continue
        if minutes is not None and clock() - start > 60 * minutes:
            raise Refused(f"{count - 1} of {len(steps)} steps are done: run it again to go on.")
        print(f"[{count}/{len(steps)}] {experiment}: {name}", end=" ", flush=True)
        began = clock()
        row = record["results"].setdefault(experiment, {})[name] = run()
        write(record, draft)
        bench.free()  # the notebooks run in processes of their own, and need room
        print(f"... {clock() - began:.1f} s{outcome(row)}", flush=True)
        if last_of(row).get("stopped") == FAILED and not bench.answers():
            raise Refused("The device no longer answers: run it again to go on behind this step.")


def outcome(row):
    """What a line of the progress says besides the time."""
    if row.get("complaint"):
        return f", differs: {row['complaint']}"
    last = last_of(row)
    where = f" at {last['length']:,}" if "runs" in row else ""
    return f", {last['stopped']}{where}" if "stopped" in last else ""


def last_of(row):
    """The last run of a row that holds several; otherwise the row."""
    return row["runs"][-1] if "runs" in row else row


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
