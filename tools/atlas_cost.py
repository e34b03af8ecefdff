"""How long the nullity of a whole model takes to count: two threads, until it takes two minutes.

    .venv/bin/python tools/atlas_cost.py            # writes notebooks/records/atlas_cost.json

The models are untied GPT-2s of `transformers` with two layers, heads of width 2, an inner width
equal to the width, and d + 2 words; they grow by two features at a time.  Counts below ten seconds
are timed three times, the others once; the shortest time counts.  Every count is compared with
the formula of the chapter on whole models, and a difference stops the program.
"""

import datetime
import json
import os
import platform
import sys
import time

from files import NOTEBOOKS, Fault, in_a_sentence, write

THREADS = 2
os.environ["OMP_NUM_THREADS"] = str(THREADS)
os.environ["OMP_WAIT_POLICY"] = "passive"  # a thread that waits sleeps: others can work
sys.path.insert(0, str(NOTEBOOKS))

import torch  # noqa: E402
import transformers  # noqa: E402
from redundancy import jacobian  # noqa: E402

RECORD = NOTEBOOKS / "records" / "atlas_cost.json"
MINUTES = 2
LAYERS, HEAD_WIDTH, POSITIONS, SEQUENCES = 2, 2, 8, 8


def formula(d):
    """Redundant directions of the model of width d, for its logits."""
    h, k, f, words = d // HEAD_WIDTH, HEAD_WIDTH, d, d + 2
    layer = 2 * h * k * k + 6 * h * k + 4 * d + 2 * f + 2
    turns = (d - 1) * (d - 2) // 2
    return turns + d - 1 + words + POSITIONS + LAYERS * layer + 2 * d


def model_of(d):
    """The model of width d at a generic, moderate point, in float64."""
    heads = dict(n_embd=d, n_head=d // HEAD_WIDTH, n_inner=d, n_layer=LAYERS, n_positions=POSITIONS)
    words = dict(vocab_size=d + 2, tie_word_embeddings=False, bos_token_id=0, eos_token_id=0)
    config = transformers.GPT2Config(**heads, **words, layer_norm_epsilon=0.1)
    model = transformers.GPT2LMHeadModel(config)
    dice = torch.Generator().manual_seed(d)
    for name, p in model.named_parameters():
        values = torch.randn(p.shape, generator=dice, dtype=torch.float64)
        if p.dim() == 2:
            table = "wte" in name or "wpe" in name
            p.data = values if table else values / p.shape[1] ** 0.5
        else:
            p.data = 0.3 * values if "bias" in name else 1 + values.tanh() / 2
    return model.double().eval()


def count(d):
    """(parameters, nullity, seconds that the count took) of the model of width d."""
    model = model_of(d)
    parameters = dict(model.named_parameters())

    def run(values, ids):
        return torch.func.functional_call(model, values, (ids,))[0]

    def draw(seed):
        dice = torch.Generator().manual_seed(seed)
        return (torch.randint(d + 2, (SEQUENCES, POSITIONS), generator=dice),)

    start = time.perf_counter()
    nullity = jacobian(run, draw, parameters).nullity().dimension
    return sum(p.numel() for p in parameters.values()), nullity, time.perf_counter() - start


def measured(d):
    """One entry of the record."""
    times = []
    while not times or (len(times) < 3 and min(times) < 10):
        size, nullity, seconds = count(d)
        times.append(seconds)
    if nullity != formula(d):
        raise Fault(f"width {d}: {nullity} found, {formula(d)} predicted")
    entry = {"width": d, "parameters": size, "nullity": nullity, "predicted": formula(d)}
    return entry | {"seconds": round(min(times), 3), "repeats": len(times)}


@in_a_sentence
def main():
    """Measures growing models until a count takes too long, and writes the record."""
    torch.set_num_threads(THREADS)
    count(4)  # what is loaded once is not timed
    runs = []
    while not runs or runs[-1]["seconds"] <= 60 * MINUTES:
        runs.append(measured(4 + 2 * len(runs)))
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
