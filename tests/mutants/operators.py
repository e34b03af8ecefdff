"""Mistakes that a person could make in a piece of Python, each made on purpose, one at a time.

    mutants_of("a + b")    a - b, a, b

A mutation is an edit of the text at the place of a node of its syntax tree: what it does not
touch stays as it was, comments and line breaks among it.  What does not compile is left out,
and of two ways to the same text the first counts.

Nothing here touches words: strings, doc-strings, annotations, the message of an assertion.
Nor are these mistakes made, for a reason each:

- an assertion is not deleted, nor is one of several joined by `and`: one that holds says nothing,
  so no run can miss it.  It is turned around instead, and the bound in it is widened;
- definitions and imports are not deleted: a missing name is no mistake that a check has to find;
- the sizes of a declaration or of a sample (`sizes`, `matrix`, `normal(8, 16)`) are not changed:
  what is claimed holds for every size.  Ones, zeros and slices of another size are made;
- a bound from below is not multiplied: that asks for more;
- the question of an exercise, `attempt` with dots, is not touched: nothing is proved in it;
- a random sample changes neither sign, size nor seed: it is another sample of the same kind;
- where a sign is lost at once, in `(a - b).abs()` or a square, it is not changed;
- what has no order is not swapped: the sides of `error(a, b)` or `torch.equal(a, b)`, the
  reasons of a line, `.by(claim, reason, reason)`, the factors of `P @ P @ P`.
"""

import ast
import re
from dataclasses import dataclass

#: The kind of a mutation: the function that finds the places for it, as edits of the text.
KINDS = {}

Edit = tuple[int, int, str]  # from, to, what stands there instead

EXCHANGED = {ast.Add: ("+", "-"), ast.Sub: ("-", "+"), ast.Mult: ("*", "/"), ast.Div: ("/", "*"),
             ast.MatMult: ("@", "*")}  # fmt: skip
TURNED = {ast.Lt: ("<", ">="), ast.GtE: (">=", "<"), ast.Gt: (">", "<="), ast.LtE: ("<=", ">"),
          ast.Eq: ("==", "!="), ast.NotEq: ("!=", "==")}  # fmt: skip
#: Functions whose argument in that place, after the object, is an axis.
AXIS_ARGUMENT = dict.fromkeys(
    "sum mean var std amax amin argmax argmin norm all any cumsum softmax log_softmax logsumexp "
    "unsqueeze squeeze flip roll narrow select index_select unflatten transpose".split(), 0
) | {"repeat_interleave": 1, "chunk": 1, "split": 1}  # fmt: skip
#: Functions of a module that take the object first: torch.softmax(x, -1).
MODULES = ("torch", "F", "np", "linalg", "fft")
SAME_EITHER_WAY = {"error", "equal", "allclose", "assert_close", "isclose", "max", "min", "maximum",
                   "minimum", "by", "transpose", "swapaxes", "isinstance", "hasattr", "getattr",
                   "setattr"}  # fmt: skip
DECLARED = {"sizes", "matrix", "scalars", "Heads", "head", "mask", "permutation", "normal", "randn",
            "rand", "randint", "randperm", "manual_seed"}  # fmt: skip
OF_A_SIZE = {"ones", "zeros", "eye", "identity", "full", "causal", "arange", "range", "linspace",
             "tril", "triu", "islice"}  # fmt: skip
MASKS = re.compile(r"mask|hidden|padded|padding|causal|visible|allowed", re.I)
BIAS = re.compile(r"(?:^|[._ (])(?:b|bias|b_\w+|\w*_bias|bias_\w+)\b")
SAMPLED = re.compile(r"\b(?:normal|randn|rand)\(")
TIMES = 1e6  # what a tolerance is multiplied by
LARGEST_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Mutant:
    """A source with one mistake: what stood in its line and what stands there now."""

    kind: str
    line: int
    before: str
    after: str
    source: str


def mutants_of(source):
    """Every mutant of a piece of Python, in the order of the text; SyntaxError if it is none."""
    text, seen, found = Text(source), {source}, []
    for kind, edits in KINDS.items():
        for node in text.nodes:
            for edit in edits(node, text):
                mutant = text.edited(kind, edit)
                if mutant.source not in seen and compiles(mutant.source):
                    seen.add(mutant.source)
                    found.append(mutant)
    return sorted(found, key=lambda mutant: (mutant.line, [*KINDS].index(mutant.kind)))


def compiles(source):
    try:
        compile(source, "mutant", "exec")
    except SyntaxError:
        return False
    return True


