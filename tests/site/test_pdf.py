"""The PDF contains the whole book, with working links, and nothing in it is cut off.

Tests that need Chromium or the PDF are skipped without it, or fail if REQUIRE_BROWSER=1.
`make pdf` makes the PDF; a PDF older than the book counts as missing.
"""

import os
import re

import pytest
from browser import demand_means, soup
from pypdf import PdfReader
from test_site import faults_in

from tools.addresses import PDF
from tools.files import ROOT
from tools.site.downloads import is_current, made
from tools.site.formulas import typeset
from tools.site.print_pdf import ONE_PAGE, CannotPrint, prepared
from tools.site.register import read_register

KATEX = (ROOT / "book/static/katex/katex.min.css").as_uri()
WOULD_NOT_PRINT_WELL = {
    "pre is .* px wider than its place: xxx": "<pre>" + "x" * 300 + "</pre>",
    "pre is .* px wider than its place: yyy": '<pre style="overflow: auto">' + "y" * 300 + "</pre>",
    "p is 20 px wider": '<p style="margin-left: -20px">A line.</p>',
    "would be printed at 0.* of its size": f'<p class="math">{typeset("x+" * 200 + "x", True)}</p>',
    "picture.png could not be loaded": '<img src="https://example.org/picture.png">',
    "leads nowhere, #nowhere": '<a href="#nowhere">a link</a>',
    "is taller than a page": '<div class="theorem-box" style="height: 300mm">A</div>',
}


@pytest.fixture(scope="module")
def pdf():
    demand_means(is_current(ROOT), "there is no PDF of the book as it is now: run `make pdf`")
    return PdfReader(made(ROOT, PDF))


@pytest.fixture(scope="module")
def text(pdf):
    """The words of each page, joined by single spaces, with ligatures written as letters."""
    apart = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl"})
    return [" ".join(page.extract_text().translate(apart).split()) for page in pdf.pages]


def entries(outline):
    """All entries of an outline, at every depth, in order."""
    nested = (entries(one) if isinstance(one, list) else [one] for one in outline)
    return [entry for several in nested for entry in several]


def plain(words):
    """Words without markup, and with straight apostrophes as in the notebooks."""
    return words.replace("’", "'").replace("$", "").replace("`", "")


def test_the_pdf_is_tagged_has_links_and_no_empty_page(pdf, text):
    root = pdf.root_object
    assert root["/MarkInfo"]["/Marked"] and "/StructTreeRoot" in root and root["/Lang"] == "en"
    assert pdf.metadata.title and pdf.metadata.author
    assert [i for i, words in enumerate(text[1:], 2) if len(words) < 120] == []
    objects = [pdf.get_object(number) for number in pdf.xref_objStm]
    pictures = [o for o in objects if isinstance(o, dict) and o.get("/S") == "/Figure"]
    assert pictures and all(o.get("/Alt", "").strip() for o in pictures if "/P" in o)
    links = [link.get_object() for page in pdf.pages for link in page.get("/Annots", [])]
    assert len([link for link in links if "/Dest" in link]) > 100
    assert not list(faults_in(ONE_PAGE)), "anchors are unique, and links work"


def test_outline_and_contents_are_complete_and_give_the_right_pages(pdf, text):
    chapters = [entry.get_text() for entry in soup(ONE_PAGE).select("#contents li")]
    found = {entry.title: entry for entry in entries(pdf.outline)}
    assert len(chapters) > 50
    for title in chapters:
        page = pdf.get_destination_page_number(found[title]) + 1
        assert f"{title} {page}" in " ".join(text[1:4])
    titles, words = {plain(title) for title in found}, " ".join(text)
    for theorem in read_register(ROOT / "notebooks"):
        assert plain(f"{theorem.label} · {theorem.name}") in titles
        assert words.count(f"{theorem.label} ") >= 3, f"{theorem.label}: heading, box, register"


def test_a_pdf_that_is_older_than_the_book_is_not_offered(tmp_path):
    chapter, pdf = tmp_path / "notebooks" / "01-a-claim.ipynb", made(tmp_path, PDF)
    for path in (chapter, pdf):
        path.parent.mkdir(parents=True)
        path.touch()
    assert is_current(tmp_path)
    os.utime(chapter, (pdf.stat().st_mtime + 10,) * 2)
    assert not is_current(tmp_path)


def printed(browser, folder, body):
    path = folder / "page.html"
    head = f'<meta charset="utf-8"><title>A page</title><link rel="stylesheet" href="{KATEX}">'
    body = f'<html lang="en">{head}<main style="width: 170mm">{body}</main></html>'
    path.write_text(body, encoding="utf-8")
    return prepared(browser, path.as_uri())


def test_a_page_that_would_not_print_well_is_refused(browser, tmp_path):
    with pytest.raises(CannotPrint) as refused:
        printed(browser, tmp_path, "".join(WOULD_NOT_PRINT_WELL.values()))
    for fault in WOULD_NOT_PRINT_WELL:
        assert re.search(fault, str(refused.value)), fault


def test_solutions_are_unfolded_and_wide_formulas_made_smaller(browser, tmp_path):
    formula = f'<p class="math">{typeset("x + y + " * 12 + "z", True)}</p>'
    body = f"<details><summary>Solution</summary><b>It is true.</b></details>{formula}"
    page = printed(browser, tmp_path, body)
    assert page.locator("b").is_visible()
    assert 0.6 < float(page.locator(".katex").get_attribute("data-scale")) < 1
