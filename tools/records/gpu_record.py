"""Measure the rounding of three theorems on a CUDA device, and write the page that reports it.

    python -m tools gpu-record               # book/records/gpu.json and book/gpu.md
    python -m tools gpu-record --rehearse    # on a CPU and small, into _build/gpu

In five number formats and with each of PyTorch's attention kernels, the program measures the effect
of shifting all keys, zero in theory (theorem 3.2), and of shifting the queries; the gradient of the
key bias, zero in theory (theorem 3.5), and of the query bias; and, for ever longer sequences, the
time, the memory, and the error against attention in float64, merged from blocks (theorem 16.1).
The record keeps every repetition; the page shows medians and the largest errors.
"""

import json
import math
import subprocess
import time
import warnings
from itertools import product
from pathlib import Path
from statistics import median

import torch
import torch.nn.functional as F
from context_parallel import merge, partial_attention
from derivation.checks import normal
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.benchmark import timer

from tools.cells import table
from tools.files import ROOT, demand, write

TEMPLATE = Path(__file__).with_name("gpu_page.md")
#: {format: (dtype, whether float32 products may round their factors to TF32)}
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
FULL = {"heads": 8, "width": 64, "length": 1024, "seeds": [0, 1, 2, 3, 4]}
FULL |= {"shifts": [10.0**i for i in range(6)], "lengths": [1024 * 2**i for i in range(8)]}
SMALL = {"heads": 2, "width": 8, "length": 32, "seeds": [0, 1]}
SMALL |= {"shifts": [1.0, 100.0], "lengths": [32, 64]}


def ratio(found, expected):
    """max |found| / max |expected|, or None (which JSON can store) if that is not finite."""
    value = (found.double().abs().max() / expected.double().abs().max()).item()
    return value if math.isfinite(value) else None


def shift(device, dtype, sizes, size):
    """The relative change of the output, for each seed, if all keys or all queries are shifted."""
    shape, found = (sizes["heads"], sizes["length"], sizes["width"]), {"keys": [], "queries": []}
    for seed in sizes["seeds"]:
        q, k, v = normal(3, 1, *shape, dtype=dtype, device=device, seed=seed)
        b = size * normal(1, shape[0], 1, shape[2], device=device, seed=seed).sign().to(dtype)
        out = F.scaled_dot_product_attention(q, k, v)
        for what, shifted in {"keys": (q, k + b, v), "queries": (q + b, k, v)}.items():
            moved = F.scaled_dot_product_attention(*shifted)
            found[what].append(ratio(moved.double() - out.double(), out))
    return found


def gradient(device, dtype, sizes, seed):
    """max |gradient of the key bias| / max |gradient of the query bias|."""
    width = sizes["heads"] * sizes["width"]
    torch.manual_seed(seed)
    layer = nn.MultiheadAttention(width, sizes["heads"], batch_first=True).to(device, dtype)
    nn.init.normal_(layer.in_proj_bias)
    x, upstream = normal(2, 2, sizes["length"], width, dtype=dtype, device=device, seed=seed)
    layer(x, x, x, need_weights=False)[0].backward(upstream)
    query, key, _ = layer.in_proj_bias.grad.chunk(3)
    return {"ratio": ratio(key, query)}


@torch.no_grad()
def long(device, dtype, sizes, length):
    """The seconds, the bytes beyond the inputs, and the error of attention over ``length`` keys."""
    shape = (1, sizes["heads"], length, sizes["width"])
    q, k, v = (normal(*shape, dtype=dtype, device=device, seed=seed) for seed in range(3))
    F.scaled_dot_product_attention(q, k, v)  # untimed, because the first call sets up libraries
    before = torch.cuda.memory_allocated()  # 0 on a CPU
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    out = F.scaled_dot_product_attention(q, k, v)
    peak, seconds = torch.cuda.max_memory_allocated() - before, []
    for _ in range(7):
        start = timer()  # waits for the device
        F.scaled_dot_product_attention(q, k, v)
        seconds.append(timer() - start)
    rows = torch.linspace(0, length - 1, min(64, length), device=device).long()
    exact = in_blocks(q[:, :, rows], k, v)
    return {"seconds": seconds, "bytes": peak, "error": ratio(out[:, :, rows] - exact, exact)}


