"""Archive a version: the pages, the PDF, the notebooks that run alone, the course, checksums.

    make release                       # builds all of it first, into _build/release
    python tools/release.py FOLDER     # elsewhere, from what is built

The version is that of CITATION.cff, and CHANGELOG.md has to begin with it.  The archives depend
on their contents alone: the same pages give the same bytes, and the same checksums.
"""

import hashlib
import re
import sys
from pathlib import Path

import colab
import yaml
from addresses import site_address
from course import COURSE, SITE, files_of, write_zip
from files import ROOT, demand, in_a_sentence, write

RELEASE = ROOT / "_build" / "release"
PDF = ROOT / "_build" / "pdf" / "where-did-the-bias-go.pdf"
NAME, CHECKSUMS = "where-did-the-bias-go", "SHA256SUMS"


@in_a_sentence
def main(arguments):
    folder = Path(arguments[0]) if arguments else RELEASE
    archive(folder, version())
    print((folder / CHECKSUMS).read_text(), end="")
    return 0


def version(root=ROOT):
    """The version that CITATION.cff states; Fault where the changelog has another."""
    stated = str(yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))["version"])
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## (\S+)", changes, re.M)[1]
    demand(
        newest == stated, f"CITATION.cff says version {stated}, CHANGELOG.md begins with {newest}"
    )
    return stated


def archive(folder, number):
    """Write the archives and their checksums; Fault names what is not built yet."""
    course = [COURSE / "student.zip", COURSE / "instructor.zip"]
    for path in (SITE / "index.html", PDF, *course):
        demand(path.is_file(), f"{path.relative_to(ROOT)} is not there: run `make release`")
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    named = f"{NAME}-{number}"
    pages = {name: path.read_bytes() for name, path in files_of(SITE)}
    write_zip(folder / f"{named}-html.zip", f"{named}-html", pages)
    write_zip(folder / f"{named}-notebooks.zip", f"{named}-notebooks", copies())
    for path, to in ((PDF, f"{named}.pdf"), *((p, f"{named}-{p.name}") for p in course)):
        write(folder / to, path.read_bytes())
    digest = lambda path: hashlib.sha256(path.read_bytes()).hexdigest()
    lines = [f"{digest(path)}  {path.name}\n" for path in sorted(folder.iterdir())]
    write(folder / CHECKSUMS, "".join(lines))


def copies():
    """The notebooks that run alone."""
    site, paths = site_address(ROOT), sorted(colab.NOTEBOOKS.glob("*.ipynb"))
    return {path.name: colab.colab_copy(path, site).encode() for path in paths}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
