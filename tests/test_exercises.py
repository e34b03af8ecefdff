"""Every chapter has a sheet of exercises, and every exercise a folded solution that runs."""

import re
from string import ascii_uppercase

import pytest

from tools.cells import has_tag, printed, text_of
from tools.files import NOTEBOOKS, read_notebook

SHEETS = sorted(NOTEBOOKS.glob("*-exercises.ipynb"))
CHAPTERS = sorted(set(NOTEBOOKS.glob("*.ipynb")) - set(SHEETS))
HEADING = re.compile(r"^### Exercise (\d+)([A-Z]) · (.+) \((recall|extend|discover)\)$", re.M)
FOLDED = "<details><summary>Solution</summary>"
UNWRITTEN = "still to be written, in place of ..."
CHECKS = re.compile(r"\bassert\b|\.qed\(|counterexample\(|refusal\(|judge\(|control\(")


def exercises(path):
    """{(chapter, letter, name, kind): cells of this exercise}."""
    found, current = {}, None
    for cell in read_notebook(path).cells:
        if heading := cell.cell_type == "markdown" and HEADING.search(cell.source):
            current = found.setdefault(heading.groups(), [])
        if current is not None:
            current.append(cell)
    return found


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_leads_to_its_sheet(path):
    section = re.search(r"^## Exercises\n(.+?)(?=^## |\Z)", text_of(path), re.M | re.DOTALL)[1]
    assert re.findall(r"\]\((\d\d-exercises\.ipynb)\)", section) == [
        f"{path.name[:2]}-exercises.ipynb"
    ]
    assert "<details>" not in section, "the solutions stand in the sheet, where they run"


@pytest.mark.parametrize("path", SHEETS, ids=lambda path: path.stem)
def test_a_sheet_has_three_kinds_of_exercises_with_folded_solutions_that_run(path):
    found = exercises(path)
    places = [(int(path.name[:2]), letter) for letter in ascii_uppercase[: len(found)]]
    assert [(int(chapter), letter) for chapter, letter, *_ in found] == places
    assert {kind for *_, kind in found} == {"recall", "extend", "discover"}
    for (_, _, name, _), parts in found.items():
        text = "\n".join(cell.source for cell in parts if cell.cell_type == "markdown")
        assert text.count(FOLDED) == 1, f"{name}: one solution is folded"
        code = "\n".join(cell.source for cell in parts if has_tag(cell, "hide-cell"))
        assert CHECKS.search(code), f"{name}: its solution asserts and proves nothing"
    cells = [cell for cell in read_notebook(path).cells if not has_tag(cell, "hide-cell")]
    attempts = [c for c in cells if c.cell_type == "code" and "attempt(" in c.source]
    assert attempts, "no exercise is answered by the checker"
    for cell in attempts:
        assert UNWRITTEN in printed(cell), f"the cell {cell.id} has nothing left to write"
    assert "```python" not in text_of(path), "no cell runs this code"
