"""What a report says that a former one did not: for CI, in sentences.

Rows are matched by the name of the parameter and its part.  A bias is lost that the former model had
and this one has not, and an answer is lost that was given; sizes may differ, as long as what can go is
still all, nothing or a part.
"""

from __future__ import annotations

from .report import AGREE
from .tables import grouped, listed, starred


def differences(former, report):
    """Sentences on what differs from a former report; both as `Audit.as_dict` gives them."""
    if former["mode"] != report["mode"]:
        return [f"the earlier report is for {former['mode']}, this one for {report['mode']}"]
    before, after = (
        {(row["name"], row["part"]): row for row in r["rows"] if not row["injected"]}
        for r in (former, report)
    )
    rows = dict.fromkeys([*before, *after])
    said = [(_differs(before.get(row), after.get(row)), row[0]) for row in rows]
    alike = grouped([one for one in said if one[0]], lambda one: one[0])
    return [f"{some[0][0]} ({_places([name for _, name in some])})" for some in alike]


def _differs(row, now):
    """What differs of one bias, as a sentence; None if nothing does."""
    if now is None:
        return f"this model lost {_bias(row)}; {_mattered(row)}"
    if row is None:
        return f"this model has {_bias(now)} that the earlier one did not have"
    if _answer(row, now) != _answer(now, row):
        return f"{_bias(row)}: earlier, {_said(row)}; now, {_said(now)}"
    return None


def _bias(row):
    return f"a{'n' * (row['part'] == 'output')} {row['part']} bias" if row["part"] else "a bias"


def _mattered(row):
    """Whether outputs depend on a bias that is lost."""
    if row["verdict"] != AGREE:
        return "outputs may depend on it"
    if row["alone"] == row["size"]:
        return "no output depends on it"
    if row["together"] == row["size"]:
        return f"outputs depend on it, unless {listed(row['into'])} absorbed it"
    return f"outputs depend on {'a part of it' if row['together'] else 'it'}"


def _answer(row, other):
    """What was said: the counts; where sizes differ, whether all can go, nothing, or a part."""
    counts = row["alone"], row["together"]
    if row["size"] != other["size"]:
        counts = tuple({0: "nothing", row["size"]: "all"}.get(n, "a part") for n in counts)
    return row["verdict"], counts


def _said(row):
    if row["verdict"] != AGREE:
        return f"the verdict was {row['verdict']}"
    return (
        f"{row['alone']} of {row['size']} numbers could go alone and {row['together']} with others"
    )


def _places(names):
    """Some parameters, those that differ by the number of a layer once."""
    if len(names) == 1:
        return names[0]
    return f"{len(names)} times: {', '.join(dict.fromkeys(map(starred, names)))}"
