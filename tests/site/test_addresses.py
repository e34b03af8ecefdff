"""Only _config.yml sets the public address; if it is empty, there are no links to the site."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from browser import soup

from tools.addresses import PUBLISHED_BRANCH, addresses
from tools.files import ROOT, Fault

MADE_UP, SITE = "https://github.com/someone/a-book", "https://someone.github.io/a-book"
PAGE = "notebooks/03-softmax-ignores-the-key-bias"
GUIDE = "book/teaching/index"
COLAB = f"https://colab.research.google.com/github/someone/a-book/blob/{PUBLISHED_BRANCH}/colab"


def with_url(folder, url):
    """Write the book's configuration with this address into a folder; return the folder."""
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    (folder / "_config.yml").write_text(config.replace('url: ""', f'url: "{url}"'))
    return folder


@pytest.mark.parametrize("url", [f"{MADE_UP}.git", SITE])
def test_an_address_of_another_form_is_refused_in_a_sentence(tmp_path, url):
    with pytest.raises(Fault, match="expected https://github.com/OWNER/NAME, or nothing"):
        addresses(with_url(tmp_path, url))


@pytest.mark.parametrize("name", ["README.md", "CITATION.cff"])
def test_an_address_if_there_is_one_is_named_and_otherwise_none(name):
    text, (_, site) = (ROOT / name).read_text(encoding="utf-8"), addresses(ROOT)
    assert f"{site}/" in text if site else "github.com" not in text


def test_with_an_address_buttons_appear_and_copies_link_to_the_site(tmp_path):
    root = with_url(tmp_path, MADE_UP)
    for name in ("book", "tools", "notebooks"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    toc = f"format: jb-book\nroot: {PAGE}\nchapters: [file: {GUIDE}]\n"
    (root / "_toc.yml").write_text(toc, encoding="utf-8")
    build = [Path(sys.executable).parent / "jupyter-book", "build", str(root), "--quiet"]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    html = root / "_build" / "html"
    page, guide = soup(html / f"{PAGE}.html"), soup(html / f"{GUIDE}.html")
    buttons = {a["href"].partition("?")[0] for a in page.select(".bd-header-article a[href^=http]")}
    assert buttons == {f"{COLAB}/{PAGE}.ipynb", MADE_UP, f"{MADE_UP}/issues/new"}
    card = page.find("meta", property="og:image")["content"]
    assert (html / card.removeprefix(f"{SITE}/")).is_file()
    copy = (html / "_sources" / f"{PAGE}.ipynb").read_text(encoding="utf-8")
    assert f"{SITE}/notebooks/04b-" in copy and "tarfile" in copy
    first = "notebooks%2F00-how-this-book-proves-things.ipynb"
    binder = f"https://mybinder.org/v2/gh/someone/a-book/HEAD?labpath={first}"
    assert guide.select_one(f'a[href="{binder}"]')
    assert "HUB/hub/user-redirect/git-pull?repo=https%3A%2F%2Fgithub.com%2F" in guide.text
