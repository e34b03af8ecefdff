"""What each rule of the kernel does, and what it refuses to do."""

import numbers
from fractions import Fraction

import pytest
from derivation.kernel import normal, sorts, terms
from derivation.kernel.conditions import EXISTS
from derivation.kernel.normal import Normal
from derivation.kernel.sums import MOMENTS
from shared_terms import *

n_1 = Term("join", n, UNIT)


def test_normal_forms_bring_what_they_divide_by():
    assert needs(equal(quotient(x), ONE)) == ["≠ 0"]
    assert needs(equal(power(root(x), 2), x)) == ["≥ 0"]
    with pytest.raises(rules.Differ):
        equal(x, y)
    with pytest.raises(ProofError, match="different shapes"):
        rules.by_normal_form(made(ONE, x), made(ONE, i))
    with pytest.raises(ProofError, match="the laws are"):
        equal(x, x, laws=["any"])
    with pytest.raises(ProofError, match="are words"):
        equal(x, x, words=["softmax"])


def test_a_chain_has_no_gap_and_forgets_nothing():
    first, second = rules.given(made(x), made(y)), rules.given(made(y), made(z))
    both = rules.chain(first, second)
    assert (both.lhs, both.rhs) == (made(x), made(z)) and len(both.hypotheses) == 2
    with pytest.raises(ProofError, match="does not begin"):
        rules.chain(second, first)
    by_y, by_z = mul(x, quotient(y)), mul(x, quotient(z))
    assert len(rules.chain(equal(x, by_y), equal(by_y, by_z)).conditions) == 2
    back = rules.reverse(first)
    assert (back.lhs, back.rhs, back.hypotheses) == (made(y), made(x), first.hypotheses)


def test_the_mean_of_a_sum_needs_the_means_and_one_set_of_draws():
    R, other = draw(), draw(variance=num(4))
    plain, wild = made(app(R, ONLY), R), made(exp_(app(R, ONLY)), R)
    assert not rules.linearity(plain, plain).conditions, "a draw has two moments"
    assert needs(rules.linearity(plain, wild)) == [EXISTS, EXISTS], "of the sum, too"
    with pytest.raises(ProofError, match="different draws"):
        rules.linearity(plain, made(app(other, ONLY), other))


def test_the_existence_of_a_mean_is_carried():
    R = draw()
    of = lambda scale: made(mul(scale, exp_(app(R, ONLY))), R)
    theorem = rules.linearity(of(x), of(x))
    for_all = rules.for_every(theorem, [x])
    assert needs(for_all) == [EXISTS, EXISTS] and for_all.conditions != theorem.conditions
    assert rules.instance(theorem, {x: y}).conditions == rules.linearity(of(y), of(y)).conditions
    assert not rules.instance(theorem, {x: ZERO}).conditions, "the mean of 0 exists"


def test_an_instance_is_checked_and_carries_what_is_assumed():
    assumed = rules.given(made(x), made(y))
    found = rules.instance(assumed, {x: ONE})
    assert found.hypotheses == {(made(ONE), made(y))} and found.lhs == made(ONE)
    with pytest.raises(ProofError, match="no .NUM any"):
        rules.instance(assumed, {x: n})
    for no_letter in (ONE, "x"):
        with pytest.raises(ProofError, match="put for letters"):
            rules.instance(assumed, {no_letter: x})
    of_size = equal(app(A, i), app(A, i))
    with pytest.raises(ProofError, match="no .POS .lit 1"):
        rules.instance(of_size, {n: UNIT, i: j})
    assert rules.instance(of_size, {n: UNIT, i: ONLY})


def test_equals_for_equals_in_a_context():
    assumed, hole = rules.given(made(x), made(y)), letter("hole", fun())
    found = rules.congruence(assumed, made(inv(app(hole))), hole)
    assert (found.lhs, found.rhs) == (made(inv(x)), made(inv(y)))
    assert needs(found) == ["≠ 0", "≠ 0"], "of either side"
    assert found.hypotheses == assumed.hypotheses
    with pytest.raises(ProofError, match="sort"):
        rules.congruence(assumed, made(ONE), letter("hole", fun(NUM)))


