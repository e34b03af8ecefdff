"""The numeric side: it measures what it says, and each of its verdicts can go either way."""

import math
import re
from types import SimpleNamespace

import pytest
import torch
from derivation import Derivation, matrix, sizes
from derivation.checks import (
    DTYPES,
    ROOM,
    UNIT_ROUNDOFF,
    CheckFailed,
    NoRoom,
    control,
    error,
    judge,
    normal,
    start,
    tolerance,
    with_random_biases,
)
from torch import nn
from torch.overrides import TorchFunctionMode

n = sizes("n")
THEOREM = (
    Derivation("Doubling", matrix("A", n) + matrix("A", n))
    .by(2 * matrix("A", n))
    .qed("Theorem 9.9")
)


def test_the_tolerance_is_the_formula_stated():
    u = 2.0**-24
    assert UNIT_ROUNDOFF == {dtype: torch.finfo(dtype).eps / 2 for dtype in DTYPES}
    assert tolerance(torch.float32, (64, 16), shift=3) == pytest.approx(
        4 * (2 * u + u * (8 + 4) + 3 * u)
    )
    coarse = tolerance(torch.bfloat16, (64,))
    assert coarse == pytest.approx(4 * (2.0**-8 + u * 8))


def test_a_dtype_without_a_tolerance_is_refused():
    with pytest.raises(ValueError, match="float16"):
        tolerance(torch.float16, (4,))


def test_error_is_relative_to_the_largest_entry():
    assert error(torch.tensor([4.0, 1.5]), torch.tensor([4.0, 1.0])) == 0.125
    with pytest.raises(ValueError, match="shapes differ"):
        error(torch.ones(2), torch.ones(3))
    with pytest.raises(ValueError, match="zero everywhere"):
        error(torch.ones(2), torch.zeros(2))


def test_judge_passes_and_fails(capsys):
    judge(THEOREM, lambda dtype: 0.0, sums=(8,))
    said = re.fullmatch(
        "PASS  Theorem 9.9 .Doubling.: error within (.+) in float64, (.+) in float32, (.+) in bfloat16\n",
        capsys.readouterr().out,
    )
    for bound, dtype in zip(said.groups(), DTYPES):  # one digit, and never below the tolerance
        assert tolerance(dtype, (8,)) <= float(bound) < 2 * tolerance(dtype, (8,))
    for bad in (1.0, math.nan):
        with pytest.raises(CheckFailed, match=r"Theorem 9.9 \(Doubling\): error .* in float64"):
            judge(THEOREM, lambda dtype, bad=bad: bad, sums=(8,))
    with pytest.raises(CheckFailed, match="bfloat16"):
        judge(THEOREM, lambda dtype: 0.5 if dtype is torch.bfloat16 else 0.0, sums=(8,))


def test_judge_wants_a_theorem():
    with pytest.raises(TypeError, match="takes the theorem"):
        judge("Theorem 9.9", lambda dtype: 0.0, sums=(8,))


def test_a_control_that_is_not_seen_fails(capsys):
    control("twice as much", lambda dtype: 0.7, sums=(8,))
    assert "PASS  control: twice as much: error above 0.1 in float64" in capsys.readouterr().out
    for unseen in (0.0, 1e-9, math.nan):
        with pytest.raises(CheckFailed, match="is not seen"):
            control("nothing", lambda dtype, unseen=unseen: unseen, sums=(8,))


def test_random_biases_reach_every_bias_and_no_weight():
    module = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    weights = {name: p.clone() for name, p in module.named_parameters() if "bias" not in name}
    with_random_biases(module, torch.float32)
    assert not module.training
    for name, parameter in module.named_parameters():
        if "bias" in name:
            assert parameter.abs().min() > 0
        else:
            assert torch.equal(parameter, weights[name])


