"""A theorem prints its assumptions, and its conditions on divisors, roots and slopes."""

import pytest
import sympy as sp
from derivation.language.nonzero import NonZero
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_torch")
Z, V = Heads("Z", h, n, d), Heads("V", h, n, d)
x, y, u, phi = matrix("x", 1), matrix("y", 1), matrix("u", m), entrywise("φ")
sums_of_rows = X @ ones(d) @ ones(1, d)
zero = matrix("z", n) - matrix("z", n)


def head_taken_for_all_by_a_citation():
    """The first theorem needs a condition for every head, the second for one head only."""

    def body(Z, i):
        return normalise(Z[i]) * (Z[i] @ ones(Z.family.sizes[2]) @ ones(1, Z.family.sizes[2]))

    def summed(x, Z):
        i = head("a", Z.family.sizes[0])
        return over(i, body(Z, i)) + 0 * x

    f = define("f", summed)
    first = theorem(f(X, Z), over(a, body(Z, a)), unfold(f))
    second = theorem(body(Z, a), Z[a], unfold(normalise))
    return line(f(X, Z) + V[a], over(b, Z[b]) + V[a], first, second)


def undefined_in_a_hypothesis():
    y, v, p, x = (matrix(q, n) for q in "yvpx")
    proof = Derivation("T", y * one).by(y * (p * x), given(one, p * x)).by(p * (x * y))
    proof = proof.by(p * (x * v), given(x * y, x * v)).by(v * (p * x)).by(v, given(p * x, one))
    first = theorem(y, v, proof.qed()(p=(1 / c) * one, x=c * one))
    return line(y, v, first(c=0))


def rows_of_equal_features():
    """A line that the fuzz test found: LN of equal features is 0, so normalise divides by 0."""
    divided = layer_norm(normalise(layer_norm(stack(J, J).T, 1)), 1)
    laws = [REINDEX, EXP_OF_SUM, SPLIT, ANGLE_ADDITION, SECOND_MOMENTS, COUNT]
    words = map(unfold, (layer_norm, rms_norm, normalise))
    alike = rms_norm(normalise(layer_norm(J, 1)), 1) @ ones(n, join(n, n))
    return line(divided, alike, *words, *laws)


test_it_is_refused = refused({
    "(z - z)ᵀ sums to zero, which never": lambda: line(
        normalise(zero.T), one.T, unfold(normalise)),
    "which never holds": {
        "a divisor that turns out to be zero": rows_of_equal_features,
        "a slope at a kink": lambda: line(
            derivative(relu(s * A), s) * zeros(n, n), zeros(n, n)),
    },
    "no row of 0*X sums to zero, which never holds": lambda: line(
        derivative(normalise(s * X) @ ones(d), s), zeros(n), unfold(normalise)),
    "0 ≠ 0, which never holds": undefined_in_a_hypothesis,
    "a hypothesis contains a": lambda: line(
        over(a, Z[a]), over(a, zeros(n, d)), given(Z[a], zeros(n, d))),
    "used free and bound": head_taken_for_all_by_a_citation,
    "a hypothesis: shapes differ: (n, d) = (n, n)": lambda: given(X, A),
})  # fmt: skip


# ── Conditions as they are printed ───────────────────────────────────────────────────────────

part, twice = define("f", lambda x, c: (1 / c) * x), define("k", lambda x: 2 * x)
flat = normalise(derivative(s * entrywise("f")(s * A), s))
halves = theorem((1 / c) * A + (1 / c) * A, (2 / c) * A)
roots = theorem(sp.sqrt(r) * A + sp.sqrt(r) * A, 2 * sp.sqrt(r) * A)


def dividing(name, entry, **how):
    """A word that divides by ``entry`` of its argument and requires the argument to be nonzero."""
    needs = lambda x: [NonZero(x.args[0], **how)]
    return book_word(name, lambda x, i, j, s: 1 / entry(s(i, j)), None, needs=needs)


inverse = dividing("inverse", lambda entry: entry)
careless, careful = dividing("careless", root_of), dividing("root", root_of, positive=True)


def of_itself(entry):
    return entry / entry


def rows_of_heads():
    return theorem(over(a, normalise(Z[a]) @ ones(d)), h * one, unfold(normalise))


def inverses(size, start=0):
    return tabulate(lambda i, j: 1 / (start + i), size)


def not_zero_and_then_positive():
    proof = line(careful(X) * X * inverse(X), careful(X), unfold(inverse))
    assert shown(proof) == ["each entry of X ≠ 0"]
    return proof.by(careful(X.T).T, unfold(careful))


def divided_midway():
    f = define("w", lambda x: normalise(x))
    first = theorem(f(X), normalise(X), unfold(f))
    return theorem(f(X) * sums_of_rows, X, first, unfold(normalise))


