"""Every visible button of a page has a visible effect when it is tapped, or chosen with Enter."""

import contextlib
import itertools

import pytest
from playwright.sync_api import TimeoutError, expect
from site_files import CHAPTER

PAGES = (CHAPTER, "book/index.html", "book/theorems.html")
OTHERS = ("notebooks/03-exercises.html", "book/teaching/quiz-2.html", "search.html")
WIDTHS = (390, 800, 1300)

BUTTONS = ":is(button, [role=button], summary)"
#: The button back to the top is excluded, as it appears only after scrolling.
OF_THE_PAGE, OF_THE_TEXT = f"{BUTTONS}:not(article *, #pst-back-to-top)", f"article {BUTTONS}"
MENU, CONTENTS = ".primary-toggle", ".secondary-toggle"

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


def does_something(page, button):
    """Whether a tap has a visible effect, other than to take the cursor out of a field."""
    button.evaluate("button => { window.tapped = button; document.activeElement.blur() }")
    page.evaluate("window.before = seen()")
    button.tap()
    with contextlib.suppress(TimeoutError):
        return page.wait_for_function("seen() !== before", timeout=PATIENCE, polling=50)


def visible(page, selector):
    """The buttons that are visible and enabled; a button with nothing to do may be disabled."""
    found = page.query_selector_all(selector)
    return [button for button in found if button.is_visible() and button.is_enabled()]


def dead_buttons(page):
    """Yield the labels of buttons without effect, including buttons that other buttons reveal."""

    def dead(buttons):
        return [b.evaluate(LABEL) for b in buttons if not does_something(page, b)]

    # “Edit and run” comes last, because it replaces the output below it and the buttons there
    runs = lambda button: button.evaluate("e => e.matches('.live-open')")
    yield from dead(sorted(visible(page, OF_THE_TEXT), key=runs))
    at_first = visible(page, OF_THE_PAGE)
    for button in at_first:
        yield from dead([button])
        opened = visible(page, OF_THE_PAGE)
        yield from dead([b for b in opened if b.evaluate("(e, old) => !old.includes(e)", at_first)])
        page.keyboard.press("Escape")
        page.keyboard.press("Escape")
        page.evaluate("document.fullscreenElement && document.exitFullscreen()")


@pytest.mark.parametrize(
    ("path", "width"), [*itertools.product(PAGES, WIDTHS), *((path, 390) for path in OTHERS)]
)
def test_every_button_does_something(visit, path, width):
    found = list(dead_buttons(visit(path, width, script=SEEN)))
    assert not found, f"{path}, {width} pixels wide: nothing happens at {found}"


def test_dead_buttons_are_found(visit):
    page = visit("book/references.html", 390, script=SEEN)
    page.evaluate("document.querySelector('article').innerHTML += '<button>dead</button>'")
    assert [*dead_buttons(page)] == ["dead"]


# ---- by keyboard -------------------------------------------------------------------

DIALOG = "dialog[open]"


@pytest.mark.parametrize(("button", "width"), [(MENU, 390), (CONTENTS, 800), (MENU, 1300)])
def test_enter_opens_or_hides_and_the_focus_is_kept(visit, button, width):
    page = visit(CHAPTER, width)
    toggle = page.locator(f"{button}:visible")
    toggle.press("Enter")
    if width == 1300:
        expect(page.locator("#pst-primary-sidebar nav.bd-links")).to_be_hidden()
    else:
        expect(page.locator(f"{DIALOG} :focus")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator(DIALOG)).to_have_count(0)
    expect(toggle, "the focus is lost").to_be_focused()


def test_the_contents_close_after_a_choice(visit):
    page = visit(CHAPTER, 390)
    toggle = page.locator(f"{CONTENTS}:visible")
    toggle.press("Enter")
    page.locator(f"{DIALOG} a", has_text="Theorem 3.2").press("Enter")
    page.wait_for_url("**#theorem-3-2-*")
    expect(page.locator(DIALOG)).to_have_count(0)
    expect(toggle).not_to_be_focused()
