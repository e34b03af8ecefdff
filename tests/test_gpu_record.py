"""The record of a GPU: rehearsed on the CPU, refused where it is none, drawn from its file.

No number here was measured on a GPU: `made_up` invents a record to draw, and says so.
"""

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import gpu_figures
import gpu_record
import nbformat
import pytest
import torch
import torch.nn.functional as F
from derivation.checks import SEEN, tolerance
from gpu import bench, chapters, facts, precision, rates, scale
from gpu.bench import BACKENDS, CLOCKS, DTYPES, SMALL, Bench, Sizes, attempt, number_format
from gpu.record import (
    BYTES,
    EXPERIMENTS,
    FAILED,
    KERNELS,
    NOT_OFFERED,
    OUT_OF_MEMORY,
    RecordError,
    check,
    copied_per_second,
    matrix_rate,
    read_record,
    share_of_bandwidth,
    share_of_matrix_rate,
    write,
)
from gpu_figures import Line, Plot
from gpu_page import PARTS
from nbformat.v4 import new_code_cell, new_notebook, new_output

ROOT = Path(__file__).resolve().parent.parent
CPU = Bench(torch.device("cpu"), SMALL, CLOCKS["cpu"])
NAME = "A made-up device"
UNCHANGED = {"commit": "made up", "changed": False, "changes": None}


def notebook(source, *outputs):
    return new_notebook(
        cells=[new_code_cell(source, outputs=list(outputs), execution_count=1)],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )


def printed(text):
    return new_output("stream", name="stdout", text=text)


# ---- the rehearsal ------------------------------------------------------------------


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """Everything at small size on the CPU, with two throw-away notebooks."""
    folder = tmp_path_factory.mktemp("notebooks")
    right, wrong = printed("PASS  two and two\n"), printed("PASS  two and three\n")
    nbformat.write(notebook("print('PASS  two and two')", right), folder / "kept.ipynb")
    nbformat.write(notebook("print('PASS  two and two')", wrong), folder / "changed.ipynb")
    output = tmp_path_factory.mktemp("out") / "gpu.json"
    options = ["--device", "cpu", "--small", "--output", output, "--notebooks", folder]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_VISIBLE_DEVICES", "")
        patch.setattr(facts, "source", lambda: UNCHANGED)
        assert gpu_record.main(list(map(str, options))) == 0
    return output


def test_the_rehearsal_takes_every_experiment(rehearsed):
    record = json.loads(rehearsed.read_text())
    check(record)
    assert list(record["results"]) == list(EXPERIMENTS)
    assert len(record["results"]["scale"]) == len(DTYPES) * len(BACKENDS)
    rows = record["results"]["precision"]
    assert rows["float32 efficient"]["stopped"] == NOT_OFFERED  # a CPU has no such kernel
    assert all("key" in rows[f"{name} math"] for name in DTYPES)
    assert os.listdir(rehearsed.parent) == ["gpu.json"], "the draft is gone"


def test_the_rehearsal_is_no_record(rehearsed):
    assert json.loads(rehearsed.read_text())["rehearsal"] is True
    with pytest.raises(RecordError, match="is a rehearsal, and no record"):
        read_record(rehearsed)


def test_it_notices_a_changed_output(rehearsed):
    rows = json.loads(rehearsed.read_text())["results"]["chapters"]
    assert rows["kept"]["passed"] and rows["kept"]["lines"] == ["PASS  two and two"]
    assert not rows["changed"]["passed"]
    assert "stored “PASS  two and three" in rows["changed"]["complaint"]


def test_with_everything_there_it_takes_nothing_anew(rehearsed, capsys, monkeypatch):
    monkeypatch.setattr(facts, "source", lambda: UNCHANGED)
    options = ["--device", "cpu", "--small", "--only", "rates", "--output", str(rehearsed)]
    assert gpu_record.main(options) == 1
    assert "delete it to take it anew" in capsys.readouterr().err


@pytest.mark.parametrize("options, why", [([], gpu_record.NO_CUDA), (["--device", "cpu"], None)])
def test_without_cuda_it_refuses_in_a_sentence(monkeypatch, capsys, options, why):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(gpu_record, "go_through", lambda *_: pytest.fail("it went on"))
    assert gpu_record.main(options) == 1
    said = capsys.readouterr()
    assert said.err == f"{why or gpu_record.CPU_IS_SMALL}\n" and said.out == ""


# ---- what is measured ---------------------------------------------------------------


