"""Count how much there is to read: lines of code without blank lines, comments and docstrings."""

import ast
import io
import tokenize
from pathlib import Path

#: The modules of the kernel, in the order in which to read them.
KERNEL = ("terms", "sorts", "conditions", "polynomials", "sums", "normal", "rules")
FOLDER = Path(__file__).with_name("kernel")
LAYOUT = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT,
          tokenize.ENDMARKER)  # fmt: skip


def lines_of_code(source):
    """The number of lines of a source string, without blank lines, comments and docstrings."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return len({t.start[0] for t in tokens if t.type not in LAYOUT} - _docstrings(source))


def _docstrings(source):
    lines = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            if ast.get_docstring(node):
                said = node.body[0]
                lines |= set(range(said.lineno, (said.end_lineno or said.lineno) + 1))
    return lines


def kernel():
    """{module of the kernel: (its number of lines of code, its docstring's first paragraph)}."""
    sources = {name: (FOLDER / f"{name}.py").read_text(encoding="utf-8") for name in KERNEL}
    first = {name: ast.get_docstring(ast.parse(source)) or "" for name, source in sources.items()}
    first = {name: text.split("\n\n")[0].replace("\n", " ") for name, text in first.items()}
    return {name: (lines_of_code(source), first[name]) for name, source in sources.items()}
