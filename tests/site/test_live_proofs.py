"""Live proofs: a reader edits a derivation and runs it in the page, without a server's help."""

import time

import pytest
from browser import demand_means
from site_files import SITE

CHAPTER = "notebooks/03-softmax-ignores-the-key-bias.html"
THEOREM, EXERCISE = ".cell-9", ".cell:has(.live-open) >> nth=0"  # Theorem 3.1, Exercise 3A

#: Seconds, on a processor that adds a million squares in ADDITION and has nothing else to do.
FIRST_RUN, LATER_RUN, STOPPING, ADDITION = 6.0, 0.5, 1.0, 0.05
PATIENCE = 60_000  # milliseconds


class Cell:
    """A live cell, as a reader handles it."""

    def __init__(self, page, selector=THEOREM):
        self.page, self.cell = page, page.locator(selector)
        self.output = self.cell.locator(".live-output")
        self.status = self.cell.get_by_role("status")
        self.field = self.cell.get_by_label("Python, for you to edit")
        self.press("Edit and run")

    def press(self, label):
        self.cell.get_by_role("button", name=label, exact=True).click()

    def replace(self, old, new):
        source = self.field.input_value()
        assert old in source
        self.field.fill(source.replace(old, new))

    def run(self, ends="Done."):
        """Run the cell and return the seconds until its status says so."""
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


@pytest.fixture(autouse=True)
def live_proofs():
    there = (SITE / "_static" / "live" / "pyodide.mjs").is_file()
    demand_means(there, "the book has no live proofs: `make book` needs npm")


@pytest.fixture
def cell(visit):
    return Cell(visit(CHAPTER))


def slowness():
    """How many times longer work takes here at the moment than where the limits were stated."""
    start = time.perf_counter()
    for _ in range(5):
        sum(i * i for i in range(10**6))
    return max(1, (time.perf_counter() - start) / 5 / ADDITION)


LOADED = "performance.getEntriesByType('resource').map(r => r.name).join()"


def test_nothing_is_loaded_before_the_first_run(cell):
    cell.page.wait_for_timeout(300)
    assert "/worker.mjs" not in cell.page.evaluate(LOADED)
    cell.run()
    assert "/worker.mjs" in cell.page.evaluate(LOADED)


@pytest.mark.timed
def test_a_true_line_is_typeset_in_time(cell):
    slower = slowness()
    first = cell.run()
    assert cell.output.locator("mjx-container[display=true] mjx-mtable").count() == 1
    assert cell.says("definition of softmax")
    later = min(cell.run() for _ in range(3))
    slower = max(slower, slowness())
    assert first <= FIRST_RUN * slower, f"{first:.1f} s, on a machine {slower:.1f} times slower"
    assert later <= LATER_RUN * slower, f"{later:.2f} s, on a machine {slower:.1f} times slower"


def test_a_false_line_is_refused_with_a_counterexample(cell):
    cell.replace("c @ ones(n).T", 'ones(m) @ matrix("t", n).T')
    cell.run(ends="Refused.")
    assert cell.says("Softmax is shift invariant, line 2 is not justified.")
    assert cell.says("It is false: m = 1, n = 2") and cell.says("≠")


def test_an_exercise_is_answered_in_the_page(visit):
    cell, written = Cell(visit("notebooks/03-exercises.html"), EXERCISE), "..."
    for line, answer in (
        ("...", "still to be written, in place of ..."),
        ("quotient(lambda i: exp_of(c) + exp_of(entry_of(z, i)))", "line 1 is not justified."),
        ("quotient(lambda i: exp_of(c) * exp_of(entry_of(z, i)))", "algebra"),
    ):
        cell.replace(f"({written}, EXP", f"({line}, EXP")
        written = line
        cell.run()
        assert cell.says(answer)
    assert cell.output.locator("mjx-container[display=true]").count() == 1


def test_a_mistake_is_told_in_a_sentence(cell):
    for source, sentence in {
        "m\nnowhere": "Line 2 of the cell raises NameError: name 'nowhere' is not defined.",
        "(m": "Line 1 is not Python: '(' was never closed.",
        "m\n\nm @ m": "Line 3 of the cell raises TypeError: ",
    }.items():
        cell.field.fill(source)
        cell.run(ends="There is an error.")
        told = cell.output.locator(".live-error").inner_text()
        assert told.startswith(sentence) and told.endswith(".") and "\n" not in told


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
    cell.field.fill('print("after")')
    cell.run()
    assert cell.says("after")


@pytest.mark.parametrize("way", ["Reset", "a reload"])
def test_the_original_is_restored_and_works(cell, way):
    original = cell.field.input_value()
    cell.field.fill("1 + 1")
    cell.run()
    assert cell.cell.locator(".cell_output").is_hidden()
    cell.press("Reset") if way == "Reset" else cell.page.reload()
    assert cell.cell.locator(".cell_output").is_visible() and not cell.output.is_visible()
    cell.press("Edit and run")
    assert cell.field.input_value() == original
    cell.run()
    assert cell.output.locator("mjx-container").count() == 1


def test_the_keyboard_is_enough(cell):
    keyboard, focused = cell.page.keyboard, "document.activeElement.textContent"
    keyboard.press("Control+Home")
    keyboard.press("Tab")
    assert cell.field.input_value().startswith("    S, c")
    keyboard.press("Escape")
    assert cell.page.evaluate(focused) == "Run"
    keyboard.press("Tab")
    keyboard.press("Tab")
    keyboard.press("Enter")  # Reset
    assert cell.page.evaluate(focused) == "Edit and run"
    keyboard.press("Enter")
    keyboard.press("Control+Enter")
    cell.until("Done.")
