"""Print the progress of long work on the error stream, and nothing for short work.

for row in progress(rows, "biases"): ...       # "redundancy: 3 of 12 biases"
"""

from __future__ import annotations

import sys
import time

#: Seconds after which work counts as long, and seconds between two lines.
QUIET, EVERY = 20.0, 10.0


def progress(things, what):
    """Yield the items; after some seconds, print lines that say how many are done."""
    things = list(things)
    next_line = time.monotonic() + QUIET
    for done, thing in enumerate(things):
        if time.monotonic() > next_line:
            print(f"redundancy: {done} of {len(things)} {what}", file=sys.stderr, flush=True)
            next_line = time.monotonic() + EVERY
        yield thing
