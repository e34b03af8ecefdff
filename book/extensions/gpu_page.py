"""The record of a GPU, drawn from its file when the book is built.

    ```{gpu-record} records/gpu.json scale
    What stands here as long as there is no record.
    ```

The arguments are the file and a part of it, one of `PARTS`.  Every number and every figure comes
from the file; what is no record stops the build with a sentence (`tools/gpu/record.py`).
"""

import os
import sys
from pathlib import Path
from statistics import median

from docutils import nodes
from gpu_figures import LOOKS, Line, Plot, caption, draw, in_words, named
from record_page import RecordPart, escaped, table

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from gpu.record import (  # noqa: E402
    KERNELS,
    NOT_OFFERED,
    RecordError,
    attention_rate,
    operations,
    read_record,
    share_of_bandwidth,
    share_of_matrix_rate,
)

ABSENT = "This record does not hold this experiment."


class GpuRecord(RecordPart):
    """A part of the record of a GPU: tables, and plots."""

    wrong = RecordError

    @property
    def parts(self):
        return PARTS

    def read(self, path):
        return read_record(path)

    def show(self, one):
        return self.figure(one) if isinstance(one, Plot) else super().show(one)

    def figure(self, plot):
        outputs = Path(self.state.document.settings.env.app.outdir).parent
        path = outputs / "gpu-record" / f"{nodes.make_id(plot.title)}.png"
        draw(plot, path)
        address = Path(os.path.relpath(path, self.page.parent)).as_posix()
        image = nodes.image(uri=address, alt=in_words(plot))
        return nodes.figure("", image, nodes.caption("", caption(plot)), classes=["drawn"])


# ---- the parts: each gives Markdown and plots -----------------------------------------


def about(record):
    device, versions, source = record["device"], record["versions"], record["source"]
    memory = device["memory_bytes"]
    commit = (source["commit"] or "not known")[:12]
    rows = {
        "device": device["name"],
        "compute capability": device["capability"],
        "memory": memory and f"{memory / 2**30:.1f} GiB",
        "taken": record["date"][:10],
        "driver": versions["driver"],
        "CUDA": versions["cuda"],
        "cuDNN": versions["cudnn"],
        "PyTorch": versions["torch"],
        "Python": f"{versions['python']}, {versions['system']}",
        "source": f"commit {commit}" + ", with changes" * bool(source["changed"]),
    }
    yield table(
        ["what", "of this record"], [[name, said or "not known"] for name, said in rows.items()]
    )


def chapters(record):
    steps = record["results"].get("chapters")
    if not steps:
        yield ABSENT
        return
    passed = sum(row["passed"] for row in steps.values())
    lines = sum(len(row["lines"] or ()) for row in steps.values())
    yield f"{passed} of {len(steps)} notebooks print what is stored. Lines that say PASS: {lines}."
    rows = [
        [f"`{name}`", len(row["lines"] or ()), f"{row['seconds']:.0f} s", row["passed"]]
        for name, row in steps.items()
    ]
    words = {True: "as stored", False: "**differs**"}
    yield table(
        ["notebook", "PASS", "time", "outputs"], [[*row, words[same]] for *row, same in rows]
    )
    for name, row in steps.items():
        if not row["passed"]:
            yield f"`{name}`, {escaped(row['complaint'])}"


def precision(record):
    rows, shifts = measured(record, "precision"), record["settings"]["shifts"]
    if not rows:
        yield ABSENT
        return
    lines = [Line(row["kernel"], row["format"], dict(zip(shifts, row["key"]))) for row in rows]
    title = "A shift of the keys, which exactly changes nothing"
    yield Plot(title, "size of the shift", "relative change", lines)
    yield control(rows)
    yield from refused(record, "precision")


def control(rows):
    """The smallest change that the same shift of the queries made anywhere."""
    changes = [change for row in rows for errors in row["query"] for change in errors]
    finite = [change for change in changes if change is not None]
    lost = len(changes) - len(finite)
    return (
        "The control: the same shift of the queries changes the output by at least "
        f"{power(min(finite, default=0))} of its largest entry, "
        "by every kernel in each format that it takes"
        + (f"; {lost} of {len(changes)} results are not finite." if lost else ".")
    )


def gradients(record):
    layers, before = (record["results"].get(name, {}) for name in ("gradients", "batch_norm"))
    if not layers and not before:
        yield ABSENT
        return
    rows = [
        [
            named(format),
            *(noise(layers.get(f"{format} {kernel}"), "key_over_query") for kernel in KERNELS),
            noise(before.get(format), "before_over_after"),
        ]
        for format in LOOKS
    ]
    yield table(["format", *KERNELS, "before BatchNorm"], rows)


