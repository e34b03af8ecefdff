"""The slides: made from the chapters, legible from the back row, and at home without a network.

A slide has 1280 × 720 pixels. Words have at least 24 of them, formulas too (their indices follow
in proportion). What a program reads or prints has at least 21: a line of 88 columns, as the book
has them, must fit without a break. Letters in a figure have 16.8 pixels in the stored picture, so
that a figure that is enlarged by 1.08 has letters of 18.

What needs Chromium is skipped without one, and fails with REQUIRE_BROWSER=1.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import slides
import yaml
from bs4 import BeautifulSoup
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser
from print_pdf import CannotPrint, find_chromium
from pypdf import PdfReader
from slide_sources import MARKER, TAG, SlidesError, Sources, excerpt, lines_between, read_cells

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS, CLAIMS = ROOT / "notebooks", ROOT / "book" / "claims.yml"
DECKS = sorted(path.stem for path in slides.DECKS.glob("*.yml"))
WORDS, CODE, LETTERS = 24, 21, 1.08

try:
    CHROMIUM = find_chromium()
except CannotPrint as missing:
    if os.environ.get("REQUIRE_BROWSER") == "1":
        raise RuntimeError(str(missing)) from None
    CHROMIUM = None
needs_chromium = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("slides")
    assert slides.main([str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def sources():
    return Sources(NOTEBOOKS, CLAIMS)


def page_of(folder, deck):
    return BeautifulSoup((folder / f"{deck}.html").read_text(encoding="utf-8"), "html.parser")


def made(show, sources, title="A slide"):
    """The HTML of one part of a slide."""
    deck = slides.Deck("a-deck", "Title", "Subtitle", [])
    return slides.body(show, deck, sources, {"title": title})


# ---- tags, not copies -----------------------------------------------------------------


def parts(deck):
    data = yaml.safe_load((slides.DECKS / f"{deck}.yml").read_text(encoding="utf-8"))
    return [part for slide in data["slides"] for part in slide["show"]]


def test_every_tagged_cell_is_on_a_slide_and_every_cell_on_a_slide_is_tagged(sources):
    used = {part["cell"] for deck in DECKS for part in parts(deck) if "cell" in part}
    assert used == sources.tagged


def test_every_excerpt_is_shown(sources):
    shown = {
        (part["cell"], part.get("excerpt"))
        for deck in DECKS
        for part in parts(deck)
        if "cell" in part
    }
    for name in sources.tagged:
        count = len(MARKER.findall(sources.cells[name].source)) // 2
        whole = (name, None) in shown
        assert whole or count > 1 and all((name, k) in shown for k in range(1, count + 1)), name


def test_a_tagged_cell_that_no_deck_shows_is_named(sources):
    with pytest.raises(SlidesError, match="Tagged for slides, and on none: .*#"):
        slides.check_used([], sources)


def render(text):
    """Markdown as the book's own parser has it, as plain HTML."""
    options = {"amsmath", "colon_fence", "deflist", "dollarmath", "linkify", "tasklist"}
    config = MdParserConfig(enable_extensions=options, dmath_double_inline=True)
    return create_md_parser(config, RendererHTML).render(text)


def without_comments(text):
    text = text.replace("<!-- slide -->\n\n", "").replace("\n\n<!-- /slide -->", "")
    return text.replace(" <!-- slide -->", "").replace(" <!-- /slide -->", "")


def test_the_comments_change_nothing_that_the_book_shows():
    marked = [cell for cell in read_cells(NOTEBOOKS) if MARKER.search(cell.source)]
    assert marked
    for cell in marked:
        assert TAG in cell.tags, cell.name
        plain = without_comments(cell.source)
        assert not MARKER.search(plain), cell.name
        shown = MARKER.sub("", render(cell.source))
        assert (
            re.sub(r"\s+(?=<|$)", "", shown).split()
            == re.sub(r"\s+(?=<|$)", "", render(plain)).split()
        )


def test_what_is_on_a_slide_is_what_the_chapter_says(built, sources):
    shown = page_of(built, "lecture").get_text(" ", strip=True)
    source = excerpt(sources.cells["03-softmax-ignores-the-key-bias#03-00"])
    assert squeezed(source) in squeezed(shown)


# ---- errors for the one who writes a deck ------------------------------------------------


