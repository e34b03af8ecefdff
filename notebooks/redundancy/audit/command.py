"""The command `bias-audit` says, in a terminal or in CI, which biases of a model are redundant.

    bias-audit config.json                 audits a small model with a configuration's structure
    bias-audit FOLDER                      does the same for a checkpoint, by folder or hub name
    bias-audit FOLDER --weights            audits the weights of a checkpoint
    bias-audit models.py:make              audits the model, or (model, inputs), that make() returns
    bias-audit package.module:make         does the same for a function in an importable module
    bias-audit PORT --expect former.json   compares the answers with an earlier --json report

The exit status is 0 if prediction and measurement agree and so, with --expect, do the two reports,
1 if any of them disagree, and 2, with a sentence that says why, if nothing could be audited.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from torch import nn

from ..measure.inputs import WrongInputs, first_line
from ..measure.nullity import UnclearRank
from ..shift.freedom import Unclear
from .auditing import audit
from .expecting import differences

#: Errors in the user's request; any other error is a bug and is shown with its traceback.
REFUSED = (OSError, TypeError, ValueError, ImportError, Unclear, UnclearRank)


def main(arguments=None):
    """Run the command and return its exit status."""
    asked = _parser().parse_args(arguments)
    try:
        expected = asked.expect and _former(asked.expect)
        report = _audited(asked)
    except REFUSED as problem:
        print(f"bias-audit: {' '.join(str(problem).split())}", file=sys.stderr)
        return 2
    print(report.as_json() if asked.json else report)
    said = differences(expected, report.as_dict()) if expected else []
    said += [f"{row.name}: {row.answer}" for row in report.disagreements]
    for sentence in said:
        print(f"bias-audit: {sentence}", file=sys.stderr)
    return 1 if said else 0


def _parser():
    parser = argparse.ArgumentParser(
        prog="bias-audit", description="Say which biases of a model are redundant, and why."
    )
    add = parser.add_argument
    add("model", help="a config.json, a checkpoint's folder or hub name, or file.py:function")
    add("--json", action="store_true", help="print the report as JSON")
    add("--weights", action="store_true", help="load and audit the weights themselves")
    add("--training", action="store_true", help="audit the model in training mode")
    add("--inject", action="store_true", help="also audit biases that the model lacks")
    add("--expect", metavar="FILE", help="exit with 1 if the answers in this JSON report differ")
    return parser


def _audited(asked):
    model, inputs = _model(asked.model)
    weights = "own" if asked.weights else "random"
    try:
        return audit(model, inputs, inject=asked.inject, weights=weights, training=asked.training)
    except WrongInputs as problem:
        if isinstance(model, nn.Module) and inputs is None:
            raise WrongInputs(f"{problem}; let the function return (model, inputs)") from None
        raise


def _model(name):
    """(what to audit, its inputs or None), from the argument of the command."""
    place, _, function = name.rpartition(":")
    if place and function.isidentifier() and not Path(name).exists():
        return _made(place, function)
    program = name.removesuffix(":")
    if program.endswith(".py"):
        raise ValueError(f"name the function that makes the model, as in {program}:make")
    if not Path(name).exists() and (name.endswith(".json") or name.count("/") > 1):
        raise OSError(f"{name} is neither a file nor a folder, and no name on the hub")
    return name, None


def _made(place, function):
    """(a model, its inputs or None) from a function in a Python file or module."""
    if place.endswith(".py") and not Path(place).is_file():
        raise OSError(f"{place} is no file")
    found = getattr(_run(place, lambda: _module(place)), function, None)
    if not callable(found):
        raise ValueError(f"{place} has no function that is called {function}")
    name = f"{place}:{function}"
    made = found if isinstance(found, nn.Module) else _run(name, found)
    model, inputs = made if isinstance(made, tuple) and len(made) == 2 else (made, None)
    if not isinstance(model, nn.Module):
        said = f"{name} returns a value of the type {type(model).__name__}"
        raise TypeError(f"{said}: let it return a model, or (model, inputs)")
    return model, inputs


def _module(place):
    sys.path.insert(0, str(Path(place).parent.resolve() if place.endswith(".py") else Path.cwd()))
    if not place.endswith(".py"):
        return importlib.import_module(place)
    spec: Any = importlib.util.spec_from_file_location(Path(place).stem, place)
    sys.modules[spec.name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _run(name, function):
    """The result of the user's function; raises ValueError with the line at which it fails."""
    try:
        return function()
    except (Exception, SystemExit) as problem:  # the user's program may raise anything
        frames = traceback.extract_tb(problem.__traceback__)
        ours = (__file__, importlib.__file__)
        theirs = [f for f in frames if f.filename not in ours and f.filename[0] != "<"]
        where = f" in line {theirs[-1].lineno} of {theirs[-1].filename}" if theirs else ""
        said = f"{type(problem).__name__}: {first_line(problem)}"
        raise ValueError(f"{name} fails{where}: {said}") from None


def _former(path):
    """The earlier report in a file; raises ValueError if the file contains no report."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        fields = {"name", "part", "size", "alone", "together", "into", "verdict", "injected"}
        if found["mode"] and all(fields <= row.keys() for row in found["rows"]):
            return found
    except (UnicodeDecodeError, json.JSONDecodeError, LookupError, TypeError, AttributeError):
        pass
    raise ValueError(f"{path} is no report: write one with bias-audit --json")


if __name__ == "__main__":
    sys.exit(main())
