"""The slides: made from the chapters, legible from the back row, and at home without a network.

A slide has 1280 × 720 pixels. Words have at least 24 of them, formulas too (their indices follow
in proportion). What a program reads or prints has at least 21: a line of 88 columns, as the book
has them, must fit without a break. Letters in a figure have 16.8 pixels in the stored picture, so
that a figure that is enlarged by 1.08 has letters of 18.
"""

import re
import shutil

import pytest
import slides
from browser import visited
from bs4 import BeautifulSoup
from cells import has_tag
from files import Fault
from pypdf import PdfReader
from slide_sources import read_sources

DECKS = slides.read_decks()
each_deck = pytest.mark.parametrize("deck", DECKS)
CODE_LINES = 10


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slides")
    slides.write_pages(folder)
    return folder


@pytest.fixture(scope="module")
def sources():
    return read_sources()


def sections_of(folder, deck):
    text = (folder / f"{deck}.html").read_text(encoding="utf-8")
    return BeautifulSoup(text, "html.parser").find_all("section")


# ---- from the chapters ------------------------------------------------------------------


def test_the_decks_show_every_tagged_cell_and_no_other(sources):
    parts = [part for deck in DECKS.values() for slide in deck["slides"] for part in slide["show"]]
    shown = {part["cell"] for part in parts if "cell" in part}
    tagged = {name for name, cell in sources["cell"].items() if has_tag(cell, "slide")}
    assert shown == tagged and len(shown) > 20


def test_the_marks_of_an_excerpt_come_in_pairs_and_change_nothing_in_the_book(sources):
    """One that begins a line stands alone in its paragraph: Markdown takes its line as HTML."""
    for name, cell in sources["cell"].items():
        marks = re.findall(r"<!-- (/?)slide -->", cell.source)
        assert marks == ["", "/"] * (len(marks) // 2), name
        alone = re.findall(r"(?:^|\n\n)<!-- /?slide -->(?=\n\n|$)", cell.source)
        assert len(alone) == len(re.findall(r"^ *<!-- /?slide", cell.source, re.M)), name


KEY_BIAS = "03-softmax-ignores-the-key-bias#"


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"cell": KEY_BIAS + "03-99"}, "there is no cell .*03-99"),
        ({"cell": KEY_BIAS + "03-05"}, "is code: say as: code, print, formula, figure"),
        ({"cell": KEY_BIAS + "03-05", "as": "figure"}, "03-05 has no figure"),
        ({"cell": KEY_BIAS + "03-05", "as": "print"}, "03-05 has no print"),
        (
            {"cell": KEY_BIAS + "03-14", "as": "code", "from": "no"},
            "no line begins with “no”",
        ),
        ({"cell": KEY_BIAS + "03-14", "as": "print", "only": "no"}, "no line contains “no”"),
        ({"theorem": "3.99"}, "there is no theorem 3.99"),
        ({"words": "hello"}, "a part names one of cell, theorem"),
    ],
)
def test_a_wrong_part_is_refused_with_its_place(part, message, sources):
    slide = {"title": "A slide", "minutes": 1, "notes": "Say it.", "show": [part]}
    with pytest.raises(Fault, match="a-deck.yml, slide 7: .*" + message):
        slides.slide_of("a-deck", 7, slide, sources)
    del slide["notes"], slide["show"][:]
    with pytest.raises(Fault, match="a-deck.yml, slide 7: “notes” is missing"):
        slides.slide_of("a-deck", 7, slide, sources)


def test_the_rows_of_a_derivation_appear_with_their_reasons():
    rows = [("& a", ""), *slides.reason_below("&= b", r"\text{x}"), ("&= c", "")]
    assert rows[1] == "&= b" and rows[2].endswith(r"\text{by }\text{x}")
    rows = [(row, "") if isinstance(row, str) else row for row in rows]
    assert slides.step_of_each(rows) == "0 1 1 2"


# ---- the files ------------------------------------------------------------------------


@each_deck
def test_a_deck_has_its_time_its_notes_and_its_files(built, deck):
    total = sum(slide["minutes"] for slide in DECKS[deck]["slides"])
    assert total == 90 if deck == "lecture" else 35 <= total <= 45
    sections = sections_of(built, deck)
    assert len(sections) == len(DECKS[deck]["slides"])
    assert all(len(section.find("aside", "notes").get_text()) > 40 for section in sections)
    assert len({section["id"] for section in sections}) == len(sections)
    for section in sections:
        assert all(len(code.get_text().splitlines()) <= CODE_LINES for code in section("code"))


def test_the_vendored_reveal_is_the_version_that_is_written_down():
    folder = slides.DECKS / "reveal"
    version = re.search(r"reveal\.js (\S+), from npm", (folder / "VERSION.txt").read_text())[1]
    assert version in (folder / "reveal.js").read_text(encoding="utf-8")


# ---- in Chromium, from a disk ------------------------------------------------------------

