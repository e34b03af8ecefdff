"""A normal form has the value of what it came from: random sum expressions, and single terms.

Values are those of the package's interpreter of terms, which shares nothing with normal forms.
"""

import math
import numbers
import random
from fractions import Fraction
from itertools import product

import pytest
from derivation.evaluation import FLOAT, Instance
from derivation.kernel import normal, sorts
from derivation.kernel.normal import ANGLE, COUNT, EXP, ORDER, REINDEX, SPLIT, Normal
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_letters import *
from shared_letters import refuse

BOTH, LAWS = n_and(m), (REINDEX, EXP, SPLIT, ANGLE, COUNT, ORDER)
#: The letters by the ranges of their axes, and the permutations of each range.
AXES = {
    letter(name, fun(*map(pos, axes))): axes
    for name, axes in (("A", (n, n)), ("B", (m, n)), ("u", (n,)), ("w", (m,)))
}
U, W = list(AXES)[2:]
PERMUTATIONS = {
    size: [letter(name, fun(pos(size), kind="perm", result=pos(size))) for name in names]
    for size, names in ((n, "pq"), (m, "r"), (BOTH, ""))
}


def over(size, body):
    """An abstraction over the positions of a size."""
    index = fresh(pos(size))
    return made(body(index), index)


@st.composite
def terms(draw, depth=5, scope=()):
    """A random term whose free indices are those in scope: pairs of an index and its range."""
    part = lambda: draw(terms(depth - 1, scope))

    def at(size):
        """An index of that range, moved by some of its permutations."""
        where = draw(st.sampled_from([index for index, its in scope if its == size]))
        for permutation in PERMUTATIONS[size]:
            way = draw(st.sampled_from((1, 0, -1)))
            where = moved(where, way, permutation) if way else where
        return where

    def summed(size):
        return total_(over(size, lambda i: draw(terms(depth - 1, (*scope, (i, size))))))

    def stacked():
        upper, lower = (over(s, lambda i, f=f: app(f, i)) for f, s in ((U, n), (W, m)))
        return Term("case", at(BOTH), upper, lower)

    there = {size for _, size in scope}
    choices = [lambda: x, lambda: num(draw(st.sampled_from((-2, -1, 1, 2, 3))))]
    choices += [
        lambda f=f, axes=axes: app(f, *map(at, axes))
        for f, axes in AXES.items()
        if there >= {*axes}
    ]
    for size, op in product([s for s in (n, m) if s in there], ("delta", "delta", "le")):
        choices.append(lambda size=size, op=op: Term(op, at(size), at(size)))
    if BOTH in there:
        choices.append(stacked)
    if depth:
        choices += [
            lambda: add(part(), part()),
            lambda: mul(part(), part()),
            lambda: exp_(part()),
            lambda: inv(exp_(part())),
            lambda: Term("call", "cos", add(part(), part())),
            lambda: power(part(), 2),
            *2 * [lambda: summed(n), lambda: summed(m), lambda: summed(BOTH)],
        ]
    return draw(st.sampled_from(choices))()


def world(seed):
    """The value of a term at concrete sizes, entries and permutations, as a function."""
    draw = random.Random(seed)
    sizes = dict(zip((n, m), draw.choice([(1, 2), (2, 1), (2, 3), (3, 2), (1, 1)])))
    meant = {**sizes, x: draw.uniform(-1, 1)}
    for f, axes in AXES.items():
        places = product(*(range(1, sizes[size] + 1) for size in axes))
        entries = {at: draw.uniform(-1, 1) for at in places}
        meant[f] = lambda *at, entries=entries: entries[at]
    for size, its in PERMUTATIONS.items():
        for permutation in its:
            meant[permutation] = tuple(draw.sample(range(1, sizes[size] + 1), sizes[size]))
    return lambda term: float(Instance(meant, {**FLOAT, "cos": cosine}).value(term))


def cosine(angle):
    """A cosine; of an angle so large that rounding decides it, an OverflowError."""
    if abs(angle) > 1e6:
        raise OverflowError(angle)
    return math.cos(angle)


@settings(max_examples=500, deadline=None, derandomize=True)
@given(terms(), st.sampled_from([(), *((law,) for law in LAWS), LAWS]), st.integers(0, 10**6))
def test_a_normal_form_keeps_the_value_and_says_nothing_of_names(term, laws, seed):
    value = world(seed)
    try:
        expected = value(term)
        form = Normal((), laws).canonical(term)
        assert form == Normal((), laws).canonical(term), "indices get other names each time"
        found = value(form)
    except OverflowError:
        return
    except ProofError as refusal:
        assert "split" in str(refusal)  # too large a step is refused, never mistaken
        return
    assert math.isclose(found, expected, rel_tol=1e-8, abs_tol=1e-8) or abs(expected) > 1e6


def test_a_wrong_form_would_be_seen():
    """The control: a form with a sum dropped has another value."""
    term, value = total_(over(n, lambda i: app(U, i))), world(3)
    right = Normal().canonical(term)
    wrong = put(right.args[0].args[0], (Term("last", n),))
    assert math.isclose(value(right), value(term))
    assert not math.isclose(value(wrong), value(term))


# ── Single terms ─────────────────────────────────────────────────────────────────────────────


