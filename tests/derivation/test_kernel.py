"""What each rule of the kernel does and what it refuses, in terms of its own; and that it is small.

What an earlier kernel accepted stands here with the rule that is now in the way.
"""

import ast
import numbers
import sys
from fractions import Fraction
from pathlib import Path

import pytest
from derivation import reading
from derivation.kernel import normal, rules, sorts
from derivation.kernel.conditions import EXISTS
from derivation.kernel.normal import Normal
from derivation.kernel.sums import MOMENTS
from derivation.kernel.terms import *
from derivation.letters import exact_number, letter

KERNEL = Path(rules.__file__).parent
num, POINT = exact_number, pos(UNIT)
x, y, z = (letter(c, NUM) for c in "xyz")
p, n, m = letter("p", POSITIVE), letter("n", SIZE), letter("m", SIZE)
i, j, k = (letter(c, pos(n)) for c in "ijk")
A, g = letter("A", fun(pos(n))), letter("g", fun(NUM))
flag, hole = letter("M", fun(pos(n), kind="mask")), letter("hole", fun())
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


def draw(name="R", variance=ONE, axes=(POINT,), of=None):
    return letter(name, Term("DRAW", of or law(name), variance, *axes))


def mean(body, *draws):
    return Term("mean", abstract(draws, body))


def needs(theorem):
    """What the conditions of a theorem say of their terms."""
    return sorted(relation for relation, _ in theorem.conditions)


R, other = draw(), draw(variance=num(4))
entry = app(R, ONLY)
plain, wild = made(entry, R), mean(exp_(entry), R)
by_y, by_z = mul(x, quotient(y)), mul(x, quotient(z))
over_itself, over_x = word_of("w", quotient(x), x), word_of("v", inv(x), x)
chained, kink = slope(app(g, y), y, x), made(root(power(y, 2)), y)


def assumed(one, other):
    return rules.given(made(one), made(other))


def same(term):
    return equal(term, term)


def over_y():
    return equal(quotient(y), ONE)


def root_of_square():
    return equal(root(power(p, 2)), p)


def mask_of_mask():
    return equal(power(app(flag, i), 2), app(flag, i))


def scaled(scale):
    """E(e^R) of a scale, as the mean of a sum whose existence has to be assumed."""
    return rules.linearity(*[made(mul(scale, exp_(entry)), R)] * 2)


def of_variance(variance, name="Q"):
    drawn = draw(name, variance, ())
    return mean(app(drawn), drawn)


def of_law(of):
    drawn = draw(of=of)
    return mean(exp_(app(drawn, ONLY)), drawn)


def put_into_a_mean(body):
    """The theorem about E f(R), at f as it is said."""
    f = letter("f", fun(NUM))
    return rules.instance(rules.linearity(made(app(f, entry), R), plain), {f: made(body(x), x)})


def vanishing_at(value):
    zero_at_one = mul(exp_(power(entry, 4)), add(ONE, mul(num(-1), y)))
    return rules.instance(rules.linearity(made(zero_at_one, R), plain), {y: value})


def in_a_mean(body):
    drawn = draw("Q", axes=())
    return same(mean(body(app(drawn)), drawn))


def size_and_position(value):
    """A condition binds a size before its positions; else the size would stay behind, free."""
    f = letter("f", fun(SIZE))
    theorem = equal(quotient(add(app(f, n), Term("place", i))), ONE, n, i)
    return rules.instance(theorem, {f: made(value, n)})


def slope_of_slope(along, inner, at_first, at_last):
    """d/ds of d/dr (r relu(s)) is the slope of relu: not at its kink."""
    r, s = along
    return same(slope(slope(inner, r, at_first), s, at_last))