def test_what_holds_of_a_letter_holds_of_all():
    theorem, assumed = equal(quotient(x), ONE), rules.given(made(x), made(ZERO))
    found = rules.for_every(theorem, [x])
    assert found.lhs == made(quotient(x), x)
    assert {f.args[1:] for _, f in found.conditions} == {(NUM,)}
    assert rules.reverse(assumed).hypotheses == assumed.hypotheses
    with pytest.raises(ProofError, match="a hypothesis speaks of x"):
        rules.for_every(assumed, [x])
    with pytest.raises(ProofError, match="is not generalised"):
        rules.for_every(theorem, [n])


def test_what_is_assumed_and_proved_is_no_assumption():
    assumed = rules.instance(rules.given(made(x), made(y)), {x: quotient(y), y: ONE})
    found = rules.discharge(assumed, equal(quotient(y), ONE))
    assert not found.hypotheses and needs(found) == ["≠ 0"]
    with pytest.raises(ProofError, match="is not assumed"):
        rules.discharge(assumed, equal(x, x))


def test_an_induction():
    ones = letter("l", pos(n_1))
    P = lambda size, k: (total_(made(ONE, k)), Term("size", size))
    at_n, after = P(n, k), P(n_1, ones)
    base, claim = equal(*P(UNIT, letter("l", pos(UNIT)))), rules.given(*map(made, at_n))
    hole = letter("hole", fun())
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


# ── Sorts and signs ──────────────────────────────────────────────────────────────────────────


def test_a_definition_written_out_under_a_binder_is_the_same():
    """A word of a function, used where that function speaks of what is bound around it."""
    at, f, B = letter("at", pos(n)), letter("f", fun(pos(n))), letter("B", fun(pos(n), pos(n)))
    inner = total_(made(mul(app(f, j), app(f, at)), j))
    row = made(total_(made(mul(app(B, k, j), app(B, i, j)), j)), i)
    whole = total_(made(app(word_of("w", inner, n, f, at), n, row, k), k))
    written = sorts.full(whole)
    assert Normal(None).poly(written) == Normal(None).poly(whole)
    assert not written.loose and sorts.check(written) == NUM


def test_positions_of_one_range_are_compared():
    other = letter("j", pos(letter("m", SIZE)))
    for op in ("delta", "le"):
        assert sorts.check(Term(op, i, i)) == NUM
        with pytest.raises(ProofError, match="positions of one range"):
            sorts.check(Term(op, i, other))


def test_a_letter_takes_what_its_sort_says():
    assert sorts.check(app(A, i)) == NUM
    for wrong in ((), (i, i), (x,), (ONLY,)):
        with pytest.raises(ProofError):
            sorts.check(app(A, *wrong))


def test_a_mask_stands_for_a_mask():
    flag = letter("M", fun(pos(n), kind="mask"))
    theorem = equal(power(app(flag, i), 2), app(flag, i))
    assert rules.instance(theorem, {flag: made(Term("delta", i, Term("last", n)), i)})
    with pytest.raises(ProofError, match="of the kind mask"):
        rules.instance(theorem, {flag: made(app(A, i), i)})


def test_the_blocks_of_a_case_are_those_of_its_range():
    m = letter("m", SIZE)
    both, l = letter("at", pos(Term("join", n, m))), letter("l", pos(m))
    of_n, of_m = made(app(A, i), i), made(ONE, l)
    assert sorts.check(Term("case", both, of_n, of_m)) == NUM
    for at, *blocks in ((both, of_m, of_n), (both, of_n, made(ONE, i)), (i, of_n, of_m)):
        with pytest.raises(ProofError, match="no joined range" if at is i else "no function of"):
            sorts.check(Term("case", at, *blocks))


def test_an_odd_power_has_any_sign():
    assert sorts.sign(power(x, 2)) == "0" and sorts.sign(power(x, 3)) is None
    assert sorts.sign(mul(x, x)) == "0"
    assert sorts.sign(mul(x, x, x)) is None and sorts.sign(mul(x, y)) is None


def cut_at(bound):
    """How many positions are at most this one."""
    return total_(made(Term("le", k, bound), k))


def test_a_cut_that_turns_with_its_index_may_be_empty():
    assert sorts.sign(cut_at(i)) == "+" and sorts.sign(cut_at(moved(k))) == "0"


def test_counting_counts_what_stands_still():
    assert equal(cut_at(i), Term("place", i), laws=["counting"])
    turned = Normal((), ["counting"]).poly(cut_at(moved(k)))
    assert not any("#" in letter.args[0] for m in turned for a, _ in m for letter in a.letters)