class Text:
    """A source, its syntax tree without the words in it, and where each node stands."""

    def __init__(self, source):
        self.source = source
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.parent = {}
        self.nodes = list(self._walk(ast.parse(source)))

    def _walk(self, node):
        if isinstance(node, ast.JoinedStr) or is_words(node) or is_seed(node) or is_open(node):
            return
        yield node
        unread = ("annotation", "returns", "decorator_list", "msg")
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and name not in unread:
                    self.parent[child] = node
                    yield from self._walk(child)

    def place(self, line, column):
        """The index of a place in the source; the tree counts columns in bytes."""
        before = self.lines[line - 1].encode()[:column] if line <= len(self.lines) else b""
        return self.starts[line - 1] + len(before.decode())

    def start(self, node):
        return self.place(node.lineno, node.col_offset)

    def end(self, node):
        return self.place(node.end_lineno, node.end_col_offset)

    def of(self, node):
        """What a node says."""
        return self.source[self.start(node) : self.end(node)]

    def operand(self, node):
        """The same, to stand beside any operator."""
        bound = (ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Lambda)
        return f"({self.of(node)})" if isinstance(node, bound) else self.of(node)

    def instead(self, node, new):
        """The edit that puts a text in the place of a node."""
        return self.start(node), self.end(node), new

    def exchange(self, first, second):
        """The edit that lets two nodes, one after the other, change places."""
        between = self.source[self.end(first) : self.start(second)]
        return self.start(first), self.end(second), self.of(second) + between + self.of(first)

    def symbol(self, left, right, old, new):
        """The edit that changes the operator between two nodes; none beside a comment."""
        start, end = self.end(left), self.start(right)
        between = self.source[start:end]
        at = between.find(old)
        if "#" in between or at < 0:
            return []
        return [(start + at, start + at + len(old), new)]

    def edited(self, kind, edit):
        """The mutant that an edit makes."""
        start, end, new = edit
        source = self.source[:start] + new + self.source[end:]
        line = self.source.count("\n", 0, start)
        after = source.splitlines()[line : line + new.count("\n") + 1]
        before = self.source.splitlines()[line : self.source.count("\n", 0, end) + 1]
        return Mutant(kind, line + 1, one_line(before), one_line(after), source)


def one_line(lines):
    return " ".join(line.strip() for line in lines)