#: A theorem, and what it says that it needs.
CONDITIONS = {
    "a divisor": (lambda: equal(quotient(x), ONE), ["≠ 0"]),
    "a root": (lambda: equal(power(root(x), 2), x), ["≥ 0"]),
    "both lines of a chain": (
        lambda: rules.chain(equal(x, by_y), equal(by_y, by_z)), ["≠ 0", "≠ 0"]),
    "what a chain came through": (
        lambda: rules.chain(equal(x, by_y), rules.reverse(equal(x, by_y))), ["≠ 0"]),
    "both sides, in a context": (
        lambda: rules.congruence(assumed(x, y), made(inv(app(hole))), hole), ["≠ 0", "≠ 0"]),
    "a divisor that is a quotient": (lambda: rules.instance(over_y(), {y: quotient(x)}), ["≠ 0"]),
    "what cancels, at a quotient": (
        lambda: rules.instance(equal(add(x, mul(num(-1), x)), ZERO), {x: inv(y)}), ["≠ 0"]),
    "a divisor within a word": (lambda: equal(quotient(app(over_itself, x)), ONE), ["≠ 0"]),
    "words that are read once": (
        lambda: equal(app(over_itself, x), ONE, words=iter([over_itself])), ["≠ 0"]),
    "a size and its position": (lambda: size_and_position(num(-2)), ["≠ 0"]),
    "a mean of a draw": (lambda: rules.linearity(plain, plain), []),
    "a mean of a sum": (lambda: rules.linearity(plain, made(exp_(entry), R)), [EXISTS, EXISTS]),
    "a mean of 0": (lambda: rules.instance(scaled(x), {x: ZERO}), []),
    "a mean in a side": (lambda: equal(add(wild, mul(num(-1), wild)), ZERO), [EXISTS]),
    "a second moment": (lambda: equal(mean(power(entry, 2), R), ONE, laws=[MOMENTS]), []),
    "what is averaged and vanishes": (lambda: vanishing_at(quotient(x)), ["≠ 0"]),
    "a variance that divides": (
        lambda: equal(of_variance(power(inv(y), 2)), ZERO, laws=[MOMENTS]), ["≠ 0"]),
    "a smooth letter at a kink": (
        lambda: rules.instance(same(chained), {g: kink}), ["≠ 0", "≠ 0"]),
    "the inner scalar at a kink": (
        lambda: slope_of_slope((x, y), mul(x, relu(y)), ZERO, z), ["≠ 0"]),
    "the outer scalar at a kink": (
        lambda: slope_of_slope((x, y), mul(y, relu(x)), z, ZERO), ["≠ 0"]),
    "a word that divides, in a mean": (
        lambda: in_a_mean(lambda q: mul(add(mul(y, app(over_x, y)), num(-1)), exp_(power(q, 4)))),
        ["≠ 0"]),
}  # fmt: skip


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_theorem_says_what_it_needs(name):
    prove, expected = CONDITIONS[name]
    assert needs(prove()) == expected


both, l = letter("at", pos(Term("join", n, m))), letter("l", pos(m))
of_n, of_m = made(app(A, i), i), made(ONE, l)
numbers_moved, nameless = letter("r", fun(NUM, kind="perm")), Term("FUN", "perm", pos(n), pos(n))
loose, free_law = Term("let", "#1", NUM), Term("word", "f", Term("abs", ONE, R.args[1]))
double, triple = (word_of("g", mul(num(q), x), x) for q in (2, 3))


def stays_free():
    square = slope(mul(app(g, y), app(g, y)), y, x)
    return equal(square, mul(num(2), app(g, x), chained), g)


