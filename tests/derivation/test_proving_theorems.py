"""Citing a theorem: which values its letters accept, and which citations are refused."""

import pytest
from derivation.kernel import rules
from derivation.proving import proof_search
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_torch")
T, e, u, bias = matrix("T", m, n), matrix("e", m), matrix("u", m), matrix("b", d)
W, z = Heads("W", h, n, d), sequence("z", d)

# Theorems to be cited
shift = theorem(softmax(S + e @ one.T), softmax(S), unfold(softmax), EXP_OF_SUM)
row_sums = theorem(softmax(S) @ one, ones(m), unfold(softmax))
undone = theorem(P.T @ P @ X, X)
shift_of_rows = theorem(layer_norm(X, eps), layer_norm(X + w @ ones(d).T, eps), unfold(layer_norm))
twice = lambda x: theorem(x + x, 2 * x)
swapped = theorem(W[a] + one @ z[1], one @ z[1] + W[a])
of_blocks = twice(matrix("J", join(m, n), d))


def captured_table():
    """Substituting A B for A must not capture a column index in the sum of the product."""
    form = table(lambda i, j: total(lambda l: entry_of(A, i, l) * entry_of(B, l, j), n))
    inner = lambda i: total(lambda q: entry_of(A, i, q) * entry_of(B, q, q), n)
    captured = table(lambda i, j: total(lambda l: inner(i) * entry_of(B, l, j), n))
    return line(captured, A @ B @ B, theorem(form, A @ B)(A=form))


test_a_faulty_use_is_refused = refused({
    # the theorem does not give this line
    "“T” is not needed; leave it out": lambda: line(A + A, 2 * A, row_sums()),
    "not justified": {
        "the wrong instance": lambda: line(softmax(T + e @ one.T), softmax(T), shift()),
        "an index form put into itself": captured_table,
    },
    # a value that does not fit its letter
    "has no free letter s": lambda: theorem(derivative(s * w, s), w)(s=r),
    "W makes d = d, but it is m already": lambda: swapped(z=sequence("y", m), W=W),
    "provably positive scalar, not for -tau": lambda: shift_of_rows(epsilon=-tau),
    "Π stands for a permutation matrix, not for A": lambda: undone(**{"Π": A}),
    # a bound name would capture a letter
    "a is used free and bound": lambda: line(over(a, X.T @ W[a]) + X.T @ W[a], zeros(d, d)),
    # objects that pretend to be theorems or that choose how they are printed
    "has no subclasses": {
        "expression": lambda: type("Loud", (type(A),), {}),
        "letter": lambda: type("Loud", (type(R.params[0]),), {}),
        "theorem": lambda: type("Loud", (Theorem,), {}),
    },
    "only qed makes a theorem": lambda: Theorem(object(), name="x", lhs=A, rhs=B),
    "immutable": lambda: setattr(shift.lhs, "args", T),
})  # fmt: skip


def test_altering_private_attributes_makes_no_theorem():
    """The kernel trusts only its own theorems, not altered attributes of a derivation."""
    assumed = Derivation("T", A)
    assumed._local = (hypothesis := given(A, B),)
    assumed.by(B, hypothesis)._local = ()
    needy = assumed.qed()
    assert "needs A = B" in repr(needy)
    parts = {name: getattr(needy, name) for name in needy.__slots__[:-1]}
    refuse(lambda: Theorem._made(**{**parts, "hypotheses": ()}), "would print something other")


def test_a_theorem_that_omits_its_conditions_or_variances_is_refused():
    """A theorem assembled without its conditions, or without its draws' variance, is refused."""
    whole = tabulate(lambda i, j: entry_of(v, i) / entry_of(v, i), n)
    for lhs, rhs, laws in ((whole, one, []), (expectation(R * R), J, [SECOND_MOMENTS])):
        parts = {"name": "T", "label": "", "lhs": lhs, "rhs": rhs, "proof": (), "not_run": ()}
        parts |= {"lines": ((lhs, (), ""), (rhs, (), "")), "hypotheses": (), "random": ()}
        proved = rules.by_normal_form(lhs.function, rhs.function, (), [law.name for law in laws])
        with pytest.raises(ProofError, match="would print something other"):
            Theorem._made(proved, **parts)
    plain = theorem(one + one, 2 * one)
    assert proves(plain, 2 * one, 2 * one)
    assert not proves(plain, whole + one, 2 * one), "it does not say v ≠ 0"


