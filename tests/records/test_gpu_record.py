"""A rehearsal of the GPU record on a CPU is complete and agrees with the theorems."""

import json

import pytest
from derivation.checks import SEEN, tolerance

from tools.records import gpu_record
from tools.records.gpu_record import EXPERIMENTS, FORMATS, KERNELS, SMALL


@pytest.mark.nightly
def test_a_rehearsal_is_complete_and_agrees_with_the_theorems(tmp_path, monkeypatch):
    monkeypatch.setattr(gpu_record, "ROOT", tmp_path)
    gpu_record.main("--rehearse")
    book = tmp_path / "_build" / "gpu"
    page = (book / "gpu.md").read_text()
    assert "a CPU: a rehearsal" in page and "{" not in page and "not offered" in page
    results = json.loads((book / "records/gpu.json").read_text())["results"]
    assert {*results} == {*EXPERIMENTS}
    for found in results.values():
        assert {*found} == {*FORMATS}
        assert all({*row} == {*KERNELS} for rows in found.values() for row in rows.values())
    inner = SMALL["length"], SMALL["width"]
    for format in ("float64", "float32"):
        dtype, _ = FORMATS[format]
        for size, row in zip(SMALL["shifts"], results["shifts"][format].values()):
            bound = tolerance(dtype, inner, shift=size)
            assert max(row["math"]["keys"]) < bound
            assert min(row["math"]["queries"]) > SEEN[dtype] * bound
        for row in results["seeds"][format].values():
            assert row["math"]["ratio"] < tolerance(dtype, inner)
        for row in results["lengths"][format].values():
            assert row["math"]["error"] < tolerance(dtype, inner, shift=4)