REFUSED = {
    # rules
    "two numbers": (lambda: equal(x, y), "two sides differ"),
    "two shapes": (lambda: rules.by_normal_form(made(ONE, x), made(ONE, i)), "different shapes"),
    "no law": (lambda: equal(x, x, laws=["any"]), "the laws are"),
    "no word": (lambda: equal(x, x, words=["softmax"]), "are words"),
    "a gap in a chain": (lambda: rules.chain(assumed(y, z), assumed(x, y)), "does not begin"),
    "two sets of draws": (
        lambda: rules.linearity(plain, made(app(other, ONLY), other)), "different draws"),
    "a size for a number": (lambda: rules.instance(assumed(x, y), {x: n}), "no .NUM any"),
    "what is put for a number": (lambda: rules.instance(assumed(x, y), {ONE: x}), "put for letters"),
    "what is put for a name": (lambda: rules.instance(assumed(x, y), {"x": x}), "put for letters"),
    "a position of another range": (
        lambda: rules.instance(same(app(A, i)), {n: UNIT, i: j}), "no .POS .lit 1"),
    "a hole of another sort": (
        lambda: rules.congruence(assumed(x, y), made(ONE), letter("hole", fun(NUM))), "sort"),
    "a hole for what is positive": (
        lambda: rules.congruence(
            equal(root(power(p, 2)), p, p), made(app(letter("h", fun(POSITIVE)), x)),
            letter("h", fun(POSITIVE))), "not evidently positive"),
    "a letter of a hypothesis": (
        lambda: rules.for_every(assumed(x, y), [x]), "a hypothesis speaks of x"),
    "a size, for every one": (lambda: rules.for_every(over_y(), [n]), "is not generalised"),
    "what is not assumed": (lambda: rules.discharge(assumed(x, y), same(x)), "is not assumed"),
    "what is no mask": (
        lambda: rules.instance(mask_of_mask(), {flag: made(app(A, i), i)}), "of the kind mask"),
    "what is no permutation": (
        lambda: rules.instance(same(app(A, moved(i))), {turn: made(Term("last", n), i)}), "no chain of perm"),
    "a divisor of 0": (lambda: rules.instance(over_y(), {y: ZERO}), "never holds"),
    "what cancels, at 1/0": (
        lambda: rules.instance(equal(add(x, mul(num(-1), x)), ZERO), {x: inv(ZERO)}), "never holds"),
    "a smooth letter, bound": (stays_free, "stays free"),
    **{f"for what is positive, {value}": (
        lambda value=value: rules.instance(root_of_square(), {p: value}), "not evidently positive")
       for value in (num(-1), x, add(ONE, root(x)), add(ONE, inv(relu(x))))},
    # draws and means
    "a mean of a quotient": (
        lambda: put_into_a_mean(lambda v: mul(exp_(power(v, 4)), quotient(relu(v)))),
        "a mean of a quotient"),
    "a mean of a quotient in a word": (
        lambda: in_a_mean(lambda q: mul(q, app(over_x, q))), "quotient"),
    "a hypothesis about a draw": (
        lambda: rules.given(made(entry), made(mul(num(2), entry))), "a draw is bound by a mean"),
    "a draw for a parameter": (lambda: sorts.check(app(free_law, ONE)), "hides R_law"),
    "a draw outside a mean": (lambda: same(entry), "bound by a mean"),
    "two laws": (lambda: equal(of_law(law("R")), of_law(law("S"))), "two sides differ"),
    **{f"the law {no}": (lambda no=no: same(of_law(no)), "a draw has a law")
       for no in (x, n, ONE)},
    **{f"the variance {v}": (lambda v=v: sorts.check(of_variance(v)), "a variance")
       for v in (num(-1), x)},
    # sorts
    "a word that hides a letter": (
        lambda: sorts.check(app(word_of("f", mul(x, y), x), x)), "hides y"),
    **{f"{op} of two ranges": (
        lambda op=op: sorts.check(Term(op, i, l)), "positions of one range")
       for op in ("delta", "le")},
    **{f"entries at {at}": (lambda at=at: sorts.check(app(A, *at)), "takes 1 arg|no .POS")
       for at in ((), (i, i), (x,), (ONLY,))},
    "blocks in another order": (lambda: sorts.check(Term("case", both, of_m, of_n)), "no function of"),
    "a block of another range": (
        lambda: sorts.check(Term("case", both, of_n, made(ONE, i))), "no function of"),
    "a case of a plain range": (
        lambda: sorts.check(Term("case", i, of_n, of_m)), "no joined range"),
    "a permutation of numbers": (lambda: sorts.check(moved(x, by=numbers_moved)), "no sort of func"),
    "a permutation without a name": (lambda: sorts.check(moved(i, by=nameless)), "moves nothing"),
    **{f"the sort {sort}": (
        lambda sort=sort: sorts.check(app(Term("let", "F", sort), i)), "no sort")
       for sort in (Term("FUN", "any", pos(n), pos(n)), Term("FUN", "perm", NUM, NUM))},
    **{f"below, {wrong.op} {len(wrong.args)}": (
        lambda wrong=wrong: sorts.check(wrong), "takes other arguments|makes no sense")
       for wrong in (
        Term("lit", 2, x), Term("num", x), Term("only", x), Term("pow", x, 2, y),
        Term("call", "cos", x, y), Term("inl", UNIT, ONLY, x), Term("inr", UNIT))},
    **{f"a position of {size}": (
        lambda size=size: rules.given(made(app(A, letter("k", Term("POS", size, x)))), made(ONE)),
        "positional arguments")
       for size in (Term("lit", 2, x), UNIT)},
    "what is bound, free on the left": (
        lambda: rules.given(made(loose), made(ONE)), "below a binder only"),
    "what is bound, free on the right": (
        lambda: rules.given(made(ONE), made(loose)), "below a binder only"),
    # names
    **{f"two things called {name}": (
        lambda one=one, two=two: same(add(one, two)), f"two things called {name}")
       for one, two, name in (
        (app(letter("A", fun(NUM)), x), app(A, i), "A"), (x, letter("x", POSITIVE), "x"),
        (app(double, x), app(triple, x), "g"), (Term("let", "cos", NUM), ONE, "cos"))},
    **{f"the name {name!r}": (
        lambda name=name: rules.given(made(Term("let", name, NUM)), made(ONE)), "has no name")
       for name in ("#1", "x) + (y", "2", "")},
    # nothing but a rule makes a theorem
    "made by hand": (lambda: rules.Theorem(made(x), made(y)), "takes no arguments"),
    "another side": (lambda: setattr(same(x), "rhs", made(y)), "immutable"),
    "without conditions": (lambda: delattr(same(x), "conditions"), "immutable"),
    "another kind": (lambda: type("Mine", (rules.Theorem,), {}), "no other Theorem"),
    "terms that are all equal": (
        lambda: type("Mine", (Term,), {"__eq__": lambda a, b: True}), "no other Term"),
    "a term made again": (lambda: x.__init__("num", ONE), "no term is made of"),
    "two sorts": (lambda: Term("let", "x", NUM, POSITIVE), "no term is made of"),
    "a float": (lambda: Term("num", 0.5), "no term is made of"),
    "a float for a number": (lambda: num(0.5), "not an exact number"),
    "a boolean": (lambda: Term("lit", True), "no term is made of"),
    "no theorem": (lambda: rules.chain(same(x), object()), "no theorem"),
    "no context": (lambda: rules.congruence(same(x), object(), x), "of the equation's sort"),
    "no letter": (
        lambda: rules.for_every(assumed(x, ZERO), [object()]), "no term"),
    "no value": (lambda: rules.instance(same(x), {x: 1}), "no term"),
}  # fmt: skip


