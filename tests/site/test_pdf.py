"""The PDF says what the book says, and nothing in it is cut off, dead or unnamed.

What needs Chromium or the PDF is skipped where they are not, and fails with
REQUIRE_BROWSER=1. `make pdf` makes the PDF; one that is older than the book counts as none.
"""

import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml
from bs4 import BeautifulSoup
from pdf_download import NAME, is_current, pdf_of
from pikepdf import Dictionary, Name, Pdf
from print_pdf import Browser, CannotPrint, find_chromium, print_book
from pypdf import PdfReader
from register import read_register
from site_files import SITE

ROOT = Path(__file__).resolve().parents[2]
BOOK_CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
ONE_PAGE = ROOT / "_build" / "singlehtml" / "index.html"


def lacking(reason):
    """Skip, or fail where everything must be there."""
    (pytest.fail if os.environ.get("REQUIRE_BROWSER") == "1" else pytest.skip)(reason)


# ---- the PDF ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pdf():
    if not is_current(ROOT):
        lacking("there is no PDF of the book as it is now: run `make pdf`")
    with Pdf.open(pdf_of(ROOT)) as document:
        yield document


@pytest.fixture(scope="module")
def text(pdf):
    """The words of each page, joined by single spaces."""
    pages = PdfReader(pdf_of(ROOT)).pages
    return [" ".join(page.extract_text().split()) for page in pages]


def title_of(file):
    """The title of a page of the book."""
    notebook = ROOT / f"{file}.ipynb"
    if not notebook.is_file():
        source = (ROOT / f"{file}.md").read_text(encoding="utf-8")
    else:
        cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
        source = "\n".join("".join(cell["source"]) for cell in cells)
    return plain(re.search("^# (.+)$", source, re.MULTILINE)[1])


def entries(outline):
    """(title, what stands below it) of each entry of an outline."""
    entry = outline.get("/First")
    while entry is not None:
        yield str(entry.Title), entry
        entry = entry.get("/Next")


def everything_in(outline):
    for title, entry in entries(outline):
        yield title
        yield from everything_in(entry)


def plain(words):
    """Words as the notebooks write them: the book has typographic apostrophes."""
    return words.replace("’", "'").replace("$", "").replace("`", "")


def elements(pdf, name):
    return [
        item
        for item in pdf.objects
        if isinstance(item, Dictionary) and item.get("/S") == name and "/P" in item
    ]


def test_it_is_tagged_and_says_what_it_is(pdf):
    assert pdf.Root.MarkInfo.Marked and "/StructTreeRoot" in pdf.Root
    assert str(pdf.Root.Lang) == "en"
    assert str(pdf.docinfo["/Title"]) == BOOK_CONFIG["title"]
    assert str(pdf.docinfo["/Author"]) == BOOK_CONFIG["author"]


def test_its_outline_has_the_parts_and_chapters_of_the_book(pdf):
    expected = {
        part["caption"]: [
            title_of(page["file"])
            for chapter in part["chapters"]
            for page in (chapter, *chapter.get("sections", ()))
        ]
        for part in TOC["parts"]
    }
    found = {
        title: [plain(name) for name, _ in entries(part)]
        for title, part in entries(pdf.Root.Outlines)
    }
    assert {"Contents", title_of(TOC["root"])} == found.keys() - expected.keys()
    assert {part: found.get(part) for part in expected} == expected


def test_every_theorem_stands_in_its_outline_and_in_its_text(pdf, text):
    titles, words = set(map(plain, everything_in(pdf.Root.Outlines))), " ".join(text)
    theorems = read_register(ROOT / "notebooks")
    assert theorems
    for theorem in theorems:
        assert plain(f"{theorem.label} · {theorem.name}") in titles
        assert words.count(f"{theorem.label} ") >= 3, f"{theorem.label}: heading, box, register"


def test_every_link_leads_somewhere(pdf):
    anchors, pages = pdf.Root.Dests.keys(), {page.objgen for page in pdf.pages}
    internal = 0
    for page in pdf.pages:
        for link in page.get("/Annots", []):
            if (address := link.get("/A", {}).get("/URI")) is not None:
                assert re.match("https?://", str(address)), address
                continue
            internal += 1
            assert link.Dest in anchors, link.Dest
    assert internal > len(TOC["parts"])
    assert all(destination[0].objgen in pages for _, destination in pdf.Root.Dests.items())


def test_the_contents_name_the_pages(pdf, text):
    number = {page.objgen: i for i, page in enumerate(pdf.pages, 1)}
    contents = " ".join(text[1:4])
    for part, chapters in entries(pdf.Root.Outlines):
        for title, entry in entries(chapters) if "Contents" not in part else ():
            if part != title_of(TOC["root"]):
                assert f"{title} {number[page_of(pdf, entry).objgen]}" in contents


def page_of(pdf, entry):
    destination = entry.get("/Dest") or entry.A.D
    return (pdf.Root.Dests[destination] if isinstance(destination, Name) else destination)[0]


