"""The record of a GPU, rehearsed on a CPU: whole, true where a CPU can say, and refused as a record."""

import json

import gpu_record
import pytest
import torch
from derivation.checks import SEEN, normal, tolerance
from gpu_record import EXPERIMENTS, FORMATS, KERNELS, SMALL, in_blocks


@pytest.mark.nightly
def test_a_rehearsal_is_whole_and_says_what_the_theorems_say(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_record, "ROOT", tmp_path)
    assert gpu_record.main(["--rehearse"]) == 0
    book = tmp_path / "_build" / "gpu"
    results = json.loads((book / "records/gpu.json").read_text())["results"]
    assert {*results} == {*EXPERIMENTS}
    for found in results.values():
        assert {*found} == {*FORMATS}
        assert all({*row} == {*KERNELS} for rows in found.values() for row in rows.values())
    page = (book / "gpu.md").read_text()
    assert "a CPU: a rehearsal" in page and "{" not in page
    assert "not offered" in page and page.count("| bfloat16 |") == 6
    inner = SMALL["length"], SMALL["width"]
    for format in ("float64", "float32"):
        dtype, _ = FORMATS[format]
        for size, row in zip(SMALL["shifts"], results["shifts"][format].values()):
            bound = tolerance(dtype, inner, shift=size)
            assert max(row["math"]["keys"]) < bound
            assert min(row["math"]["queries"]) > SEEN[dtype] * bound
        for row in results["seeds"][format].values():
            assert row["math"]["ratio"] < tolerance(dtype, inner)


def test_what_is_not_finite_is_said_and_the_error_is_against_attention_itself():
    found = gpu_record.shift("cpu", torch.float16, SMALL, 1e5)  # which is infinite in float16
    assert found["keys"] == [None, None] and gpu_record.shown(max, found["keys"]) == "not finite"
    q, k, v = normal(3, 1, 2, 40, 8, seed=1)
    exact = torch.softmax(q @ k.mT / 8**0.5, -1) @ v
    assert (in_blocks(q, k, v, chunk=7) - exact).abs().max() < 1e-14
    assert 1e-4 < gpu_record.long("cpu", torch.bfloat16, SMALL, 32)["error"] < 0.1


def test_no_record_is_taken_on_a_cpu(capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_record.main([]) == 1 and "no CUDA device" in capsys.readouterr().err
