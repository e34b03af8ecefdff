"""Every page of the built site is complete and accessible offline, in both themes, on a phone."""

import gzip
import re
from collections import Counter
from urllib.parse import unquote

import pytest
from axe_playwright_python.sync_playwright import Axe
from site_files import SITE, anchors, links_of, soup

from tools.files import NOTEBOOKS
from tools.site.lighter import icons_of

START = "index.html"  # only redirects to the first page
PAGES = sorted(
    page.relative_to(SITE).as_posix()
    for page in SITE.rglob("*.html")
    if "_static" not in page.parts and page.name != "genindex.html" and page != SITE / START
)
QUIZZES = [page for page in PAGES if "/quiz-" in page]
CHAPTER = "notebooks/03-softmax-ignores-the-key-bias.html"
PHONE = {"width": 390, "height": 844}
STYLE = NOTEBOOKS / "figures.mplstyle"

each_page = pytest.mark.parametrize("page", PAGES)


def test_the_site_is_built_and_starts_with_the_first_page():
    assert len(PAGES) > 10, f"{SITE} is empty: run `make book` first"
    assert len(QUIZZES) == 6
    assert 'url=book/index.html"' in (SITE / START).read_text(encoding="utf-8")


# ---- without a browser ------------------------------------------------------------


#: A complete address, which ends with a letter, a digit, or one of the signs “/”, “_”, “=”, “-”.
WHOLE_ADDRESS = re.compile(r"https://[\w.-]+\.\w+(/|/\S*[\w/=-])?")


def faults_in(page):
    """Yield the faults of the links, anchors and pictures of a page."""
    for address, anchor, words in links_of(page):
        if ":" in address:
            whole = WHOLE_ADDRESS.fullmatch(f"{address}#{anchor}".removesuffix("#"))
            if not whole or not words or words[-1] in ".,:;!?":
                yield f"half a link: {words} to {address}"
            continue
        target = (page.parent / unquote(address)).resolve() if address else page
        if not target.is_file() or (anchor and unquote(anchor) not in anchors(target)):
            yield f"a link to {target.name}#{anchor}, which is not there"
    for anchor, times in Counter(e["id"] for e in soup(page).find_all(id=True)).items():
        if times > 1:
            yield f"the anchor {anchor} is there {times} times"
    for picture in soup(page).find_all("img"):
        words, source = picture.get("alt"), picture["src"]
        if words is None or words.endswith((".png", ".svg")):
            yield f"{source} has no words"
        if not page.parent.joinpath(source).is_file():
            yield f"there is no picture {source}"


@each_page
def test_links_work_and_pictures_have_alternative_text(page):
    assert not list(faults_in(SITE / page))


#: The most bytes that a page and the files that it names may have, all compressed; KaTeX's fonts,
#: which are not counted, add about 100,000.
HEAVIEST = 300_000
NAMED = "link[rel=stylesheet][href], link[rel=preload][href], script[src], img[src]"


def weight(page):
    """The compressed size, in bytes, of a page and of the files that it names."""
    named = {e.get("href") or e["src"] for e in soup(page).select(NAMED)}
    files = {(page.parent / address.split("?")[0]).resolve() for address in named}
    return sum(len(gzip.compress(path.read_bytes())) for path in {page, *files} if path.is_file())


@each_page
def test_a_page_is_light(page):
    assert weight(SITE / page) <= HEAVIEST


def test_only_icons_that_no_page_shows_are_removed():
    css = '.fa-a:before,.fa-b:before{content:"\\f001"}.fa-c:before{content:"\\f002"}'
    css += '@media print{.menu:after{content:"\\f003"}}'
    assert icons_of(css, {"fa-b"}) == {0xF001, 0xF003}


# ---- in Chromium ------------------------------------------------------------------


UNSET = """() => [...document.querySelectorAll(".math")].filter(m =>
    !m.querySelector(".katex") || m.querySelector(".katex-error")
).map(m => m.textContent)"""

