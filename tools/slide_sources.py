"""What a slide can show: cells of the chapters, theorems, claims and exercises, never copies.

A cell that goes on a slide has the tag `slide`. Of a Markdown cell only what stands between
the comments `<!-- slide -->` and `<!-- /slide -->` is shown, or all of it where there are none.
"""

import re
from collections import namedtuple

from claims import read_claims
from files import NOTEBOOKS, ROOT, Fault, demand, read_notebook
from register import read_register

CLAIMS = ROOT / "book" / "claims.yml"
MARKED = re.compile(r"<!-- slide -->(.*?)<!-- /slide -->", re.DOTALL)
#: An exercise of a sheet: what stands between its heading and its solution.
EXERCISE = re.compile(
    r"^### Exercise (\d+[A-Z]) · (.+?)\s*$(.*?)(?=^(?:#{1,3} |<details|:::|```)|\Z)",
    re.MULTILINE | re.DOTALL,
)
Exercise = namedtuple("Exercise", "number name text")


def read_sources():
    """Everything that a deck may name: {"cell", "theorem", "claim", "exercise": {name: it}}."""
    cells = {
        f"{path.stem}#{cell.get('id', '')}": cell
        for path in sorted(NOTEBOOKS.glob("*.ipynb"))
        for cell in read_notebook(path).cells
    }
    texts = [cell.source for cell in cells.values() if cell.cell_type == "markdown"]
    return {
        "cell": cells,
        "theorem": {entry.number: entry for entry in read_register(NOTEBOOKS)},
        "claim": {claim.id: claim for claim in read_claims(CLAIMS)[1]},
        "exercise": {
            number: Exercise(number, name, text.strip())
            for source in texts
            for number, name, text in EXERCISE.findall(source)
        },
    }


def find(sources, kind, name):
    demand(str(name) in sources[kind], f"there is no {kind} {name}")
    return sources[kind][str(name)]


def data(cell, kind):
    """The stored output of one MIME type, joined; empty where there is none."""
    found = (output.get("data", {}).get(kind, "") for output in cell.outputs)
    return "\n".join(filter(None, found))


def printed(cell):
    """What the cell printed, and its last value where that is plain text only."""
    streams = [output.text for output in cell.outputs if output.output_type == "stream"]
    values = [output.data for output in cell.outputs if "data" in output]
    values = [value["text/plain"] for value in values if set(value) == {"text/plain"}]
    return "\n".join(text.strip("\n") for text in [*streams, *values])


def excerpt(cell, number=None):
    """The marked parts of a Markdown cell, as paragraphs, or one of them, counted from 1."""
    parts = [part.strip() for part in MARKED.findall(cell.source)] or [cell.source.strip()]
    return "\n\n".join(parts if number is None else parts[number - 1 : number])


def lines_between(text, start="", end=None, only=""):
    """The lines of a text from one that begins with `start` to one that begins with `end`,
    both included; then those that contain `only`. Fault where there is none."""
    lines = text.splitlines()
    lines = lines[position(lines, start) :]
    lines = lines if end is None else lines[: position(lines, end) + 1]
    chosen = "\n".join(line for line in lines if only in line).strip("\n")
    demand(chosen.strip(), f"no line contains “{only}”")
    return chosen


def position(lines, beginning):
    for number, line in enumerate(lines):
        if line.strip().startswith(beginning):
            return number
    raise Fault(f"no line begins with “{beginning}”.")
