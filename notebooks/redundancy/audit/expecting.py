"""Say, for CI, how a report differs from an earlier one.

If the sizes of a bias differ, only "all", "a part" and "nothing" are compared.
"""

from __future__ import annotations

from ..tables import starred
from .report import AGREE


def differences(former: dict, report: dict) -> list[str]:
    """Sentences on how a report differs from a former one; both come from `Audit.as_dict`.

    Layers that differ in the same way share a sentence, and injected biases are left out.
    """
    if former["mode"] != report["mode"]:
        return [f"the earlier report is for {former['mode']}, this one for {report['mode']}"]
    before, after = (
        {(row["name"], row["part"]): row for row in r["rows"] if not row["injected"]}
        for r in (former, report)
    )
    found = {}
    for name, part in before | after:
        old, new = before.get((name, part)), after.get((name, part))
        exactly = bool(old and new and old["size"] == new["size"])
        was, now = _answer(old, exactly), _answer(new, exactly)
        if was != now:
            bias = f"{starred(name)} ({part})" if part else starred(name)
            found.setdefault((bias, was, now), []).append(name)
    times = lambda names: f", {len(names)} times" if len(names) > 1 else ""
    return [
        f"{bias}{times(names)}: earlier, {was}; now, {now}"
        for (bias, was, now), names in found.items()
    ]


def _answer(row, exactly):
    """How much of a bias can go, in words; ``exactly`` gives the counts."""
    if row is None:
        return "no such bias"
    if row["verdict"] != AGREE:
        return f"the verdict was {row['verdict']}"
    share = {0: "nothing", row["size"]: "all"}
    alone, together = (n if exactly else share.get(n, "a part")
                       for n in (row["alone"], row["together"]))  # fmt: skip
    return f"{alone} could go alone and {together} with others"
