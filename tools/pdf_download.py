"""Offer the PDF that `make pdf` made, as long as it agrees with the book.

The directive `{pdf-download}` becomes a sentence with the link, and every page gets an entry in the
theme's menu of downloads.  If there is no PDF, or if it is older than the book, both are absent.
"""

import shutil
from pathlib import Path

from addresses import PDF as NAME
from sphinx.util.docutils import SphinxDirective
from sphinx.util.osutil import relative_uri

#: The sources of the PDF.
SOURCES = ("_*.yml", "notebooks/*.ipynb", "book/**/*.*", "tools/print_pdf.*", "tools/one_page.*")


def pdf_of(root):
    return Path(root) / "_build" / "pdf" / NAME


def is_current(root):
    """Whether there is a PDF and no file of the book is newer."""
    pdf = pdf_of(root)
    sources = [path for pattern in SOURCES for path in Path(root).glob(pattern)]
    return pdf.is_file() and max(s.stat().st_mtime for s in sources) <= pdf.stat().st_mtime


def is_offered(app):
    return app.builder.name == "html" and is_current(app.srcdir)


class PdfDownload(SphinxDirective):
    def run(self):
        builder = self.env.app.builder
        if not is_offered(self.env.app):
            return []
        link = relative_uri(builder.get_target_uri(self.env.docname), NAME)
        megabytes = pdf_of(self.env.srcdir).stat().st_size / 1e6
        return self.parse_text_to_nodes(
            f'**To print**, take <a href="{link}">the book as a PDF</a> ({megabytes:.1f} MB), '
            "with its outline and its links."
        )


def add_to_menu(app, pagename, templatename, context, doctree):
    button = {
        "type": "link",
        "url": context["pathto"](NAME, 1),
        "text": "the book, .pdf",
        "tooltip": "Download the whole book as a PDF",
        "icon": "fas fa-book",
        "label": "download-book-button",
    }
    for menu in context.get("header_buttons", []) if is_offered(app) else []:
        if menu.get("label") == "download-buttons":
            menu["buttons"].append(button)


def copy(app, error):
    if error is None and is_offered(app):
        shutil.copy(pdf_of(app.srcdir), Path(app.outdir, NAME))


def setup(app):
    app.add_directive("pdf-download", PdfDownload)
    app.connect("html-page-context", add_to_menu, priority=600)  # after the theme's menu, at 501
    app.connect("build-finished", copy)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
