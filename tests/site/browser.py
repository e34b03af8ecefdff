"""The built site in headless Chromium, for the tests that look at it.

Chromium comes from the system; none is ever downloaded. Without it these tests are skipped and
say so; with REQUIRE_BROWSER=1 they fail instead.
"""

import os
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest
from print_pdf import CannotPrint, find_chromium
from site_files import SITE

try:
    CHROMIUM = find_chromium()
except CannotPrint:
    CHROMIUM = None
NO_CHROMIUM = "Chromium is not installed: the built pages are not looked at"


def need(there, reason):
    """Skip a test module whose means are missing; fail where they are required."""
    if not there and os.environ.get("REQUIRE_BROWSER") == "1":
        raise RuntimeError(reason)
    return pytest.mark.skipif(not there, reason=reason)


needs_chromium = need(CHROMIUM, NO_CHROMIUM)


@contextmanager
def chromium():
    """A browser that cannot reach anything but this machine."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM,
            args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
        )
        yield browser
        browser.close()


def faults_of(page, own):
    """A list that grows with what goes wrong on a page, or is asked of anywhere but `own`."""
    faults = []
    page.on("request", lambda r: r.url.startswith((own, "data:", "blob:")) or faults.append(r.url))
    page.on("requestfailed", lambda r: faults.append(f"not loaded: {r.url}"))
    page.on("response", lambda r: r.status < 400 or faults.append(f"{r.status}: {r.url}"))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda m: m.type not in ("error", "warning") or faults.append(m.text))
    return faults


def wait_for_mathematics(page):
    page.wait_for_function("window.MathJax === undefined || MathJax.startup?.promise")
    page.evaluate("() => window.MathJax?.startup?.promise")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@contextmanager
def served(folder=SITE):
    """The address under which a folder is served on this machine."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
