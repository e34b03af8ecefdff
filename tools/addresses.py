"""The public addresses of the book, derived from `repository.url` in _config.yml alone."""

import re
from pathlib import Path

import yaml

from tools.files import Fault

#: The branch with the copies of the notebooks that Colab opens.
PUBLISHED_BRANCH = "published"
#: The file name under which the site offers the book as a PDF.
PDF = "where-did-the-bias-go.pdf"

REPOSITORY = re.compile(r"https://github\.com/([\w-]+)/([\w.-]+)(?<!\.git)(?<!\.github\.io)")


def addresses(root: Path) -> tuple[str, str]:
    """The addresses of the repository and the site, without a final slash, or empty strings."""
    url = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    found = REPOSITORY.fullmatch(url or "")
    if url and not found:
        raise Fault(
            f"_config.yml: repository.url is “{url}”; "
            "expected https://github.com/OWNER/NAME, or nothing."
        )
    return (url, "https://{}.github.io/{}".format(*found.groups())) if url else ("", "")


def site_address(root: Path) -> str:
    """The address of the published book on GitHub Pages, without a final slash, or ""."""
    return addresses(root)[1]
