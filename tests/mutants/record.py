"""The record of the mutants that were tried, and the reasons why some may survive.

`book/records/mutants.json` holds

    schema      the number of this form
    taken       the day of the last run
    parts       {"notebooks": part, "checker": part}

    part:       seed, how many mutants were drawn for each place at most, and places by name
                (the notebook's file without .ipynb, the module's file without .py)
    place:      source      a digest of what was tried; another one: not up to date
                possible    how many mutants there are, from which these were drawn
                seconds     of CPU that it took
                tried       {kind: {"killed": n, "timed out": n, "survived": n}}
                survivors   [survivor]
    survivor:   piece       where it is: the id of a cell, the name of a function or class
                digest      of the piece's text, before the mistake
                kind, line, before, after
                why         it is equivalent, or null

`tests/mutants/equivalent.yml` holds the reasons, by part and place: a list of piece, digest, kind,
before, after and why.  An entry whose piece has changed fits nothing any more: `stale` finds it.
"""

import datetime
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

import yaml

from .operators import KINDS

ROOT = Path(__file__).resolve().parents[2]
RECORD = ROOT / "book" / "records" / "mutants.json"
REASONS = ROOT / "tests" / "mutants" / "equivalent.yml"
SCHEMA = 1
PARTS = ("notebooks", "checker")
KILLED, TIMED_OUT, SURVIVED = FATES = ("killed", "timed out", "survived")
KEY = ("piece", "digest", "kind", "before", "after")


class RecordError(Exception):
    """A file that is no record, or no list of reasons; the message is a sentence."""


@dataclass(frozen=True)
class Tried:
    """A mutant of a piece of the book's code, and what became of it."""

    piece: str
    digest: str
    mutant: object
    fate: str


def digest(*texts):
    """A few letters that change when a text does."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:12]


def place(source, possible, seconds, tried):
    """The entry of a place, from the list of what was tried there."""
    counts = {kind: dict.fromkeys(FATES, 0) for kind in KINDS}
    for one in tried:
        counts[one.mutant.kind][one.fate] += 1
    return {
        "source": source,
        "possible": possible,
        "seconds": round(seconds, 1),
        "tried": {kind: fates for kind, fates in counts.items() if any(fates.values())},
        "survivors": [survivor(one) for one in tried if one.fate == SURVIVED],
    }


def survivor(one):
    mutant = one.mutant
    return {"piece": one.piece, "digest": one.digest, "kind": mutant.kind, "line": mutant.line,
            "before": mutant.before, "after": mutant.after, "why": None}  # fmt: skip


def up_to_date(record, part, seed, drawn, name, source):
    """Whether a place was tried already, with the same draw and the same source."""
    there = record["parts"].get(part, {})
    same = (there.get("seed"), there.get("drawn")) == (seed, drawn)
    return same and there["places"].get(name, {}).get("source") == source


def add(record, part, seed, drawn, name, entry):
    """Puts a place into the record; another seed or number begins its part anew."""
    there = record["parts"].get(part, {})
    if (there.get("seed"), there.get("drawn")) != (seed, drawn):
        there = {"seed": seed, "drawn": drawn, "places": {}}
    there["places"] = dict(sorted({**there["places"], name: entry}.items()))
    record["parts"][part] = there


def read(path=RECORD):
    """The record in a file, an empty one where there is none; RecordError in a sentence."""
    if not path.exists():
        return {"schema": SCHEMA, "taken": None, "parts": {}}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        check(record)
    except (json.JSONDecodeError, AttributeError, KeyError, TypeError):
        raise RecordError(
            f"{path.name} is no record of mutants: run `make nightly ONLY=mutants`"
        ) from None
    return record


def check(record):
    if record["schema"] != SCHEMA:
        raise RecordError(f"this record has form {record['schema']}, not {SCHEMA}: take it anew")
    for part in record["parts"].values():
        for name, entry in part["places"].items():
            survived = sum(fates[SURVIVED] for fates in entry["tried"].values())
            if survived != len(entry["survivors"]):
                raise RecordError(f"{name}: {survived} survived, {len(entry['survivors'])} listed")


def write(record, path=RECORD):
    """Writes the record with the reasons that are known, whole or not at all."""
    for part, there in record["parts"].items():
        for name, entry in there["places"].items():
            why = {key(reason): reason["why"] for reason in reasons(part, name)}
            for one in entry["survivors"]:
                one["why"] = why.get(key(one))
    record["taken"] = datetime.date.today().isoformat()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(draft, path)


def key(entry):
    return tuple(entry[name] for name in KEY)


def reasons(part=None, name=None, path=REASONS):
    """The entries of `equivalent.yml`: all of them as {part: {place: entries}}, or those of a place.

    RecordError where it is no YAML.
    """
    try:
        everything = yaml.safe_load(path.read_text(encoding="utf-8")) or {} if path.exists() else {}
    except yaml.YAMLError as wrong:
        where = getattr(wrong, "problem_mark", None)
        line = f" from line {where.line + 1} on" if where else ""
        raise RecordError(f"{path.name} is not YAML{line}.") from None
    if part is None:
        return everything
    return (everything.get(part) or {}).get(name) or []


def stale(entries, pieces, mutants_of):
    """A sentence for each entry that no longer fits; `pieces` is {name: its text}."""
    for entry in entries:
        text = pieces.get(entry["piece"])
        if text is None:
            yield f"there is no {entry['piece']} any more"
        elif digest(text) != entry["digest"]:
            yield f"{entry['piece']} has changed: is the mutant “{entry['after']}” still equivalent?"
        elif not any(
            (m.kind, m.before, m.after) == (entry["kind"], entry["before"], entry["after"])
            for m in mutants_of(text)
        ):
            yield f"{entry['piece']} has no mutant “{entry['after']}” of “{entry['before']}”"


def to_explain(record):
    """The survivors without a reason, as text for `equivalent.yml`."""
    open_ones = {
        part: {
            name: [{n: one[n] for n in KEY} | {"why": ""} for one in entry["survivors"]
                   if not one["why"]]
            for name, entry in there["places"].items()
        }
        for part, there in record["parts"].items()
    }  # fmt: skip
    kept = {part: {n: e for n, e in places.items() if e} for part, places in open_ones.items()}
    kept = {part: places for part, places in kept.items() if places}
    return yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=100) if kept else ""


def totals(places):
    """{kind: {fate: n}} over all places, in the order of the kinds."""
    total = {kind: dict.fromkeys(FATES, 0) for kind in KINDS}
    for entry in places.values():
        for kind, fates in entry["tried"].items():
            for fate, count in fates.items():
                total[kind][fate] += count
    return {kind: fates for kind, fates in total.items() if any(fates.values())}


def summed(counts):
    """{fate: n} over several counts."""
    counts = list(counts)
    return {fate: sum(count[fate] for count in counts) for fate in FATES}


def rate(fates):
    """The share of mutants that were noticed, those that ran out of time among them."""
    return 1 - fates[SURVIVED] / sum(fates.values())
