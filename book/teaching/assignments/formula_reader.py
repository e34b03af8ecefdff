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
    tree, own = ast.parse(source), set()
    for node in ast.walk(tree):
        if not _is_read(node):
            what = f"{type(node).__name__} in line {getattr(node, 'lineno', '?')}"
            raise NotAFormula(f"has to be a formula made of the question's names: no {what}")
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
    own |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    names = {"__builtins__": {}, **given}
    exec(compile(tree, "the answer", "exec"), names)
    return {name: value for name, value in names.items() if name in own}


def _is_read(node):
    names = (getattr(node, part, None) for part in ("id", "name", "arg"))
    if any(isinstance(name, str) and name.startswith("_") for name in names):
        return False
    match node:
        case ast.Attribute():
            return node.attr in ATTRIBUTES and isinstance(node.ctx, ast.Load)
        case ast.Subscript():
            return isinstance(node.ctx, ast.Load)
        case ast.FunctionDef():
            return not node.decorator_list
        case ast.Constant(value=str(words)):
            return not any(sign in words for sign in NOT_IN_WORDS)
        case ast.Constant():
            return node.value is None or type(node.value) in (bool, int, float)
    return isinstance(node, NODES)