def test_what_is_bound_further_out_stays_bound():
    bound = [Term("var", k) for k in range(3)]
    inner = add(bound[0], mul(bound[1], bound[2]))
    assert put(inner, (x,)) == add(x, mul(bound[0], bound[1]))
    assert put(inner, (x, y)) == add(y, mul(x, bound[0]))
    assert put(add(x, y), (), {x: y, y: x}) == add(y, x), "all at once"


def test_a_number_is_made_of_pythons_own():
    """Fraction keeps whatever a registered Rational has above and below; the kernel does not."""
    odd = type("Odd", (int,), {"__bool__": lambda self: False})

    class Rational:
        def __init__(self, *parts):
            self.numerator, self.denominator = parts

    numbers.Rational.register(Rational)
    for parts in ((odd(1), 1), (1, odd(1)), (1.0, 1), (-1, -1), (2, 2)):
        made_of_it = Term("num", Fraction(Rational(*parts)))
        assert made_of_it == ONE and made_of_it.key == ONE.key and made_of_it.args[0]
        assert {type(n) for n in made_of_it.args[0].as_integer_ratio()} == {int}


def test_a_definition_written_out_under_a_binder_is_the_same():
    """A word of a function, used where that function speaks of what is bound around it."""
    at, f, B = letter("at", pos(n)), letter("f", fun(pos(n))), letter("B", fun(pos(n), pos(n)))
    inner = total_(made(mul(app(f, j), app(f, at)), j))
    row = made(total_(made(mul(app(B, k, j), app(B, i, j)), j)), i)
    whole = total_(made(app(word_of("w", inner, n, f, at), n, row, k), k))
    written = sorts.full(whole)
    assert Normal(None).poly(written) == Normal(None).poly(whole)
    assert not written.loose and sorts.check(written) == NUM


#: How many positions are at most this one; a cut that turns with its index may be empty.
cut_at = lambda bound: total_(made(Term("le", k, bound), k))
summed = lambda body: total_(made(body, k))
e, squared, A_k, size = exp_(x), power(y, 2), app(A, k), Term("size", n)
inverse_cube = inv(power(x, 3))
SIGNS = {
    "+": [e, power(e, 2), inv(power(e, 3)), add(ONE, e), mul(e, p), add(e, squared), inv(e),
          mul(size, e), summed(exp_(A_k)), cut_at(i)],
    "0": [squared, mul(x, x), mul(e, squared), add(squared, power(x, 4)), summed(power(A_k, 2)),
          cut_at(moved(k))],
    None: [x, minus(e), add(e, num(-1)), power(x, 3), mul(x, x, x), inverse_cube, mul(x, y),
           add(ONE, x), mul(z, e), inv(x), summed(A_k)],
}  # fmt: skip


@pytest.mark.parametrize("sign", SIGNS)
def test_a_sign_is_one_that_every_value_has(sign):
    assert [sorts.sign(term) for term in SIGNS[sign]] == [sign] * len(SIGNS[sign])


def test_counting_counts_what_stands_still():
    assert equal(cut_at(i), Term("place", i), laws=["counting"])
    turned = Normal((), ["counting"]).poly(cut_at(moved(k)))
    assert not any("#" in letter.args[0] for m in turned for a, _ in m for letter in a.letters)


def test_blocks_carried_by_one_permutation_do_not_meet():
    turned = letter("π", fun(pos(n_and(n)), kind="perm", result=pos(n_and(n))))
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


def test_a_delta_between_two_summed_positions_has_one_form():
    """It may fix either of them, and the names of the two, which are accidental, do not say which."""
    forms = set()
    for _ in range(3):
        q, r = fresh(pos(n)), fresh(pos(n))
        body = mul(Term("delta", q, moved(r)), app(A, q), power(app(A, r), 2))
        forms |= {Normal().canonical(total_(abstract(order, body))) for order in ((q, r), (r, q))}
    assert len(forms) == 1


def test_rationals_inside_opened_sums_multiply():
    """Σ 2 x Σ 3 x is 6 x² for each pair of indices."""
    product_of_sums = frozenset([(summed(mul(num(q), x)), 1) for q in (2, 3)])
    [(indices, inside, q)] = Normal().unpacked(product_of_sums, frozenset([x]))
    assert (len(indices), inside, q) == (2, frozenset([(x, 2)]), 6)


def test_what_a_normal_form_returns_is_nobodys_constant():
    one = Normal().poly(Term("call", "cos", ZERO))
    with pytest.raises(TypeError):
        one[frozenset()] = 2
    assert equal(power(ZERO, 0), ONE)


def test_a_step_has_an_end(monkeypatch):
    monkeypatch.setattr(normal, "MOST_STEPS", 20)
    refuse(lambda: equal(power(add(x, y), 9), power(add(y, x), 9)), "split it")


def test_a_slope_goes_into_blocks_and_through_functions():
    s, at = letter("s", NUM), letter("p", pos(n_and(n)))
    blocks = lambda first, second: Term("case", at, made(first, k), made(second, k))
    into = slope(blocks(mul(s, app(A, k)), ONE), s, ZERO)
    assert equal(into, blocks(app(A, k), ZERO), at)
    through, f_0 = slope(app(g, mul(num(2), s)), s, ZERO), slope(app(g, x), x, ZERO)
    assert equal(through, mul(num(2), f_0))
