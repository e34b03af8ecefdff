"""Each rule of the kernel is tested on bare terms, and the kernel's size is limited.

Lines that an earlier kernel wrongly accepted are listed under the rule that now refuses them.
"""

import ast
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from derivation import line_counts
from derivation.kernel import rules, sorts
from derivation.kernel.conditions import EXISTS
from derivation.kernel.sums import LINEAR, MOMENTS
from derivation.kernel.terms import *
from kernel_letters import *
from shared_letters import refuse, refused

KERNEL = Path(rules.__file__).parent
R, other, Q = draw(), draw(variance=num(4)), draw("Q", axes=())
entry = app(R, ONLY)
plain, wild = made(entry, R), mean(exp_(entry), R)
by_y, by_z, x_y = mul(x, quotient(y)), mul(x, quotient(z)), add(x, y)
over_itself, over_x = word_of("w", quotient(x), x), word_of("v", inv(x), x)
chained, kink = slope(app(g, y), y, x), made(root(power(y, 2)), y)


def linear(f, g):
    """Prove that the mean of f + g is the sum of their means."""
    body, marks = looked_into(f)
    whole = abstract(marks, add(body, opened(g, *marks)))
    sides = Term("mean", whole), add(Term("mean", f), Term("mean", g))
    return rules.by_normal_form(*[Term("abs", side) for side in sides], laws=[LINEAR])


#: E(s e^R + s e^R), for s = ``scale``, as two means, whose existence becomes a condition.
scaled = lambda scale: linear(*[made(mul(scale, exp_(entry)), R)] * 2)
in_a_mean = lambda body: same(mean(body(app(Q)), Q))
#: Means over draws of the given variance or law.
of_variance = lambda variance: in_one_number(draw("Q", variance, ()))
in_one_number = lambda drawn: mean(app(drawn), drawn)
of_law = lambda of: mean(exp_(app(draw(of=of), ONLY)), draw(of=of))


#: A mean that is 0 where y is 1; the mean of any function; functions of sizes and of what is positive.
zero_at_one = made(mul(exp_(power(entry, 4)), add(ONE, minus(y))), R)
any_mean = lambda: linear(made(app(f, entry), R), plain)
at_size, positive = letter("f", fun(SIZE)), letter("h", fun(POSITIVE))
root_of_p = lambda: equal(root(power(p, 2)), p, p)
square_slope = slope(mul(app(g, y), app(g, y)), y, x)


def slope_of_slope(inner, at_first, at_last):
    """The equation of a second slope with itself; its conditions exclude the kink of relu."""
    return same(slope(slope(inner, x, at_first), y, at_last))


