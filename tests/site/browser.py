"""The built site, headless Chromium and a local server.

Chromium must be installed, as it is never downloaded. Without it, these tests are skipped with a
message, or fail if REQUIRE_BROWSER=1.
"""

import os
import threading
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from bs4 import BeautifulSoup

from tools.files import ROOT
from tools.site.print_pdf import CannotPrint, chromium, find_chromium

SITE = ROOT / "_build" / "html"
CHAPTER = "notebooks/03-softmax-ignores-the-key-bias.html"


@cache
def soup(page):
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


def demand_means(there, reason):
    """Unless what a test needs is ``there``, skip the test, or fail it if REQUIRE_BROWSER=1."""
    if not there:
        (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(reason)


@pytest.fixture(scope="module")
def browser():
    try:
        find_chromium()
    except CannotPrint as why:
        demand_means(False, str(why))
    with chromium() as opened:
        yield opened


def visited(context, address, own):
    """Load a page and return it; errors on the page are added to its `faults`.

    Requests for addresses that do not begin with `own` are faults as well.
    """
    page = context.new_page()
    page.faults = faults = []
    page.on("request", lambda r: r.url.startswith((own, "data:", "blob:")) or faults.append(r.url))
    page.on("requestfailed", lambda r: faults.append(f"not loaded: {r.url}"))
    page.on("response", lambda r: r.status < 400 or faults.append(f"{r.status}: {r.url}"))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda m: m.type not in ("error", "warning") or faults.append(m.text))
    page.goto(address)
    return page


@contextmanager
def served(folder):
    """Serve a folder on this machine, and yield its address."""
    pages = partial(SimpleHTTPRequestHandler, directory=folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def address():
    with served(SITE) as address:
        yield address


@pytest.fixture
def visit(browser, address):
    """A function that opens a page in its own window; the test fails if any page had a fault.

    The path is relative to the site, or a whole address `file://…`; `script` runs before the page's
    own scripts.
    """
    pages = []

    def opened(path, width=1300, height=900, script=""):
        context = browser.new_context(
            viewport={"width": width, "height": height},
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
