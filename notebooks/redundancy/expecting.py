"""What a report says that a former one did not: for CI, in sentences.

Layers are matched by their names.  A bias is lost that the former model had and this one has not,
and an answer is lost that was given; sizes may differ, as long as the share that can go does not.
"""

from __future__ import annotations

import re

from .report import ABSENT, AGREE


def differences(former, report):
    """Sentences on what was lost since a former report; both as `Audit.as_dict` gives them."""
    before, after = (_by_place(r["rows"]) for r in (former, report))
    said = {}
    for place, row in before.items():
        sentence = _lost(row, after.get(place))
        if sentence:
            said.setdefault(sentence, []).append(row["layer"])
    return [f"{sentence} ({_layers(names)})" for sentence, names in said.items()]


def _by_place(rows):
    return {(row["layer"], row["role"]): row for row in rows}


def _lost(row, now):
    """What was lost of one bias, as a sentence; None if nothing was."""
    had = row["verdict"] != ABSENT
    if now is None:
        return f"this model has no such layer, and lost its {_name(row)}" if had else None
    if had and now["verdict"] == ABSENT:
        return f"this port lost its {_name(row)}, which {_mattered(row)}"
    if not had and now["verdict"] != ABSENT:
        return f"this port has a {_name(row)}, which the former model had not"
    if had and _share(row) != _share(now):
        return f"of the {_name(row)}, {_said(row)} then and {_said(now)} now"
    return None


_NAMES = {"query": "query bias", "key": "key bias", "value": "value bias", "output": "output bias"}


def _name(row):
    return _NAMES.get(row["role"], row["bias"])


def _mattered(row):
    """Whether outputs could have shown that a bias is lost."""
    if row["verdict"] != AGREE:
        return "may count"
    if row["alone"] == row["size"]:
        return "no output could show: it is redundant"
    if row["could_go"] == row["size"]:
        return "counts unless the output bias took it over"
    return "counts in part" if row["could_go"] else "counts"


def _share(row):
    """All, none, the mean or a part; or that it is not known."""
    if row["verdict"] != AGREE:
        return row["verdict"]
    if row["measured"] in (0, row["size"]):
        return row["measured"] == row["size"]
    return "in part"


def _said(row):
    if row["verdict"] != AGREE:
        return f"it was said: {row['verdict']}"
    return f"{row['measured']} of {row['size']} could go"


def _layers(names):
    """Some layers, those that differ by their number once."""
    alike = dict.fromkeys(re.sub(r"\b\d+\b", "*", name) for name in names)
    count = f"{len(names)} layers: " if len(names) > 1 else ""
    return count + ", ".join(alike)
