"""Theorems the checker must prove at symbolic size, each as fast as a few million additions."""

import time

import pytest
from derivation import *  # noqa: F403  the whole public vocabulary is under test

n, m, d, k, h, f, t = sizes("n m d k h f t")
tau, eps = scalars("tau epsilon", positive=True)
S, X, Y = matrix("S", m, n), matrix("X", n, d), matrix("Y", n, d)
P, R = permutation("Π", n), permutation("Π_m", m)
c, b, gamma, beta = matrix("c", m), matrix("b", d), matrix("γ", d), matrix("β", d)
Q, K, V = matrix("Q", m, d), matrix("K", n, d), matrix("V", n, d)


def processor_time(work):
    started = time.process_time()  # what else runs on the machine does not count
    work()
    return time.process_time() - started


@pytest.fixture(scope="module")
def addition():
    """Seconds that this interpreter needs, on this processor, to add a million squares."""
    return min(processor_time(lambda: sum(i * i for i in range(10**6))) for _ in range(3))


@pytest.fixture(autouse=True)
def quickly(addition):
    started = time.process_time()
    yield
    took = (time.process_time() - started) / addition
    assert took < 150, f"a proof at symbolic size took as long as {took:.0f} million additions"


def rows_of_softmax():
    return Derivation("rows", softmax(R @ S)).by(R @ softmax(S), unfold(softmax)).qed()


def columns_of_softmax():
    return Derivation("columns", softmax(S @ P)).by(softmax(S) @ P, unfold(softmax), REINDEX).qed()


def orthogonality():
    return Derivation("orthogonality", P.T @ P).by(identity(n)).qed()


def shift_invariance():
    return (
        Derivation("shift", softmax(S + c @ ones(n).T))
        .by(softmax(S), unfold(softmax), EXP_OF_SUM)
        .qed()
    )


def row_sums():
    return Derivation("row sums", softmax(S) @ ones(n)).by(ones(m), unfold(softmax)).qed()


@pytest.mark.parametrize(
    "prove", [rows_of_softmax, columns_of_softmax, orthogonality, shift_invariance, row_sums]
)
def test_lemmas(prove):
    assert prove().hypotheses == ()


def test_transposed_permutation_rows_and_columns():
    Derivation("rows", softmax(R.T @ S)).by(R.T @ softmax(S), unfold(softmax)).qed()
    Derivation("columns", softmax(S @ P.T)).by(softmax(S) @ P.T, unfold(softmax), REINDEX).qed()
    Derivation("both", softmax(R @ S @ P.T)).by(
        R @ softmax(S) @ P.T, unfold(softmax), REINDEX
    ).qed()


def test_orthogonality_both_ways():
    orthogonality()
    Derivation("other side", P @ P.T).by(identity(n)).qed()
    Derivation("column sums", ones(n).T @ P).by(ones(n).T).qed()
    Derivation("row sums", P @ ones(n)).by(ones(n)).qed()


def test_keys_and_values_are_a_set():
    scores = tau * Q @ K.T
    (
        Derivation("keys and values", softmax(tau * Q @ (P @ K).T) @ P @ V)
        .by(softmax(scores @ P.T) @ P @ V)
        .by(softmax(scores) @ P.T @ P @ V, columns_transposed()(S=scores))
        .by(softmax(scores) @ V)
        .qed()
    )


def columns_transposed():
    return (
        Derivation("columns", softmax(S @ P.T)).by(softmax(S) @ P.T, unfold(softmax), REINDEX).qed()
    )


def test_queries_are_equivariant():
    (
        Derivation("queries", softmax(tau * (R @ Q) @ K.T) @ V)
        .by(R @ softmax(tau * Q @ K.T) @ V, rows_of_softmax()(S=tau * Q @ K.T))
        .qed()
    )


W_Q, W_K, W_V = (Heads(f"W_{x}", h, k, d) for x in "QKV")
W_O = Heads("W_O", h, d, k)
b_Q, b_K, b_V = (Heads(f"b_{x}", h, k, 1) for x in "QKV")
b_O = matrix("b_O", d)
a = head("a", h)
WEIGHTS = (tau, W_Q, W_K, W_V, W_O, b_Q, b_K, b_V)


