"""The numeric side: measure an error, judge it against a stated bound, and let a control fail.

An identity that is proved for all sizes is still run in PyTorch, on its own modules where it has
them.  What may remain is rounding, and the tolerance says how much:

    tolerance = 4 (u L + u_acc (sqrt(n_1) + … + sqrt(n_L)) + u s)

u is the unit roundoff of the dtype (2^-53, 2^-24, 2^-8 for float64, float32, bfloat16), L the
number of sums an output passes through, each of which is stored and rounded once; n_1 … n_L
their lengths, and u_acc the unit roundoff they are accumulated in (that of float32 for
bfloat16); s the largest amount by which the check shifts a score.  The square root is what
independent rounding errors of mean zero add up to; the factor 4 makes an excess a matter of
less than one in a thousand.  Source: N. J. Higham and T. Mary, "A new approach to
probabilistic rounding error analysis", SIAM J. Sci. Comput. 41 (2019).

This module needs torch; the rest of the package does not.
"""

from __future__ import annotations

import math
import sys

from .versions import require

require("torch")

import torch  # noqa: E402  (once it is known to be one that this module can use)

from .theorems import Theorem  # noqa: E402

UNIT_ROUNDOFF = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.bfloat16: 2.0**-8}
ACCUMULATED_IN = {
    torch.float64: torch.float64,
    torch.float32: torch.float32,
    torch.bfloat16: torch.float32,
}
DTYPES = tuple(UNIT_ROUNDOFF)
#: Bytes that an accelerator has to have free for the notebooks to take it; a generous guess.
ROOM = 2**30
CONFIDENCE = 4

#: By what factor a control must exceed the tolerance.  In bfloat16, whose tolerance is near a
#: tenth for a whole attention layer, there is no room for orders of magnitude.
SEEN = {torch.float64: 1e6, torch.float32: 1e3, torch.bfloat16: 2.0}


class CheckFailed(AssertionError):
    """A measured error on the wrong side of its bound; says which, by how much."""


class NoRoom(RuntimeError):
    """A check ran out of the device's memory; a notebook shows the sentence, without a traceback."""

    def _render_traceback_(self):
        return [str(self)]


def start(seed=0, device=None):
    """The device to use; seeds torch, and turns reduced precision of matrix products off.

    It is the accelerator that torch reports, of whatever maker, when it computes in float64 and
    has room; else the CPU, and a line on standard error says what the accelerator lacks.
    ``device`` overrides the choice; ValueError says when it is not there.
    """
    if device is None:
        device = _accelerator() or "cpu"
    try:
        chosen = torch.device(device)
        torch.empty(1, device=chosen)
    except (RuntimeError, AssertionError) as error:
        reason = _first_line(error)
        raise ValueError(
            f"there is no device {device!r} here ({reason}); use 'cpu', or name none"
        ) from None
    torch.manual_seed(seed)
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    return chosen


def _accelerator():
    """The accelerator, if there is one that can run the checks; a line says where it cannot."""
    if not torch.accelerator.is_available():
        return None
    device = torch.accelerator.current_accelerator()
    lack = _lack(device)
    if lack:
        print(f"The accelerator {device} {lack}: this runs on the CPU.", file=sys.stderr)
        return None
    return device


def _lack(device):
    """What a device lacks to run the checks, in words; None where it lacks nothing."""
    try:
        # Made and multiplied: some devices store float64 and do not compute in it.
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
    return lines[0].partition(". ")[0]  # some of torch's are a page in one line


def normal(*shape, dtype=torch.float64, device="cpu", seed=0):
    """Standard normal numbers, the same on every device and, up to rounding, in every dtype."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(device, dtype)


def with_random_biases(module, dtype=torch.float64, device="cpu", seed=0):
    """The module in eval mode, every bias replaced by standard normal numbers.

    PyTorch starts attention biases at zero, where a check of biases passes whatever the truth.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "bias" in name:
                parameter.copy_(
                    torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
                )
    return module.to(device, dtype).eval()


