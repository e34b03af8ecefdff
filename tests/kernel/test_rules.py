"""What each rule of the kernel does, and what it refuses to do."""

import numbers
from fractions import Fraction

import pytest
from derivation.kernel import normal, rules
from derivation.kernel.conditions import EXISTS
from derivation.kernel.normal import Normal
from derivation.kernel.sorts import check, full, sign
from derivation.kernel.sums import MOMENTS
from derivation.kernel.terms import (
    NUM,
    ONE,
    ONLY,
    SIZE,
    UNIT,
    ZERO,
    ProofError,
    Term,
    abstract,
    fun,
    pos,
    put,
)
from derivation.letters import exact_number as num
from derivation.letters import letter

x, y, z = (letter(c, NUM) for c in "xyz")
n = letter("n", SIZE)
i = letter("i", pos(n))
A = letter("A", fun(pos(n)))
inv, mul, add, app = (lambda *a, op=op: Term(op, *a) for op in ("inv", "mul", "add", "app"))


def made(body, *letters):
    return abstract(letters, body)


def equal(a, b, *letters, **more):
    return rules.by_normal_form(made(a, *letters), made(b, *letters), **more)


def quotient(a):
    return mul(a, inv(a))


def needs(theorem):
    return {relation for relation, _ in theorem.conditions}


def test_normal_forms_bring_what_they_divide_by():
    assert needs(equal(quotient(x), ONE)) == {"≠ 0"}
    assert needs(equal(Term("pow", Term("sqrt", x), 2), x)) == {"≥ 0"}
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
    divided = rules.chain(
        equal(x, mul(x, quotient(y))), equal(mul(x, quotient(y)), mul(x, quotient(z)))
    )
    assert len(divided.conditions) == 2
    back = rules.reverse(first)
    assert (back.lhs, back.rhs, back.hypotheses) == (made(y), made(x), first.hypotheses)


def test_the_mean_of_a_sum_needs_the_means_and_one_set_of_draws():
    draw = letter("R", Term("DRAW", Term("let", "R_law", Term("LAW")), ONE, pos(UNIT)))
    entry = app(draw, ONLY)
    plain, wild = made(entry, draw), made(Term("exp", entry), draw)
    assert not rules.linearity(plain, plain).conditions, "a draw has two moments"
    assert needs(rules.linearity(plain, wild)) == {EXISTS}
    other = letter("R", Term("DRAW", Term("let", "R_law", Term("LAW")), num(4), pos(UNIT)))
    with pytest.raises(ProofError, match="different draws"):
        rules.linearity(plain, made(app(other, ONLY), other))


def test_the_existence_of_a_mean_is_carried():
    draw = letter("R", Term("DRAW", Term("let", "R_law", Term("LAW")), ONE, pos(UNIT)))
    of = lambda scale: made(mul(scale, Term("exp", app(draw, ONLY))), draw)
    theorem = rules.linearity(of(x), of(x))
    for_all = rules.for_every(theorem, [x])
    assert needs(for_all) == {EXISTS} and for_all.conditions != theorem.conditions
    assert rules.instance(theorem, {x: y}).conditions == rules.linearity(of(y), of(y)).conditions
    assert not rules.instance(theorem, {x: ZERO}).conditions, "the mean of 0 exists"


def test_an_instance_is_checked_and_carries_what_is_assumed():
    assumed = rules.given(made(x), made(y))
    found = rules.instance(assumed, {x: ONE})
    assert found.hypotheses == {(made(ONE), made(y))} and found.lhs == made(ONE)
    with pytest.raises(ProofError):
        rules.instance(assumed, {x: n})
    with pytest.raises(ProofError, match="put for letters"):
        rules.instance(assumed, {ONE: x})
    of_size = equal(app(A, i), app(A, i))
    with pytest.raises(ProofError):
        rules.instance(of_size, {n: UNIT, i: letter("j", pos(n))})
    assert rules.instance(of_size, {n: UNIT, i: ONLY})


def test_equals_for_equals_in_a_context():
    assumed = rules.given(made(x), made(y))
    hole = letter("hole", fun())
    found = rules.congruence(assumed, made(inv(app(hole))), hole)
    assert (found.lhs, found.rhs) == (made(inv(x)), made(inv(y))) and needs(found) == {"≠ 0"}
    assert found.hypotheses == assumed.hypotheses
    with pytest.raises(ProofError, match="sort"):
        rules.congruence(assumed, made(ONE), letter("hole", fun(NUM)))


