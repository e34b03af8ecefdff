"""Lines that the notebooks lack, and a few of theirs that show a fault soon: quickly proved."""

import time

import pytest
from derivation import *  # noqa: F403  the whole public vocabulary is under test

n, m, d, k, t = sizes("n m d k t")
tau = scalars("tau", positive=True)
S, X, Y = matrix("S", m, n), matrix("X", n, d), matrix("Y", n, d)
P, R, phi = permutation("Π", n), permutation("Π_m", m), entrywise("φ")
c, b = matrix("c", m), matrix("b", d)
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


def orthogonality():
    return Derivation("orthogonality", P.T @ P).by(identity(n)).qed()


def shift_invariance():
    return (
        Derivation("shift", softmax(S + c @ ones(n).T))
        .by(softmax(S), unfold(softmax), EXP_OF_SUM)
        .qed()
    )


def test_transposed_permutation_rows_and_columns():
    Derivation("rows", softmax(R.T @ S)).by(R.T @ softmax(S), unfold(softmax)).qed()
    Derivation("columns", softmax(S @ P.T)).by(softmax(S) @ P.T, unfold(softmax), REINDEX).qed()
    Derivation("both", softmax(R @ S @ P.T)).by(
        R @ softmax(S) @ P.T, unfold(softmax), REINDEX
    ).qed()


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