def multi_head(X, b_O, tau, W_Q, W_K, W_V, W_O, b_Q, b_K, b_V):
    h = W_Q.family.sizes[0]
    a, one = head("a", h), ones(X.shape[0])
    q, k, v = (X @ W[a].T + one @ b[a].T for W, b in ((W_Q, b_Q), (W_K, b_K), (W_V, b_V)))
    return over(a, softmax(tau * q @ k.T) @ v @ W_O[a].T) + one @ b_O.T


attention = define("SA", multi_head, shown=1)


def self_attention_is_equivariant():
    return (
        Derivation("self-attention", attention(P @ X, b_O, *WEIGHTS))
        .by(multi_head(P @ X, b_O, *WEIGHTS), unfold(attention))
        .by(P @ multi_head(X, b_O, *WEIGHTS), unfold(softmax), REINDEX)
        .by(P @ attention(X, b_O, *WEIGHTS), unfold(attention))
        .qed()
    )


def test_self_attention_with_every_bias_at_symbolic_heads():
    self_attention_is_equivariant()


phi = entrywise("φ")
W_1, W_2, b_1, b_2 = matrix("W_1", f, d), matrix("W_2", d, f), matrix("b_1", f), matrix("b_2", d)
LN = define("Norm", lambda x, gamma, beta, eps:
            layer_norm(x, eps) @ diag(gamma) + ones(x.shape[0]) @ beta.T, shown=1)  # fmt: skip
FFN = define("FFN", lambda x, W_1, b_1, W_2, b_2:
             phi(x @ W_1.T + ones(x.shape[0]) @ b_1.T) @ W_2.T + ones(x.shape[0]) @ b_2.T, shown=1)  # fmt: skip


def norm_is_per_token():
    return (
        Derivation("norm", LN(P @ X, gamma, beta, eps))
        .by(P @ LN(X, gamma, beta, eps), unfold(LN), unfold(layer_norm))
        .qed()
    )


def ffn_is_per_token():
    return (
        Derivation("ffn", FFN(P @ X, W_1, b_1, W_2, b_2))
        .by(P @ FFN(X, W_1, b_1, W_2, b_2), unfold(FFN))
        .qed()
    )


def ln(x):
    return LN(x, gamma, beta, eps)


def sa(x):
    return attention(x, b_O, *WEIGHTS)


def ffn(x):
    return FFN(x, W_1, b_1, W_2, b_2)


def test_whole_pre_norm_block():
    norm, attn, feed = norm_is_per_token(), self_attention_is_equivariant(), ffn_is_per_token()
    y = X + sa(ln(X))
    (
        Derivation("pre-LN", P @ X + sa(ln(P @ X)) + ffn(ln(P @ X + sa(ln(P @ X)))))
        .by(P @ X + sa(P @ ln(X)) + ffn(ln(P @ X + sa(P @ ln(X)))), norm())
        .by(P @ X + P @ sa(ln(X)) + ffn(ln(P @ y)), attn(X=ln(X)))
        .by(P @ y + ffn(P @ ln(y)), norm(X=y))
        .by(P @ (y + ffn(ln(y))), feed(X=ln(y)))
        .qed()
    )


def test_whole_post_norm_block():
    norm, attn, feed = norm_is_per_token(), self_attention_is_equivariant(), ffn_is_per_token()
    u = X + sa(X)
    y = ln(u)
    (
        Derivation("post-LN", ln(ln(P @ X + sa(P @ X)) + ffn(ln(P @ X + sa(P @ X)))))
        .by(ln(ln(P @ u) + ffn(ln(P @ u))), attn())
        .by(ln(P @ y + ffn(P @ y)), norm(X=u))
        .by(ln(P @ (y + ffn(y))), feed(X=y))
        .by(P @ ln(y + ffn(y)), norm(X=y + ffn(y)))
        .qed()
    )


def test_key_bias_cancels():
    (
        Derivation("key bias", softmax(tau * Q @ (K + ones(n) @ b.T).T) @ V)
        .by(softmax(tau * Q @ K.T + (tau * Q @ b) @ ones(n).T) @ V)
        .by(softmax(tau * Q @ K.T) @ V, shift_invariance()(S=tau * Q @ K.T, c=tau * Q @ b))
        .qed()
    )