def test_normal_numbers_are_the_same_in_every_dtype():
    fine, coarse = normal(5, 3), normal(5, 3, dtype=torch.bfloat16)
    assert torch.equal(fine.bfloat16(), coarse)
    assert not torch.equal(fine, normal(5, 3, seed=1))


@pytest.mark.parametrize("name", ["nonsense", "ipu", "cuda:99"])
def test_a_device_that_is_not_there_is_named_in_one_sentence(name):
    with pytest.raises(ValueError, match=f"there is no device '{name}' here") as refused:
        start(device=name)
    said = str(refused.value)
    assert said.endswith("; use 'cpu', or name none") and "\n" not in said and len(said) < 400


# ---- which device is chosen. torch's "meta" stands for an accelerator: it has every operation,
# and keeps no numbers; what it is to lack is refused by hand, in the words of those that lack it.

PRETENDED = torch.device("meta")


class Lacking(TorchFunctionMode):
    """On the pretended accelerator, some calls raise."""

    def __init__(self, error, when):
        super().__init__()
        self.error, self.when = error, when

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if self.when(getattr(function, "__name__", "").strip("_"), args, kwargs):
            raise self.error
        return function(*args, **kwargs)


def reports(monkeypatch, device, released=None):
    """What torch says of accelerators."""
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: device is not None)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: device)
    keeps = {} if released is None else {"empty_cache": lambda: released.append("released")}
    monkeypatch.setattr(torch, "get_device_module", lambda name: SimpleNamespace(**keeps))


def test_without_an_accelerator_it_is_the_cpu(monkeypatch, capsys):
    reports(monkeypatch, None)
    assert start() == torch.device("cpu")
    assert capsys.readouterr() == ("", "")


def test_an_accelerator_is_taken_whatever_its_name(monkeypatch, capsys):
    released = []
    reports(monkeypatch, PRETENDED, released)
    assert start() == PRETENDED and released == ["released"]
    reports(monkeypatch, PRETENDED)  # one that keeps no cache
    assert start() == PRETENDED
    assert start(device="cpu") == torch.device("cpu")
    assert capsys.readouterr() == ("", "")


#: The error, the call that raises it, and what is said of the accelerator.
LACKS = {
    "float64 is not made": (
        TypeError("Cannot convert a MPS Tensor to float64 dtype"),
        lambda name, args, kwargs: (
            (kwargs.get("dtype"), kwargs.get("device")) == (torch.float64, PRETENDED)
        ),
        "does not compute in float64 (Cannot convert a MPS Tensor to float64 dtype)",
    ),
    "float64 is not computed": (
        RuntimeError("Required aspect fp64 is not supported\nMore"),
        lambda name, args, kwargs: name == "matmul",
        "does not compute in float64 (Required aspect fp64 is not supported)",
    ),
    "room": (
        torch.OutOfMemoryError("out of memory. Tried to allocate 1.00 GiB.\nMore"),
        lambda name, args, kwargs: name == "empty" and args == (ROOM,),
        "has less than 1 GiB of memory free",
    ),
}


@pytest.mark.parametrize("error, when, words", LACKS.values(), ids=LACKS)
def test_one_that_lacks_something_is_left_alone_and_a_line_says_so(
    monkeypatch, capsys, error, when, words
):
    reports(monkeypatch, PRETENDED)
    with Lacking(error, when):
        assert start() == torch.device("cpu")
    said = f"The accelerator meta {words}: this runs on the CPU.\n"
    assert capsys.readouterr() == ("", said)


def test_a_check_without_room_says_what_to_do():
    """No device was out of memory here: its error is raised by hand."""

    def without_room(dtype):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1.00 GiB.\nMore")

    for check, what in ((judge, THEOREM), (control, "a claim")):
        with pytest.raises(NoRoom, match="out of memory in float64") as refused:
            check(what, without_room, sums=(4,))
        assert 'start(seed=0, device="cpu")' in str(refused.value)
        assert refused.value._render_traceback_() == [str(refused.value)]
