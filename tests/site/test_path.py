"""The browser keeps a reader's progress, one page shows it, and a button deletes it."""

import re

from playwright.sync_api import expect

from tools.cells import text_of
from tools.files import NOTEBOOKS, ROOT

PATH, QUIZ = "book/teaching/your-path", "book/teaching/quiz-2.html"
SHEET = "notebooks/03-exercises.html"


def test_exercises_and_first_answers_are_kept_until_deleted(visit, address):
    def row(name):
        rows = page.locator("article tbody tr", has_text=re.compile(rf"{name}(?!\d)"))
        return rows.locator("td").last

    page = visit(SHEET)
    done = page.get_by_label("I have done 3A", exact=True)
    done.press("Space")
    page.goto(f"{address}/{QUIZ}")
    first = page.locator("section", has=page.locator("h2", has_text="1. ")).last
    for kind in ("wrong", "right"):  # only the first answer counts
        first.locator(f"details.quiz-{kind} summary").first.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("1 of 5 answered, 0 right")
    page.goto(f"{address}/{SHEET}")
    expect(done).to_be_checked()
    page.goto(f"{address}/{PATH}.html")
    expect(row("sheet 3")).to_have_text(re.compile(r"^1 of \d+$"))
    expect(row("quiz 2")).to_have_text("1 of 5")
    expect(page.locator("#path-next a").first).to_have_attribute("href", re.compile("00-how-this"))
    page.get_by_role("button", name="Forget all this").press("Enter")
    expect(row("quiz 2")).to_have_text("0 of 5")
    assert page.evaluate("localStorage.getItem('where-did-the-bias-go: path')") is None


def test_the_page_counts_the_exercises_of_each_sheet():
    page = (ROOT / f"{PATH}.md").read_text(encoding="utf-8")
    rows = re.findall(r"\[sheet \d+\]\(\S+/(.+-exercises.ipynb)\) \| (\d+) \|", page)
    sheets = [(path.name, text_of(path)) for path in sorted(NOTEBOOKS.glob("*-exercises.ipynb"))]
    assert dict(rows) == {name: str(text.count("\n### Exercise ")) for name, text in sheets}
