"""Read an answer written in formulas: the part of Python that the book's proofs need, and no more.

A proof has to reach the tests as an object of the checker, so it cannot come from the process in
which students' programs run.  Its text is read here instead.  It may use the names that the
question gives, numbers, words in quotation marks, operators, calls, lists, ``if``, ``lambda`` and
``def``.  Nothing else is run: no loop, no import, no attribute but ``.T``, ``.by``, ``.qed`` and
``.shape``, and no function of Python's own.
"""

import ast

ATTRIBUTES = {"T", "by", "qed", "shape"}
NODES = (
    ast.Module, ast.FunctionDef, ast.arguments, ast.arg, ast.Return, ast.Assign, ast.Expr, ast.If,
    ast.IfExp, ast.Pass, ast.Lambda, ast.Call, ast.keyword, ast.Name, ast.Attribute, ast.Starred,
    ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.Constant, ast.Tuple, ast.List, ast.Dict,
    ast.Set, ast.Subscript, ast.Slice,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context,
)  # fmt: skip
#: What a text would need to be code; SymPy evaluates some texts.
NOT_IN_WORDS = ("(", "[", "{", "__", "=", "\\")


class NotAFormula(Exception):
    """An answer in formulas contains something that is not read; the message says what."""


def read(source, given):
    """The names that an answer in formulas defines, as {name: value}.

    ``given`` are the names that it may use.  Raises NotAFormula for anything that is not read,
    SyntaxError for what is not Python, and what the formulas themselves raise.
    """
    tree = ast.parse(source)
    for node in ast.walk(tree):
        _check(node)
    names = {"__builtins__": {}, **given}
    exec(compile(tree, "the answer", "exec"), names)
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    own = {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    own |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    return {name: value for name, value in names.items() if name in own}


def _check(node):
    if not isinstance(node, NODES):
        _refuse(node, f"cannot contain {type(node).__name__}")
    if isinstance(node, ast.Attribute) and node.attr not in ATTRIBUTES:
        _refuse(node, f"cannot use .{node.attr}")
    if isinstance(node, (ast.Attribute, ast.Subscript)) and not isinstance(node.ctx, ast.Load):
        _refuse(node, "can assign to a name only")
    if isinstance(node, ast.FunctionDef) and node.decorator_list:
        _refuse(node, "cannot contain decorators")
    for name in (getattr(node, part, None) for part in ("id", "name", "arg")):
        if isinstance(name, str) and name.startswith("_"):
            _refuse(node, f"cannot use the name {name}")
    if isinstance(node, ast.Constant) and not _is_harmless(node.value):
        _refuse(node, f"cannot contain {node.value!r:.40}")


def _is_harmless(value):
    if isinstance(value, str):
        return not any(sign in value for sign in NOT_IN_WORDS)
    return value is None or type(value) in (bool, int, float)


def _refuse(node, what):
    line = f"line {node.lineno}: " if hasattr(node, "lineno") else ""
    raise NotAFormula(f"{line}an answer in formulas {what}; use the names that the question gives")
