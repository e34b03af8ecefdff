"""Give a theorem that is written as a plain block quote a frame and an anchor.

    > **Theorem 3.2 (The key bias cancels).** For every number of queries ...

reads well on GitHub and in Colab, where it is a quotation. In the book it becomes a box,
and its name becomes the anchor `the-key-bias-cancels`: links such as
`03-softmax-ignores-the-key-bias.ipynb#the-key-bias-cancels` are checked by the build.
The cell that prints `PASS  Theorem 3.2 (The key bias cancels)` gets the anchor
`the-key-bias-cancels-check`.
"""

from docutils import nodes
from register import BOX_TITLE, slugify
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)


class TheoremBoxes(SphinxTransform):
    default_priority = 870  # MyST resolves links inside a page at 879

    def apply(self):
        anchors = {}
        for quote in self.document.findall(nodes.block_quote):
            title = opening(quote)
            found = title and BOX_TITLE.fullmatch(title.astext())
            if not found:
                continue
            slug = slugify(found["name"])
            if slug in anchors:
                logger.warning("two theorems are named %r", slug, location=quote)
            anchors[slug] = (quote.line, slug, f"{found['kind']} {found['number']}")
            quote["ids"].append(slug)
            quote["classes"] += ["theorem-box", f"theorem-box-{found['kind'].lower()}"]
            title["classes"].append("theorem-box-title")
            mark_parts(quote)
            typed = title.astext().replace("’", "'")  # undo the typographer
            self.anchor_check(typed.rstrip("."), slug, anchors)
        self.publish(anchors)

    def anchor_check(self, theorem, slug, anchors):
        """Give the cell that checks a theorem its anchor."""
        for cell in self.document.findall(is_cell):
            if f"PASS  {theorem}:" in printed(cell):
                cell["ids"].append(check_anchor(slug))
                anchors[check_anchor(slug)] = (cell.line, check_anchor(slug), f"Check of {theorem}")
                return

    def publish(self, anchors):
        """Make the anchors known to MyST: within this page, and from other pages."""
        within = getattr(self.document, "myst_slugs", {})
        self.document.myst_slugs = {**within, **anchors}
        metadata = self.env.metadata[self.env.docname]
        metadata["myst_slugs"] = {**metadata.get("myst_slugs", {}), **anchors}


def check_anchor(slug):
    """The anchor of the cell that checks a theorem."""
    return f"{slug}-check"


def is_cell(node):
    return isinstance(node, nodes.container) and "cell" in node["classes"]


def printed(cell):
    return "".join(
        block.astext()
        for output in cell.findall(nodes.container)
        if "cell_output" in output["classes"]
        for block in output.findall(nodes.literal_block)
    )


def opening(quote):
    """The bold words that open a block quote, where there are any."""
    paragraph = quote.children[0] if quote.children else None
    for child in paragraph.children if isinstance(paragraph, nodes.paragraph) else ():
        if isinstance(child, nodes.strong):
            return child
        if child.astext().strip():
            break
    return None


def mark_parts(quote):
    """Give what a theorem needs, and what its clauses rest on, classes of their own."""
    for part in quote.children:
        if part.astext().startswith("Needs:"):
            part["classes"].append("theorem-box-needs")
        elif part.astext() == "Evidence:":
            part["classes"].append("theorem-box-evidence")
            part.next_node(siblings=True, descend=False)["classes"].append("theorem-box-evidence")


def setup(app):
    app.add_transform(TheoremBoxes)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