def test_letters_and_sizes_are_replaced_by_others():
    assert shift(S=matrix("S", h, k), e=matrix("e", h)).lhs.axes == (h, k)
    swapped_sizes = theorem(T @ one, T @ one)(m=n, n=m)
    assert "T: n×m" in str(swapped_sizes) and "T: m×n" in str(swapped_sizes(m=n, n=m))
    sums = recursion("r", lambda z: z[1], lambda row, t, z: row + z[join(t, 1)])
    after = theorem(sums(join(t, 1), z), sums(t, z) + z[join(t, 1)], unfold(sums))
    assert "r[m+1+1]" in str(after(t=join(m, 1)))
    assert shown(theorem(A @ X + X, X, given(A @ X, zeros(n, d)))(A=A @ B)) == ["A B X = 0"]
    slope = theorem(table(lambda i, j: entry_of(X, i, j), n, d), X)(X=derivative(s * Y, s))
    assert proof_search.same(slope.lhs, Y)


def test_a_citation_is_found_inside_expressions():
    """A citation applies inside sums and other operations, and at several places at once."""
    key, by = Heads("K", h, m, n), Heads("b", h, m, 1)
    shifted, rows = softmax(S + e @ one.T), softmax(S) @ one
    sums = theorem(rows + u, ones(m) + u, unfold(softmax))
    for citing in (
        (over(a, softmax(key[a] + by[a] @ one.T)), over(a, softmax(key[a])),
         shift(S=key[a], e=by[a])),
        (shifted + softmax(T + u @ one.T), softmax(S) + softmax(T), shift(), shift(S=T, e=u)),
        (exp(rows + u) + rows + cos(rows + u) + u, exp(ones(m) + u) + ones(m) + cos(ones(m) + u) + u,
         sums()),
    ):  # fmt: skip
        assert theorem(*citing)


def test_a_theorem_about_random_matrices_can_be_cited_with_other_variances():
    drawn, by_size = random_matrix("R", n, n, sigma**2), random_matrix("Q", n, n, 1 / n)
    squares = theorem(expectation(drawn * drawn), sigma**2 * J, SECOND_MOMENTS)
    assert squares(sigma=2).rhs == 4 * J and "variance 4" in repr(squares(sigma=2))
    mean = theorem(expectation(by_size * by_size), J / n, SECOND_MOMENTS)
    assert "1/3" in repr(mean(n=3)) and mean(n=join(n, m))


def test_free_and_bound_indices_are_distinguished():
    other = theorem(over(b, W[b]) + W[a], W[a] + over(b, W[b]))
    assert repr(other(a=head("a", 1), h=1).lhs) == "W[1] + W[1]"
    bound = theorem(over(a, X @ W[a].T) @ matrix("u", n), over(a, X @ W[a].T @ matrix("u", n)))
    instance = bound(u=W[a] @ bias)
    inner = instance.rhs.args[0]
    assert instance.rhs.params[0] != a and a in instance.rhs.free_positions()
    assert inner.free_positions() == {a, instance.rhs.params[0]}


def test_indices_sequences_and_axes_are_replaced_by_values_of_the_right_sort():
    instance = swapped(a=head("b", k), z=sequence("y", m), W=Heads("V", k, n, m))
    assert repr(instance.lhs) == "V[b] + 1 y[1]" and instance.lhs.axes == (n, m)
    assert of_blocks(J=matrix("K", join(m, n), k)).lhs.axes == (join(m, n), k)


Π_1, Π_2 = permutation("Q", n), permutation("R", n)
CHAINS = [Π_2.T, (Π_1 @ Π_2).T, Π_1.T @ Π_2 @ Π_1, identity(n)]


@pytest.mark.parametrize("image", CHAINS, ids=repr)
def test_a_permutation_inside_an_index_form_is_replaced(image):
    form = tabulate(lambda i, j: entry_of(P @ X, i, j), n, d)
    instance = theorem(form, P @ X)(**{"Π": image})
    assert proof_search.same(instance.lhs, image @ X) and proof_search.same(instance.rhs, image @ X)
    assert not proof_search.same(instance.lhs, Π_1 @ X)