CELL = "03-softmax-ignores-the-key-bias#"


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"cell": CELL + "03-99"}, "no cell .*03-99; did you mean"),
        ({"cell": CELL + "03-01"}, "03-01 has no tag “slide”"),
        ({"cell": CELL + "03-05"}, "is code: say as: code, print, formula, figure"),
        ({"cell": CELL + "03-05", "as": "figure"}, "has no figure"),
        ({"cell": CELL + "03-08", "as": "formula"}, "has no formula"),
        ({"cell": CELL + "03-05", "as": "print"}, "prints nothing"),
        ({"cell": CELL + "03-14", "as": "code"}, "more than 10 lines"),
        (
            {"cell": CELL + "03-14", "as": "code", "from": "nothing"},
            "No line of .* begins with “nothing”",
        ),
        ({"cell": CELL + "03-14", "as": "print", "only": "nothing"}, "no line contains “nothing”"),
        ({"cell": CELL + "03-00", "excerpt": 7}, "has no excerpt 7"),
        ({"theorem": "3.99"}, "no theorem 3.99"),
        ({"claim": "002-99"}, "no claim 002-99"),
        ({"exercise": "3Z"}, "no exercise 3Z"),
        ({"words": "hello"}, "a part names one of cell, theorem"),
    ],
)
def test_a_wrong_part_is_refused_with_its_place(part, message, sources):
    with pytest.raises(SlidesError, match="a-deck.yml, “A slide”: .*" + message):
        made(part, sources)


def test_a_slide_without_notes_is_refused(tmp_path):
    (tmp_path / "a.yml").write_text(
        "title: t\nsubtitle: s\nslides:\n- {title: x, show: [], minutes: 1}\n"
    )
    with pytest.raises(SlidesError, match="a.yml, slide 1: notes is missing"):
        slides.read_deck(tmp_path / "a.yml")


def test_a_comment_that_is_opened_alone_is_refused(sources):
    cell = next(iter(sources.cells.values()))
    broken = type(cell)("a#b", "markdown", "<!-- slide -->\n\nwords", (), frozenset(), "")
    with pytest.raises(SlidesError, match="a#b a comment for slides is opened or closed alone"):
        excerpt(broken)


def test_a_folder_without_notebooks_is_a_sentence_and_no_stack_trace(tmp_path, capsys):
    assert slides.main([str(tmp_path / "out"), "--notebooks", str(tmp_path)]) == 1
    assert "There are no notebooks in" in capsys.readouterr().err