def evident_by_a_quotient():
    inverse = define("inv", lambda x: tabulate(lambda i, j: 1 / entry_of(x, i, j), *x.shape))
    unit = define("w", lambda x: x * inverse(x))
    columns = Y - (sp.Integer(1) / d) * Y @ ones(d) @ ones(1, d) + unit(v) @ ones(1, d)
    sums = columns @ ones(d) @ ones(1, d)
    return line(normalise(columns) * sums, columns, unfold(normalise))


#: {title: (function that proves a theorem, the conditions that it prints)}
NEEDED = {
    "a smooth function and a divisor": (
        lambda: line(flat, (1 / n) * J, unfold(normalise)),
        ["f is smooth", "no row of d/ds|₀ s f(s A) sums to zero"]),
    "a divisor": (lambda: halves, ["c ≠ 0"]),
    "a divisor, put": (lambda: halves(A=B, c=r), ["r ≠ 0"]),
    "a quotient, put": (lambda: theorem(c * A + A, A + c * A)(c=1 / r), ["r ≠ 0"]),
    "a matrix with a divisor, put": (
        lambda: theorem(A + A, 2 * A)(A=(1 / c) * B), ["c ≠ 0"]),
    "a root": (lambda: roots, ["r ≥ 0"]),
    "a root of what is positive": (lambda: roots(r=tau), []),
    "a root that has to be positive": (
        not_zero_and_then_positive, ["each entry of X > 0"]),
    "a root that says too little": (
        lambda: line(careless(X), careless(X.T).T, unfold(careless)),
        ["X[k,l] ≥ 0 for every k, l", "each entry of X ≠ 0"]),
    "the slope of a masked softmax": (
        lambda: line(
            derivative(masked_softmax(M, S + s * (u @ one.T)), s), zeros(m, n),
            unfold(masked_softmax)),
        ["no row of M ⊙ exp(S) sums to zero"]),
    "every head": (rows_of_heads, ["no row of Z[a] sums to zero, for every a"]),
    "the only head": (lambda: rows_of_heads()(h=1), ["no row of Z[1] sums to zero"]),
    "one head and every head": (
        lambda: theorem(
            normalise(Z[a]) @ ones(d) + over(b, normalise(Z[b]) @ ones(d)), (1 + h) * one,
            unfold(normalise)),
        ["no row of Z[a] sums to zero", "no row of Z[b] sums to zero, for every b"]),
    "what was divided by midway": (divided_midway, ["no row of X sums to zero"]),
    "what a quotient makes evident": (evident_by_a_quotient,
        ["no row of Y - (1/d) Y 1 1ᵀ + w(v) 1ᵀ sums to zero"]),
    "a word written out": (
        lambda: line(part(X, c) + part(X, c), (2 / c) * X, unfold(part)), ["c ≠ 0"]),
    "a slope of a quotient": (
        lambda: line(
            derivative(normalise(X + 2 * Y + A @ X + s * X) @ ones(d), s), zeros(n),
            unfold(normalise)),
        ["no row of X + 2 Y + A X sums to zero"]),
    "a slope in an index form": (
        lambda: theorem(
            tabulate(lambda i, j: entry_of(derivative(twice(s * X), s), i, j), n, d), 2 * X,
            unfold(twice)), []),
    "an index form": (
        lambda: theorem(tabulate(lambda i, j: 1 / entry_of(v, i), n) * v, one),
        ["v[k] ≠ 0 for every k"]),
    "a position": (lambda: theorem(inverses(n) * position_numbers(n), one), []),
    "the last position": (
        lambda: theorem(last_row(inverses(join(n, m))), (1 / (n + m)) * ones(1)), []),
    "positions in two blocks": (
        lambda: theorem(
            inverses(join(n, m)), stack(inverses(n), inverses(m, start=n)), SPLIT), []),
}  # fmt: skip


@pytest.mark.parametrize("name", NEEDED)
def test_the_conditions_of_a_theorem_are_printed(name):
    prove, needed = NEEDED[name]
    assert sorted(shown(prove())) == needed


def test_a_condition_contains_only_the_printed_letters():
    x_1, x1 = scalars("x_1 x1")
    divided = tabulate(lambda i, j: entry_of(X, i, j) * (2 / x_1) * x_1, n, d)
    hidden = line(twice(X), divided, unfold(twice)).by(2 * X).qed()
    refuse(lambda: line(x1 * twice(X), 2 * x1 * X, hidden), "another x_1 than the printed one")
    assert shown(theorem(c * twice(X), 2 * c * X, hidden)) == ["x_1 ≠ 0"]
    draw = random_matrix("G", 1, n, 1)
    mean = expectation(exp(draw * (position_numbers(1) @ one.T - position_numbers(n).T)))
    assert shown(theorem(mean - mean, 0 * mean)) == ["E(exp(G[k] (1 - k))) exists for every k"]


