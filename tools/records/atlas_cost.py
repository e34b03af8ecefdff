"""Measure how long counting the redundant directions of whole models takes.

    .venv/bin/python -m tools atlas-cost            # writes notebooks/records/atlas_cost.json

The cells of chapter 12b build the models, untied GPT-2s: two layers, width d, inner width d, heads
of width 2, and d + 2 words.  On two threads, the width grows by 2 until one count takes two
minutes.  The program compares every count with the chapter's formula, and stops if they differ.
"""

import datetime
import json
import os
import time

from tools.files import NOTEBOOKS, demand, read_notebook, write

os.environ |= {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}  # let idle threads sleep
os.chdir(NOTEBOOKS)

import torch  # noqa: E402

SECONDS = 120
CELLS = ("12b-01", "12b-04", "12b-07")  # imports; random parameters; the models and the formula


def measured(d, names):
    """The record's entry for the model of width d; ``names`` is what the cells define."""
    sizes = (d, d // 2, d, d + 2, 8)
    model = names["randomised"](names["gpt2"](*sizes), seed=d).cpu()

    def run(values, ids):
        return torch.func.functional_call(model, values, (ids,))[0]

    def draw(seed):
        return (torch.randint(d + 2, (8, 8), generator=torch.Generator().manual_seed(seed)),)

    start, parameters = time.perf_counter(), dict(model.named_parameters())
    nullity = names["jacobian"](run, draw, parameters).nullity().dimension
    seconds, predicted = time.perf_counter() - start, names["predicted"](*sizes)
    demand(nullity == predicted, f"width {d}: {nullity} found, {predicted} predicted")
    entry = {"width": d, "parameters": sum(p.numel() for p in parameters.values())}
    return entry | {"nullity": nullity, "predicted": predicted, "seconds": round(seconds, 3)}


def main():
    """Measure growing models until one count takes too long, and write the record."""
    names, runs = {}, []
    for cell in read_notebook(NOTEBOOKS / "12b-whole-models.ipynb").cells:
        if cell.id in CELLS:
            exec(cell.source, names)
    while not runs or runs[-1]["seconds"] <= SECONDS:
        runs.append(measured(4 + 2 * len(runs), names))
        print(runs[-1], flush=True)
    record = {"date": datetime.date.today().isoformat(), "torch": torch.__version__}
    record["fits"] = max(r["parameters"] for r in runs if r["seconds"] <= SECONDS)
    path = NOTEBOOKS / "records" / "atlas_cost.json"
    write(path, json.dumps(record | {"runs": runs}, indent=1) + "\n")