def is_words(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def is_seed(node):
    """Whether a node says from what a sample is drawn: seed=…, manual_seed(…)."""
    if isinstance(node, ast.Call):
        return called(node) == "manual_seed"
    return isinstance(node, ast.keyword) and node.arg == "seed"


def is_open(node):
    """Whether a node is an exercise's question: attempt(…) with dots for what is to be found."""
    dots = (isinstance(x, ast.Constant) and x.value is ... for x in ast.walk(node))
    return isinstance(node, ast.Call) and called(node) == "attempt" and any(dots)


def whole(node):
    """Whether a node is a whole number, a sign before it or not."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int


def called(node):
    """The last name of what is called: softmax for torch.softmax(…) and x.softmax(…)."""
    function = node.func
    return getattr(function, "attr", getattr(function, "id", ""))


def mutation(kind):
    def enter(edits):
        KINDS[kind] = edits
        return edits

    return enter


# ---- what has a meaning of its own comes first: of two ways to one text, the first counts ------


@mutation("a bias left out")
def bias(node, text):
    """bias=True for False and back; `x + b` becomes `x`."""
    if isinstance(node, ast.keyword) and "bias" in (node.arg or ""):
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, bool):
            yield text.instead(node.value, str(not node.value.value))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        if BIAS.search(text.of(node.right)):
            yield text.instead(node, text.operand(node.left))
    elif isinstance(node, ast.AugAssign) and BIAS.search(text.of(node.value)):
        yield text.instead(node, "pass")


@mutation("a mask inverted")
def mask(node, text):
    """~m for m and back, the other triangle, `&` for `|`, is_causal turned, where's choice."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        yield text.instead(node, text.operand(node.operand))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitAnd):
        yield from text.symbol(node.left, node.right, "&", "|")
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        yield from text.symbol(node.left, node.right, "|", "&")
    elif isinstance(node, ast.keyword) and MASKS.search(node.arg or ""):
        yield from turned_mask(node.value, text)
    elif isinstance(node, ast.Call):
        if called(node) in ("triu", "tril"):
            other = {"triu": "tril", "tril": "triu"}[called(node)]
            end = text.end(node.func)
            yield end - 4, end, other
        elif called(node) == "masked_fill" and node.args:
            yield text.instead(node.args[0], f"~({text.of(node.args[0])})")
        elif called(node) == "masked_softmax" and node.args:
            yield text.instead(node.args[0], f"1 - ({text.of(node.args[0])})")
        elif called(node) == "where" and len(node.args) == 3:
            yield text.exchange(*node.args[1:])


def turned_mask(value, text):
    """The other truth value, or None for a mask."""
    if isinstance(value, ast.Constant) and isinstance(value.value, bool):
        yield text.instead(value, str(not value.value))
    elif isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        yield text.instead(value, "None")


@mutation("eval for train")
def mode(node, text):
    """`.eval()` for `.train()` and back; training=True for False."""
    if isinstance(node, ast.Attribute) and node.attr in ("eval", "train"):
        other = {"eval": "train", "train": "eval"}[node.attr]
        yield text.end(node) - len(node.attr), text.end(node), other
    elif isinstance(node, ast.keyword) and node.arg == "training":
        if isinstance(node.value, ast.Constant):
            yield text.instead(node.value, str(not node.value.value))


@mutation("a transpose")
def transpose(node, text):
    """`.T`, `.mT` or `.transpose(…)` dropped, or added to a factor of a matrix product."""
    if isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
        yield text.end(node.value), text.end(node), ")" * closing(node, text)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr in ("transpose", "swapaxes", "permute", "t"):
            yield text.instead(node, text.operand(node.func.value))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        suffix = ".T" if ".T" in text.source else ".mT"
        for factor in (node.left, node.right):
            if isinstance(factor, ast.Name | ast.Subscript | ast.Call):
                yield text.instead(factor, text.of(factor) + suffix)


def closing(node, text):
    """How many parentheses stand between a value and its attribute: (a + b).T has one."""
    return text.source[text.end(node.value) : text.end(node)].count(")")


@mutation("an axis")
def axis(node, text):
    """Another axis: dim=, axis=, or the argument that is one."""
    if isinstance(node, ast.keyword) and node.arg in ("dim", "axis", "dims", "start_dim"):
        yield from other_axis(node.value, text)
    elif isinstance(node, ast.Call) and called(node) in AXIS_ARGUMENT:
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        of_module = base is None or text.of(base).split(".")[-1] in MODULES
        at = AXIS_ARGUMENT[called(node)] + of_module
        if at < len(node.args):
            yield from other_axis(node.args[at], text)


def other_axis(value, text):
    if isinstance(value, ast.Tuple) and value.elts:
        value = value.elts[0]
    if whole(value):
        number = ast.literal_eval(value)
        yield text.instead(value, str({-1: -2, -2: -1, 0: 1}.get(number, number - 1)))


@mutation("a tolerance")
def tolerance(node, text):
    """A tolerance a million times as large: a bound from above, or atol=, rtol=, tol=."""
    beside = []
    if isinstance(node, ast.Compare):
        terms = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, terms, terms[1:]):
            beside += [right] if isinstance(operator, ast.Lt | ast.LtE) else []
            beside += [left] if isinstance(operator, ast.Gt | ast.GtE) else []
    elif isinstance(node, ast.keyword) and node.arg in ("atol", "rtol", "tol", "tolerance"):
        beside = [node.value]
    for value in beside:
        if isinstance(value, ast.Constant) and isinstance(value.value, float):
            if 0 < value.value <= LARGEST_TOLERANCE:
                yield text.instead(value, repr(value.value * TIMES))


@mutation("a comparison turned")
def comparison(node, text):
    """`<` becomes `>=`, `==` becomes `!=`, `in` becomes `not in`; an assertion asserts the contrary."""
    if isinstance(node, ast.Compare):
        terms = [node.left, *node.comparators]
        for operator, left, right in zip(node.ops, terms, terms[1:]):
            if type(operator) in TURNED:
                yield from text.symbol(left, right, *TURNED[type(operator)])
            elif isinstance(operator, ast.In):
                yield from text.symbol(left, right, "in", "not in")
            elif isinstance(operator, ast.NotIn):
                yield from text.symbol(left, right, "not in", "in")
            elif isinstance(operator, ast.IsNot):
                yield from text.symbol(left, right, "is not", "is")
            elif isinstance(operator, ast.Is):
                yield from text.symbol(left, right, "is", "is not")
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield text.instead(node, text.operand(node.operand))
    elif isinstance(node, ast.Assert) and not isinstance(node.test, ast.Compare | ast.UnaryOp):
        yield text.instead(node.test, f"not ({text.of(node.test)})")


