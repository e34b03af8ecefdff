"""Which versions of SymPy and torch this package has been tried with, and what it says of others.

The first cell of a notebook meets this: a version that is missing or too old stops it in one
sentence; one that nobody has tried is named, and the notebook goes on.
"""

from __future__ import annotations

import importlib
import os
import re
import sys

#: The oldest minor version that is taken, and those that the tests have passed on.  Of torch, the
#: oldest is that of the library `transformers`, with which some chapters run.
OLDEST = {"sympy": (1, 13), "torch": (2, 6)}
TRIED = {"sympy": {(1, 13), (1, 14)}, "torch": {(2, 13)}}
SHOWN = {"sympy": "SymPy", "torch": "torch"}
#: Set to "quiet" where outputs are compared: what is untried is then not named.
VARIABLE = "UNTRIED_VERSIONS"


class Unsuitable(ImportError):
    """A library is missing or too old; a notebook shows the sentence, without a traceback."""

    def _render_traceback_(self):
        return [str(self)]


def require(name):
    """Import a library.  Raises Unsuitable where it is missing or too old; names what is untried."""
    oldest = ".".join(map(str, OLDEST[name]))
    cure = f"install it, as in: pip install --upgrade {name}"
    try:
        version = importlib.import_module(name).__version__
    except ModuleNotFoundError as error:
        if error.name != name:  # it is here, and lacks something itself
            raise
        needed = f"needs {SHOWN[name]} {oldest} or newer"
        raise Unsuitable(
            f"{SHOWN[name]} is not installed here; this book {needed}: {cure}"
        ) from None
    found = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if found < OLDEST[name]:
        raise Unsuitable(
            f"{SHOWN[name]} {version} is too old for this book, which needs {oldest} or newer: {cure}"
        )
    if found not in TRIED[name] and os.environ.get(VARIABLE) != "quiet":
        tried = " and ".join(".".join(map(str, one)) for one in sorted(TRIED[name]))
        print(
            f"This book has been tried with {SHOWN[name]} {tried}, and not with the {version} "
            "that is here. It goes on; if a result differs, that may be why.",
            file=sys.stderr,
        )
