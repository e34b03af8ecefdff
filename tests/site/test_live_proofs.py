"""Live proofs: a reader can edit a derivation and run it in the page, without a server."""

import time

import pytest
from browser import CHAPTER, SITE, demand_means
from playwright.sync_api import expect

THEOREM = ".cell-9"  # Theorem 3.1

#: Limits in seconds, for an idle processor that adds a million squares in ADDITION seconds.
FIRST_RUN, LATER_RUN, STOPPING, ADDITION = 6.0, 0.5, 1.0, 0.05
PATIENCE = 60_000  # milliseconds


class Cell:
    """A live cell in a page, with the actions of a reader."""

    def __init__(self, page):
        self.page, self.cell = page, page.locator(THEOREM)
        self.output = self.cell.locator(".live-output")
        self.field = self.cell.get_by_label("Python, for you to edit")
        self.first_run = self.press("Edit and run", "Done.")

    def press(self, label, ends):
        """Press a button; return the seconds until the cell's status begins with ``ends``."""
        start = time.perf_counter()
        self.cell.get_by_role("button", name=label, exact=True).click()
        self.page.wait_for_function(
            "([status, text]) => status.textContent.startsWith(text)",
            arg=[self.cell.get_by_role("status").element_handle(), ends],
            timeout=PATIENCE,
            polling=10,
        )
        return time.perf_counter() - start

    def says(self, text):
        return text in self.output.inner_text().replace("\xa0", " ")


@pytest.fixture
def cell(visit):
    there = (SITE / "_static" / "live" / "pyodide.mjs").is_file()
    demand_means(there, "the book has no live proofs: `make book` needs npm")
    return Cell(visit(CHAPTER))


def slowness():
    """How many times slower this machine is now than the one for which the limits are set."""
    start = time.perf_counter()
    for _ in range(5):
        sum(i * i for i in range(10**6))
    return max(1, (time.perf_counter() - start) / 5 / ADDITION)


@pytest.mark.timed
def test_a_true_line_is_typeset_in_time(cell):
    slower = slowness()
    assert cell.output.locator(".katex-display .mtable").count() == 1
    assert cell.says("definition of softmax")
    later = min(cell.press("Run", "Done.") for _ in range(3))
    slower = max(slower, slowness())
    assert cell.first_run <= FIRST_RUN * slower and later <= LATER_RUN * slower, slower


def test_a_false_line_is_refused(cell):
    source = cell.field.input_value()
    cell.field.fill(source.replace("c @ ones(n).T", 'ones(m) @ matrix("t", n).T'))
    cell.press("Run", "Refused.")
    assert cell.says("Softmax is shift invariant, line 2 is not justified.")
    assert cell.says("It is false: m = 1, n = 2") and cell.says("≠")


@pytest.mark.timed
def test_an_endless_loop_is_stopped(cell):
    cell.field.fill("while True:\n    pass")
    cell.press("Run", "Running")
    assert cell.page.evaluate("1 + 1") == 2, "the page is frozen"
    assert cell.press("Stop", "Stopped.") < STOPPING * slowness()
    cell.field.fill('print("after")\nnowhere')
    cell.press("Run", "There is an error.")
    assert cell.says("after") and cell.says("Line 2 of the cell raises NameError: ")


def test_the_keyboard_suffices_to_edit_run_and_reset(cell):
    keyboard, original = cell.page.keyboard, cell.field.input_value()
    cell.field.fill("1 + 1")
    keyboard.press("Control+Enter")
    expect(cell.output).to_have_text("2", timeout=PATIENCE)
    for key in ("Escape", "Tab", "Tab", "Enter"):  # out of the field, past Run and Stop, Reset
        keyboard.press(key)
    expect(cell.cell.locator(".cell_output")).to_be_visible()
    expect(cell.output).to_be_hidden()
    expect(cell.page.locator(":focus")).to_have_text("Edit and run")
    keyboard.press("Enter")
    assert cell.field.input_value() == original
