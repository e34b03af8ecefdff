"""Every button that a page shows does something that is seen, under a finger and under Enter."""

import itertools

import pytest
from browser import faults_of, needs_chromium, wait_for_mathematics
from playwright.sync_api import TimeoutError

CHAPTER = "notebooks/03-softmax-ignores-the-key-bias.html"
PAGES = (CHAPTER, "book/index.html", "book/theorems.html")
OTHERS = ("notebooks/03-exercises.html", "book/teaching/quiz-2.html", "search.html")
SIZES = {390: 844, 800: 1000, 1366: 768}

BUTTONS = ":is(button, [role=button], summary)"
TO_THE_TOP = "#pst-back-to-top"  # only there after scrolling: it has a test of its own
OF_THE_PAGE, OF_THE_TEXT = f"{BUTTONS}:not(article *, {TO_THE_TOP})", f"article {BUTTONS}"
MENU, CONTENTS = ".primary-toggle", ".secondary-toggle"
NAMES = {MENU: "Toggle primary sidebar", CONTENTS: "Toggle secondary sidebar"}

#: What is to be seen, and where: every visible element with its place from left to right, the lines
#: of a drawn sign, and the field with the cursor. A tooltip is no effect, nor what comes with
#: scrolling or becomes opaque where the finger is, nor what happens inside another button: one that
#: copies shows its sign again. Printing and the full screen are not on the page.
SEEN = """window.seen = () => {
    const left = e => e.matches(".tooltip, mjx-container, #pst-back-to-top")
        || !e.checkVisibility({visibilityProperty: true});
    const inside = e => e.matches("button") && e !== window.tapped ? [] : [...e.children];
    const within = e => left(e) ? [] : [part(e), ...inside(e).flatMap(within)];
    const part = e => {
        const box = e.getBoundingClientRect(), typing = e.matches("input, textarea");
        const cursor = typing && e === document.activeElement;
        return [e.tagName, Math.round(box.x), Math.round(box.width), e.getAttribute("d"), cursor];
    };
    const whole = [Boolean(document.fullscreenElement), window.printed];
    return JSON.stringify([whole, [...document.body.children].flatMap(within)]);
};
window.print = () => { window.printed = true };"""
IS_NEW = "(e, before) => !before.includes(e)"
LABEL = "e => e.getAttribute('aria-label') || e.title || e.textContent.trim()"


@pytest.fixture
def show(browser, address):
    """Opens a page of the book under a finger; `routes` change what is loaded."""
    pages = []

    def opened(width, path=CHAPTER, routes=None):
        page = browser.new_page(
            viewport={"width": width, "height": SIZES[width]},
            has_touch=True,
            reduced_motion="reduce",
            permissions=["clipboard-read", "clipboard-write"],
        )
        pages.append(page)
        page.add_init_script(SEEN)
        page.faults = faults_of(page, address)
        for pattern, change in (routes or {}).items():
            page.route(pattern, change)
        page.goto(f"{address}/{path}")
        wait_for_mathematics(page)
        return page

    yield opened
    for page in pages:
        page.close()


#: Whether nothing has moved for a tenth of a second; what is seen then is kept.
AT_REST = """async () => {
    let before;
    while (before !== (before = seen())) await new Promise(later => setTimeout(later, 100));
    window.before = before;
}"""


def visible(page, selector):
    """The buttons that can be seen and pressed; one that has nothing to do now is disabled."""
    found = page.query_selector_all(selector)
    return [button for button in found if button.is_visible() and button.is_enabled()]


PATIENCE = 10_000  # milliseconds: a long page takes a while to fill the screen


def does_something(page, button, patience=PATIENCE):
    """Whether a tap changes what is seen. That it takes the cursor out of a field does not count."""
    button.evaluate("button => { window.tapped = button; document.activeElement.blur() }")
    page.evaluate(AT_REST)
    button.tap()
    try:
        page.wait_for_function("seen() !== before", timeout=patience, polling=50)
    except TimeoutError:
        return False
    return True