@pytest.mark.parametrize("attack", REFUSED)
def test_it_is_refused(attack):
    attempt, words = REFUSED[attack]
    with pytest.raises((ProofError, AttributeError, TypeError), match=words):
        attempt()


# ── Rules ────────────────────────────────────────────────────────────────────────────────────


def test_what_is_assumed_is_kept_by_every_rule():
    both, back = rules.chain(assumed(x, y), assumed(y, z)), rules.reverse(assumed(x, y))
    assert (both.lhs, both.rhs) == (made(x), made(z)) and len(both.hypotheses) == 2
    assert (back.lhs, back.rhs, back.hypotheses) == (made(y), made(x), assumed(x, y).hypotheses)
    found = rules.congruence(assumed(x, y), made(inv(app(hole))), hole)
    assert (found.lhs, found.rhs) == (made(inv(x)), made(inv(y)))
    assert found.hypotheses == assumed(x, y).hypotheses
    found = rules.instance(assumed(x, y), {x: ONE})
    assert found.hypotheses == {(made(ONE), made(y))} and found.lhs == made(ONE)
    assert rules.instance(same(app(A, i)), {n: UNIT, i: ONLY})


def test_what_is_needed_is_put_and_generalised_with_the_theorem():
    found = rules.for_every(equal(quotient(x), ONE), [x])
    assert found.lhs == made(quotient(x), x)
    assert {f.args[1:] for _, f in found.conditions} == {(NUM,)}
    for_all = rules.for_every(scaled(x), [x])
    assert needs(for_all) == [EXISTS, EXISTS] and for_all.conditions != scaled(x).conditions
    assert rules.instance(scaled(x), {x: y}).conditions == scaled(y).conditions
    there = equal(x, by_y)
    around = rules.chain(there, rules.reverse(there))  # its sides do not mention y
    assert rules.instance(around, {y: z}).conditions == equal(quotient(z), ONE).conditions


