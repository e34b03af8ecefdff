"""Give every theorem, every check and every display equation an anchor.

    > **Theorem 3.2 (The key bias cancels).** For every number of queries ...

This block quote reads well on GitHub and in Colab.  In the book it becomes a box, and its name
becomes the anchor `the-key-bias-cancels`; the build checks links such as
`03-softmax-ignores-the-key-bias.ipynb#the-key-bias-cancels`.
The cell that prints `PASS  Theorem 3.2 (The key bias cancels)` gets the anchor
`the-key-bias-cancels-check`.  The third equation of a page gets the anchor `eq-3`.  Theorems and
equations show the same link symbol as headings.
"""

from itertools import groupby

from docutils import nodes
from sphinx.transforms import SphinxTransform

from tools.site.register import BOX_TITLE

#: What the first check of a page links to.
HOW_JUDGED = "00-how-this-book-proves-things.html#how-a-number-is-judged"


class TheoremBoxes(SphinxTransform):
    default_priority = 870  # before MyST resolves links inside a page, at 879

    def apply(self):
        checks = list(checks_in(self.document))
        quotes = list(self.document.findall(nodes.block_quote))
        anchors = {anchor[1]: anchor for quote in quotes for anchor in boxed(quote, checks)}
        for cell, _ in checks[:1]:
            link = nodes.reference("", "How a number is judged", refuri=HOW_JUDGED)
            explained = nodes.paragraph("", "", link, classes=["how-judged"])
            cell.parent.insert(cell.parent.index(cell) + 1, explained)
        anchor_equations(self.document)
        # register the anchors with MyST, for links within this page and from other pages
        within = getattr(self.document, "myst_slugs", {})
        self.document.myst_slugs = {**within, **anchors}
        metadata = self.env.metadata[self.env.docname]
        metadata["myst_slugs"] = {**metadata.get("myst_slugs", {}), **anchors}


def boxed(quote, checks):
    """Make a box of a quote whose bold words name a theorem; yield its anchor and its check's."""
    title = quote.next_node(nodes.strong)
    theorem = title and title.astext().replace("’", "'").rstrip(".")  # with straight quotes
    found = theorem and BOX_TITLE.fullmatch(theorem)
    if not found:
        return
    slug = nodes.make_id(found["name"])
    yield quote.line, slug, f"{found['kind']} {found['number']}"
    quote["ids"].append(slug)
    quote["classes"].append("theorem-box")
    title["classes"].append("theorem-box-title")
    mark_parts(quote)
    title.parent.insert(title.parent.index(title) + 1, permalink(slug, "Link to this theorem"))
    for cell in [cell for cell, said in checks if f"PASS  {theorem}:" in said][:1]:
        cell["ids"].append(check_anchor(slug))
        yield cell.line, check_anchor(slug), f"Check of {theorem}"


def check_anchor(slug):
    """The anchor of the cell that checks a theorem."""
    return f"{slug}-check"


def checks_in(document):
    """Yield (cell, what it prints) for each cell of a page that prints a passed check."""
    for cell in document.findall(nodes.container):
        if "cell" in cell["classes"]:
            outputs = [c for c in cell.findall(nodes.container) if "cell_output" in c["classes"]]
            blocks = [block for output in outputs for block in output.findall(nodes.literal_block)]
            said = "".join(block.astext() for block in blocks)
            if "PASS  " in said:
                yield cell, said


def mark_parts(quote):
    """Give the hypotheses of a theorem and the evidence for its clauses their own classes."""
    for part in quote.children:
        if part.astext().startswith("Needs:"):
            part["classes"].append("theorem-box-needs")
        elif part.astext() == "Evidence:":
            part["classes"].append("theorem-box-evidence")
            part.next_node(siblings=True, descend=False)["classes"].append("theorem-box-evidence")


def anchor_equations(document):
    """Put each display equation into a box with an anchor, and move it out of its paragraph."""
    for place, equation in enumerate(list(document.findall(nodes.math_block)), 1):
        anchor = f"eq-{place}"
        box = nodes.container(ids=[anchor], classes=["equation"])
        equation.replace_self(box)
        box += [equation, nodes.inline("", "", permalink(anchor, "Link to this equation"))]
    for paragraph in list(document.findall(nodes.paragraph)):
        if any(isinstance(child, nodes.container) for child in paragraph.children):
            paragraph.replace_self(list(split(paragraph)))


def split(paragraph):
    """Split a paragraph at its equations, because HTML allows no box inside a paragraph."""
    for is_box, part in groupby(paragraph.children, lambda n: isinstance(n, nodes.container)):
        part = list(part)
        if is_box:
            yield from part
        elif "".join(child.astext() for child in part).strip():
            yield nodes.paragraph("", "", *part, classes=paragraph["classes"])


def permalink(anchor, words):
    return nodes.reference(
        "", "#", refuri=f"#{anchor}", internal=True, reftitle=words, classes=["headerlink"]
    )


def setup(app):
    app.add_transform(TheoremBoxes)
