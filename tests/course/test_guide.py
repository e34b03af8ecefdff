"""The code that the guide asks a teacher to type gives the answers that the guide shows."""

import ast
import contextlib
import io
import re
from pathlib import Path
from unittest import mock

import pytest

from tools.course.assignments import SOLUTION, SOURCES
from tools.files import read_notebook

GUIDE = Path(__file__).resolve().parents[2] / "book" / "teaching"
TYPED = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", re.DOTALL)
STEP = re.compile(r"^\*\*Step (\d)\.?\*\*", re.MULTILINE)
PLANS = sorted([GUIDE / "lecture.md", *GUIDE.glob("session-*.md")])


def shown(code, names):
    """The lines that a notebook cell with this code would print, with formulas as text."""
    show = mock.patch("sys.displayhook", lambda value: value is None or print(value))
    with show, contextlib.redirect_stdout(io.StringIO()) as printed:
        for line in ast.parse(code).body:
            exec(compile(ast.Interactive([line]), "<guide>", "single"), names)
    return lines(printed.getvalue())


def lines(text):
    return [line.rstrip() for line in text.strip().splitlines()]


@pytest.mark.parametrize("page", PLANS, ids=lambda page: page.stem)
def test_the_code_of_a_plan_gives_the_shown_output(page):
    text, names = page.read_text(encoding="utf-8"), {}
    assert TYPED.search(text)
    for code, answer in TYPED.findall(text):
        assert shown(code, names) == lines(answer), code


@pytest.mark.parametrize("page", PLANS, ids=lambda page: page.stem)
def test_a_plan_takes_ninety_minutes_with_five_of_slack_and_uses_every_step(page):
    text = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+?) \| .+? \| (.+?) \|$", text, re.MULTILINE)
    assert sum(int(minutes) for minutes, *_ in rows) == 90
    assert [minutes for minutes, what, _ in rows if what.startswith("slack: ")] == ["5"]
    assert [what for _, what, _ in rows if what.startswith("set up: ")] == [rows[0][1]]
    named = [steps for *_, uses in rows for steps in re.findall(r"steps? ([\d, and]+)", uses)]
    assert sorted(re.findall(r"\d", " ".join(named))) == sorted(STEP.findall(text))


def test_every_board_is_shown_with_a_description():
    said = "".join(page.read_text(encoding="utf-8") for page in PLANS)
    boards = {path.name for path in (GUIDE / "boards").glob("*.svg")}
    shown_with_words = set(re.findall(r"!\[[^\]]{40,}\]\(boards/([\w-]+\.svg)\)", said))
    assert boards and boards == shown_with_words


def test_the_estimated_minutes_follow_from_words_parts_and_lines():
    rows = []
    for path in sorted(SOURCES.glob("*.ipynb")):
        cells = read_notebook(path).cells
        code = [cell.source for cell in cells if cell.cell_type == "code"]
        text = [cell.source for cell in cells if cell.cell_type == "markdown"]
        words = sum(len(source.split()) for source in text if not SOLUTION.search(source + "\n"))
        solved = [found[2] for source in code if (found := SOLUTION.search(source + "\n"))]
        count = sum(len(lines.strip().splitlines()) for lines in solved)
        parts = sum(cell.id.endswith("-tests") for cell in cells)
        minutes = 5 * round((words / 100 + 4 * parts + 2 * count + 20) / 5)
        rows.append(f"| `{path.stem}` | {words} | {parts} | {count} | {minutes} |")
    assert "\n".join(rows) in (GUIDE / "grading.md").read_text(encoding="utf-8")
