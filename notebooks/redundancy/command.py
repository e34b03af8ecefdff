"""The command `bias-audit`: which attention biases are redundant, in a terminal or in CI.

    bias-audit config.json                 a configuration: its structure, shrunk, in seconds
    bias-audit FOLDER                      a checkpoint's folder, or its name on the hub: the same
    bias-audit FOLDER --weights            the weights themselves
    bias-audit PORT --expect former.json   what a former --json says that PORT has lost

The exit status is 0 where prediction and measurement agree and nothing is lost, 1 where they
disagree or something is lost, 2 where nothing could be audited; a sentence says why.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from .auditing import audit
from .expecting import differences
from .report import DISAGREE

#: What may be wrong with what was asked; anything else is a mistake of ours, and is shown whole.
REFUSED = (OSError, TypeError, ValueError, ImportError)


def main(arguments=None):
    """Run the command; returns its exit status."""
    asked = _parser().parse_args(arguments)
    try:
        expected = asked.expect and _former(asked.expect)
        report = audit(
            _model(asked.model), inject=asked.inject, weights="own" if asked.weights else "random"
        )
    except REFUSED as problem:
        print(f"bias-audit: {_sentence(problem)}", file=sys.stderr)
        return 2
    _print(report, asked)
    lost = differences(expected, report.as_dict()) if expected else []
    wrong = [f"{r.layer}: {r.bias} {r.verdict}: {r.why[-1]}" for r in report.disagreements]
    for sentence in (*lost, *wrong):
        print(f"bias-audit: {sentence}", file=sys.stderr)
    return 1 if lost or any(r.verdict == DISAGREE for r in report.rows) else 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="bias-audit",
        description="Say which attention biases of a model are redundant, and why.",
    )
    parser.add_argument(
        "model", help="a config.json, a checkpoint's folder, or its name on the hub"
    )
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--csv", action="store_true", help="print the report as CSV")
    parser.add_argument(
        "--weights", action="store_true", help="load and audit the weights themselves"
    )
    parser.add_argument(
        "--inject", action="store_true", help="ask about biases that are absent, too"
    )
    parser.add_argument(
        "--expect", metavar="FILE", help="a former --json: exit with 1 if a bias is lost"
    )
    return parser


def _model(name):
    if name.endswith(".json") and not Path(name).is_file():
        raise OSError(f"{name} is no file: give a config.json, a folder, or a name on the hub")
    if os.path.sep in name and not Path(name).exists() and name.count("/") != 1:
        raise OSError(f"{name} is neither a file nor a folder, and no name on the hub")
    return name


def _former(path):
    """The rows of a former report; ValueError where the file holds none."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        return found if found["rows"] else None
    except (json.JSONDecodeError, KeyError, TypeError):
        raise ValueError(f"{path} is no report: write one with bias-audit --json") from None


def _print(report, asked):
    if asked.json:
        print(report.as_json())
    elif asked.csv:
        print(report.as_csv(), end="")
    else:
        print(report)


def _sentence(problem):
    return " ".join(str(problem).split()) or type(problem).__name__


if __name__ == "__main__":
    sys.exit(main())
