"""Every page of the built site is complete and accessible offline, in both themes, on a phone."""

import gzip
from collections import Counter
from functools import cache
from urllib.parse import unquote, urldefrag

import pytest
from axe_playwright_python.sync_playwright import Axe
from browser import CHAPTER, SITE, soup

from tools.site.lighter import icons_of

START = SITE / "index.html"  # only redirects to the first page
PAGES = sorted(
    page.relative_to(SITE).as_posix()
    for page in SITE.rglob("*.html")
    if "_static" not in page.parts and page.name != "genindex.html" and page != START
)
PHONE = {"width": 390, "height": 844}

each_page = pytest.mark.parametrize("page", PAGES)
#: The most bytes that a page and the files that it names may have, all compressed; KaTeX's fonts,
#: which are not counted, add about 100,000.
HEAVIEST = 300_000
NAMED = "link[rel=stylesheet][href], link[rel=preload][href], script[src], img[src]"

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
FAULTY = """<!doctype html><html lang="en"><title>Faulty</title><main>
<img src="https://example.org/picture.png"><script>console.error("seen")</script>
<p style="width: 900px; color: #eee; background: #fff">wide and pale</p><p class="math">x</p>
<a href="#nowhere">a</a> <a href="nowhere.html">b</a> <b id="e">e</b> <b id="e">f</b>
</main></html>"""

#: What Tab must reach: the skip link, search, the theme, a chapter, a theorem, the next page.
REACHED = {"#pst-skip-link a, a.skip-link", ".search-button-field, .search-button"}
REACHED |= {".theme-switch-button", "nav.bd-links a", ".theorem-box .headerlink"}
REACHED |= {".prev-next-area a.right-next"}
FOCUSED = "s => document.activeElement.matches(s)"


def test_the_site_is_built_and_starts_with_the_first_page():
    assert len(PAGES) > 10, f"{SITE} is empty: run `make book` first"
    assert 'url=book/index.html"' in START.read_text(encoding="utf-8")


@cache
def anchors(page):
    return Counter(element["id"] for element in soup(page).find_all(id=True))


def faults_in(page):
    """Yield the faults of the links, anchors, formulas and pictures of a page.

    Sphinx does not check links in HTML, nor what our extensions write.
    """
    for link in soup(page).select('a[href]:not([href*=":"])'):
        address, anchor = urldefrag(link["href"])
        target = (page.parent / unquote(address)).resolve() if address else page
        if not target.is_file() or (anchor and unquote(anchor) not in anchors(target)):
            yield f"a link to {target.name}#{anchor}, which is not there"
    yield from (f"the anchor {a} is there {n} times" for a, n in anchors(page).items() if n > 1)
    yield from (f"not typeset: {e}" for e in soup(page).select(".math:not(:has(.katex math))"))
    for picture in soup(page).find_all("img"):
        if picture.get("alt", ".png").endswith((".png", ".svg")):
            yield f"{picture['src']} has no words"
        if not page.parent.joinpath(picture["src"]).is_file():
            yield f"there is no picture {picture['src']}"


@each_page
def test_a_page_is_light_its_links_work_and_its_formulas_need_no_script(page):
    assert not list(faults_in(SITE / page))
    named = {e.get("href") or e["src"] for e in soup(SITE / page).select(NAMED)}
    files = {(SITE / page).parent.joinpath(name.split("?")[0]).resolve() for name in named}
    files = [path for path in files | {SITE / page} if path.is_file()]
    assert sum(len(gzip.compress(path.read_bytes())) for path in files) <= HEAVIEST


def test_only_icons_that_no_page_shows_are_removed():
    css = '.fa-a:before,.fa-b:before{content:"\\f001"}.fa-c:before{content:"\\f002"}'
    css += '@media print{.menu:after{content:"\\f003"}}'
    assert icons_of(css, {"fa-b"}) == {0xF001, 0xF003}


def axe(page, rules, within=None):
    """Descriptions of the violations that axe finds; axe's own requests do not count as faults."""
    before = len(page.faults)
    options = {"resultTypes": ["violations"], "preload": False} | rules
    found = Axe().run(page, context=within, options=options).response["violations"]
    del page.faults[before:]
    return [f"{v['id']}: {n['html'][:160]}" for v in found for n in v["nodes"]]


def faults_on(shown, within=None):
    """{kind: faults of a page}, on a wide screen in both themes, and then on a phone."""
    found = {"faults": list(shown.faults), "axe": axe(shown, ALL_BUT_COLOURS)}
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


def test_the_faults_of_a_faulty_page_are_found(visit, tmp_path):
    path = tmp_path / "faulty.html"
    path.write_text(FAULTY, encoding="utf-8")
    assert len(list(faults_in(path))) == 6
    shown = visit(path.as_uri())
    found = faults_on(shown)
    shown.faults.clear()
    assert {"https://example.org/picture.png", "seen"} <= set(found["faults"])
    assert found["axe"][0].startswith("image-alt")
    assert found["axe, light"] and "wide and pale" in str(found["sticks out"])


def test_a_phone_shows_wide_formulas_smaller_and_without_scrolling(visit):
    page = visit("notebooks/10-attention-at-initialisation.html", PHONE["width"])
    page.set_viewport_size(PHONE | {"height": 30_000})  # formulas are fitted when they are seen
    page.wait_for_timeout(600)
    formulas = page.locator(".katex-display")
    assert formulas.evaluate_all("es => es.every(e => e.scrollWidth <= e.clientWidth + 1)")
    assert formulas.locator("> [style*=font-size]").count() > 3


def test_the_keyboard_reaches_everything(visit):
    shown, missed = visit(CHAPTER), REACHED
    for _ in range(400):
        shown.keyboard.press("Tab")
        missed = {selector for selector in missed if not shown.evaluate(FOCUSED, selector)}
    assert not missed
