"""Describe in sentences, for CI, how a report differs from an earlier one.

Rows are matched by parameter and part of attention.  A bias that only the earlier model has counts
as lost.  If the sizes of a bias differ, only "all", "a part" and "nothing" are compared.
"""

from __future__ import annotations

from .report import AGREE
from .tables import grouped, listed, starred


def differences(former, report):
    """Sentences on how a report differs from a former one; both come from `Audit.as_dict`."""
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
    """A sentence on how one bias differs between two reports, or None if both agree."""
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
    """A clause that says whether outputs depend on a lost bias."""
    if row["verdict"] != AGREE:
        return "outputs may depend on it"
    if row["alone"] == row["size"]:
        return "no output depends on it"
    if row["together"] == row["size"]:
        return f"outputs depend on it, unless {listed(row['into'])} absorbed it"
    return f"outputs depend on {'a part of it' if row['together'] else 'it'}"


def _answer(row, other):
    """(verdict, counts); if sizes differ, a count is replaced by "all", "a part" or "nothing"."""
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
    """The parameters as words; names that differ only in a layer number are listed once."""
    if len(names) == 1:
        return names[0]
    return f"{len(names)} times: {', '.join(dict.fromkeys(map(starred, names)))}"
