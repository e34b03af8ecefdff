"""Join all pages of the site into one page, from which the book is printed.

Each page belongs to the part of `_toc.yml` that names it; the parts form the outline of the PDF.
`one_page.html` has the title page and the contents.  Since anchors such as `summary` occur in every
chapter, each anchor begins with the name of its page:
`03-softmax-ignores-the-key-bias--summary`.
"""

from pathlib import Path
from posixpath import basename, dirname, join, normpath
from urllib.parse import unquote, urldefrag

import yaml
from bs4 import BeautifulSoup
from docutils.nodes import make_id
from jinja2 import Template

from tools.files import ROOT

TEMPLATE = Path(__file__).with_suffix(".html")
#: Elements that only readers of the site need.
ON_SCREEN = "a.headerlink, script, .toctree-wrapper, .downloads, .course-reading, .for-later"
HEADINGS = [f"h{level}" for level in range(1, 7)]


def one_page(site):
    """The HTML of the book on one page, to be saved beside the folder ``site``."""
    config, toc = (
        yaml.safe_load((ROOT / name).read_text()) for name in ("_config.yml", "_toc.yml")
    )
    pages = {
        name: BeautifulSoup((site / f"{name}.html").read_text(encoding="utf-8"), "html.parser")
        for name in [toc["root"], *in_order(toc["parts"])]
    }
    tops = {name: anchor_of(name, page.article.section["id"]) for name, page in pages.items()}
    texts = {name: text_of(name, page, tops, site.name) for name, page in pages.items()}
    for text in list(texts.values())[1:]:  # one level deeper, below the parts' headings
        for heading in text.find_all(HEADINGS):
            heading.name = f"h{int(heading.name[1]) + 1}"
    parts = [
        {
            "title": part["caption"],
            "anchor": make_id(part["caption"]),
            "chapters": [texts[name] for name in in_order([part])],
        }
        for part in toc["parts"]
    ]
    template = Template(TEMPLATE.read_text(encoding="utf-8"), autoescape=True)
    opening = texts[toc["root"]]
    return template.render(config=config, site=site.name, opening=opening, parts=parts)


def in_order(entries):
    """Yield the names of pages in a table of contents, each before the pages nested under it."""
    for entry in entries:
        yield from [entry["file"]] if "file" in entry else []
        yield from in_order(entry.get("chapters", entry.get("sections", ())))


def anchor_of(name, anchor):
    return f"{basename(name)}--{anchor}"


def text_of(name, page, tops, site):
    """The text of a page, with its anchors, links and pictures adapted to the single page.

    ``tops`` is {page: the anchor at its beginning}; ``site`` is the folder with the pictures.
    """
    text = page.article.section
    for element in text.select(ON_SCREEN):
        element.decompose()
    text["class"] = ["chapter"]
    for element in [text, *text.select("[id]:not(svg *)")]:
        element["id"] = anchor_of(name, element["id"])
    for link in text.find_all("a", href=True):
        address, anchor = urldefrag(link["href"])
        place = normpath(join(dirname(name), unquote(address))).removesuffix(".html")
        to = place if address else name
        if to in tops:
            link["href"] = "#" + (anchor_of(to, anchor) if anchor else tops[to])
        elif ":" not in address:
            link.unwrap()  # the link leads to a picture on the site
    for picture in text.find_all("img"):
        picture["src"] = normpath(join(site, dirname(name), picture["src"]))
    return text
