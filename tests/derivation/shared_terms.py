"""Terms of the kernel that its tests share, and what they ask of its theorems."""

from derivation.kernel import rules
from derivation.kernel.terms import *
from derivation.letters import exact_number, letter

num, POINT = exact_number, pos(UNIT)
x, y, z = (letter(c, NUM) for c in "xyz")
p, n = letter("p", POSITIVE), letter("n", SIZE)
i, j, k = (letter(c, pos(n)) for c in "ijk")
A, g = letter("A", fun(pos(n))), letter("g", fun(NUM))
turn = letter("π", fun(pos(n), kind="perm", result=pos(n)))
inv, mul, add, app = (lambda *a, op=op: Term(op, *a) for op in ("inv", "mul", "add", "app"))
root, exp_, power, total_ = (lambda *a, op=op: Term(op, *a) for op in ("sqrt", "exp", "pow", "sum"))


def made(body, *letters):
    return abstract(letters, body)


def equal(lhs, rhs, *letters, **more):
    return rules.by_normal_form(made(lhs, *letters), made(rhs, *letters), **more)


def quotient(x):
    return mul(x, inv(x))


def relu(x):
    return Term("call", "relu", x)


def moved(at, way=1, by=turn):
    return Term("move", by, way, at)


def word_of(name, body, *parameters):
    return Term("word", name, abstract(parameters, body))


def slope(body, along, at):
    return Term("deriv", made(body, along), at)


def law(name):
    return Term("let", f"{name}_law", Term("LAW"))


def draw(name="R", variance=ONE, axes=(POINT,)):
    return letter(name, Term("DRAW", law(name), variance, *axes))


def mean(body, *draws):
    return Term("mean", abstract(draws, body))


def needs(theorem):
    """What the conditions of a theorem say of their terms."""
    return sorted(relation for relation, _ in theorem.conditions)
