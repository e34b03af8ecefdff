"""What a symbol means, where the pointer rests on it.

What means the same in the whole book stands below.  A page may have a table under `## Notation`
whose first column says more symbols in words: `scale $\\tau$, usually $1/\\sqrt k$`.  Wherever such a
symbol stands alone in the text of that page, it carries those words.
"""

import re
from html.entities import html5

from docutils import nodes
from sphinx.transforms import SphinxTransform

EVERYWHERE = {
    f"{letter}_{map}": f"{words} {what}"
    for map, words in {"Q": "query", "K": "key", "V": "value", "O": "output"}.items()
    for letter, what in {"b": "bias", "W": "weight"}.items()
}
COMMAND = re.compile(r"\\([a-zA-Z]+)\s*")


class Hover(SphinxTransform):
    default_priority = 880

    def apply(self):
        meanings = dict(EVERYWHERE)
        for row in notation_rows(self.document):
            meanings |= read_row(row)
        for symbol in list(self.document.findall(nodes.math)):
            words = meanings.get(plain(symbol.astext()))
            if words and not within(symbol, (nodes.row, nodes.title, nodes.reference)):
                explained = nodes.abbreviation(explanation=words, classes=["symbol"])
                symbol.replace_self(explained)
                explained += symbol


def notation_rows(document):
    """The rows of the tables in the section called Notation."""
    for section in document.findall(nodes.section):
        if section[0].astext() == "Notation":
            for body in section.findall(nodes.tbody):
                yield from body.children


def read_row(row):
    """{symbol: words} of one row; nothing where a formula cannot be said in plain letters."""
    first = row[0]
    words = "".join(
        plain(part.astext()) if isinstance(part, nodes.math) else part.astext()
        for part in first.findall(lambda n: isinstance(n, nodes.math | nodes.Text))
        if not isinstance(part.parent, nodes.math)
    ).strip()
    if not words or re.search(r"[\\{}^$]", words):
        return {}
    symbols = [
        s.strip() for math in first.findall(nodes.math) for s in plain(math.astext()).split(",")
    ]
    return {symbol: words for symbol in symbols if symbol and symbol != words}


def plain(latex):
    """A formula in plain letters, as far as that goes."""
    latex = re.sub(r"\\(?:mathbf|mathrm|operatorname|text)\s*\{?\s*(\w+)\}?", r"\1", latex)
    latex = latex.replace(r"\,", " ").replace(r"\;", " ").replace(r"\times", "×")
    latex = re.sub(r"_\{(\w+)\}", r"_\1", latex)
    return COMMAND.sub(letter, latex).replace(">", " > ").strip()


def letter(command):
    """The letter that a command stands for, such as λ; other commands stay as they are."""
    character = html5.get(f"{command[1].removeprefix('var')};", "")
    return character if character.isalpha() else command[0]


def within(node, kinds):
    while node is not None and not isinstance(node, kinds):
        node = node.parent
    return node is not None


def setup(app):
    app.add_transform(Hover)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