def rates(record):
    steps = record["results"].get("rates", {})
    done = {name: row["seconds"] for name, row in steps.items() if "stopped" not in row}
    if not done:
        yield ABSENT
        return
    copied, side = 2 * record["settings"]["copied_bytes"], record["settings"]["matrix"]
    rows = [
        ["copy (GB/s)", *rates_of(copied / 1e9, done["copy"])] if name == "copy" else
        [f"{named(name)} (TFLOP/s)", *rates_of(2 * side**3 / 1e12, seconds)]
        for name, seconds in done.items()
    ]  # fmt: skip
    yield table(["rate", "median", "slowest", "fastest"], rows)


def scale(record):
    rows = measured(record, "scale")
    if not rows:
        yield ABSENT
        return
    yield lengths("Time of one attention", "seconds", rows, lambda row, run: run["seconds"])
    yield lengths(
        "Operations per second", "TFLOP/s", rows,
        lambda row, run: [operations(record["settings"], run["length"]) / s / 1e12
                          for s in run["seconds"]],
    )  # fmt: skip
    if any(run.get("peak_bytes") for row in rows for run in row["runs"]):
        yield lengths(
            "Memory beyond the inputs", "GiB", rows,
            lambda row, run: [run["peak_bytes"] and run["peak_bytes"] / 2**30],
        )  # fmt: skip
    yield lengths("Error of the output", "relative error", rows, lambda row, run: [run["error"]])
    yield table(
        ["kernel", "longest", "time", "TFLOP/s", "of the matrix rate", "of the copy rate"],
        [longest(record, row) for row in rows],
    )
    yield from refused(record, "scale")


PARTS = {
    "about": about,
    "chapters": chapters,
    "precision": precision,
    "gradients": gradients,
    "rates": rates,
    "scale": scale,
}


# ---- what they are made of ------------------------------------------------------------


def measured(record, experiment):
    """The rows of an experiment that did not stop at once, kernel by kernel."""
    steps = record["results"].get(experiment, {}).values()
    rows = [row for row in steps if "stopped" not in row]
    return sorted(rows, key=lambda row: KERNELS.index(row["kernel"]))


def refused(record, experiment):
    """A sentence on what the kernels do not take here, and one on what failed."""
    for stopped, words in ((NOT_OFFERED, "Not offered here"), (None, "Not measured")):
        names = [
            f"{row['kernel']} in {named(row['format'])}"
            + ("" if stopped else f" ({row['stopped']})")
            for row in record["results"].get(experiment, {}).values()
            if "stopped" in row and (row["stopped"] == NOT_OFFERED) == bool(stopped)
        ]
        if names:
            yield f"{words}: {'; '.join(names)}."


def lengths(title, up, rows, values):
    """A plot over the lengths of the sequences."""
    lines = [
        Line(
            row["kernel"],
            row["format"],
            {run["length"]: values(row, run) for run in row["runs"] if "stopped" not in run},
        )
        for row in rows
    ]
    return Plot(title, "length of the sequence", up, lines, powers_of=2)


def longest(record, row):
    """The cells on the longest sequence that a kernel did in a format."""
    *_, run = (run for run in row["runs"] if "stopped" not in run)
    last = row["runs"][-1]
    ending = f", then {last['stopped']}" if "stopped" in last else ""
    return [
        f"{row['kernel']}, {named(row['format'])}",
        f"{run['length']:,}{ending}",
        spread(run["seconds"]),
        f"{attention_rate(record, run) / 1e12:.3g}",
        percent(share_of_matrix_rate(record, row["format"], run)),
        percent(share_of_bandwidth(record, row["format"], run)),
    ]


def spread(seconds):
    """The median in milliseconds, and how far the repeats lie apart."""
    low, middle, high = (1e3 * of(seconds) for of in (min, median, max))
    return f"{middle:.3g} ms ({low:.3g} to {high:.3g})"


def rates_of(work, seconds):
    """Work per second: median, slowest, fastest."""
    return [f"{work / of(seconds):,.3g}" for of in (median, max, min)]


def percent(share):
    if share is None:
        return "not known"
    return f"{100 * share:,.0f} %" if share >= 0.1 else f"{100 * share:.2g} %"


def noise(row, field):
    """The largest of the ratios, or why there is none."""
    if row is None:
        return "not taken"
    if "stopped" in row:
        return row["stopped"]
    if None in row[field]:
        return "not finite"
    return power(max(row[field]))


def power(value):
    """A number in Markdown, with its power of ten where it is far from one."""
    if not value or 0.1 <= value < 99.5:
        return f"{value:.2g}"
    digits, exponent = f"{value:.1e}".split("e")
    return rf"${digits}\times10^{{{int(exponent)}}}$"


def setup(app):
    app.add_directive("gpu-record", GpuRecord)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
