"""The built site as files: which anchors a page has, and where its links lead."""

from functools import cache
from urllib.parse import unquote, urldefrag

from bs4 import BeautifulSoup
from files import ROOT

SITE = ROOT / "_build" / "html"


@cache
def soup(page):
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(page):
    """The anchors of a page; the empty one is its top."""
    return {element["id"] for element in soup(page).find_all(id=True)} | {""}


def links_of(page):
    """(page, anchor) of each link to a page of the site."""
    for link in soup(page).find_all("a", href=True):
        address, anchor = urldefrag(link["href"])
        target = (page.parent / unquote(address)).resolve() if address else page
        if ":" not in address and target.suffix == ".html":
            yield target, unquote(anchor)


def links_out_of(page):
    """(address, words) of each link to another site."""
    for link in soup(page).find_all("a", href=True):
        if ":" in urldefrag(link["href"])[0]:
            yield link["href"], link.get_text(strip=True)
