"""The numeric checks measure correctly, and each can pass and fail."""

import math
import re
from types import SimpleNamespace

import pytest
import torch
from derivation import Derivation, checks, matrix, sizes
from derivation.checks import DTYPES, CheckFailed, control, error, judge, normal, start, tolerance
from torch import nn

A = matrix("A", sizes("n"))
THEOREM = Derivation("Doubling", A + A).by(2 * A).qed("Theorem 9.9")


def test_the_tolerance_and_the_error_are_the_formulas_stated():
    u = 2.0**-24
    assert checks.UNIT_ROUNDOFF == {dtype: torch.finfo(dtype).eps / 2 for dtype in DTYPES}
    stated = 4 * (2 * u + u * (8 + 4) + 3 * u)
    assert tolerance(torch.float32, (64, 16), shift=3) == pytest.approx(stated)
    assert tolerance(torch.bfloat16, (64,)) == pytest.approx(4 * (2.0**-8 + u * 8))
    # an error is relative to the largest entry
    assert error(torch.tensor([4.0, 1.5]), torch.tensor([4.0, 1.0])) == 0.125


REFUSED = {
    "no tolerance is stated for torch.float16": lambda: tolerance(torch.float16, (4,)),
    "shapes differ": lambda: error(torch.ones(2), torch.ones(3)),
    "zero everywhere": lambda: error(torch.ones(2), torch.zeros(2)),
    "takes the theorem": lambda: judge("Theorem 9.9", lambda dtype: 0.0, sums=(8,)),
    "^there is no device 'cuda:99' here .{1,300}; use 'cpu'": lambda: start(device="cuda:99"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_a_mistake_is_answered_in_a_sentence(words):
    with pytest.raises((ValueError, TypeError), match=words):
        REFUSED[words]()


def test_judge_passes_and_fails(capsys):
    judge(THEOREM, lambda dtype: 0.0, sums=(8,))
    bounds = re.findall(r"[\d.]+e-\d+|0\.\d+", capsys.readouterr().out)
    for bound, dtype in zip(bounds, DTYPES, strict=True):
        assert tolerance(dtype, (8,)) <= float(bound) < 2 * tolerance(dtype, (8,))  # rounded up
    for bad in (1.0, math.nan):
        with pytest.raises(CheckFailed, match=r"Theorem 9.9 \(Doubling\): error .* in float64"):
            judge(THEOREM, lambda dtype, bad=bad: bad, sums=(8,))
    with pytest.raises(CheckFailed, match="bfloat16"):
        judge(THEOREM, lambda dtype: 0.5 if dtype is torch.bfloat16 else 0.0, sums=(8,))


def test_a_control_that_does_not_fail_is_refused(capsys):
    control("twice as much", lambda dtype: 0.7, sums=(8,))
    said = "PASS  control: twice as much: error ≥ bound × 1,000,000 in float64"
    assert said in capsys.readouterr().out
    for unseen in (0.0, 1e-9, math.nan):
        with pytest.raises(CheckFailed, match="did not fail"):
            control("nothing", lambda dtype, unseen=unseen: unseen, sums=(8,))


def test_random_biases_reach_every_bias_and_no_weight():
    module = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    before = {name: p.clone() for name, p in module.named_parameters()}
    assert not checks.with_random_biases(module, torch.float32).training
    for name, parameter in module.named_parameters():
        kept = torch.equal(parameter, before[name])
        assert parameter.abs().min() > 0 and not kept if "bias" in name else kept


def test_normal_numbers_are_the_same_in_every_dtype():
    fine, coarse = normal(5, 3), normal(5, 3, dtype=torch.bfloat16)
    assert torch.equal(fine.bfloat16(), coarse)
    assert not torch.equal(fine, normal(5, 3, seed=1))


# ---- the choice of a device.  The tests use torch's "meta" device as an accelerator, as it has
# every operation and stores no numbers.

PRETENDED = torch.device("meta")


def reports(monkeypatch, device, module=None):
    """Make torch report this accelerator (or none), with ``module`` as its device module."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: device is not None)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: device)
    monkeypatch.setattr(torch, "get_device_module", lambda name: module or SimpleNamespace())


def test_an_accelerator_of_any_name_is_chosen(monkeypatch, capsys):
    reports(monkeypatch, None)
    assert start() == torch.device("cpu")
    released = []
    reports(monkeypatch, PRETENDED, SimpleNamespace(empty_cache=lambda: released.append(1)))
    assert start() == PRETENDED and released
    assert start(device="cpu") == torch.device("cpu") and capsys.readouterr() == ("", "")


NO_ROOM = torch.OutOfMemoryError("out of memory. Tried to allocate 1.00 GiB.\nMore")
NO_FLOAT64 = RuntimeError("Required aspect fp64 is not supported\nMore")
#: (an operation, its error on the accelerator, words of the message to the user)
LACKS = [
    (torch.Tensor, "__matmul__", NO_FLOAT64, "float64 (Required aspect fp64 is not supported)"),
    (torch, "empty", NO_ROOM, "has less than 1 GiB of memory free"),
]


@pytest.mark.parametrize("owner, operation, error, words", LACKS)
def test_an_unsuitable_accelerator_is_not_chosen_and_a_message_says_why(
    monkeypatch, capsys, owner, operation, error, words
):
    reports(monkeypatch, PRETENDED)
    original = getattr(owner, operation)

    def lacking(*given, **options):
        if options.get("device", PRETENDED) == PRETENDED:
            raise error
        return original(*given, **options)

    monkeypatch.setattr(owner, operation, lacking)
    assert start() == torch.device("cpu")
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith("The accelerator meta ")
    assert said.err.endswith(f"{words}: this runs on the CPU.\n")


def test_a_check_without_memory_names_a_remedy():
    def without_room(dtype):
        raise NO_ROOM

    with pytest.raises(checks.NoRoom, match='in float64.*start.seed=0, device="cpu"') as no:
        judge(THEOREM, without_room, sums=(4,))
    assert no.value._render_traceback_() == [str(no.value)]
