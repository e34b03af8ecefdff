"""Where the book is published. The one place that says so is `repository.url` in _config.yml.

python tools/addresses.py      # write it into README.md and CITATION.cff
"""

import re
import sys
from pathlib import Path

import yaml
from files import Fault, in_a_sentence, write

#: The branch that holds the copies for Colab.
PUBLISHED_BRANCH = "published"
#: Where the site offers the book as one file.
PDF = "where-did-the-bias-go.pdf"

REPOSITORY = re.compile(r"https://github\.com/([\w-]+)/([\w.-]+)(?<!\.git)(?<!\.github\.io)")


def addresses(root):
    """The public addresses of the repository and, without a slash, of the site; empty if unknown."""
    url = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["repository"]["url"]
    if not url:
        return "", ""
    found = REPOSITORY.fullmatch(url)
    if not found:
        raise Fault(
            f"_config.yml: repository.url is “{url}”; "
            "expected https://github.com/OWNER/NAME, or nothing."
        )
    return url, "https://{}.github.io/{}".format(*found.groups())


def site_address(root):
    """The address of the published book on GitHub Pages, without a slash; empty if unknown."""
    return addresses(root)[1]


#: What stands between these lines is written here, in files that repeat the address.
BLOCK = re.compile(r"(^.*addresses: begin.*\n).*?(^.*addresses: end.*$)", re.M | re.S)
BADGE = "{repository}/actions/workflows/book.yml"
BLOCKS = {
    "README.md": f"[![Tests]({BADGE}/badge.svg)]({BADGE})\n"
    f"[Read the book]({{site}}/) · [the PDF]({{site}}/{PDF})\n",
    "CITATION.cff": 'repository-code: "{repository}"\nurl: "{site}/"\n',
}


def rewritten(root):
    """{path: what it has to say} for the files that repeat the address, if there is one."""
    repository, site = addresses(root)
    for name, block in BLOCKS.items():
        body = block.format(repository=repository, site=site) if site else ""
        text = (root / name).read_text(encoding="utf-8")
        yield root / name, BLOCK.sub(rf"\g<1>{body}\g<2>", text)


@in_a_sentence
def main():
    for path, text in rewritten(Path(__file__).resolve().parent.parent):
        write(path, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
