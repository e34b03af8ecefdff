"""The record of a GPU, rehearsed on a CPU: whole, true where a CPU can say, and refused as a record."""

import json

import gpu_record
import pytest
import torch
from derivation.checks import SEEN, normal, tolerance
from gpu_record import EXPERIMENTS, FORMATS, KERNELS, SMALL, attempt, in_blocks

CPU = "cpu"


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """(the record, the page) of a rehearsal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_record, "ROOT", root := tmp_path_factory.mktemp("root"))
        assert gpu_record.main(["--rehearse"]) == 0
        book = root / "_build" / "gpu"
        yield json.loads((book / "records/gpu.json").read_text()), (book / "gpu.md").read_text()


def test_every_experiment_is_taken_in_each_format_by_each_kernel(rehearsed):
    record, page = rehearsed
    assert {*record["results"]} == {*EXPERIMENTS}
    for name, found in record["results"].items():
        assert {*found} == {*FORMATS}
        assert all({*row} == {*KERNELS} for rows in found.values() for row in rows.values())
        assert not any(isinstance(row["math"], str) for row in found["float64"].values()), name
    assert "a CPU: a rehearsal" in page and "{" not in page
    assert "not offered" in page and page.count("| bfloat16 |") == 6


def test_a_shift_of_the_keys_is_rounding_and_one_of_the_queries_is_not(rehearsed):
    results, inner = rehearsed[0]["results"], (SMALL["length"], SMALL["width"])
    for format in ("float64", "float32"):
        dtype, _ = FORMATS[format]
        for size, row in zip(SMALL["shifts"], results["shifts"][format].values()):
            bound = tolerance(dtype, inner, shift=size)
            assert max(row["math"]["keys"]) < bound
            assert min(row["math"]["queries"]) > SEEN[dtype] * bound
        for row in results["seeds"][format].values():
            assert row["math"]["ratio"] < tolerance(dtype, inner)


def test_what_is_not_finite_is_said():
    """In float16 a shift of 1e5 is infinite: so is what comes of it."""
    found = gpu_record.shift(CPU, torch.float16, SMALL, 1e5)
    assert found["keys"] == found["queries"] == [None, None]
    assert gpu_record.shown(max, found["keys"]) == "not finite"


def test_the_error_is_against_attention_itself():
    q, k, v = normal(3, 1, 2, 40, 8, seed=1)
    exact = torch.softmax(q @ k.mT / 8**0.5, -1) @ v
    assert (in_blocks(q, k, v, chunk=7) - exact).abs().max() < 1e-14
    assert 1e-4 < gpu_record.long(CPU, torch.bfloat16, SMALL, 32)["error"] < 0.1


def test_no_record_is_taken_on_a_cpu_and_no_memory_is_said(capsys, monkeypatch):
    assert attempt(lambda: (_ for _ in ()).throw(torch.OutOfMemoryError("CUDA"))) == "out of memory"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_record.main([]) == 1 and "no CUDA device" in capsys.readouterr().err
