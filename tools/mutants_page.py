"""The record of deliberate mistakes, drawn from its file when the book is built.

    ```{mutants-record} records/mutants.json notebooks
    ```

The arguments are the file and a part of it.  Every number comes from the file (its form stands in
`tests/mutants/record.py`, which writes it).
"""

import json
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

HEAD = ["mistake", "made", "noticed", "by its time", "not"]
PLACES = {"notebooks": "notebooks", "checker": "modules"}


class MutantsRecord(Directive):
    """A part of the record: its totals, a table of kinds, and what was not noticed."""

    required_arguments = 2

    def run(self):
        env = self.state.document.settings.env
        page = Path(env.doc2path(env.docname))
        path = (page.parent / self.arguments[0]).resolve()
        env.note_dependency(str(path))
        record = json.loads(path.read_text(encoding="utf-8"))
        boxes = []
        for markdown in shown(record, self.arguments[1]):
            box = nodes.container(classes=["mutants-record"])
            lines = StringList(markdown.splitlines(), source=str(page))
            self.state.nested_parse(lines, 0, box)
            boxes.append(box)
        return boxes


def shown(record, part):
    """Pieces of Markdown: the totals of a part, its table, and each mistake that was not noticed."""
    there = record["parts"][part]
    places = there["places"]
    kinds = {}
    for entry in places.values():
        for kind, fates in entry["tried"].items():
            total = kinds.setdefault(kind, dict.fromkeys(fates, 0))
            kinds[kind] = {fate: total[fate] + fates[fate] for fate in fates}
    all_ = {
        fate: sum(k[fate] for k in kinds.values()) for fate in ("killed", "timed out", "survived")
    }
    made, possible = sum(all_.values()), sum(entry["possible"] for entry in places.values())
    share = int(1000 * (made - all_["survived"]) / made) / 10  # never rounded up to all of them
    yield (
        f"Made were {made:,} of {possible:,} possible mistakes, in {len(places)} {PLACES[part]}, "
        f"drawn with seed {there['seed']} and last on {record['taken']}. "
        f"**{share:g} % were noticed**, {all_['survived']} were not."
    )
    yield table([*([kind, *counts(fates)] for kind, fates in kinds.items() if any(fates.values())),
                 ["**all**", *counts(all_)]])  # fmt: skip
    for name, entry in places.items():
        for one in entry["survivors"]:
            yield survivor(part, name, one)


def counts(fates):
    """What stands in a row: those that ran out of time are noticed too, and shown apart."""
    noticed = fates["killed"] + fates["timed out"]
    return [sum(fates.values()), noticed, fates["timed out"] or "", fates["survived"] or ""]


def table(rows):
    lines = [HEAD, ["---"] * len(HEAD), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def survivor(part, name, one):
    """A mistake that was not noticed: where, what, and why it makes no difference."""
    link = f"[{name}](../notebooks/{name}.ipynb)" if part == "notebooks" else f"`{name}`"
    where = f"{link}, `` {one['piece']} ``, line {one['line']}: {one['kind']}."
    return f"{where}\n\n```diff\n- {one['before']}\n+ {one['after']}\n```\n\n{one['why']}"


def setup(app):
    app.add_directive("mutants-record", MutantsRecord)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
