"""What a slide can show: cells of the chapters, theorems, claims and exercises, never copies.

A cell that goes on a slide has the tag `slide`. Of a Markdown cell only what stands between
the comments `<!-- slide -->` and `<!-- /slide -->` is shown, or all of it where there are none.
"""

import json
import re
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from claims import read_claims
from files import Fault
from register import PROVED_KINDS, read_register  # noqa: F401

ROOT = Path(__file__).resolve().parent.parent
TAG = "slide"
MARKED = re.compile(r"<!-- slide -->(.*?)<!-- /slide -->", re.DOTALL)
MARKER = re.compile(r"<!-- /?slide -->")
EXERCISE = re.compile(r"^### Exercise (?P<number>\d+[A-Z]) · (?P<name>.+)$", re.MULTILINE)
SOLUTION = re.compile(r"^(#{1,3} |<details|:::|```)", re.MULTILINE)


class SlidesError(Fault):
    """What is wrong with a deck or with a cell, for the one who wrote it."""


@dataclass(frozen=True)
class Cell:
    """One cell of a chapter, as it is stored."""

    name: str
    kind: str
    source: str
    outputs: tuple
    tags: frozenset
    alt: str

    def data(self, kind):
        """The stored output of one MIME type, joined; empty where there is none."""
        found = (output.get("data", {}).get(kind, "") for output in self.outputs)
        return "\n".join("".join(text) for text in found if text)

    @property
    def printed(self):
        """What the cell printed, and its last value where that is plain text only."""
        streams = [output["text"] for output in self.outputs if output["output_type"] == "stream"]
        values = [output["data"] for output in self.outputs if "data" in output]
        values = [value["text/plain"] for value in values if set(value) == {"text/plain"}]
        return "\n".join("".join(text).strip("\n") for text in [*streams, *values])

    @property
    def formula(self):
        return self.data("text/latex").strip().strip("$").strip()

    @property
    def figure(self):
        """The PNG in base64."""
        return self.data("image/png").replace("\n", "")


@dataclass(frozen=True)
class Exercise:
    number: str
    name: str
    text: str


class Sources:
    """Everything a deck may name, read once from a folder of notebooks."""

    def __init__(self, notebooks, claims):
        self.notebooks = Path(notebooks)
        if not any(self.notebooks.glob("*.ipynb")):
            raise SlidesError(f"There are no notebooks in {self.notebooks}: name their folder.")
        self.cells = {cell.name: cell for cell in read_cells(self.notebooks)}
        self.theorems = {entry.number: entry for entry in read_register(self.notebooks)}
        self.claims = {claim.id: claim for claim in read_claims(Path(claims))[1]}
        self.exercises = {one.number: one for one in exercises(self.cells.values())}

    @property
    def tagged(self):
        """The names of all cells that want to be on a slide."""
        return {name for name, cell in self.cells.items() if TAG in cell.tags}

    def cell(self, name):
        cell = find(self.cells, name, "cell")
        if TAG not in cell.tags:
            raise SlidesError(f"The cell {name} has no tag “{TAG}”: add it to the cell's metadata.")
        return cell

    def theorem(self, number):
        return find(self.theorems, number, "theorem")

    def claim(self, id):
        return find(self.claims, id, "claim")

    def exercise(self, number):
        return find(self.exercises, number, "exercise")


def find(table, name, kind):
    """The entry of a table, or an error that says which names are near."""
    if name in table:
        return table[name]
    near = get_close_matches(str(name), table, 3)
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    raise SlidesError(f"There is no {kind} {name}{hint}")


def read_cells(folder):
    """Every cell of the notebooks, named `notebook#cell`."""
    for path in sorted(folder.glob("*.ipynb")):
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


def excerpt(cell, number=None):
    """The marked parts of a Markdown cell, as paragraphs, or one of them, counted from 1."""
    parts = [part.strip() for part in MARKED.findall(cell.source)]
    if len(parts) != len(MARKER.findall(cell.source)) / 2:
        raise SlidesError(
            f"In the cell {cell.name} a comment for slides is opened or closed alone."
        )
    if number is None:
        return "\n\n".join(parts) if parts else cell.source.strip()
    if not 1 <= number <= len(parts):
        raise SlidesError(f"The cell {cell.name} has no excerpt {number}, but {len(parts)}.")
    return parts[number - 1]


def exercises(cells):
    """The exercises of the sheets: what stands between a heading and its solution."""
    for cell in cells:
        for heading in EXERCISE.finditer(cell.source) if cell.kind == "markdown" else ():
            rest = cell.source[heading.end() :]
            end = SOLUTION.search(rest)
            text = rest[: end.start()] if end else rest
            yield Exercise(heading["number"], heading["name"].strip(), text.strip())


def lines_between(text, start=None, end=None, only=None, where=""):
    """The lines of a text from one that begins with `start` to one that begins with `end`,
    both included; then those that contain `only`."""
    lines = text.splitlines()
    first = position(lines, start, where) if start else 0
    last = first + position(lines[first:], end, where) if end else len(lines) - 1
    chosen = [line for line in lines[first : last + 1] if not only or only in line]
    if not any(line.strip() for line in chosen):
        raise SlidesError(f"Nothing is left of {where} to show: no line contains “{only}”.")
    return "\n".join(chosen).strip("\n")


def position(lines, beginning, where):
    for number, line in enumerate(lines):
        if line.strip().startswith(beginning):
            return number
    raise SlidesError(f"No line of {where} begins with “{beginning}”.")
