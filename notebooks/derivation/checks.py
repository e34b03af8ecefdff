"""The numeric side: measure an error, judge it against a stated bound, and see a false claim fail.

Identities proved for all sizes are also evaluated in PyTorch, by its own modules where they exist.
Only rounding errors may remain, and the tolerance bounds them:

    tolerance = 4 (u L + u_acc (sqrt(n_1) + … + sqrt(n_L)) + u s)

u is the unit roundoff of the dtype (2^-53, 2^-24, 2^-8 for float64, float32, bfloat16).  L is the
number of sums that an output passes through, each of which is rounded once when it is stored;
n_1 … n_L are their lengths; u_acc is the unit roundoff of the accumulation (that of float32 for
bfloat16); s is the largest amount by which the check shifts a score.  Independent rounding errors of
mean zero add up like the square root of their number; with the factor 4, fewer than one check in a
thousand exceeds the bound.  Source: N. J. Higham and T. Mary, "A new approach to probabilistic
rounding error analysis", SIAM J. Sci. Comput. 41 (2019).

This module needs torch; the rest of the package does not.
"""

import math
import sys
from collections.abc import Callable, Sequence

from .proving import Theorem
from .versions import require

require("torch")

import torch  # noqa: E402  (after the version check)


UNIT_ROUNDOFF = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}
#: The dtypes whose sums are accumulated in another dtype.
ACCUMULATED_IN = {torch.bfloat16: torch.float32}
DTYPES = tuple(UNIT_ROUNDOFF)
#: The free memory in bytes that the notebooks require of an accelerator; a generous guess.
ROOM = 2**30
CONFIDENCE = 4

#: The factor by which a control must exceed the tolerance.  In bfloat16, whose tolerance is close to
#: a tenth for a whole attention layer, an error cannot be orders of magnitude larger.
SEEN = {torch.float64: 1e6, torch.float32: 1e3, torch.bfloat16: 2.0}


class CheckFailed(AssertionError):
    """A measured error is on the wrong side of its bound; the message gives both."""


class NoRoom(RuntimeError):
    """A check ran out of device memory; a notebook shows the message without a traceback."""

    def _render_traceback_(self):
        return [str(self)]


def start(seed: int = 0, device: str | None = None) -> torch.device:
    """Return the device to use; seed torch, and turn off reduced precision of matrix products.

    The device is the accelerator that torch reports, of any maker, if it computes in float64 and
    has enough memory; otherwise the CPU, and a line on standard error says what the accelerator
    lacks.  ``device`` overrides the choice.  Raises ValueError if that device is not available.
    """
    if device is None:
        device = _accelerator() or "cpu"
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError) as error:
        missing = f"there is no device {device!r} here ({_first_line(error)})"
        raise ValueError(f"{missing}; use 'cpu', or name no device") from None
    torch.manual_seed(seed)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    return chosen


def _accelerator():
    """The accelerator if it can run the checks, else None; prints a line if it cannot."""
    if not torch.accelerator.is_available():
        return None
    device = torch.accelerator.current_accelerator()
    lack = _lack(device)
    if lack:
        print(f"The accelerator {device} {lack}: this runs on the CPU.", file=sys.stderr)
        return None
    return device


def _lack(device):
    """What a device lacks that the checks need, in words; None if it lacks nothing."""
    try:
        # Try a product, because some devices store float64 but cannot compute in it.
        ones = torch.ones(2, 2, dtype=torch.float64, device=device)
        (ones @ ones).sum()
        torch.empty(ROOM, dtype=torch.uint8, device=device)
    except torch.OutOfMemoryError:
        return f"has less than {ROOM / 2**30:g} GiB of memory free"
    except (RuntimeError, TypeError) as error:
        return f"does not compute in float64 ({_first_line(error)})"
    if release := getattr(torch.get_device_module(device), "empty_cache", None):
        release()
    return None


def _first_line(error):
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0].partition(". ")[0]  # some of torch's messages are a page long


def normal(*shape: int, dtype=torch.float64, device="cpu", seed: int = 0) -> torch.Tensor:
    """Standard normal numbers, the same on every device and, up to rounding, in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)


def with_random_biases(module, dtype=torch.float64, device="cpu", seed=0):
    """The module in eval mode with every bias replaced by standard normal numbers.

    PyTorch initialises attention biases to zero, which would make every check of a bias pass.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "bias" in name:
                shape = parameter.shape
                parameter.copy_(torch.randn(shape, generator=generator, dtype=torch.float64))
    return module.to(device, dtype).eval()