def test_without_chromium_the_pdf_is_refused_in_a_sentence(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("CHROMIUM", "/no/such/browser")
    assert slides.main([str(tmp_path / "out"), "--pdf"]) == 1
    assert "There is no /no/such/browser here" in capsys.readouterr().err
    assert (tmp_path / "out" / "lecture.html").is_file()


def test_lines_are_chosen_by_their_beginnings():
    text = "a = 1\nb = 2\nc = 3"
    assert lines_between(text, "b") == "b = 2\nc = 3"
    assert lines_between(text, end="b") == "a = 1\nb = 2"


def test_the_rows_of_a_derivation_appear_with_their_reasons():
    latex = (
        "\\begin{aligned}\n& a \\\\\n&= b \\\\\n&\\qquad \\text{by }x \\\\\n&= c\n\\end{aligned}"
    )
    assert slides.step_of_each_row(latex) == "0 1 1 2"
    beside = "\\begin{aligned}\na &= b && \\text{x}\n\\end{aligned}"
    assert "&= b \\\\\n&\\qquad \\text{by }\\text{x}" in slides.reasons_below(beside)


# ---- the files ------------------------------------------------------------------------


@pytest.mark.parametrize("deck", DECKS)
def test_a_deck_has_its_time_and_its_notes(built, deck):
    data = yaml.safe_load((slides.DECKS / f"{deck}.yml").read_text(encoding="utf-8"))
    total = sum(slide["minutes"] for slide in data["slides"])
    assert total == 90 if deck == "lecture" else 35 <= total <= 45
    sections = page_of(built, deck).find_all("section")
    assert len(sections) == len(data["slides"])
    assert all(len(section.find("aside", "notes").get_text()) > 40 for section in sections)
    assert len({section["id"] for section in sections}) == len(sections)


@pytest.mark.parametrize("deck", DECKS)
def test_a_deck_names_no_other_host_and_every_file_is_there(built, deck):
    page = page_of(built, deck)
    files = [tag.get("src") or tag.get("href") for tag in page.find_all(["img", "script", "link"])]
    for file in filter(None, files):
        assert (built / file).is_file(), file
    assert not re.search(r"https?://", str(page))


def test_the_vendored_reveal_is_the_version_that_is_written_down():
    folder = slides.DECKS / "reveal"
    version = re.search(r"reveal\.js (\S+), from npm", (folder / "VERSION.txt").read_text())[1]
    assert version in (folder / "reveal.js").read_text(encoding="utf-8")
    for licence in ("LICENSE", "LICENSE-marked"):
        assert "free of charge" in (folder / licence).read_text()


# ---- in Chromium, from a disk ------------------------------------------------------------


MEASURE = """() => {
  const section = Reveal.getCurrentSlide(), found = { small: [], outside: [], alt: [], figures: [] }
  const body = section.querySelector(".body"), room = section.querySelector(".room")
  const walker = document.createTreeWalker(section, NodeFilter.SHOW_TEXT)
  const inside = box => box.left >= -1 && box.top >= -1 && box.right <= 1281 && box.bottom <= 721
  for (let node; node = walker.nextNode();) {
    const parent = node.parentElement
    if (!node.data.trim() || parent.closest("aside, mjx-assistive-mml, mjx-container")) continue
    const size = parseFloat(getComputedStyle(parent).fontSize)
    const bound = parent.closest("code, pre, .print") ? CODE : WORDS
    if (size < bound) found.small.push([node.data.trim(), size])
    const range = document.createRange()
    range.selectNodeContents(node)
    for (const box of range.getClientRects()) {
      if (!inside(box)) found.outside.push(node.data.trim())
    }
  }
  for (const formula of section.querySelectorAll(".page mjx-container")) {
    const size = parseFloat(getComputedStyle(formula).fontSize)
    if (size < WORDS) found.small.push([formula.textContent, size])
    if (!inside(formula.querySelector("mjx-math").getBoundingClientRect())) found.outside.push("formula")
    if (formula.querySelector("mjx-merror")) found.outside.push("error in a formula")
  }
  for (const image of section.querySelectorAll("img")) {
    if (!image.hasAttribute("alt")) found.alt.push(image.src)
    if (image.closest("figure")) {
      if (!image.alt) found.alt.push(image.src)
      found.figures.push(image.getBoundingClientRect().height / image.naturalHeight)
    }
    if (!inside(image.getBoundingClientRect())) found.outside.push(image.src)
  }
  found.over = body.offsetHeight - room.clientHeight
  found.untypeset = [...section.querySelectorAll(".math")].filter(m => !m.querySelector("mjx-container")).length
  found.hidden = [...section.querySelectorAll(".fragment")].filter(f => !f.classList.contains("visible")).length
  return found
}""".replace("CODE", str(CODE)).replace("WORDS", str(WORDS))


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        offline = ["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND"]
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=offline)
        yield opened
        opened.close()


