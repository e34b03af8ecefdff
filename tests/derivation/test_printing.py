"""How derivations are printed: expressions, sizes, reasons, names, line breaks, hypotheses."""

import pytest
from shared_letters import *

u, C, number = matrix("u", d), matrix("C", n, n), matrix("A", 1)
Z_h, order, y_1 = Heads("Z", h, n, n), permutation("P", n), matrix("y", 1)
tot = define("tot", lambda x: x.T @ ones(x.shape[0]))
many = define("many", lambda c, n: (ones(n).T @ ones(n)) @ c.T)


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
    "a function, turned": (exp(A).T, "(exp(A))ᵀ"),
    "two numbers": (3 * (4 * X), "3 · 4 X"),
    "a sum that is taken away": (
        table(lambda i, j: -(entry_of(A, i, j) + entry_of(B, i, j))), "(-(A[i,j] + B[i,j]))[i,j]"),
    "a quotient that is taken away is no factor": (
        table(lambda i, j: entry_of(A, i, j) * (-entry_of(B, i, j) / n)), "(A[i,j] (-B[i,j]/n))[i,j]"),
    "a sign in an index form": (
        table(lambda i, j: entry_of(A, i, j) - entry_of(J, i, j)), "(A[i,j] - 1)[i,j]"),
    "a number in an index form": (table(lambda i, j: entry_of(-3 * J, i, j)), "(-3)[i≤n,j≤n]"),
    "where two positions coincide": (
        table(lambda i, j: 2 * entry_of(identity(n), i, j)), "(2 [i = j])[i≤n,j≤n]"),
    "where a stack is asked": (
        table(lambda i, j: entry_of(stack(v, v), i), join(n, n)), "({v[k]; v[l]}[i])[i≤n+n,j≤n]"),
    "a scalar named i": (
        table(lambda i, j: scalars("i") * entry_of(A, i, j)), "(i A[j,p])[j,p]"),
    "a table that runs out of names": (
        table(lambda i, j: all_of("i j p q r s t u v w x y z") * entry_of(B, i, j)),
        "(B[i_1,i_2] i j p q r s t u v w x y z)[i_1,i_2]"),
    "a column": (table(lambda i, j: 2 * entry_of(v, i), n, 1), "(2 v[i])[i]"),
    "a row": (table(lambda i, j: 2 * entry_of(v, j), 1, n), "(2 v[i])[i]ᵀ"),
    "a norm by itself": (layer_norm(X, 2), "LN(X, 2)"),
    "a matrix of ones, turned": (ones(n, m).T, "1 1ᵀ"),
    # a size is printed if nothing else in the expression determines it
    "between two factors": (exp(zeros(n, m)) @ exp(zeros(m, d)), "exp(0[n×m]) exp(0)"),
    "a row of ones that is scaled": ((3 * one).T @ one, "(3 · 1[n])ᵀ 1"),
    "an entrywise product of rows": ((one.T * one.T) @ one, "(1[n]ᵀ ⊙ 1ᵀ) 1"),
    "how many ones before a sum": (one.T @ (one + one), "1[n]ᵀ (1 + 1)"),
    "how many ones": (one.T @ one - ones(m).T @ ones(m), "1[n]ᵀ 1 - 1[m]ᵀ 1"),
    "the rows of a mask": (causal(n) @ one, "L 1"),
    "a mask of one entry": (masked_softmax(ones(1, 1), matrix("x", 1)), "softmax[(1)](x)"),
    "the last row, summed": (last_row(causal(n)) @ one, "last(L[n]) 1"),
    "what a reader's word sums": (tot(one), "tot(1[n])"),
    "a size that is a sum": (
        table(lambda i, j: 2 * entry_of(last_row(position_numbers(join(n, m)))), 1, 1), "2 (n+m)"),
    "a size that no matrix tells": (
        table(lambda i, j: entry_of(many(u, n), None, j) - entry_of(many(u, m), None, j), 1, d),
        "(many(u; size n)[i] - many(u; size m)[i])[i≤d]ᵀ"),
    "a block of zeros": (stack(X, zeros(m, d)), "[X; 0[m×d]]"),
    "what a letter tells of a sum": ((X + ones(n, d)) @ ones(d), "(X + 1 1ᵀ) 1"),
    "what is true of every size": (causal(n) + causal(n).T - identity(n), "L + Lᵀ - I"),
    "tables within a word": (
        at_places(tot(one)) - at_places(tot(ones(m))), "tot((1)[k≤n]) - (tot((1)[k≤m]))"),
    "a word of a word is no table": (
        at_places(softmax(softmax(X))), "(softmax(softmax(X))[i,j])[i≤n,j≤d]"),
    "a reader's word of a word": (at_places(tot(tot(v))), "tot(tot(v))"),
}  # fmt: skip


