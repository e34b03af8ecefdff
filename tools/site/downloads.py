"""Offer files for download: the PDF, all notebooks, and the archives of the course.

The directive `{downloads}` becomes a list of links to all these files, or to those that it names,
and the theme's download menu offers the PDF on every page.  Only the notebooks are packed with
every build; `make pdf`, `make course` and `make release` make the other files.  A file that does
not exist, or that is older than the book, is not offered.  “Download this notebook” always yields
the copy from `tools/colab.py`, which runs alone.
"""

import shutil
from pathlib import Path

from sphinx.util.docutils import SphinxDirective
from sphinx.util.osutil import relative_uri

from tools.addresses import PDF, site_address
from tools.colab import copies
from tools.files import write_zip

NOTEBOOKS = "notebooks.zip"
#: {file: (the folder in which it is made, what the list of links says about it)}
OFFERED = {
    PDF: ("_build/pdf", "The book as a PDF, with its outline and its links"),
    NOTEBOOKS: ("", "All chapters and exercises as notebooks that run alone"),
    "student.zip": ("_build/course", "For a class: the book, notebooks, exercises and assignments"),
    "instructor.zip": ("_build/course", "For its teacher: also solutions, slides and a grader"),
}
#: No file is offered that is older than one of these sources.
SOURCES = ("_*.yml", "notebooks/*.ipynb", "book/**/*.*", "tools/site/*.*")


def made(root, name):
    return Path(root, OFFERED[name][0], name)


def is_current(root, name=PDF):
    """Whether the file exists and is no older than its sources."""
    file = made(root, name)
    sources = [path for pattern in SOURCES for path in Path(root).glob(pattern)]
    return file.is_file() and max(s.stat().st_mtime for s in sources) <= file.stat().st_mtime


def offered(app):
    """The names of the files that the site offers."""
    there = (name for name in OFFERED if name == NOTEBOOKS or is_current(app.srcdir, name))
    return list(there) if app.builder.name == "html" else []


class Downloads(SphinxDirective):
    optional_arguments = len(OFFERED)

    def run(self):
        here = self.env.app.builder.get_target_uri(self.env.docname)
        items = (
            f'<li><a href="{relative_uri(here, name)}">{name}</a>: {OFFERED[name][1]}</li>'
            for name in offered(self.env.app)
            if name in (self.arguments or OFFERED)
        )
        return self.parse_text_to_nodes(f'<ul class="downloads">{"".join(items)}</ul>')


def fill_menu(app, pagename, templatename, context, doctree):
    pdf = {
        "type": "link",
        "url": context["pathto"](PDF, 1),
        "text": "the book, .pdf",
        "tooltip": "Download the whole book as a PDF",
        "icon": "fas fa-book",
        "label": "download-book-button",
    }
    for menu in context.get("header_buttons", []):
        if menu.get("label") == "download-buttons":
            for button in menu["buttons"]:
                if button["text"] == ".ipynb":
                    button |= {
                        "text": "notebook",
                        "tooltip": "Download this notebook, to run alone",
                    }
            menu["buttons"] += [pdf] if PDF in offered(app) else []


def copy(app, failed):
    for name in [] if failed else offered(app):
        if name != NOTEBOOKS:
            shutil.copy(made(app.srcdir, name), Path(app.outdir, name))
            continue
        notebooks = copies(site_address(Path(app.srcdir)))
        write_zip(Path(app.outdir, name), "notebooks", notebooks)
        for notebook in Path(app.outdir, "_sources", "notebooks").glob("*.ipynb"):
            notebook.write_bytes(notebooks[notebook.name])


def setup(app):
    app.add_directive("downloads", Downloads)
    app.connect("html-page-context", fill_menu, priority=600)  # the theme adds its menu at 501
    app.connect("build-finished", copy)