def test_what_is_assumed_and_proved_is_no_assumption():
    found = rules.instance(assumed(x, y), {x: quotient(y), y: ONE})
    found = rules.discharge(found, over_y())
    assert not found.hypotheses and needs(found) == ["≠ 0"]


n_1 = Term("join", n, UNIT)


def test_an_induction():
    ones = letter("l", pos(n_1))
    P = lambda size, k: (total_(made(ONE, k)), Term("size", size))
    at_n, after = P(n, k), P(n_1, ones)
    base, claim = equal(*P(UNIT, letter("l", pos(UNIT)))), rules.given(*map(made, at_n))
    one_more = made(add(app(hole), ONE))

    def by(theorem, lhs, rhs):
        """The step, written so that it makes use of the claim."""
        first = equal(lhs, add(at_n[0], ONE), laws=["splitting a sum"])
        step = rules.chain(first, rules.congruence(theorem, one_more, hole))
        return rules.chain(step, equal(add(at_n[1], ONE), rhs))

    found = rules.induction(base, by(claim, *after), n)
    assert (found.lhs, found.rhs) == tuple(map(made, at_n)) and not found.hypotheses
    elsewhere = rules.congruence(rules.given(made(Term("size", n)), made(ONE)), one_more, hole)
    also_given = rules.chain(by(claim, *after), equal(after[1], add(Term("size", n), ONE)))
    for first, step, words in (
        (equal(ONE, ONE), by(claim, *after), "not the statement at"),
        (base, by(claim, add(after[0], ZERO), after[1]), "not the statement at"),
        (base, equal(*after), "nothing else about the size"),
        (base, rules.chain(also_given, elsewhere), "nothing else about the size"),
    ):
        with pytest.raises(ProofError, match=words):
            rules.induction(first, step, n)


def test_no_condition_of_an_induction_speaks_of_its_size():
    """At one size x is 0; that it is 0 at no size is not shown by the step."""
    x_n = lambda size: app(letter("a", fun(NUM)), Term("size", size))
    sides = lambda size: (mul(ZERO, x_n(size)), ZERO)
    base, claim = equal(*sides(UNIT)), rules.given(*map(made, sides(n)))
    around = rules.chain(rules.reverse(claim), claim)
    step = rules.chain(equal(sides(n_1)[0], ZERO), around)
    assert rules.induction(base, step, n)
    nothing = mul(ZERO, quotient(x_n(n)))
    divided = rules.chain(rules.chain(step, equal(ZERO, nothing)), equal(nothing, ZERO))
    with pytest.raises(ProofError, match="a condition speaks of the size"):
        rules.induction(base, divided, n)


def test_what_fits_is_put():
    """The controls of what is refused above."""
    at_last = made(Term("delta", i, Term("last", n)), i)
    assert rules.instance(mask_of_mask(), {flag: at_last})
    assert rules.instance(root_of_square(), {p: add(ONE, root(p))})
    positive = letter("h", fun(POSITIVE))
    assert rules.congruence(equal(root(power(p, 2)), p, p), made(app(positive, ONE)), positive)
    assert sorts.check(Term("case", both, of_n, of_m)) == NUM
    for right in (Term("delta", i, i), Term("le", i, i), app(A, i), of_variance(ONE)):
        assert sorts.check(right) == NUM


