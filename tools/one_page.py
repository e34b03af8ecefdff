"""The whole book on one page, made to be printed: `make pdf`.

It takes the place of Sphinx's builder `singlehtml`. The parts of the table of contents
become sections with the chapters in them, which gives the outline of the PDF, and the
page is written with `one_page.html`: a title page, the contents, the text, and nothing
of the site's frame. Every chapter has its Summary and its Exercises: on one page each
anchor carries the name of its document in front, `03-softmax-ignores-the-key-bias--summary`.
"""

import json
from pathlib import Path
from posixpath import basename

from docutils import nodes
from jinja2 import Template
from sphinx import addnodes
from sphinx.builders.singlehtml import SingleFileHTMLBuilder

TEMPLATE = Path(__file__).with_suffix(".html")
DOCUMENT = "#document-"  # so the addresses begin that Sphinx gives to the documents


class OnePage(SingleFileHTMLBuilder):
    add_permalinks = False

    def get_outfilename(self, pagename):
        return str(Path(self.outdir, "index.html"))  # its links to files begin there

    def assemble_doctree(self):
        root = self.config.root_doc
        tree = self.env.get_doctree(root)
        parts = [self.part(toctree) for toctree in tree.findall(addnodes.toctree)]
        tree["docname"] = root
        text = opened(root, tree.children)
        tree.clear()
        tree += [text, *parts]
        wrappers = [toctree.parent for toctree in tree.findall(addnodes.toctree)]
        for place in [*wrappers, *tree.findall(is_sign)]:
            place.parent.remove(place)
        self.env.resolve_references(tree, root, self)
        give_each_its_own_anchors(tree)
        self.contents = [
            entry_of(part) | {"chapters": [entry_of(s) for s in part.findall(is_chapter)]}
            for part in parts
        ]
        return tree

    def part(self, toctree):
        """A section with the chapters that a table of contents names, each before its pages."""
        caption = toctree["caption"]
        section = nodes.section(ids=[nodes.make_id(caption)], classes=["part"])
        section += nodes.title("", caption)
        for docname in self.in_order(name for _, name in toctree["entries"]):
            section += opened(docname, self.env.get_doctree(docname).children)
        return section

    def in_order(self, docnames):
        """Documents and what is nested under them."""
        for name in docnames:
            yield name
            yield from self.in_order(self.env.toctree_includes.get(name, ()))

    def fix_refuris(self, tree):
        """Nothing: `give_each_its_own_anchors` does it for every link."""

    def handle_page(self, pagename, addctx, templatename=None, outfilename=None, event_arg=None):
        if pagename == self.config.root_doc:
            page = Template(TEMPLATE.read_text(encoding="utf-8"), autoescape=True).render(
                config=self.config,
                logo=basename(self.config.html_logo),
                mathjax_config=json.dumps(self.config.mathjax3_config or {}),
                contents=self.contents,
                body=addctx["body"],
            )
            Path(self.get_outfilename(pagename)).write_text(page, encoding="utf-8")


def is_chapter(node):
    return isinstance(node, nodes.section) and "chapter" in node["classes"]


def is_sign(node):
    """What a reader of the site clicks to get the address of a theorem."""
    return isinstance(node, nodes.reference) and "headerlink" in node["classes"]


def opened(docname, children):
    """The text of a document, under its name."""
    start = addnodes.start_of_file(docname=docname)
    start += children
    for child in start.children:
        if isinstance(child, nodes.section):
            child["classes"].append("chapter")
    return start


def entry_of(section):
    """What the contents say of a part or of a chapter."""
    return {"title": section.next_node(nodes.title).astext(), "anchor": section["ids"][0]}


def give_each_its_own_anchors(tree):
    """Put the name of its document in front of each anchor, and mend the links to it.

    The chapters are left alone in their part: an empty line between them would be a page.
    """
    openings = list(tree.findall(addnodes.start_of_file))
    tops = {one["docname"]: one.next_node(nodes.section)["ids"][0] for one in openings}
    for opening in openings:
        docname = opening["docname"]
        for node in opening.findall(nodes.Element):
            for key in ("ids", "backrefs"):
                if node.get(key):
                    node[key] = [anchor_of(docname, anchor) for anchor in node[key]]
            if "refid" in node:
                node["refid"] = anchor_of(docname, node["refid"])
            if str(node.get("refuri", "")).startswith("#"):
                node["refuri"] = "#" + target_of(docname, node["refuri"], tops)
        place = opening.parent.index(opening)
        opening.parent[place : place + 1] = opening.children


def target_of(docname, refuri, tops):
    """The anchor on this page of `#anchor`, `#document-name` or `#document-name#anchor`."""
    if not refuri.startswith(DOCUMENT):
        return anchor_of(docname, refuri[1:])
    docname, _, anchor = refuri.removeprefix(DOCUMENT).partition("#")
    return anchor_of(docname, anchor or tops[docname])


def anchor_of(docname, anchor):
    return f"{basename(docname)}--{anchor}"


def setup(app):
    app.add_builder(OnePage, override=True)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
