"""Fixtures that the tests in Chromium share: the browser, the built site, and visits to pages."""

import pytest
from browser import browser, served, visited  # noqa: F401
from site_files import SITE


@pytest.fixture(scope="module")
def address():
    with served(SITE) as address:
        yield address


@pytest.fixture
def visit(browser, address):  # noqa: F811
    """A function that opens a page in its own window; the test fails if any page had a fault.

    The path is relative to the site, or a whole address `file://…`; `script` runs before the page's
    own scripts.
    """
    pages = []

    def opened(path, width=1300, script=""):
        context = browser.new_context(
            viewport={"width": width, "height": 900},
            has_touch=True,
            reduced_motion="reduce",
            permissions=["clipboard-read", "clipboard-write"],
        )
        context.add_init_script(script)
        own = "file:" if path.startswith("file:") else f"{address}/"
        pages.append(visited(context, path if own == "file:" else own + path, own))
        return pages[-1]

    yield opened
    faults = [fault for page in pages for fault in page.faults]
    for page in pages:
        page.context.close()
    assert not faults
