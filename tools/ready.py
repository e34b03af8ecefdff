"""Can this checkout be tested and built?  `make` asks before it does either.

What cannot be written or read is named here, in a sentence, and not by whichever program stumbles
over it.
"""

import os
import sys

from files import ROOT, Fault, in_a_sentence, notebook_text


@in_a_sentence
def main(root=ROOT):
    for folder in (root, root / ".venv", root / "_build"):
        if folder.exists() and not os.access(folder, os.W_OK):
            raise Fault(
                f"{folder} cannot be written, and `make` keeps its work there: "
                "copy the checkout to where you can write, or make it writable."
            )
    for path in sorted((root / "notebooks").glob("*.ipynb")):
        notebook_text(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
