"""The record of deliberate mistakes, drawn from its file when the book is built.

    ```{mutants-record} notebooks
    ```

The argument is a part of `book/records/mutants.json`, which `tests/mutants/run.py` writes; why a
mistake may go unnoticed stands in `tests/mutants/equivalent.yml`.
"""

import json
from collections import Counter
from functools import cache
from pathlib import Path

import yaml
from register import BookDirective

ROOT = Path(__file__).resolve().parent.parent
RECORD = ROOT / "book" / "records" / "mutants.json"
REASONS = ROOT / "tests" / "mutants" / "equivalent.yml"
KEY = ("piece", "before", "after")  # of a survivor, and of the reason why it may survive


class MutantsRecord(BookDirective):
    """A part of the record: its totals, a table of kinds, and what was not noticed."""

    required_arguments = 1

    def written(self):
        there = json.loads(RECORD.read_text(encoding="utf-8"))[self.arguments[0]]
        return [self.parse("\n".join(shown(self.arguments[0], there)), "mutants-record")]


@cache
def reasons():
    """{part: {place: its entries in equivalent.yml}}"""
    return yaml.safe_load(REASONS.read_text(encoding="utf-8"))


def reason(part, survivor):
    """Why a mistake makes no difference, or None where nobody has said so."""
    for entry in reasons()[part].get(survivor["place"], ()):
        if all(entry[name] == survivor[name] for name in KEY):
            return entry["why"]
    return None


def shown(part, there):
    """A part of the record, line by line, as Markdown."""
    made = sum(there["made"].values())
    survived = Counter(one["kind"] for one in there["survivors"])
    share = int(1000 * (1 - survived.total() / made)) / 10  # never rounded up to all of them
    yield f"Made were {made:,} of {there['possible']:,} possible mistakes, in {there['places']} files,"
    yield f"drawn with seed {there['seed']} on {there['taken']}."
    yield f"**{share:g} % were noticed**, {survived.total()} were not. {there.get('note', '')}\n"
    yield "| mistake | made | noticed | not |\n| --- | --- | --- | --- |"
    for kind, count in there["made"].items():
        yield f"| {kind} | {count} | {count - survived[kind]} | {survived[kind] or ''} |"
    for one in there["survivors"]:
        name = one["place"]
        link = f"[{name}](../notebooks/{name}.ipynb)" if part == "notebooks" else f"`{name}`"
        yield f"\n{link}, `` {one['piece']} ``, line {one['line']}: {one['kind']}.\n"
        yield f"```diff\n- {one['before']}\n+ {one['after']}\n```\n\n{reason(part, one)}"


def setup(app):
    app.add_directive("mutants-record", MutantsRecord)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
