"""Derivations that readers can edit and run in the page.

A code cell that proves, refutes or refuses something gets a button if it can run without torch, on
the checker alone, in the reader's browser.  The page carries the cell's source and the earlier
statements of the notebook that it depends on, so the cell runs by itself.  Statements that need
torch are left out; a cell of which nothing remains gets no button.

The page's scripts are in `book/static/live/`, and `tools/site/live_assets.py` fills `.venv/live/site`
with Python for the browser.  Without the latter folder no page changes.
"""

import ast
import builtins
import json
import shutil
import symtable
import sys
from collections import namedtuple
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx.transforms import SphinxTransform

from tools.files import read_notebook
from tools.site.formulas import MACROS

#: Modules that the browser has, except for ABSENT, the part of the checker that needs torch.
PRESENT = sys.stdlib_module_names | {"derivation", "sympy"}
ABSENT = "derivation.checks"
NOT_THERE = "a module that is not there"  # stands for any module that the browser lacks
LIVE = {"Derivation", "Induction", "attempt", "counterexample", "refusal"}
#: Methods that change the object on which they are called.
CONTINUING = {"by", "base", "step"}
EVERYTHING = "*"  # stands for all that `from derivation import *` may bind


# ---- how the statements of a notebook depend on each other --------------------------


#: A statement of a code cell with the comments above it, and the names it reads and changes.
Statement = namedtuple("Statement", "source reads changes")


@dataclass(frozen=True)
class LiveCell:
    index: int  # among all cells of the notebook
    source: str
    prelude: str  # the statements to run before it
    shortened: bool  # whether statements that need torch were left out


def live_cells(notebook):
    """Yield the cells of a notebook that can run in the page."""
    unknown, before = {NOT_THERE}, []  # names that need torch; statements that do not
    for index, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        source, kept, shortened = "".join(cell["source"]), [], False
        for statement in statements(source):
            if statement.reads & unknown:
                unknown |= statement.changes
                shortened = True
            else:
                unknown -= statement.changes
                kept.append(statement)
        if any(LIVE & statement.reads for statement in kept):
            left = "\n".join(s.source for s in kept).strip("\n") if shortened else source
            yield LiveCell(index, left, needed(kept, before), shortened)
        before += kept


def needed(cell, before):
    """The earlier statements that a cell depends on, directly or through other statements."""
    # A function looks its names up when it is called, so every binding before this cell counts.
    names, chosen = {EVERYTHING}.union(*(s.reads for s in cell)), set()
    while more := {s for s in before if s.changes & names} - chosen:
        chosen |= more
        names = names.union(*(s.reads for s in more))
    return "\n".join(s.source for s in before if s in chosen)


def statements(source):
    """Yield the statements of a code cell, each of which has to begin on its own line."""
    lines, end = source.splitlines(), 0
    for node in ast.parse(source).body:
        text = "\n".join(lines[end : node.end_lineno])
        end = node.end_lineno
        reads, binds = global_names(text)
        changed = {*changed_objects(node)} - LIVE
        yield Statement(text, reads | absent(node), binds | changed)


def global_names(text):
    """(read, bound): the global names in a statement, including those inside functions."""
    read, bound = set(), {EVERYTHING} if "import *" in text else set()

    def look(table, outermost):
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (outermost or symbol.is_global()):
                read.add(symbol.get_name())
            if outermost and (symbol.is_assigned() or symbol.is_imported()):
                bound.add(symbol.get_name())
        for inner in table.get_children():
            look(inner, False)

    look(symtable.symtable(text, "cell", "exec"), True)
    return frozenset(read - set(dir(builtins))), frozenset(bound)


def changed_objects(tree):
    """Yield the names whose objects a statement changes, as in `proof.a(…).by(…)` or `x[k] = …`."""
    for part in ast.walk(tree):
        if getattr(part, "attr", "") in CONTINUING or (
            isinstance(part, ast.Attribute | ast.Subscript) and isinstance(part.ctx, ast.Store)
        ):
            while isinstance(part, ast.Attribute | ast.Subscript | ast.Call):
                part = part.func if isinstance(part, ast.Call) else part.value
            yield getattr(part, "id", "")


def absent(tree):
    """{NOT_THERE} if a statement imports what the browser lacks, even inside `with` or `if`."""
    names = [n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)]
    names += [a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names]
    there = (name.split(".")[0] in PRESENT and name != ABSENT for name in names)
    return set() if all(there) else {NOT_THERE}


# ---- the page ----------------------------------------------------------------------


class NumberCells(SphinxTransform):
    """Give each code cell a class with its number, so that the page can find it."""

    default_priority = 870

    def apply(self):
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") == "cell_code":
                cell["classes"].append(f"cell-{cell['cell_index']}")


def add_live_cells(app, pagename, templatename, context, doctree):
    """Write the live cells of a notebook into its page."""
    source = Path(app.srcdir, f"{pagename}.ipynb")
    found = live_cells(read_notebook(source)) if source.is_file() and there(app) else ()
    if cells := [vars(cell) for cell in found]:
        folder = context["pathto"]("_static/live/", 1)
        data = json.dumps({"folder": folder, "macros": MACROS, "cells": cells})
        data = data.replace("</", "<\\/")  # "</script>" would end the script
        context["body"] += f'<script type="application/json" id="live-proofs">{data}</script>'
        app.add_css_file("live/live.css")
        app.add_js_file("live/live.js", loading_method="defer")


def assets(app):
    return Path(app.confdir, ".venv", "live", "site")


def there(app):
    return app.builder.name == "html" and assets(app).is_dir()


def copy_assets(app, exception):
    if exception is None and there(app):
        shutil.copytree(assets(app), Path(app.outdir, "_static", "live"), dirs_exist_ok=True)


def setup(app):
    app.add_transform(NumberCells)
    app.connect("html-page-context", add_live_cells)
    app.connect("build-finished", copy_assets)