@pytest.mark.parametrize("name", SHOWN)
def test_an_expression_prints_what_it_is(name):
    x, shown_ = SHOWN[name]
    assert repr(x) == shown_


#: {title: (expression, part of its LaTeX)}
IN_LATEX = {
    "zeros between two factors": (exp(zeros(n, m)) @ exp(zeros(m, n)), r"0_{n \times m}"),
    "ones that are scaled": ((3 * one).T @ one, r"3\,\mathbf{1}_{n}"),
    "a constant table": (table(lambda i, j: 1, n, m) @ ones(m), r"j \le m"),
    "ones of two sizes": (X @ ones(d, m) @ ones(m), r"\mathbf{1}\mathbf{1}_{m}^{\top}"),
    "a table within a word": (at_places(tot(one)), r"k \le n"),
    "a row": (table(lambda i, j: 2 * entry_of(v, j), 1, n), r"}^{\top}"),
    "a function, turned": (exp(A).T, r"$\displaystyle \left(e^{\circ A}\right)^{\top}$"),
    "a name of several letters": (scalars("st") * A, r"\mathit{st}\,A"),
    "a name and its subscripts": (scalars("st_1_out") * A, r"\mathit{st}_{1,\mathrm{out}}\,A"),
    "a word and its subscripts": (define("f_a_b", lambda x: x)(A), r"f_{a,b}\!"),
    "a transpose, once": (position_numbers(n).T @ A, r"^{\top}"),
    "the number 0": (0 * u.T, r"0 \times u"),
    "a norm's parameter": (line(layer_norm(X, 1), 1 * layer_norm(X, 1)), r"\dots;\, 1"),
    "a number for a size": (theorem(causal(1), ones(1, 1)), "L_{1}"),
    "a positive number": (theorem(tau * A + A, A + tau * A), r"\tau > 0"),
    "a Greek name": (matrix("gamma_2", n), r"$\displaystyle \gamma_{2}$"),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_LATEX)
def test_latex_has_the_same_parts(name):
    x, part = IN_LATEX[name]
    assert part in x._repr_latex_() and r"^{\top}^{\top}" not in x._repr_latex_()


# ── A proof, line by line ────────────────────────────────────────────────────────────────────


def test_a_long_sum_over_heads_keeps_its_brackets():
    left, right = Heads("Value", h, n, n)[a], matrix("Weight_u", n, n)
    for x in "pqrsvwx":
        left, right = left @ matrix(f"Weight_{x}", n, n), right @ matrix(f"Weight_{x}", n, n)
    whole = repr(Derivation("T", over(a, left + right))).partition("\n  where")[0]
    assert "Σ_a≤h (" in whole and whole.endswith(")")


# ── Names for repeated parts, and parameters that are printed apart ──────────────────────────


def test_a_repeated_part_gets_a_name_that_no_letter_has():
    long = sum((softmax(matrix("Z", n, n) @ A.T @ A) @ A for _ in range(3)), A)
    needy = theorem(long @ B, long @ C, given(B, C))
    rows = [row.split() for row in repr(needy).splitlines()]
    named = [words[1] for words in rows if words[:1] == ["where"]]
    assert named and not {"A", "B", "C", "Z"} & set(named), "nor that of a letter in a hypothesis"
    A_a = matrix("A_a", n, n)
    q = softmax(Heads("Wlong", h, n, n)[a] @ B @ Heads("Vlong", h, n, n)[a].T)
    start = line(over(a, q @ C @ q.T @ A_a @ q @ C), over(a, 2 * q @ C @ q.T @ A_a @ q @ C) / 2)
    assert "where D[a] = softmax" in repr(start), "A is no name beside the letter A_a"


