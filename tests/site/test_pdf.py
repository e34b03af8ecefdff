"""The PDF says what the book says, and nothing in it is cut off, dead or unnamed.

What needs Chromium or the PDF is skipped where they are not, and fails with
REQUIRE_BROWSER=1. `make pdf` makes the PDF; one that is older than the book counts as none.
"""

import os
import re

import pytest
import yaml
from browser import demand_means
from files import ROOT
from pdf_download import NAME, is_current, pdf_of
from print_pdf import CannotPrint, find_chromium, prepared
from pypdf import PdfReader
from register import read_register
from site_files import SITE, soup

CONFIG = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
ONE_PAGE = ROOT / "_build" / "one-page.html"


@pytest.fixture(scope="module")
def pdf():
    demand_means(is_current(ROOT), "there is no PDF of the book as it is now: run `make pdf`")
    return PdfReader(pdf_of(ROOT))


@pytest.fixture(scope="module")
def text(pdf):
    """The words of each page, joined by single spaces."""
    return [" ".join(page.extract_text().split()) for page in pdf.pages]


def outline(entries, depth=0):
    """(depth, title, entry) of each entry of an outline, in order."""
    for entry in entries:
        if isinstance(entry, list):
            yield from outline(entry, depth + 1)
        else:
            yield depth, entry.title, entry


def plain(words):
    """Words as the notebooks write them: the book has typographic apostrophes."""
    return words.replace("’", "'").replace("$", "").replace("`", "")


def test_it_is_tagged_says_what_it_is_and_has_no_empty_page(pdf, text):
    root = pdf.root_object
    assert root["/MarkInfo"]["/Marked"] and "/StructTreeRoot" in root and root["/Lang"] == "en"
    assert (pdf.metadata.title, pdf.metadata.author) == (CONFIG["title"], CONFIG["author"])
    assert [i for i, words in enumerate(text[1:], 2) if len(words) < 120] == []


def test_its_outline_has_parts_and_chapters_and_the_contents_name_their_pages(pdf, text):
    contents, found = soup(ONE_PAGE).find(id="contents"), list(outline(pdf.outline))
    listed = [e.get_text() for e in contents.select("p, .chapter-title")]
    named = [(title, entry) for depth, title, entry in found if depth < 2]
    first = [title for title, _ in named].index(listed[0])
    assert [title for title, _ in named[first:]] == listed and len(listed) > 60
    printed, chapters = " ".join(text[1:4]), [e.get_text() for e in contents.select("li")]
    for title, entry in named[first:]:
        page = pdf.get_destination_page_number(entry) + 1
        assert title not in chapters or f"{title} {page}" in printed


def test_every_theorem_stands_in_its_outline_and_in_its_text(pdf, text):
    titles, words = {plain(title) for _, title, _ in outline(pdf.outline)}, " ".join(text)
    for theorem in read_register(ROOT / "notebooks"):
        assert plain(f"{theorem.label} · {theorem.name}") in titles
        assert words.count(f"{theorem.label} ") >= 3, f"{theorem.label}: heading, box, register"


def test_every_link_leads_somewhere(pdf):
    links = [link.get_object() for page in pdf.pages for link in page.get("/Annots", [])]
    outside = {link["/A"]["/URI"] for link in links if "/URI" in link.get("/A", {})}
    inside = {str(link["/Dest"]).removeprefix("/") for link in links if "/Dest" in link}
    anchors = pdf.named_destinations
    assert all(re.match("https?://", address) for address in outside)
    assert len(inside) > 100 and inside <= {name.removeprefix("/") for name in anchors}
    assert all(pdf.get_destination_page_number(anchor) >= 0 for anchor in anchors.values())


def test_every_picture_and_every_formula_has_words(pdf):
    objects = [pdf.get_object(number) for number in pdf.xref_objStm]
    for kind in ("/Formula", "/Figure"):
        found = [o for o in objects if isinstance(o, dict) and o.get("/S") == kind and "/P" in o]
        assert found and all(o.get("/Alt", "").strip() for o in found)


def test_the_site_offers_it_only_where_it_is():
    index = (SITE / "book" / "index.html").read_text(encoding="utf-8")
    assert (f'"../{NAME}"' in index) == (SITE / NAME).is_file()


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


def test_on_one_page_every_anchor_is_one_of_a_kind(pdf):
    page = soup(ONE_PAGE)
    anchors = [element["id"] for element in page.find_all(id=True)]
    links = {link["href"] for link in page.find_all("a", href=re.compile("^#"))}
    assert links and links <= {f"#{anchor}" for anchor in anchors}
    assert len(set(anchors)) == len(anchors)


MATHJAX = (ROOT / "book/static" / CONFIG["sphinx"]["config"]["mathjax_path"]).as_uri()


def printed(browser, folder, body):
    path = folder / "page.html"
    path.write_text(
        '<html lang="en"><meta charset="utf-8"><title>A page</title>'
        f'<script defer src="{MATHJAX}"></script>'
        f'<main style="width: 170mm">{body}</main></html>',
        encoding="utf-8",
    )
    return prepared(browser, path.as_uri())


@pytest.mark.parametrize(
    "body, complaint",
    [
        ("<pre>" + "x" * 300 + "</pre>", "pre is .* px wider than its place: xxx"),
        ('<pre style="overflow: auto">' + "x" * 300 + "</pre>", "pre is .* px wider"),
        ('<p style="margin-left: -20px">A line.</p>', "p is 20 px wider"),
        ('<p class="math">\\(' + "x+" * 200 + "x\\)</p>", "would be printed at 0.* of its size"),
        ('<p class="math">\\(\\oops\\)</p>', "is not valid TeX"),
        ('<p class="math">\\(\\frac{1}\\)</p>', "is not valid TeX"),
        ('<p class="math">x</p>', "was not typeset"),
        ('<img src="https://example.org/picture.png">', "picture.png could not be loaded"),
        ('<a href="#nowhere">a link</a>', "leads nowhere, #nowhere"),
        ('<div class="theorem-box" style="height: 300mm">A</div>', "is taller than a page"),
    ],
)
def test_a_page_that_would_not_print_well_is_refused(browser, tmp_path, body, complaint):
    with pytest.raises(CannotPrint, match=complaint):
        printed(browser, tmp_path, body)


def test_a_solution_is_opened_and_a_formula_a_little_too_wide_made_smaller(browser, tmp_path):
    formula = '<p class="math">\\[' + "x + y + " * 16 + "z\\]</p>"
    body = f"<details><summary>Solution</summary><b>It is true.</b></details>{formula}"
    page = printed(browser, tmp_path, body)
    assert page.locator("b").is_visible()
    assert 0.6 < float(page.locator("mjx-container").get_attribute("data-scale")) < 1


def test_without_chromium_it_says_what_to_install(monkeypatch):
    monkeypatch.setenv("CHROMIUM", "/nowhere/chrome")
    with pytest.raises(CannotPrint, match="apt install chromium") as refused:
        find_chromium()
    assert "\n" not in str(refused.value)
