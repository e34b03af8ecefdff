"""Every theorem has its five parts, side by side in its section of the notebook.

The statement and its hypotheses are read by the register. Here: the proof, the
counterexample, the check and its control, and that all of them speak of this theorem.
"""

import ast
import json
from pathlib import Path

import pytest
from register import HEADING, PROVED_KINDS, read_register

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
PROVED = read_register(FOLDER)
#: A lemma is proved like a theorem; the other parts stand with the theorem that uses it.
THEOREMS = [entry for entry in PROVED if entry.kind != "Lemma"]

each_proof = pytest.mark.parametrize("theorem", PROVED, ids=lambda t: t.label)
each_theorem = pytest.mark.parametrize("theorem", THEOREMS, ids=lambda t: t.label)


def section(theorem):
    """The code cells between the heading of a theorem and the next one."""
    found, here = [], False
    for cell in json.loads(theorem.notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            found += [cell] if here else []
            continue
        for line in "".join(cell["source"]).splitlines():
            heading = HEADING.fullmatch(line.rstrip())
            if heading and heading["kind"] in PROVED_KINDS:
                here = heading["number"] == theorem.number
            elif line.startswith("## "):
                here = False
    return found


def calls(cell):
    """(name of the function, its first argument where that is a string) of each call."""
    for node in ast.walk(ast.parse("".join(cell["source"]))):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", None))
            first = node.args[0] if node.args else None
            yield name, first.value if isinstance(first, ast.Constant) else None


def called(cell):
    return {name for name, _ in calls(cell)}


def printed(cell):
    return "".join(
        "".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream"
    )


def test_there_are_theorems():
    assert THEOREMS, f"No notebook in {FOLDER.name}/ states a theorem."


@each_proof
def test_it_is_proved_under_its_own_name(theorem):
    openings = {("Derivation", theorem.name), ("Induction", theorem.name)}
    proofs = [
        cell
        for cell in section(theorem)
        if ("qed", theorem.label) in calls(cell) and openings & set(calls(cell))
    ]
    assert proofs, (
        f'no cell of its section holds both Derivation("{theorem.name}", …) '
        f'or Induction("{theorem.name}", …), and .qed("{theorem.label}")'
    )


@each_theorem
@pytest.mark.parametrize("part", ["counterexample", "judge", "control"])
def test_it_has(theorem, part):
    present = any(part in called(cell) for cell in section(theorem))
    assert present, f"its section calls no {part}(…)"


@each_theorem
def test_the_check_passed_and_says_so(theorem):
    expected = f"PASS  {theorem.label} ({theorem.name})"
    outputs = [printed(cell) for cell in section(theorem) if "judge" in called(cell)]
    assert any(expected in text for text in outputs), (
        f"the stored output of its check does not say “{expected}”"
    )
