"""Each part's quiz has five questions, one right answer each, and a reason for every answer."""

import re

import pytest
import yaml
from files import ROOT

PAGES = sorted((ROOT / "book" / "teaching").glob("quiz-*.md"))
QUESTION = re.compile(r"^## (\d)\. (.+)$", re.M)
ANSWER = re.compile(
    r"^:::\{dropdown\} (?P<text>.+)\n:class-container: quiz-(?P<kind>right|wrong)\n\n"
    r"(?P<why>.+)\n:::$",
    re.M,
)


def questions(path):
    """(number, title, Markdown) for each question."""
    text = path.read_text(encoding="utf-8").partition("## And now")[0]
    parts = QUESTION.split(text)[1:]
    return list(zip(parts[::3], parts[1::3], parts[2::3]))


def test_every_numbered_part_ends_with_its_quiz():
    parts = yaml.safe_load((ROOT / "_toc.yml").read_text())["parts"]
    numbered = [part for part in parts if part["caption"].startswith("Part ")]
    last = [part["chapters"][-1]["sections"][-1]["file"] for part in numbered]
    assert last == [f"book/teaching/{path.stem}" for path in PAGES] and len(last) > 1


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_quiz_has_five_questions_with_one_right_answer_and_reasons(path):
    assert [number for number, *_ in questions(path)] == list("12345")
    for _, title, text in questions(path):
        answers = list(ANSWER.finditer(text))
        assert len(answers) == text.count(":::{dropdown}") >= 3, title
        assert [a["kind"] for a in answers].count("right") == 1, title
        for a in answers:
            opening = "**Right.** " if a["kind"] == "right" else "**No.** "
            assert a["why"].startswith(opening) and len(a["why"]) > 40, (title, a["text"])
            # screen readers list the answers, and one that is only a formula would be empty there
            assert re.search(r"\w", re.sub(r"\$[^$]*\$", "", a["text"])), a["text"]


def test_the_right_answer_is_not_always_in_the_same_place():
    kinds = [[a["kind"] for a in ANSWER.finditer(q[-1])] for path in PAGES for q in questions(path)]
    assert {answers.index("right") for answers in kinds} >= {0, 1}
