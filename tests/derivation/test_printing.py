"""Prints that no notebook shows: brackets, sizes, names and what stands below a derivation."""

import pytest
from shared_letters import *

u, C, number, x = matrix("u", d), matrix("C", n, n), matrix("A", 1), matrix("x", 1)
Z_h, z, y_m, unit = Heads("Z", h, n, n), sequence("z", n), sequence("y", m), ones(1, 1)
tot = define("tot", lambda x: x.T @ ones(x.shape[0]))
many = define("many", lambda c, n: (ones(n).T @ ones(n)) @ c.T)
count = lambda size: ones(size).T @ ones(size)


def at_places(x):
    """An index form that equals ``x`` and multiplies each entry by 1."""
    return table(lambda i, j: 1 * entry_of(x, i, j), *x.shape)


def all_of(letters):
    product = 1
    for x in scalars(letters):
        product = product * x
    return product


#: {title: (expression, how it is printed)}
SHOWN = {
    # brackets where they are needed and nowhere else
    "a sum that is taken away": (
        table(lambda i, j: -(entry_of(A, i, j) + entry_of(B, i, j))), "(-(A[i,j] + B[i,j]))[i,j]"),
    "a quotient that is taken away": (
        table(lambda i, j: entry_of(A, i, j) * (-entry_of(B, i, j) / n)), "(A[i,j] (-B[i,j]/n))[i,j]"),
    "a scalar named i": (table(lambda i, j: scalars("i") * entry_of(A, i, j)), "(i A[j,p])[j,p]"),
    "a table that runs out of names": (
        table(lambda i, j: all_of("i j p q r s t u v w x y z") * entry_of(B, i, j)),
        "(B[i_1,i_2] i j p q r s t u v w x y z)[i_1,i_2]"),
    "a row": (table(lambda i, j: 2 * entry_of(v, j), 1, n), "(2 v[i])[i]ᵀ"),
    # a size is printed if nothing else in the expression determines it
    "between two factors": (exp(zeros(n, m)) @ exp(zeros(m, d)), "exp(0[n×m]) exp(0)"),
    "a row of ones that is scaled": ((3 * one).T @ one, "(3 · 1[n])ᵀ 1"),
    "a mask of one entry": (masked_softmax(ones(1, 1), x), "softmax[(1)](x)"),
    "the last row, summed": (last_row(causal(n)) @ one, "last(L[n]) 1"),
    "what a reader's word sums": (tot(one), "tot(1[n])"),
    "a size that no matrix tells": (
        table(lambda i, j: entry_of(many(u, n), None, j) - entry_of(many(u, m), None, j), 1, d),
        "(many(u; size n)[i] - many(u; size m)[i])[i≤d]ᵀ"),
    "tables within a word": (
        at_places(tot(one)) - at_places(tot(ones(m))), "tot((1)[k≤n]) - (tot((1)[k≤m]))"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_an_expression_prints_what_it_is(name):
    expression, as_text = SHOWN[name]
    assert repr(expression) == as_text


def test_latex_has_the_same_parts():
    for expression, part in (
        (scalars("st_1_out") * A, r"\mathit{st}_{1,\mathrm{out}}\,A"),
        (define("f_a_b", lambda x: x)(A), r"f_{a,b}\!"),
        (0 * u.T, r"0 \times u"),
        (line(layer_norm(X, 1), 1 * layer_norm(X, 1)), r"\dots;\, 1"),
    ):
        assert part in expression._repr_latex_()


def test_a_repeated_part_gets_a_name_that_no_letter_has():
    long = sum((softmax(matrix("Z", n, n) @ A.T @ A) @ A for _ in range(3)), A)
    rows = repr(theorem(long @ B, long @ C, given(B, C))).splitlines()
    named = [row.split()[1] for row in rows if row.split()[:1] == ["where"]]
    assert named and not {"A", "B", "C", "Z"} & set(named), "nor that of a letter in a hypothesis"


def test_a_bound_name_differs_from_every_letter_around_it():
    """No sum or slope shows where it ends, so its bound name occurs nowhere else in the line."""
    of_t = derivative(exp(c * A), c)
    beside = lambda i, j: entry_of(of_t, i, j) * exp_of(s * entry_of(B, i, j))
    assert "d/ds" not in repr(table(beside))
    product = all_of("k_2 k l p q r s t u v w")
    inner = lambda i, j: total(lambda q: entry_of(A, i, q) * entry_of(B, q, j), n)
    printed = repr(theorem(table(lambda i, j: product * inner(i, j)), product * A @ B))
    assert "Σ_k_1≤n" in printed and "Σ_k_2" not in printed


# ── What stands below the lines, and prints that once misled a reader ────────────────────────

b_1, b_2, W_d = matrix("b", d), matrix("b_2", d), matrix("W", d, d)
square, positive = mask("M", n, n), scalars("c", positive=True)
word_k = define("k", lambda x: x)
block = define("block", lambda x, b, W: x @ W + ones(x.shape[0]) @ b.T, shown=1)
held = define("q", lambda x, w: x @ w, shown=1)
to_number = define("w", lambda x, y: 2 * x @ (ones(y.shape[0]).T @ y @ ones(y.shape[1])))
sums = recursion("r", lambda z, b: b * z[1], lambda row, t, z, b: row + b * z[t])
times = define("v", lambda X, p: hadamard(X, ones(X.shape[0], p) @ ones(p, X.shape[1])))
weighed = define("w", lambda X, p, b: p * X + ones(X.shape[0]) @ b[1])
two_ways = lambda left, right: line(left + right, right + left)
summed_word = table(lambda i, j: total(lambda p: entry_of(word_k(x)), n), 1, 1)
layer = lambda x: over(a, softmax(x @ Z_h[a]) @ x)


def hypotheses_about_two_counts():
    proof = line(count(n) + count(m), number + count(m), given(count(n), number))
    return proof.by(number + number, given(count(m), number))


def conditions_that_differ_in_a_size():
    first = lambda z, y, p: count(p) @ z[1]
    word = recursion("ψ", first, lambda row, t, z, y, p: row + count(p) @ z[join(t, 1)] - z[1])
    made = lambda p: word(k, z, y_m, p)
    twice = lambda p: table(lambda i, j: 1 / (1 / entry_of(made(p), i, j)), 1, n)
    return shown(theorem(twice(n) - twice(m), made(n) - made(m)))


def gram_of_three():
    V = random_matrix("W", m, k, 1)
    return theorem(expectation(V @ V.T), k * identity(m), SECOND_MOMENTS)(k=3)


test_a_line_prints_what_it_says = printed({
    # a parameter is printed once if it is the same in the whole line, else in each call
    "one parameter differs": (
        lambda: two_ways(block(X, b_1, W_d), block(X, b_2, W_d)),
        ["block(X, b) + block(X, b_2)", "with block(…; W)"]),
    "a parameter of every head": (
        lambda: line(over(a, held(A, Z_h[a])), A @ over(a, Z_h[a]), unfold(held)),
        ["with q(…; Z[a]) for every a"]),
    "scalars of a recursion": (lambda: sums(t, z, c), ["r[t](z, c)"]),
    "what a word takes, in its order": (
        lambda: theorem(entries(weighed(A, c, z)), entries(c * A + ones(n) @ z[1]), unfold(weighed)),
        ["w(A, c, z)[i,j]"]),
    # conditions and hypotheses; a hypothesis prints its sizes, as it may hold at one size only
    "sizes in conditions": (conditions_that_differ_in_a_size, ["size n)", "size m)"]),
    "two counts": (hypotheses_about_two_counts, ["needs 1[n]ᵀ 1 = A", "needs 1[m]ᵀ 1 = A"]),
    "a size that a hypothesis fixes": (
        lambda: theorem(causal(n) @ J, causal(n), given(J, identity(n))),
        ["L[n] 1 1ᵀ\n  = L ", "needs 1[n] 1ᵀ = I"]),
    # kinds and shapes of letters
    "a mask, a permutation, a positive number": (
        lambda: theorem(positive * (square * square) + P.T @ P, positive * square + identity(n)),
        ["where M: n×n mask; c > 0; Π: permutation of n"]),
    "sizes that are only numbers": (
        lambda: theorem(h * d * ((1 / (h * d)) * S), S), ["d, h: sizes"]),
    "a number put for a draw's size": (gram_of_three, ["W: m×3 random"]),
    "a size put twice": (
        lambda: theorem(one.T @ (A - A + identity(n)) @ one, n * unit)(n=m)(m=2), ["A: 2×2"]),
    # sizes that both sides of a line determine, or neither
    "one side tells": (
        lambda: theorem(softmax(zeros(n, m)), (1 / m) * ones(n, m), unfold(softmax)),
        ["softmax(0[n×m])", "= (1/m) 1 1ᵀ"]),
    # a printed call does not show the sizes of its arguments, so each argument prints its own
    **{said: (lambda y=y: to_number(v, y), [said]) for y, said in (
        (one, "w(v, 1[n])"), (unit, "w(v, 1)"), (v + one, "w(v, v + 1)"))},
    "a size that a word takes": (
        lambda: theorem(entries(times(C, n)) - entries(times(C, m)), (n - m) * C, unfold(times)),
        ["v(C; size n)", "v(C; size m)"]),
    # names
    "an index beside a word": (lambda: theorem(summed_word, n * x, unfold(word_k)), ["Σ_l≤n k(x)"]),
    "an outer sum over heads": (lambda: layer(layer(A)), ["Σ_a'≤h", "Z[a']"]),
})  # fmt: skip
