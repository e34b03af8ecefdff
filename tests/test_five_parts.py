"""Every theorem has its five parts, on one page.

The register reads the statement with its hypotheses.  These tests find the proof, a counterexample,
the check and its control, by the theorem's name, anywhere on the page.  A counterexample belongs to
the theorem whose hypothesis it drops (``without=…``), or otherwise to the theorem of its section.
"""

import ast
import re
from functools import cache

import pytest

from tools.cells import printed
from tools.files import NOTEBOOKS, read_notebook
from tools.site.register import HEADING, read_register

PROVED = read_register(NOTEBOOKS)


@cache
def cells_of(path):
    """(number of the section's theorem, calls in the cell, its output) for each code cell."""
    found, here = [], None
    for cell in read_notebook(path).cells:
        if cell.cell_type == "code":
            found.append((here, calls(cell.source), printed(cell)))
            continue
        for line in cell.source.splitlines():
            if heading := HEADING.fullmatch(line.rstrip()):
                here = heading["number"]
            elif line.startswith("## "):
                here = None
    return found


def calls(source):
    """{(function name, first argument or None if that is not a constant)} for all calls."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    name = lambda f: getattr(f, "attr", getattr(f, "id", None))
    return {(name(n.func), getattr(n.args[0], "value", None) if n.args else None) for n in nodes}


@pytest.mark.parametrize("theorem", PROVED, ids=lambda t: t.label)
def test_a_theorem_has_its_parts(theorem):
    cells = cells_of(theorem.notebook)
    begun = {("Derivation", theorem.name), ("Induction", theorem.name)}
    assert any(("qed", theorem.label) in called and called & begun for _, called, _ in cells), (
        f'no cell of its page holds both Derivation("{theorem.name}", …) and its .qed(…)'
    )
    if theorem.kind == "Lemma":  # the theorem that uses a lemma has the other parts
        return
    passed = f"PASS  {theorem.label} ({theorem.name})"
    checks = [called for _, called, said in cells if passed in said and "judge" in dict(called)]
    assert checks, f"no stored output of a judge(…) says “{passed}”"
    own = [called for number, called, _ in cells if number == theorem.number]
    assert any("control" in dict(x) for x in checks + own), "its check has no control(…)"
    dropped = re.findall("without “(.+?)”", "\n".join(said for *_, said in cells))
    needs = " ".join(theorem.needs.replace("$", "").split())
    assert any("counterexample" in dict(x) for x in own) or any(d in needs for d in dropped), (
        "no counterexample(…, without=…) on its page drops something that it needs"
    )
