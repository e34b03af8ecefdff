"""Where the book is published. The one place that says so is `repository.url` in _config.yml.

python tools/addresses.py      # write it into README.md and CITATION.cff
"""

import re
import sys
from pathlib import Path

import yaml
from files import in_a_sentence, write

#: The branch that holds the copies for Colab.
PUBLISHED_BRANCH = "published"
#: Where the site offers the book as one file.
PDF = "where-did-the-bias-go.pdf"

REPOSITORY = re.compile(r"https://github\.com/(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?")


class AddressError(ValueError):
    """An address that is no address of a repository on GitHub."""


def repository(root):
    """(owner, name) of the public repository; None while it is not known."""
    url = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    if not url:
        return None
    found = REPOSITORY.fullmatch(url)
    if not found:
        raise AddressError(
            f"_config.yml: repository.url is “{url}”; "
            "expected https://github.com/OWNER/NAME, or nothing."
        )
    return found["owner"], found["name"]


def repository_address(root):
    found = repository(root)
    return f"https://github.com/{found[0]}/{found[1]}" if found else ""


def site_address(root):
    """The address of the published book on GitHub Pages, without a slash; empty if unknown."""
    found = repository(root)
    if not found:
        return ""
    owner, name = found
    if name.lower() == f"{owner.lower()}.github.io":
        return f"https://{name}"
    return f"https://{owner}.github.io/{name}"


# ---- files that repeat it ---------------------------------------------------------

#: What stands between these lines is written here.
BLOCK = re.compile(
    r"(?P<first>^.*addresses: begin.*\n)(?P<body>.*?)(?P<last>^.*addresses: end.*$)", re.M | re.S
)


def readme_block(root):
    """Badges and the way to the book, in Markdown; nothing while there is no address."""
    address, site = repository_address(root), site_address(root)
    if not address:
        return ""
    badge = f"{address}/actions/workflows/book.yml"
    return (
        f"[![Tests]({badge}/badge.svg)]({badge})\n"
        f"[Read the book]({site}/) · [the PDF]({site}/{PDF})\n"
    )


def citation_block(root):
    address, site = repository_address(root), site_address(root)
    return f'repository-code: "{address}"\nurl: "{site}/"\n' if address else ""


def with_block(text, body):
    return BLOCK.sub(lambda found: found["first"] + body + found["last"], text)


def rewritten(root):
    """{path: what it has to say} for the files that repeat the address."""
    blocks = {"README.md": readme_block(root), "CITATION.cff": citation_block(root)}
    return {
        root / name: with_block((root / name).read_text(encoding="utf-8"), body)
        for name, body in blocks.items()
    }


@in_a_sentence
def main():
    for path, text in rewritten(Path(__file__).resolve().parent.parent).items():
        write(path, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
