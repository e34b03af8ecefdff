"""Headless Chromium and a local server, for tests of the built site.

Chromium must be installed, as it is never downloaded. Without it, these tests are skipped with a
message, or fail if REQUIRE_BROWSER=1.
"""

import os
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tools.site.print_pdf import CannotPrint, chromium, find_chromium


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


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@contextmanager
def served(folder):
    """Serve a folder on this machine, and yield its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
