"""What may stand for the letters of a theorem, and what a theorem is not good for."""

import copy

import pytest
import sympy as sp
from derivation import justify
from derivation.letters import Index
from derivation.reasons import Given
from derivation.theorems import Instance
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_alarm")
T, Q, e, z = matrix("T", m, n), matrix("Q", m, d), matrix("e", m), sequence("z", d)
W, V = Heads("W", h, n, d), Heads("V", h, n, d)
x, y, u, bias = matrix("x", 1), matrix("y", 1), matrix("u", m), matrix("b", d)
N = mask("N", n, n)
UNEQUAL = {"lhs": A, "rhs": B}


def row_sums():
    return theorem(softmax(S) @ one, ones(m), unfold(softmax))


def undone():
    return theorem(P.T @ P @ X, X)


def shift_of_rows():
    return theorem(layer_norm(X, eps), layer_norm(X + w @ ones(d).T, eps), unfold(layer_norm))


def masked_twice():
    return theorem(N * A + N * A, 2 * (N * A))


def captured_table():
    """A l-th row of A B, written into the place of A itself."""
    form = tabulate(lambda i, j: total(lambda l: entry_of(A, i, l) * entry_of(B, l, j), n), n, n)
    inner = lambda i: total(lambda q: entry_of(A, i, q) * entry_of(B, q, q), n)
    captured = tabulate(lambda i, j: total(lambda l: inner(i) * entry_of(B, l, j), n), n, n)
    return line(captured, A @ B @ B, theorem(form, A @ B)(A=form))


def other_heads_in_an_index_form():
    U, V = Heads("U", h, d, d), Heads("V", h, d, d)
    index = lambda W: head("a", W.family.sizes[0])
    word = define("f", lambda x, W: over(index(W), x @ W[index(W)]))
    form = tabulate(lambda i, j: entry_of(word(X, U), i, j), n, d)
    return line(form, word(X, V), theorem(form, word(X, U))(U=V))


def two_indices_of_one_name():
    u, w, a_k, b = Heads("u", k, 1, 1), Heads("w", h, 1, 1), head("a", k), head("b", h)
    return line(over(a, u[a_k] @ (w[a] - (1 / h) * over(b, w[b]))), zeros(1))


class Fake:
    lhs, rhs, title, hypotheses = A, B, "fake", ()


class Silent(Given):
    hypotheses = ()


def swapped():
    return theorem(W[a] + one @ z[1], one @ z[1] + W[a])


def two_indices():
    W_ab = Heads("U", h, n, d, k)[a, head("b", n)]
    return theorem(W_ab + W_ab, 2 * W_ab)


def product():
    row, joined = matrix("row", 1, n), matrix("J", join(m, n), d)
    return theorem(joined @ ones(d) @ row, joined @ (ones(d) @ row))