@mutation("a sign")
def sign(node, text):
    """A minus dropped, or put before a product."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        if not isinstance(node.operand, ast.Constant):
            yield text.instead(node, text.operand(node.operand))
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.MatMult):
        up = text.parent.get(node)
        inner = isinstance(up, ast.BinOp) and isinstance(up.op, ast.Mult | ast.MatMult)
        if not (inner or SAMPLED.search(text.of(node)) or sign_is_lost(node, text)):
            yield text.instead(node, f"(-({text.of(node)}))")


@mutation("an operator exchanged")
def operator(node, text):
    """`+` and `-`, `*` and `/`, `*` for `@`; not between words, lists or generators."""
    if isinstance(node, ast.BinOp) and type(node.op) in EXCHANGED:
        if isinstance(node.op, ast.Add | ast.Mult) and (is_list(node.left) or is_list(node.right)):
            return
        yield from text.symbol(node.left, node.right, *EXCHANGED[type(node.op)])
    elif isinstance(node, ast.AugAssign) and type(node.op) in EXCHANGED:
        old, new = EXCHANGED[type(node.op)]
        yield from text.symbol(node.target, node.value, f"{old}=", f"{new}=")


def sign_is_lost(node, text):
    """Whether what comes next, abs, a square or a norm, is the same for either sign."""
    up = text.parent.get(node)
    if isinstance(up, ast.BinOp):
        return isinstance(up.op, ast.Pow) and text.of(up.right) == "2"
    name = called(up) if isinstance(up, ast.Call) else getattr(up, "attr", "")
    return name in ("abs", "square", "norm")


def is_list(node):
    return is_words(node) or isinstance(node, ast.List | ast.Tuple | ast.ListComp | ast.JoinedStr)


@mutation("a term or factor dropped")
def dropped(node, text):
    """One side of a sum, a difference, a product or a quotient; one side of and, or."""
    if isinstance(node, ast.BinOp) and type(node.op) in (*EXCHANGED, ast.Pow):
        yield text.instead(node, text.operand(node.left))
        if isinstance(node.op, ast.Mult) and scales_a_sample(node, text):
            return
        if isinstance(node.op, ast.Add | ast.Mult | ast.MatMult):
            yield text.instead(node, text.operand(node.right))
        elif isinstance(node.op, ast.Sub):
            yield text.instead(node, f"(-{text.operand(node.right)})")
    elif isinstance(node, ast.BoolOp) and not asserted(node, text):
        yield text.instead(node, text.operand(node.values[0]))
        yield text.instead(node, text.operand(node.values[-1]))


def scales_a_sample(node, text):
    """Whether a number stands before a random sample: 3 * normal(…)."""
    number = isinstance(node.left, ast.Constant)
    return number and SAMPLED.match(text.of(node.right).removeprefix("torch."))


def asserted(node, text):
    """Whether an `and` joins assertions: to drop one is to delete it."""
    return isinstance(node.op, ast.And) and isinstance(text.parent.get(node), ast.Assert)


@mutation("arguments swapped")
def swapped(node, text):
    """Two neighbours among the arguments of a call, or the operands of `-`, `/` and `@`."""
    if isinstance(node, ast.Call):
        if called(node) in SAME_EITHER_WAY | DECLARED | {"print"}:
            return
        for first, second in zip(node.args, node.args[1:]):
            if not any(is_words(x) or isinstance(x, ast.Starred) for x in (first, second)):
                yield text.exchange(first, second)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub | ast.Div | ast.MatMult):
        first, second = text.operand(node.left), text.operand(node.right)
        symbol = EXCHANGED[type(node.op)][0]
        alike = symbol == "@" and len({text.of(factor) for factor in factors(node)}) == 1
        if not alike and not (symbol == "-" and sign_is_lost(node, text)):
            yield text.instead(node, f"({second} {symbol} {first})")


def factors(node):
    """The factors of a matrix product, from left to right."""
    if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)):
        return [node]
    return factors(node.left) + factors(node.right)


@mutation("off by one")
def off_by_one(node, text):
    """A slice, an index, an exponent, a range or a triangle one further; ones(n) for ones(m)."""
    if isinstance(node, ast.Slice):
        for value in (node.lower, node.upper):
            if value is not None:
                yield one_more(value, text)
    elif isinstance(node, ast.Subscript) and whole(node.slice):
        yield one_more(node.slice, text)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and whole(node.right):
        yield one_more(node.right, text)
    elif isinstance(node, ast.Call) and called(node) in OF_A_SIZE:
        for value in node.args:
            if whole(value):
                yield one_more(value, text)
            elif isinstance(value, ast.Name):
                yield from other_size(value, text)


def one_more(value, text):
    if whole(value):
        return text.instead(value, str(ast.literal_eval(value) + 1))
    return text.instead(value, f"{text.operand(value)} + 1")


def other_size(value, text):
    """Another name that is the size of something in the same source, the next in the alphabet."""
    names = {
        argument.id
        for node in text.nodes
        if isinstance(node, ast.Call) and called(node) in OF_A_SIZE | DECLARED
        for argument in node.args
        if isinstance(argument, ast.Name)
    }
    others = sorted(names - {value.id})
    if value.id in names and others:
        after = [name for name in others if name > value.id]
        yield text.instead(value, (after or others)[0])


@mutation("a statement deleted")
def deleted(node, text):
    """`pass` in its place; not for definitions, imports, assertions and doc-strings."""
    kept = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assert, ast.Pass,
            ast.Global, ast.Nonlocal)  # fmt: skip
    words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.JoinedStr)
    if isinstance(node, ast.stmt) and not isinstance(node, kept) and not words:
        yield text.instead(node, "pass")
