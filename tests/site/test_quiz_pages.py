"""A quiz is answered with the keyboard alone, on a page that asks nobody."""

import pytest
from browser import needs_chromium
from site_files import SITE

PAGES = sorted((SITE / "book" / "teaching").glob("quiz-*.html"))


def test_there_are_quizzes():
    assert len(PAGES) == 6


@needs_chromium
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_enter_opens_an_answer_and_says_why(browser, path):
    page = browser.new_page()
    page.goto(path.as_uri())
    answers = page.locator("details:is(.quiz-right, .quiz-wrong)")
    assert answers.count() >= 15 and not page.locator("details[open].quiz-right").count()
    for answer in answers.all():
        answer.locator("summary").focus()
        page.keyboard.press("Enter")
        word = answer.locator("strong").first
        assert word.is_visible()
        right = "quiz-right" in answer.get_attribute("class")
        assert word.inner_text() == ("Right." if right else "No.")
    page.close()


@needs_chromium
def test_tab_goes_from_answer_to_answer(browser):
    page = browser.new_page()
    page.goto(PAGES[0].as_uri())
    summaries = page.locator("details:is(.quiz-right, .quiz-wrong) > summary")
    summaries.first.focus()
    page.keyboard.press("Tab")
    assert summaries.nth(1).evaluate("e => e === document.activeElement")
    page.close()