def opened(browser, folder, deck, faults, query=""):
    """A deck from the disk, ready to be shown; what goes wrong is added to the faults."""
    page = browser.new_page(viewport={"width": 1280, "height": 720})
    page.on("console", lambda said: said.type in ("error", "warning") and faults.append(said.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("requestfailed", lambda request: faults.append(request.url))
    page.on(
        "request",
        lambda asked: asked.url.startswith(("file:", "data:")) or faults.append(asked.url),
    )
    page.goto((folder / f"{deck}.html").as_uri() + query)
    page.wait_for_function("window.slidesReady === true", timeout=60_000)
    return page


@needs_chromium
@pytest.mark.parametrize("deck", DECKS)
def test_every_slide_is_legible_and_whole(browser, built, deck):
    faults = []
    page = opened(browser, built, deck, faults)
    for number in range(page.evaluate("Reveal.getTotalSlides()")):
        page.evaluate(f"Reveal.slide({number}, 0, 99)")
        found, where = page.evaluate(MEASURE), f"{deck}, slide {number + 1}"
        assert not found["small"], (where, found["small"])
        assert not found["outside"] and found["over"] <= 0, (where, found)
        assert not found["alt"] and not found["untypeset"] and not found["hidden"], (where, found)
        assert all(scale >= LETTERS for scale in found["figures"]), (where, found["figures"])
    page.close()
    assert not faults


@needs_chromium
def test_the_measure_sees_a_slide_that_is_too_full(browser, built, tmp_path):
    """The control: words added to a slide, words made small, a picture without words."""
    folder = tmp_path / "slides"
    shutil.copytree(built, folder)
    before, second, after = (
        (folder / "lecture.html").read_text("utf-8").split('<div class="body">', 2)
    )
    faulty = (
        '<p style="height: 900px">x</p><p style="font-size: 20px">small</p><img src="none.png">'
    )
    page = '<div class="body">'.join([before, second, faulty + after])
    (folder / "lecture.html").write_text(page, encoding="utf-8")
    faults = []
    opened_page = opened(browser, folder, "lecture", faults)
    opened_page.evaluate("Reveal.slide(1)")
    found = opened_page.evaluate(MEASURE)
    assert found["over"] > 0 and found["alt"] and found["outside"]
    assert ["small", 20] in found["small"]
    assert any("none.png" in fault for fault in faults)
    opened_page.close()


@needs_chromium
def test_the_keyboard_leads_through_the_steps(browser, built):
    page = opened(browser, built, "lecture", [])
    number = next(k for k, part in enumerate(parts_of_slides("lecture")) if "claim" in part)
    page.evaluate(f"Reveal.slide({number}, 0, -1)")
    verdict = page.locator("section.present .answer")
    assert not verdict.is_visible()
    page.keyboard.press("ArrowRight")
    assert verdict.is_visible() and page.evaluate("Reveal.getIndices().h") == number
    page.keyboard.press("ArrowRight")
    assert page.evaluate("Reveal.getIndices().h") == number + 1
    page.close()


def parts_of_slides(deck):
    data = yaml.safe_load((slides.DECKS / f"{deck}.yml").read_text(encoding="utf-8"))
    return [{key for part in slide["show"] for key in part} for slide in data["slides"]]


@needs_chromium
def test_the_presenter_sees_the_notes_without_a_network(browser, built):
    page = opened(browser, built, "session-2", [])
    with page.expect_popup() as popup:
        page.keyboard.press("s")
    notes = popup.value.locator(".speaker-controls-notes .value")
    notes.filter(has_text="Three biases, three fates").wait_for(timeout=20_000)
    page.keyboard.press("ArrowRight")
    notes.filter(has_text="A real pull request").wait_for(timeout=20_000)
    page.close()


# ---- the PDF --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """The folder of the decks and their PDFs, made by the command itself."""
    folder = tmp_path_factory.mktemp("printed")
    command = [sys.executable, slides.__file__, str(folder), "--pdf"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    assert all(f"{deck}.pdf" in done.stdout for deck in DECKS)
    return folder


@needs_chromium
@pytest.mark.parametrize("deck", DECKS)
def test_the_pdf_has_a_page_for_each_slide_with_its_words(printed, deck):
    pages = PdfReader(printed / f"{deck}.pdf").pages
    titles = [heading.get_text() for heading in page_of(printed, deck).find_all(["h1", "h2"])]
    assert len(pages) == len(titles)
    for page, title in zip(pages, titles):
        assert [round(float(side)) for side in page.mediabox[2:]] == [960, 540]
        assert squeezed(title) in squeezed(page.extract_text()), title


@needs_chromium
def test_the_pdf_shows_the_verdict_too(printed, sources):
    text = squeezed(
        " ".join(page.extract_text() for page in PdfReader(printed / "lecture.pdf").pages)
    )
    assert squeezed(sources.claims["002-12"].why.split("$")[0]) in text


@needs_chromium
@pytest.mark.parametrize("deck", DECKS)
def test_nothing_is_cut_off_on_paper(browser, built, deck):
    page = opened(browser, built, deck, faults := [], "?print-pdf")
    over = page.evaluate(
        "() => [...document.querySelectorAll('.page')].map("
        "p => p.querySelector('.body').offsetHeight - p.querySelector('.room').clientHeight)"
    )
    page.close()
    assert max(over) <= 0 and not faults


def squeezed(text):
    """Words without the spaces and the marks that a PDF sets in its own way."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def test_a_tagged_notebook_is_written_as_the_others_are(sources):
    for stem in {name.partition("#")[0] for name in sources.tagged}:
        text = (NOTEBOOKS / f"{stem}.ipynb").read_text(encoding="utf-8")
        assert json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n" == text, stem