def test_a_variance_is_at_least_0():
    of = lambda variance: mean(app(draw(variance=variance), ONLY), draw(variance=variance))
    assert sorts.check(of(ONE)) == NUM
    for variance in (num(-1), x):
        with pytest.raises(ProofError, match="a variance"):
            sorts.check(of(variance))


def test_what_stands_for_a_permutation_is_one():
    there, back = app(A, moved(i)), app(A, moved(i, -1))
    inverse = made(moved(i, -1), i)
    assert rules.instance(equal(there, there), {turn: inverse}).lhs == made(back)
    assert rules.instance(equal(back, back), {turn: inverse}).lhs == made(there)
    with pytest.raises(ProofError, match="no chain of permutations"):
        rules.instance(equal(there, there), {turn: made(Term("last", n), i)})


def test_a_permutation_is_an_argument_of_a_word():
    word = word_of("w", app(A, moved(i)), n, A, turn, i)
    entry = app(word, n, made(app(A, i), i), made(moved(i, -1), i), i)
    assert equal(entry, entry) and equal(entry, app(A, moved(i, -1)), words=[word])


def test_blocks_carried_by_one_permutation_do_not_meet():
    size = Term("join", n, n)
    turned = letter("π", fun(pos(size), kind="perm", result=pos(size)))
    first, second = (moved(Term(side, n, i), -1, turned) for side in ("inl", "inr"))
    assert equal(Term("delta", first, second), ZERO, i)


def test_a_step_has_an_end():
    steps, normal.MOST_STEPS = normal.MOST_STEPS, 20
    try:
        with pytest.raises(ProofError, match="split it"):
            equal(power(add(x, y), 9), power(add(y, x), 9))
    finally:
        normal.MOST_STEPS = steps


def test_what_is_bound_further_out_stays_bound():
    bound = [Term("var", k) for k in range(3)]
    inner = add(bound[0], mul(bound[1], bound[2]))
    assert terms.put(inner, (x,)) == add(x, mul(bound[0], bound[1]))
    assert terms.put(inner, (x, y)) == add(y, mul(x, bound[0]))
    assert terms.put(add(x, y), (), {x: y, y: x}) == add(y, x), "all at once"


# ── What an attack found ─────────────────────────────────────────────────────────────────────


def test_a_condition_binds_a_size_before_its_positions():
    """In another order the size would stay behind in the sort of the position, free."""
    f = letter("f", fun(SIZE))
    below = add(app(f, n), Term("place", i))
    theorem = equal(quotient(below), ONE, n, i)
    assert not any(x.args[0].startswith("#") for _, c in theorem.conditions for x in c.letters)
    assert needs(rules.instance(theorem, {f: made(num(-2), n)})) == ["≠ 0"]


def test_what_is_averaged_is_asked_for_its_own_conditions_first():
    R, f = draw(), letter("A", fun(NUM))
    entry = app(R, ONLY)
    big, plain = lambda x: exp_(power(x, 4)), made(entry, R)
    theorem = rules.linearity(made(app(f, entry), R), plain)
    with pytest.raises(ProofError, match="a mean of a quotient"):
        rules.instance(theorem, {f: made(mul(big(x), quotient(relu(x))), x)})
    vanishing = made(mul(big(entry), add(ONE, mul(num(-1), y))), R)
    assert needs(rules.instance(rules.linearity(vanishing, plain), {y: quotient(x)})) == ["≠ 0"]


def test_terms_have_as_much_below_as_they_should():
    for wrong in (
        Term("lit", 2, x), Term("num", x), Term("only", x), Term("pow", x, 2, y),
        Term("call", "cos", x, y), Term("inl", UNIT, ONLY, x), Term("inr", UNIT),
    ):  # fmt: skip
        with pytest.raises(ProofError, match="takes other arguments|makes no sense"):
            sorts.check(wrong)
    for size in (Term("lit", 2, x), UNIT):
        at = letter("k", Term("POS", size, x))
        with pytest.raises((ProofError, TypeError)):
            rules.given(made(app(A, at)), made(ONE))


def test_nothing_bound_is_left_free_in_a_theorem():
    loose = Term("let", "#1", NUM)
    for sides in ((made(loose), made(ONE)), (made(ONE), made(loose))):
        with pytest.raises(ProofError, match="below a binder only"):
            rules.given(*sides)


def test_what_a_normal_form_returns_is_nobodys_constant():
    one = Normal().poly(Term("call", "cos", ZERO))
    with pytest.raises(TypeError):
        one[frozenset()] = 2
    assert equal(power(ZERO, 0), ONE)


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