def test_what_holds_of_a_letter_holds_of_all():
    theorem = equal(quotient(x), ONE)
    found = rules.for_every(theorem, [x])
    assert found.lhs == made(quotient(x), x)
    assert {f.args[1:] for _, f in found.conditions} == {(NUM,)}
    with pytest.raises(ProofError, match="a hypothesis speaks of x"):
        rules.for_every(rules.given(made(x), made(ZERO)), [x])
    with pytest.raises(ProofError, match="is not generalised"):
        rules.for_every(theorem, [n])


def test_what_is_assumed_and_proved_is_no_assumption():
    assumed = rules.instance(rules.given(made(x), made(y)), {x: quotient(y), y: ONE})
    found = rules.discharge(assumed, equal(quotient(y), ONE))
    assert not found.hypotheses and needs(found) == {"≠ 0"}
    with pytest.raises(ProofError, match="is not assumed"):
        rules.discharge(assumed, equal(x, x))


def summed(size, entry=lambda k: ONE):
    k = letter("k", pos(size))
    return Term("sum", made(entry(k), k))


def test_an_induction():
    P = lambda size: (summed(size), Term("size", size))
    step = Term("join", n, UNIT)
    base = equal(*P(UNIT))
    claim = rules.given(*map(made, P(n)))

    def by(theorem, sides):
        """The step, written so that it makes use of the claim."""
        lhs, rhs = sides
        first = equal(lhs, add(P(n)[0], ONE), laws=["splitting a sum"])
        hole = letter("hole", fun())
        second = rules.congruence(theorem, made(add(app(hole), ONE)), hole)
        return rules.chain(rules.chain(first, second), equal(add(P(n)[1], ONE), rhs))

    found = rules.induction(base, by(claim, P(step)), n)
    assert (found.lhs, found.rhs) == tuple(map(made, P(n))) and not found.hypotheses
    with pytest.raises(ProofError, match="not the statement at"):
        rules.induction(equal(ONE, ONE), by(claim, P(step)), n)
    with pytest.raises(ProofError, match="not the statement at"):
        rules.induction(base, by(claim, (add(P(step)[0], ZERO), P(step)[1])), n)
    with pytest.raises(ProofError, match="nothing else about the size"):
        rules.induction(base, equal(*P(step)), n)
    other = rules.given(made(Term("size", n)), made(ONE))
    both = rules.chain(
        rules.chain(by(claim, P(step)), equal(P(step)[1], add(Term("size", n), ONE))),
        rules.congruence(other, made(add(app(letter("hole", fun())), ONE)), letter("hole", fun())),
    )
    with pytest.raises(ProofError, match="nothing else about the size"):
        rules.induction(base, both, n)


def test_no_condition_of_an_induction_speaks_of_its_size():
    """At one size x is 0; that it is 0 at no size is not shown by the step."""
    x_n = lambda size: app(letter("a", fun(NUM)), Term("size", size))
    sides = lambda size: (mul(ZERO, x_n(size)), ZERO)
    base = equal(*sides(UNIT))
    claim = rules.given(*map(made, sides(n)))
    back = rules.reverse(claim)
    after = [made(side) for side in sides(Term("join", n, UNIT))]
    step = rules.chain(rules.by_normal_form(after[0], made(ZERO)), rules.chain(back, claim))
    assert rules.induction(base, step, n)
    divided = rules.chain(step, equal(ZERO, mul(ZERO, quotient(x_n(n)))))
    divided = rules.chain(divided, equal(mul(ZERO, quotient(x_n(n))), ZERO))
    with pytest.raises(ProofError, match="a condition speaks of the size"):
        rules.induction(base, divided, n)


def test_a_definition_written_out_under_a_binder_is_the_same():
    """A word of a function, used where that function speaks of what is bound around it."""
    at, f = letter("at", pos(n)), letter("f", fun(pos(n)))
    j, k = letter("j", pos(n)), letter("k", pos(n))
    inner = Term("sum", made(mul(app(f, j), app(f, at)), j))
    word = Term("word", "w", abstract([n, f, at], inner))
    B = letter("B", fun(pos(n), pos(n)))
    row = made(Term("sum", made(mul(app(B, k, j), app(B, i, j)), j)), i)
    whole = Term("sum", made(app(word, n, row, k), k))
    assert Normal(None).poly(full(whole)) == Normal(None).poly(whole)
    assert not full(whole).loose and check(full(whole)) == NUM


