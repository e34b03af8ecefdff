"""Derivations that the reader can edit and run in the page.

A code cell that proves, refutes or refuses something gets a button, provided that it can run
without torch: by the checker alone, in the reader's browser.  The page carries the cell's
source and the earlier statements of the notebook that it needs, so that it runs by itself.
Statements that need torch are left out of a cell; so is the button where nothing is left.

The rest is in `book/static/live/` (the page's side), and in `.venv/live/site`, which
`tools/live_assets.py` fills (Python for the browser).  Without that folder no page changes.
"""

import ast
import builtins
import json
import shutil
import symtable
import sys
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx.transforms import SphinxTransform

#: All that the browser has, but for the part of the checker that needs torch.
PRESENT = sys.stdlib_module_names | {"derivation", "sympy"}
ABSENT = "derivation.checks"
LIVE = {"Derivation", "Induction", "attempt", "counterexample", "refusal"}
#: Methods that add to the object they are called on.
CONTINUING = {"by", "base", "step"}
EVERYTHING = "*"  # what `from derivation import *` may bind


# ---- what a notebook's statements need of each other --------------------------------


@dataclass(frozen=True)
class Statement:
    """A statement of a code cell: its lines, the names it reads and the names it changes."""

    first: int
    last: int
    source: str
    reads: frozenset
    changes: frozenset
    imports_absent: bool

    @property
    def proves(self):
        return bool(LIVE & self.reads)


@dataclass(frozen=True)
class LiveCell:
    index: int  # among all cells of the notebook
    source: str
    prelude: tuple  # the statements to run before it
    shortened: bool  # whether statements that need torch were left out


def statements(source):
    """The statements of a code cell; none where it is not plain Python."""
    try:
        tree = ast.parse(source)
    except SyntaxError:
        return
    lines = source.splitlines()
    for node in tree.body:
        first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))])
        text = "\n".join(lines[first - 1 : node.end_lineno])
        reads, binds = global_names(text)
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            binds |= {EVERYTHING}
        changes = frozenset(binds | changed_objects(node))
        yield Statement(first, node.end_lineno, text, reads, changes, imports_absent(node))


def global_names(text):
    """(read, bound): the names of the notebook in a statement, those inside functions too."""
    read, bound = set(), set()

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


def changed_objects(node):
    """The names whose objects a statement changes: `proof.by(…)`, `table[k] = …`."""
    if isinstance(node, (ast.Lambda, ast.FunctionDef)):
        return set()
    found = set().union(*map(changed_objects, ast.iter_child_nodes(node)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        found |= {owner(node.func)} if node.func.attr in CONTINUING else set()
    elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.ctx, ast.Store):
        found.add(owner(node))
    return found - {None}


def owner(node):
    """The name that `name.a[b].c(…)` begins with; none where a call makes the object anew."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return None
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def imports_absent(tree):
    """Whether a statement imports what the browser has not, also inside a `with` or an `if`."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names.append(node.module or "")
        elif isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
    return any(name.split(".")[0] not in PRESENT or name == ABSENT for name in names)


def live_cells(notebook):
    """The cells of a notebook that can run in the page."""
    unknown, before = set(), []  # names that torch had a hand in; statements without it
    for index, cell in enumerate(notebook["cells"]):
        if cell["cell_type"] != "code":
            continue
        source, kept, dropped = "".join(cell["source"]), [], []
        for statement in statements(source):
            if statement.imports_absent or statement.reads & unknown:
                unknown |= statement.changes
                dropped.append(statement)
            else:
                unknown -= statement.changes
                kept.append(statement)
        if any(statement.proves for statement in kept):
            prelude = needed(kept, before)
            yield LiveCell(index, without(dropped, source), prelude, bool(dropped))
        before += kept


def needed(cell, before):
    """The statements among those before a cell that it needs, and that these need in turn."""
    # A function reads its names when it is called: whatever bound them until then counts.
    names, chosen = {EVERYTHING}.union(*(s.reads for s in cell)), set()
    while more := {s for s in before if s.changes & names} - chosen:
        chosen |= more
        names = names.union(*(s.reads for s in more))
    return tuple(s for s in before if s in chosen)


def without(dropped, source):
    """A cell's source without some of its statements, and without the gaps they leave."""
    gone = {line for s in dropped for line in range(s.first, s.last + 1)}
    lines = []
    for number, line in enumerate(source.splitlines(), start=1):
        if number not in gone and (line.strip() or (lines and lines[-1].strip())):
            lines.append(line)
    return "\n".join(lines).rstrip()


# ---- the page ----------------------------------------------------------------------


class NumberCells(SphinxTransform):
    """Give each code cell a class with its number in the notebook, by which the page finds it."""

    default_priority = 870

    def apply(self):
        for cell in self.document.findall(nodes.container):
            if cell.get("nb_element") == "cell_code":
                cell["classes"].append(f"cell-{cell['cell_index']}")


def add_live_cells(app, pagename, templatename, context, doctree):
    """Write the live cells of a notebook into its page."""
    source = Path(app.env.doc2path(pagename)) if pagename in app.env.found_docs else Path()
    if source.suffix != ".ipynb" or not assets(app).is_dir() or app.builder.name != "html":
        return
    cells = list(live_cells(json.loads(source.read_text(encoding="utf-8"))))
    if cells:
        context["body"] += data_block(cells, context["pathto"]("_static/live/", 1))
        app.add_css_file("live/live.css")
        app.add_js_file("live/live.js", loading_method="defer")


def data_block(cells, folder):
    """The cells as JSON; a statement that several of them need is there once."""
    shared = list(dict.fromkeys(s for cell in cells for s in cell.prelude))
    data = {
        "folder": folder,
        "statements": [s.source for s in shared],
        "cells": [
            {
                "index": cell.index,
                "source": cell.source,
                "prelude": [shared.index(s) for s in cell.prelude],
                "shortened": cell.shortened,
            }
            for cell in cells
        ],
    }
    text = json.dumps(data, ensure_ascii=False).replace("</", "<\\/")  # "</script>" would end it
    return f'<script type="application/json" id="live-proofs">{text}</script>'


def assets(app):
    return Path(app.confdir) / app.config.live_proofs_assets


def copy_assets(app, exception):
    if exception is None and app.builder.name == "html" and assets(app).is_dir():
        shutil.copytree(assets(app), Path(app.outdir, "_static", "live"), dirs_exist_ok=True)


def setup(app):
    app.add_config_value("live_proofs_assets", ".venv/live/site", "")
    app.add_transform(NumberCells)
    app.connect("html-page-context", add_live_cells)
    app.connect("build-finished", copy_assets)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
