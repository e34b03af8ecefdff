"""Render the record of deliberate mistakes while the book is built.

    ```{mutants-record} notebooks
    ```

The argument names a part of `book/records/mutants.json`, which `tests/mutants/run.py` writes.
"""

import json
from collections import Counter

from tools.cells import table
from tools.files import ROOT
from tools.site.register import BookDirective

RECORD = ROOT / "book" / "records" / "mutants.json"


class MutantsRecord(BookDirective):
    """A part of the record: totals, a table of kinds, and the mistakes that no test noticed."""

    required_arguments = 1

    def written(self):
        there = json.loads(RECORD.read_text(encoding="utf-8"))[self.arguments[0]]
        return [self.parse("\n".join(shown(there)), "mutants-record")]


def shown(there):
    """Yield a part of the record as lines of Markdown."""
    made = sum(there["made"].values())
    survived = Counter(one["kind"] for one in there["survivors"])
    share = int(1000 * (1 - survived.total() / made)) / 10  # never rounded up to 100 %
    yield f"Of {there['possible']:,} possible mistakes, in {there['places']} files, the program made {made:,},"
    yield f"drawn with seed {there['seed']} on {there['taken']}."
    yield f"**{share:g} % were noticed**, {survived.total()} were not. {there.get('note', '')}\n"
    made = [(k, n, n - survived[k], survived[k] or "") for k, n in there["made"].items()]
    yield table(["mistake", "made", "noticed", "not"], made)
    for one in there["survivors"]:
        # a checker's file is no page, and a notebook may since have been merged into another
        page = f"notebooks/{one['place']}.ipynb"
        link = f"[{one['place']}](../{page})" if (ROOT / page).exists() else f"`{one['place']}`"
        yield f"\n{link}, `` {one['piece']} ``: {one['kind']}.\n"
        yield f"```diff\n- {one['before']}\n+ {one['after']}\n```\n\n{one['why']}"


def setup(app):
    app.add_directive("mutants-record", MutantsRecord)
