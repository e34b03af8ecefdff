"""Lines that the notebooks lack, and a few of theirs that show a fault soon: quickly proved."""

import time

import pytest
from derivation import *  # noqa: F403  the whole public vocabulary is under test

n, m, d, k, t = sizes("n m d k t")
tau = scalars("tau", positive=True)
S, T, X = matrix("S", m, n), matrix("T", m, n), matrix("X", n, d)
P, R, phi = permutation("Π", n), permutation("Π_m", m), entrywise("φ")
c, e, v, x = matrix("c", m), matrix("e", m), matrix("v", n), matrix("x", 1)
q, key = matrix("q", 1, d), matrix("k", 1, d)
score, rows = tau * q @ key.T, softmax(S) @ ones(n)
rest = tabulate(lambda i, j: 1 / (1 + total(lambda k: exp_of(entry_of(S, i, k)), n)), m)


@pytest.fixture(autouse=True)
def quickly():
    started = time.process_time()
    yield
    assert time.process_time() - started < 8, "a proof at symbolic size takes seconds"


def proved(before, *lines):
    """The theorem that one expression is another, line by line."""
    derivation = Derivation("line", before)
    for claim, *reasons in lines:
        derivation.by(claim, *reasons)
    return derivation.qed()


def test_transposed_permutation_rows_and_columns():
    proved(softmax(R.T @ S), (R.T @ softmax(S), unfold(softmax)))
    proved(softmax(S @ P.T), (softmax(S) @ P.T, unfold(softmax), REINDEX))
    proved(softmax(R @ S @ P.T), (R @ softmax(S) @ P.T, unfold(softmax), REINDEX))


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

    theorem = (
        Induction("online", t, o(t, z, v, ref), closed(t))
        .base(lambda line: line.by(closed(1), unfold(o)))
        .step(lambda line, claim: line
              .by(step(o(t, z, v, ref), t, z, v, ref), unfold(o))
              .by(step(closed(t), t, z, v, ref), claim)
              .by(closed(join(t, 1)), EXP_OF_SUM, SPLIT))
        .qed()
    )  # fmt: skip
    assert theorem(t=n).lhs == o(n, z, v, ref)


def test_moments_of_a_score():
    sigma = scalars("sigma", positive=True)
    A, B = random_matrix("W_Q", k, d, sigma**2), random_matrix("W_K", k, d, sigma**2)
    x, y = matrix("x", 1, d), matrix("y", 1, d)
    q_k = x @ A.T @ B @ y.T
    mean = proved(expectation(q_k), (zeros(1), SECOND_MOMENTS))
    square = k * sigma**4 * (x @ x.T) @ (y @ y.T)
    proved(expectation(q_k @ q_k), (square, SECOND_MOMENTS))
    assert "independent" in mean.assumptions[0]


PLAIN = {
    "a function of a permuted matrix": (phi(P @ X), P @ phi(X)),
    "a permuted diagonal": (P @ diag(v) @ P.T, diag(P @ v)),
    "a diagonal transposed": (diag(v).T, diag(v)),
    "entrywise products transposed": ((S * T).T, S.T * T.T),
    "exp of twice": (exp(2 * S), exp(S) * exp(S), EXP_OF_SUM),
    "squares of entries": (tabulate(lambda i, j: entry_of(X, i, j) ** 2, n, d), X * X),
    "powers of entries": (
        tabulate(lambda i, j: exp_of(entry_of(X, i, j)) ** -2, n, d),
        exp(-2 * X),
        EXP_OF_SUM,
    ),
    "what the rows of softmax off by one leave": (
        softmax_one(S) @ ones(n),
        ones(m) - rest,
        unfold(softmax_one),
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_readers_expect_to_pass(name):
    before, *line = PLAIN[name]
    assert proved(before, line).hypotheses == ()


def cited():
    """Lines that cite a theorem, in a sum, inside other operations and more than once."""
    shifted = softmax(S + c @ ones(n).T)
    shift = proved(shifted, (softmax(S), unfold(softmax), EXP_OF_SUM))
    double = proved(exp(2 * x), (exp(x) @ exp(x), EXP_OF_SUM))
    sums = proved(rows + c, (ones(m) + c, unfold(softmax)))
    return {
        "twice in one line": (
            shifted + softmax(T + e @ ones(n).T),
            softmax(S) + softmax(T),
            shift(),
            shift(S=T, c=e),
        ),
        "a scalar one inside": (
            exp(2 * score) @ q + key,
            exp(score) @ exp(score) @ q + key,
            double(x=score),
        ),
        "a sum among more terms and inside them": (
            exp(rows + c) + rows + cos(rows + c) + c,
            exp(ones(m) + c) + ones(m) + cos(ones(m) + c) + c,
            sums(),
        ),
    }


def test_a_theorem_is_found_where_it_is_cited():
    for before, *line in cited().values():
        proved(before, line)
