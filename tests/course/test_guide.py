"""The plans of the guide fill their time, and their code gives the answers that they show."""

import ast
import contextlib
import io
import re
from unittest import mock

import pytest

from tools.course.archives import TEACHING

TYPED = re.compile(r"```python\n(.*?)```\n(?:```text\n(.*?)```)?", re.DOTALL)
STEP = re.compile(r"^\*\*Step (\d)\.?\*\*", re.MULTILINE)

each_plan = pytest.mark.parametrize(
    "page", [TEACHING / "lecture.md", *sorted(TEACHING.glob("session-*.md"))], ids=lambda p: p.stem
)


def shown(code, names):
    """The lines that a notebook cell with this code would print, with formulas as text."""
    show = mock.patch("sys.displayhook", lambda value: value is None or print(value))
    with show, contextlib.redirect_stdout(io.StringIO()) as printed:
        for line in ast.parse(code).body:
            exec(compile(ast.Interactive([line]), "<guide>", "single"), names)
    return lines(printed.getvalue())


def lines(text):
    return [line.rstrip() for line in text.strip().splitlines()]


@each_plan
def test_the_code_of_a_plan_gives_the_shown_output(page):
    typed, names = TYPED.findall(page.read_text(encoding="utf-8")), {}
    assert typed
    for code, answer in typed:
        assert shown(code, names) == lines(answer), code


@each_plan
def test_a_plan_takes_ninety_minutes_with_five_of_slack_and_uses_every_step(page):
    text = page.read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (.+?) \| .+? \| (.+?) \|$", text, re.MULTILINE)
    assert sum(int(minutes) for minutes, *_ in rows) == 90
    assert [minutes for minutes, what, _ in rows if what.startswith("slack: ")] == ["5"]
    named = [steps for *_, uses in rows for steps in re.findall(r"steps? ([\d, and]+)", uses)]
    assert sorted(re.findall(r"\d", " ".join(named))) == sorted(STEP.findall(text))
