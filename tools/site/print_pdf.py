"""Print the book with Chromium; `make pdf` calls this program.

    python -m tools print-pdf       # from _build/html into _build/pdf/where-did-the-bias-go.pdf

The program shrinks formulas that are too wide, and refuses to print if anything would be cut off.
It prints twice, because only the first PDF shows on which page each chapter begins.
"""

import os
import shutil
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path

import pikepdf
from playwright.sync_api import sync_playwright

from tools.addresses import PDF as NAME
from tools.files import ROOT, Fault, write
from tools.site.one_page import one_page

BUILD = ROOT / "_build"
PDF = BUILD / "pdf" / NAME
ONE_PAGE = BUILD / "one-page.html"
SCRIPT = Path(__file__).with_suffix(".js")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: The area inside the margins of print.css, on A4, in CSS pixels (96 to the inch).
WIDTH, HEIGHT = (int(mm / 25.4 * 96) for mm in (170, 251))
PATIENCE = 120_000  # milliseconds


class CannotPrint(Fault):
    """A Fault that says why there is no PDF."""


def main():
    find_chromium()  # fails now, not after half a minute of work
    ONE_PAGE.write_text(one_page(BUILD / "html"), encoding="utf-8")
    PDF.parent.mkdir(exist_ok=True)
    write(PDF, print_book(ONE_PAGE))


def find_chromium():
    """The path of the browser: $CHROMIUM, or a browser with one of the usual names."""
    wanted = os.environ.get("CHROMIUM")
    found = next(filter(None, map(shutil.which, [wanted] if wanted else NAMES)), None)
    if not found:
        raise CannotPrint(
            f"There is no {wanted or 'Chromium'} here, which prints the book: "
            "apt install chromium, or name one, as in: make pdf CHROMIUM=/path/to/chrome"
        )
    return found


@contextmanager
def chromium():
    """Yield a running Chromium that has no access to other machines."""
    nowhere = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    path = find_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[nowhere, *sandbox])
        yield browser
        browser.close()


def print_book(html):
    """The bytes of the PDF, printed a second time with page numbers in its contents."""
    with chromium() as browser:
        page = prepared(browser, html.as_uri())
        first = to_pdf(page)
        page.evaluate("number_contents", page_of_each_anchor(first))
        return finished(to_pdf(page), page)


def prepared(browser, address):
    """The page, ready to print; raises CannotPrint if anything is missing or would be cut off."""
    page, missing = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}), []
    page.set_default_timeout(PATIENCE)
    page.emulate_media(media="print", color_scheme="light")
    page.on("requestfailed", lambda request: missing.append(request.url))
    page.goto(address)
    page.evaluate("() => document.fonts.ready.then(() => {})")
    page.add_script_tag(content=SCRIPT.read_text(encoding="utf-8"))
    page.evaluate("prepare()")
    faults = [f"{url} could not be loaded" for url in missing] + page.evaluate("faults", HEIGHT)
    if faults:
        raise CannotPrint("\n".join(["This would not print well:", *faults]))
    return page


def to_pdf(page):
    return page.pdf(prefer_css_page_size=True, print_background=True, tagged=True, outline=True)


def page_of_each_anchor(pdf):
    """The page number of each anchor, counted from 1."""
    with pikepdf.open(BytesIO(pdf)) as document:
        number = {page.objgen: i for i, page in enumerate(document.pages, 1)}
        return {
            name.removeprefix("/"): number[destination[0].objgen]
            for name, destination in document.Root.Dests.items()
        }


def finished(pdf, page):
    """The PDF with title, author and outline, compressed to a third of its size."""
    made = BytesIO()
    with pikepdf.open(BytesIO(pdf)) as document:
        document.docinfo["/Title"] = page.title()
        document.docinfo["/Author"] = page.locator("meta[name=author]").get_attribute("content")
        document.Root.PageMode = pikepdf.Name.UseOutlines
        document.Root.ViewerPreferences = pikepdf.Dictionary(DisplayDocTitle=True)
        fold(document.Root.Outlines, iter(page.evaluate("headings()")))
        document.save(made, object_stream_mode=pikepdf.ObjectStreamMode.generate)
    return made.getvalue()


def fold(entry, titles, depth=0):
    """Give the outline's entries their titles, with formulas, and fold levels below chapters."""
    shown, child = 0, entry.get("/First")
    while child is not None:
        child.Title = next(titles)
        shown += 1 + max(0, fold(child, titles, depth + 1))
        child = child.get("/Next")
    entry.Count = shown if depth < 2 else -shown
    return int(entry.Count)
