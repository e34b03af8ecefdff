"""Read the files of the built site: pages, and their anchors and links."""

from functools import cache
from urllib.parse import urldefrag

from bs4 import BeautifulSoup

from tools.files import ROOT

SITE = ROOT / "_build" / "html"
CHAPTER = "notebooks/03-softmax-ignores-the-key-bias.html"


@cache
def soup(page):
    return BeautifulSoup(page.read_text(encoding="utf-8"), "html.parser")


@cache
def anchors(page):
    return {element["id"] for element in soup(page).find_all(id=True)}


def links_of(page):
    """Yield (address, anchor) for each link of a page that stays on the site."""
    for link in soup(page).find_all("a", href=True):
        if ":" not in link["href"]:
            yield urldefrag(link["href"])