def test_what_stands_for_a_permutation_is_one():
    there, back = app(A, moved(i)), app(A, moved(i, -1))
    inverse = made(moved(i, -1), i)
    assert rules.instance(same(there), {turn: inverse}).lhs == made(back)
    assert rules.instance(same(back), {turn: inverse}).lhs == made(there)
    word = word_of("w", app(A, moved(i)), n, A, turn, i)
    entry = app(word, n, made(app(A, i), i), made(moved(i, -1), i), i)
    assert same(entry) and equal(entry, app(A, moved(i, -1)), words=[word])


def test_the_law_of_a_draw_is_a_letter_and_its_variance_a_number_like_any_other():
    one, other = law("R"), law("S")
    swapped = rules.instance(equal(add(of_law(one), x), add(x, of_law(one))), {one: other})
    assert swapped.lhs == made(add(of_law(other), x))
    of = lambda R: mean(exp_(app(R)), R)
    four, square = draw(variance=num(4), axes=()), draw(variance=power(num(2), 2), axes=())
    assert equal(of(square), of(four))


def test_letters_are_read_once():
    """What changes while it is read would generalise a letter that a hypothesis speaks of."""
    reads = iter([[y], [x]])

    class Changing:
        def __iter__(self):
            return iter(next(reads))

    assert rules.for_every(assumed(x, ZERO), Changing()).lhs == made(x, y)


def test_no_theorem_is_left_where_one_was_refused():
    one, other = letter("a", NUM), letter("a", POSITIVE)
    with pytest.raises(ProofError, match="two things called a") as refused:
        equal(add(one, other), add(one, other))
    frames = [entry.frame.f_locals for entry in refused.traceback]
    assert not any(isinstance(v, rules.Theorem) for local in frames[1:] for v in local.values())


# ── Terms, signs and normal forms ────────────────────────────────────────────────────────────


def test_what_is_bound_further_out_stays_bound():
    bound = [Term("var", k) for k in range(3)]
    inner = add(bound[0], mul(bound[1], bound[2]))
    assert put(inner, (x,)) == add(x, mul(bound[0], bound[1]))
    assert put(inner, (x, y)) == add(y, mul(x, bound[0]))
    assert put(add(x, y), (), {x: y, y: x}) == add(y, x), "all at once"


def test_a_number_is_made_of_pythons_own():
    """Fraction keeps whatever a registered Rational has above and below; the kernel does not."""

    class Odd(int):
        def __bool__(self):
            return False

    class Rational:
        def __init__(self, *parts):
            self.numerator, self.denominator = parts

    numbers.Rational.register(Rational)
    for parts in ((Odd(1), 1), (1, Odd(1)), (1.0, 1), (-1, -1), (2, 2)):
        made_of_it = Term("num", Fraction(Rational(*parts)))
        assert made_of_it == ONE and made_of_it.key == ONE.key
        assert {type(n) for n in made_of_it.args[0].as_integer_ratio()} == {int}
        assert bool(made_of_it.args[0])


def test_a_definition_written_out_under_a_binder_is_the_same():
    """A word of a function, used where that function speaks of what is bound around it."""
    at, f, B = letter("at", pos(n)), letter("f", fun(pos(n))), letter("B", fun(pos(n), pos(n)))
    inner = total_(made(mul(app(f, j), app(f, at)), j))
    row = made(total_(made(mul(app(B, k, j), app(B, i, j)), j)), i)
    whole = total_(made(app(word_of("w", inner, n, f, at), n, row, k), k))
    written = sorts.full(whole)
    assert Normal(None).poly(written) == Normal(None).poly(whole)
    assert not written.loose and sorts.check(written) == NUM


def cut_at(bound):
    """How many positions are at most this one; a cut that turns with its index may be empty."""
    return total_(made(Term("le", k, bound), k))


