"""Something to link to: every theorem, every display equation and every derivation.

A theorem has its anchor by name already (`theorem_boxes`) and gets the sign that headings have.
An equation gets the anchor `eq-3`, its place among those of the page, and the same sign.
"""

from docutils import nodes
from sphinx.transforms import SphinxTransform


class Permalinks(SphinxTransform):
    default_priority = 875  # after the theorem boxes

    def apply(self):
        for quote in self.document.findall(nodes.block_quote):
            if "theorem-box" in quote["classes"]:
                title = next(quote.findall(nodes.strong))
                place = title.parent.index(title) + 1
                title.parent.insert(place, permalink(quote["ids"][0], "Link to this theorem"))
        for place, equation in enumerate(list(self.document.findall(nodes.math_block)), 1):
            anchor = f"eq-{place}"
            box = nodes.container(ids=[anchor], classes=["equation"])
            equation.replace_self(box)
            box += [equation, nodes.inline("", "", permalink(anchor, "Link to this equation"))]
        for paragraph in list(self.document.findall(nodes.paragraph)):
            if any(isinstance(child, nodes.container) for child in paragraph.children):
                paragraph.replace_self(list(split(paragraph)))


def split(paragraph):
    """The paragraph before, between and after its equations: HTML allows no box within one."""
    rest = []
    for child in [*paragraph.children, None]:
        if child is not None and not isinstance(child, nodes.container):
            rest.append(child)
            continue
        if "".join(part.astext() for part in rest).strip():
            yield nodes.paragraph("", "", *rest, classes=paragraph["classes"])
        rest = []
        if child is not None:
            yield child


def permalink(anchor, words):
    return nodes.reference(
        "", "#", refuri=f"#{anchor}", internal=True, reftitle=words, classes=["headerlink"]
    )


def setup(app):
    app.add_transform(Permalinks)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
