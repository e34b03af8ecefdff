"""What a report says that a former one did not: for CI, in sentences.

Rows are matched by the name of the parameter and its part.  A bias is lost that the former model had
and this one has not, and an answer is lost that was given; sizes may differ, as long as what can go is
still all, nothing or a part.
"""

from __future__ import annotations

from .report import AGREE
from .tables import grouped, starred


def differences(former, report):
    """Sentences on what differs from a former report; both as `Audit.as_dict` gives them."""
    if former["mode"] != report["mode"]:
        return [f"the former report is on {former['mode']}, and this one on {report['mode']}"]
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
        return f"this model lost {_bias(row)}, which {_mattered(row)}"
    if row is None:
        return f"this model has {_bias(now)}, which the former one had not"
    if _answer(row, now) != _answer(now, row):
        return f"of {_bias(row)}, {_said(row)} then, and {_said(now)} now"
    return None


def _bias(row):
    return f"a {row['part']} bias" if row["part"] else "a bias"


def _mattered(row):
    """Whether outputs could have shown that a bias is lost."""
    if row["verdict"] != AGREE:
        return "may count"
    if row["alone"] == row["size"]:
        return "no output could show: it is redundant"
    if row["together"] == row["size"]:
        return f"counts unless it went into {' and '.join(row['into'])}"
    return "counts in part" if row["together"] else "counts"


def _answer(row, other):
    """What was said: the counts; where sizes differ, whether all can go, nothing, or a part."""
    counts = row["alone"], row["together"]
    if row["size"] != other["size"]:
        counts = tuple({0: "nothing", row["size"]: "all"}.get(n, "a part") for n in counts)
    return row["verdict"], counts


def _said(row):
    if row["verdict"] != AGREE:
        return f"it was said: {row['verdict']}"
    return (
        f"{row['alone']} of {row['size']} numbers could go alone and {row['together']} with others"
    )


def _places(names):
    """Some parameters, those that differ by the number of a layer once."""
    if len(names) == 1:
        return names[0]
    return f"{len(names)} times: {', '.join(dict.fromkeys(map(starred, names)))}"
