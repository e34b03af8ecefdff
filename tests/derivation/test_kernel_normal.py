"""Normal forms of single terms, sums and slopes; `test_fuzz` tests them on random lines."""

from fractions import Fraction

import pytest
from derivation.kernel import normal, sorts
from derivation.kernel.normal import Normal
from derivation.kernel.terms import filled, put
from kernel_letters import *
from shared_letters import refuse

differ = lambda *sides, **more: refuse(lambda: equal(*sides, **more), "two sides differ")


def test_values_are_filled_in_all_at_once_and_an_outer_bound_variable_stays_bound():
    bound = [Term("var", k) for k in range(3)]
    inner = add(bound[0], mul(bound[1], bound[2]))
    assert filled(inner, (x,)) == add(x, mul(bound[0], bound[1]))
    assert filled(inner, (x, y)) == add(y, mul(x, bound[0]))
    assert put(add(x, y), {x: y, y: x}) == add(y, x)


def test_a_number_is_rebuilt_from_plain_python_integers():
    """The kernel makes a fraction anew, because a Fraction keeps numerators of any class."""
    odd, number = type("Odd", (int,), {"__bool__": lambda self: False}), Fraction(1)
    number._numerator, number._denominator = odd(2), odd(2)
    assert Term("num", number) == ONE
    assert {type(n) for n in Term("num", number).args[0].as_integer_ratio()} == {int}


def test_unfolding_a_word_under_a_binder_keeps_its_normal_form():
    """A word may be applied to a function that depends on an index bound outside the word."""
    at, f, B = letter("at", pos(n)), letter("f", fun(pos(n))), letter("B", fun(pos(n), pos(n)))
    inner = total_(made(mul(app(f, j), app(f, at)), j))
    row = made(total_(made(mul(app(B, k, j), app(B, i, j)), j)), i)
    whole = total_(made(app(word_of("w", inner, n, f, at), n, row, k), k))
    written = sorts.full(whole)
    assert Normal(None).poly(written) == Normal(None).poly(whole)
    assert not written.loose and sorts.check(written) == NUM


e, squared, A_k, size = exp_(x), power(y, 2), app(A, k), Term("size", n)
SIGNS = {
    sorts.ABOVE_ZERO: [
        e, power(e, 2), inv(power(e, 3)), add(ONE, e), mul(e, p), add(e, squared), inv(e),
        mul(size, e), summed(exp_(A_k)), cut_at(i)],
    sorts.AT_LEAST_ZERO: [
        squared, mul(x, x), mul(e, squared), add(squared, power(x, 4)), summed(power(A_k, 2)),
        cut_at(moved(k))],
    sorts.UNKNOWN: [
        x, minus(e), add(e, num(-1)), power(x, 3), mul(x, x, x), inv(power(x, 3)), mul(x, y),
        add(ONE, x), mul(z, e), inv(x), summed(A_k)],
}  # fmt: skip


@pytest.mark.parametrize("sign", SIGNS)
def test_a_term_has_a_sign_only_if_all_its_values_do(sign):
    assert [sorts.sign(term) for term in SIGNS[sign]] == [sign] * len(SIGNS[sign])


def test_the_root_of_an_exponential_halves_its_exponent():
    """The root of an exponential simplifies to an exponential, even inside a divisor."""
    half = root(exp_(x))
    below, laws = inv(add(ONE, half)), [normal.EXP]
    assert Normal().canonical(half) == exp_(mul(num(Fraction(1, 2)), x))
    assert equal(add(below, mul(half, below)), ONE, laws=laws)
    differ(mul(half, below), below, laws=laws)


def test_a_normal_form_cannot_be_modified():
    one = Normal().poly(Term("call", "cos", ZERO))
    with pytest.raises(TypeError):
        one[frozenset()] = 2
    assert equal(power(ZERO, 0), ONE)


def test_a_step_of_the_kernel_has_a_size_limit():
    first, second = power(add(x, y), 9), power(add(x, minus(y)), 9)
    refuse(lambda: rules.by_normal_form(made(first), made(second), most=20), "split it")
    assert rules.by_normal_form(made(first), made(power(add(y, x), 9)), most=20), "they are alike"


# ── Sums, positions and slopes ───────────────────────────────────────────────────────────────


def test_counting_applies_only_to_a_constant_bound():
    assert equal(cut_at(i), Term("place", i), laws=["counting"])
    turned = Normal((), ["counting"]).poly(cut_at(moved(k)))
    assert not any("#" in letter.args[0] for m in turned for a, _ in m for letter in a.letters)


def test_the_images_of_two_blocks_under_a_permutation_are_disjoint():
    turned = letter("π", fun(pos(n_and(n)), kind="perm", result=pos(n_and(n))))
    first, second = (moved(Term(side, n, i), -1, turned) for side in ("inl", "inr"))
    assert equal(Term("delta", first, second), ZERO, i)


def test_a_comparison_of_a_block_position_with_an_arbitrary_one_stays_undecided():
    at, first = letter("at", pos(n_and(m))), Term("inl", m, i)
    for one, other in ((first, at), (at, first)):
        for op, value in (("le", ONE), ("le", ZERO), ("delta", ZERO)):
            differ(Term(op, one, other), value)


def test_a_delta_is_not_substituted_into_a_variance_or_a_free_denominator():
    variance, mask_of = letter("u", fun(pos(n), kind="mask")), letter("b", fun(NUM, kind="mask"))
    D, here = draw("D", app(variance, j), (pos(n),)), Term("delta", i, j)
    masked = mean(mul(here, app(mask_of, app(D, k))), D)
    differ(power(masked, 2), masked)
    differ(power(masked, 2), masked, i, j, k)
    q = mul(here, inv(power(app(flag, j), 2)))
    differ(root(add(q, y)), root(add(q, mul(y, app(flag, i)))))


def test_a_derivative_is_taken_blockwise_and_by_the_chain_rule():
    s, at = letter("s", NUM), letter("p", pos(n_and(n)))
    blocks = lambda first, second: Term("case", at, made(first, k), made(second, k))
    into = slope(blocks(mul(s, app(A, k)), ONE), s, ZERO)
    assert equal(into, blocks(app(A, k), ZERO), at)
    through, f_0 = slope(app(g, mul(num(2), s)), s, ZERO), slope(app(g, x), x, ZERO)
    assert equal(through, mul(num(2), f_0))
