"""Every chapter has a sheet of exercises, each with a solution that is folded, and that runs."""

import json
import re
from pathlib import Path
from string import ascii_uppercase

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
SHEETS = sorted(FOLDER.glob("*-exercises.ipynb"))
CHAPTERS = sorted(set(FOLDER.glob("*.ipynb")) - set(SHEETS))
HEADING = re.compile(r"^### Exercise (\d+)([A-Z]) · (.+) \((recall|extend|discover)\)$", re.M)
FOLDED = "<details><summary>Solution</summary>"
UNWRITTEN = "still to be written, in place of ..."

each_sheet = pytest.mark.parametrize("path", SHEETS, ids=lambda path: path.stem)


def number(path):
    """The chapter that a notebook belongs to."""
    return int(path.stem[:2])


def cells(path):
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        yield {**cell, "source": "".join(cell["source"])}


def exercises(path):
    """{(chapter, letter, name, kind): its cells}."""
    found, current = {}, None
    for cell in cells(path):
        heading = HEADING.search(cell["source"]) if cell["cell_type"] == "markdown" else None
        if heading:
            current = found.setdefault(heading.groups(), [])
        if current is not None:
            current.append(cell)
    return found


def is_solution(cell):
    return "hide-cell" in cell["metadata"].get("tags", [])


def said(cell):
    return "".join(
        "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
        for output in cell["outputs"]
    )


def test_every_chapter_has_a_sheet():
    assert {number(path) for path in SHEETS} == {number(path) for path in CHAPTERS}


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_a_chapter_leads_to_its_sheet(path):
    text = "\n".join(cell["source"] for cell in cells(path) if cell["cell_type"] == "markdown")
    section = re.search(r"^## Exercises\n(.+?)(?=^## |\Z)", text, re.M | re.DOTALL)[1]
    (target,) = re.findall(r"\]\((\d\d-exercises\.ipynb)\)", section)
    assert FOLDER / target in SHEETS and target[:2] == path.name[:2]
    assert "<details>" not in section, "the solutions stand in the sheet, where they run"


@each_sheet
def test_its_exercises_have_letters_and_three_kinds(path):
    found = list(exercises(path))
    assert [int(chapter) for chapter, *_ in found] == [number(path)] * len(found)
    assert [letter for _, letter, *_ in found] == list(ascii_uppercase[: len(found)])
    assert {kind for *_, kind in found} == {"recall", "extend", "discover"}


@each_sheet
def test_every_exercise_has_a_folded_solution(path):
    for (_, _, name, _), parts in exercises(path).items():
        folded = sum(
            cell["source"].count(FOLDED) for cell in parts if cell["cell_type"] == "markdown"
        )
        assert folded == 1, f"{name}: {folded} solutions are folded"
        assert any(map(is_solution, parts)), f"{name}: no code of its solution runs"


@each_sheet
def test_a_solution_could_fail(path):
    for (_, _, name, _), parts in exercises(path).items():
        code = "\n".join(cell["source"] for cell in parts if is_solution(cell))
        checks = r"\bassert\b|\.qed\(|counterexample\(|refusal\(|judge\(|control\("
        assert re.search(checks, code), f"{name}: its solution asserts and proves nothing"


@each_sheet
def test_an_attempt_waits_to_be_written(path):
    attempts = [c for c in cells(path) if c["cell_type"] == "code" and "attempt(" in c["source"]]
    open_ones = [cell for cell in attempts if not is_solution(cell)]
    assert open_ones, "no exercise is answered by the checker"
    for cell in open_ones:
        assert UNWRITTEN in said(cell), f"the cell {cell['id']} has nothing left to write"


@each_sheet
def test_no_code_stands_in_the_text_where_it_would_not_run(path):
    for cell in cells(path):
        assert cell["cell_type"] == "code" or "```python" not in cell["source"], cell["id"]