#: A script that finds elements wider than the page that are not inside a scrolling box.
STICKS_OUT = """() => {
    const scrolls = e => e && e !== document.body && (
        ["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
    const hidden = e => e.closest(".katex-mathml, .katex svg, .visually-hidden, .sr-only, dialog, .bd-sidebar-secondary");
    const wide = [...document.querySelectorAll("main *")].filter(e =>
        e.getBoundingClientRect().right > innerWidth + 1 && !hidden(e) && !scrolls(e.parentElement));
    const page = document.documentElement.scrollWidth > innerWidth ? ["the page itself"] : [];
    return page.concat(wide.map(e => e.outerHTML.slice(0, 120)));
}"""
THEME = "look => { const d = document.documentElement.dataset; d.theme = d.mode = look }"

#: Checking colours takes most of axe's time. Formulas and highlighted code, which fill most of a
#: page, get their colours from one style sheet, and are checked on the pages SEEN_WHOLE only.
COLOURS = {"runOnly": ["color-contrast"]}
ALL_BUT_COLOURS = {"rules": {"color-contrast": {"enabled": False}}}
STYLED_ONCE = {"exclude": [[".katex"], ["pre"]]}
SEEN_WHOLE = (CHAPTER, "notebooks/03-exercises.html")


def axe(page, rules, within=None):
    """Descriptions of the violations that axe finds; axe's own requests do not count as faults."""
    before = len(page.faults)
    options = {"resultTypes": ["violations"], "preload": False} | rules
    found = Axe().run(page, context=within, options=options).response["violations"]
    del page.faults[before:]
    return [f"{v['id']}: {n['html'][:160]}" for v in found for n in v["nodes"]]


def faults_on(shown, within=None):
    """{kind: faults of a page}, on a wide screen in both themes, and then on a phone."""
    found = {"faults": list(shown.faults), "mathematics": shown.evaluate(UNSET)}
    found["axe"] = axe(shown, ALL_BUT_COLOURS)
    for look in ("light", "dark"):
        shown.evaluate(THEME, look)
        found[f"axe, {look}"] = axe(shown, COLOURS, within)
    shown.set_viewport_size(PHONE)
    shown.wait_for_timeout(600)  # until the theme has made scrolling boxes focusable
    found["sticks out"] = shown.evaluate(STICKS_OUT)
    found["axe, phone"] = axe(shown, ALL_BUT_COLOURS)
    return {kind: some for kind, some in found.items() if some}


@each_page
def test_a_page_is_complete_and_accessible(visit, page):
    shown = visit((SITE / page).as_uri())  # as a file, without a server or a network
    assert faults_on(shown, None if page in SEEN_WHOLE else STYLED_ONCE) == {}


#: Scripts that open every fold, list whether each formula scrolls, and list for each picture how
#: many CSS pixels show one typographic point (1/72 inch) of its figure.
OPEN = "() => document.querySelectorAll('details').forEach(fold => { fold.open = true })"
SCROLLS = """() => [...document.querySelectorAll(".katex-display")].map(
    formula => formula.scrollWidth > formula.clientWidth + 1)"""
SHRUNK = """dpi => [...document.querySelectorAll("div.cell_output img")].map(
    picture => picture.clientWidth / (picture.naturalWidth / dpi * 72))"""


@pytest.mark.nightly
def test_a_phone_shows_formulas_without_scrolling_and_letters_in_pictures(visit, address):
    page, scrolls, shrunk = visit(CHAPTER, width=PHONE["width"]), [], []
    style = dict(re.findall(r"^([\w.]+): (\d[\d.]*)$", STYLE.read_text(encoding="utf-8"), re.M))
    for path in PAGES:
        page.goto(f"{address}/{path}", wait_until="load")
        page.evaluate(OPEN)
        page.wait_for_timeout(300)  # until the page has shrunk its wide formulas to fit
        scrolls += page.evaluate(SCROLLS)
        shrunk += page.evaluate(SHRUNK, float(style["figure.dpi"]))
    page.faults.clear()  # a page that is left may not have loaded its icon
    assert len(scrolls) > 500 and sum(scrolls) <= len(scrolls) / 20
    assert len(shrunk) > 50 and min(shrunk) * float(style["font.size"]) >= 11


