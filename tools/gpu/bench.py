"""What the experiments share: number formats, kernels, the clock, and what may fail."""

import gc
import math
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from .record import FAILED, NOT_OFFERED, OUT_OF_MEMORY

#: TF32 is no type of its own: float32 whose products may be taken with ten bits of fraction.
DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "tf32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
BACKENDS = {
    "math": SDPBackend.MATH,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "flash": SDPBackend.FLASH_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
}
#: How PyTorch says that a kernel does not take what it was given.
REFUSALS = ("No available kernel", "No viable backend")
MOST_CALLS = 100


@dataclass(frozen=True)
class Sizes:
    """How large everything is; a record holds all of it as its settings."""

    heads: int = 8
    width: int = 64  # of each head
    length: int = 1024  # queries and keys, where the length does not vary
    seeds: int = 5
    shifts: tuple = (1.0, 10.0, 100.0, 1e3, 1e4, 1e5)
    lengths: tuple = tuple(1024 * 2**i for i in range(8))  # to 131,072
    rows: int = 64  # queries of each head that are compared with the reference
    chunk: int = 8192  # keys that the reference takes at a time
    repeats: int = 7
    warm_up: int = 2
    least_seconds: float = 0.02  # a repeat is as many calls as fill this time
    copied_bytes: int = 2**30
    matrix: int = 8192  # rows and columns of the matrices whose product is timed
    samples: int = 4096  # rows of the batch before BatchNorm


SMALL = Sizes(
    heads=2, width=8, length=32, seeds=2, shifts=(1.0, 100.0, 1e5), lengths=(32, 64), rows=4,
    chunk=16, repeats=5, warm_up=1, least_seconds=0.0, copied_bytes=2**16, matrix=64, samples=64,
)  # fmt: skip


# ---- the clock ----------------------------------------------------------------------


def seconds_on_cuda(run):
    """Seconds of device time that `run` takes."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) / 1e3


def seconds_on_cpu(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


CLOCKS = {"cuda": seconds_on_cuda, "cpu": seconds_on_cpu}


@dataclass(frozen=True)
class Bench:
    """A device, how large everything is on it, and its clock: the seconds that a call takes."""

    device: torch.device
    sizes: Sizes
    seconds: Callable

    def repeats(self, run):
        """Seconds for one call of `run`, measured often, each time over as many calls as needed."""
        once = [self.seconds(run) for _ in range(self.sizes.warm_up)][-1]
        wanted = math.ceil(self.sizes.least_seconds / once) if once else MOST_CALLS
        calls = min(MOST_CALLS, max(1, wanted))

        def several():
            for _ in range(calls):
                run()

        return [self.seconds(several) / calls for _ in range(self.sizes.repeats)]

    def peak_bytes(self, run):
        """(what `run` returns, the memory it needed beyond what was there); None on a CPU."""
        if self.device.type != "cuda":
            return run(), None
        torch.cuda.synchronize()
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        found = run()
        torch.cuda.synchronize()
        return found, torch.cuda.max_memory_allocated() - before

    def normal(self, *shape, seed, dtype=torch.float64):
        """Standard normal numbers, drawn on the CPU so that every device gets the same."""
        generator = torch.Generator().manual_seed(seed)
        # with 53 bits, so that float64 has to round them too where something is added
        drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
        return drawn.to(dtype).to(self.device)

    def signs(self, *shape, seed, dtype=torch.float64):
        """Plus and minus one at random."""
        generator = torch.Generator().manual_seed(seed)
        drawn = torch.randint(2, shape, generator=generator) * 2 - 1
        return drawn.to(self.device, dtype)

    def free(self):
        """Give back what a failed attempt left behind."""
        gc.collect()
        if self.device.type == "cuda":
            with suppress(RuntimeError):  # that of a device that no longer answers
                torch.cuda.empty_cache()

    def answers(self):
        """Whether the device still computes; some errors leave it unable to."""
        try:
            return torch.ones(2, device=self.device).sum().item() == 2
        except RuntimeError:
            return False


# ---- attention in a format, by a kernel ---------------------------------------------


@contextmanager
def number_format(name):
    """Products in this format: TF32 only where it is meant, no reduced sums; then as before."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    here = {
        (matmul, "allow_fp16_reduced_precision_reduction"): False,
        (matmul, "allow_bf16_reduced_precision_reduction"): False,
        (matmul, "allow_tf32"): name == "tf32",
        (cudnn, "allow_tf32"): name == "tf32",
    }
    before = {(place, flag): getattr(place, flag) for place, flag in here}
    try:
        for (place, flag), value in here.items():
            setattr(place, flag, value)
        yield DTYPES[name]
    finally:
        for (place, flag), value in before.items():
            setattr(place, flag, value)


def attend(q, k, v, kernel):
    """PyTorch's own attention by one kernel; q, k, v (1, heads, tokens, width)."""
    with sdpa_kernel(BACKENDS[kernel]):
        return F.scaled_dot_product_attention(q, k, v)


def relative_error(found, expected):
    """max |found - expected| / max |expected|; None where that is not finite."""
    found, expected = found.double(), expected.double()
    ratio = ((found - expected).abs().max() / expected.abs().max()).item()
    return ratio if math.isfinite(ratio) else None


# ---- steps, and what may fail -------------------------------------------------------


def step(bench, measure, **names):
    """A call that gives the row of these names: what was measured, or why it stopped."""
    return lambda: names | attempt(bench, lambda: measure(bench, **names))


def by_format(bench, measure):
    """{name of the step: its call}, for each number format."""
    return {name: step(bench, measure, format=name) for name in DTYPES}


def by_format_and_kernel(bench, measure):
    return {
        f"{name} {kernel}": step(bench, measure, format=name, kernel=kernel)
        for name in DTYPES
        for kernel in BACKENDS
    }


def attempt(bench, run):
    """What `run` returns, a dictionary; or, where it cannot be done, why it stopped."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            return run()
        except torch.OutOfMemoryError as error:
            stopped = reason(error, OUT_OF_MEMORY)
        except RuntimeError as error:
            stopped = reason(error, NOT_OFFERED if is_refusal(error) else FAILED)
    bench.free()  # only now, when the error no longer holds the tensors
    because = dict.fromkeys(sentence(warning.message) for warning in said)
    return stopped | {"message": " ".join([stopped["message"], *because])}


def reason(error, stopped):
    return {"stopped": stopped, "message": sentence(error)}


def is_refusal(error):
    return any(words in str(error) for words in REFUSALS)


def sentence(message):
    """The first line of a message, without the place in PyTorch's own source."""
    first = (str(message).strip().splitlines() or [type(message).__name__])[0]
    return " ".join(first.partition("(Triggered internally")[0].split())[:300]
