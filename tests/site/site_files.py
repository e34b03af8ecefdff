"""Read the pages of the built site."""

from functools import cache

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