FAULTY = """<!doctype html><html lang="en"><title>Faulty</title><main>
<img src="https://example.org/picture.png"><script>console.error("seen")</script>
<p class="math">\\(x\\)</p><p style="width: 900px; color: #eee; background: #fff">wide and pale</p>
<a href="#nowhere">a</a> <a href="nowhere.html">b</a> <a href="https://a.org/b.">c</a>
<a href="https://a.org/b">d,</a> <a href="https://a.org/b?c=d#e" id="e">e</a> <b id="e">f</b>
</main></html>"""


def test_the_faults_of_a_faulty_page_are_found(visit, tmp_path):
    path = tmp_path / "faulty.html"
    path.write_text(FAULTY, encoding="utf-8")
    assert len(list(faults_in(path))) == 7
    shown = visit(path.as_uri())
    found = faults_on(shown)
    shown.faults.clear()
    assert {"https://example.org/picture.png", "seen"} <= set(found["faults"])
    assert found["mathematics"] == ["\\(x\\)"] and found["axe"][0].startswith("image-alt")
    assert found["axe, light"] and "wide and pale" in str(found["sticks out"])


#: What Tab must reach: the skip link, search, the theme, a chapter, a theorem, the next page.
REACHED = {
    "#pst-skip-link a, a.skip-link", ".search-button-field, .search-button",
    ".theme-switch-button", "nav.bd-links a", ".theorem-box .headerlink",
    ".prev-next-area a.right-next",
}  # fmt: skip
FOCUSED = "s => document.activeElement.matches(s)"


def test_the_keyboard_reaches_everything(visit):
    shown, missed = visit(CHAPTER), REACHED
    for _ in range(400):
        shown.keyboard.press("Tab")
        missed = {selector for selector in missed if not shown.evaluate(FOCUSED, selector)}
    assert not missed


# ---- additions of the book's extensions --------------------------------------------


def test_symbols_are_explained_and_theorems_and_equations_have_links():
    page = soup(SITE / "notebooks" / "04-the-value-bias-leaves.html")
    said = {symbol.annotation.text: symbol["title"] for symbol in page.select("abbr.symbol")}
    assert said["b_V"].startswith("value bias") and said["W_O"].startswith("output weight")
    boxes = page.select(".theorem-box, div.equation")
    assert len(boxes) > 10
    for box in boxes:
        assert box.select_one(f'a.headerlink[href="#{box["id"]}"]'), box["id"]
    for title in page.select(".theorem-box-title"):
        assert "headerlink" in title.find_next_sibling()["class"], "it stands behind the title"


# ---- quizzes -----------------------------------------------------------------------


@pytest.mark.parametrize("page", QUIZZES)
def test_a_quiz_is_answered_with_the_keyboard_and_says_why(visit, page):
    shown = visit(page)
    answers = shown.locator("details:is(.quiz-right, .quiz-wrong)").all()
    assert len(answers) >= 15 and not shown.locator("details[open].quiz-right").count()
    first, second = (answer.locator("summary") for answer in answers[:2])
    first.focus()
    shown.keyboard.press("Tab")
    while shown.evaluate("document.activeElement.matches('.katex-display')"):  # skip formulas
        shown.keyboard.press("Tab")
    assert second.evaluate("e => e === document.activeElement")
    for answer in answers:
        answer.locator("summary").focus()
        shown.keyboard.press("Enter")
        right = "quiz-right" in answer.get_attribute("class")
        assert answer.locator("strong").first.inner_text() == ("Right." if right else "No.")