REFUSED = {
    # where it does not apply
    "an idle theorem": (lambda: line(A + A, 2 * A, row_sums()()), "T is not needed; leave it out"),
    "one that does not apply": (
        lambda: line(softmax(S + e @ one.T), softmax(S), row_sums()()), "not justified"),
    "in the wrong direction": (
        lambda: line(softmax(S), softmax(S + e @ one.T), shift_invariance()()), "not justified"),
    "the wrong instance": (
        lambda: line(softmax(T + e @ one.T), softmax(T), shift_invariance()()), "not justified"),
    # what stands for a letter
    "a letter of another theorem": (lambda: shift_invariance()(Q=Q), "has no free letter Q"),
    "a shape it has not": (lambda: shift_invariance()(S=S, e=w), "e makes m = n"),
    "sizes tied together": (lambda: shift_invariance()(S=A, e=e), "e makes m = m, but it is n"),
    "a number": (lambda: shift_invariance()(e=3), "stands for an expression, not for 3"),
    "a name": (lambda: shift_invariance()(e="c"), "stands for an expression, not for 'c'"),
    "a size below one": (lambda: row_sums()(n=0), "0 is not a size"),
    "a size that may be zero": (lambda: row_sums()(n=n - 1), "n - 1 is not a size"),
    "a size that is a scalar": (lambda: row_sums()(n=tau), "tau is not a size"),
    "a negative for a positive scalar": (
        lambda: shift_of_rows()(epsilon=-tau), "provably positive scalar, not for -tau"),
    "a free scalar for a positive one": (
        lambda: shift_of_rows()(epsilon=r), "provably positive scalar, not for r"),
    "a float for a scalar": (lambda: theorem(tau * A + tau * A, 2 * tau * A)(tau=0.5), "is a float"),
    "a matrix for a permutation": (
        lambda: undone()(**{"Π": A}), "Π stands for a permutation matrix, not for A"),
    "a scaled permutation": (lambda: undone()(**{"Π": 2 * P}), "not for 2 Π"),
    "a causal mask for a permutation": (lambda: undone()(**{"Π": causal(n)}), "not for L"),
    "a matrix for a mask": (lambda: masked_twice()(N=B), "N stands for a mask"),
    "a sum of masks for a mask": (lambda: masked_twice()(N=N + N), "not for N + N"),
    "what a derivative binds": (
        lambda: theorem(derivative(s * w, s), w)(s=r), "has no free letter s"),
    "what a sum binds": (
        lambda: theorem(over(a, X @ W[a].T), X @ over(a, W[a].T))(a=b), "has no free letter a"),
    "the generic row": (lambda: row_sums()(row=1), "has no free letter row"),
    "matrices for numbers": (
        lambda: theorem(x @ y, y @ x)(x=A, y=B), "x has an axis of 1, which cannot be n"),
    "blocks in another order": (
        lambda: (lambda z: theorem(z + z, 2 * z))(matrix("z", join(n, m)))(z=matrix("y", join(m, n))),
        "which cannot be m + n here"),
    "zero for a divisor": (
        lambda: theorem((1 / c) * A + (1 / c) * A, (2 / c) * A)(c=0), "zoo is not a scalar"),
    "a negative under a root": (
        lambda: theorem(sp.sqrt(r) * A + sp.sqrt(r) * A, 2 * sp.sqrt(r) * A)(r=-1), "not a scalar"),
    "a number for an index": (lambda: swapped()(a=1), "a stands for an index, not for 1"),
    "a matrix for an index": (lambda: swapped()(a=X), "a stands for an index, not for X"),
    "a matrix for a sequence": (lambda: swapped()(z=X), "z stands for a sequence, not for X"),
    "a size and an index": (
        lambda: swapped()(a=head("b", k), h=m), "h makes h = m, but it is k already"),
    "a size and a sequence": (
        lambda: swapped()(z=sequence("y", m), d=k), "d makes d = k, but it is m already"),
    "a sequence and heads": (
        lambda: swapped()(z=sequence("y", m), W=W), "W makes d = d, but it is m already"),
    "heads in another order": (lambda: two_indices()(U=Heads("V", n, d, k)), "a family of heads"),
    "a matrix for heads": (lambda: two_indices()(U=X), "a family of heads"),
    "rows for one row": (
        lambda: product()(row=matrix("b", m, n)), "row has an axis of 1, which cannot be m here"),
    "a size for a join": (
        lambda: product()(J=matrix("K", k, d)), "J has an axis of m + n, which cannot be k here"),
    # what is captured
    "two indices of one name": (two_indices_of_one_name, "the name a of an index is used"),
    "a scalar that has the new name": (
        lambda: line(derivative(s * x + scalars("s′") * y, s), x), "no name of a letter"),
    "an index form put into itself": (captured_table, "not justified"),
    "heads inside an index form": (other_heads_in_an_index_form, "not justified"),
    "an index free and bound": (
        lambda: line(over(a, X.T @ W[a]) + X.T @ W[a], zeros(d, d)), "a is used free and bound"),
    "an index of any name": (
        lambda: line(Heads("W", n, n, d)[Index("row", n)], X), "not justified"),
    # what is no theorem, or prints what it likes
    "another kind of expression": (lambda: type("Loud", (type(A),), {}), "there is no other"),
    "another kind of theorem": (lambda: type("Loud", (Theorem,), {}), "there is no other"),
    "a forged theorem": (lambda: Theorem(object(), name="x", **UNEQUAL), "made by qed"),
    "a forged instance": (lambda: line(A, B, Instance(object(), **UNEQUAL)), "made by qed"),
    "what looks like a theorem": (lambda: line(A, B, Fake()), "is no reason"),
    "a hypothesis that is silent": (lambda: line(A, B, Silent(A, B)), "is no reason"),
}  # fmt: skip


