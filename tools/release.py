"""Archive a version: pages, PDF, copies of the notebooks, course and checksums.

    make release     # builds all of it first; the archives go to _build/release

The version is that of CITATION.cff, and the changelog has to begin with it.  The archives depend on
their contents alone: equal pages produce equal bytes and equal checksums.
"""

import hashlib
import re

import yaml

from tools.addresses import site_address
from tools.colab import copies
from tools.course.archives import COURSE, SITE, files_of
from tools.files import ROOT, demand, write, write_zip

RELEASE = ROOT / "_build" / "release"
PDF = ROOT / "_build" / "pdf" / "where-did-the-bias-go.pdf"
NAME, CHECKSUMS = "where-did-the-bias-go", "SHA256SUMS"


def main():
    archive(RELEASE, version())
    print((RELEASE / CHECKSUMS).read_text(), end="")


def version():
    """The version that CITATION.cff states; raises Fault if the changelog begins with another."""
    stated = str(yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["version"])
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changes, re.M)[1]
    wrong = f"CITATION.cff says version {stated}, CHANGELOG.md begins with {newest}"
    demand(newest == stated, wrong)
    return stated


def archive(folder, number):
    """Empty the folder; write the archives and their checksums into it."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    named = f"{NAME}-{number}"
    pages = {name: path.read_bytes() for name, path in files_of(SITE)}
    write_zip(folder / f"{named}-html.zip", f"{named}-html", pages)
    write_zip(folder / f"{named}-notebooks.zip", f"{named}-notebooks", copies(site_address(ROOT)))
    write(folder / f"{named}.pdf", PDF.read_bytes())
    for name in ("student.zip", "instructor.zip"):
        write(folder / f"{named}-{name}", (COURSE / name).read_bytes())
    digest = lambda path: hashlib.sha256(path.read_bytes()).hexdigest()
    lines = [f"{digest(path)}  {path.name}\n" for path in sorted(folder.iterdir())]
    write(folder / CHECKSUMS, "".join(lines))