def test_positions_of_one_range_are_compared():
    other = letter("j", pos(letter("m", SIZE)))
    for op in ("delta", "le"):
        assert check(Term(op, i, i)) == NUM
        with pytest.raises(ProofError, match="positions of one range"):
            check(Term(op, i, other))


def test_a_letter_takes_what_its_sort_says():
    assert check(app(A, i)) == NUM
    for wrong in ((), (i, i), (x,), (ONLY,)):
        with pytest.raises(ProofError):
            check(app(A, *wrong))


def test_a_mask_stands_for_a_mask():
    flag = letter("M", fun(pos(n), kind="mask"))
    theorem = equal(Term("pow", app(flag, i), 2), app(flag, i))
    assert rules.instance(theorem, {flag: made(Term("delta", i, Term("last", n)), i)})
    with pytest.raises(ProofError, match="of the kind mask"):
        rules.instance(theorem, {flag: made(app(A, i), i)})


def test_the_blocks_of_a_case_are_those_of_its_range():
    m = letter("m", SIZE)
    both, j = letter("at", pos(Term("join", n, m))), letter("j", pos(m))
    assert check(Term("case", both, made(app(A, i), i), made(ONE, j))) == NUM
    for blocks in ((made(ONE, j), made(app(A, i), i)), (made(app(A, i), i), made(ONE, i))):
        with pytest.raises(ProofError):
            check(Term("case", both, *blocks))
    with pytest.raises(ProofError, match="no joined range"):
        check(Term("case", i, made(app(A, i), i), made(ONE, j)))


def test_an_odd_power_has_any_sign():
    assert sign(Term("pow", x, 2)) == "0" and sign(Term("pow", x, 3)) is None
    assert sign(mul(x, x)) == "0" and sign(mul(x, x, x)) is None and sign(mul(x, y)) is None


def test_counting_counts_what_stands_still():
    k, shuffled = letter("k", pos(n)), letter("p", fun(pos(n), kind="perm", result=pos(n)))
    cut = lambda bound: Term("sum", made(Term("le", k, bound), k))
    assert equal(cut(i), Term("place", i), laws=["counting"])
    turned = Normal((), ["counting"]).poly(cut(Term("move", shuffled, 1, k)))
    assert not any("#" in letter.args[0] for m in turned for a, _ in m for letter in a.letters)


def test_a_variance_is_at_least_0():
    draw = lambda variance: letter(
        "R", Term("DRAW", Term("let", "R_law", Term("LAW")), variance, pos(UNIT))
    )
    mean = lambda variance: Term("mean", made(app(draw(variance), ONLY), draw(variance)))
    assert check(mean(ONE)) == NUM
    for variance in (num(-1), x):
        with pytest.raises(ProofError, match="a variance"):
            check(mean(variance))


def test_what_stands_for_a_permutation_is_one():
    shuffled = letter("p", fun(pos(n), kind="perm", result=pos(n)))
    theorem = equal(app(A, Term("move", shuffled, 1, i)), app(A, Term("move", shuffled, 1, i)))
    swapped = made(Term("move", shuffled, -1, i), i)
    back = app(A, Term("move", shuffled, -1, i))
    assert rules.instance(theorem, {shuffled: swapped}).lhs == made(back)
    there = rules.instance(equal(back, back), {shuffled: swapped}).lhs
    assert there == made(app(A, Term("move", shuffled, 1, i)))
    with pytest.raises(ProofError, match="no chain of permutations"):
        rules.instance(theorem, {shuffled: made(Term("last", n), i)})


def test_a_cut_that_turns_with_its_index_may_be_empty():
    k = letter("k", pos(n))
    shuffled = letter("p", fun(pos(n), kind="perm", result=pos(n)))
    cut = lambda bound: sign(Term("sum", made(Term("le", k, bound), k)))
    assert cut(i) == "+" and cut(Term("move", shuffled, 1, k)) == "0"


def test_a_step_has_an_end():
    steps, normal.MOST_STEPS = normal.MOST_STEPS, 20
    try:
        with pytest.raises(ProofError, match="split it"):
            equal(Term("pow", add(x, y), 9), Term("pow", add(y, x), 9))
    finally:
        normal.MOST_STEPS = steps


def test_what_is_bound_further_out_stays_bound():
    bound = [Term("var", k) for k in range(3)]
    inner = add(bound[0], mul(bound[1], bound[2]))
    assert put(inner, (x,)) == add(x, mul(bound[0], bound[1]))
    assert put(inner, (x, y)) == add(y, mul(x, bound[0]))