@pytest.mark.parametrize("attack", REFUSED)
def test_it_is_refused(attack):
    refuse(*REFUSED[attack])


def test_only_qed_makes_a_theorem_and_nothing_changes_it():
    shift = shift_invariance()
    for owner, name in ((shift, "rhs"), (shift, "lhs"), (shift(), "rhs"), (shift.lhs, "args")):
        refuse(lambda owner=owner, name=name: setattr(owner, name, T), "immutable")
    refuse(lambda: delattr(shift, "lhs"), "immutable")
    refuse(lambda: setattr(line(X, X + 0 * X), "lines", ((X, (), ""), (Y, (), ""))), "lines")
    assert isinstance(shift.lines, tuple) and copy.copy(shift) is shift
    parts = {name: getattr(shift, name) for name in shift.__slots__[:-1]}
    refuse(lambda: Theorem(**parts), "made by qed")


def test_what_an_underscore_reaches_makes_no_theorem():
    """Of what a derivation keeps, the kernel believes its own theorem only."""
    altered = line(A, A + 0 * A)
    altered._lines = ((A, (), ""), (B, (), ""))
    refuse(altered.qed, "would print otherwise")
    assumed = Derivation("T", A)
    assumed._local = (hypothesis := given(A, B),)
    assumed.by(B, hypothesis)._local = ()
    needy = assumed.qed()
    assert "needs A = B" in repr(needy)
    parts = {name: getattr(needy, name) for name in needy.__slots__[:-1]}
    refuse(lambda: Theorem._made(**{**parts, "hypotheses": ()}), "would print otherwise")


def test_a_theorem_prints_all_that_it_was_proved_with():
    """Made by hand without its conditions, or without the variance of its draws, it is refused."""
    whole = tabulate(lambda i, j: entry_of(v, i) / entry_of(v, i), n)
    for lhs, rhs, laws in ((whole, one, []), (expectation(R * R), J, [SECOND_MOMENTS])):
        parts = {"name": "T", "label": "", "lhs": lhs, "rhs": rhs, "proof": (), "not_run": ()}
        parts |= {"lines": ((lhs, (), ""), (rhs, (), "")), "hypotheses": (), "random": ()}
        proved = justify.by_algebra(lhs, rhs, (), laws)
        refuse(lambda proved=proved, parts=parts: Theorem._made(proved, **parts), "print otherwise")
    plain = theorem(one + one, 2 * one)
    assert proves(plain, 2 * one, 2 * one)
    assert not proves(plain, whole + one, 2 * one), "it does not say v ≠ 0"


def test_letters_and_sizes_stand_for_others():
    assert shift_invariance()(S=matrix("S", h, k), e=matrix("e", h)).lhs.shape == (h, k)
    mean = theorem((1 / n) * one.T @ one, ones(1))
    assert mean(n=join(m, k)).lhs.shape == (1, 1)
    two = theorem(z[1] + z[1], 2 * z[1])
    assert two(z=sequence("y", m)).lhs.shape == (1, m)
    at_a_mean = theorem(A + A, 2 * A)(A=expectation(R * R))
    assert at_a_mean.lhs == expectation(R * R) + expectation(R * R)
    back = at_a_mean.reversed()
    assert (back.lhs, back.rhs) == (at_a_mean.rhs, at_a_mean.lhs)
    slope = theorem(tabulate(lambda i, j: entry_of(X, i, j), n, d), X)(X=derivative(s * Y, s))
    assert justify.same(slope.lhs, Y)


def test_a_theorem_about_any_scale_is_cited_at_a_number_and_at_a_size():
    K, V = matrix("K", n, d), matrix("V", n, d)
    attend = define("attend", lambda Q, K, V, tau: softmax(tau * Q @ K.T) @ V)
    biased = lambda scale: attend(Q, K + one @ bias.T, V, scale)
    plain = lambda scale: attend(Q, K, V, scale)
    any_scale = theorem(biased(r), plain(r), unfold(attend), unfold(softmax), EXP_OF_SUM)
    for scale in (1, 2, n, sp.Rational(1, 2), -tau):
        assert theorem(biased(scale), plain(scale), any_scale(r=scale)).hypotheses == ()