#: What is wrong with the slide that is shown, in words.
FAULTS = """() => {
  const section = Reveal.getCurrentSlide(), faults = []
  const demand = (good, ...words) => good || faults.push(words.join(" "))
  const inside = box => box.left >= -1 && box.top >= -1 && box.right <= 1281 && box.bottom <= 721
  const size = element => parseFloat(getComputedStyle(element).fontSize)
  const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT), range = new Range()
  for (let node; node = walker.nextNode();) {
    const parent = node.parentElement, words = node.data.trim()
    if (!words || parent.closest("aside, mjx-container")) continue
    demand(size(parent) >= (parent.closest("code, pre, .print") ? 21 : 24), "small:", words)
    range.selectNodeContents(node)
    demand([...range.getClientRects()].every(inside), "outside:", words)
  }
  for (const math of section.querySelectorAll(".math")) {
    const formula = math.querySelector("mjx-container")
    demand(formula && !math.querySelector("mjx-merror"), "not typeset:", math.textContent)
    if (!formula || !math.closest(".page")) continue
    demand(size(formula) >= 24, "small:", formula.textContent)
    demand(inside(formula.querySelector("mjx-math").getBoundingClientRect()), "outside: a formula")
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


def opened(browser, folder, deck, query=""):
    """A deck from the disk, ready to be shown, and what goes wrong with it."""
    context = browser.new_context(viewport={"width": 1280, "height": 720})
    page = visited(context, (folder / f"{deck}.html").as_uri() + query, "file:")
    page.wait_for_function("window.slidesReady === true", timeout=60_000)
    return page, page.faults


@each_deck
def test_every_slide_is_legible_and_whole(browser, built, deck):
    page, faults = opened(browser, built, deck)
    for number in range(len(DECKS[deck]["slides"])):
        page.evaluate(f"Reveal.slide({number}, 0, 99)")
        assert page.evaluate(FAULTS) == [], f"{deck}, slide {number + 1}"
    page.close()
    assert faults == []


def test_a_slide_that_is_too_full_is_seen(browser, built, tmp_path):
    """The control: words added to a slide, words made small, a picture without words."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "lecture.html"
    before, second, after = path.read_text("utf-8").split('<div class="body">', 2)
    bad = '<p style="height: 900px">x</p><p style="font-size: 20px">y</p>'
    bad += '<figure><img src="none.png"></figure>'
    path.write_text('<div class="body">'.join([before, second, bad + after]), encoding="utf-8")
    page, faults = opened(browser, tmp_path, "lecture")
    page.evaluate("Reveal.slide(1)")
    found = page.evaluate(FAULTS)
    page.close()
    assert {"too full", "small: y", "outside: y", "without words: a figure"} <= set(found)
    assert any("none.png" in fault for fault in faults)


def test_the_keyboard_leads_through_the_steps_and_the_presenter_sees_the_notes(browser, built):
    page, faults = opened(browser, built, "lecture")
    number, slide = next(
        (number, slide)
        for number, slide in enumerate(DECKS["lecture"]["slides"])
        if any("claim" in part for part in slide["show"])
    )
    page.evaluate(f"Reveal.slide({number}, 0, -1)")
    verdict = page.locator("section.present .answer")
    assert not verdict.is_visible()
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    notes = popup.value.locator(".speaker-controls-notes .value")
    notes.filter(has_text=re.sub("[*$].*", "", slide["notes"]).split("\n")[0]).wait_for()
    page.keyboard.press("ArrowRight")
    assert verdict.is_visible() and page.evaluate("Reveal.getIndices().h") == number
    page.keyboard.press("ArrowRight")
    assert page.evaluate("Reveal.getIndices().h") == number + 1
    page.close()
    assert faults == []


# ---- the PDF --------------------------------------------------------------------------


@each_deck
def test_the_pdf_has_a_page_for_each_slide_with_its_words(browser, built, deck):
    page, faults = opened(browser, built, deck, "?print-pdf")
    over = page.evaluate(
        "() => [...document.querySelectorAll('.page')].map("
        "p => p.querySelector('.body').offsetHeight - p.querySelector('.room').clientHeight)"
    )
    page.close()
    assert max(over) <= 0 and faults == []
    slides.print_pages(browser, built, [deck])
    pages, sections = PdfReader(built / f"{deck}.pdf").pages, sections_of(built, deck)
    assert len(pages) == len(sections)
    for sheet, section in zip(pages, sections):
        assert [round(float(side)) for side in sheet.mediabox[2:]] == [960, 540]
        shown = squeezed(sheet.extract_text())
        words = [section.find(["h1", "h2"]), *section.find_all("p", "verdict")]
        assert all(squeezed(element.get_text()) in shown for element in words), section["id"]


def squeezed(text):
    """Words without the spaces and the marks that a PDF sets in its own way."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def test_without_chromium_the_slides_are_there_all_the_same(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CHROMIUM", "/no/such/browser")
    assert slides.main([str(tmp_path)]) == 0
    assert "without PDF: There is no /no/such/browser here" in capsys.readouterr().out
    assert (tmp_path / "lecture.html").is_file() and not (tmp_path / "lecture.pdf").exists()
