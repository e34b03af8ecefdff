"""The last lines of `make test`: what failed in any of its runs, or how much has passed.

A pytest plugin, ``-p tests.last_lines``: it leaves the outcome of a run in the file that OUTCOME
names.  And a program that reads such files, of runs that came one after the other:

    python tests/last_lines.py notebooks.json tests.json

Its exit status is 1 where something failed, or where a run ended before it could say.
"""

import json
import os
import re
import sys
from pathlib import Path

VARIABLE = "OUTCOME"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
WORKER = re.compile(r"^\[gw\d+\] .*\n")  # which of the workers it was
NBVAL = re.compile(r"Notebook cell execution failed\nCell \d+: (.*)")
LONGEST = 160


def pytest_terminal_summary(terminalreporter, exitstatus):
    if VARIABLE not in os.environ:
        return
    found = {
        kind: [report.nodeid for report in terminalreporter.stats.get(kind, [])]
        for kind in ("passed", "skipped")
    }
    bad = [r for kind in ("failed", "error") for r in terminalreporter.stats.get(kind, [])]
    found["failed"] = [[report.nodeid, reason(report)] for report in bad]
    found["status"] = int(exitstatus)
    path = Path(os.environ[VARIABLE])
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found), encoding="utf-8")


def reason(report):
    """Why a test failed, in one line."""
    text = WORKER.sub("", COLOURS.sub("", report.longreprtext))
    if crash := getattr(report.longrepr, "reprcrash", None):
        said = crash.message
    elif cell := NBVAL.search(text):
        lines = [line for line in text.splitlines() if line.strip()]
        said = lines[-1] if "exception" in cell[1] else cell[1]
    else:
        marked = [line[1:] for line in text.splitlines() if line.startswith("E ")]
        said = marked[-1] if marked else text
    return (said.strip().splitlines() or ["no reason given"])[0][:LONGEST]


def read(path):
    """The outcome of a run; None where it has left none."""
    path = Path(path)
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def lines(outcomes):
    """What to say of runs: each failure in a line, or one line; their names and outcomes are given."""
    for name, outcome in outcomes.items():
        if outcome is None:
            yield f"FAILED {name}: the run ended before its last test"
            continue
        for test, why in outcome["failed"]:
            yield f"FAILED {test} - {why}"
        if outcome["status"] not in (0, 1):
            yield f"FAILED {name}: the run stopped early (status {outcome['status']} of pytest)"
    ended = [outcome for outcome in outcomes.values() if outcome]
    passed = [test for outcome in ended for test in outcome["passed"]]
    cells = sum(".ipynb::" in test for test in passed)
    failed = sum(len(outcome["failed"]) for outcome in ended)
    skipped = sum(len(outcome["skipped"]) for outcome in ended)
    kinds = [(cells, "cells of notebooks"), (len(passed) - cells, "tests")]
    said = " and ".join(f"{number} {what}" for number, what in kinds if number) or "nothing"
    yield f"{said} passed, {failed} failed, {skipped} skipped."


def good(outcome):
    return outcome is not None and not outcome["failed"] and outcome["status"] in (0, 1)


def main(paths):
    outcomes = {Path(path).stem: read(path) for path in paths}
    print("\n" + "\n".join(lines(outcomes)))
    return 0 if all(map(good, outcomes.values())) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
