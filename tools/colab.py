"""Copy each notebook into one that runs alone, in Colab or in any folder.

    python -m tools colab                  # into _build/colab/notebooks
    python -m tools colab some/folder      # elsewhere

The first code cell of a copy, which Colab folds, contains an archive of the book's packages that
the notebook imports and of the files that it names, and unpacks this archive beside the notebook.
Nothing is installed or downloaded.  Links to other chapters lead to the published book if its
address is known, and become plain text otherwise.
"""

import ast
import base64
import re
import tarfile
from collections.abc import Iterator
from functools import cache
from io import BytesIO
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from tools.addresses import site_address
from tools.cells import FENCE, has_tag
from tools.files import NOTEBOOKS, ROOT, as_text, read_notebook, write

COPIES = ROOT / "_build" / "colab" / "notebooks"

#: A string in code that may name a file in the folder of the notebooks.
FILE = re.compile(r"\w[\w-]*(/\w[\w-]*)*\.\w+")
LINK = re.compile(
    r"\[([^\]]+)\]\((?P<up>\.\./)?(?P<page>[\w./-]+)\.(?:ipynb|md)(?P<anchor>#[\w-]+)?\)"
)

OPENING = """\
#@title From the book “Where Did the Bias Go?”: its code. Run this cell first.
# It unpacks the proof checker beside this notebook, as Python files that you can read.
# Everything runs on a CPU. To measure on a GPU as well, choose one in Colab's menu
# (Runtime, Change runtime type) before you run anything; the checks then use it.
import base64, io, tarfile

code = io.BytesIO(base64.b64decode("{}"))
tarfile.open(fileobj=code).extractall(filter="data")"""
FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}}


def main(folder=COPIES):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    written = copies(site_address(ROOT))
    for name, copy in written.items():
        write(folder / name, copy)
    print(f"{len(written)} notebooks that run alone: {folder}")


def copies(site: str) -> dict[str, bytes]:
    """{file name: the copy} of all notebooks."""
    paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    return {path.name: colab_copy(path, site).encode() for path in paths}


def colab_copy(path: Path, site: str = "") -> str:
    """The copy of a notebook, as text; ``site`` is the published book's address, or ""."""
    notebook = read_notebook(path)
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts = FENCE.split(cell.source)  # every other part is code
            parts[::2] = [with_links(text, site) for text in parts[::2]]
            cell.source = "".join(parts)
        elif has_tag(cell, "hide-cell"):  # the solution of an exercise
            cell.metadata.update(FOLDED)
    return as_text(with_opening(notebook))


def with_opening(notebook: NotebookNode, place: int = 1) -> NotebookNode:
    """Add a cell that writes what the notebook needs, by default below its title; return it."""
    source = writing_cell(tuple(companions(notebook)))
    opening = nbformat.v4.new_code_cell(source, metadata=FOLDED, id="the-checker")
    notebook.cells.insert(place, opening)
    notebook.metadata.update({"colab": {"provenance": []}})
    return notebook


def companions(notebook: NotebookNode) -> list[Path]:
    """The files of the book that a notebook needs beside it, sorted.

    They are the packages and modules in NOTEBOOKS that it imports, directly or through others, and
    the files there that its code names, such as a script to run, a record to plot, or a style.
    """
    found, todo = set(), set()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            tree = ast.parse(cell.source)
            strings = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant))
            named = (s for s in strings if isinstance(s, str) and FILE.fullmatch(s))
            todo |= files_of([*imported(tree), *named])
    while todo := todo - found:
        found |= todo
        todo = files_of(name for path in todo if path.suffix == ".py" for name in imported_by(path))
    return sorted(found)


def files_of(names):
    """The files in NOTEBOOKS that have these names, or belong to packages with these names."""
    found = set()
    for name in names:
        package, file = NOTEBOOKS / name, NOTEBOOKS / f"{name}.py"
        found |= {*package.rglob("*.py")} | {p for p in (package, file) if p.is_file()}
    return found


@cache
def imported_by(path):
    """The modules that a file imports, as a set."""
    return {*imported(ast.parse(path.read_text(encoding="utf-8")))}


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the top-level modules that code imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.module.split(".")[0]


@cache
def writing_cell(paths):
    """The source of a cell that writes these files; most notebooks need the same ones."""
    data = BytesIO()
    with tarfile.open(fileobj=data, mode="w:xz") as archive:
        for path in paths:
            content = path.read_bytes()
            file = tarfile.TarInfo(path.relative_to(NOTEBOOKS).as_posix())
            file.size = len(content)
            archive.addfile(file, BytesIO(content))
    return OPENING.format(base64.b64encode(data.getvalue()).decode())


def with_links(text: str, site: str) -> str:
    """The text, in which links to other pages of the book lead to the site or become plain text."""
    if not site:
        return LINK.sub(r"\1", text)

    def fitted(link):
        folder = "" if link["up"] else "notebooks/"
        return f"[{link[1]}]({site}/{folder}{link['page']}.html{link['anchor'] or ''})"

    return LINK.sub(fitted, text)
