"""Read from a notebook its Markdown and what its cells print; write tables in Markdown."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from nbformat import NotebookNode

from tools.files import read_notebook

#: A fenced block of code; splitting a text at these yields Markdown and code in turn.
FENCE = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)


def text_of(path: Path) -> str:
    """The Markdown of a notebook."""
    return "\n\n".join(c.source for c in read_notebook(path).cells if c.cell_type == "markdown")


def title_of(text: str) -> str:
    """The title of a page in Markdown: its first heading of the first level, or ""."""
    return next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), "")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table in Markdown, from the cells of its head and of its rows."""
    lines = [" ".join(["|", *(f"{cell} |".lstrip() for cell in row)]) for row in [head, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def has_tag(cell: NotebookNode, tag: str) -> bool:
    return tag in cell.metadata.get("tags", ())


def printed(cell: NotebookNode) -> str:
    """What a cell prints, and its last value as plain text, without pictures."""
    parts = [
        output.get("text", output.get("data", {}).get("text/plain", ""))
        for output in cell.get("outputs", ())
    ]
    return "\n".join(parts)


def printed_in(path: Path) -> str:
    """Everything that the cells of a notebook print."""
    return "\n".join(map(printed, read_notebook(path).cells))
