"""Every theorem has its five parts, on one page.

The statement and its hypotheses are read by the register.  Here: the proof, the necessity, the
check and its control.  They are found by the theorem's name, wherever on the page they stand;
an exact instance is of the theorem that needs the hypothesis which it drops (``without=…``), and
one that names none belongs to the section it stands in.
"""

import ast
import re
from functools import cache

import pytest
from cells import printed
from files import NOTEBOOKS, read_notebook
from register import HEADING, read_register

PROVED = read_register(NOTEBOOKS)


@cache
def cells_of(path):
    """(number of the theorem in whose section it stands, what it calls, what it prints) of a cell."""
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
    """(function, first argument where that is a constant) of each call in a cell."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    name = lambda f: getattr(f, "attr", getattr(f, "id", None))
    return {(name(n.func), getattr(n.args[0], "value", None) if n.args else None) for n in nodes}


@pytest.mark.parametrize("theorem", PROVED, ids=lambda t: t.label)
def test_it_has_its_parts(theorem):
    cells = cells_of(theorem.notebook)
    begun = {("Derivation", theorem.name), ("Induction", theorem.name)}
    assert any(("qed", theorem.label) in called and called & begun for _, called, _ in cells), (
        f'no cell of its page holds both Derivation("{theorem.name}", …) and its .qed(…)'
    )
    if theorem.kind == "Lemma":  # the other parts stand with the theorem that uses it
        return
    named = [(number, {name for name, _ in called}, said) for number, called, said in cells]
    passed = f"PASS  {theorem.label} ({theorem.name})"
    checks = [called for _, called, said in named if passed in said and "judge" in called]
    assert checks, f"no stored output of a judge(…) says “{passed}”"
    own = [called for number, called, _ in named if number == theorem.number]
    assert any("control" in called for called in checks + own), "its check has no control(…)"
    dropped = re.findall("without “(.+?)”", "\n".join(said for *_, said in cells))
    needs = " ".join(theorem.needs.replace("$", "").split())
    assert any("counterexample" in called for called in own) or any(d in needs for d in dropped), (
        "no counterexample(…, without=…) on its page drops something that it needs"
    )
