"""The record of a GPU, rehearsed on a CPU: whole, true where a CPU can say, and refused as a record."""

import json

import gpu_record
import pytest
import torch
from derivation.checks import SEEN, tolerance
from gpu_record import EXPERIMENTS, FORMATS, KERNELS, SMALL, attempt, in_blocks, lengths, normal

CPU = "cpu"


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """(the record, the page) of a rehearsal."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gpu_record, "ROOT", root := tmp_path_factory.mktemp("root"))
        (root / "notebooks").mkdir()
        (root / "notebooks" / "figures.mplstyle").write_text("")
        assert gpu_record.main(["--rehearse"]) == 0
        book = root / "_build" / "gpu"
        drawn = {"gpu-shifts.png", "gpu-times.png", "gpu-errors.png", "gpu.json"}
        assert {path.name for path in (book / "records").iterdir()} == drawn
        record = json.loads((book / "records" / "gpu.json").read_text())
        yield record, (book / "gpu.md").read_text()


def test_every_experiment_is_taken_in_each_format_by_each_kernel(rehearsed):
    record, page = rehearsed
    assert {*record["results"]} == {*EXPERIMENTS}
    for found in record["results"].values():
        assert {f: {*row} for f, row in found.items()} == {f: {*KERNELS} for f in FORMATS}
        assert not isinstance(found["float64"]["math"], str)
    assert "a CPU: a rehearsal" in page and "{" not in page.replace("```{figure}", "")
    assert "not offered" in page and page.count("| bfloat16 |") == 3


def test_a_shift_of_the_keys_is_rounding_and_one_of_the_queries_is_not(rehearsed):
    results, inner = rehearsed[0]["results"], (SMALL["length"], SMALL["width"])
    for format in ("float64", "float32"):
        dtype, _ = FORMATS[format]
        for row in results["shifts"][format]["math"]:
            bound = tolerance(dtype, inner, shift=row["at"])
            assert max(row["keys"]) < bound and min(row["queries"]) > SEEN[dtype] * bound
        assert max(results["gradients"][format]["math"]) < tolerance(dtype, inner)


def test_what_is_not_finite_is_said_and_drawn(rehearsed, tmp_path):
    """In float16 a shift of 1e5 is infinite: so is what comes of it."""
    record, page = rehearsed
    assert "| not finite |" not in page
    [row] = gpu_record.shifts(CPU, torch.float16, SMALL | {"shifts": [1e5], "seeds": 1})
    assert row["keys"] == row["queries"] == [None]
    record["results"]["shifts"]["float16"]["math"] = [row]
    assert gpu_record.page(record, tmp_path).count("| float16 | not finite |") == 1
    drawn = (gpu_record.ROOT / "_build/gpu/records/gpu-shifts.png").read_bytes()
    assert (tmp_path / "gpu-shifts.png").read_bytes() != drawn


def test_the_error_is_against_attention_itself():
    q, k, v = normal(CPU, 3, 1, 2, 40, 8, seed=1)
    exact = torch.softmax(q @ k.mT / 8**0.5, -1) @ v
    assert (in_blocks(q, k, v, chunk=7) - exact).abs().max() < 1e-14
    [first, *_] = lengths(CPU, torch.bfloat16, SMALL)
    assert 1e-4 < first["error"] < 0.1 and len(first["seconds"]) == SMALL["repeats"]


def test_no_record_is_taken_on_a_cpu_and_no_memory_is_said(capsys, monkeypatch):
    assert attempt(lambda: (_ for _ in ()).throw(torch.OutOfMemoryError("CUDA"))) == "out of memory"
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert gpu_record.main([]) == 1 and "no CUDA device" in capsys.readouterr().err