def test_query_bias_reweights():
    weights = diag(exp(tau * (K @ b)))
    (
        Derivation("query bias", softmax(tau * (Q + ones(m) @ b.T) @ K.T))
        .by(softmax(tau * Q @ K.T + ones(m) @ (tau * K @ b).T))
        .by(
            normalise(softmax(tau * Q @ K.T) @ weights),
            unfold(softmax),
            unfold(normalise),
            EXP_OF_SUM,
        )
        .qed()
    )


def test_value_bias_leaves_and_folds():
    W, b_V = matrix("W_O", d, d), matrix("b_V", d)
    (
        Derivation("value bias", (softmax(S) @ (V + ones(n) @ b_V.T)) @ W.T + ones(m) @ b_O.T)
        .by((softmax(S) @ V + (softmax(S) @ ones(n)) @ b_V.T) @ W.T + ones(m) @ b_O.T)
        .by((softmax(S) @ V + ones(m) @ b_V.T) @ W.T + ones(m) @ b_O.T, row_sums()())
        .by(softmax(S) @ V @ W.T + ones(m) @ (W @ b_V + b_O).T)
        .qed()
    )


def test_masked_attention_when_the_mask_moves_along():
    M, A = mask("M", n, n), matrix("S", n, n)
    theorem = (
        Derivation("mask", masked_softmax(P @ M @ P.T, P @ A @ P.T) @ P @ X)
        .by(P @ masked_softmax(M, A) @ X, unfold(masked_softmax), REINDEX)
        .qed()
    )
    assert len(theorem.hypotheses) == 1


def test_norms_and_biases():
    one, B = ones(n), matrix("B", n, d)
    r = matrix("r", n)
    Derivation("BN", batch_norm(B + one @ b.T, eps)).by(
        batch_norm(B, eps), unfold(batch_norm)
    ).qed()
    W = matrix("W", d, d)
    (
        Derivation("BN", batch_norm(B @ W.T + one @ b.T, eps))
        .by(batch_norm(B @ W.T, eps), unfold(batch_norm))
        .qed()
    )
    Derivation("LN", layer_norm(B + r @ ones(d).T, eps)).by(
        layer_norm(B, eps), unfold(layer_norm)
    ).qed()
    centred = b - (1 / d) * ones(d) @ ones(d).T @ b
    (
        Derivation("LN", layer_norm(B + one @ b.T, eps))
        .by(layer_norm(B + one @ centred.T, eps), unfold(layer_norm))
        .qed()
    )
    (
        Derivation("RMS", rms_norm(B - (1 / d) * B @ ones(d) @ ones(d).T, eps))
        .by(layer_norm(B, eps), unfold(rms_norm), unfold(layer_norm))
        .qed()
    )


def test_affine_then_linear():
    B, W = matrix("B", n, d), matrix("W", k, d)
    (
        Derivation("fold", (B * (ones(n) @ gamma.T) + ones(n) @ beta.T) @ W.T)
        .by(B @ diag(gamma) @ W.T + ones(n) @ (W @ beta).T)
        .qed()
    )


def test_shift_in_index_form():
    z = matrix("z", n)
    c = matrix("c", 1)
    shift = entry_of(c)

    def softmax_of(score):
        return tabulate(lambda i, j: exp_of(score(i)) / total(lambda l: exp_of(score(l)), n), n)

    plain = softmax_of(lambda i: entry_of(z, i))
    (
        Derivation("shift", softmax_of(lambda i: entry_of(z, i) + shift))
        .by(tabulate(lambda i, j: exp_of(shift) * exp_of(entry_of(z, i))
                     / total(lambda l: exp_of(shift) * exp_of(entry_of(z, l)), n), n), EXP_OF_SUM)
        .by(plain)
        .qed()
    )  # fmt: skip


def test_online_softmax_by_induction():
    z, v, ref = sequence("z"), sequence("v", d), sequence("m")

    def first(z, v, ref):
        return exp(z[1] - ref[1]) @ v[1]

    def step(previous, t, z, v, ref):
        after = join(t, 1)
        return exp(ref[t] - ref[after]) @ previous + exp(z[after] - ref[after]) @ v[after]

    o = recursion("o", first, step)

    def closed(t):
        return exp(z.prefix(t) - ones(t) @ ref[t]).T @ v.prefix(t)

    after = join(t, 1)
    theorem = (
        Induction("online", t, o(t, z, v, ref), closed(t))
        .base(lambda line: line.by(closed(1), unfold(o)))
        .step(lambda line, claim: line
              .by(exp(ref[t] - ref[after]) @ o(t, z, v, ref) + exp(z[after] - ref[after]) @ v[after], unfold(o))
              .by(exp(ref[t] - ref[after]) @ closed(t) + exp(z[after] - ref[after]) @ v[after], claim)
              .by(closed(after), EXP_OF_SUM, SPLIT))
        .qed()
    )  # fmt: skip
    assert theorem(t=n).lhs == o(n, z, v, ref)


