"""Measure on a CUDA device what rounding leaves of three theorems, and write the page that says it.

    python tools/gpu_record.py                         # book/records/gpu.json and book/gpu.md
    python tools/gpu_record.py --device cpu --small    # the rehearsal, into _build/gpu

In five number formats and by each of PyTorch's kernels for attention:

- shifts: a vector is added to every key, which exactly changes nothing (theorem 3.2); the control
  adds it to every query;
- gradients: that of the key bias, exactly zero (theorem 3.5), beside that of the query bias;
- lengths: ever longer sequences, their time, memory, and error against attention in float64,
  computed block by block (theorems 3.6 and 3.7).

Every repeat stands in the record; the page shows medians and largest errors.  Whether the notebooks
say the same on the device, `make test` says there.
"""

import argparse
import json
import math
import platform
import subprocess
import sys
import time
import warnings
from functools import partial
from itertools import product
from pathlib import Path
from statistics import median

import matplotlib.style
import torch
import torch.nn.functional as F
from files import Fault, in_a_sentence, write
from matplotlib.figure import Figure
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = Path(__file__).with_name("gpu_page.md")
#: dtype, and whether products of float32 may be taken with ten bits of fraction
FORMATS = {
    "float64": (torch.float64, False),
    "float32": (torch.float32, False),
    "TF32": (torch.float32, True),
    "bfloat16": (torch.bfloat16, False),
    "float16": (torch.float16, False),
}
KERNELS = {
    "math": SDPBackend.MATH,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
FULL = {
    "heads": 8, "width": 64, "length": 1024, "seeds": 5, "repeats": 7, "rows": 64, "chunk": 8192,
    "shifts": [1.0, 10.0, 100.0, 1e3, 1e4, 1e5], "lengths": [1024 * 2**i for i in range(8)],
}  # fmt: skip
SMALL = {
    "heads": 2, "width": 8, "length": 32, "seeds": 2, "repeats": 2, "rows": 4, "chunk": 16,
    "shifts": [1.0, 100.0], "lengths": [32, 64],
}  # fmt: skip


# ── What is measured ──────────────────────────────────────────────────────────────────────


def normal(device, *shape, seed, dtype=torch.float64):
    """Standard normal numbers, drawn on the CPU in float64 so that every device gets the same."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)


def ratio(found, expected):
    """max |found| / max |expected|; None, which JSON has a word for, where that is not finite."""
    value = (found.double().abs().max() / expected.double().abs().max()).item()
    return value if math.isfinite(value) else None


def shifts(device, dtype, sizes):
    """For each size of the shift, the relative change that it makes of keys and of queries, by seed."""
    shape = (1, sizes["heads"], sizes["length"], sizes["width"])
    found = [{"at": size, "keys": [], "queries": []} for size in sizes["shifts"]]
    for row, seed in product(found, range(sizes["seeds"])):
        q, k, v = normal(device, 3, *shape, seed=seed, dtype=dtype)
        signs = normal(device, 1, shape[1], 1, shape[3], seed=seed).sign().to(dtype)
        out = F.scaled_dot_product_attention(q, k, v)
        for what, shifted in {
            "keys": (q, k + row["at"] * signs, v),
            "queries": (q + row["at"] * signs, k, v),
        }.items():
            moved = F.scaled_dot_product_attention(*shifted)
            row[what].append(ratio(moved.double() - out.double(), out))
    return found


def gradients(device, dtype, sizes):
    """max |gradient of the key bias| / max |gradient of the query bias|, by seed."""
    width, found = sizes["heads"] * sizes["width"], []
    for seed in range(sizes["seeds"]):
        torch.manual_seed(seed)
        layer = nn.MultiheadAttention(width, sizes["heads"], batch_first=True)
        nn.init.normal_(layer.in_proj_bias)
        layer = layer.to(device, dtype)
        x, upstream = normal(device, 2, 2, sizes["length"], width, seed=seed, dtype=dtype)
        layer(x, x, x, need_weights=False)[0].backward(upstream)
        query, key, _ = layer.in_proj_bias.grad.chunk(3)
        found.append(ratio(key, query))
    return found


def lengths(device, dtype, sizes):
    """Seconds, bytes beyond the inputs, and error, up to the first length that cannot be done."""
    found = []
    for length in sizes["lengths"]:
        run = attempt(lambda length=length: one_length(device, dtype, sizes, length))
        if isinstance(run, str):
            return [*found, {"at": length, "stopped": run}] if found else run
        found.append({"at": length, **run})
    return found


def one_length(device, dtype, sizes, length):
    shape = (1, sizes["heads"], length, sizes["width"])
    q, k, v = (normal(device, *shape, seed=seed, dtype=dtype) for seed in range(3))
    seconds = []
    with torch.no_grad():
        F.scaled_dot_product_attention(q, k, v)  # what a library sets up once is no kernel's need
        out, peak = peak_bytes(lambda: F.scaled_dot_product_attention(q, k, v), device)
        for _ in range(sizes["repeats"]):
            start = time.perf_counter()
            F.scaled_dot_product_attention(q, k, v)
            if device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - start)
        rows = torch.linspace(0, length - 1, min(sizes["rows"], length), device=device).long()
        exact = in_blocks(q[:, :, rows], k, v, sizes["chunk"])
    return {
        "seconds": seconds,
        "bytes": peak,
        "error": ratio(out[:, :, rows].double() - exact, exact),
    }


def peak_bytes(run, device):
    """(what it returns, the memory it needed beyond what was there); None on a CPU."""
    if device.type != "cuda":
        return run(), None
    torch.cuda.synchronize()
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    found = run()
    torch.cuda.synchronize()
    return found, torch.cuda.max_memory_allocated() - before


def in_blocks(q, k, v, chunk):
    """Attention in float64 over blocks of keys, with a running maximum and two running sums."""
    q = q.double() / q.shape[-1] ** 0.5
    top = q.new_full((*q.shape[:-1], 1), -torch.inf)
    total, weighted = torch.zeros_like(top), torch.zeros_like(q)
    for keys, values in zip(k.split(chunk, dim=2), v.split(chunk, dim=2)):
        scores = q @ keys.double().mT
        higher = torch.maximum(top, scores.amax(-1, keepdim=True))
        weights, before = (scores - higher).exp(), (top - higher).exp()
        total = before * total + weights.sum(-1, keepdim=True)
        weighted = before * weighted + weights @ values.double()
        top = higher
    return weighted / total


EXPERIMENTS = {"shifts": shifts, "gradients": gradients, "lengths": lengths}


def attempt(run):
    """What it returns; or in words why PyTorch would not do it here."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return run()
    except torch.OutOfMemoryError:
        return "out of memory"
    except RuntimeError as error:
        said = str(error).strip().splitlines()[0]
        missing = said.startswith(("No available", "No viable"))
        return "not offered" if missing else f"failed: {said[:200]}"


def measured(device, sizes):
    """{experiment: {format: {kernel: what was found, or why nothing was}}}"""
    results = {name: {format: {} for format in FORMATS} for name in EXPERIMENTS}
    for name, format, kernel in product(EXPERIMENTS, FORMATS, KERNELS):
        dtype, tf32 = FORMATS[format]
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        start = time.monotonic()
        with sdpa_kernel(KERNELS[kernel]):
            found = attempt(partial(EXPERIMENTS[name], device, dtype, sizes))
        results[name][format][kernel] = found
        if device.type == "cuda":
            torch.cuda.empty_cache()
        words = f" ({found})" if isinstance(found, str) else ""
        print(f"{name}, {format}, {kernel}: {time.monotonic() - start:.1f} s{words}", flush=True)
    return results


# ── Where it was measured ─────────────────────────────────────────────────────────────────


def machine(device):
    """{what: of this record}, in words."""
    commit = said_by("git", "rev-parse", "--short=12", "HEAD") or "not known"
    changed = said_by("git", "status", "--porcelain", "--untracked-files=no")
    return {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "a CPU: a rehearsal",
        "CUDA": torch.version.cuda or "none",
        "driver": said_by("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
        or "none",
        "PyTorch": torch.__version__,
        "Python": platform.python_version(),
        "commit": commit + ", with changes" * bool(changed),
        "taken": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def said_by(*command):
    try:
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return run.stdout.strip()


# ── The page ──────────────────────────────────────────────────────────────────────────────


def page(record, folder):
    """The text of the page; its figures are written into the folder."""
    shifts, gradients, lengths = (record["results"][name] for name in EXPERIMENTS)
    for name, results, across, up, value in (
        ("shifts", shifts, "size of the shift", "largest change", lambda row: largest(row["keys"])),
        ("times", lengths, LENGTH, "seconds", lambda row: median(row["seconds"])),
        ("errors", lengths, LENGTH, "relative error", lambda row: row["error"]),
    ):
        draw(results, value, across, up, folder / f"gpu-{name}.png")
    return TEMPLATE.read_text(encoding="utf-8").format(
        machine=table(["what", "of this record"], record["machine"].items()),
        control=grid(shifts, lambda rows: shown(min, [x for row in rows for x in row["queries"]])),
        gradients=grid(gradients, lambda values: shown(max, values)),
        longest=grid(lengths, longest),
    )


LENGTH = "length of the sequence"
COLOURS = ("C0", "C1", "C2", "C3", "C4")


def largest(values):
    return None if None in values else max(values)


def shown(of, values):
    return "not finite" if None in values else f"{of(values):.1e}"


def longest(found):
    """The longest sequence that a kernel did, its time and its memory."""
    *_, run = (run for run in found if "stopped" not in run)
    memory = f", {run['bytes'] / 2**30:.2g} GiB" if run["bytes"] is not None else ""
    ending = f"; then {found[-1]['stopped']}" if "stopped" in found[-1] else ""
    return f"{run['at']:,}: {1e3 * median(run['seconds']):.3g} ms{memory}{ending}"


def draw(results, value, across, up, path):
    """A panel for each kernel, a line for each format.

    What is exactly 0 is drawn at 1e-18, what is not finite as a cross at the upper edge.
    """
    done = [k for k in KERNELS if any(not isinstance(row[k], str) for row in results.values())]
    with matplotlib.style.context(ROOT / "notebooks" / "figures.mplstyle"):
        figure = Figure(figsize=(6.4, 0.9 + 2.1 * len(done)))
        panels = figure.subplots(len(done), 1, sharex=True, sharey=True, squeeze=False)
        for panel, kernel in zip(panels.flat, done):
            panel.set(title=kernel, xscale="log", yscale="log", ylabel=up)
            for (format, row), marker, colour in zip(results.items(), "osD^v", COLOURS):
                rows = [] if isinstance(row[kernel], str) else row[kernel]
                points = [(run["at"], value(run)) for run in rows if "stopped" not in run]
                if finite := [(x, max(y, 1e-18)) for x, y in points if y is not None]:
                    panel.plot(*zip(*finite), marker=marker, color=colour, label=format)
                if lost := [x for x, y in points if y is None]:
                    edge = {"transform": panel.get_xaxis_transform(), "linestyle": ""}
                    label = None if finite else format
                    panel.plot(
                        lost, [0.95] * len(lost), marker="x", color=colour, label=label, **edge
                    )
            panel.legend()
        panels.flat[-1].set_xlabel(across)
        figure.savefig(path, format="png")


def grid(results, cell):
    """A line for each format, a column for each kernel; a word stands where nothing was measured."""
    rows = (
        [x if isinstance(x, str) else cell(x) for x in row.values()] for row in results.values()
    )
    return table(["format", *KERNELS], ([name, *row] for name, row in zip(results, rows)))


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


# ── The command ───────────────────────────────────────────────────────────────────────────


@in_a_sentence
def main(arguments=None):
    """Measure, write the record, and from it the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--small", action="store_true", help="small sizes: a rehearsal")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        raise Fault("There is no CUDA device here: --device cpu --small rehearses on a CPU.")
    if options.device == "cpu" and not options.small:
        raise Fault("A CPU only rehearses: add --small.")
    device, sizes = torch.device(options.device), SMALL if options.small else FULL
    book = ROOT / "_build" / "gpu" if options.small else ROOT / "book"
    (book / "records").mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(device), "sizes": sizes, "results": measured(device, sizes)}
    write(book / "records" / "gpu.json", json.dumps(record, indent=1) + "\n")
    write(book / "gpu.md", page(record, book / "records"))
    print(f"The page: {book / 'gpu.md'}; `- file: book/gpu` in _toc.yml puts it into the book.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
