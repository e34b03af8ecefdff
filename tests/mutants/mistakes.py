"""Mistakes that a person could make in a piece of Python, one at a time.

    [mutant.after for mutant in mutants_of("a + b")] == ["a - b", "a", "b"]

Each kind of mistake is a function below, which takes a node of the syntax tree and yields edits,
{node: its replacement}.  A mutant is the source with one edit and without comments.  The page
book/mutants.md says which mistakes are not tried, and why.
"""

import ast
import copy
import re
from collections import namedtuple
from os.path import commonprefix

KINDS = {}  # {name: its function}; a mutant of two kinds counts for the first


both_ways = lambda *pairs: {a: b for pair in pairs for a, b in (pair, pair[::-1])}
EXCHANGED = {ast.MatMult: ast.Mult} | both_ways(
    (ast.Add, ast.Sub), (ast.Mult, ast.Div), (ast.BitAnd, ast.BitOr), (ast.And, ast.Or)
)
BOUND = both_ways((ast.Lt, ast.LtE), (ast.Gt, ast.GtE))
RENAMED = both_ways(("triu", "tril"), ("eval", "train"), ("all", "any"))
#: Methods whose first argument is an axis; in functions such as `torch.softmax`, it is the second.
BY_AXIS = set(
    "sum mean var std amax amin argmax argmin norm all any cumsum softmax log_softmax logsumexp "
    "unsqueeze squeeze flip roll narrow select index_select unflatten transpose".split()
)
MODULES = ("torch", "F", "np", "linalg", "fft")
TRANSPOSES = ("transpose", "swapaxes", "permute", "t")
#: Calls in which no arguments are swapped, as their order is irrelevant or they declare sizes.
NO_ORDER = set(
    "error equal allclose assert_close isclose max min maximum minimum by transpose swapaxes print "
    "isinstance hasattr getattr setattr Delta has uniform sizes matrix scalars Heads head mask "
    "permutation normal randn rand randint randperm".split()
)
OF_A_SIZE = set("ones zeros eye identity full causal arange range linspace tril triu".split())
KEPT = (ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Assert, ast.AnnAssign)
SAMPLES = {"normal", "randn", "rand"}
SIGN_LOST = ("abs", "square", "norm")
MASKS = re.compile(r"mask|hidden|padded|padding|causal|visible|allowed", re.I)
BIAS = re.compile(r"(?:^|[._ (])(?:b|bias|b_\w+|\w*_bias|bias_\w+)\b")
TIMES, LARGEST_TOLERANCE = 1e6, 1e-3


#: A source with one mistake; ``before`` and ``after`` are the lines that differ.
Mutant = namedtuple("Mutant", "kind before after source")


def mutants_of(source, is_left=lambda node: False, kinds=KINDS):
    """All distinct mutants of a piece of Python; nodes that `is_left` accepts are not edited."""
    code, found = Code(source, is_left), {}
    for node in code.nodes:
        for kind, edits in kinds.items():
            for edit in edits(node, code):
                copied = copy.deepcopy(code.tree, {id(old): new for old, new in edit.items()})
                changed = ast.unparse(copied)
                found.setdefault(changed, Mutant(kind, *differing(code.text, changed), changed))
    found.pop(code.text, None)
    return list(found.values())


class Code:
    """A syntax tree, the nodes in it that may be edited, and their parents."""

    def __init__(self, source, is_left):
        self.tree, self.is_left, self.parent = ast.parse(source), is_left, {}
        self.text = ast.unparse(self.tree)
        self.nodes = list(self._walk(self.tree))
        # an assertion would still pass if a part of it were weakened
        asserts = [node for node in self.nodes if isinstance(node, ast.Assert)]
        self.asserted = {part for node in asserts for part in ast.walk(node)}

    def _walk(self, node):
        if is_left_everywhere(node) or self.is_left(node):
            return
        yield node
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "msg", "exc"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self.parent[child] = node
                    yield from self._walk(child)


def differing(before, after):
    """The differing part of each of two texts, joined into one line."""
    texts = before.split("\n"), after.split("\n")
    same = len(commonprefix(texts))
    rest = [text[same:][::-1] for text in texts]
    end = len(commonprefix(rest))
    return [" ".join(line.strip() for line in text[end:][::-1]) for text in rest]


def is_left_everywhere(node):
    """Whether a node is never edited, such as a string, a seed or an attempt(…) with `...`."""
    if isinstance(node, ast.Call):
        dots = called(node) == "attempt" and "..." in map(ast.unparse, ast.walk(node))
        return dots or called(node) in ("manual_seed", "Reason")
    words = isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)
    return words or getattr(node, "arg", None) in ("seed", "show", "latex")


def kind(name):
    """A decorator that registers a function in KINDS under this name."""
    return lambda edits: KINDS.setdefault(name, edits)


like = lambda node, **fields: type(node)(**{**dict(ast.iter_fields(node)), **fields})


