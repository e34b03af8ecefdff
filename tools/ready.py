"""Can this checkout be tested and built?  `make` asks before it does either.

What cannot be written or read is named here, in a sentence each, and not by whichever program
stumbles over it.
"""

import os
import sys
from pathlib import Path

from files import Fault, notebook_text

ROOT = Path(__file__).resolve().parent.parent


def main(root=ROOT):
    said = [*not_writable(root), *not_readable(root)]
    for sentence in said:
        print(sentence, file=sys.stderr)
    return int(bool(said))


def not_writable(root):
    """The folders that `make` writes into and cannot."""
    for folder in (root, root / ".venv", root / "_build"):
        if folder.exists() and not os.access(folder, os.W_OK):
            yield (
                f"{folder} cannot be written, and `make` keeps its work there: "
                "copy the checkout to where you can write, or make it writable."
            )
            return  # the folders inside it are no news


def not_readable(root):
    """The files among the notebooks that are none."""
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        try:
            notebook_text(path)
        except Fault as fault:
            yield str(fault)


if __name__ == "__main__":
    sys.exit(main())
