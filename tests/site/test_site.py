"""Every page of the built site, as its readers meet it: offline, in both themes, on a phone."""

import json
import re

import pytest
from browser import faults_of, needs_chromium, wait_for_mathematics
from site_files import SITE, anchors, links_of, links_out_of, soup

START = "index.html"  # leads to the first page, and has nothing of its own
PAGES = sorted(
    page.relative_to(SITE).as_posix()
    for page in SITE.rglob("*.html")
    if "_static" not in page.parts
    and page.relative_to(SITE).as_posix() not in ("genindex.html", START)
)
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1300, "height": 900}

each_page = pytest.mark.parametrize("page", PAGES)


def test_the_site_is_built_and_starts_with_the_first_page():
    assert len(PAGES) > 10, f"{SITE} is empty: run `make book` first"
    assert 'url=book/index.html"' in (SITE / START).read_text(encoding="utf-8")


# ---- without a browser ------------------------------------------------------------


#: An address ends with a letter, a digit, a slash, or what its parameters may end with.
WHOLE_ADDRESS = re.compile(r"https://[\w.-]+\.\w+(/|/\S*[\w/=-])?")


def broken_links(page):
    """The links that are no whole address, and those whose words are cut or run on."""
    for address, words in links_out_of(page):
        guessed = "://" in words or words.startswith(("www.", "github.com"))
        cut = guessed and words.removeprefix("https://") != address.removeprefix("https://")
        if not WHOLE_ADDRESS.fullmatch(address) or cut or not words or words[-1] in ".,:;!?":
            yield address, words


@each_page
def test_its_links_lead_somewhere_and_its_pictures_have_words(page):
    for target, anchor in links_of(SITE / page):
        assert target.is_file(), f"{page} links to {target.name}, which is not there"
        assert anchor in anchors(target), f"{page}: {target.name} has no anchor {anchor}"
    assert not list(broken_links(SITE / page))
    ids = [element["id"] for element in soup(SITE / page).find_all(id=True)]
    assert len(ids) == len(set(ids)), "an anchor is there twice"
    for picture in soup(SITE / page).find_all("img"):
        words, source = picture.get("alt"), picture["src"]
        assert words is not None and not words.endswith((".png", ".svg")), f"{source} has no words"
        assert (SITE / page).parent.joinpath(source).resolve().is_file(), f"no file {source}"


LINKS = """<a href="http://github.com/a/b:">github.com/a/b:</a> <a href="https://a.org/b.">b</a>
<a href="https://github.com/a/b">github.com/a/b: the rest</a> <a href="https://a.org/b">b,</a>
<a href="https://a.org/b?c=d#e">https://a.org/b?c=d#e</a> <a href="https://a.org">a</a>"""


def test_a_link_with_the_punctuation_behind_it_is_seen(tmp_path):
    (tmp_path / "page.html").write_text(LINKS, encoding="utf-8")
    assert len(list(broken_links(tmp_path / "page.html"))) == 4


# ---- in Chromium ------------------------------------------------------------------


def visit(browser, url, own):
    """The page once its mathematics is set, and the faults met on the way.

    What axe asks for by itself, when it reads style sheets, comes later and does not count.
    """
    page = browser.new_page(viewport=DESK, reduced_motion="reduce")
    faults = faults_of(page, own)
    page.goto(url)
    wait_for_mathematics(page)
    return page, faults


UNSET = """() => [...document.querySelectorAll(".math")].filter(m =>
    !m.querySelector("mjx-container") || m.querySelector("mjx-merror, [data-mjx-error]")
).map(m => m.textContent)"""

#: What sticks out of the page sideways and cannot be scrolled to inside a box of its own.
STICKS_OUT = """() => {
    const scrolls = e => e && e !== document.body && (
        ["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
    const hidden = e => e.closest("mjx-assistive-mml, .visually-hidden, .sr-only, dialog, .bd-sidebar-secondary");
    const wide = [...document.querySelectorAll("main *")].filter(e =>
        e.getBoundingClientRect().right > innerWidth + 1 && !hidden(e) && !scrolls(e.parentElement));
    const page = document.documentElement.scrollWidth > innerWidth ? ["the page itself"] : [];
    return page.concat(wide.map(e => e.outerHTML.slice(0, 120)));
}"""


#: The rule that looks at colours takes most of the time. Formulas and highlighted code, most of
#: a page's elements, have theirs from one style sheet: they are looked at on one page of each.
COLOURS = {"runOnly": ["color-contrast"]}
ALL_BUT_COLOURS = {"rules": {"color-contrast": {"enabled": False}}}
STYLED_ONCE = {"exclude": [["mjx-container"], ["pre"]]}
SEEN_WHOLE = ("notebooks/03-softmax-ignores-the-key-bias.html", "notebooks/03-exercises.html")