def identity_is_all_ones_at_the_first_place():
    """Prove I = 11ᵀ on condition that u_t ≠ 0, where u_1 = 1 and later u_t are 0."""
    u = recursion("u", lambda: ones(1, 1), lambda before, t: 0 * before)
    after, eye, all_ones = join(t, 1), identity(t), ones(t, t)
    value = ones(t) @ u(t) @ ones(1, t)
    spread = lambda X: ones(after) @ ones(1, t) @ X @ ones(t) @ ones(1, after)
    summed = lambda i, j: total(lambda x: total(lambda y: entry_of(value * eye, x, y), t), t)
    taken = table(summed, after, after)
    last = (ones(after) @ u(after) @ ones(1, after)) * ones(after, after)
    no_more = spread(value * all_ones)
    same = Induction("only one", t, value * eye, value * all_ones)
    same.base(lambda line: line.by(ones(1) @ u(1) @ ones(1, 1) * ones(1, 1)))
    same.step(
        lambda line, claim: (
            line.by(spread(value * eye) - taken, unfold(u))
            .by(no_more - taken, claim)
            .by(no_more - spread(value * eye))
            .by(no_more - no_more, claim)
            .by(last, unfold(u))
        )
    )
    below = table(lambda i, j: 1 / entry_of(u(t)), t, t)
    whole = line(eye, below * (value * eye)).by(below * (value * all_ones), same.qed())
    return theorem(eye, all_ones, whole.by(all_ones).qed())


def test_a_size_that_a_condition_depends_on_is_printed():
    assert "I[t]" in str(identity_is_all_ones_at_the_first_place())


def test_proves_refuses_conditions_on_letters_outside_the_statement():
    """A condition, as text, does not say that C is a permutation or that c is positive."""
    C, same = permutation("C", n), scalars("c", positive=True)
    for of, back, need in (
        (lambda x: C @ x, lambda x: C.T @ x, "C X = C Y"),
        (lambda x: same * x, lambda x: (1 / same) * x, "c X = c Y"),
    ):
        proof = line(X, back(of(X))).by(back(of(Y)), given(of(X), of(Y))).by(Y).qed()
        assert shown(proof) == [need] and not proves(proof, X, Y, needs=[need])
    p, unit = scalars("p", positive=True), ones(1, 1)
    whole = table(lambda i, j: of_itself(entry_of(p * unit) - 1) * entry_of(A, i, j))
    proof = line(A, whole).by(A).qed()
    assert shown(proof) == ["p - 1 ≠ 0"] and not proves(proof, A, A, shown(proof))
    told = line(p * A, p * whole).by(p * A).qed()
    assert proves(told, p * A, p * A, shown(told))
    U, V = matrix("U", n, 1), matrix("V", 1, n)
    rank_one, square = given(U @ V, A), theorem(U @ V, A, given(U @ V, A))
    lhs, rhs = A @ J @ A, A * (J @ A @ J)
    proof = line(lhs, U @ V @ J @ U @ V, square().reversed())
    proof = proof.by((U @ V) * (J @ (U @ V) @ J)).by(rhs, rank_one).qed()
    assert not proves(proof, lhs, rhs, shown(proof))
    W = matrix("W", n, d)
    assert proves(theorem(X + W, Y + W, given(X, Y)), X + W, Y + W, needs=["X = Y"])


def test_proves_refuses_conditions_on_words_outside_the_statement():
    """A condition, as text, does not say which recursion c or which word f it means."""
    row, u, v = recursion("c", lambda: ones(1), lambda row, t: row), matrix("u", 1), matrix("v", 1)
    always = Induction("I", t, row(t), ones(1)).base(lambda line: line.by(ones(1), unfold(row)))
    always = always.step(
        lambda line, before: line.by(row(t), unfold(row)).by(ones(1), before)
    ).qed()
    there, back = always(t=n).reversed(), always(t=n)
    proof = line(u, ones(1) @ u).by(row(n) @ u, there)
    proof = proof.by(row(n) @ v, given(row(n) @ u, row(n) @ v)).by(v, back)
    assert not proves(proof.qed(), u, v, needs=["c[n] u = c[n] v"])
    f = define("f", lambda x: x)
    of = lambda x: tabulate(lambda i, j: entry_of(f(x), i, j), n, d)
    proof = line(X, of(X), unfold(f)).by(of(Y), given(of(X), of(Y))).by(Y, unfold(f))
    assert not proves(proof.qed(), X, Y, needs=shown(proof))