#: {title: (function that proves a theorem, the relations in its conditions)}
CONDITIONS = {
    "a divisor": (lambda: equal(quotient(x), ONE), ["≠ 0"]),
    "a root": (lambda: equal(power(root(x), 2), x), ["≥ 0"]),
    "both lines of a chain": (
        lambda: rules.chain(equal(x, by_y), equal(by_y, by_z)), ["≠ 0", "≠ 0"]),
    "both sides, in a context": (
        lambda: rules.congruence(assumed(x, y), made(inv(app(hole))), hole), ["≠ 0", "≠ 0"]),
    "what cancels, at a quotient": (lambda: rules.instance(cancelled(), {x: inv(y)}), ["≠ 0"]),
    "a divisor within a word": (lambda: equal(quotient(app(over_itself, x)), ONE), ["≠ 0"]),
    # the condition must bind the size n before the position i that runs to n
    "a size and its position": (
        lambda: rules.instance(
            equal(quotient(add(app(at_size, n), Term("place", i))), ONE, n, i),
            {at_size: made(num(-2), n)}),
        ["≠ 0"]),
    "a mean of a sum": (lambda: linear(plain, made(exp_(entry), R)), [EXISTS, EXISTS]),
    "a mean of 0": (lambda: rules.instance(scaled(x), {x: ZERO}), []),
    "a mean in a side": (lambda: equal(add(wild, minus(wild)), ZERO), [EXISTS]),
    "a second moment": (lambda: equal(mean(power(entry, 2), R), ONE, laws=[MOMENTS]), []),
    "what is averaged and vanishes": (
        lambda: rules.instance(linear(zero_at_one, plain), {y: quotient(x)}), ["≠ 0"]),
    "a smooth letter at a kink": (
        lambda: rules.instance(same(chained), {g: kink}), ["≠ 0", "≠ 0"]),
    "the inner scalar at a kink": (lambda: slope_of_slope(mul(x, relu(y)), ZERO, z), ["≠ 0"]),
    "the outer scalar at a kink": (lambda: slope_of_slope(mul(y, relu(x)), z, ZERO), ["≠ 0"]),
    "a word that divides, in a mean": (
        lambda: in_a_mean(lambda q: mul(add(mul(y, app(over_x, y)), num(-1)), exp_(power(q, 4)))),
        ["≠ 0"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_theorem_has_the_conditions_it_needs(name):
    prove, expected = CONDITIONS[name]
    assert needs(prove()) == expected


varying, l = draw("D", app(flag, i), (pos(n),)), letter("l", pos(m))
both = letter("at", pos(n_and(m)))
of_n, of_m = made(app(A, i), i), made(ONE, l)
numbers_moved, nameless = letter("r", fun(NUM, kind="perm")), Term("FUN", "perm", pos(n), pos(n))
double, triple = (word_of("g", mul(num(q), x), x) for q in (2, 3))
named = lambda name, sort=NUM: Term("let", name, sort)
assumes = lambda lhs, rhs=ONE: lambda: assumed(lhs, rhs)
#: An imitation of a theorem, x = y, that no rule has made.
forged = SimpleNamespace(lhs=made(x), rhs=made(y), conditions=frozenset(), hypotheses=frozenset())


def checked(*terms):
    """Cases for `refused` that check the sorts of these terms."""
    return {str(t): lambda t=t: sorts.check(t) for t in terms}


def at(theorem, letter, value):
    return lambda: rules.instance(theorem(), {letter: value})


test_a_faulty_use_is_refused = refused({
    # rules
    "two sides differ": {
        "two numbers": lambda: equal(x, y),
        "two laws": lambda: equal(of_law(law("R")), of_law(law("S"))),
    },
    "have different shapes": lambda: rules.by_normal_form(made(ONE, x), made(ONE, i)),
    "the laws are": lambda: equal(x, x, laws=["any"]),
    "second equation does not begin": lambda: rules.chain(assumed(y, z), assumed(x, y)),
    "is a (SIZE ), no (NUM any)": lambda: rules.instance(assumed(x, y), {x: n}),
    "only letters can be replaced": lambda: rules.instance(assumed(x, y), {ONE: x}),
    "no (POS (lit 1": lambda: rules.instance(same(app(A, i)), {n: UNIT, i: j}),
    "the hole is not of the equation's sort": {
        "of another": lambda: rules.congruence(assumed(x, y), made(ONE), letter("h", fun(NUM))),
        "of none": lambda: rules.congruence(same(x), object(), x),
    },
    "a hypothesis contains x": lambda: rules.for_every(assumed(x, y), [x]),
    "cannot be generalised": lambda: rules.for_every(over_y(), [n]),
    "is not assumed": lambda: rules.discharge(assumed(x, y), same(x)),
    "not evidently of zeros and ones": at(mask_of_mask, flag, made(app(A, i), i)),
    "not a chain of perm": at(lambda: same(app(A, moved(i))), turn, made(Term("last", n), i)),
    "never holds": {
        "a divisor of 0": at(over_y, y, ZERO),
        "what cancels, at 1/0": at(cancelled, x, inv(ZERO)),
        "a root that vanishes": lambda: same(
            inv(add(root(power(inv(x_y), 2)), minus(root(inv(power(x_y, 2))))))),
    },
    "a smooth function stays free": lambda: equal(
        square_slope, mul(num(2), app(g, x), chained), g),
    "too large": lambda: same(inv(power(power(num(2), 9999), 9999))),
    "not evidently positive": {
        "a hole for what is positive": lambda: rules.congruence(
            root_of_p(), made(app(positive, x)), positive),
        **{f"put for what is positive, {value}": at(root_of_square, p, value)
           for value in (num(-1), x, add(ONE, root(x)), add(ONE, inv(relu(x))))},
    },
    # draws and means
    "a mean of a quotient": {
        "after an instance": at(
            any_mean, f, made(mul(exp_(power(x, 4)), quotient(relu(x))), x)),
        "in a word": lambda: in_a_mean(lambda q: mul(q, app(over_x, q))),
    },
    "a draw may occur only inside a mean": {
        "and nothing is assumed of it": assumes(entry, mul(num(2), entry)),
        "and stands in no side": lambda: same(entry),
        "of any variance": lambda: equal(quotient(app(varying, i)), ONE, i, varying),
    },
    "hides R_law": checked(app(Term("word", "f", Term("abs", ONE, R.args[1])), ONE)),
    "a draw has a law": {str(no): lambda no=no: same(of_law(no)) for no in (x, n, ONE)},
    "a variance": checked(of_variance(num(-1)), of_variance(x)),
    # sorts
    "hides y": checked(app(word_of("f", mul(x, y), x), x)),
    "positions of one range": checked(Term("delta", i, l), Term("le", i, l)),
    "takes 1 arguments": checked(app(A), app(A, i, i)),
    "no (POS (let n": checked(app(A, x), app(A, ONLY)),
    "not a function of": checked(*(Term("case", both, *fs) for fs in ((of_m, of_n), (of_n, of_n)))),
    "not in a joined range": checked(Term("case", i, of_n, of_m)),
    "not a sort of functions": checked(
        moved(x, by=numbers_moved), app(named("F", Term("FUN", "any", pos(n), pos(n))), i)),
    "moves nothing": checked(moved(i, by=nameless)),
    "takes other arguments": checked(
        Term("lit", 2, x), Term("only", x), Term("pow", x, 2, y), Term("inr", UNIT)),
    "makes no sense": checked(Term("num", x)),
    "positional arguments": assumes(app(A, letter("k", Term("POS", UNIT, x)))),
    # names
    "two things called": {
        name: lambda sides=sides: same(add(*sides)) for name, sides in {
            "a function and another": (app(letter("A", fun(NUM)), x), app(A, i)),
            "a number and one that is positive": (x, letter("x", POSITIVE)),
            "two words": (app(double, x), app(triple, x)),
            "a letter and a known function": (named("cos"), ONE)}.items()},
    "has no name that a reader can write": {
        "on the right": assumes(ONE, named("#1")),
        **{repr(name): assumes(named(name)) for name in ("#1", "x) + (y", "2", "")},
    },
    # nothing but a rule makes a theorem
    "Proved() takes no arguments": lambda: rules.Proved(made(x), made(y)),
    "a Proved is immutable": {
        "another side": lambda: setattr(same(x), "rhs", made(y)),
        "without conditions": lambda: delattr(same(x), "conditions"),
    },
    "no term is made of": {
        "a subclass": lambda: add(x, type("Mine", (Term,), {"__slots__": ()})("add", x)),
        "two sorts": lambda: Term("let", "x", NUM, POSITIVE),
        "a float": lambda: Term("num", 0.5),
        "a boolean": lambda: Term("lit", True),
    },
    "not a theorem": {
        "chain": lambda: rules.chain(same(x), forged),
        "reverse": lambda: rules.reverse(forged),
        "instance": lambda: rules.instance(forged, {}),
        "congruence": lambda: rules.congruence(forged, made(app(hole)), hole),
        "for_every": lambda: rules.for_every(forged, []),
        "discharge": lambda: rules.discharge(assumed(x, y), forged),
        "induction": lambda: rules.induction(forged, assumed(x, Term("size", n)), n),
    },
    "A is of that size": lambda: rules.induction(
        same(x), assumed(total_(made(app(A, k), k)), Term("size", n)), n),
    "is not a closed term": {
        "a letter": lambda: rules.for_every(assumed(x, ZERO), [object()]),
        "a value": lambda: rules.instance(same(x), {x: 1}),
        "what is bound": lambda: sorts.fits(NUM, Term("var", 0)),
    },
})  # fmt: skip


# ── Rules ────────────────────────────────────────────────────────────────────────────────────


def test_every_rule_keeps_hypotheses():
    both, back = rules.chain(assumed(x, y), assumed(y, z)), rules.reverse(assumed(x, y))
    assert (both.lhs, both.rhs) == (made(x), made(z)) and len(both.hypotheses) == 2
    assert (back.lhs, back.rhs, back.hypotheses) == (made(y), made(x), assumed(x, y).hypotheses)
    found = rules.congruence(assumed(x, y), made(inv(app(hole))), hole)
    assert (found.lhs, found.rhs) == (made(inv(x)), made(inv(y)))
    assert found.hypotheses == assumed(x, y).hypotheses
    found = rules.instance(assumed(x, y), {x: ONE})
    assert found.hypotheses == {(made(ONE), made(y))} and found.lhs == made(ONE)
    assert rules.instance(same(app(A, i)), {n: UNIT, i: ONLY})


def test_conditions_are_instantiated_and_generalised_with_the_theorem():
    found = rules.for_every(equal(quotient(x), ONE), [x])
    assert found.lhs == made(quotient(x), x)
    assert {f.args[1:] for _, f in found.conditions} == {(NUM,)}
    for_all = rules.for_every(scaled(x), [x])
    assert needs(for_all) == [EXISTS, EXISTS] and for_all.conditions != scaled(x).conditions
    assert rules.instance(scaled(x), {x: y}).conditions == scaled(y).conditions
    there = equal(x, by_y)
    around = rules.chain(there, rules.reverse(there))  # y occurs only in the condition
    assert rules.instance(around, {y: z}).conditions == equal(quotient(z), ONE).conditions


def test_discharging_a_hypothesis_removes_it():
    found = rules.instance(assumed(x, y), {x: quotient(y), y: ONE})
    found = rules.discharge(found, over_y())
    assert not found.hypotheses and needs(found) == ["≠ 0"]


n_1 = n_and(UNIT)


def test_an_induction_needs_its_base_and_its_step():
    P = lambda size, k: (total_(made(ONE, k)), Term("size", size))
    at_n, after = P(n, k), P(n_1, letter("l", pos(n_1)))
    base, claim = equal(*P(UNIT, letter("l", pos(UNIT)))), rules.given(*map(made, at_n))
    one_more = made(add(app(hole), ONE))

    def by(theorem, lhs, rhs):
        """An induction step that uses ``theorem`` once."""
        first = equal(lhs, add(at_n[0], ONE), laws=["splitting a sum"])
        step = rules.chain(first, rules.congruence(theorem, one_more, hole))
        return rules.chain(step, equal(add(at_n[1], ONE), rhs))

    found = rules.induction(base, by(claim, *after), n)
    assert (found.lhs, found.rhs) == tuple(map(made, at_n)) and not found.hypotheses
    elsewhere = rules.congruence(assumed(Term("size", n), ONE), one_more, hole)
    also_given = rules.chain(by(claim, *after), equal(after[1], add(Term("size", n), ONE)))
    for first, step, words in (
        (equal(ONE, ONE), by(claim, *after), "not the statement at"),
        (base, by(claim, add(after[0], ZERO), after[1]), "not the statement at"),
        (base, equal(*after), "nothing else about the size"),
        (base, rules.chain(also_given, elsewhere), "nothing else about the size"),
    ):
        refuse(lambda first=first, step=step: rules.induction(first, step, n), words)


def test_no_condition_of_an_induction_depends_on_its_size():
    """A condition on n may fail at the next size, so an induction refuses it."""
    x_n = lambda size: app(letter("a", fun(NUM)), Term("size", size))
    sides = lambda size: (mul(ZERO, x_n(size)), ZERO)
    base, claim = equal(*sides(UNIT)), rules.given(*map(made, sides(n)))
    around = rules.chain(rules.reverse(claim), claim)
    step = rules.chain(equal(sides(n_1)[0], ZERO), around)
    assert rules.induction(base, step, n)
    nothing = mul(ZERO, quotient(x_n(n)))
    divided = rules.chain(rules.chain(step, equal(ZERO, nothing)), equal(nothing, ZERO))
    refuse(lambda: rules.induction(base, divided, n), "a condition depends on the size")


def test_values_of_the_right_sort_are_accepted():
    at_last = made(Term("delta", i, Term("last", n)), i)
    assert rules.instance(mask_of_mask(), {flag: at_last})
    assert rules.instance(root_of_square(), {p: add(ONE, root(p))})
    assert rules.congruence(root_of_p(), made(app(positive, ONE)), positive)
    one, other = draw(variance=num(4), axes=()), draw(variance=power(num(2), 2), axes=())
    of = lambda R: mean(exp_(app(R)), R)
    assert equal(of(one), of(other)), "one variance, written in two ways"


def test_an_inverse_may_replace_a_permutation():
    there, back = app(A, moved(i)), app(A, moved(i, -1))
    inverse = made(moved(i, -1), i)
    assert rules.instance(same(there), {turn: inverse}).lhs == made(back)
    assert rules.instance(same(back), {turn: inverse}).lhs == made(there)
    word = word_of("w", app(A, moved(i)), n, A, turn, i)
    written = app(word, n, made(app(A, i), i), inverse, i)
    assert same(written) and equal(written, back, words=[word])


def test_an_iterable_of_letters_is_read_only_once():
    """Read twice, a changing iterable could make the rule generalise a letter of a hypothesis."""
    reads = iter([[y], [x]])
    changing = type("Changing", (), {"__iter__": lambda self: iter(next(reads))})
    assert rules.for_every(assumed(x, ZERO), changing()).lhs == made(x, y)


def test_a_refusal_leaves_no_theorem_in_the_traceback():
    with pytest.raises(ProofError, match="two things called a") as refused:
        same(add(letter("a", NUM), letter("a", POSITIVE)))
    frames = [entry.frame.f_locals for entry in refused.traceback]
    assert not any(isinstance(v, rules.Proved) for local in frames[1:] for v in local.values())


# ── The size of the kernel, and what it imports ──────────────────────────────────────────────


def test_the_kernel_has_at_most_a_thousand_lines():
    assert {path.stem for path in KERNEL.glob("*.py")} == {*line_counts.KERNEL, "__init__"}
    assert sum(lines for lines, _ in line_counts.kernel().values()) <= 1000
    counted = 'def f():\n    """Says."""\n\n    # why\n    return [\n        1,  # one\n    ]\n'
    assert line_counts.lines_of_code(counted) == 4


def test_the_kernel_imports_only_itself_pythons_library_and_sympy():
    for path in KERNEL.glob("*.py"):  # `test_layers` shows that it takes nothing from another layer
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom) and not getattr(node, "level", 0):
                names = [getattr(node, "module", None) or a.name for a in node.names]
                found = {name.split(".")[0] for name in names}
                assert found <= sys.stdlib_module_names | {"sympy"}, path.name
