"""Measure on a CUDA device what rounding leaves of three theorems, and write the page that says it.

    python tools/gpu_record.py               # book/records/gpu.json and book/gpu.md
    python tools/gpu_record.py --rehearse    # on a CPU and small, into _build/gpu

In five number formats and by each of PyTorch's kernels for attention: what a shift of all keys
changes, which exactly is nothing (theorem 3.2), beside the same shift of the queries; the gradient
of the key bias, exactly zero (theorem 3.5), beside that of the query bias; ever longer sequences,
their time, memory, and error against attention in float64, merged from blocks (theorem 14.2).
Every repeat stands in the record; the page shows medians and largest errors.
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
from torch.utils.benchmark import timer
from torch.utils.collect_env import get_nvidia_driver_version, run

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "notebooks"))

from context_parallel import merge, partial_attention  # noqa: E402

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
        layer = nn.MultiheadAttention(width, sizes["heads"], batch_first=True).to(device, dtype)
        with torch.no_grad():
            layer.in_proj_bias.copy_(normal(device, 3 * width, seed=seed, dtype=dtype))
        x, upstream = normal(device, 2, 2, sizes["length"], width, seed=seed, dtype=dtype)
        layer(x, x, x, need_weights=False)[0].backward(upstream)
        query, key, _ = layer.in_proj_bias.grad.chunk(3)
        found.append(ratio(key, query))
    return found


def lengths(device, dtype, sizes):
    """Seconds, bytes beyond the inputs, and error, up to the first length that cannot be done."""
    found = []
    for length in sizes["lengths"]:
        row = attempt(partial(one_length, device, dtype, sizes, length))
        if isinstance(row, str):
            return [*found, {"at": length, "stopped": row}] if found else row
        found.append({"at": length, **row})
    return found


@torch.no_grad()
def one_length(device, dtype, sizes, length):
    shape = (1, sizes["heads"], length, sizes["width"])
    q, k, v = (normal(device, *shape, seed=seed, dtype=dtype) for seed in range(3))
    F.scaled_dot_product_attention(q, k, v)  # what a library sets up once is no kernel's need
    before = torch.cuda.memory_allocated()  # 0 on a CPU
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    out = F.scaled_dot_product_attention(q, k, v)
    peak = torch.cuda.max_memory_allocated() - before
    seconds = []
    for _ in range(sizes["repeats"]):
        start = timer()  # which waits for the device
        F.scaled_dot_product_attention(q, k, v)
        seconds.append(timer() - start)
    rows = torch.linspace(0, length - 1, min(sizes["rows"], length), device=device).long()
    exact = in_blocks(q[:, :, rows], k, v, sizes["chunk"])
    return {"seconds": seconds, "bytes": peak, "error": ratio(out[:, :, rows] - exact, exact)}


def in_blocks(q, k, v, chunk):
    """Attention in float64 over blocks of keys, merged (theorem 14.2)."""
    blocks = zip(*(x.double().split(chunk, dim=2) for x in (k, v)))
    parts = [partial_attention(q.double(), keys, values) for keys, values in blocks]
    return merge(*map(torch.stack, zip(*parts)))[0]


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
        torch.cuda.empty_cache()
        words = f" ({found})" if isinstance(found, str) else ""
        print(f"{name}, {format}, {kernel}: {time.monotonic() - start:.1f} s{words}", flush=True)
    return results


def machine(device):
    """{what: of this record}, in words."""
    commit = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else "a CPU: a rehearsal",
        "CUDA": torch.version.cuda or "none",
        "driver": get_nvidia_driver_version(run) or "none",
        "PyTorch": torch.__version__,
        "Python": platform.python_version(),
        "commit": subprocess.run(commit, cwd=ROOT, capture_output=True, text=True).stdout.strip(),
        "taken": time.strftime("%Y-%m-%d", time.gmtime()),
    }


#: Of each figure its experiment, what is drawn of a row, and along which axes.
FIGURES = {
    "shifts": (
        "shifts",
        lambda row: None if None in row["keys"] else max(row["keys"]),
        "size of the shift",
        "relative change",
    ),
    "times": ("lengths", lambda row: median(row["seconds"]), "length of the sequence", "seconds"),
    "errors": ("lengths", lambda row: row["error"], "length of the sequence", "relative error"),
}


def page(record, folder):
    """The text of the page; its figures are written into the folder."""
    results = record["results"]
    for name, (experiment, *how) in FIGURES.items():
        draw(results[experiment], *how, folder / f"gpu-{name}.png")
    moved = lambda rows: shown(min, [x for row in rows for x in row["queries"]])
    return TEMPLATE.read_text(encoding="utf-8").format(
        machine=table(["what", "of this record"], record["machine"].items()),
        control=grid(results["shifts"], moved),
        gradients=grid(results["gradients"], partial(shown, max)),
        longest=grid(results["lengths"], longest),
    )


def shown(of, values):
    return "not finite" if None in values else f"{of(values):.1e}"


def longest(found):
    """The longest sequence that a kernel did, its time and its memory."""
    *_, run = (run for run in found if "stopped" not in run)
    memory = f", {run['bytes'] / 2**30:.2g} GiB" if run["bytes"] else ""
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
            for color, (format, row) in enumerate(results.items()):
                rows = () if isinstance(row[kernel], str) else row[kernel]
                points = [(run["at"], value(run)) for run in rows if "stopped" not in run]
                style = {"color": f"C{color}", "label": format}
                if finite := [(x, max(y, 1e-18)) for x, y in points if y is not None]:
                    panel.plot(*zip(*finite), "osD^v"[color] + "-", **style)
                    style["label"] = None
                if lost := [x for x, y in points if y is None]:
                    edge = panel.get_xaxis_transform()
                    panel.plot(lost, [0.95] * len(lost), "x", transform=edge, **style)
            panel.legend()
        panels.flat[-1].set_xlabel(across)
        figure.savefig(path, format="png")


def grid(results, cell):
    """A line for each format, a column for each kernel; a word stands where nothing was measured."""
    said = lambda row: [x if isinstance(x, str) else cell(x) for x in row.values()]
    return table(["format", *KERNELS], ([format, *said(row)] for format, row in results.items()))


def table(head, rows):
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


@in_a_sentence
def main(arguments=None):
    """Measure, write the record, and from it the page."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rehearse", action="store_true", help="on a CPU, with small sizes")
    rehearsed = parser.parse_args(arguments).rehearse
    if not rehearsed and not torch.cuda.is_available():
        raise Fault("There is no CUDA device here: --rehearse takes a CPU.")
    device, sizes = ("cpu", SMALL) if rehearsed else ("cuda", FULL)
    book = ROOT / "_build" / "gpu" if rehearsed else ROOT / "book"
    (book / "records").mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(device), "sizes": sizes, "results": measured(device, sizes)}
    write(book / "records" / "gpu.json", json.dumps(record, indent=1) + "\n")
    write(book / "gpu.md", page(record, book / "records"))
    print(f"The page: {book / 'gpu.md'}; `- file: book/gpu` in _toc.yml puts it into the book.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
