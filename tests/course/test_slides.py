"""The slides are made from the chapters, legible from the back row, and need no network.

A slide has 1280 × 720 pixels. Words and formulas are at least 24 pixels high, code and output 21, so
that the book's lines of up to 88 columns fit without a break. Letters in a figure are 16.8 pixels
high in the stored picture, and 18 when it is shown 1.08 times as large.
"""

import re
from io import BytesIO

import pytest
from pypdf import PdfReader

from tools.cells import has_tag
from tools.course import slides
from tools.files import Fault

NAMES = sorted(path.stem for path in slides.DECKS.glob("*.yml"))
slides_in = lambda deck: [slide for section in deck["sections"] for slide in section["slides"]]

#: A script that returns what is wrong with the current slide: too small, cut off, or not there.
FAULTS = """() => {
  const section = Reveal.getCurrentSlide(), faults = []
  const demand = (good, ...words) => good || faults.push(words.join(" "))
  const inside = box => box.left >= -1 && box.top >= -1 && box.right <= 1281 && box.bottom <= 721
  const size = element => parseFloat(getComputedStyle(element).fontSize)
  const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT), range = new Range()
  for (let node; node = walker.nextNode();) {
    const parent = node.parentElement, words = node.data.trim()
    if (!words || parent.closest("aside, .katex")) continue
    demand(size(parent) >= (parent.closest("code, pre, .print") ? 21 : 24), "small:", words)
    range.selectNodeContents(node)
    demand([...range.getClientRects()].every(inside), "outside:", words)
  }
  for (const math of section.querySelectorAll(".page .math")) {
    const formula = math.querySelector(".katex:not(:has(.katex-error))")
    demand(formula, "not typeset:", math.textContent)
    if (!formula) continue
    demand(size(formula) >= 24, "small:", formula.textContent)
    demand(inside(formula.querySelector(".katex-html").getBoundingClientRect()), "outside: a formula")
  }
  for (const image of section.querySelectorAll("figure img")) {
    const box = image.getBoundingClientRect()
    demand(inside(box), "outside: a figure")
    demand(box.height >= 0.54 * image.naturalHeight, "small: a figure") // drawn at twice its size
    demand(image.alt, "without words: a figure")
  }
  const body = section.querySelector(".body"), room = section.querySelector(".room")
  demand(body.offsetHeight <= room.clientHeight, "too full")
  demand(!section.querySelector(".fragment:not(.visible)"), "hidden")
  return faults
}"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with the pages of all decks, and {name of a deck: its content}."""
    folder = tmp_path_factory.mktemp("slides")
    return folder, slides.write_slides(folder)


def test_a_deck_that_leaves_its_plan_is_refused_with_the_row(built):
    first, second, *others = built[1]["session-3"]["sections"]
    longer = first | {"slides": [first["slides"][0] | {"minutes": 3}]}
    shorter, longer = [first, second, *others[:-1]], [longer, second, *others]
    for sections, row in ((shorter, "vote again"), (longer, "set up")):
        with pytest.raises(Fault, match=f"session-3.yml.*{row}"):
            slides.slides_of("session-3", sections, {})


def test_the_decks_show_every_tagged_cell_and_no_other(built):
    parts = [part for deck in built[1].values() for s in slides_in(deck) for part in s["show"]]
    shown = {part["cell"] for part in parts if "cell" in part}
    cells = slides.read_sources()["cell"]
    assert shown == {name for name, cell in cells.items() if has_tag(cell, "slide")}
    assert len(shown) > 20


@pytest.fixture
def opened(visit, built):
    """A function that opens a deck's page from the disk, and waits until it is ready."""

    def ready(deck, query=""):
        page = visit(f"{(built[0] / deck).as_uri()}.html{query}", 1280, 720)
        page.wait_for_function("window.slidesReady === true", timeout=60_000)
        return page

    return ready


@pytest.mark.parametrize("deck", NAMES)
def test_every_slide_is_legible_and_complete(opened, built, deck):
    page, count = opened(deck), len(slides_in(built[1][deck]))
    assert page.evaluate("Reveal.getTotalSlides()") == count
    for number in range(count):
        page.evaluate(f"Reveal.slide({number}, 0, 99)")
        assert page.evaluate(FAULTS) == [], f"{deck}, slide {number + 1}"
    # control: faults that are added to a slide are found
    bad = '<p style="height: 900px">x</p><p style="font-size: 20px">y</p><figure><img></figure>'
    page.evaluate(f"Reveal.getCurrentSlide().querySelector('.body').innerHTML += `{bad}`")
    seen = {"too full", "small: y", "outside: y", "without words: a figure"}
    assert seen <= set(page.evaluate(FAULTS))


def test_keys_show_the_steps_and_the_presenter_sees_the_notes(opened, built):
    page, lecture = opened("lecture"), slides_in(built[1]["lecture"])
    number = next(n for n, s in enumerate(lecture) if any("claim" in part for part in s["show"]))
    page.evaluate(f"Reveal.slide({number}, 0, -1)")
    verdict = page.locator("section.present .answer")
    assert not verdict.is_visible()
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    notes = popup.value.locator(".speaker-controls-notes .value")
    said = re.sub("[*$].*", "", lecture[number]["notes"]).split("\n")[0]
    notes.filter(has_text=said).wait_for()
    page.keyboard.press("ArrowRight")
    assert verdict.is_visible() and page.evaluate("Reveal.getIndices().h") == number


def test_the_browser_prints_a_page_for_each_slide(opened, built):
    """The guide says how: by `?print-pdf` at the end of the address."""
    page = opened("lecture", "?print-pdf")
    page.wait_for_selector(".pdf-page")
    sheets = PdfReader(BytesIO(page.pdf(prefer_css_page_size=True))).pages
    shown = [re.sub(r"\W", "", sheet.extract_text()) for sheet in sheets]
    for text, slide in zip(shown, slides_in(built[1]["lecture"]), strict=True):
        assert re.sub(r"\W|\$.*?\$", "", slide["title"])[:12] in text
