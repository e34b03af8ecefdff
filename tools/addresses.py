"""Where the book is published. The one place that says so is `repository.url` in _config.yml."""

import re

import yaml
from files import Fault

#: The branch that holds the copies for Colab.
PUBLISHED_BRANCH = "published"
#: Where the site offers the book as one file.
PDF = "where-did-the-bias-go.pdf"

REPOSITORY = re.compile(r"https://github\.com/([\w-]+)/([\w.-]+)(?<!\.git)(?<!\.github\.io)")


def addresses(root):
    """The public addresses of the repository and, without a slash, of the site; empty if unknown."""
    url = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    found = REPOSITORY.fullmatch(url or "")
    if url and not found:
        raise Fault(
            f"_config.yml: repository.url is “{url}”; "
            "expected https://github.com/OWNER/NAME, or nothing."
        )
    return (url, "https://{}.github.io/{}".format(*found.groups())) if url else ("", "")


def site_address(root):
    """The address of the published book on GitHub Pages, without a slash; empty if unknown."""
    return addresses(root)[1]