# ── What an attack found ─────────────────────────────────────────────────────────────────────


def test_a_condition_binds_a_size_before_its_positions():
    """In another order the size would stay behind in the sort of the position, free."""
    f = letter("f", fun(SIZE))
    below = add(app(f, n), Term("place", i))
    theorem = rules.by_normal_form(made(quotient(below), n, i), made(ONE, n, i))
    assert not any(x.args[0].startswith("#") for _, c in theorem.conditions for x in c.letters)
    assert needs(rules.instance(theorem, {f: made(num(-2), n)})) == {"≠ 0"}


def test_what_is_averaged_is_asked_for_its_own_conditions_first():
    draw = letter("R", Term("DRAW", Term("let", "R_law", Term("LAW")), ONE, pos(UNIT)))
    entry, A = app(draw, ONLY), letter("A", fun(NUM))
    theorem = rules.linearity(made(app(A, entry), draw), made(entry, draw))
    kink = Term("call", "relu", x)
    with pytest.raises(ProofError, match="a mean of a quotient"):
        rules.instance(theorem, {A: made(mul(Term("exp", Term("pow", x, 4)), quotient(kink)), x)})
    wild = mul(Term("exp", Term("pow", entry, 4)), add(ONE, mul(num(-1), y)))
    vanishing = rules.linearity(made(wild, draw), made(entry, draw))
    assert needs(rules.instance(vanishing, {y: quotient(x)})) == {"≠ 0"}


def test_terms_have_as_much_below_as_they_should():
    for wrong in (
        Term("lit", 2, x), Term("num", x), Term("only", x), Term("pow", x, 2, y),
        Term("call", "cos", x, y), Term("inl", UNIT, ONLY, x), Term("inr", UNIT),
    ):  # fmt: skip
        with pytest.raises(ProofError):
            check(wrong)
    for size in (Term("lit", 2, x), UNIT):
        at = letter("k", Term("POS", size, x))
        with pytest.raises((ProofError, TypeError)):
            rules.given(made(app(A, at)), made(ONE))


def test_nothing_bound_is_left_free_in_a_theorem():
    loose = Term("let", "#1", NUM)
    for sides in ((made(loose), made(ONE)), (made(ONE), made(loose))):
        with pytest.raises(ProofError):
            rules.given(*sides)


def test_what_a_normal_form_returns_is_nobodys_constant():
    one = Normal().poly(Term("place", ONLY))
    with pytest.raises(TypeError):
        one[frozenset()] = 2
    assert equal(Term("pow", ZERO, 0), ONE)


def test_a_permutation_is_an_argument_of_a_word():
    shuffled = letter("p", fun(pos(n), kind="perm", result=pos(n)))
    word = Term("word", "w", abstract([n, A, shuffled, i], app(A, Term("move", shuffled, 1, i))))
    back = made(Term("move", shuffled, -1, i), i)
    entry = app(word, n, made(app(A, i), i), back, i)
    assert equal(entry, entry) and equal(entry, app(A, Term("move", shuffled, -1, i)), words=[word])


def test_put_is_simultaneous():
    assert put(add(x, y), (), {x: y, y: x}) == add(y, x)


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
    assert needs(rules.instance(theorem, {x: inv(y)})) == {"≠ 0"}
    with pytest.raises(ProofError, match="never holds"):
        rules.instance(theorem, {x: inv(ZERO)})


def test_an_instance_carries_what_its_proof_divided_by():
    there = equal(x, mul(x, quotient(y)))
    around = rules.chain(there, rules.reverse(there))
    assert y not in around.lhs.letters and needs(around) == {"≠ 0"}
    assert rules.instance(around, {y: z}).conditions == equal(quotient(z), ONE).conditions


def test_a_mean_in_a_side_exists_or_is_said_to():
    draw = letter("R", Term("DRAW", Term("let", "R_law", Term("LAW")), ONE, pos(UNIT)))
    mean = lambda body: Term("mean", abstract([draw], body))
    wild = mean(Term("exp", app(draw, ONLY)))
    assert needs(equal(add(wild, mul(num(-1), wild)), ZERO)) == {EXISTS}
    assert not equal(mean(Term("pow", app(draw, ONLY), 2)), ONE, laws=[MOMENTS]).conditions


