"""What a slide can show: cells of the chapters, theorems, claims and exercises, never copies.

A cell that goes on a slide has the tag `slide`. Of a Markdown cell only what stands between
the comments `<!-- slide -->` and `<!-- /slide -->` is shown, or all of it where there are none.
"""

import json
import re
from collections import namedtuple
from pathlib import Path

from claims import read_claims
from files import Fault
from register import read_register

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOKS, CLAIMS = ROOT / "notebooks", ROOT / "book" / "claims.yml"
MARKED = re.compile(r"<!-- slide -->(.*?)<!-- /slide -->", re.DOTALL)
EXERCISE = re.compile(r"^### Exercise (?P<number>\d+[A-Z]) · (?P<name>.+)$", re.MULTILINE)
SOLUTION = re.compile(r"^(#{1,3} |<details|:::|```)", re.MULTILINE)


#: One cell of a chapter, as it is stored; ``alt`` are the words in the place of its figure.
Cell = namedtuple("Cell", "name kind source outputs tags alt")
Exercise = namedtuple("Exercise", "number name text")


def read_sources():
    """Everything that a deck may name: {"cell", "theorem", "claim", "exercise": {name: it}}."""
    cells = [cell for path in sorted(NOTEBOOKS.glob("*.ipynb")) for cell in cells_of(path)]
    return {
        "cell": {cell.name: cell for cell in cells},
        "theorem": {entry.number: entry for entry in read_register(NOTEBOOKS)},
        "claim": {claim.id: claim for claim in read_claims(CLAIMS)[1]},
        "exercise": {one.number: one for cell in cells for one in exercises_in(cell)},
    }


def find(sources, kind, name):
    if str(name) not in sources[kind]:
        raise Fault(f"there is no {kind} {name}")
    return sources[kind][str(name)]


def cells_of(path):
    """Every cell of a notebook, named `notebook#cell`."""
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        metadata = cell["metadata"]
        yield Cell(
            name=f"{path.stem}#{cell.get('id', '')}",
            kind=cell["cell_type"],
            source="".join(cell["source"]),
            outputs=tuple(cell.get("outputs", ())),
            tags=frozenset(metadata.get("tags", ())),
            alt=metadata.get("mystnb", {}).get("image", {}).get("alt", ""),
        )


def data(cell, kind):
    """The stored output of one MIME type, joined; empty where there is none."""
    found = (output.get("data", {}).get(kind, "") for output in cell.outputs)
    return "\n".join("".join(text) for text in found if text)


def printed(cell):
    """What the cell printed, and its last value where that is plain text only."""
    streams = [output["text"] for output in cell.outputs if output["output_type"] == "stream"]
    values = [output["data"] for output in cell.outputs if "data" in output]
    values = [value["text/plain"] for value in values if set(value) == {"text/plain"}]
    return "\n".join("".join(text).strip("\n") for text in [*streams, *values])


def excerpt(cell, number=None):
    """The marked parts of a Markdown cell, as paragraphs, or one of them, counted from 1."""
    parts = [part.strip() for part in MARKED.findall(cell.source)] or [cell.source.strip()]
    return "\n\n".join(parts if number is None else parts[number - 1 : number])


def exercises_in(cell):
    """The exercises of a sheet's cell: what stands between a heading and its solution."""
    for heading in EXERCISE.finditer(cell.source) if cell.kind == "markdown" else ():
        rest = cell.source[heading.end() :]
        end = SOLUTION.search(rest)
        text = rest[: end.start()] if end else rest
        yield Exercise(heading["number"], heading["name"].strip(), text.strip())


def lines_between(text, start="", end="", only=""):
    """The lines of a text from one that begins with `start` to one that begins with `end`,
    both included; then those that contain `only`. Fault where there is none."""
    lines = text.splitlines()
    first = position(lines, start) if start else 0
    last = first + position(lines[first:], end) if end else len(lines) - 1
    chosen = "\n".join(line for line in lines[first : last + 1] if only in line).strip("\n")
    if not chosen.strip():
        raise Fault(f"no line contains “{only}”")
    return chosen


def position(lines, beginning):
    for number, line in enumerate(lines):
        if line.strip().startswith(beginning):
            return number
    raise Fault(f"no line begins with “{beginning}”")
