"""Every visible button of a page has a visible effect when it is tapped, or chosen with Enter."""

import itertools

import pytest
from browser import CHAPTER
from playwright.sync_api import TimeoutError, expect

PAGES = (CHAPTER, "book/index.html", "book/theorems.html")
OTHERS = ("notebooks/03-exercises.html", "book/teaching/quiz-2.html", "search.html")
WIDTHS = (390, 800, 1300)

BUTTONS = ":is(button, [role=button], summary)"
#: The button back to the top is excluded, as it appears only after scrolling.
OF_THE_PAGE = f"{BUTTONS}:not(article *, #pst-back-to-top)"
#: “Edit and run” comes last, because it replaces the output below it and the buttons there.
OF_THE_TEXT = (f"article {BUTTONS}:not(.live-open)", "article .live-open")

#: A script that describes what buttons change: the theme, the full screen, whether the page was
#: printed, how many folds, dialogs, menus, fields and sidebars are visible, the class of the button
#: that is tapped, and whether the cursor is in a field.
SEEN = """window.seen = () => JSON.stringify([
    document.documentElement.dataset.mode, Boolean(document.fullscreenElement), window.printed,
    ...[":is(details, dialog)[open]", ".dropdown-menu.show", "textarea", "nav.bd-links"].map(
        kind => [...document.querySelectorAll(kind)].filter(
            e => e.checkVisibility({visibilityProperty: true})).length),
    window.tapped?.matches(".success"), document.activeElement.matches("input, textarea"),
]);
window.print = () => { window.printed = true };"""
LABEL = "e => e.getAttribute('aria-label') || e.title || e.textContent.trim()"
PATIENCE = 5_000  # milliseconds; generous, because a long page takes a while to fill the screen


def visible(page, selector):
    """The buttons that are visible and enabled; a button with nothing to do may be disabled."""
    found = page.query_selector_all(selector)
    return [button for button in found if button.is_visible() and button.is_enabled()]


def dead(page, buttons):
    """Yield the labels of buttons that do no more than take the cursor out of a field."""
    for button in buttons:
        button.evaluate("button => { window.tapped = button; document.activeElement.blur() }")
        page.evaluate("window.before = seen()")
        button.tap()
        try:
            page.wait_for_function("seen() !== before", timeout=PATIENCE, polling=50)
        except TimeoutError:
            yield button.evaluate(LABEL)


def dead_buttons(page):
    """Yield the labels of buttons without effect, including buttons that other buttons reveal."""
    for selector in OF_THE_TEXT:
        yield from dead(page, visible(page, selector))
    at_first = visible(page, OF_THE_PAGE)
    for button in at_first:
        yield from dead(page, [button])
        is_new = lambda found: found.evaluate("(e, old) => !old.includes(e)", at_first)
        yield from dead(page, filter(is_new, visible(page, OF_THE_PAGE)))
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.evaluate("document.fullscreenElement && document.exitFullscreen()")


@pytest.mark.parametrize(
    ("path", "width"), [*itertools.product(PAGES, WIDTHS), *((path, 390) for path in OTHERS)]
)
def test_every_button_does_something(visit, path, width):
    assert list(dead_buttons(visit(path, width, script=SEEN))) == []


def test_dead_buttons_are_found(visit):
    page = visit("book/references.html", 390, script=SEEN)
    page.evaluate("document.querySelector('article').innerHTML += '<button>dead</button>'")
    assert [*dead_buttons(page)] == ["dead"]


@pytest.mark.parametrize("width", [390, 800])
def test_enter_opens_the_contents_and_the_focus_is_kept_unless_a_link_is_chosen(visit, width):
    page = visit(CHAPTER, width)
    toggle, dialog = page.locator(".secondary-toggle:visible"), page.locator("dialog[open]")
    toggle.press("Enter")
    expect(dialog.locator(":focus")).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    expect(toggle, "the focus is lost").to_be_focused()
    toggle.press("Enter")
    dialog.locator("a", has_text="Theorem 3.2").press("Enter")
    page.wait_for_url("**#theorem-3-2-*")
    expect(dialog).to_have_count(0)
    expect(toggle).not_to_be_focused()