SIGNS = {
    power(x, 2): "0", power(x, 3): None, mul(x, x): "0", mul(x, x, x): None, mul(x, y): None,
    cut_at(i): "+", cut_at(moved(k)): "0",
}  # fmt: skip


@pytest.mark.parametrize("term", SIGNS, ids=str)
def test_a_sign_is_one_that_every_value_has(term):
    assert sorts.sign(term) == SIGNS[term]


def test_counting_counts_what_stands_still():
    assert equal(cut_at(i), Term("place", i), laws=["counting"])
    turned = Normal((), ["counting"]).poly(cut_at(moved(k)))
    assert not any("#" in letter.args[0] for m in turned for a, _ in m for letter in a.letters)


def test_blocks_carried_by_one_permutation_do_not_meet():
    size = Term("join", n, n)
    turned = letter("π", fun(pos(size), kind="perm", result=pos(size)))
    first, second = (moved(Term(side, n, i), -1, turned) for side in ("inl", "inr"))
    assert equal(Term("delta", first, second), ZERO, i)


def test_a_delta_leaves_the_variance_of_a_draw_and_free_denominators_alone():
    variance = letter("u", fun(pos(n), kind="positive"))
    mask_of = letter("b", fun(NUM, kind="mask"))
    D = draw("D", app(variance, j), (pos(n),))
    here = Term("delta", i, j)
    masked = mean(mul(here, app(mask_of, app(D, k))), D)
    with pytest.raises(rules.Differ):
        equal(power(masked, 2), masked)
    q = mul(here, inv(power(app(flag, j), 2)))
    with pytest.raises(rules.Differ):
        equal(root(add(q, y)), root(add(q, mul(y, app(flag, i)))))


def test_what_a_normal_form_returns_is_nobodys_constant():
    one = Normal().poly(Term("call", "cos", ZERO))
    with pytest.raises(TypeError):
        one[frozenset()] = 2
    assert equal(power(ZERO, 0), ONE)


def test_a_step_has_an_end(monkeypatch):
    monkeypatch.setattr(normal, "MOST_STEPS", 20)
    with pytest.raises(ProofError, match="split it"):
        equal(power(add(x, y), 9), power(add(y, x), 9))


def test_a_slope_goes_into_blocks_and_through_functions():
    s, at = letter("s", NUM), letter("p", pos(Term("join", n, n)))
    blocks = lambda first, second: Term("case", at, made(first, k), made(second, k))
    into = slope(blocks(mul(s, app(A, k)), ONE), s, ZERO)
    assert equal(into, blocks(app(A, k), ZERO), at)
    through, f_0 = slope(app(g, mul(num(2), s)), s, ZERO), slope(app(g, x), x, ZERO)
    assert equal(through, mul(num(2), f_0))


# ── Its size, and what it stands on ──────────────────────────────────────────────────────────


def test_it_is_read_in_one_sitting():
    """At most a thousand lines, in the files of chapter 0; a line of each kind is counted once."""
    assert {path.stem for path in KERNEL.glob("*.py")} == {*reading.KERNEL, "__init__"}
    assert reading.lines_of_code((KERNEL / "__init__.py").read_text(encoding="utf-8")) == 0
    assert sum(lines for lines, _ in reading.kernel().values()) <= 1000
    counted = 'def f():\n    """Says."""\n\n    # why\n    return [\n        1,  # one\n    ]\n'
    assert reading.lines_of_code(counted) == 4


def test_it_imports_nothing_else_of_the_project():
    for path in KERNEL.glob("*.py"):
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        froms = [(n.level, n.module or "") for n in nodes if isinstance(n, ast.ImportFrom)]
        plain = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
        outside = {module.split(".")[0] for level, module in froms if not level}
        assert plain <= sys.stdlib_module_names, path.name
        assert outside <= sys.stdlib_module_names | {"sympy"}, path.name
        own = [(level, (KERNEL / f"{module}.py").exists()) for level, module in froms if level]
        assert set(own) <= {(1, True)}, path.name
