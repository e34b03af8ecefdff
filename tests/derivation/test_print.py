"""What a derivation looks like: expressions and their sizes, reasons, names, breaks, hypotheses."""

import re

import pytest
from derivation.display import WIDEST, _broken
from shared_letters import *

u, e, C = matrix("u", d), matrix("e", m), matrix("C", n, n)
tot = define("tot", lambda x: x.T @ ones(x.shape[0]))
many = define("many", lambda c, n: (ones(n).T @ ones(n)) @ c.T)


def table(entry, rows=n, columns=n):
    return tabulate(entry, rows, columns)


def at_places(x):
    """The same, in index form."""
    return table(lambda i, j: 1 * entry_of(x, i, j), *x.shape)


def all_of(letters):
    product = 1
    for x in scalars(letters):
        product = product * x
    return product


#: expressions, and how they print
SHOWN = {
    # brackets where they are needed and nowhere else
    "a sum in a product": ((A + B) @ C, "(A + B) C"),
    "a product in a sum": (A @ B + C, "A B + C"),
    "a product, turned": ((A @ B).T, "(A B)ᵀ"),
    "a factor, turned": (A.T @ B, "Aᵀ B"),
    "a scaled sum": (2 * (A + B), "2 (A + B)"),
    "a sign before a product": (-(A @ B), "-A B"),
    "two kinds of product": ((A * B) @ C, "(A ⊙ B) C"),
    "a difference": (A - B, "A - B"),
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
    "a matrix of ones, turned": (ones(n, m).T, "11ᵀ"),
    # a size stands where nothing else tells it
    "between two factors": (exp(zeros(n, m)) @ exp(zeros(m, d)), "exp(0[n×m]) exp(0)"),
    "a row of ones that is scaled": ((3 * one).T @ one, "(3 · 1[n])ᵀ 1"),
    "an entrywise product of rows": ((one.T * one.T) @ one, "(1[n]ᵀ ⊙ 1ᵀ) 1"),
    "a sum of rows": ((one.T + one.T) @ one, "(1[n]ᵀ + 1ᵀ) 1"),
    "how many ones before a sum": (one.T @ (one + one), "1[n]ᵀ (1 + 1)"),
    "how many ones": (one.T @ one - ones(m).T @ ones(m), "1[n]ᵀ 1 - 1[m]ᵀ 1"),
    "how many ones, scaled": (
        2 * one.T @ one - 2 * ones(m).T @ ones(m), "2 · 1[n]ᵀ 1 - 2 · 1[m]ᵀ 1"),
    "the rows of a mask": (causal(n) @ one, "L 1"),
    "a mask of one entry": (masked_softmax(ones(1, 1), matrix("x", 1)), "softmax[(1)](x)"),
    "the last row, summed": (last_row(causal(n)) @ one, "last(L[n]) 1"),
    "what a reader's word sums": (tot(one), "tot(1[n])"),
    "a constant in index form": (table(lambda i, j: 1, n, m) @ ones(m), "(1)[i,j≤m] 1"),
    "a size that is a sum": (
        table(lambda i, j: 2 * entry_of(last_row(position_numbers(join(n, m)))), 1, 1), "2 (n+m)"),
    "a size that no matrix tells": (
        table(lambda i, j: entry_of(many(u, n), None, j) - entry_of(many(u, m), None, j), 1, d),
        "(many(u; n)[i] - many(u; m)[i])[i≤d]ᵀ"),
    "a block of zeros": (stack(X, zeros(m, d)), "[X; 0[m×d]]"),
    "what a letter tells": (one.T @ X @ ones(d), "1ᵀ X 1"),
    "what a letter tells of a sum": ((X + ones(n, d)) @ ones(d), "(X + 11ᵀ) 1"),
    "what a letter tells of a word": (tot(X), "tot(X)"),
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


#: the same in LaTeX: expressions, and a part of what they print
IN_LATEX = {
    "zeros between two factors": (exp(zeros(n, m)) @ exp(zeros(m, n)), r"0_{n \times m}"),
    "ones that are scaled": ((3 * one).T @ one, r"3\,\mathbf{1}_{n}"),
    "a constant table": (table(lambda i, j: 1, n, m) @ ones(m), r"j \le m"),
    "ones of two sizes": (X @ ones(d, m) @ ones(m), r"\mathbf{1}\mathbf{1}_{m}^{\top}"),
    "a table within a word": (at_places(tot(one)), r"k \le n"),
    "a row": (table(lambda i, j: 2 * entry_of(v, j), 1, n), r"}^{\top}"),
    "a function, turned": (exp(A).T, r"$\displaystyle \left(e^{\circ A}\right)^{\top}$"),
    "a half": (3 * (A / 2), r"3 \cdot \frac{1}{2}"),
    "a name of several letters": (scalars("st") * A, r"\mathrm{st}"),
    "a capital Greek letter": (P, r"$\displaystyle \Pi$"),
    "a small one": (matrix("β", d), r"$\displaystyle \beta$"),
    "a Greek letter with a subscript": (permutation("Π_m", m), r"$\displaystyle \Pi_{m}$"),
    "a subscript": (matrix("W_Q", d, d), r"$\displaystyle W_{Q}$"),
}  # fmt: skip


@pytest.mark.parametrize("name", IN_LATEX)
def test_latex_says_it_too(name):
    x, part = IN_LATEX[name]
    assert part in x._repr_latex_()


def test_a_column_is_not_turned():
    assert "top" not in table(lambda i, j: 2 * entry_of(v, i), n, 1)._repr_latex_()


# ── A proof, line by line ────────────────────────────────────────────────────────────────────


def shift():
    start = Derivation("shift", softmax(S + e @ one.T))
    start.by(softmax(S), unfold(softmax), EXP_OF_SUM, note="the same for every key")
    return start.qed("Theorem 9.1")


def test_the_checked_reason_is_printed_and_the_note_beside_it():
    latex, text = shift()._repr_latex_(), repr(shift())
    assert r"\text{definition of softmax, $e^{a+b}=e^a e^b$}" in latex
    assert r"\textit{(the same for every key)}" in latex
    assert "definition of softmax, exponential of a sum (the same for every key)" in text
    assert text.startswith("Theorem 9.1 (shift):")


def test_one_aligned_block_with_a_row_for_each_line():
    latex = line(softmax(S + e @ one.T), softmax(S), unfold(softmax), EXP_OF_SUM)._repr_latex_()
    assert latex.startswith("$$\\begin{aligned}") and latex.endswith("\\end{aligned}$$")
    assert latex.count("&=") == 1 and latex.count("&&") == 1
    assert "& A + A" in Derivation("T", A + A)._repr_latex_(), "one that has only begun"


def test_a_reason_too_long_to_stand_beside_its_line_stands_below_it():
    wide = sum((X @ matrix(f"W_{k}", d, d) for k in range(1, 6)), X @ matrix("W_0", d, d))
    start = Derivation("wide", wide)
    start.by(wide + 0 * X @ matrix("W_0", d, d), note="a long remark that says why this line is so")
    latex = start.qed()._repr_latex_()
    assert r"\small\text{by }\text{algebra}" in latex and "&&" not in latex


def test_long_lines_break_and_stay_within_the_page():
    terms = [X @ matrix(f"W_{number}", d, d) for number in range(12)]
    proof = theorem(sum(terms[1:], terms[0]), sum(terms[-2::-1], terms[-1]))
    rows = [re.sub(r"  -- .*", "", row) for row in repr(proof).splitlines()[1:]]
    assert len(rows) == 4 and all(len(row) <= WIDEST + 12 for row in rows)
    assert proof._repr_latex_().count(r"\qquad + X") == 1


def test_a_long_sum_over_heads_breaks_between_its_factors_and_keeps_its_brackets():
    W = {x: Heads(f"W_{x}", h, k, d) for x in "QKVO"}
    bias = {x: Heads(f"b_{x}", h, k, 1) for x in "QKV"}
    q, key, value = (X @ W[x][a].T + one @ bias[x][a].T for x in "QKV")
    rows = _broken(over(a, softmax(tau * q @ key.T) @ value @ W["O"][a]), {}, Text())
    assert len(rows) == 2 and rows[0].startswith("Σ_a≤h softmax(")
    assert rows[1].startswith("· (X W_V")
    left, right = Heads("Value", h, n, n)[a], matrix("Weight_u", n, n)
    for x in "pqrsvwx":
        left, right = left @ matrix(f"Weight_{x}", n, n), right @ matrix(f"Weight_{x}", n, n)
    whole = repr(Derivation("T", over(a, left + right)))
    assert "Σ_a≤h (" in whole and whole.rstrip().endswith(")")


def test_a_number_is_not_repeated_when_one_theorem_is_cited_twice():
    T, f = matrix("T", m, n), matrix("f", m)
    sums = softmax(S + e @ one.T) + softmax(T + f @ one.T)
    twice = line(sums, softmax(S) + softmax(T), shift()(), shift()(S=T, e=f))
    assert repr(twice).count("Theorem 9.1 (shift)") == 1
    cited = theorem(A + A, 2 * A)()
    assert "A + A" in repr(cited) and cited._repr_latex_()


# ── Names for what recurs, and what is kept back ─────────────────────────────────────────────


def test_what_recurs_in_long_lines_gets_a_name_that_is_free():
    Z = matrix("A", n, d)
    wide = layer_norm(Z @ matrix("W_1", d, d) + X @ matrix("W_2", d, d), eps)
    proof = theorem(wide + 2 * wide + 3 * wide, 6 * wide)
    assert "where B = LN(" in repr(proof) and "where A" not in repr(proof)
    assert r"\text{where } B = " in proof._repr_latex_()
    letters = [matrix(x, n, n) for x in "ABCDEFGHUVWZ"]
    long = sum((softmax(letters[-1] @ A.T @ A) @ A for _ in range(3)), A)
    needy = theorem(long @ letters[1], long @ letters[2], given(letters[1], letters[2]))
    rows = [row.split() for row in repr(needy).splitlines()]
    named = [words[1] for words in rows if words[:1] == ["where"]]
    assert named and not {"A", "B", "C", "Z"} & set(named), "nor that of a letter in a hypothesis"


def test_a_name_for_what_depends_on_a_head_carries_the_head():
    Z, W, A_a = Heads("A", h, n, n), Heads("B", h, n, n), matrix("A_a", n, n)
    wide = softmax(tau * Z[a] @ W[a].T @ Z[a])
    proof = repr(line(over(a, wide @ wide + 2 * wide @ wide), over(a, 3 * wide @ wide)))
    assert "where C[a] = softmax(" in proof and "C[a] C[a]" in proof
    q = softmax(Heads("Wlong", h, n, n)[a] @ B @ Heads("Vlong", h, n, n)[a].T)
    start = line(over(a, q @ C @ q.T @ A_a @ q @ C), over(a, 2 * q @ C @ q.T @ A_a @ q @ C) / 2)
    assert "where D[a] = softmax" in repr(start), "A is no name beside the letter A_a"


def test_every_parameter_is_printed():
    """What is the same everywhere is said once, what differs where it stands."""
    scale = define("scale", lambda x, c: c * x)
    differ = repr(theorem(scale(X, 1) + X, scale(X, 2), unfold(scale)))
    assert "scale(X, 1) + X" in differ and "= scale(X, 2)" in differ
    norms = Derivation("T", layer_norm(X, 1) - layer_norm(X, 2))
    assert "LN(X, 1) - LN(X, 2)" in repr(norms) and "LN(X, 1)" in repr(norms.lines[0][0])
    same = line(layer_norm(X, 1) - layer_norm(X, 1), zeros(n, d))
    assert "LN(X) - LN(X)" in repr(same) and "with LN(…; 1)" in repr(same)
    assert r"\operatorname{LN}" in same._repr_latex_() and r"\dots;\, 1" in same._repr_latex_()
    block = define("block", lambda x, b, W: x @ W + ones(x.shape[0]) @ b.T, shown=1)
    W, b_1, b_2 = matrix("W", d, d), matrix("b", d), matrix("b_2", d)
    two = repr(line(block(X, b_1, W) + block(X, b_2, W), block(X, b_2, W) + block(X, b_1, W)))
    assert "block(X, b) + block(X, b_2)" in two and "with block(…; W)" in two
    two = repr(line(block(X, u, W) + block(X, u, W.T), block(X, u, W.T) + block(X, u, W)))
    assert "block(X, u, W) + block(X, u, Wᵀ)" in two, "kept back are the last ones only"


def test_what_a_word_keeps_to_itself_says_which_heads_it_is_of():
    W, word = Heads("W", h, n, n), define("q", lambda x, w: x @ w, shown=1)
    proof = line(over(a, word(A, W[a])), A @ over(a, W[a]), unfold(word))
    assert "with q(…; W[a]) for every a" in repr(proof)


def test_a_recursion_says_which_scalars_it_depends_on():
    c_b, mu = scalars("b"), sequence("mu")
    sums = recursion("r", lambda mu, b: mu[1] + b * ones(1), lambda r, t, mu, b: r + mu[t])
    assert [repr(sums(t, mu, c_b)), repr(sums(t, mu, 0))] == ["r[t](mu, b)", "r[t](mu, 0)"]


def test_what_is_bound_is_called_like_no_letter_around_it():
    """The scope of a sum, or of d/ds, is not printed: so its name is free in the whole of it."""
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


def test_a_name_of_several_letters_is_no_product_of_letters():
    s, t, st = scalars("s t st")
    assert (st * A)._repr_latex_() != (s * t * A)._repr_latex_()


# ── Hypotheses, and what letters are ─────────────────────────────────────────────────────────


def test_hypotheses_are_printed_before_qed_as_well():
    rows = line(masked_softmax(M, S) @ one, ones(m), unfold(masked_softmax))
    for proof in (rows, rows.qed()):
        assert "needs no row of M ⊙ exp(S) sums to zero" in repr(proof)
    assert r"\text{needs } \text{no row of }M \odot" in rows.qed()._repr_latex_()
    K, V = Heads("K", h, m, n), Heads("V", h, m, n)
    of_heads, every = K[a] + V[a], over(a, ones(m))
    cited = theorem(over(a, masked_softmax(M, of_heads) @ one), every, rows.qed()(S=of_heads))
    assert "needs no row of M ⊙ exp(K[a] + V[a]) sums to zero for every a" in repr(cited)


def test_a_condition_says_its_range_where_no_letter_tells_it():
    x = table(lambda i, j: 1 / (c - i), n, 1)
    y = table(lambda i, j: total(lambda k: 1 / (c - k), m), n, 1)
    printed = repr(line(y + x + y, 2 * y + x))
    assert "for every k≤n" in printed and "for every k≤m" in printed
    f_c = entrywise("f")(c * ones(1))
    quotient = table(lambda i, j: entry_of(f_c) / entry_of(f_c))
    assert "needs f(c) ≠ 0" in repr(line(quotient, J))


def test_what_letters_are_is_printed_where_they_are_no_matrices_of_any_kind():
    N, order, positive = mask("M", n, n), permutation("P", n), scalars("c", positive=True)
    proof = theorem(positive * (N * N) + order.T @ order, positive * N + identity(n))
    assert "(M is a mask; P is a permutation; c > 0)" in repr(proof)
    assert r"c > 0" in proof._repr_latex_()
    assert "is a" not in repr(theorem(A + A, 2 * A))
    assert "P is a permutation" in repr(line(order @ A, order @ order @ A, given(A, order @ A)))


def test_a_letter_that_only_a_number_mentions_is_said_to_be_a_size():
    """Were n any number, n 1/n Z = Z would need it not to vanish."""
    for Z, told in ((matrix("Z", m, m), True), (matrix("Z", n, m), False)):
        assert ("(n is a size)" in repr(theorem(n * ((1 / n) * Z), Z))) is told


# ── Sizes that both sides tell, or none ──────────────────────────────────────────────────────


def test_both_sides_of_a_line_tell_each_other():
    flat = repr(theorem(softmax(zeros(n, m)), (1 / m) * ones(n, m), unfold(softmax)))
    assert "softmax(0[n×m])" in flat and "= 1/m 11ᵀ" in flat
    one_row = theorem(causal(1), ones(1, 1))  # true of one row, and no others
    assert "L[1]" in repr(one_row) and "L_{1}" in one_row._repr_latex_()
    assert "  = 0 " in repr(theorem(X - X, zeros(n, d)))


def test_a_hypothesis_says_all_its_sizes():
    """A line is true at any size of its sides; what it rests on is not."""
    number, count = matrix("A", 1), lambda size: ones(1, size) @ ones(size)
    proof = line(count(n) + count(m), number + count(m), given(count(n), number))
    printed = repr(proof.by(number + number, given(count(m), number)))
    assert "needs 1[n]ᵀ 1 = A" in printed and "needs 1[m]ᵀ 1 = A" in printed
    proof = line((n * n) * number, one.T @ J @ one @ number)
    proof.by(one.T @ identity(n) @ one @ number, given(J, identity(n)))
    assert "needs 1[n]1ᵀ = I" in repr(proof)
    told = line(at_places(tot(one)), number, given(at_places(tot(one)), number))
    assert "needs tot((1)[k≤n]) = A" in repr(told)


def test_a_size_in_an_index_form_is_mentioned():
    """Of another width it would be false."""
    fractions = table(lambda i, j: 1 / total(lambda k: 1, n), 1, n)
    printed = repr(line(normalise(ones(1, n)), fractions, unfold(normalise)))
    assert "normalise(1[n]ᵀ)" in printed
    assert "softmax((0)[l≤n]ᵀ)[i]" in repr(at_places(softmax(zeros(1, n))))
    assert "[k≤n+m,l]" in repr(at_places(softmax(stack(X, zeros(m, d)))))


def test_what_a_readers_word_takes_need_not_conform():
    """Whether I is as large as X has rows or columns, only the definition knows."""
    f = define("w", lambda x, y: 2 * x @ (ones(y.shape[0]).T @ y @ ones(y.shape[1])))
    printed = [repr(f(v, y)) for y in (one, ones(m), ones(1, 1), v + one, identity(n))]
    assert printed == ["w(v, 1[n])", "w(v, 1[m])", "w(v, 1)", "w(v, v + 1)", "w(v, I[n])"]
    # what it makes is as large as its definition says
    assert repr(f(v, v) + one) == "w(v, v) + 1"


def test_a_size_that_a_hypothesis_fixes_is_told_in_the_line():
    """At n = 1 the hypothesis holds; of another size than its n the line is false."""
    square = Derivation("x", causal(n) @ ones(n, n))
    proved = square.by(causal(n), given(ones(n, n), identity(n))).qed()
    assert "L[n] 11ᵀ\n  = L " in str(proved) and "needs 1[n]1ᵀ = I" in str(proved)


def test_what_has_one_entry_prints_like_no_longer_column():
    one = ones(1, 1)
    count = Derivation("count", ones(n).T @ ones(n)).by(n * one).qed()
    assert "1[1]ᵀ 1\n  = 1 · 1 " in str(count(n=1)) and "1[n]ᵀ 1\n  = n 1 " in str(count)
    place = position_numbers(1)
    placed = Derivation("p", place.T @ place).by(one).qed()
    assert "(1)ᵀ (1)\n  = 1 " in str(placed) and "}^" not in placed._repr_latex_()
