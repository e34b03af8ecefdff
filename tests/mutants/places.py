"""The places where mistakes are made (notebooks and modules of the checker), and their tests.

A place consists of pieces, {name: its text}: the cells of a notebook, or the assignments, functions
and classes of a module.  `with_piece` returns the whole file with another text for one piece.

The tests are part of `make test`: nbval and the test of tolerances for a notebook, and the tests of
the checker for a module, of which those that find the most mistakes run first.  Tests with random
lines are left out, because one seed may miss what another finds.
"""

import ast
import json
import re
from pathlib import Path

from tools.files import ROOT

from .mistakes import KINDS, mutants_of

NOTEBOOKS = Path("notebooks")
CHECKER = NOTEBOOKS / "derivation"
TOLERANCES = "tests/test_notebooks.py::test_a_tolerance_is_as_small_as_rounding_allows"
#: The tests of the checker that find the most mistakes, and find them quickly.
FIRST = re.compile("proving|kernel|definitions|checks")
LINES_TO_ONE_MISTAKE = 25


class Notebook:
    """A notebook without its imports, and without plots, as nbval does not compare pictures."""

    part, kinds, is_left = "notebooks", KINDS, staticmethod(lambda node: False)
    count = 8  # mistakes to make by default

    def __init__(self, path):
        self.path, self.name = path, path.stem
        self._notebook = json.loads((ROOT / path).read_text(encoding="utf-8"))
        self.judge = "-p tests.notebook_kernels --nbval --nbval-current-env".split()
        self.judge += ["--nbval-cell-timeout=120", f"{TOLERANCES}[{self.name}]", str(path)]
        code = [cell for cell in self._notebook["cells"] if cell["cell_type"] == "code"]
        sources = {cell["id"]: "".join(cell["source"]) for cell in code[1:]}
        self.pieces = {name: text for name, text in sources.items() if "plt.show()" not in text}

    def with_piece(self, name, text):
        cells = [c | {"source": text} if c["id"] == name else c for c in self._notebook["cells"]]
        return json.dumps(self._notebook | {"cells": cells})


class Module:
    """A module of the checker.

    Code that only prints, phrases a refusal or checks versions is not changed.  The kind "a bias
    left out" does not apply here, where b is a letter like any other.
    """

    part = "checker"
    kinds = {kind: edits for kind, edits in KINDS.items() if kind != "a bias left out"}
    PRINTS = re.compile(
        r"_?show\w*|__repr__|__str__|_repr_latex_|assumptions|reason_text|_?title|_refusal"
        r"|_independence|_shape|_lines|_both|_names?|_print_Exp1|_array|_used"
        r"|start|_accelerator|_lack|_first_line"
    )
    NOT_TRIED = set(
        "display layout latex_and_text term_printer shown_sizes versions __init__".split()
    )

    def __init__(self, path):
        self.path = path
        self.name = ".".join(path.relative_to(CHECKER).with_suffix("").parts)
        self._text = (ROOT / path).read_text(encoding="utf-8")
        self.count = -(-self._text.count("\n") // LINES_TO_ONE_MISTAKE)
        tests = sorted(ROOT.glob("tests/derivation/test_*.py")) + [ROOT / "tests/test_checks.py"]
        tests.sort(key=lambda path: not FIRST.search(path.name))
        self.judge = [str(path.relative_to(ROOT)) for path in tests]
        lines, self.pieces = self._text.splitlines(keepends=True), {}
        for node in ast.parse(self._text).body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Assign):
                name = getattr(node, "name", None) or ast.unparse(node.targets[0])
                first = min(x.lineno for x in (node, *getattr(node, "decorator_list", ())))
                self.pieces[name] = "".join(lines[first - 1 : node.end_lineno])

    def with_piece(self, name, text):
        return self._text.replace(f"\n{self.pieces[name]}", f"\n{text}\n", 1)

    def is_left(self, node):
        return isinstance(node, ast.FunctionDef) and bool(self.PRINTS.fullmatch(node.name))


def all_places():
    found = lambda pattern: [path.relative_to(ROOT) for path in sorted(ROOT.glob(pattern))]
    tried = [p for p in found(f"{CHECKER}/**/*.py") if p.stem not in Module.NOT_TRIED]
    return [*map(Notebook, found(f"{NOTEBOOKS}/*.ipynb")), *map(Module, tried)]


def mutants_in(place):
    """Yield (name of a piece, mutant) for every mistake that can be made in a place."""
    for name, text in place.pieces.items():
        for mutant in mutants_of(text, place.is_left, place.kinds):
            # a module's tables count as definitions, which are not deleted
            if not (place.part == "checker" and mutant.source.strip() == "pass"):
                yield name, mutant
