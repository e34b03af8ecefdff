"""Sorts: which terms make sense, and what the form of a term shows.

``check`` returns the sort of a term or refuses the term.  ``fits`` decides whether a term may be used
where a sort is required: the form of the term must show its kind (a mask, something positive, a
permutation).  Every substitution applies ``fits`` again.
"""

from fractions import Fraction
from functools import cache

from .terms import LAW, NUM, ONE, POSITIVE, SIZE, UNIT, ZERO, Term, filled, fun, inverse, is_name
from .terms import looked_into, must, pos, rebuilt, unfolded

#: {operator: (the sort of the parts, their number (0: any), the sort of the result)}.
SIMPLE = {
    "times": ("SIZE", 0, SIZE), "join": ("SIZE", 2, SIZE), "last": ("SIZE", 1, None),
    "size": ("SIZE", 1, NUM), "place": ("POS", 1, NUM), "delta": ("POS", 2, NUM), "le": ("POS", 2, NUM),
    "add": ("NUM", 0, NUM), "mul": ("NUM", 0, NUM), **dict.fromkeys(("inv", "sqrt", "exp", "log"), ("NUM", 1, NUM))}  # fmt: skip
#: {operator of a leaf: (a test of the leaf's part, the leaf's sort)}.
LEAVES = {"num": (lambda q: type(q) is Fraction, NUM), "only": (bool, pos(UNIT)),
          "lit": (lambda k: type(k) is int and k >= 1, SIZE)}  # fmt: skip
#: {operator: the number of parts}, where neither ``SIMPLE`` nor a sort determines it.
PLACES = {"lit": 1, "num": 1, "only": 0, "pow": 2, "call": 2, "inl": 2, "inr": 2, "move": 3}
#: Functions of one number for which the kernel has laws.
KNOWN = ("cos", "sin", "tanh", "relu")


def check(t):
    """The sort of a term without loose variables; raises ProofError if it makes no sense."""
    op, args = t.op, t.args
    must(len(args) == PLACES.get(op, len(args)), "{} takes other arguments: {}", op, t)
    if op in SIMPLE:
        return _simple(op, *args)
    if op == "let" and args[1].op in ("SIZE", "LAW", "NUM", "POS"):
        return check_sort(args[1])
    if op in LEAVES and all(map(LEAVES[op][0], args)):
        return LEAVES[op][1]
    if op == "pow" and type(args[1]) is int and args[1] >= 0:
        return fits(NUM, args[0])
    if op == "call" and args[0] in KNOWN:
        return fits(NUM, args[1])
    if op in BINDING:
        return BINDING[op](op, *args)
    must(op in ("inl", "inr"), "{} makes no sense here", t)
    other, own = args[0], range_of(args[1])
    fits(SIZE, other)
    return pos(Term("join", own, other) if op == "inl" else Term("join", other, own))


def range_of(p: Term) -> Term:
    """The size of the range of a position; raises ProofError if the term is not a position."""
    sort = check(p)
    must(sort.op == "POS", "{} is not a position", p)
    return sort.args[0]


def _simple(op, *args):
    below, count, result = SIMPLE[op]
    must(len(args) == (count or len(args)), "{} takes {} arguments", op, count)
    sorts = [check(a) for a in args]
    must(all(s.op == below for s in sorts), "{} does not take {}", op, args)
    must(below != "POS" or len({*sorts}) == 1, "positions of one range are compared, not {}", args)
    return result or pos(*args)


def _application(op, head, *arguments):
    """Check a letter or a word applied to arguments; return the sort of its value."""
    if head.op == "let":
        sort = check_sort(head.args[1], draws=True)
        number = sort.op == "DRAW" or sort.op == "FUN" and sort.args[1] == NUM
        must(number, "{} is not a function whose values are numbers", head)
        sorts = sort.args[2:]
    else:
        check_word(head)
        sorts = head.args[1].args[1:]
        if head.op == "rec":
            fits(SIZE, arguments[0])
            arguments = arguments[1:]
    must(len(arguments) == len(sorts), "{} takes {} arguments", head, len(sorts))
    for k, a in enumerate(arguments):
        fits(filled(sorts[k], arguments[:k]), a)
    return NUM


def _move(op, perm, way, p):
    """The sort of a position that a permutation or its inverse moves."""
    sort = perm.args[1] if perm.op == "let" else SIZE
    moves = sort.op == "FUN" and sort.args[0] == "perm" and way in (1, -1)
    must(moves, "{} moves nothing", perm)
    fits(check_sort(sort).args[1], p)
    return sort.args[1]


@cache  # a word cannot change, so one check is enough
def check_word(head):
    """Refuse a definition that contains a letter, or whose values are not numbers."""
    count = {"word": 2, "rec": 3}.get(head.op)
    must(len(head.args) == count and is_name(head.args[0]), "{} is not a definition", head)
    name, first, *step = head.args
    hidden = ", ".join(sorted(x.args[0] for x in head.letters))
    must(not hidden, "the definition of {} hides {}: make it a parameter", name, hidden)
    sorts = [check_function(f) for f in (first, *step)]
    if step:  # a step takes the start's arguments, a size, and the previous row
        *data, size, before = sorts[1]
        same = step[0].args[1:-2] == first.args[1:] and size == SIZE
        must(same and before == fun(data[-1]) and data[-1].op == "POS",
             "the step of {} takes what the start takes, a size, and the row before", name)  # fmt: skip


def check_function(f, draws=False):
    """The sorts of a function's arguments; raises ProofError if its values are not numbers."""
    must(type(f) is Term and f.op == "abs" and not f.loose, "{} is not a function", f)
    body, marks = looked_into(f)
    fits(NUM, body)
    return [check_sort(x.args[1], draws) for x in marks]


