"""The copies for Colab run alone, in an empty folder, and print what the originals print."""

import ast
import re
import sys

import nbformat
import pytest
from nbclient import NotebookClient

from tools.colab import NOTEBOOKS, colab_copy, companions, imported
from tools.execute_notebooks import own_sockets

#: The packages that a copy may expect in Colab.
IN_COLAB = {"torch", "sympy", "mpmath", "matplotlib", "numpy", "transformers"}
LINK = re.compile(r"\]\(([^)\s]+\.(?:ipynb|md|html)[^)]*)\)")

each_copy = pytest.mark.parametrize(
    "path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem
)


@each_copy
def test_a_copy_leads_to_the_site_and_imports_what_colab_has_or_it_carries(path):
    for site in ("", "https://example.org/book"):
        notebook = nbformat.reads(colab_copy(path, site), as_version=4)
        text = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
        assert all(site and target.startswith(f"{site}/") for target in LINK.findall(text))
    carried = companions(nbformat.read(path, as_version=4))
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    sources += [p.read_text(encoding="utf-8") for p in carried if p.suffix == ".py"]
    wanted = {name for source in sources for name in imported(ast.parse(source))}
    names = {p.relative_to(NOTEBOOKS).parts[0].removesuffix(".py") for p in carried}
    assert wanted - sys.stdlib_module_names - names <= IN_COLAB


def told(notebook):
    """Yield (source, printed text, shown values, number of pictures) for each code cell."""
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        printed = "".join(o.text for o in cell.outputs if o.output_type == "stream")
        shown = [o.data for o in cell.outputs if "data" in o]
        words = [data.get("text/latex", data.get("text/plain")) for data in shown]
        yield cell.source, printed, words, sum("image/png" in data for data in shown)


@each_copy
def test_a_copy_runs_alone_and_prints_the_same(path, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "")
    monkeypatch.delenv("MPLBACKEND", raising=False)  # figures appear inline, as in Colab
    original = nbformat.read(path, as_version=4)
    copy = nbformat.reads(colab_copy(path), as_version=4)
    options = {"timeout": 120, "kernel_name": "python3", "config": own_sockets()}
    NotebookClient(copy, resources={"metadata": {"path": str(tmp_path)}}, **options).execute()
    first, *rest = told(copy)
    assert first[1:] == ("", [], 0) and rest == list(told(original))
    written = {p.relative_to(NOTEBOOKS).parts[0] for p in companions(original)}
    assert {p.name for p in tmp_path.iterdir()} <= written and "derivation" in written
