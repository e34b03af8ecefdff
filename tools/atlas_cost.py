"""How long the nullity of a whole model takes to count: two threads, until it takes two minutes.

    .venv/bin/python tools/atlas_cost.py            # writes notebooks/records/atlas_cost.json

The models are the untied GPT-2s of the chapter on whole models, whose cells make them: two layers,
heads of width 2, an inner width equal to the width, and d + 2 words; they grow by two features at a
time.  Counts below ten seconds are timed three times, the others once; the shortest time counts.
Every count is compared with the chapter's formula, and a difference stops the program.
"""

import datetime
import json
import os
import platform
import sys
import time

from files import NOTEBOOKS, Fault, in_a_sentence, read_notebook, write

THREADS = 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)
os.environ["OMP_WAIT_POLICY"] = "passive"  # a thread that waits sleeps: others can work
sys.path.insert(0, str(NOTEBOOKS))
os.chdir(NOTEBOOKS)

import torch  # noqa: E402
import transformers  # noqa: E402
from redundancy import jacobian  # noqa: E402

RECORD = NOTEBOOKS / "records" / "atlas_cost.json"
MINUTES = 2
POSITIONS, SEQUENCES = 8, 8
CELLS = ("12b-01", "12b-04", "12b-07")  # imports; numbers drawn; the models and the formula


def chapter():
    """The names that these cells of the chapter define."""
    names = {}
    for cell in read_notebook(NOTEBOOKS / "12b-whole-models.ipynb").cells:
        if cell.id in CELLS:
            exec(cell.source, names)
    return names


def measured(d, names):
    """One entry of the record: the model of width d, counted as often as it is timed."""
    sizes, times = (d, d // 2, d, d + 2, POSITIONS), []
    expected = names["predicted"](*sizes)
    model = names["randomised"](names["gpt2"](*sizes), seed=d).cpu()
    parameters = dict(model.named_parameters())

    def run(values, ids):
        return torch.func.functional_call(model, values, (ids,))[0]

    def draw(seed):
        dice = torch.Generator().manual_seed(seed)
        return (torch.randint(d + 2, (SEQUENCES, POSITIONS), generator=dice),)

    while not times or (len(times) < 3 and min(times) < 10):
        start = time.perf_counter()
        nullity = jacobian(run, draw, parameters).nullity().dimension
        times.append(time.perf_counter() - start)
        if nullity != expected:
            raise Fault(f"width {d}: {nullity} found, {expected} predicted")
    size = sum(p.numel() for p in parameters.values())
    entry = {"width": d, "parameters": size, "nullity": nullity, "predicted": expected}
    return entry | {"seconds": round(min(times), 3), "repeats": len(times)}


@in_a_sentence
def main():
    """Measures growing models until a count takes too long, and writes the record."""
    names, runs = chapter(), []
    torch.set_num_threads(THREADS)
    measured(4, names)  # what is loaded once is not timed
    while not runs or runs[-1]["seconds"] <= 60 * MINUTES:
        runs.append(measured(4 + 2 * len(runs), names))
        print(runs[-1], flush=True)
    record = {
        "date": datetime.date.today().isoformat(),
        "machine": f"two cores, {platform.machine()}",
        "threads": THREADS,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "minutes": MINUTES,
        "fits": max(r["parameters"] for r in runs if r["seconds"] <= 60 * MINUTES),
        "runs": runs,
    }
    write(RECORD, json.dumps(record, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
