"""Every theorem has its five parts, side by side in its section of the notebook.

The statement and its hypotheses are read by the register. Here: the proof, the
counterexample, the check and its control, and that all of them speak of this theorem.
"""

import ast
import json
from pathlib import Path

import pytest
from register import HEADING, PROVED_KINDS, read_register

PROVED = read_register(Path(__file__).resolve().parent.parent / "notebooks")


def section(theorem):
    """The code cells between the heading of a theorem and the next one."""
    here = False
    for cell in json.loads(theorem.notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            if here:
                yield cell
            continue
        for line in "".join(cell["source"]).splitlines():
            heading = HEADING.fullmatch(line.rstrip())
            if heading and heading["kind"] in PROVED_KINDS:
                here = heading["number"] == theorem.number
            elif line.startswith("## "):
                here = False


def calls(cell):
    """The functions that a cell calls, {name: first arguments where they are strings}."""
    found = {}
    for node in ast.walk(ast.parse("".join(cell["source"]))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            first = node.args[0] if node.args else None
            found.setdefault(name, set()).add(getattr(first, "value", None))
    return found


def printed(cell):
    return "".join("".join(output.get("text", "")) for output in cell["outputs"])


def test_there_are_theorems():
    assert len(PROVED) > 90


@pytest.mark.parametrize("theorem", PROVED, ids=lambda t: t.label)
def test_it_has_its_parts(theorem):
    cells = [(calls(cell), printed(cell)) for cell in section(theorem)]
    assert any(
        theorem.label in called.get("qed", ())
        and theorem.name in {*called.get("Derivation", ()), *called.get("Induction", ())}
        for called, _ in cells
    ), f'no cell of its section holds both Derivation("{theorem.name}", …) and its .qed(…)'
    if theorem.kind == "Lemma":  # the other parts stand with the theorem that uses it
        return
    for part in ("counterexample", "judge", "control"):
        assert any(part in called for called, _ in cells), f"its section calls no {part}(…)"
    expected = f"PASS  {theorem.label} ({theorem.name})"
    assert any(expected in said for called, said in cells if "judge" in called), (
        f"the stored output of its check does not say “{expected}”"
    )
