"""Add to the site what depends on its public address, and mend what axe finds in its pages.

If `repository.url` is set in _config.yml, pages link to the repository, open in Colab and state
their address, and the directive `{open-elsewhere}` links to Binder and to a JupyterHub; if it is
empty, none of this appears.  `book/templates/layout.html` has the metadata that other sites show
when a page is shared.
"""

from pathlib import Path
from urllib.parse import quote, urlencode

from sphinx.util.docutils import SphinxDirective

from tools.addresses import PUBLISHED_BRANCH, addresses

#: The notebook that Binder and a JupyterHub open first.
FIRST = "notebooks/00-how-this-book-proves-things.ipynb"
#: What axe, an accessibility checker, reports: ARIA has withdrawn the role that docutils gives to
#: each entry of the bibliography, and myst-nb gives all folded cells the same label, which hides
#: their own labels from screen readers.
MENDED = {
    ' role="doc-biblioentry"': ' role="listitem"',
    '<summary aria-label="Toggle hidden content">': "<summary>",
}


def use_address(app, config):
    """Set the site's address and the links to the repository and Colab, if the address is known."""
    repository, site = addresses(Path(app.srcdir))
    if repository:
        config.html_baseurl = f"{site}/"
        config.html_theme_options |= {
            "repository_url": repository,
            "repository_branch": PUBLISHED_BRANCH,
            "path_to_docs": "colab",
            "use_repository_button": True,
            "use_issues_button": True,
            "launch_buttons": {"colab_url": "https://colab.research.google.com"},
        }


class OpenElsewhere(SphinxDirective):
    """The links that open the repository's notebooks in Binder and on a JupyterHub."""

    def run(self):
        repository, _ = addresses(Path(self.env.srcdir))
        if not repository:
            return []
        owner, name = repository.split("/")[-2:]
        binder = f"https://mybinder.org/v2/gh/{owner}/{name}/HEAD?labpath={quote(FIRST, safe='')}"
        pulled = urlencode({"repo": repository, "urlpath": f"lab/tree/{name}/{FIRST}"})
        return self.parse_text_to_nodes(
            f"Students who install nothing can [open the notebooks in Binder]({binder}), which "
            "starts slowly and keeps no changes.\n\n"
            "On a JupyterHub with nbgitpuller, this link copies the notebooks into a student's "
            "home folder and opens the first one. Replace `HUB` by the name of your hub: "
            f"`https://HUB/hub/user-redirect/git-pull?{pulled}`"
        )


def mend(app, page, template, context, doctree):
    for written, instead in MENDED.items():
        context["body"] = context.get("body", "").replace(written, instead)


def setup(app):
    app.add_directive("open-elsewhere", OpenElsewhere)
    app.connect("config-inited", use_address, priority=100)
    app.connect("html-page-context", mend, priority=900)
