"""The command `bias-audit` says, in a terminal or in CI, which biases of a model are redundant.

    bias-audit config.json          audits a small model with a configuration's structure
    bias-audit FOLDER               does the same for a checkpoint, by folder or hub name
    bias-audit FOLDER --weights     audits the weights of a checkpoint

The exit status is 0 if prediction and measurement agree, 1 if they disagree on some row or a
measurement is unclear, and 2 if nothing could be audited; a sentence then says why.  In Python,
`audit` takes any module.
"""

from __future__ import annotations

import argparse
import sys

from ..measure.nullity import UnclearRank
from ..shift.null_space import Unclear
from .auditing import audit

#: Errors in the user's request; any other error is a bug and is shown with its traceback.
REFUSED = (OSError, TypeError, ValueError, ImportError, Unclear, UnclearRank)


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="bias-audit", description="Say which biases of a model are redundant, and why."
    )
    add = parser.add_argument
    add("model", help="a config.json, or a checkpoint's folder or hub name")
    add("--weights", action="store_true", help="load and audit the weights themselves")
    add("--training", action="store_true", help="audit the model in training mode")
    add("--inject", action="store_true", help="also audit biases that the model lacks")
    asked = vars(parser.parse_args(arguments))
    asked["weights"] = "own" if asked["weights"] else "random"
    try:
        report = audit(**asked)
    except REFUSED as problem:
        print(f"bias-audit: {' '.join(str(problem).split())}", file=sys.stderr)
        return 2
    print(report)
    for row in report.disagreements:
        print(f"bias-audit: {row.name}: {row.answer}", file=sys.stderr)
    return 1 if report.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