def test_a_bound_name_differs_from_every_letter_around_it():
    """No sum or slope shows where it ends, so its bound name occurs nowhere else in the line."""
    t, k, k_2 = scalars("t k k_2")
    of_t, inner = derivative(exp(t * A), t), lambda i, j: exp_of(s * entry_of(B, i, j))
    assert "d/ds" not in repr(table(lambda i, j: entry_of(of_t, i, j) * inner(i, j)))
    left = lambda i: total(lambda q: entry_of(A, i, q), n)
    sums = table(lambda i, j: left(i) * total(lambda q: k * entry_of(B, q, j), n))
    assert "Σ_k" not in repr(sums)
    product = k_2 * all_of("k l p q r s t u v w")
    inner = lambda i, j: total(lambda a: entry_of(A, i, a) * entry_of(B, a, j), n)
    printed = repr(theorem(table(lambda i, j: product * inner(i, j)), product * A @ B))
    assert "Σ_k_1≤n" in printed and "Σ_k_2" not in printed


# ── Parameters, hypotheses, kinds of letters, sizes ──────────────────────────────────────────

unit, b_1, b_2, W_d = ones(1, 1), matrix("b", d), matrix("b_2", d), matrix("W", d, d)
c_b, mu, square, positive = (
    scalars("b"),
    sequence("mu"),
    mask("M", n, n),
    scalars("c", positive=True),
)
scale = define("scale", lambda x, c: c * x)
block = define("block", lambda x, b, W: x @ W + ones(x.shape[0]) @ b.T, shown=1)
held = define("q", lambda x, w: x @ w, shown=1)
to_number = define("w", lambda x, y: 2 * x @ (ones(y.shape[0]).T @ y @ ones(y.shape[1])))
sums = recursion("r", lambda mu, b: mu[1] + b * unit, lambda r, t, mu, b: r + mu[t])
two_ways = lambda left, right: line(left + right, right + left)
count = lambda size: ones(size).T @ ones(size)
counted = lambda size=None: theorem(count(n), n * unit)(**({"n": size} if size else {}))
place = position_numbers(1)
placed = theorem(place.T @ place, unit)
one_row = theorem(causal(1), ones(1, 1))  # true for one row only
rows_sum = line(masked_softmax(M, S) @ one, ones(m), unfold(masked_softmax))
of_heads = Heads("K", h, m, n)[a] + Heads("V", h, m, n)[a]
fractions = table(lambda i, j: 1 / total(lambda k: 1, n), 1, n)
f_c = entrywise("f")(c * unit)


def ranges_in_conditions():
    x = table(lambda i, j: 1 / (c - i), n, 1)
    y = table(lambda i, j: total(lambda k: 1 / (c - k), m), n, 1)
    return line(y + x + y, 2 * y + x)


def hypotheses_about_two_counts():
    proof = line(count(n) + count(m), number + count(m), given(count(n), number))
    return proof.by(number + number, given(count(m), number))


def hypothesis_at_one_size():
    proof = line((n * n) * number, one.T @ J @ one @ number)
    return proof.by(one.T @ identity(n) @ one @ number, given(J, identity(n)))