def test_every_picture_and_every_formula_has_words(pdf):
    formulas, figures = elements(pdf, Name.Formula), elements(pdf, Name.Figure)
    assert formulas and figures
    assert all(str(item.get("/Alt", "")).strip() for item in formulas + figures)


def test_no_page_is_empty(text):
    empty = [i for i, words in enumerate(text, 1) if len(words) < 120]
    assert [i for i in empty if i > 1] == []


# ---- the site -----------------------------------------------------------------------


def test_the_site_offers_it_only_where_it_is():
    file = SITE / NAME
    index = (SITE / "book" / "index.html").read_text(encoding="utf-8")
    assert (f"../{NAME}" in index) == file.is_file()


def test_a_pdf_that_is_older_than_the_book_is_not_offered(tmp_path):
    chapter, pdf = tmp_path / "notebooks" / "01-a-claim.ipynb", pdf_of(tmp_path)
    chapter.parent.mkdir()
    chapter.write_text("{}", encoding="utf-8")
    assert not is_current(tmp_path)
    pdf.parent.mkdir(parents=True)
    pdf.write_bytes(b"")
    assert is_current(tmp_path)
    os.utime(chapter, (pdf.stat().st_mtime + 10,) * 2)
    assert not is_current(tmp_path)


# ---- the page that is printed ---------------------------------------------------------


def test_on_one_page_every_anchor_is_one_of_a_kind():
    if not ONE_PAGE.is_file():
        lacking("the book was not built on one page: run `make pdf`")
    page = BeautifulSoup(ONE_PAGE.read_text(encoding="utf-8"), "html.parser")
    anchors = Counter(element["id"] for element in page.find_all(id=True))
    assert [anchor for anchor, count in anchors.items() if count > 1] == []
    links = {link["href"] for link in page.find_all("a", href=re.compile("^#"))}
    assert links and links <= {f"#{anchor}" for anchor in anchors}


@pytest.fixture(scope="module")
def browser():
    try:
        with Browser() as browser:
            yield browser
    except CannotPrint as reason:
        lacking(str(reason))


MATHJAX = (ROOT / "book/static" / BOOK_CONFIG["sphinx"]["config"]["mathjax_path"]).as_uri()


def page_with(folder, body):
    path = folder / "page.html"
    path.write_text(
        '<html lang="en"><meta charset="utf-8"><title>A page</title>'
        f'<script defer src="{MATHJAX}"></script>'
        f'<main style="width: 170mm">{body}</main></html>',
        encoding="utf-8",
    )
    return path


@pytest.mark.parametrize(
    "body, complaint",
    [
        ("<pre>" + "x" * 300 + "</pre>", "pre is .* px wider than its place: xxx"),
        ('<pre style="overflow: auto">' + "x" * 300 + "</pre>", "pre is .* px wider"),
        ("<table><tr>" + "<td>a_long_name</td>" * 20 + "</table>", "table is .* px wider"),
        ('<p style="margin-left: -20px">A line.</p>', "p is 20 px wider"),
        ('<p class="math">\\(' + "x+" * 200 + "x\\)</p>", "would be printed at 0.* of its size"),
        ('<p class="math">\\(\\oops\\)</p>', "is not valid TeX"),
        ('<p class="math">\\(\\frac{1}\\)</p>', "is not valid TeX"),
        ('<p class="math">x</p>', "was not typeset"),
        ('<div class="sd-tab-content" style="display: none">A tab</div>', "is closed: A tab"),
        ('<img src="nowhere.png">', "nowhere.png could not be loaded"),
        ('<img src="https://example.org/picture.png">', "picture.png could not be loaded"),
        ('<a href="#nowhere">a link</a>', "leads nowhere, #nowhere"),
        ('<div class="theorem-box" style="height: 300mm">A</div>', "is taller than a page"),
    ],
)
def test_a_page_that_would_not_print_well_is_refused(browser, tmp_path, body, complaint):
    with pytest.raises(CannotPrint, match=complaint):
        browser.open(page_with(tmp_path, body).as_uri())


def test_a_formula_that_is_a_little_too_wide_is_made_smaller(browser, tmp_path):
    formula = '<p class="math">\\[' + "x + y + " * 16 + "z\\]</p>"
    page = browser.open(page_with(tmp_path, formula).as_uri())
    assert 0.6 < float(page.locator("mjx-container").get_attribute("data-scale")) < 1


def test_what_can_be_opened_is_open(browser, tmp_path):
    body = "<details><summary>Solution</summary><p>It is true.</p></details>"
    assert browser.open(page_with(tmp_path, body).as_uri()).locator("p").is_visible()


def test_without_chromium_it_says_what_to_install(monkeypatch):
    monkeypatch.setenv("CHROMIUM", "/nowhere/chrome")
    with pytest.raises(CannotPrint, match="apt install chromium") as refused:
        find_chromium()
    assert "\n" not in str(refused.value)
    with pytest.raises(CannotPrint):
        print_book(ONE_PAGE)
