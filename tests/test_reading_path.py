"""The core reading of a session takes at most 90 minutes, and the guide sets what there is."""

import re

import pytest

from tools.cells import text_of
from tools.files import NOTEBOOKS
from tools.site import reading_path

GUIDE = {path.stem: path.read_text(encoding="utf-8") for path in reading_path.TEACHING.glob("*.md")}
PAGES = [path.stem for path in NOTEBOOKS.glob("*.ipynb") if "exercises" not in path.stem]
EXERCISE = re.compile(r"\b\d{1,2}[A-Z]\b")
sheet = lambda exercise: text_of(NOTEBOOKS / f"{int(exercise[:-1]):02}-exercises.ipynb")


def test_every_page_is_core_or_for_later_in_one_session():
    named = [page for s in reading_path.sessions().values() for page in s["core"] + s["later"]]
    assert sorted(named) == sorted(PAGES)
    assert all(reading_path.line_of(page) for page in PAGES)
    assert not reading_path.line_of("03-exercises") and not reading_path.line_of("quiz-1")


def test_words_of_code_take_no_minutes(monkeypatch):
    text = "word $a + b$\n" * 50 + "```\n" + "code " * 300 + "\n```\n"
    monkeypatch.setattr(reading_path, "text_of", lambda path: text)
    assert reading_path.minutes.__wrapped__("00-a-page") == 2


def test_only_links_to_pages_for_later_have_a_ring():
    later, core = "12-norms-and-constants", "13-an-audit-of-real-models"
    links = [f'<a href="../{page}.html">words</a>' for page in (later, core)]
    assert [reading_path.RING in reading_path.with_rings(link, core) for link in links] == [
        True,
        False,
    ]
    here = '<a class="current" href="#">this page</a>'
    assert [reading_path.RING in reading_path.with_rings(here, at) for at in (later, core)] == [
        True,
        False,
    ]


def test_every_exercise_that_the_guide_names_is_on_its_sheet():
    for name in GUIDE:
        for exercise in [] if name.startswith("quiz-") else EXERCISE.findall(GUIDE[name]):
            assert f"### Exercise {exercise} · " in sheet(exercise), f"{name}: {exercise}"


@pytest.mark.parametrize("number", reading_path.sessions())
def test_a_session_sets_its_assignment_and_homework_on_at_most_ninety_minutes_of_reading(number):
    assert 0 < reading_path.core_minutes(number) <= 90
    session, homework = reading_path.sessions()[number], GUIDE[f"session-{number}"]
    homework = homework.partition("## Homework\n")[2].partition("\n## ")[0]
    later = [reading_path.title(page).rpartition(" · ")[2] for page in session["later"]]
    assert EXERCISE.search(homework)
    for exercise in EXERCISE.findall(homework):
        section = sheet(exercise).partition(f"### Exercise {exercise} · ")[0].rpartition("\n## ")[2]
        assert not any(title in section.partition("\n")[0] for title in later), exercise
    assert re.findall(r"^Set assignment `([\w-]+)`", homework, re.MULTILINE) == [
        *filter(None, [session.get("assignment")])
    ]