test_a_line_prints_what_it_says = printed({
    # a parameter is printed once if it is the same in the whole line, else in each call
    "parameters that differ": (
        lambda: theorem(scale(X, 1) + X, scale(X, 2), unfold(scale)),
        ["scale(X, 1) + X", "= scale(X, 2)"]),
    "norms that differ": (
        lambda: Derivation("T", layer_norm(X, 1) - layer_norm(X, 2)), ["LN(X, 1) - LN(X, 2)"]),
    "a norm by itself": (
        lambda: Derivation("T", layer_norm(X, 1) - layer_norm(X, 2)).lines[0][0], ["LN(X, 1)"]),
    "norms that agree": (
        lambda: line(layer_norm(X, 1) - layer_norm(X, 1), zeros(n, d)),
        ["LN(X) - LN(X)", "with LN(…; 1)"]),
    "one parameter differs": (
        lambda: two_ways(block(X, b_1, W_d), block(X, b_2, W_d)),
        ["block(X, b) + block(X, b_2)", "with block(…; W)"]),
    "the last parameter differs": (
        lambda: two_ways(block(X, u, W_d), block(X, u, W_d.T)),
        ["block(X, u, W) + block(X, u, Wᵀ)"]),
    "a parameter of every head": (
        lambda: line(over(a, held(A, Z_h[a])), A @ over(a, Z_h[a]), unfold(held)),
        ["with q(…; Z[a]) for every a"]),
    "scalars of a recursion": (lambda: sums(t, mu, c_b), ["r[t](μ, b)"]),
    "a number for a scalar": (lambda: sums(t, mu, 0), ["r[t](μ, 0)"]),
    # hypotheses and conditions
    "a condition before qed": (lambda: rows_sum, ["needs no row of M ⊙ exp(S) sums to zero"]),
    "a condition of every head": (
        lambda: theorem(over(a, masked_softmax(M, of_heads) @ one), over(a, ones(m)),
                        rows_sum.qed()(S=of_heads)),
        ["needs no row of M ⊙ exp(K[a] + V[a]) sums to zero, for every a"]),
    "ranges in conditions": (ranges_in_conditions, ["for every k≤n", "for every k≤m"]),
    "a condition on one number": (
        lambda: line(table(lambda i, j: entry_of(f_c) / entry_of(f_c)), J), ["needs f(c) ≠ 0"]),
    # a hypothesis prints its sizes, as it may hold at one size and not at another
    "two counts": (hypotheses_about_two_counts, ["needs 1[n]ᵀ 1 = A", "needs 1[m]ᵀ 1 = A"]),
    "a hypothesis that holds at n = 1": (hypothesis_at_one_size, ["needs 1[n] 1ᵀ = I"]),
    "a table in a hypothesis": (
        lambda: line(at_places(tot(one)), number, given(at_places(tot(one)), number)),
        ["needs tot((1)[k≤n]) = A"]),
    "a size that a hypothesis fixes": (
        lambda: theorem(causal(n) @ J, causal(n), given(J, identity(n))),
        ["L[n] 1 1ᵀ\n  = L ", "needs 1[n] 1ᵀ = I"]),
    # kinds of letters
    "a mask, a permutation, a positive number": (
        lambda: theorem(positive * (square * square) + order.T @ order, positive * square + identity(n)),
        ["where M: n×n mask; P: permutation of n; c > 0"]),
    "a matrix": (lambda: theorem(A + A, 2 * A), ["where A: n×n"]),
    "a letter of a hypothesis": (
        lambda: line(order @ A, order @ order @ A, given(A, order @ A)), ["P: permutation of n"]),
    # n (1/n) Z = Z needs no condition only because n is a size, so the text must say so
    "a size that is a number": (lambda: theorem(n * ((1 / n) * S), S), [], ["n: a size"]),
    "a size that is only a number": (
        lambda: theorem(d * ((1 / d) * S), S), ["d: a size"]),
    # sizes that both sides of a line determine, or neither
    "one side tells": (
        lambda: theorem(softmax(zeros(n, m)), (1 / m) * ones(n, m), unfold(softmax)),
        ["softmax(0[n×m])", "= (1/m) 1 1ᵀ"]),
    "a number for a size": (lambda: one_row, ["L[1]"]),
    "zeros beside a letter": (lambda: theorem(X - X, zeros(n, d)), ["  = 0 "]),
    "a size in an index form": (
        lambda: line(normalise(ones(1, n)), fractions, unfold(normalise)), ["normalise(1[n]ᵀ)"]),
    "a size within a table": (
        lambda: at_places(softmax(zeros(1, n))), ["softmax((0)[l≤n]ᵀ)[i]"]),
    "two blocks within a table": (
        lambda: at_places(softmax(stack(X, zeros(m, d)))), ["[k≤n+m,l]"]),
    # a printed call does not show the sizes of its arguments, so each argument prints its own
    **{said: (lambda y=y: to_number(v, y), [said]) for y, said in (
        (one, "w(v, 1[n])"), (ones(m), "w(v, 1[m])"), (unit, "w(v, 1)"), (v + one, "w(v, v + 1)"),
        (identity(n), "w(v, I[n])"))},
    "the shape of a word's value": (lambda: to_number(v, v) + one, ["w(v, v) + 1"]),
    # a single entry prints differently from a column
    "a count": (counted, ["1[n]ᵀ 1\n  = n "]),
    "a count of one": (lambda: counted(1), ["1[1]ᵀ 1\n  = 1 "]),
    "a place": (lambda: placed, ["1[1]ᵀ 1[1]\n  = 1 "]),
})  # fmt: skip


