"""Each part has a quiz: five questions, one right answer each, and a reason for every answer."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
PARTS = [p for p in yaml.safe_load((ROOT / "_toc.yml").read_text())["parts"]]
PAGES = sorted((ROOT / "book" / "teaching").glob("quiz-*.md"))
ANSWER = re.compile(
    r"^:::\{dropdown\} (?P<text>.+)\n:class-container: quiz-(?P<kind>right|wrong)\n\n"
    r"(?P<why>.+)\n:::$",
    re.M,
)

each_quiz = pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)


def questions(path):
    """(title, its Markdown) of each question."""
    parts = re.split(
        r"^## (\d\. .+)$", path.read_text(encoding="utf-8").partition("## And now")[0], flags=re.M
    )
    return list(zip(parts[1::2], parts[2::2]))


def test_every_numbered_part_ends_with_its_quiz():
    last = {
        part["caption"].split(":")[0]: part["chapters"][-1]["sections"][-1]["file"]
        for part in PARTS
        if part["caption"].startswith("Part ")
    }
    assert list(last.values()) == [f"book/teaching/quiz-{n}" for n in range(1, len(last) + 1)]
    assert len(PAGES) == len(last)


@each_quiz
def test_it_has_five_questions_in_order(path):
    assert [title.split(".")[0] for title, _ in questions(path)] == list("12345")


@each_quiz
def test_one_answer_is_right_and_each_says_why(path):
    for title, text in questions(path):
        answers = list(ANSWER.finditer(text))
        assert len(answers) == text.count(":::{dropdown}") >= 3, title
        assert [a["kind"] for a in answers].count("right") == 1, title
        for a in answers:
            opening = "**Right.** " if a["kind"] == "right" else "**No.** "
            assert a["why"].startswith(opening) and len(a["why"]) > 40, (title, a["text"])


@each_quiz
def test_an_answer_can_be_read_aloud(path):
    """A formula alone says nothing to a screen reader's list of what can be opened."""
    for a in ANSWER.finditer(path.read_text(encoding="utf-8")):
        assert re.search(r"\w", re.sub(r"\$[^$]*\$", "", a["text"])), a["text"]


def test_the_right_answer_is_not_always_in_the_same_place():
    places = {
        [a["kind"] for a in ANSWER.finditer(text)].index("right")
        for path in PAGES
        for _, text in questions(path)
    }
    assert places >= {0, 1}
