"""Only _config.yml sets the public address; if it is empty, there are no links to the site."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from bs4 import BeautifulSoup
from site_files import SITE as SITE_FOLDER

from tools.addresses import PDF, PUBLISHED_BRANCH, addresses
from tools.files import ROOT, Fault
from tools.site import publishing

MADE_UP, SITE = "https://github.com/someone/a-book", "https://someone.github.io/a-book"
PAGE = "notebooks/03-softmax-ignores-the-key-bias"
GUIDE = "book/teaching/index"


def with_url(folder, url):
    """Write the book's configuration with this address into a folder; return the folder."""
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    assert 'url: ""' in config
    (folder / "_config.yml").write_text(config.replace('url: ""', f'url: "{url}"'))
    return folder


@pytest.mark.parametrize("url", [f"{MADE_UP}.git", SITE])
def test_an_address_of_another_form_is_refused_in_a_sentence(tmp_path, url):
    with pytest.raises(Fault, match="expected https://github.com/OWNER/NAME, or nothing"):
        addresses(with_url(tmp_path, url))


def test_readme_and_citation_name_the_address_if_there_is_one():
    repository, site = addresses(ROOT)
    readme, citation = ((ROOT / name).read_text() for name in ("README.md", "CITATION.cff"))
    if site:
        assert f"{site}/" in readme and f"{site}/{PDF}" in readme
        assert f'repository-code: "{repository}"' in citation and f'url: "{site}/"' in citation
    else:
        assert "github.com" not in readme + citation


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
    page, guide = (
        BeautifulSoup((html / f"{name}.html").read_text(encoding="utf-8"), "html.parser")
        for name in (PAGE, GUIDE)
    )
    colab = "https://colab.research.google.com/github/someone/a-book"
    buttons = {a["href"].partition("?")[0] for a in page.select(".bd-header-article a[href^=http]")}
    copy = f"{colab}/blob/{PUBLISHED_BRANCH}/colab/{PAGE}.ipynb"
    assert buttons == {copy, MADE_UP, f"{MADE_UP}/issues/new"}
    assert page.find("link", rel="canonical")["href"] == f"{SITE}/{PAGE}.html"
    card = page.find("meta", property="og:image")["content"]
    assert (html / card.removeprefix(f"{SITE}/")).is_file()
    copy = (html / "_sources" / f"{PAGE}.ipynb").read_text(encoding="utf-8")
    assert f"{SITE}/notebooks/04b-" in copy and "tarfile" in copy
    binder = f"https://mybinder.org/v2/gh/{'/'.join(MADE_UP.split('/')[-2:])}/HEAD?labpath="
    assert guide.select_one(f'a[href="{binder}{quote(publishing.FIRST, safe="")}"]')
    assert "HUB/hub/user-redirect/git-pull?repo=https%3A%2F%2Fgithub.com%2F" in guide.text


def test_without_an_address_the_guide_links_to_no_service():
    guide = (SITE_FOLDER / f"{GUIDE}.html").read_text(encoding="utf-8")
    assert addresses(ROOT)[0] or not re.search("mybinder|git-pull", guide)