def error(measured: torch.Tensor, expected: torch.Tensor) -> float:
    """max |measured - expected| / max |expected|, in float64.

    Raises ValueError if the shapes differ or the expected values are all zero.
    """
    if measured.shape != expected.shape:
        raise ValueError(f"shapes differ: {tuple(measured.shape)} and {tuple(expected.shape)}")
    measured, expected = measured.detach().double(), expected.detach().double()
    scale = expected.abs().max().item()
    if scale == 0:
        raise ValueError("the expected value is zero everywhere: a relative error says nothing")
    return (measured - expected).abs().max().item() / scale


def tolerance(dtype: torch.dtype, sums: Sequence[int], shift: float = 0.0) -> float:
    """The bound on a relative error, by the formula in this module's docstring.

    ``sums`` are the lengths of the sums that an output passes through; ``shift`` is the largest
    amount by which scores are shifted.  Raises ValueError for a dtype without a known unit roundoff.
    """
    if dtype not in UNIT_ROUNDOFF:
        known = ", ".join(map(str, DTYPES))
        raise ValueError(f"no tolerance is stated for {dtype}; use one of {known}")
    unit, accumulated = UNIT_ROUNDOFF[dtype], UNIT_ROUNDOFF[ACCUMULATED_IN.get(dtype, dtype)]
    return CONFIDENCE * (unit * len(sums) + accumulated * sum(map(math.sqrt, sums)) + unit * shift)


def judge(
    theorem: Theorem, measure: Callable, sums: Sequence[int], shift: float = 0.0, dtypes=DTYPES
) -> None:
    """Check that ``measure(dtype)`` stays within the tolerance for every dtype, and print PASS.

    The printed line names the ``theorem``.  Raises CheckFailed with the error and the bound.
    """
    if not isinstance(theorem, Theorem):
        raise TypeError(f"judge takes the theorem that is checked, not {theorem!r}")
    bounds = {dtype: tolerance(dtype, sums, shift) for dtype in dtypes}
    for dtype, bound in bounds.items():
        found = _measured(measure, dtype, theorem.title)
        if not found <= bound:
            measured = f"error {found:.1e} in {_name(dtype)}, tolerance {bound:.1e}"
            raise CheckFailed(f"{theorem.title}: {measured}")
    within = ", ".join(f"{_rounded_up(b)} in {_name(dtype)}" for dtype, b in bounds.items())
    print(f"PASS  {theorem.title}: error within the bound of {within}")


def control(
    claim: str, measure: Callable, sums: Sequence[int], shift: float = 0.0, dtypes=DTYPES
) -> None:
    """Check that the error of a false claim far exceeds the tolerance in every dtype; print PASS.

    The least factor is 10^6 in float64, 10^3 in float32 and 2 in bfloat16.  Raises CheckFailed.
    """
    for dtype in dtypes:
        found = _measured(measure, dtype, claim)
        bound = SEEN[dtype] * tolerance(dtype, sums, shift)
        if not found >= bound:
            measured = f"in {_name(dtype)}: {found:.1e} < {bound:.1e}"
            raise CheckFailed(f"the control {claim!r} did not fail {measured}")
    factors = ", ".join(f"{SEEN[dtype]:,.0f} in {_name(dtype)}" for dtype in dtypes)
    print(f"PASS  control: {claim}: error ≥ bound × {factors}")


def _rounded_up(bound):
    """A bound rounded up to one digit, so that every processor prints the same digit."""
    unit = 10.0 ** math.floor(math.log10(bound))
    return f"{math.ceil(bound / unit) * unit:.1g}"


def _measured(measure, dtype, what):
    """The measured error; raises NoRoom if the device has too little memory."""
    try:
        return measure(dtype)
    except torch.OutOfMemoryError:
        full = f"the device ran out of memory in {_name(dtype)}, in the check of {what}"
        cure = 'write start(seed=0, device="cpu") in the first cell, and run the notebook again'
        raise NoRoom(f"{full}: {cure}") from None


def _name(dtype):
    return str(dtype).removeprefix("torch.")