def test_what_is_exact_is_small_and_the_control_is_seen():
    for name in ("float64", "float32"):
        rows, dtype = precision.shifting(CPU, name, "math"), DTYPES[name]
        # A score moves by a standard normal number times the shift: by six of them at most.
        allowed = [
            tolerance(dtype, (SMALL.width, SMALL.length, SMALL.length), shift=6 * shift)
            for shift in SMALL.shifts
        ]
        assert all(max(key) <= bound for key, bound in zip(rows["key"], allowed, strict=True))
        assert min(rows["query"][0]) > SEEN[dtype] * allowed[0]
        assert max(rows["key"][2]) > allowed[0], "a large shift costs digits"


def test_a_shifted_key_is_rounded_in_every_format():
    for name, dtype in DTYPES.items():
        k = CPU.normal(1000, seed=0, dtype=dtype)
        # 100 leaves k six digits fewer, and all six are zero for one number in 64.
        assert k.dtype == dtype and ((k + 100) - 100 != k).float().mean() > 0.5, name


def test_the_reference_is_attention():
    q, k, v = CPU.normal(3, 1, 2, 50, 8, seed=0)
    found = scale.reference(q, k + 30, v, chunk=16)  # the last block is shorter
    allowed = tolerance(torch.float64, (8, 50, 50, 50 // 16 + 1), shift=6 * 30)
    assert bench.relative_error(found, F.scaled_dot_product_attention(q, k + 30, v)) <= allowed


def test_an_error_that_is_not_finite_is_none():
    assert bench.relative_error(torch.tensor([torch.nan]), torch.ones(1)) is None


def test_tf32_is_on_only_where_it_is_meant():
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    before = cudnn.allow_tf32, matmul.allow_bf16_reduced_precision_reduction
    with pytest.raises(ZeroDivisionError), number_format("tf32") as dtype:
        assert matmul.allow_tf32 and dtype is torch.float32
        raise ZeroDivisionError
    with number_format("float32"):
        assert not matmul.allow_tf32 and not cudnn.allow_tf32
        assert not matmul.allow_bf16_reduced_precision_reduction
    assert not matmul.allow_tf32
    assert (cudnn.allow_tf32, matmul.allow_bf16_reduced_precision_reduction) == before


def test_the_names_agree():
    assert tuple(BACKENDS) == KERNELS and set(DTYPES) == set(BYTES)
    assert {name: torch.empty(0, dtype=d).element_size() for name, d in DTYPES.items()} == BYTES


# ---- the clock ----------------------------------------------------------------------


class Clock:
    """Every product and every copy takes a quarter of a second, and nothing else takes time."""

    def __init__(self):
        self.calls = 0

    def work(self):
        self.calls += 1

    def seconds(self, run):
        before = self.calls
        run()
        return (self.calls - before) / 4


def test_a_repeat_is_as_many_calls_as_fill_the_time():
    clock = Clock()
    slow = Bench(CPU.device, Sizes(least_seconds=1.5, repeats=7, warm_up=2), clock.seconds)
    assert slow.repeats(clock.work) == [0.25] * 7
    assert clock.calls == 2 + 7 * 6


class Event:
    """The clock of CUDA, in milliseconds: each thing recorded is a quarter of a second later."""

    now = 0.0

    def __init__(self, enable_timing):
        assert enable_timing

    def record(self):
        Event.now = self.at = Event.now + 250.0

    def synchronize(self):
        pass

    def elapsed_time(self, end):
        return end.at - self.at


def test_the_clock_of_cuda_is_read_in_seconds(monkeypatch):
    monkeypatch.setattr(torch.cuda, "Event", Event)
    assert bench.seconds_on_cuda(lambda: None) == 0.25


def test_memory_counts_beyond_what_was_there(monkeypatch):
    said = {"synchronize": None, "reset_peak_memory_stats": None, "memory_allocated": 100}
    for name, value in (said | {"max_memory_allocated": 350}).items():
        monkeypatch.setattr(torch.cuda, name, lambda value=value: value)
    on_cuda = Bench(torch.device("cuda"), SMALL, CLOCKS["cuda"])
    assert on_cuda.peak_bytes(lambda: "out") == ("out", 250)
    assert CPU.peak_bytes(lambda: "out") == ("out", None)


def test_rates_follow_from_the_times():
    record = made_up()
    record["settings"] |= {"heads": 2, "width": 8, "matrix": 64, "copied_bytes": 1024}
    record["results"]["rates"] = {
        "copy": {"of": "copy", "seconds": [9.0, 0.5, 0.25]},
        "bfloat16": {"of": "bfloat16", "seconds": [1.0, 1.0, 4.0]},
    }
    run = {"length": 128, "seconds": [2.0]}
    assert copied_per_second(record) == 2 * 1024 / 0.5
    assert matrix_rate(record, "bfloat16") == 2 * 64**3
    assert matrix_rate(record, "float64") is None
    assert share_of_matrix_rate(record, "bfloat16", run) == 4 * 128**2 * 16 / 2 / (2 * 64**3)
    assert share_of_bandwidth(record, "bfloat16", run) == 4 * 128 * 16 * 2 / 2 / 4096
    stopped = {"of": "copy", "stopped": OUT_OF_MEMORY, "message": ""}
    record["results"]["rates"]["copy"] = stopped
    assert copied_per_second(record) is share_of_bandwidth(record, "bfloat16", run) is None


def test_the_clock_is_asked_for_the_product_and_the_copy(monkeypatch):
    clock = Clock()
    timed = Bench(CPU.device, SMALL, clock.seconds)
    product = torch.mm
    monkeypatch.setattr(torch, "mm", lambda *a, **o: (clock.work(), product(*a, **o)))
    assert rates.multiplying(timed, "float32") == {"seconds": [0.25] * SMALL.repeats}


# ---- what may fail ------------------------------------------------------------------


def out_of_memory_from(length, kept):
    def attend(q, k, v, kernel):
        if q.shape[2] >= length:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB.\nMore")
        return kept(q, k, v, kernel)

    return attend


def test_out_of_memory_ends_the_lengths_and_is_recorded(monkeypatch):
    monkeypatch.setattr(scale, "attend", out_of_memory_from(64, scale.attend))
    first, last = scale.lengthening(CPU, "float32", "math")["runs"]
    assert len(first["seconds"]) == SMALL.repeats
    assert last["stopped"] == OUT_OF_MEMORY and "\n" not in last["message"]


def test_out_of_memory_at_once_is_a_row_without_runs(monkeypatch):
    monkeypatch.setattr(scale, "attend", out_of_memory_from(1, scale.attend))
    assert scale.lengthening(CPU, "float32", "math")["stopped"] == OUT_OF_MEMORY


def raising(error):
    def run():
        raise error

    return run


def test_what_fails_says_why():
    place = "No available kernel. (Triggered internally at a/b.cpp:1.)"
    assert attempt(CPU, raising(RuntimeError(place))) == {
        "stopped": NOT_OFFERED,
        "message": "No available kernel.",
    }
    assert attempt(CPU, raising(RuntimeError("")))["stopped"] == FAILED
    with pytest.raises(KeyError):  # a fault of the script is none of the device
        attempt(CPU, raising(KeyError("seconds")))


def test_a_device_that_no_longer_answers_ends_it(monkeypatch, tmp_path):
    monkeypatch.setattr(Bench, "answers", lambda _: False)
    steps = {("rates", "copy"): bench.step(CPU, raising_of(RuntimeError("CUDA error")), of="copy")}
    record, draft = {"results": {}}, tmp_path / "draft.json"
    with pytest.raises(gpu_record.Refused, match="no longer answers"):
        gpu_record.go_through(CPU, steps, record, draft)
    assert json.loads(draft.read_text())["results"]["rates"]["copy"]["stopped"] == FAILED


def test_a_device_that_dies_at_a_length_ends_it_too(monkeypatch, tmp_path):
    monkeypatch.setattr(Bench, "answers", lambda _: False)
    runs = [{"length": 32}, {"length": 64, "stopped": FAILED, "message": ""}]
    steps = {("scale", "a"): lambda: {"runs": runs}, ("scale", "b"): lambda: pytest.fail("went on")}
    with pytest.raises(gpu_record.Refused, match="no longer answers"):
        gpu_record.go_through(CPU, steps, {"results": {}}, tmp_path / "draft.json")


def test_a_device_that_no_longer_frees_memory_does_not_lose_the_row(monkeypatch):
    monkeypatch.setattr(torch.cuda, "empty_cache", raising(RuntimeError("CUDA error")))
    on_cuda = Bench(torch.device("cuda"), SMALL, CLOCKS["cuda"])
    assert attempt(on_cuda, raising(RuntimeError("illegal memory access")))["stopped"] == FAILED


def raising_of(error):
    return lambda bench, **names: raising(error)()


# ---- step by step -------------------------------------------------------------------


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "gpu.json"
    write({"first": 1}, path)
    with pytest.raises(ValueError):
        write({"first": float("nan")}, path)
    monkeypatch.setattr(os, "replace", lambda *_: raising(OSError("no space"))())
    with pytest.raises(OSError):
        write({"second": 2}, path)
    assert json.loads(path.read_text()) == {"first": 1} and os.listdir(tmp_path) == ["gpu.json"]


def test_it_goes_on_where_it_stopped(tmp_path):
    done, draft = [], tmp_path / "draft.json"
    steps = {("rates", name): lambda name=name: done.append(name) or {} for name in "abc"}
    broken = steps | {("rates", "b"): raising(KeyboardInterrupt())}
    record = gpu_record.beginning(CPU, rehearsal=True)
    with pytest.raises(KeyboardInterrupt):
        gpu_record.go_through(CPU, broken, copy.deepcopy(record), draft)
    again = gpu_record.resumed([tmp_path / "none.json", draft], record)
    gpu_record.go_through(CPU, steps, again, draft)
    assert done == ["a", "b", "c"]
    other = record | {"source": {"commit": "another", "changed": False}}
    assert gpu_record.resumed([draft], other) is other, "other source, other numbers"


def test_two_changes_of_one_commit_are_told_apart(monkeypatch):
    def source(difference):
        said = {"rev-parse": "0", "status": " M tools/a.py", "diff": difference}
        monkeypatch.setattr(facts, "said_by", lambda _, command, *rest: said[command])
        return facts.source()

    assert source("+ 1") == source("+ 1") != source("+ 2")
    assert source("")["changes"] is None


def test_it_stops_in_time_and_says_so(tmp_path):
    now, draft = [0.0], tmp_path / "draft.json"
    steps = {("rates", name): lambda: now.append(now[-1] + 50) or {} for name in "abc"}
    with pytest.raises(gpu_record.Refused, match="2 of 3 steps are done"):
        gpu_record.go_through(CPU, steps, {"results": {}}, draft, 1, clock=lambda: now[-1])
    assert len(json.loads(draft.read_text())["results"]["rates"]) == 2


# ---- the notebooks ------------------------------------------------------------------

LATEX = new_output("execute_result", data={"text/plain": "x", "text/latex": "$x$"})
PICTURE = new_output("display_data", data={"text/plain": "<Figure>", "image/png": "AAAA"})


@pytest.mark.parametrize(
    "stored, fresh, difference",
    [
        (LATEX, new_output("execute_result", data=LATEX.data, execution_count=9), None),
        (PICTURE, new_output("display_data", data={**PICTURE.data, "image/png": "BB"}), None),
        (LATEX, new_output("execute_result", data={**LATEX.data, "text/latex": "$y$"}), "latex"),
        (PICTURE, printed("a warning"), "text"),
        (printed("1\n"), printed("1"), "text"),
    ],
)
def test_outputs_are_compared_as_the_tests_do(stored, fresh, difference):
    found = chapters.first_difference(notebook("x", stored), notebook("x", fresh))
    assert (difference in found) if difference else found is None


def test_a_missing_output_is_noticed():
    assert "here “nothing”" in chapters.first_difference(notebook("x", LATEX), notebook("x"))


def test_what_was_stored_behind_a_failure_is_not_counted(tmp_path):
    before = new_code_cell("assert False", execution_count=1)
    after = new_code_cell("print('PASS  a')", outputs=[printed("PASS  a\n")], execution_count=2)
    nbformat.write(new_notebook(cells=[before, after]), tmp_path / "fails.ipynb")
    row = chapters.run(tmp_path / "fails.ipynb")
    assert not row["passed"] and row["lines"] is None and "AssertionError" in row["complaint"]


# ---- a record, and what is none -----------------------------------------------------


def made_up():
    """A record of a device that does not exist, with numbers that nobody measured."""
    sizes = Sizes()
    settings = json.loads(json.dumps(gpu_record.asdict(sizes)))
    results = {name: {} for name in EXPERIMENTS}
    for name, size in {"copy": 1, **BYTES}.items():
        results["rates"][name] = {"of": name, "seconds": [size * (1 + i / 9) for i in range(7)]}
    for place, (name, kernel) in enumerate((n, k) for n in BYTES for k in KERNELS):
        names = {"format": name, "kernel": kernel}
        key = f"{name} {kernel}"
        if kernel in ("flash", "cudnn") and BYTES[name] > 2 or key == "float64 efficient":
            stopped = names | {"stopped": NOT_OFFERED, "message": "made up"}
            results["precision"][key] = results["gradients"][key] = results["scale"][key] = stopped
            continue
        unit = 2.0 ** -(7 * BYTES[name] - place / 9)
        results["precision"][key] = names | {
            "key": [[min(1, unit * s) * (1 + i / 5) for i in range(5)] for s in sizes.shifts],
            "query": [[1 + i / 5 for i in range(5)] for _ in sizes.shifts],
        }
        results["gradients"][key] = names | {"key_over_query": [unit, 2 * unit]}
        runs = [
            {
                "length": n, "error": unit, "peak_bytes": n * 4096,
                "seconds": [n**2 * 1e-12 * (2 + place) * (1 + i / 20) for i in range(7)],
            }
            for n in sizes.lengths
        ]  # fmt: skip
        if kernel == "math":
            runs[5:] = [{"length": 32768, "stopped": OUT_OF_MEMORY, "message": "made up"}]
        results["scale"][key] = names | {"runs": runs}
    results["precision"]["float16 math"]["key"][5] = [None] * 5
    for name in BYTES:
        results["batch_norm"][name] = {"format": name, "before_over_after": [0.0, 1e-7]}
    row = {"passed": True, "lines": ["PASS  a"], "seconds": 3.0, "complaint": None}
    wrong = row | {"passed": False, "lines": None, "complaint": "cell 2, text: stored “|”"}
    results["chapters"] = {
        "03-softmax-ignores-the-key-bias": row,
        "04-the-value-bias-leaves": wrong,
    }
    return {
        "schema": 1, "rehearsal": False, "date": "2000-01-01T00:00:00+00:00",
        "device": {"type": "cuda", "name": NAME, "capability": None, "memory_bytes": 2**34},
        "versions": {"driver": None, "cuda": "0", "cudnn": None, "torch": "0", "python": "0",
                     "system": "none"},
        "source": {"commit": None, "changed": None},
        "settings": settings, "results": results,
    }  # fmt: skip


def changed(path, value):
    """The made-up record with one field replaced, or taken away where the value is `...`."""
    record = made_up()
    *way, last = path.split("/")
    place = record
    for name in way:
        place = place[int(name) if isinstance(place, list) else name]
    if value is ...:
        del place[last]
    else:
        place[int(last) if isinstance(place, list) else last] = value
    return record


FIRST = "results/precision/float64 math"


@pytest.mark.parametrize(
    "path, value, complaint",
    [
        ("schema", 2, "its schema is 2, and this book reads 1"),
        ("schema", ..., "the file lacks “schema”"),
        ("rehearsal", ..., "the file lacks “rehearsal”"),
        ("device/type", "abacus", "the file.device.type should be one of cuda, cpu"),
        ("versions/torch", 2.13, "the file.versions.torch should be a text"),
        ("settings/heads", True, "settings.heads should be a whole number"),
        ("results/dreams", {}, "“dreams” is no experiment"),
        (f"{FIRST}/kernel", "magic", "float64 math.kernel should be one of math"),
        (f"{FIRST}/key", [[0.1]], "should be one list for each shift"),
        (f"{FIRST}/key/0", [-1], r"key\[0\]\[0\] should be a number that is not negative"),
        ("results/rates/copy/seconds", [], "seconds should be a list that is not empty"),
        ("results/rates/copy/seconds", [0.0], "should be a number above zero"),
        ("results/scale/float64 math/runs/0", {"length": 1, "stopped": "failed", "message": ""},
         "should be runs that end with the first that stops"),
        ("results/chapters", [], "results.chapters should be an object"),
    ],
)  # fmt: skip
def test_what_is_no_record_is_refused_in_a_sentence(tmp_path, path, value, complaint):
    check(made_up())
    file = tmp_path / "gpu.json"
    file.write_text(json.dumps(changed(path, value)))
    with pytest.raises(RecordError, match=complaint) as refused:
        read_record(file)
    assert str(refused.value).startswith("gpu.json is no record of a device: ")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null"])
def test_what_is_not_even_a_file_of_ours_is_refused(tmp_path, text):
    (tmp_path / "gpu.json").write_text(text)
    with pytest.raises(RecordError):
        read_record(tmp_path / "gpu.json")


def test_what_was_taken_on_a_cpu_is_a_rehearsal_whatever_it_says(tmp_path):
    write(changed("device/type", "cpu"), tmp_path / "gpu.json")
    with pytest.raises(RecordError, match="is a rehearsal"):
        read_record(tmp_path / "gpu.json")


def test_the_record_of_the_book_is_one():
    if gpu_record.RECORD.exists():
        assert read_record(gpu_record.RECORD)["device"]["name"] != NAME


# ---- the page -----------------------------------------------------------------------

PAGE = (ROOT / "book" / "gpu.md").read_text(encoding="utf-8")


def build(folder, record=None):
    """Build a page with every part, strictly; (what Sphinx complains about, the page)."""
    if record is not None:
        write(record, folder / "records" / "gpu.json")
    parts = [f"```{{gpu-record}} records/gpu.json {part}\nNone: {part}.\n```" for part in PARTS]
    (folder / "index.md").write_text("\n\n".join(["# A page", *parts]), encoding="utf-8")
    (folder / "conf.py").write_text("extensions = ['myst_parser', 'gpu_page']", encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", folder, folder / "out"],
        env=os.environ | {"PYTHONPATH": str(ROOT / "book" / "extensions"), "NO_COLOR": "1"},
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    page = folder / "out" / "index.html"
    return run.stderr, page.read_text(encoding="utf-8") if page.is_file() else ""


def test_without_a_record_there_is_no_number(tmp_path):
    complaints, page = build(tmp_path)
    assert complaints == "" and "<figure" not in page and "<table" not in page
    assert all(f"None: {part}." in page for part in PARTS)


def test_a_record_is_drawn(tmp_path):
    complaints, page = build(tmp_path, made_up())
    assert complaints == "" and "None: " not in page
    pictures = re.findall(r'<img alt="([^"]*)" src="_images/([^"]*)"', page)
    assert len(pictures) == 5 and NAME in page
    assert all((tmp_path / "out" / "_images" / file).is_file() for _, file in pictures)
    assert all("math: float64" in words for words, _ in pictures)
    assert "16,384. efficient: float32" in pictures[1][0] and "at 131,072" in pictures[1][0]
    for words in (
        "16,384, then out of memory",
        "flash in float64",
        "1 of 2 notebooks",
        "not known",
    ):
        assert words in page


def test_what_is_not_in_a_record_is_said(tmp_path):
    record = made_up()
    record["results"] = {"rates": record["results"]["rates"]}
    complaints, page = build(tmp_path, record)
    assert complaints == "" and page.count("does not hold this experiment") >= 4


@pytest.mark.parametrize(
    "path, value, complaint",
    [
        ("results/rates/copy/seconds", ["fast"], "gpu.json is no record of a device: "),
        ("rehearsal", True, "gpu.json is a rehearsal, and no record: "),
    ],
)
def test_what_is_no_record_stops_the_build_with_one_sentence(tmp_path, path, value, complaint):
    complaints, _ = build(tmp_path, changed(path, value))
    assert complaints.count(complaint) == 1 and "Traceback" not in complaints
    assert "<figure" not in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


def test_a_panel_without_a_kernel_is_left_out(tmp_path, monkeypatch):
    drawn, finish = [], gpu_figures.finish
    monkeypatch.setattr(gpu_figures, "finish", lambda f, *a: drawn.append(f) or finish(f, *a))
    lines = [Line(kernel, "float32", {1: [0.5], 2: [0.0]}) for kernel in KERNELS[:3]]
    plot = Plot("A plot", "x", "y", lines)
    gpu_figures.draw(plot, tmp_path / "plot.png")
    assert [panel.axison for panel in drawn[0].axes] == [True, True, True, False]
    assert "exactly zero is drawn at 1e-18" in gpu_figures.caption(plot)


def test_the_page_says_the_sizes_that_are_taken():
    sizes = Sizes()
    assert (sizes.seeds, sizes.repeats, sizes.warm_up, sizes.heads) == (5, 7, 2, 8)
    for words in (
        "for five seeds", "median of seven repeats after two", "One batch of eight heads",
        f"each {sizes.width} wide", f"{sizes.rows} queries of each head",
        f"{sizes.lengths[0]:,} tokens to {sizes.lengths[-1]:,}",
        f"from {sizes.shifts[0]:.0f} to {sizes.shifts[-1]:,.0f}",
    ):  # fmt: skip
        assert words in PAGE
    shown = re.findall(r"^```\{gpu-record\} records/gpu.json (\w+)$", PAGE, re.MULTILINE)
    assert sorted(shown) == sorted(PARTS)