def cited():
    """Lines that cite a theorem: in a sum, inside other operations and more than once."""
    key, by = Heads("K", h, m, n), Heads("b", h, m, 1)
    shifted, rows = softmax(S + e @ one.T), softmax(S) @ one
    shift, double = shift_invariance(), theorem(exp(2 * x), exp(x) @ exp(x), EXP_OF_SUM)
    sums = theorem(rows + u, ones(m) + u, unfold(softmax))
    return [
        (over(a, softmax(key[a] + by[a] @ one.T)), over(a, softmax(key[a])),
         shift(S=key[a], e=by[a])),
        (shifted + softmax(T + u @ one.T), softmax(S) + softmax(T), shift(), shift(S=T, e=u)),
        (exp(2 * r * y) @ x + y, exp(r * y) @ exp(r * y) @ x + y, double(x=r * y)),
        (exp(rows + u) + rows + cos(rows + u) + u, exp(ones(m) + u) + ones(m) + cos(ones(m) + u) + u,
         sums()),
    ]  # fmt: skip


def test_a_theorem_is_found_where_it_is_cited():
    for citing in cited():
        assert theorem(*citing)


def test_a_theorem_of_draws_is_cited_at_other_variances():
    drawn, by_size = random_matrix("R", n, n, sigma**2), random_matrix("Q", n, n, 1 / n)
    squares = theorem(expectation(drawn * drawn), sigma**2 * J, SECOND_MOMENTS)
    assert squares(sigma=2).rhs == 4 * J and "variance 4" in repr(squares(sigma=2))
    mean = theorem(expectation(by_size * by_size), J / n, SECOND_MOMENTS)
    assert "1/3" in repr(mean(n=3)) and mean(n=join(n, m))


def test_a_free_and_a_bound_index_are_told_apart():
    other = theorem(over(b, W[b]) + W[a], W[a] + over(b, W[b]))
    assert repr(other(a=head("a", 1), h=1).lhs) == "W[1] + W[1]"
    row = head("row", h)
    assert theorem(over(row, W[row]), over(a, W[a])), "an index may have any name"
    bound = theorem(over(a, X @ W[a].T) @ matrix("u", n), over(a, X @ W[a].T @ matrix("u", n)))
    instance = bound(u=W[a] @ bias)
    inner = instance.rhs.args[0]
    assert instance.rhs.params[0] != a and a in instance.rhs.free_positions()
    assert inner.free_positions() == {a, instance.rhs.params[0]}


def test_two_scalars_that_are_bound_get_two_new_names():
    instance = theorem(derivative(derivative(s * r * X, s), r), X)(X=s * r * X)
    (outer,), (inner,) = instance.lhs.params, instance.lhs.args[0].params
    assert len({outer, inner, s, r}) == 4 and {s, r} <= instance.lhs.free_scalars()
    assert justify.same(instance.lhs, instance.rhs)


def test_what_fits_stands_for_indices_sequences_and_axes():
    instance = swapped()(a=head("b", k), z=sequence("y", m), W=Heads("V", k, n, m))
    assert repr(instance.lhs) == "V[b] + 1 y[1]" and instance.lhs.shape == (n, m)
    assert repr(swapped()(a=head("a", 1), h=1).lhs) == "W[1] + 1 z[1]"
    found = product()(J=matrix("K", join(m, n), k), row=matrix("b", 1, n))
    assert found.lhs.shape == (join(m, n), n)


Π_1, Π_2 = permutation("Q", n), permutation("R", n)
CHAINS = [Π_2, Π_2.T, Π_1 @ Π_2, (Π_1 @ Π_2).T, Π_1.T @ Π_2 @ Π_1, identity(n)]


@pytest.mark.parametrize("image", CHAINS, ids=repr)
def test_what_stands_for_a_permutation_inside_an_index_form(image):
    form = tabulate(lambda i, j: entry_of(P @ X, i, j), n, d)
    instance = theorem(form, P @ X)(**{"Π": image})
    assert justify.same(instance.lhs, image @ X) and justify.same(instance.rhs, image @ X)
    assert not justify.same(instance.lhs, Π_1 @ X)