def in_blocks(q, k, v, chunk=8192):
    """Attention in float64, computed for blocks of keys and merged (theorem 16.1)."""
    blocks = zip(*(x.double().split(chunk, dim=2) for x in (k, v)))
    parts = [partial_attention(q.double(), keys, values) for keys, values in blocks]
    return merge(*map(torch.stack, zip(*parts)))[0]


#: {field of the sizes: the experiment that runs once for each value of this field}
EXPERIMENTS = {"shifts": shift, "seeds": gradient, "lengths": long}


def attempt(measure, *given):
    """The result of a measurement, or the reason in words if PyTorch refuses or fails."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return measure(*given)
    except torch.OutOfMemoryError:
        return "out of memory"
    except RuntimeError as error:
        missing = str(error).strip().startswith(("No available", "No viable"))
        return "not offered" if missing else f"failed: {str(error).strip().splitlines()[0][:200]}"


def measured(device, sizes):
    """{experiment: {format: {size: {kernel: the result, or why there is none}}}}"""
    results = {}
    for (name, experiment), format in product(EXPERIMENTS.items(), FORMATS):
        dtype, tf32 = FORMATS[format]
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = tf32
        print(f"{name}, {format}", flush=True)
        rows = results.setdefault(name, {})[format] = {}
        for size, (kernel, backend) in product(sizes[name], KERNELS.items()):
            with sdpa_kernel(backend):
                found = attempt(experiment, device, dtype, sizes, size)
            rows.setdefault(f"{size:,}", {})[kernel] = found
            torch.cuda.empty_cache()
    return results


def machine(device):
    """{field: text} that describes this machine and this record."""
    commit = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else "a CPU: a rehearsal",
        "CUDA": torch.version.cuda or "none",
        "PyTorch": torch.__version__,
        "commit": subprocess.run(commit, cwd=ROOT, capture_output=True, text=True).stdout.strip(),
        "taken": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def page(record):
    grids = {name: grid(name, results) for name, results in record["results"].items()}
    machine = table(["what", "of this record"], record["machine"].items())
    return TEMPLATE.read_text(encoding="utf-8").format(machine=machine, **grids)


def grid(what, results):
    """A table with a line for each format and size, and a column for each kernel."""
    lines = [
        [format, size, *map(in_words, row.values())]
        for format, rows in results.items()
        for size, row in rows.items()
    ]
    return table(["format", what.removesuffix("s"), *KERNELS], lines)


def in_words(found):
    """A result, or why there is none."""
    shown = lambda of, values: "not finite" if None in values else f"{of(values):.1e}"
    match found:
        case {"keys": keys, "queries": queries}:
            return f"{shown(max, keys)}, {shown(min, queries)}"
        case {"ratio": ratio}:
            return shown(max, [ratio])
        case {"seconds": seconds, "bytes": size, "error": error}:
            memory = f", {size / 2**30:.2g} GiB" if size else ""
            return f"{1e3 * median(seconds):.3g} ms{memory}, {shown(max, [error])}"
    return found


def main(option=""):
    """Run all experiments; write the record, and from it the page."""
    demand(option in ("", "--rehearse"), f"There is no option {option}: --rehearse takes a CPU")
    rehearsed = option != ""
    there = rehearsed or torch.cuda.is_available()
    demand(there, "There is no CUDA device here: --rehearse takes a CPU")
    device, sizes = ("cpu", SMALL) if rehearsed else ("cuda", FULL)
    book = ROOT / "_build" / "gpu" if rehearsed else ROOT / "book"
    (book / "records").mkdir(parents=True, exist_ok=True)
    record = {"machine": machine(device), "sizes": sizes, "results": measured(device, sizes)}
    write(book / "records" / "gpu.json", json.dumps(record, indent=1) + "\n")
    write(book / "gpu.md", page(record))
    print(f"The page: {book / 'gpu.md'}; `- file: book/gpu` in _toc.yml puts it into the book.")
