"""Normal forms of sums, means and slopes, over one range of positions and over two blocks."""

import pytest
from derivation.kernel.normal import Normal
from kernel_letters import *


def test_counting_applies_only_to_a_constant_bound():
    assert equal(cut_at(i), Term("place", i), laws=["counting"])
    turned = Normal((), ["counting"]).poly(cut_at(moved(k)))
    assert not any("#" in letter.args[0] for m in turned for a, _ in m for letter in a.letters)


def test_blocks_carried_by_one_permutation_do_not_meet():
    turned = letter("π", fun(pos(n_and(n)), kind="perm", result=pos(n_and(n))))
    first, second = (moved(Term(side, n, i), -1, turned) for side in ("inl", "inr"))
    assert equal(Term("delta", first, second), ZERO, i)


def test_a_position_in_a_block_is_compared_with_any_other():
    at, first = letter("at", pos(n_and(m))), Term("inl", m, i)
    for one, other in ((first, at), (at, first)):
        for op, value in (("le", ONE), ("le", ZERO), ("delta", ZERO)):
            with pytest.raises(rules.Differ):
                equal(Term(op, one, other), value)


def test_a_delta_changes_no_variance_of_a_draw_and_no_free_denominator():
    variance = letter("u", fun(pos(n), kind="mask"))
    mask_of = letter("b", fun(NUM, kind="mask"))
    D = draw("D", app(variance, j), (pos(n),))
    here = Term("delta", i, j)
    masked = mean(mul(here, app(mask_of, app(D, k))), D)
    for letters in ((), (i, j, k)):
        with pytest.raises(rules.Differ):
            equal(power(masked, 2), masked, *letters)
    q = mul(here, inv(power(app(flag, j), 2)))
    with pytest.raises(rules.Differ):
        equal(root(add(q, y)), root(add(q, mul(y, app(flag, i)))))


def test_a_delta_between_two_summed_positions_has_one_form():
    """The form must not depend on which position the delta fixes, nor on the positions' names."""
    forms = set()
    for _ in range(3):
        q, r = fresh(pos(n)), fresh(pos(n))
        body = mul(Term("delta", q, moved(r)), app(A, q), power(app(A, r), 2))
        forms |= {Normal().canonical(total_(abstract(order, body))) for order in ((q, r), (r, q))}
    assert len(forms) == 1


def test_rationals_inside_opened_sums_multiply():
    """The product of Σ 2 x and Σ 3 x is one sum of 6 x² over pairs of indices."""
    product_of_sums = frozenset([(summed(mul(num(q), x)), 1) for q in (2, 3)])
    [(indices, inside, q)] = Normal().unpacked(product_of_sums, frozenset([x]))
    assert (len(indices), inside, q) == (2, frozenset([(x, 2)]), 6)


def test_a_slope_goes_into_blocks_and_through_functions():
    s, at = letter("s", NUM), letter("p", pos(n_and(n)))
    blocks = lambda first, second: Term("case", at, made(first, k), made(second, k))
    into = slope(blocks(mul(s, app(A, k)), ONE), s, ZERO)
    assert equal(into, blocks(app(A, k), ZERO), at)
    through, f_0 = slope(app(g, mul(num(2), s)), s, ZERO), slope(app(g, x), x, ZERO)
    assert equal(through, mul(num(2), f_0))