def error(measured, expected):
    """max |measured - expected| / max |expected|, in float64.

    Raises ValueError when the shapes differ or the expectation is zero everywhere.
    """
    if measured.shape != expected.shape:
        raise ValueError(f"shapes differ: {tuple(measured.shape)} and {tuple(expected.shape)}")
    measured, expected = measured.detach().double(), expected.detach().double()
    scale = expected.abs().max().item()
    if scale == 0:
        raise ValueError("the expected value is zero everywhere: a relative error says nothing")
    return (measured - expected).abs().max().item() / scale


def tolerance(dtype, sums, shift=0.0):
    """The bound on a relative error after sums of the lengths given; see the formula above.

    ``sums`` are the lengths of the sums an output passes through; ``shift`` the largest amount
    by which scores are shifted.  Raises ValueError for a dtype without a unit roundoff here.
    """
    if dtype not in UNIT_ROUNDOFF:
        raise ValueError(
            f"no tolerance is stated for {dtype}; use one of {', '.join(map(str, DTYPES))}"
        )
    unit, accumulated = UNIT_ROUNDOFF[dtype], UNIT_ROUNDOFF[ACCUMULATED_IN[dtype]]
    return CONFIDENCE * (unit * len(sums) + accumulated * sum(map(math.sqrt, sums)) + unit * shift)


def judge(theorem, measure, sums, shift=0.0, dtypes=DTYPES):
    """Passes when ``measure(dtype)`` stays within the tolerance for every dtype, and says so.

    ``theorem`` is the theorem that is checked.  Raises CheckFailed with the error and the bound.
    """
    if not isinstance(theorem, Theorem):
        raise TypeError(f"judge takes the theorem that is checked, not {theorem!r}")
    bounds = {dtype: tolerance(dtype, sums, shift) for dtype in dtypes}
    for dtype, bound in bounds.items():
        found = _measured(measure, dtype, theorem.title)
        if not found <= bound:
            raise CheckFailed(
                f"{theorem.title}: error {found:.1e} in {_name(dtype)}, tolerance {bound:.1e}"
            )
    within = ", ".join(f"{_rounded_up(b)} in {_name(dtype)}" for dtype, b in bounds.items())
    print(f"PASS  {theorem.title}: error within {within}")


def control(claim, measure, sums, shift=0.0, dtypes=DTYPES):
    """Passes when a false claim is seen to be false: far beyond the tolerance in every dtype.

    The factor is 10^6 in float64, 10^3 in float32 and 2 in bfloat16.  Raises CheckFailed.
    """
    least = math.inf
    for dtype in dtypes:
        found = _measured(measure, dtype, claim)
        bound = SEEN[dtype] * tolerance(dtype, sums, shift)
        if not found >= bound:
            raise CheckFailed(
                f"the control {claim!r} is not seen in {_name(dtype)}: {found:.1e} < {bound:.1e}"
            )
        least = min(least, found)
    print(f"PASS  control: {claim}: error above {_power_of_ten(least)} in {_names(dtypes)}")


def _rounded_up(bound):
    """A bound in one digit, never below itself: every processor prints the same."""
    unit = 10.0 ** math.floor(math.log10(bound))
    return f"{math.ceil(bound / unit) * unit:.1g}"


def _power_of_ten(least):
    """A power of ten that is not above what was seen: every processor prints the same."""
    return f"{10.0 ** math.floor(math.log10(least)):.1g}" if math.isfinite(least) else "any bound"


def _measured(measure, dtype, what):
    """What is measured; NoRoom where the device has not the memory for it."""
    try:
        return measure(dtype)
    except torch.OutOfMemoryError:
        raise NoRoom(
            f"the device ran out of memory in {_name(dtype)}, in the check of {what}: "
            'write start(seed=0, device="cpu") in the first cell, and run the notebook again'
        ) from None


def _name(dtype):
    return str(dtype).removeprefix("torch.")


def _names(dtypes):
    return ", ".join(map(_name, dtypes))