def dead_buttons(page, patience=PATIENCE):
    """The names of the buttons that are tapped and change nothing, also in what others open."""

    def dead(buttons):
        return [b.evaluate(LABEL) for b in buttons if not does_something(page, b, patience)]

    yield from dead(visible(page, OF_THE_TEXT))
    at_first = visible(page, OF_THE_PAGE)
    for button in at_first:
        yield from dead([button])
        opened = visible(page, OF_THE_PAGE)
        yield from dead([b for b in opened if b.evaluate(IS_NEW, at_first)])
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.evaluate("document.fullscreenElement && document.exitFullscreen()")


@needs_chromium
@pytest.mark.parametrize(
    ("path", "width"), [*itertools.product(PAGES, SIZES), *((path, 390) for path in OTHERS)]
)
def test_every_button_does_something(show, path, width):
    page = show(width, path)
    found = list(dead_buttons(page))
    assert not found, f"{path}, {width} pixels wide: nothing happens at {found}"
    assert not page.faults


#: The bar of the theme as it was: hidden, with a ☰ and a list of contents before the page's own.
BAR = """<button class="sidebar-toggle primary-toggle">☰</button>
<button class="sidebar-toggle secondary-toggle">…</button></header>"""
HIDDEN = "<style>.bd-header { display: none !important }</style></head>"


def with_the_bar(route):
    response = route.fetch()
    text = response.text().replace("</header>", BAR, 1).replace("</head>", HIDDEN, 1)
    assert BAR in text and HIDDEN in text
    route.fulfill(response=response, body=text)


@needs_chromium
@pytest.mark.parametrize("width", SIZES)
def test_buttons_that_the_hidden_bar_kills_are_found(show, width):
    page = show(width, routes={f"**/{CHAPTER}": with_the_bar})
    killed = (MENU,) if width == 1366 else (MENU, CONTENTS)
    assert {*dead_buttons(page, patience=4000)} == {NAMES[button] for button in killed}


@needs_chromium
def test_the_way_back_to_the_top(show):
    page = show(390)
    for down in (4000, -200):  # it comes when one turns back
        page.mouse.wheel(0, down)
        page.wait_for_timeout(500)
    page.locator(TO_THE_TOP).tap()
    page.wait_for_function("scrollY === 0")


# ---- by keyboard -------------------------------------------------------------------


def press(page, selector, key):
    page.locator(f"{selector}:visible").focus()
    page.keyboard.press(key)
    page.evaluate(AT_REST)


def has_focus(page, selector):
    page.wait_for_timeout(100)
    return page.evaluate("s => document.activeElement.matches(s)", selector)


@needs_chromium
@pytest.mark.parametrize("width", [390, 800])
@pytest.mark.parametrize("button", [MENU, CONTENTS])
def test_enter_opens_and_escape_closes(show, button, width):
    page = show(width)
    press(page, button, "Enter")
    assert has_focus(page, "dialog[open] *")
    page.keyboard.press("Escape")
    assert not page.locator("dialog[open]").count()
    assert has_focus(page, button), "the focus is lost"


@needs_chromium
def test_enter_hides_the_menu_of_a_wide_page_and_shows_it_again(show):
    page = show(1366)
    menu = page.locator("#pst-primary-sidebar nav.bd-links")
    press(page, MENU, "Enter")
    assert not menu.is_visible() and has_focus(page, MENU)
    page.keyboard.press("Enter")
    menu.wait_for(state="visible")


@needs_chromium
@pytest.mark.parametrize("key", ["Enter", None])
def test_a_section_chosen_in_the_contents_is_seen(show, key):
    page = show(390)
    press(page, CONTENTS, "Enter")
    link = page.locator("dialog[open] a", has_text="Theorem 3.5")
    link.press(key) if key else link.tap()
    page.wait_for_url("**#theorem-3-5-*")
    assert not page.locator("dialog[open]").count()
    assert not has_focus(page, CONTENTS) and not page.faults


@needs_chromium
def test_a_lost_focus_and_contents_that_stay_open_are_found(show):
    """The same page without what mends the theme."""
    page = show(390, routes={"**/buttons.js*": lambda route: route.fulfill(body="")})
    press(page, MENU, "Enter")
    page.keyboard.press("Escape")
    assert not has_focus(page, MENU)
    press(page, CONTENTS, "Enter")
    page.locator("dialog[open] a", has_text="Theorem 3.5").tap()
    assert page.locator("dialog[open]").count()
