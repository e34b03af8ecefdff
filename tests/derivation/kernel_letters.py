"""Short names for terms and theorems of the kernel, for tests of its rules and normal forms."""

from derivation.kernel import rules
from derivation.kernel.terms import *
from derivation.language.letters import exact_number, letter

num, POINT, n_and = exact_number, pos(UNIT), lambda m: Term("join", n, m)
x, y, z = (letter(c, NUM) for c in "xyz")
p, n, m = letter("p", POSITIVE), letter("n", SIZE), letter("m", SIZE)
i, j, k = (letter(c, pos(n)) for c in "ijk")
A, f, g = letter("A", fun(pos(n))), letter("f", fun(NUM)), letter("g", fun(NUM))
flag, hole = letter("M", fun(pos(n), kind="mask")), letter("hole", fun())
turn = letter("π", fun(pos(n), kind="perm", result=pos(n)))

# Terms
inv, mul, add, app = (lambda *a, op=op: Term(op, *a) for op in ("inv", "mul", "add", "app"))
root, exp_, power, total_ = (lambda *a, op=op: Term(op, *a) for op in ("sqrt", "exp", "pow", "sum"))
made = lambda body, *letters: abstract(letters, body)
minus, quotient = lambda x: mul(num(-1), x), lambda x: mul(x, inv(x))
#: The number of positions k ≤ ``bound``, evidently positive unless the bound depends on k.
cut_at = lambda bound: total_(made(Term("le", k, bound), k))
summed = lambda body: total_(made(body, k))
relu = lambda x: Term("call", "relu", x)
moved = lambda at, way=1, by=turn: Term("move", by, way, at)
word_of = lambda name, body, *parameters: Term("word", name, abstract(parameters, body))
slope = lambda body, along, at: Term("deriv", made(body, along), at)
law = lambda name: Term("let", f"{name}_law", Term("LAW"))
mean = lambda body, *draws: Term("mean", abstract(draws, body))


def draw(name="R", variance=ONE, axes=(POINT,), of=None):
    return letter(name, Term("DRAW", of or law(name), variance, *axes))


# Theorems
assumed = lambda one, other: rules.given(made(one), made(other))
same = lambda term: equal(term, term)
over_y = lambda: equal(quotient(y), ONE)
cancelled = lambda: equal(add(x, minus(x)), ZERO)
root_of_square = lambda: equal(root(power(p, 2)), p)
mask_of_mask = lambda: equal(power(app(flag, i), 2), app(flag, i))


def equal(lhs, rhs, *letters, **more):
    return rules.by_normal_form(made(lhs, *letters), made(rhs, *letters), **more)


def needs(theorem):
    """The relations in the conditions of a theorem, sorted: "≠ 0", "exists" and so on."""
    return sorted(relation for relation, _ in theorem.conditions)
