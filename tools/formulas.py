"""Typeset the formulas with KaTeX while the book is built, so that its pages need no script for them.

sphinxcontrib-katex runs KaTeX under Node.js, which comes with Playwright.  `book/static/katex/` holds
the style sheet and the fonts of the same version of KaTeX.
"""

import functools
from pathlib import Path

from docutils import nodes
from playwright._impl._driver import compute_driver_executable
from sphinx.util import logging
from sphinxcontrib import katex

#: The script of KaTeX, with which live proofs typeset a reader's derivations in the browser.
SCRIPT = Path(katex.__file__).with_name("katex.min.js")
#: The checker's \epsilon and \phi get the shapes that the text of the book uses.
MACROS = {r"\epsilon": r"\varepsilon", r"\phi": r"\varphi"}

katex.NODEJS_BINARY = compute_driver_executable()[0]
katex.KATEX_DEFAULT_OPTIONS = {"throwOnError": True, "strict": False, "macros": MACROS}
logger = logging.getLogger(__name__)


@functools.cache
def typeset(latex, display=False):
    """The HTML of a formula, with MathML for screen readers.  Raises KaTeXError for invalid LaTeX."""
    return katex.render_latex(latex.strip(), {"displayMode": display})


def visit(self, node, tag, display):
    try:
        html = typeset(node.astext(), display)
    except katex.KaTeXError as why:
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
    app.add_css_file("katex/katex.min.css")
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": False}
