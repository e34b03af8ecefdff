"""Add to the site what depends on its public address, and make its notebooks run alone.

If `repository.url` is set in _config.yml, pages link to the repository, open in Colab and state
their address, and the directive `{open-elsewhere}` links to Binder and to a JupyterHub; if it is
empty, none of this appears.  “Download this notebook” always yields the copy from
`tools/colab.py`, which runs alone.
"""

from html import escape
from pathlib import Path
from urllib.parse import quote, urlencode

from sphinx.util.docutils import SphinxDirective

from tools.addresses import PUBLISHED_BRANCH, addresses, site_address
from tools.colab import colab_copy

DESCRIPTION = (
    "Which biases change the outputs of a transformer, and which do not? "
    "Proved for every size, measured in PyTorch, and broken where the proof breaks."
)
#: The notebook that Binder and a JupyterHub open first.
FIRST = "notebooks/00-how-this-book-proves-things.ipynb"
#: ARIA has withdrawn the role that docutils gives to each entry of the bibliography, and myst-nb
#: gives all folded cells the same label, which hides their own labels from screen readers.
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
    def run(self):
        repository, _ = addresses(Path(self.env.srcdir))
        return self.parse_text_to_nodes(elsewhere(repository)) if repository else []


def elsewhere(repository):
    """Markdown with the links that open a repository's notebooks in Binder and on a JupyterHub."""
    owner, name = repository.split("/")[-2:]
    binder = f"https://mybinder.org/v2/gh/{owner}/{name}/HEAD?labpath={quote(FIRST, safe='')}"
    pulled = urlencode({"repo": repository, "urlpath": f"lab/tree/{name}/{FIRST}"})
    return (
        f"Students who install nothing can [open the notebooks in Binder]({binder}), which starts "
        "slowly and keeps no changes.\n\n"
        "On a JupyterHub with nbgitpuller, this link copies the notebooks into a student's home "
        "folder and opens the first one. Replace `HUB` by the name of your hub: "
        f"`https://HUB/hub/user-redirect/git-pull?{pulled}`"
    )


def describe(app, page, template, context, doctree):
    """Add the metadata that other sites show when a page is shared."""
    title = context.get("title", app.config.project)  # the search page has no title
    said = {"og:title": title, "og:description": DESCRIPTION, "og:type": "article"}
    if site := site_address(Path(app.srcdir)):
        said |= {
            "og:url": f"{site}/{page}.html",
            "og:image": f"{site}/_static/social-card.png",
            "og:image:alt": "A bias goes into softmax; nothing of it comes out.",
            "twitter:card": "summary_large_image",
        }
    context["metatags"] = context.get("metatags", "") + "".join(
        f'<meta property="{name}" content="{escape(text)}" />\n' for name, text in said.items()
    )


def mend(app, page, template, context, doctree):
    """Label the download button, and mend what axe, an accessibility checker, reports."""
    for group in context.get("header_buttons", []):
        for button in group.get("buttons", []):
            if button.get("text") == ".ipynb":
                button |= {"text": "notebook", "tooltip": "Download this notebook, to run alone"}
    for written, instead in MENDED.items():
        context["body"] = context.get("body", "").replace(written, instead)


def give_copies(app, failed):
    """Replace each notebook offered for download by its copy that runs alone."""
    if not failed and app.builder.name == "html":
        for source in Path(app.srcdir, "notebooks").glob("*.ipynb"):
            copy = Path(app.outdir, "_sources", "notebooks", source.name)
            if copy.is_file():  # a page of the book was made from the notebook
                copy.write_text(colab_copy(source, site_address(Path(app.srcdir))), "utf-8")


def setup(app):
    app.add_directive("open-elsewhere", OpenElsewhere)
    app.connect("config-inited", use_address, priority=100)
    app.connect("html-page-context", describe)
    app.connect("html-page-context", mend, priority=900)
    app.connect("build-finished", give_copies)
