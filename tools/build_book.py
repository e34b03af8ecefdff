"""Build the book with jupyter-book, strictly and from its beginning.

    python tools/build_book.py                # the site, into _build/html
    python tools/build_book.py singlehtml     # one page, from which the PDF is printed

Nothing of an earlier build is used: what Sphinx remembers of a page it remembers without the
warnings that the page gave, and a style sheet that was copied is never copied again.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import live_assets
from files import in_a_sentence

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "_build"
JUPYTER_BOOK = Path(sys.executable).with_name("jupyter-book")


@in_a_sentence
def main(builder="html"):
    for name in (builder, "jupyter_execute", ".doctrees"):
        shutil.rmtree(BUILD / name, ignore_errors=True)
    custom = ["--builder", "custom", "--custom-builder", builder]
    if builder == "html":
        live_assets.main()
        custom = []
    command = [JUPYTER_BOOK, "build", ROOT, *custom, "-W", "-n", "--keep-going"]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
