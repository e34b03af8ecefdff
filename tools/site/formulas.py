"""Typeset formulas with KaTeX while the book is built, so that its pages need no script for this.

KaTeX is in `book/static/katex/`; Node.js, which runs it, comes with Playwright.
"""

import functools
import json
import re
from subprocess import PIPE, Popen

from docutils import nodes
from playwright._impl._driver import compute_driver_executable
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

from tools.files import ROOT

SCRIPT = ROOT / "book" / "static" / "katex" / "katex.min.js"
#: The checker writes \epsilon and \phi, the text \varepsilon and \varphi; pages show the latter.
MACROS = {r"\epsilon": r"\varepsilon", r"\phi": r"\varphi"}
#: For Node.js, a script that answers each line, a formula with its options, with a line of JSON.
PROGRAM = """
const katex = require(process.argv[1]), lines = require("readline");
console.warn = () => {}; // on characters such as ² in words: KaTeX estimates their width
lines.createInterface({ input: process.stdin }).on("line", (line) => {
  let answer;
  try { answer = { html: katex.renderToString(...JSON.parse(line)) }; }
  catch (error) { answer = { error: error.message }; }
  console.log(JSON.stringify(answer));
});
"""
#: Signs that belong to the word or the formula before them.
SIGNS = re.compile(r"[.,;:!?)]+")
logger = logging.getLogger(__name__)


class NoFormula(ValueError):
    """KaTeX cannot read the LaTeX; the message is KaTeX's."""


@functools.cache
def katex():
    """The Node.js process that runs KaTeX; it is started only once."""
    command = [compute_driver_executable()[0], "-e", PROGRAM, str(SCRIPT)]
    return Popen(command, stdin=PIPE, stdout=PIPE, text=True, encoding="utf-8")


@functools.cache
def typeset(latex: str, display: bool = False) -> str:
    """The HTML of a formula, with MathML for screen readers.  Raises NoFormula for bad LaTeX."""
    options = {"displayMode": display, "throwOnError": True, "strict": False, "macros": MACROS}
    print(json.dumps([latex.strip(), options]), file=katex().stdin, flush=True)
    answer = json.loads(katex().stdout.readline())
    if "error" in answer:
        raise NoFormula(answer["error"])
    return answer["html"]


class PunctuationBehindFormulas(SphinxTransform):
    """A sign right behind a formula becomes its end, or a line could break between the two."""

    default_priority = 890  # after the anchors and the links, which read the text

    def apply(self):
        for formula in list(self.document.findall(nodes.math)):
            behind = formula.next_node(descend=False, siblings=True)
            if isinstance(behind, nodes.Text) and (signs := SIGNS.match(behind)):
                formula[:] = [nodes.Text(rf"{formula.astext()}\text{{{signs[0]}}}")]
                behind.parent.replace(behind, nodes.Text(behind[signs.end() :]))


def visit(self, node, tag, display):
    try:
        html = typeset(node.astext(), display)
    except NoFormula as why:
        html = ""
        logger.warning("A formula cannot be typeset: %s", why, location=node)
    self.body += [self.starttag(node, tag, "", CLASS="math"), html, f"</{tag}>"]
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer(
        "katex",
        (functools.partial(visit, tag="span", display=False), None),
        (functools.partial(visit, tag="div", display=True), None),
    )
    app.add_transform(PunctuationBehindFormulas)
    app.add_css_file("katex/katex.min.css")
