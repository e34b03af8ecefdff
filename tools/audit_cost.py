"""How long `audit` and `fold` take, and how much memory, against the size of a model.

    .venv/bin/python tools/audit_cost.py                 # tiny, GPT-2 small, GPT-2 medium
    .venv/bin/python tools/audit_cost.py small           # one of them

Every line is a process of its own, with two threads: seconds on the clock and of the processor, and
the most memory that the process ever held, with PyTorch, the library and the model in it.
"""

import json
import os
import resource
import subprocess
import sys
import time

from files import NOTEBOOKS, Fault, in_a_sentence

SIZES = {
    "tiny": {"n_embd": 32, "n_head": 4, "n_layer": 2, "vocab_size": 48},
    "small": {},
    "medium": {"n_embd": 1024, "n_head": 16, "n_layer": 24},
}
WORK = ("the model", "audit(config)", "audit", "fold")


@in_a_sentence
def main(names):
    if unknown := set(names) - set(SIZES):
        raise Fault(f"sizes are {', '.join(SIZES)}; not {', '.join(sorted(unknown))}")
    print(f"{'GPT-2':8} {'numbers':>12}  {'work':13} {'seconds':>8} {'processor':>9} {'GB':>5}")
    for name in names or SIZES:
        for work in WORK:
            found = measured(name, work)
            line = "{name:8} {numbers:12,}  {work:13} {clock:8.1f} {processor:9.1f} {peak:5.2f}"
            print(line.format(name=name, work=work, **found), flush=True)


def measured(name, work):
    """What one piece of work on one size takes, measured in a process of its own."""
    given = [sys.executable, __file__, "--here", name, work]
    threads = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": "passive"}  # who waits, sleeps
    environment = os.environ | threads | {"HF_HUB_OFFLINE": "1"}
    done = subprocess.run(given, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise Fault(f"{work} of {name} failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def here(name, work):
    """The same in this process; prints what it took as JSON."""
    sys.path.insert(0, str(NOTEBOOKS))
    import torch
    from redundancy import audit, fold
    from transformers import GPT2Config, GPT2Model

    torch.manual_seed(0)
    config = GPT2Config(**SIZES[name], bos_token_id=0, eos_token_id=0)
    begun, used = time.monotonic(), time.process_time()
    model = GPT2Model(config).eval() if work != "audit(config)" else None
    if work != "the model":
        {"audit(config)": lambda: audit(config), "audit": lambda: audit(model),
         "fold": lambda: fold(model)}[work]()  # fmt: skip
    with torch.device("meta"):
        numbers = sum(p.numel() for p in GPT2Model(config).parameters())
    print(json.dumps({
        "clock": time.monotonic() - begun, "processor": time.process_time() - used,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, "numbers": numbers,
    }))  # fmt: skip


if __name__ == "__main__":
    here(*sys.argv[2:]) if sys.argv[1:2] == ["--here"] else main(sys.argv[1:])