def called(node):
    """The last name of a called function: softmax for torch.softmax(…) and x.softmax(…)."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def renamed(function):
    """An edit that replaces a name or attribute by its opposite, such as `triu` by `tril`."""
    field = "attr" if isinstance(function, ast.Attribute) else "id"
    return {function: like(function, **{field: RENAMED[getattr(function, field)]})}


def whole(node):
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node = node.operand
    return isinstance(node, ast.Constant) and type(node.value) is int


def one_more(node):
    if whole(node):
        return {node: ast.Constant(ast.literal_eval(node) + 1)}
    return {node: ast.BinOp(node, ast.Add(), ast.Constant(1))}


def comparisons(node):
    """(operator, left, right) for each comparison in a chain such as a < b < c."""
    return zip(node.ops, [node.left, *node.comparators], node.comparators)


def is_list(node):
    kinds = ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp
    return isinstance(node, kinds) or isinstance(getattr(node, "value", None), str)


def is_random(node):
    """Whether a node draws a random sample, whose sign and size make no difference."""
    return any(isinstance(x, ast.Call) and called(x) in SAMPLES for x in ast.walk(node))


def loses_its_sign(node, code):
    """Whether abs, a square or a norm is applied to a node, so that its sign does not matter."""
    above = code.parent.get(node)
    if isinstance(above, ast.BinOp):
        return isinstance(above.op, ast.Pow) and ast.unparse(above.right) == "2"
    name = called(above) if isinstance(above, ast.Call) else getattr(above, "attr", "")
    return name in SIGN_LOST


# ---- the kinds ----------------------------------------------------------------------------------


@kind("a bias left out")
def bias(node, code):
    """Swap bias=True and bias=False, and turn `x + b` into `x`."""
    match node:
        case ast.keyword(arg=str(name), value=ast.Constant(value=bool(there))) if "bias" in name:
            yield {node.value: ast.Constant(not there)}
        case ast.BinOp(op=ast.Add()) if BIAS.search(ast.unparse(node.right)):
            yield {node: node.left}


@kind("a mask inverted")
def mask(node, code):
    """Invert or omit a mask, swap triu and tril, flip is_causal, swap the branches of where."""
    match node:
        case ast.UnaryOp(op=ast.Invert()):
            yield {node: node.operand}
        case ast.keyword(arg=str(name), value=value) if MASKS.search(name):
            if isinstance(value, ast.Constant) and isinstance(value.value, bool):
                yield {value: ast.Constant(not value.value)}
            elif isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
                yield {value: ast.Constant(None)}
        case ast.Call() if called(node) in ("triu", "tril"):
            yield renamed(node.func)
        case ast.Call(args=[hidden, *_]) if called(node) == "masked_fill":
            yield {hidden: ast.UnaryOp(ast.Invert(), hidden)}
        case ast.Call(args=[seen, *_]) if called(node) == "masked_softmax":
            yield {seen: ast.BinOp(ast.Constant(1), ast.Sub(), seen)}
        case ast.Call(args=[_, yes, no]) if called(node) == "where":
            yield {yes: no, no: yes}


@kind("eval for train")
def mode(node, code):
    """Swap `.eval()` and `.train()`, and training=True and training=False."""
    match node:
        case ast.Attribute(attr="eval" | "train"):
            yield renamed(node)
        case ast.keyword(arg="training", value=ast.Constant()):
            yield {node.value: ast.Constant(not node.value.value)}


@kind("a transpose")
def transpose(node, code):
    """Drop `.T`, `.mT` or `.transpose(…)`, or transpose a factor of a matrix product."""
    match node:
        case ast.Attribute(attr="T" | "mT"):
            yield {node: node.value}
        case ast.Call(func=ast.Attribute(attr=name)) if name in TRANSPOSES:
            yield {node: node.func.value}
        case ast.BinOp(op=ast.MatMult()):
            suffix = "T" if ".T" in code.text else "mT"
            for factor in (node.left, node.right):
                if isinstance(factor, ast.Name | ast.Subscript | ast.Call):
                    yield {factor: ast.Attribute(factor, suffix)}


@kind("an axis")
def axis(node, code):
    """Change an axis, given as dim=, axis= or by position."""
    value = None
    if isinstance(node, ast.keyword) and node.arg in ("dim", "axis", "dims", "start_dim"):
        value = node.value
    elif isinstance(node, ast.Call) and called(node) in BY_AXIS:
        base = getattr(node.func, "value", None)
        of_module = base is None or ast.unparse(base).split(".")[-1] in MODULES
        value = node.args[of_module] if of_module < len(node.args) else None
    if isinstance(value, ast.Tuple) and value.elts:
        value = value.elts[0]
    if whole(value):
        number = ast.literal_eval(value)
        yield {value: ast.Constant({-1: -2, -2: -1, 0: 1}.get(number, number - 1))}


@kind("a tolerance")
def tolerance(node, code):
    """Multiply a tolerance by a million, whether it is an upper bound or atol=, rtol= or tol=."""
    bounds = []
    if isinstance(node, ast.Compare):
        for operator, left, right in comparisons(node):
            if type(operator) in BOUND:
                bounds += [left if isinstance(operator, ast.Gt | ast.GtE) else right]
    elif isinstance(node, ast.keyword) and node.arg in ("atol", "rtol", "tol", "tolerance"):
        bounds = [node.value]
    for bound in bounds:
        value = getattr(bound, "value", None)
        if isinstance(value, float) and 0 < value <= LARGEST_TOLERANCE:
            yield {bound: ast.Constant(value * TIMES)}


@kind("a comparison turned")
def comparison(node, code):
    """Negate a comparison, a condition, an assertion or a returned verdict."""
    conditions = [getattr(node, "test", None), *getattr(node, "ifs", ())]
    match node:
        case ast.Compare():
            conditions = [node]
        case ast.UnaryOp(op=ast.Not()):
            yield {node: node.operand}
        case ast.Return(value=ast.Constant(value=bool(verdict))):
            yield {node.value: ast.Constant(not verdict)}
    for condition in conditions:
        if condition and not isinstance(condition, ast.UnaryOp):
            yield {condition: ast.UnaryOp(ast.Not(), condition)}


@kind("a sign")
def sign(node, code):
    """Drop a minus sign, or put one before a product."""
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=x) if not isinstance(x, ast.Constant):
            yield {node: x}
        case ast.BinOp(op=ast.Mult() | ast.MatMult()):
            outer = code.parent.get(node)
            inner = isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Mult | ast.MatMult)
            if not (inner or is_random(node) or loses_its_sign(node, code)):
                yield {node: ast.UnaryOp(ast.USub(), node)}


@kind("an operator exchanged")
def operator(node, code):
    """Swap `+` and `-`, `*` and `/`, `&` and `|`, `and` and `or`, `all` and `any`; `@` → `*`."""
    match node:
        case ast.BinOp(left, op, right) | ast.AugAssign(left, op, right) if type(op) in EXCHANGED:
            if not (is_list(left) or is_list(right)):
                yield {node: like(node, op=EXCHANGED[type(op)]())}
        case ast.BoolOp(op=op) if node not in code.asserted:
            yield {node: like(node, op=EXCHANGED[type(op)]())}
        case ast.Call(func=ast.Name(id="all" | "any")) if node not in code.asserted:
            yield renamed(node.func)


@kind("a term or factor dropped")
def dropped(node, code):
    """Drop one operand of an arithmetic operator, or of `and` or `or`."""
    match node:
        case ast.BinOp(left, ast.Add() | ast.Mult() | ast.MatMult(), right):
            yield {node: left}
            if not (isinstance(left, ast.Constant) and is_random(right)):
                yield {node: right}
        case ast.BinOp(left, ast.Sub(), right):
            yield {node: left}
            yield {node: ast.UnaryOp(ast.USub(), right)}
        case ast.BinOp(left, ast.Div() | ast.Pow(), _):
            yield {node: left}
        case ast.BoolOp() if node not in code.asserted:
            yield {node: node.values[0]}
            yield {node: node.values[-1]}


@kind("arguments swapped")
def swapped(node, code):
    """Swap two neighbouring arguments of a call, or the operands of `-`, `/` and `@`."""
    match node:
        case ast.Call() if called(node) not in NO_ORDER:
            is_kept = lambda x: is_left_everywhere(x) or isinstance(x, ast.Starred)
            plain = [x for x in node.args if not is_kept(x)]
            yield from ({a: b, b: a} for a, b in zip(plain, plain[1:]))
        case ast.BinOp(left, ast.Sub() | ast.Div() | ast.MatMult(), right):
            if not (isinstance(node.op, ast.Sub) and loses_its_sign(node, code)):
                yield {node: like(node, left=right, right=left)}


@kind("off by one")
def off_by_one(node, code):
    """Add 1 to a slice's bound, an index, exponent or size; swap `<` and `<=` beside an integer."""
    match node:
        case ast.Slice():
            yield from (one_more(end) for end in (node.lower, node.upper) if end)
        case ast.Subscript(slice=index) if whole(index):
            yield one_more(index)
        case ast.BinOp(op=ast.Pow(), right=exponent) if whole(exponent):
            yield one_more(exponent)
        case ast.Call() if called(node) in OF_A_SIZE:
            yield from (one_more(size) for size in node.args if whole(size))
        case ast.Compare():
            for at, (operator, left, right) in enumerate(comparisons(node)):
                if type(operator) in BOUND and (whole(left) or whole(right)):
                    ops = [*node.ops[:at], BOUND[type(operator)](), *node.ops[at + 1 :]]
                    yield {node: like(node, ops=ops)}


@kind("a statement deleted")
def deleted(node, code):
    """Replace a statement by `pass`, except a definition, import, assertion or docstring."""
    words = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant | ast.JoinedStr)
    if isinstance(node, ast.stmt) and not isinstance(node, KEPT) and not words:
        yield {node: ast.Pass()}
