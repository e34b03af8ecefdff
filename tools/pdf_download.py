"""Offer the book as a PDF, while the one that `make pdf` made says what the book says.

The directive `{pdf-download}` becomes a sentence with the link, and every page gets an
entry in the theme's menu of downloads. Without a PDF, or with one that is older than the
book, nothing is there.
"""

import shutil
from pathlib import Path

from addresses import PDF as NAME
from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.util.osutil import relative_uri

#: What the PDF is made from.
SOURCES = ("_*.yml", "notebooks/*.ipynb", "book/**/*.*", "tools/print_pdf.*")


def pdf_of(root):
    return Path(root) / "_build" / "pdf" / NAME


def is_current(root):
    """Whether there is a PDF that no file of the book is younger than."""
    pdf = pdf_of(root)
    sources = (path for pattern in SOURCES for path in Path(root).glob(pattern))
    return pdf.is_file() and all(
        path.stat().st_mtime <= pdf.stat().st_mtime for path in sources if path.suffix != ".pyc"
    )


def is_offered(app):
    return app.builder.name == "html" and is_current(app.srcdir)


class Offer(nodes.General, nodes.Element):
    """The place of the sentence."""


class PdfDownload(Directive):
    def run(self):
        return [Offer()]


def fill_in(app, doctree, docname):
    for place in list(doctree.findall(Offer)):
        sentence = [offer(app, docname)] if is_offered(app) else []
        place.parent.replace(place, sentence)


def offer(app, docname):
    megabytes = pdf_of(app.srcdir).stat().st_size / 1e6
    address = relative_uri(app.builder.get_target_uri(docname), NAME)
    link = nodes.reference("", "the book as a PDF", internal=True, refuri=address)
    size = f" ({megabytes:.1f} MB), with its outline and its links."
    return nodes.paragraph(
        "", "", nodes.strong("", "To print"), nodes.Text(", take "), link, nodes.Text(size)
    )


def add_to_menu(app, pagename, templatename, context, doctree):
    for menu in context.get("header_buttons", []) if is_offered(app) else []:
        if menu.get("label") == "download-buttons":
            menu["buttons"].append(
                {
                    "type": "link",
                    "url": context["pathto"](NAME, 1),
                    "text": "the book, .pdf",
                    "tooltip": "Download the whole book as a PDF",
                    "icon": "fas fa-book",
                    "label": "download-book-button",
                }
            )


def copy(app, error):
    if error is None and is_offered(app):
        shutil.copy(pdf_of(app.srcdir), Path(app.outdir, NAME))


def setup(app):
    app.add_node(Offer)
    app.add_directive("pdf-download", PdfDownload)
    app.connect("doctree-resolved", fill_in)
    app.connect("html-page-context", add_to_menu, priority=600)  # the theme's menu: 501
    app.connect("build-finished", copy)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
