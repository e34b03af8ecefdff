"""Build the book with jupyter-book, strictly and from its beginning, into _build/html.

Nothing of an earlier build is used: what Sphinx remembers of a page it remembers without the
warnings that the page gave, and a style sheet that was copied is never copied again.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import live_assets
from files import ROOT, in_a_sentence

BUILD = ROOT / "_build"
JUPYTER_BOOK = Path(sys.executable).with_name("jupyter-book")


@in_a_sentence
def main():
    for name in ("html", "jupyter_execute", ".doctrees"):
        shutil.rmtree(BUILD / name, ignore_errors=True)
    live_assets.main()
    command = [JUPYTER_BOOK, "build", ROOT, "-W", "-n", "--keep-going"]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
