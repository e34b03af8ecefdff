"""Show what a symbol means when the pointer rests on it: `$b_K$` shows “key bias”."""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform

MEANINGS = {
    f"{letter}_{map}": f"{words} {what}"
    for map, words in {"Q": "query", "K": "key", "V": "value", "O": "output"}.items()
    for letter, what in {"b": "bias", "W": "weight"}.items()
}


class Hover(SphinxTransform):
    default_priority = 880

    def apply(self):
        for symbol in list(self.document.findall(nodes.math)):
            words = MEANINGS.get(plain(symbol.astext()))
            if words and not within(symbol, (nodes.row, nodes.title, nodes.reference)):
                explained = nodes.abbreviation(explanation=words, classes=["symbol"])
                symbol.replace_self(explained)
                explained += symbol


def plain(latex):
    """The LaTeX of a symbol without braces and font commands."""
    latex = re.sub(r"\\(?:mathbf|mathrm)\s*\{?\s*(\w+)\}?", r"\1", latex)
    return re.sub(r"_\{(\w+)\}", r"_\1", latex).strip()


def within(node, kinds):
    while node is not None and not isinstance(node, kinds):
        node = node.parent
    return node is not None


def setup(app):
    app.add_transform(Hover)
