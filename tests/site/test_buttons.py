"""Every button that a page shows does something that is seen, under a finger and under Enter."""

import contextlib
import itertools

import pytest
from playwright.sync_api import TimeoutError, expect

CHAPTER = "notebooks/03-softmax-ignores-the-key-bias.html"
PAGES = (CHAPTER, "book/index.html", "book/theorems.html")
OTHERS = ("notebooks/03-exercises.html", "book/teaching/quiz-2.html", "search.html")
WIDTHS = (390, 800, 1300)

BUTTONS = ":is(button, [role=button], summary)"
#: The way back to the top is only there after scrolling.
OF_THE_PAGE, OF_THE_TEXT = f"{BUTTONS}:not(article *, #pst-back-to-top)", f"article {BUTTONS}"
MENU, CONTENTS = ".primary-toggle", ".secondary-toggle"

#: What is to be seen, and where: every visible element with its place from left to right, the lines
#: of a drawn sign, and the field with the cursor. A tooltip is no effect, nor what comes with
#: scrolling or becomes opaque where the finger is, nor what happens inside another button: one that
#: copies shows its sign again. Printing and the full screen are not on the page.
SEEN = """window.seen = () => {
    const left = e => e.matches(".tooltip, .katex-display, #pst-back-to-top")
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
#: Whether nothing has moved for a tenth of a second; what is seen then is kept.
AT_REST = """async () => {
    let before;
    while (before !== (before = seen())) await new Promise(later => setTimeout(later, 100));
    window.before = before;
}"""
LABEL = "e => e.getAttribute('aria-label') || e.title || e.textContent.trim()"
IS_NEW = "(e, before) => !before.includes(e)"
PATIENCE = 5_000  # milliseconds: a long page takes a while to fill the screen


def does_something(page, button):
    """Whether a tap changes what is seen. That it takes the cursor out of a field does not count."""
    button.evaluate("button => { window.tapped = button; document.activeElement.blur() }")
    page.evaluate(AT_REST)
    button.tap()
    with contextlib.suppress(TimeoutError):
        return page.wait_for_function("seen() !== before", timeout=PATIENCE, polling=50)


def visible(page, selector):
    """The buttons that can be seen and pressed; one that has nothing to do now is disabled."""
    found = page.query_selector_all(selector)
    return [button for button in found if button.is_visible() and button.is_enabled()]


def dead_buttons(page):
    """The names of the buttons that are pressed and change nothing, also in what others open."""

    def dead(buttons):
        return [b.evaluate(LABEL) for b in buttons if not does_something(page, b)]

    yield from dead(visible(page, OF_THE_TEXT))
    at_first = visible(page, OF_THE_PAGE)
    for button in at_first:
        yield from dead([button])
        opened = visible(page, OF_THE_PAGE)
        yield from dead([b for b in opened if b.evaluate(IS_NEW, at_first)])
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
    page.evaluate("document.querySelector('article').prepend(document.createElement('button'))")
    page.evaluate("document.querySelector('article > button').textContent = 'dead'")
    assert [*dead_buttons(page)] == ["dead"]


# ---- by keyboard -------------------------------------------------------------------

DIALOG = "dialog[open]"


@pytest.mark.parametrize(("button", "width"), [(MENU, 390), (CONTENTS, 800)])
def test_enter_opens_and_escape_closes(visit, button, width):
    page = visit(CHAPTER, width)
    toggle = page.locator(f"{button}:visible")
    toggle.press("Enter")
    expect(page.locator(f"{DIALOG} :focus")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(DIALOG)).to_have_count(0)
    expect(toggle, "the focus is lost").to_be_focused()


def test_enter_hides_the_menu_of_a_wide_page_and_keeps_the_focus(visit):
    page = visit(CHAPTER)
    page.locator(f"{MENU}:visible").press("Enter")
    expect(page.locator("#pst-primary-sidebar nav.bd-links")).to_be_hidden()
    expect(page.locator(f"{MENU}:visible")).to_be_focused()


def test_the_contents_close_behind_what_is_chosen(visit):
    page = visit(CHAPTER, 390)
    toggle = page.locator(f"{CONTENTS}:visible")
    toggle.press("Enter")
    page.locator(f"{DIALOG} a", has_text="Theorem 3.2").press("Enter")
    page.wait_for_url("**#theorem-3-2-*")
    expect(page.locator(DIALOG)).to_have_count(0)
    expect(toggle).not_to_be_focused()