# ── Prints that once misled a reader ─────────────────────────────────────────────────────────

x, z, y_m, W = matrix("x", 1), sequence("z", n), sequence("y", m), Heads("W", h, n, n)
scaled_by, plain = scalars("p", positive=True), ones(n).T @ v
times = define("v", lambda X, p: hadamard(X, ones(X.shape[0], p) @ ones(p, X.shape[1])))
weighed = define("w", lambda X, p, b: p * X + ones(X.shape[0]) @ b[1])
grown = recursion("u", lambda p, b: p * b[1], lambda row, t, p, b: row + p * b[join(t, 1)])
word_k, word_i = define("k", lambda x: x), define("i", lambda X: X + X)
summed_word = table(lambda i, j: total(lambda p: entry_of(word_k(x)), n), 1, 1)
magnitude = recursion(
    "v", lambda c: table(lambda i, j: root_of(c * c), 1, 1), lambda row, t, c: row
)
layer = lambda x: over(a, softmax(x @ W[a]) @ x)


def size_in_an_argument_alone():
    negative = define("w", lambda p: table(lambda i, j: root_of(-p) ** 2 + p, 1, 1))
    zero = theorem(negative(n), zeros(1, 1), unfold(negative))
    below = table(lambda i, j: 1 / entry_of(negative(n)), 1, 1)
    return line(x, x @ negative(n) @ below).by(zeros(1, 1), zero()).qed()()


def size_in_an_induction():
    proof = Induction("T", t, magnitude(t, n), n * unit)
    proof.base(lambda line: line.by(n * unit, unfold(magnitude)))
    return proof.step(
        lambda line, claim: line.by(magnitude(t, n), unfold(magnitude)).by(n * unit, claim)
    ).qed()


def sizes_of_hypotheses():
    proof = line(r * unit, plain, given(r * unit, plain))
    at_two = proof.by(n * s * unit, given(v, s * ones(n))).qed()(n=2)
    assert not proves(at_two, r * unit, 2 * s * unit, shown(at_two))
    return theorem(r * unit + r * unit, 4 * s * unit, at_two)


def conditions_that_differ_in_a_size():
    first = lambda z, y, p: count(p) @ z[1]
    grow = lambda row, t, z, y, p: row + count(p) @ z[join(t, 1)] - z[1]
    word = recursion("ψ", first, grow)
    made = lambda p: word(k, z, y_m, p)
    twice = lambda p: table(lambda i, j: 1 / (1 / entry_of(made(p), i, j)), 1, n)
    return shown(theorem(twice(n) - twice(m), made(n) - made(m)))


def blocks_that_end_at_different_places():
    blocks = lambda top, below: entries(stack(ones(top), zeros(below)))
    one, other = blocks(n, join(m, k)), blocks(join(n, m), k)
    total_of = lambda x: ones(x.shape[0]).T @ x
    return theorem(total_of(one) - total_of(other), -m * unit, SPLIT)


def word_of_a_condition():
    zero, word = zeros(1, 1), recursion("A", lambda: zeros(1, 1), lambda row, t: row + row)
    same = Induction("A is zero", t, word(t), zero).base(lambda line: line.by(zero, unfold(word)))
    same.step(
        lambda line, claim: line.by(word(t) + word(t), unfold(word)).by(zero + zero, claim).by(zero)
    )
    inverse = table(lambda i, j: 1 / entry_of(word(t)), 1, 1)
    one_is_zero = line(unit, word(t) @ inverse).by(zero @ inverse, same.qed()).by(zero).qed()
    rows = matrix("X", t, n)
    shown_in_full = softmax(rows @ matrix("K", n, n) @ rows.T) @ rows @ v
    fourth = shown_in_full * shown_in_full * shown_in_full * shown_in_full
    proof = line(fourth, fourth * (ones(t) @ unit))
    return proof.by(fourth * (ones(t) @ zero), one_is_zero()).by(zeros(t)).qed()()


def gram(size=None, **other):
    V = random_matrix("W", m, k, 1)
    proved = theorem(expectation(V @ V.T), k * identity(m), SECOND_MOMENTS)
    return proved(k=size) if size else proved(**other)


