"""The copies for Colab run alone, in an empty folder, and print what the originals print."""

import ast
import os
import re
import sys

import nbformat
import pytest

from tools.cells import printed
from tools.colab import NOTEBOOKS, colab_copy, companions, imported
from tools.execute_notebooks import run
from tools.files import read_notebook

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
    carried = companions(read_notebook(path))
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    sources += [p.read_text(encoding="utf-8") for p in carried if p.suffix == ".py"]
    wanted = {name for source in sources for name in imported(ast.parse(source))}
    names = {p.relative_to(NOTEBOOKS).parts[0].removesuffix(".py") for p in carried}
    assert wanted - sys.stdlib_module_names - names <= IN_COLAB


@each_copy
def test_a_copy_runs_alone_and_prints_the_same(path, tmp_path):
    original, copy = read_notebook(path), nbformat.reads(colab_copy(path), as_version=4)
    ours = ("PYTHONPATH", "MPLBACKEND")  # figures appear inline, as in Colab
    run(copy, tmp_path, {name: x for name, x in os.environ.items() if name not in ours})
    told = [
        [(c.source, printed(c)) for c in one.cells if "outputs" in c] for one in (copy, original)
    ]
    assert told[0][0][1] == "" and told[0][1:] == told[1]
    written = {p.relative_to(NOTEBOOKS).parts[0] for p in companions(original)}
    assert {p.name for p in tmp_path.iterdir()} <= written and "derivation" in written