def test_average_of_the_online_softmax():
    z, v, ref = matrix("z", 1, n), matrix("v", n, d), matrix("m", 1)
    (
        Derivation("end", normalise(exp(z - ref @ ones(n).T)) @ v)
        .by(softmax(z) @ v, unfold(normalise), unfold(softmax), EXP_OF_SUM)
        .qed()
    )


def test_merging_two_blocks():
    z, w, m_1, m_2, m_3 = (
        matrix("z", n),
        matrix("w", m),
        matrix("m_1", 1),
        matrix("m_2", 1),
        matrix("m_3", 1),
    )
    (
        Derivation("merge", exp(m_1 - m_3) @ ones(n).T @ exp(z - ones(n) @ m_1)
                   + exp(m_2 - m_3) @ ones(m).T @ exp(w - ones(m) @ m_2))
        .by(ones(n).T @ exp(z - ones(n) @ m_3) + ones(m).T @ exp(w - ones(m) @ m_3), EXP_OF_SUM)
        .qed()
    )  # fmt: skip


def test_jacobian_of_softmax():
    s = scalars("s")
    z, u = matrix("z", 1, n), matrix("u", 1, n)
    p = softmax(z)
    jacobian = (
        Derivation("jacobian", derivative(softmax(z + s * u), s))
        .by(u @ (diag(p.T) - p.T @ p), unfold(softmax))
        .qed()
    )
    sums_to_one = Derivation("sum", softmax(z) @ ones(n)).by(ones(1), unfold(softmax)).qed()
    (
        Derivation("annihilates", (diag(p.T) - p.T @ p) @ ones(n))
        .by(p.T - p.T @ (p @ ones(n)))
        .by(p.T - p.T, sums_to_one())
        .by(zeros(n))
        .qed()
    )
    assert jacobian.hypotheses == ()


def test_gradient_of_the_key_bias_is_zero():
    s = scalars("s")
    direction = matrix("u", d)
    keys = K + ones(n) @ (b + s * direction).T
    (
        Derivation("gradient", derivative(softmax(tau * Q @ keys.T) @ V, s))
        .by(zeros(m, d), unfold(softmax))
        .qed()
    )


def test_rotary_scores_depend_on_the_difference():
    r = sizes("r")
    theta, p, s = matrix("θ", r), matrix("p", m), matrix("s", n)
    A, B, C, D = matrix("A", m, r), matrix("B", m, r), matrix("C", n, r), matrix("D", n, r)

    def rotated(even, odd, positions):
        angle = positions @ theta.T
        return cos(angle) * even - sin(angle) * odd, sin(angle) * even + cos(angle) * odd

    (q_even, q_odd), (k_even, k_odd) = rotated(A, B, p), rotated(C, D, s)

    def relative(i, j):
        gap = lambda l: (entry_of(p, i) - entry_of(s, j)) * entry_of(theta, l)
        at = lambda x, i, l: entry_of(x, i, l)
        return total(lambda l: cos(gap(l)) * (at(A, i, l) * at(C, j, l) + at(B, i, l) * at(D, j, l))
                     + sin(gap(l)) * (at(A, i, l) * at(D, j, l) - at(B, i, l) * at(C, j, l)), r)  # fmt: skip

    (
        Derivation("rotary", q_even @ k_even.T + q_odd @ k_odd.T)
        .by(tabulate(relative, m, n), ANGLE_ADDITION)
        .qed()
    )