def claim_of_capitals():
    N, X_ = sizes("N"), scalars("X", positive=True)
    P_, Q_ = matrix("P", N, N), matrix("Q", N, N)
    return theorem(P_ @ (X_ * N * Q_), N * X_ * (P_ @ Q_))


again = lambda: theorem(ones(n).T @ (A - A + identity(n)) @ ones(n), n * unit)(n=m)(m=2)
test_it_does_not_mislead = printed({
    # names
    "an index beside a size": (
        lambda: line(sizes("k") * layer_norm(A, 0), sizes("k") * layer_norm(scaled_by * A, 0),
                     unfold(layer_norm)), ["for every l"], ["Σ_k"]),
    "an index beside a word": (
        lambda: theorem(summed_word, n * x, unfold(word_k)), ["Σ_l≤n k(x)"]),
    "an index beside a word, at a size": (
        lambda: theorem(summed_word, n * x, unfold(word_k))(n=2, x=unit), ["Σ_l≤2 k(1)"]),
    "a position beside a word": (
        lambda: theorem(entries(word_i(A)), entries(2 * A), unfold(word_i)), ["(i(A)[j,p])[j,p]"]),
    "an abbreviation beside a word": (word_of_a_condition, ["where"], ["where A ="]),
    "an outer sum over heads": (lambda: layer(layer(A)), ["Σ_a'≤h", "W[a']"]),
    "what a word takes, in its order": (
        lambda: theorem(entries(weighed(A, c, z)), entries(c * A + ones(n) @ z[1]), unfold(weighed)),
        ["w(A, c, z)[i,j]"]),
    "what a recursion takes, in its order": (
        lambda: theorem(entries(grown(join(t, 1), c, z)),
                        entries(grown(t, c, z) + c * z[join(t, 1)]), unfold(grown)),
        ["u(c, z)[t+1,i]"]),
    # 0 times a row, and a column of zeros
    "the number 0": (lambda: theorem(exp(0 * u.T), exp(zeros(1, d))), ["0*u"]),
    "a column of zeros": (lambda: theorem(zeros(n, 1) @ u.T, zeros(n, d)), ["0 u"], ["0*u"]),
    # sizes
    "a size in an argument alone": (size_in_an_argument_alone, ["n: a size"]),
    "a size in an induction": (size_in_an_induction, ["n, t: sizes"]),
    "a size put for a draw's": (lambda: gram(k), ["W: m×k random"]),
    "a number put for a draw's size": (lambda: gram(3), ["W: m×3 random"]),
    "a draw put for a draw": (lambda: gram(W=random_matrix("V", m, n, 1)), ["V: m×n random"]),
    "sizes of hypotheses": (sizes_of_hypotheses, ["v: 2×1"]),
    "the size of a permutation": (
        lambda: theorem(ones(n).T @ P @ ones(n), n * unit)(n=2), ["Π: permutation of 2"]),
    "a size put twice": (again, ["A: 2×2"]),
    "a size that a word takes": (
        lambda: theorem(entries(times(C, n)) - entries(times(C, m)), (n - m) * C, unfold(times)),
        ["v(C; size n)", "v(C; size m)"]),
    "sizes in conditions": (conditions_that_differ_in_a_size, ["size n)", "size m)"]),
    "where blocks end": (blocks_that_end_at_different_places, ["1, l≤n; 0", "1, l≤n+m; 0"]),
    "capital letters": (claim_of_capitals, ["P, Q: N×N", "X > 0"]),
    "one entry": (lambda: line(softmax(x), unit, unfold(softmax)), ["x: 1×1"]),
    "one feature": (lambda: line(layer_norm(x, eps), zeros(1), unfold(layer_norm)), ["x: 1×1"]),
    "two numbers": (lambda: line(x @ y_1, y_1 @ x), ["x, y: 1×1"]),
})  # fmt: skip


def test_a_numbered_bound_name_does_not_look_like_a_letter():
    letters, k1 = sum(scalars("k l p q r s u v w")), scalars("k1")
    proof = line(
        letters * table(lambda i, j: total(lambda x: k1, n), 1, 1), letters * n * k1 * unit
    )
    assert r"\sum_{k_1=1}" not in proof._repr_latex_()
