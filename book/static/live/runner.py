"""Run a page's cells, each by itself, in the reader's browser; `worker.mjs` loads this module."""

import ast
import contextlib
import io
import json
import traceback

from derivation import ProofError

CELL, BEFORE = "the cell", "what stands before the cell"
UNTESTED = "not run in torch, which is not installed"  # the page says this once, not on every line
LONGEST = 20_000  # characters; typesetting more would freeze the page


def run(prelude, source):
    """Run a cell; return, as JSON, what it printed and its values, or else its refusal or error."""
    printed, values, result = io.StringIO(), [], {}
    try:
        namespace = namespace_after(prelude)
        namespace["display"] = lambda *more: values.extend(more)
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            values.append(last_value(source, namespace))
            result = shown(values)
    except ProofError as refusal:
        result = {"refusal": str(refusal)}
    except BaseException as error:
        result = {"error": in_a_sentence(error)}
    result["printed"] = printed.getvalue()
    return json.dumps({kind: presentable(said) for kind, said in result.items()})


def namespace_after(prelude):
    """A new namespace in which the prelude has run, so that no run of a cell affects the next."""
    namespace = {"__name__": "__main__", "display": lambda *values: None}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(prelude, BEFORE, "exec"), namespace)
    return namespace


def last_value(source, namespace):
    """Run a cell as Jupyter does; return the value of the last statement if it is an expression."""
    body = ast.parse(source, CELL).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), CELL, "exec"), namespace)
    return last and eval(compile(ast.Expression(last.value), CELL, "eval"), namespace)


def shown(values):
    """The values as Jupyter shows them: in LaTeX if they define a LaTeX form, otherwise as text."""
    found = {"latex": [], "text": []}
    for value in values:
        latex = value._repr_latex_() if hasattr(value, "_repr_latex_") else None
        if latex and len(latex) <= LONGEST:
            found["latex"].append(latex.strip("$"))
        elif value is not None:
            found["text"].append(repr(value))
    return {kind: several for kind, several in found.items() if several}


def presentable(said):
    """Text or LaTeX without the remark `UNTESTED`, cut off after `LONGEST` characters."""
    if isinstance(said, list):
        return [presentable(each) for each in said]
    for row in (f"\n  {UNTESTED}", f" \\\\\n& \\text{{{UNTESTED}}}"):
        said = said.replace(row, "")
    return said if len(said) <= LONGEST else f"{said[:LONGEST]} … and so on"


def in_a_sentence(error):
    """A sentence, instead of a traceback, that describes an error and names the cell's line."""
    if isinstance(error, SyntaxError) and error.filename == CELL:
        return f"Line {error.lineno} is not Python: {error.msg}."
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == CELL]
    where = f"Line {lines[-1]} of the cell" if lines else "What stands before the cell"
    message = f": {error}".rstrip(". ") if str(error) else ""
    return f"{where} raises {type(error).__name__}{message}."