def test_moments_of_a_score():
    sigma = scalars("sigma", positive=True)
    A, B = random_matrix("W_Q", k, d, sigma**2), random_matrix("W_K", k, d, sigma**2)
    x, y = matrix("x", 1, d), matrix("y", 1, d)
    q_k = x @ A.T @ B @ y.T
    mean = Derivation("mean", expectation(q_k)).by(zeros(1), SECOND_MOMENTS).qed()
    (
        Derivation("variance", expectation(q_k @ q_k))
        .by(k * sigma**4 * (x @ x.T) @ (y @ y.T), SECOND_MOMENTS)
        .qed()
    )
    assert "independent" in mean.assumptions[0]


def test_what_readers_expect_to_pass():
    v, A, B = matrix("v", n), matrix("A", m, n), matrix("B", m, n)
    Derivation("act", phi(P @ X)).by(P @ phi(X)).qed()
    Derivation("diag", P @ diag(v) @ P.T).by(diag(P @ v)).qed()
    Derivation("diag", diag(v).T).by(diag(v)).qed()
    Derivation("had", (A * B).T).by(A.T * B.T).qed()
    Derivation("exp", exp(2 * A)).by(exp(A) * exp(A), EXP_OF_SUM).qed()


def test_the_same_theorem_cited_twice_in_one_line():
    T = matrix("T", m, n)
    e = matrix("e", m)
    shift = shift_invariance()
    one = ones(n).T
    (
        Derivation("twice", softmax(S + c @ one) + softmax(T + e @ one))
        .by(softmax(S) + softmax(T), shift(), shift(S=T, c=e))
        .qed()
    )


def test_a_scalar_theorem_inside_a_larger_expression():
    x = matrix("x", 1)
    double = Derivation("double", exp(2 * x)).by(exp(x) @ exp(x), EXP_OF_SUM).qed()
    q, key = matrix("q", 1, d), matrix("k", 1, d)
    score = tau * q @ key.T
    (
        Derivation("inside", exp(2 * score) @ q + key)
        .by(exp(score) @ exp(score) @ q + key, double(x=score))
        .qed()
    )


def test_powers_in_index_form():
    squares = tabulate(lambda i, j: entry_of(X, i, j) ** 2, n, d)
    assert Derivation("squares", squares).by(X * X).qed().hypotheses == ()
    part = tabulate(lambda i, j: exp_of(entry_of(X, i, j)) ** -2, n, d)
    assert Derivation("parts", part).by(exp(-2 * X), EXP_OF_SUM).qed().hypotheses == ()


def test_what_the_rows_of_softmax_off_by_one_leave():
    rest = tabulate(lambda i, j: 1 / (1 + total(lambda k: exp_of(entry_of(S, i, k)), n)), m)
    theorem = (
        Derivation("rest", softmax_one(S) @ ones(n)).by(ones(m) - rest, unfold(softmax_one)).qed()
    )
    assert theorem.hypotheses == ()


def test_a_sum_is_found_among_more_terms_and_inside_them():
    rows = softmax(S) @ ones(n)
    theorem = Derivation("rows", rows + c).by(ones(m) + c, unfold(softmax)).qed()
    (
        Derivation("more", exp(rows + c) + rows + cos(rows + c) + c)
        .by(exp(ones(m) + c) + ones(m) + cos(ones(m) + c) + c, theorem())
        .qed()
    )


def test_only_the_identity_commutes_with_the_causal_mask():
    assumed = given(P @ causal(n) @ P.T, causal(n))
    theorem = (
        Derivation("order", P @ position_numbers(n))
        .by(P @ causal(n) @ ones(n), COUNT)
        .by(P @ causal(n) @ P.T @ P @ ones(n))
        .by(causal(n) @ P @ ones(n), assumed)
        .by(causal(n) @ ones(n))
        .by(position_numbers(n), COUNT)
        .qed()
    )
    assert theorem.hypotheses == (assumed,)


def test_last_token_of_causal_attention_sees_a_set():
    A = matrix("S", n, n)
    (
        Derivation("last", last_row(masked_softmax(causal(n), A) @ X))
        .by(softmax(last_row(A)) @ X, unfold(masked_softmax), unfold(softmax))
        .qed()
    )


def test_stacked_keys():
    K_2, V_2 = matrix("K_2", m, d), matrix("V_2", m, d)
    q = matrix("q", 1, d)
    (
        Derivation("stack", exp(q @ stack(K, K_2).T) @ stack(V, V_2))
        .by(exp(q @ K.T) @ V + exp(q @ K_2.T) @ V_2, SPLIT)
        .qed()
    )
