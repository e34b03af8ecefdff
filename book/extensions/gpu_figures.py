"""The figures of the page of the GPU record: one panel for each kernel, one line for each format.

A line joins the medians; the band around it reaches from the smallest repeat to the largest.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import matplotlib.style
from matplotlib.figure import Figure

STYLE = Path(__file__).resolve().parents[2] / "notebooks" / "figures.mplstyle"
#: Colour and marker of each number format: told apart in grey too.
LOOKS = {
    "float64": ("C4", "o"),
    "float32": ("C0", "s"),
    "tf32": ("C3", "D"),
    "bfloat16": ("C1", "^"),
    "float16": ("C2", "v"),
}
NAMES = {"tf32": "float32, TF32"}
#: An error of exactly nothing has no place on a logarithmic axis: it is drawn here.
FLOOR = 1e-18


@dataclass(frozen=True)
class Line:
    """What one kernel does in one format: at each x as many values as there were repeats.

    A value is None where the result was not finite.
    """

    kernel: str
    format: str
    points: dict

    def finite(self):
        """{x: finite values}"""
        kept = {x: [v for v in values if v is not None] for x, values in self.points.items()}
        return {x: values for x, values in kept.items() if values}


@dataclass(frozen=True)
class Plot:
    """What is drawn: lines, and what their axes are called."""

    title: str
    across: str
    up: str
    lines: list
    powers_of: int = 10  # the ticks across


def named(format):
    return NAMES.get(format, format)


def draw(plot, path):
    """Write the figure as a PNG."""
    kernels = list(dict.fromkeys(line.kernel for line in plot.lines))
    columns = min(2, len(kernels))
    rows = math.ceil(len(kernels) / columns)
    with matplotlib.style.context(STYLE):
        figure = Figure(figsize=(6.4, 0.9 + 2.1 * rows))
        panels = list(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False).flat)
        for kernel, panel in zip(kernels, panels):
            draw_panel(panel, kernel, plot)
        for empty in panels[len(kernels) :]:
            empty.set_axis_off()
        finish(figure, plot, path)


def draw_panel(panel, kernel, plot):
    panel.set(title=kernel, yscale="log")
    panel.set_xscale("log", base=plot.powers_of)
    for line in plot.lines:
        if line.kernel == kernel:
            draw_line(panel, line)


def draw_line(panel, line):
    colour, marker = LOOKS[line.format]
    x, values = list(line.finite()), list(line.finite().values())
    low, middle, high = ([max(FLOOR, of(some)) for some in values] for of in (min, median, max))
    panel.plot(x, middle, color=colour, marker=marker, markersize=5, label=named(line.format))
    panel.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
    for x in (x for x, some in line.points.items() if None in some):
        upper_edge = panel.get_xaxis_transform()
        panel.plot(x, 1, "x", color=colour, clip_on=False, in_layout=False, transform=upper_edge)


def finish(figure, plot, path):
    figure.supxlabel(plot.across, fontsize="medium")
    figure.supylabel(plot.up, fontsize="medium")
    handles = {}
    for panel in figure.axes:
        handles |= {text: handle for handle, text in zip(*panel.get_legend_handles_labels())}
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, format="png")


def caption(plot):
    groups = [values for line in plot.lines for values in line.points.values()]
    repeated = any(len(values) > 1 for values in groups)
    lost = any(None in values for values in groups)
    nothing = any(0 in values for values in groups)
    return (
        plot.title
        + ": medians, and a band from the smallest repeat to the largest" * repeated
        + "."
        + " A cross at the upper edge: not finite." * lost
        + f" What is exactly zero is drawn at {FLOOR:.0e}." * nothing
    )


def in_words(plot):
    """The figure for those who do not see it: each line by its ends."""
    kernels = dict.fromkeys(line.kernel for line in plot.lines)
    panels = [
        f"{kernel}: " + "; ".join(ends(line) for line in plot.lines if line.kernel == kernel)
        for kernel in kernels
    ]
    return f"{plot.title}. Medians of {plot.up} by {plot.across}. {'. '.join(panels)}."


def ends(line):
    finite = {x: median(values) for x, values in line.finite().items()}
    if not finite:
        return f"{named(line.format)} nowhere finite"
    first, last = min(finite), max(finite)
    said = f"{named(line.format)} {finite[first]:.2g} at {first:,.0f}"
    return said if first == last else f"{said} and {finite[last]:.2g} at {last:,.0f}"
