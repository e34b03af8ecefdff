"""Live proofs: a reader can edit a derivation and run it in the page, without a server."""

import time

import pytest
from browser import demand_means
from site_files import SITE

CHAPTER = "notebooks/03-softmax-ignores-the-key-bias.html"
THEOREM = ".cell-9"  # Theorem 3.1

#: Limits in seconds, for an idle processor that adds a million squares in ADDITION seconds.
FIRST_RUN, LATER_RUN, STOPPING, ADDITION = 6.0, 0.5, 1.0, 0.05
PATIENCE = 60_000  # milliseconds
LOADED = "performance.getEntriesByType('resource').map(r => r.name).join()"


class Cell:
    """A live cell in a page, with the actions of a reader."""

    def __init__(self, page):
        self.page, self.cell = page, page.locator(THEOREM)
        self.output = self.cell.locator(".live-output")
        self.status = self.cell.get_by_role("status")
        self.field = self.cell.get_by_label("Python, for you to edit")
        assert "/worker.mjs" not in page.evaluate(LOADED)
        start = time.perf_counter()
        self.press("Edit and run")
        self.until("Done.")
        self.first_run = time.perf_counter() - start

    def press(self, label):
        self.cell.get_by_role("button", name=label, exact=True).click()

    def run(self, ends="Done."):
        """Run the cell and return the seconds until its status begins with ``ends``."""
        start = time.perf_counter()
        self.press("Run")
        self.until(ends)
        return time.perf_counter() - start

    def until(self, text):
        self.page.wait_for_function(
            "([status, text]) => status.textContent.startsWith(text)",
            arg=[self.status.element_handle(), text], timeout=PATIENCE, polling=10,
        )  # fmt: skip

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
    slower, first = slowness(), cell.first_run
    assert cell.output.locator(".katex-display .mtable").count() == 1
    assert cell.says("definition of softmax")
    later = min(cell.run() for _ in range(3))
    slower = max(slower, slowness())
    assert first <= FIRST_RUN * slower, f"{first:.1f} s, on a machine {slower:.1f} times slower"
    assert later <= LATER_RUN * slower, f"{later:.2f} s, on a machine {slower:.1f} times slower"


def test_a_false_line_is_refused(cell):
    source = cell.field.input_value()
    cell.field.fill(source.replace("c @ ones(n).T", 'ones(m) @ matrix("t", n).T'))
    cell.run(ends="Refused.")
    assert cell.says("Softmax is shift invariant, line 2 is not justified.")
    assert cell.says("It is false: m = 1, n = 2") and cell.says("≠")


@pytest.mark.timed
def test_an_endless_loop_is_stopped(cell):
    cell.field.fill("while True:\n    pass")
    cell.press("Run")
    cell.until("Running")
    assert cell.page.evaluate("1 + 1") == 2, "the page is frozen"
    start = time.perf_counter()
    cell.press("Stop")
    cell.until("Stopped.")
    assert time.perf_counter() - start < STOPPING * slowness()
    cell.field.fill('print("after")\nnowhere')
    cell.run(ends="There is an error.")
    assert cell.says("after") and cell.says("Line 2 of the cell raises NameError: ")


def test_the_keyboard_suffices_to_edit_run_and_reset(cell):
    keyboard, focused = cell.page.keyboard, "document.activeElement.textContent"
    original = cell.field.input_value()
    keyboard.press("Control+Home")
    keyboard.press("Tab")
    assert cell.field.input_value().startswith("    S, c")
    cell.field.fill("1 + 1")
    keyboard.press("Control+Enter")
    cell.until("Done.")
    assert cell.cell.locator(".cell_output").is_hidden()
    keyboard.press("Escape")
    assert cell.page.evaluate(focused) == "Run"
    keyboard.press("Tab")
    keyboard.press("Tab")
    keyboard.press("Enter")  # Reset
    assert cell.cell.locator(".cell_output").is_visible() and not cell.output.is_visible()
    assert cell.page.evaluate(focused) == "Edit and run"
    keyboard.press("Enter")
    assert cell.field.input_value() == original
    cell.run()
    assert cell.output.locator(".katex-display").count() == 1
