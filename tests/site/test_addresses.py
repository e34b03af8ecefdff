"""The public address stands in one place, and everything follows it; empty, nothing is dead."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from addresses import PDF, PUBLISHED_BRANCH, AddressError, addresses, rewritten, site_address
from bs4 import BeautifulSoup

ROOT = Path(__file__).resolve().parents[2]
MADE_UP, SITE = "https://github.com/someone/a-book", "https://someone.github.io/a-book"
PAGE = "notebooks/03-softmax-ignores-the-key-bias"


def with_url(folder, url):
    """A folder whose configuration holds that address, with the files that repeat it."""
    folder.mkdir(exist_ok=True)
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    assert 'url: ""' in config
    (folder / "_config.yml").write_text(config.replace('url: ""', f'url: "{url}"'))
    for name in ("README.md", "CITATION.cff"):
        shutil.copy(ROOT / name, folder)
    return folder


@pytest.mark.parametrize(
    "url, site",
    [
        (MADE_UP, SITE),
        (f"{MADE_UP}.git", SITE),
        ("https://github.com/someone/someone.github.io", "https://someone.github.io"),
        ("", ""),
    ],
)
def test_the_site_follows_from_the_repository(tmp_path, url, site):
    assert site_address(with_url(tmp_path, url)) == site


def test_another_address_gets_a_sentence(tmp_path):
    with pytest.raises(AddressError, match="expected https://github.com/OWNER/NAME, or nothing"):
        addresses(with_url(tmp_path, "somewhere"))


def test_readme_and_citation_follow(tmp_path):
    texts = {path.name: text for path, text in rewritten(with_url(tmp_path, MADE_UP))}
    assert all(MADE_UP in text and SITE in text for text in texts.values())
    assert f"({SITE}/{PDF})" in texts["README.md"]
    for path, text in rewritten(ROOT):
        committed = path.read_text(encoding="utf-8")
        assert committed == text, f"{path.name}: run `python tools/addresses.py`"
        assert "github" not in committed.replace("GitHub", "")


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """One chapter built with a made-up address."""
    root = with_url(tmp_path_factory.mktemp("published"), MADE_UP)
    for name in ("book", "tools", "notebooks"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "_toc.yml").write_text(f"format: jb-book\nroot: {PAGE}\n", encoding="utf-8")
    build = [Path(sys.executable).parent / "jupyter-book", "build", str(root), "--quiet"]
    done = subprocess.run(build, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return root / "_build" / "html"


def test_buttons_appear_with_the_address(published):
    page = BeautifulSoup((published / f"{PAGE}.html").read_text(encoding="utf-8"), "html.parser")
    outside = {a["href"] for a in page.find_all("a", href=True) if a["href"].startswith("http")}
    colab = "https://colab.research.google.com/github/someone/a-book"
    assert {f"{colab}/blob/{PUBLISHED_BRANCH}/colab/{PAGE}.ipynb", MADE_UP} <= outside
    assert page.find("link", rel="canonical")["href"] == f"{SITE}/{PAGE}.html"
    card = page.find("meta", property="og:image")["content"]
    assert (published / card.removeprefix(f"{SITE}/")).is_file()


def test_the_copy_that_is_downloaded_links_to_the_site(published):
    copy = (published / "_sources" / f"{PAGE}.ipynb").read_text(encoding="utf-8")
    assert f"{SITE}/notebooks/04-" in copy
    assert "write('derivation/kernel/sums.py'" in copy