def violations(page, rules=None, within=None):
    """What axe finds, in words."""
    from axe_playwright_python.sync_playwright import Axe

    options = {"resultTypes": ["violations"], "preload": False} | (rules or {})
    found = Axe().run(page, context=within, options=options).response["violations"]
    return [f"{v['id']}: {n['html'][:160]}" for v in found for n in v["nodes"]]


THEME = "look => { const d = document.documentElement.dataset; d.theme = d.mode = look }"


@needs_chromium
@each_page
def test_it_is_whole_and_open_to_everyone(browser, address, page):
    shown, faults = visit(browser, f"{address}/{page}", address)
    found = {"faults": list(faults), "mathematics": shown.evaluate(UNSET)}
    found["axe"] = violations(shown, ALL_BUT_COLOURS)
    for look in ("light", "dark"):
        shown.evaluate(THEME, look)
        within = None if page in SEEN_WHOLE else STYLED_ONCE
        found[f"axe, {look}"] = violations(shown, COLOURS, within)
    shown.set_viewport_size(PHONE)
    shown.wait_for_timeout(600)  # the theme makes what scrolls reachable by keyboard
    found["sticks out"] = shown.evaluate(STICKS_OUT)
    found["axe, phone"] = violations(shown, ALL_BUT_COLOURS)
    shown.close()
    wrong = {what: some for what, some in found.items() if some}
    assert not wrong, json.dumps(wrong, indent=1)


@needs_chromium
@each_page
def test_it_is_whole_as_a_file(browser, page):
    shown, faults = visit(browser, (SITE / page).as_uri(), "file:")
    unset = shown.evaluate(UNSET)
    shown.close()
    assert not faults and not unset


#: What a reader without a pointer has to reach on a chapter's page.
REACHED = {
    "the way past the navigation": "#pst-skip-link a, a.skip-link",
    "search": ".search-button-field, .search-button",
    "the theme": ".theme-switch-button",
    "another chapter": "nav.bd-links a",
    "a theorem": ".theorem-box .headerlink",
    "the next page": ".prev-next-area a.right-next",
}


@needs_chromium
def test_the_keyboard_reaches_everything(browser, address):
    shown, _ = visit(browser, f"{address}/notebooks/03-softmax-ignores-the-key-bias.html", address)
    missed = dict(REACHED)
    for _ in range(400):
        shown.keyboard.press("Tab")
        for what, selector in list(missed.items()):
            if shown.evaluate("s => document.activeElement.matches(s)", selector):
                del missed[what]
        if not missed:
            break
    shown.close()
    assert not missed


FAULTY = """<!doctype html><html lang="en"><title>Faulty</title><main>
<img src="https://example.org/picture.png"><script>console.error("seen")</script>
<p class="math">\\(x\\)</p><p style="width: 900px; color: #eee; background: #fff">wide and pale</p>
</main></html>"""


@needs_chromium
def test_a_faulty_page_is_seen_to_be_faulty(browser, tmp_path):
    (tmp_path / "faulty.html").write_text(FAULTY, encoding="utf-8")
    shown, faults = visit(browser, (tmp_path / "faulty.html").as_uri(), "file:")
    assert "https://example.org/picture.png" in faults and "seen" in faults
    assert shown.evaluate(UNSET) == ["\\(x\\)"]
    rules = {violation.partition(":")[0] for violation in violations(shown)}
    assert {"image-alt", "color-contrast"} <= rules
    shown.set_viewport_size(PHONE)
    assert any("wide and pale" in what for what in shown.evaluate(STICKS_OUT))
    shown.close()


# ---- what the extensions add -------------------------------------------------------

CHAPTER = SITE / "notebooks" / "04-the-value-bias-leaves.html"


def test_a_symbol_carries_its_words():
    said = {symbol.text: symbol["title"] for symbol in soup(CHAPTER).select("abbr.symbol")}
    assert said["\\(b_V\\)"].startswith("value bias")
    assert said["\\(W_O\\)"].startswith("output weight")


def test_theorems_and_equations_can_be_linked_to():
    page = soup(CHAPTER)
    boxes = page.select(".theorem-box, div.equation")
    assert len(boxes) > 10
    for box in boxes:
        assert box.select_one(f'a.headerlink[href="#{box["id"]}"]'), box["id"]
    for title in page.select(".theorem-box-title"):
        assert "headerlink" in title.find_next_sibling()["class"], (
            "the sign stands behind the title"
        )