def check_sort(s, draws=False):
    """Return the sort ``s``; raise ProofError for a non-sort, or for a draw unless ``draws``."""
    if s.op == "POS":
        fits(SIZE, *s.args)
    elif s.op == "FUN":
        kind, result, *below = s.args
        moves = kind == "perm" and below == [result] and result.op == "POS"
        numbers = kind in ("any", "mask") and result == NUM
        must(moves or numbers, "{} is not a sort of functions", s)
        for a in below:
            must(check_sort(a).op != "FUN", "a function does not take functions")
    elif s.op == "DRAW":
        must(draws, "a draw may occur only inside a mean")
        law, variance, *below = s.args
        must(check(law) == LAW and fits(NUM, variance), "a draw has a law and a variance")
        must(sign(full(variance)), "a variance must be evidently at least 0, which {} is not", s)
        must(all(check_sort(a).op == "POS" for a in below), "a draw is a matrix")
    else:
        must(s in (SIZE, LAW, NUM, POSITIVE), "{} is not a sort", s)
    return s


def _over(op, f):
    """The sort of a sum over positions, or of a mean over draws."""
    sorts, wanted = check_function(f, draws=True), "POS" if op == "sum" else "DRAW"
    must(sorts and all(s.op == wanted for s in sorts), "a {} binds other things than {}", op, f)
    must(not any(s.loose for s in f.args[1:]), "what a {} binds together must be independent", op)
    return NUM


def _case(op, at, *branches):
    blocks = range_of(at).args
    must(range_of(at).op == "join" and len(branches) == 2, "{} is not in a joined range", at)
    for block, f in zip(blocks, branches):
        fits(fun(pos(block)), f)
    return NUM


BINDING: dict = {"app": _application, "move": _move, "sum": _over, "mean": _over,
           "deriv": lambda op, f, at: fits(fun(NUM), f) and fits(NUM, at), "case": _case}  # fmt: skip


def fits(sort, a):
    """Return the required ``sort`` if the term ``a`` has it; raise ProofError otherwise."""
    must(type(a) is Term and not a.loose, "{} is not a closed term", a)
    if sort.op != "FUN":
        found = check(a)
        must(found == sort or sort.op == found.op == "NUM", "{} is a {}, no {}", a, found, sort)
        must(sort != POSITIVE or sign(full(a)) == ABOVE_ZERO, "{} is not evidently positive", a)
        return sort
    kind, result, *below = sort.args
    must(a.op == "abs" and list(a.args[1:]) == below, "{} is not a function of {}", a, below)
    body, marks = looked_into(a)
    if kind == "perm":
        must(check(body) == result and inverse(a), "{} is not a chain of permutations", a)
        return sort
    must(kind == "any" or is_mask(full(body)), "{} is not evidently of zeros and ones", a)
    return fits(NUM, body) and sort


def full(t):
    """A term with every definition expanded."""
    written = unfolded(t) if t.op == "app" and t.args[0].op in ("word", "rec") else None
    if written is not None:
        return full(written)
    return t if t.op in ("let", "var", "word", "rec") else rebuilt(t, lambda a, _: full(a))


def is_mask(t):
    """Whether the form of a number shows that it is 0 or 1."""
    if t.op == "case":
        return all(is_mask(f.args[0]) for f in t.args[1:])
    if t.op == "mul":
        return all(map(is_mask, t.args))
    if t.op == "app" and t.args[0].op == "let":
        return t.args[0].args[1].args[0] == "mask"
    return t in (ZERO, ONE) or t.op in ("delta", "le")


UNKNOWN, AT_LEAST_ZERO, ABOVE_ZERO = range(3)


def sign(t):
    """What the form of a number shows about its sign: ABOVE_ZERO, AT_LEAST_ZERO or UNKNOWN."""
    op, args = t.op, t.args
    if op in ("exp", "size", "place") or op == "let" and args[1] == POSITIVE:
        return ABOVE_ZERO
    if op == "num":
        return ABOVE_ZERO if args[0] > 0 else AT_LEAST_ZERO if args[0] == 0 else UNKNOWN
    if is_mask(t) or op == "call" and args[0] == "relu":
        return AT_LEAST_ZERO
    if op in ("sqrt", "inv"):  # 1/0, and the root of a negative number, may be any number
        return sign(args[0]) if op == "sqrt" or sign(args[0]) == ABOVE_ZERO else UNKNOWN
    if op == "pow":
        return sign(args[0]) or (UNKNOWN if args[1] % 2 else AT_LEAST_ZERO)
    if op == "sum":  # sizes are at least 1, so no sum is empty
        below = sign(args[0].args[0])
        return below if below != AT_LEAST_ZERO else _reaches(args[0])
    if op not in ("add", "mul", "case"):
        return UNKNOWN
    if op == "mul":  # so that x x counts as a square
        args = [Term("pow", a, args.count(a)) for a in dict.fromkeys(args)]
    below = [sign(a.args[0] if a.op == "abs" else a) for a in (args[1:] if op == "case" else args)]
    return max(below) if op == "add" and UNKNOWN not in below else min(below)


def _reaches(f):
    """The sign of a sum of terms >= 0: above 0 if the form shows that one term is above 0."""
    body, marks = looked_into(f)
    factors = list(body.args) if body.op == "mul" else [body]
    weak = [a for a in factors if sign(a) != ABOVE_ZERO]
    others = [p for a in weak if a.op in ("le", "delta") for p in a.args if p != marks[0]]
    met = len(weak) == len(marks) == len(others) == 1 and marks[0] not in others[0].letters
    return ABOVE_ZERO if met else AT_LEAST_ZERO