def test_an_instance_says_what_its_sides_divide_by():
    """x - x = 0 holds of 1/y too, and then y is not 0."""
    theorem = equal(add(x, mul(num(-1), x)), ZERO)
    assert not theorem.conditions
    assert needs(rules.instance(theorem, {x: inv(y)})) == ["≠ 0"]
    with pytest.raises(ProofError, match="never holds"):
        rules.instance(theorem, {x: inv(ZERO)})


def test_an_instance_carries_what_its_proof_divided_by():
    there = equal(x, mul(x, quotient(y)))
    around = rules.chain(there, rules.reverse(there))
    assert y not in around.lhs.letters and needs(around) == ["≠ 0"]
    assert rules.instance(around, {y: z}).conditions == equal(quotient(z), ONE).conditions


def test_a_mean_in_a_side_exists_or_is_said_to():
    R = draw()
    wild = mean(exp_(app(R, ONLY)), R)
    assert needs(equal(add(wild, mul(num(-1), wild)), ZERO)) == [EXISTS]
    assert not equal(mean(power(app(R, ONLY), 2), R), ONE, laws=[MOMENTS]).conditions


def test_a_mean_of_what_a_word_divides_is_none():
    """Nor does a word hide that a mean is asked to exist, nor a variance what it divides by."""
    word, R, wild = word_of("w", inv(x), x), draw(axes=()), draw("Q", axes=())
    with pytest.raises(ProofError, match="quotient"):
        hidden = mean(mul(app(R), app(word, app(R))), R)
        equal(hidden, hidden)
    big = exp_(power(app(wild), 4))
    once = mean(mul(add(mul(y, app(word, y)), num(-1)), big), wild)
    assert "≠ 0" in needs(equal(once, once))
    drawn = draw("S", power(inv(y), 2), ())
    assert needs(equal(mean(app(drawn), drawn), ZERO, laws=[MOMENTS])) == ["≠ 0"]


def test_the_variance_of_a_draw_is_a_number_like_any_other():
    of = lambda R: mean(exp_(app(R)), R)
    four, square = draw(variance=num(4), axes=()), draw(variance=power(num(2), 2), axes=())
    assert equal(of(square), of(four))


def test_the_law_of_a_draw_is_a_letter():
    """Two draws of one variance are alike where they have one law, and nowhere else."""

    def wild(law):
        R = letter("R", Term("DRAW", law, ONE, pos(UNIT)))
        return mean(exp_(app(R, ONLY)), R)

    one, other = law("R"), law("S")
    with pytest.raises(rules.Differ):
        equal(wild(one), wild(other))
    both = rules.instance(equal(add(wild(one), x), add(x, wild(one))), {one: other})
    assert both.lhs == made(add(wild(other), x))
    free = app(draw(), ONLY)
    with pytest.raises(ProofError, match="bound by a mean"):
        equal(free, free)
    for no_law in (x, n, ONE):
        with pytest.raises(ProofError, match="a draw has a law"):
            equal(wild(no_law), wild(no_law))


def test_a_derivative_of_a_derivative_asks_of_both_scalars():
    """d/ds of d/dr (r relu(s)) is the slope of relu: not at its kink."""
    r, s = (letter(c, NUM) for c in "rs")
    for inner, at in ((slope(mul(r, relu(s)), r, ZERO), x), (slope(mul(s, relu(r)), r, x), ZERO)):
        outer = slope(inner, s, at)
        assert needs(equal(outer, outer)) == ["≠ 0"]


def test_what_is_no_sort_is_refused():
    for sort in (Term("FUN", "any", pos(n), pos(n)), Term("FUN", "perm", NUM, NUM)):
        with pytest.raises(ProofError, match="no sort"):
            sorts.check(app(Term("let", "F", sort), i))


def test_a_slope_goes_into_blocks_and_through_functions():
    s, at = letter("s", NUM), letter("p", pos(Term("join", n, n)))
    blocks = lambda first, second: Term("case", at, made(first, k), made(second, k))
    into = slope(blocks(mul(s, app(A, k)), ONE), s, ZERO)
    assert equal(into, blocks(app(A, k), ZERO), at)
    chained, f_0 = slope(app(g, mul(num(2), s)), s, ZERO), slope(app(g, x), x, ZERO)
    assert equal(chained, mul(num(2), f_0))
