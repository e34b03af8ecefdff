"""The record of deliberate mistakes, drawn from its file when the book is built.

    ```{mutants-record} records/mutants.json notebooks
    What stands here as long as there is no record.
    ```

The arguments are the file and a part of it.  Every number comes from the file; what is no record
stops the build with a sentence (`tests/mutants/record.py`, where its form is described).
"""

import sys
from functools import partial
from pathlib import Path

from record_page import RecordPart, escaped, table

sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))

from mutants.record import (  # noqa: E402
    KILLED,
    PARTS,
    SURVIVED,
    TIMED_OUT,
    RecordError,
    rate,
    read,
    summed,
    totals,
)

HEAD = ["mistake", "made", "noticed", "by its time", "not"]
PLACES = {"notebooks": "notebook", "checker": "module"}


class MutantsRecord(RecordPart):
    """A part of the record of deliberate mistakes."""

    wrong = RecordError
    parts = {part: partial(lambda part, record: shown(record, part), part) for part in PARTS}

    def read(self, path):
        return read(path)


def shown(record, part):
    """The totals of a part, its table, and what was not noticed; nothing where it is not there."""
    if part not in record["parts"]:
        return
    there = record["parts"][part]
    places, kinds = there["places"], totals(there["places"])
    total = summed(kinds.values())
    possible = sum(entry["possible"] for entry in places.values())
    yield (
        f"Made were {sum(total.values()):,} of {possible:,} possible mistakes, in {len(places)} "
        f"{PLACES[part]}s, drawn with seed {there['seed']} and last on {record['taken']}. "
        f"**{percent(rate(total))} were noticed**, {total[SURVIVED]} were not."
    )
    rows = [[kind, *counts(fates)] for kind, fates in kinds.items()]
    yield table(HEAD, [*rows, ["**all**", *counts(total)]])
    for name, entry in places.items():
        for one in entry["survivors"]:
            yield survivor(part, name, one)


def counts(fates):
    """What stands in a row: those that ran out of time are noticed too, and shown apart."""
    noticed = fates[KILLED] + fates[TIMED_OUT]
    return [sum(fates.values()), noticed, fates[TIMED_OUT] or "", fates[SURVIVED] or ""]


def percent(share):
    """A share, never rounded up to all of them."""
    return f"{int(1000 * share) / 10:g} %"


def survivor(part, name, one):
    """A mistake that was not noticed: where, what, and why it makes no difference."""
    link = f"[{name}](../notebooks/{name}.ipynb)" if part == "notebooks" else f"`{name}`"
    where = f"{link}, {escaped(one['piece'])}, line {one['line']}: {one['kind']}."
    change = f"```diff\n- {one['before']}\n+ {one['after']}\n```"
    return f"{where}\n\n{change}\n\n{one['why'] or '**No reason is given.**'}"


def setup(app):
    app.add_directive("mutants-record", MutantsRecord)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
