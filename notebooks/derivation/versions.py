"""Check the versions of SymPy and torch, and warn about any that has not been tested.

The first cell of a notebook runs this module.  If a library is missing or too old, one sentence
says so and the notebook stops; an untried version is named, and the notebook continues.
"""

import importlib
import os
import re
import sys

#: The oldest accepted minor version, and the versions that the tests have passed on.  The oldest
#: torch is the oldest that `transformers`, a library that some chapters use, accepts.
OLDEST = {"sympy": (1, 13), "torch": (2, 6)}
TRIED = {"sympy": {(1, 13), (1, 14)}, "torch": {(2, 13)}}
SHOWN = {"sympy": "SymPy", "torch": "torch"}
#: If this environment variable is "quiet", no untried version is named.
VARIABLE = "UNTRIED_VERSIONS"


class Unsuitable(ImportError):
    """A library is missing or too old; a notebook shows the message without a traceback."""

    def _render_traceback_(self):
        return [str(self)]


def require(name):
    """Import a library.  Raises Unsuitable if it is missing or too old; warns about an untried version."""
    oldest = ".".join(map(str, OLDEST[name]))
    cure = f"install it, as in: pip install --upgrade {name}"
    try:
        version = importlib.import_module(name).__version__
    except ModuleNotFoundError as error:
        if error.name != name:  # the library is installed but lacks a dependency
            raise
        needed = f"needs {SHOWN[name]} {oldest} or newer"
        missing = f"{SHOWN[name]} is not installed here; this book {needed}: {cure}"
        raise Unsuitable(missing) from None
    found = tuple(map(int, re.findall(r"\d+", version)[:2]))
    if found < OLDEST[name]:
        needed = f"is too old for this book, which needs {oldest} or newer"
        raise Unsuitable(f"{SHOWN[name]} {version} {needed}: {cure}")
    if found not in TRIED[name] and os.environ.get(VARIABLE) != "quiet":
        tried = " and ".join(".".join(map(str, one)) for one in sorted(TRIED[name]))
        print(
            f"This book has been tested with {SHOWN[name]} {tried}, and not with the {version} "
            "that is here. It continues; if a result differs, this may be why.",
            file=sys.stderr,
        )