def test_a_mean_of_what_a_word_divides_is_none():
    """Nor does a word hide that a mean is asked to exist, nor a variance what it divides by."""
    word = Term("word", "w", made(inv(x), x))
    draw, wild = (
        letter("R", Term("DRAW", Term("let", f"{c}_law", Term("LAW")), ONE)) for c in "RQ"
    )
    mean = lambda body, *draws: Term("mean", abstract(draws, body))
    with pytest.raises(ProofError, match="quotient"):
        hidden = mean(mul(app(draw), app(word, app(draw))), draw)
        equal(hidden, hidden)
    big = Term("exp", Term("pow", app(wild), 4))
    once = mean(mul(add(mul(y, app(word, y)), num(-1)), big), wild)
    assert "≠ 0" in needs(equal(once, once))
    square = Term("pow", inv(y), 2)
    drawn = letter("S", Term("DRAW", Term("let", "S_law", Term("LAW")), square))
    assert needs(equal(mean(app(drawn), drawn), ZERO, laws=[MOMENTS])) == {"≠ 0"}


def test_the_variance_of_a_draw_is_a_number_like_any_other():
    law = Term("let", "R_law", Term("LAW"))
    mean = lambda variance: (
        Term("mean", made(Term("exp", app(R)), R))
        if (R := letter("R", Term("DRAW", law, variance)))
        else None
    )
    assert equal(mean(Term("pow", num(2), 2)), mean(num(4)))


def test_the_law_of_a_draw_is_a_letter():
    """Two draws of one variance are alike where they have one law, and nowhere else."""
    law, other = Term("let", "R_law", Term("LAW")), Term("let", "S_law", Term("LAW"))

    def wild(law):
        draw = letter("R", Term("DRAW", law, ONE, pos(UNIT)))
        return Term("mean", abstract([draw], Term("exp", app(draw, ONLY))))

    with pytest.raises(rules.Differ):
        equal(wild(law), wild(other))
    both = rules.instance(equal(add(wild(law), x), add(x, wild(law))), {law: other})
    assert both.lhs == made(add(wild(other), x))
    free = letter("R", Term("DRAW", law, ONE, pos(UNIT)))
    with pytest.raises(ProofError, match="bound by a mean"):
        equal(app(free, ONLY), app(free, ONLY))
    for no_law in (x, n, ONE):
        with pytest.raises(ProofError):
            equal(wild(no_law), wild(no_law))


def test_blocks_carried_by_one_permutation_do_not_meet():
    size = Term("join", n, n)
    turn = letter("π", fun(pos(size), kind="perm", result=pos(size)))
    first = Term("move", turn, -1, Term("inl", n, i))
    second = Term("move", turn, -1, Term("inr", n, i))
    assert equal(Term("delta", first, second), ZERO, i)


def test_a_derivative_of_a_derivative_asks_of_both_scalars():
    """d/ds of d/dr (r relu(s)) is the slope of relu: not at its kink."""
    r, s = (letter(c, NUM) for c in "rs")
    inner = Term("deriv", made(mul(r, Term("call", "relu", s)), r), ZERO)
    outer = Term("deriv", made(inner, s), x)
    assert needs(equal(outer, outer)) == {"≠ 0"}
    swapped = Term(
        "deriv", made(Term("deriv", made(mul(s, Term("call", "relu", r)), r), x), s), ZERO
    )
    assert needs(equal(swapped, swapped)) == {"≠ 0"}


def test_what_is_no_sort_or_no_letter_is_refused():
    for sort in (Term("FUN", "any", pos(n), pos(n)), Term("FUN", "perm", NUM, NUM)):
        with pytest.raises(ProofError, match="no sort"):
            check(app(Term("let", "F", sort), i))
    with pytest.raises(ProofError, match="put for letters"):
        rules.instance(equal(x, x), {"x": y})


def test_a_slope_goes_into_blocks_and_through_functions():
    s, at = letter("s", NUM), letter("p", pos(Term("join", n, n)))
    f, k = letter("f", fun(NUM)), letter("k", pos(n))
    blocks = lambda first: Term("case", at, made(first, k), made(ONE, k))
    slope = Term("deriv", made(blocks(mul(s, app(A, k))), s), ZERO)
    assert equal(slope, Term("case", at, made(app(A, k), k), made(ZERO, k)), at)
    chained = Term("deriv", made(app(f, mul(num(2), s)), s), ZERO)
    hole = letter("t", NUM)
    assert equal(chained, mul(num(2), Term("deriv", made(app(f, hole), hole), ZERO)))
