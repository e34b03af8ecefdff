"""The kernel refuses false lines and wrong reasons, and accepts true lines with their reasons.

Most tests run no line in torch, so that only the kernel can refuse lines.
"""

import pytest
from derivation.kernel import rules
from derivation.kernel.normal import LAWS
from derivation.language.letters import Law
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_torch")
q, u, bias, C = matrix("q", n), matrix("u", m), matrix("b", d), matrix("C", m, n)
Q, K, V = matrix("Q", m, d), matrix("K", n, d), matrix("V", n, d)
F, G, x, y = matrix("F", d, d), matrix("G", d, d), matrix("x", 1, d), matrix("y", 1, d)
Σ, L, one_m, both = permutation("Σ", n), causal(n), ones(m), join(n, m)
W_Q, f, D = Heads("W_Q", h, k, d), entrywise("f"), stack(A, S)
W_1, U = random_matrix("W_1", k, d, sigma**2), random_matrix("U", n, n, 1)
WORDS = [softmax, masked_softmax, normalise, layer_norm, rms_norm, batch_norm, softmax_one]
S_MAX = unfold(softmax)


def root_of_all(x):
    return tabulate(lambda i, j: root_of(entry_of(x, i, j)), *x.shape)


def sums_of_quotients(value):
    """Σ_k (Σ_l A_kl value_l) / (Σ_l A_kl), where the names of the bound k and l do not matter."""
    row = lambda k: total(lambda l: entry_of(A, k, l) * value(l), n)
    return tabulate(lambda i, j: total(lambda k: row(k) / total(lambda l: entry_of(A, k, l), n), n))


def weighted(weight):
    """Σ_k weight(w_k) q_k / (q_k + 2 v_k), a sum that the kernel opens twice to take a slope."""
    fraction = lambda k: entry_of(q, k) / (entry_of(q, k) + 2 * entry_of(v, k))
    return tabulate(lambda i, j: total(lambda k: weight(entry_of(w, k)) * fraction(k), n))


SLOPE = derivative(weighted(lambda w_k: exp_of(s * w_k)), s)


def proved(lhs, rhs):
    """The kernel's theorem that lhs = rhs, with all definitions and laws allowed."""
    words = [term for word in WORDS for term in word.terms]
    return rules.by_normal_form(lhs.function, rhs.function, words, LAWS)


#: {title: (before, claim, *reasons)}; each line is false for some sizes
FALSE = {
    # the honest mistakes of a student
    "square transpose": (A, A.T),
    "transpose of a product in the wrong order": ((A @ B).T, A.T @ B.T),
    # confused indices: traces, diagonals, ranges
    "causal mask moves": (P @ L @ P.T, L),
    "counting what turns": (
        tabulate(lambda i, j: total(lambda k: entry_of(L @ P.T, k, k), n)), n * ones(1)),
    "last row of a stack is in the first block": (last_row(stack(X, Y)), last_row(X), SPLIT),
    "a divisor under one sum, an index under another": (
        sums_of_quotients(lambda l: entry_of(v, l)),
        sums_of_quotients(lambda l: total(lambda k: entry_of(v, k), n))),
    # confused permutations
    "permutation is its inverse": (P, P.T),
    "inverse of a product in the wrong order": ((P @ Σ).T, P.T @ Σ.T, REINDEX),
    "two words for one": (softmax(S), softmax_one(S)),
    # heads
    "sum of products": (over(a, X @ W_Q[a].T @ W_Q[a]), over(a, X @ W_Q[a].T) @ over(a, W_Q[a])),
    # the derivative
    "slope of a sum, doubled": (SLOPE, 2 * weighted(lambda w_k: w_k)),
    "jacobian without the outer product": (
        derivative(softmax(w.T + s * v.T), s), v.T @ diag(softmax(w.T).T), S_MAX),
    # functions of numbers
    "cos is odd": (cos(-A), -cos(A)),
    "sin of a sum with the wrong sign": (
        sin(A + B), sin(A) * cos(B) - cos(A) * sin(B), ANGLE_ADDITION),
    "relu is even": (relu(-A), relu(A)),
    # means
    "the same matrix twice is independent": (
        expectation(x @ W_1.T @ W_1 @ y.T), zeros(1), SECOND_MOMENTS),
}  # fmt: skip

#: false lines that none of the first instances refutes, owing to draws, sizes or an undefined side
NOT_SHOWN = {
    "keys by π, values by its inverse": (softmax(S @ P.T) @ P.T @ X, softmax(S) @ X),
    "a root of −x": (root_of_all(-A), root_of_all(A)),
    "E of softmax": (expectation(softmax(R)), softmax(zeros(n, n)), SECOND_MOMENTS),
    "a fourth moment": (
        expectation(x @ W_1.T @ W_1 @ y.T @ x @ W_1.T @ W_1 @ y.T),
        k * (k + 2) * sigma**4 * (x @ y.T) @ (x @ y.T), SECOND_MOMENTS),
    "draws of one variance have one law": (expectation(exp(R)), expectation(exp(U))),
    "E of a quotient": (
        expectation(normalise(R) * R), zeros(n, n), SECOND_MOMENTS, unfold(normalise)),
}  # fmt: skip


@pytest.mark.parametrize("case", FALSE | NOT_SHOWN)
def test_a_false_line_is_refused_whatever_its_reasons(case):
    before, claim, *reasons = (FALSE | NOT_SHOWN)[case]
    for write in (lambda: line(before, claim, *reasons), lambda: proved(before, claim)):
        with pytest.raises(ProofError):
            write()
    assert proved(claim, claim), "the control: nothing else refuses it"
    assert case in NOT_SHOWN or counterexample(before, claim, most_instances=60_000)


def lines(*rows):
    """Cases for `refused`: true lines whose reasons do not justify them."""
    return {f"{row[0]} = {row[1]}": lambda row=row: line(*row) for row in rows}


test_wrong_reasons_are_refused = refused({
    "is not justified": lines(
        (softmax(S) @ (V + one @ bias.T), softmax(S) @ V + one_m @ bias.T),
        (softmax(S + u @ one.T) @ V, softmax(S) @ V),
        (L @ one, position_numbers(n)),
        (ones(both).T @ stack(K, Q), one.T @ K + one_m.T @ Q),
        (exp(A + B), exp(A) * exp(B)),
    ),
    "is not needed; leave it out": lines(
        (exp(A + B), exp(A) * exp(B), EXP_OF_SUM, SPLIT),
    ),
    "write unfold(softmax)": lines((softmax(S) @ one, one_m, softmax)),
    "is not a reason": lines((A, A, "obviously")),
    "is not a law of this checker": lines((A, A.T, Law("symmetry", "symmetry"))),
})  # fmt: skip


#: {title: (left side, right side, relations in the conditions that the kernel finds)}
TRUE = {
    "M ⊙ masked softmax": (M * masked_softmax(M, S), masked_softmax(M, S), ["≠ 0"]),
    "LN(τX, τ²ε)": (layer_norm(tau * X, tau**2 * eps), layer_norm(X, eps), []),
    "tr PQ = tr QP": (ones(1, m) @ (C * S) @ one, ones(1, n) @ (S.T * C.T) @ one_m, []),
    "L + Lᵀ - I": (L + L.T - identity(n), J, []),
    "cos² + sin²": (cos(A) * cos(A) + sin(A) * sin(A), J, []),
    "relu(τA)": (relu(tau * A), tau * relu(A), []),
    "a number leaves a mean": (
        expectation(2 * softmax(R)), 2 * expectation(softmax(R)), ["exists", "exists"]),
    "a quotient of quotients": (
        tabulate(lambda i, j: 1 / (1 / entry_of(v, i) + 1 / entry_of(w, i)), n),
        tabulate(lambda i, j: entry_of(v, i) * entry_of(w, i) / (entry_of(v, i) + entry_of(w, i)), n),
        ["≠ 0", "≠ 0", "≠ 0"]),
    "a sum reindexed, with a sign": (one.T @ tanh(P @ v - v), -(one.T @ tanh(P.T @ v - v)), []),
    "d/ds of relu": (derivative(relu(v + s * w), s), derivative(relu(v + s * w), s), ["≠ 0"]),
    "d/ds of a root": (derivative(root_of_all(J + s * A), s), A / 2, []),
    "the identity in two blocks": (identity(both) @ D, D, []),
    "the causal mask in two blocks": (
        causal(both) @ ones(both), stack(L @ one, n * one_m + causal(m) @ one_m), []),
    "one number for every head": (over(a, A), h * A, []),
    "d/ds of a sum of quotients": (SLOPE, weighted(lambda w_k: w_k), ["≠ 0"]),
}  # fmt: skip


@pytest.mark.parametrize("case", TRUE)
def test_a_true_line_is_accepted_with_its_conditions(case):
    lhs, rhs, needs = TRUE[case]
    assert sorted(relation for relation, _ in proved(lhs, rhs).conditions) == needs


#: {title: (before, claim, *the reasons that this true line needs)}
JUSTIFIED = {
    "orthonormal columns": ((X @ F).T @ X @ G, F.T @ G, given(X.T @ X, identity(d))),
    "E over softmax": (
        expectation(softmax(R) + R + A), expectation(softmax(R)) + A, LINEARITY, SECOND_MOMENTS),
}  # fmt: skip


@pytest.mark.parametrize("case", JUSTIFIED)
def test_a_true_line_is_accepted_for_its_reasons(case):
    assert theorem(*JUSTIFIED[case])


def test_names_of_bound_variables_do_not_matter():
    """They are ordered by number, so #10 follows #9; 15 nested sums have too many orders to try."""
    for _ in range(6):
        assert theorem(L @ one, position_numbers(n), COUNT)
    power, turned = A, A.T
    for _ in range(15):
        power, turned = power @ A, turned @ A.T
    assert theorem(power.T, turned)


# ── The logarithm ────────────────────────────────────────────────────────────────────────────

x_pos, y_pos = scalars("x y", positive=True)
unit, z_n, u_n, y_n = ones(1, 1), matrix("z", n), matrix("u", n), matrix("y", n)
total_exp = lambda z: exp(z).T @ ones(n)
cross_entropy = lambda z: -y_n.T @ log(softmax(z.T)).T
one_hot = given(y_n.T @ ones(n), unit)
probabilities = softmax(z_n.T)
x_1 = matrix("x", 1, 1)
two_keys = softmax(stack(x_1, zeros(1, 1)).T) @ stack(unit, zeros(1, 1))

#: {title: (before, the true claim, a false claim that resembles it, *reasons)}
LOGARITHMS = {
    "of an exponential": (log(exp(A)), A, 2 * A),
    "within an exponential": (exp(log(A)), A, -A),
    "of a quotient of powers": (
        log(x_pos**2 / y_pos * unit), 2 * log(x_pos * unit) - log(y_pos * unit),
        log(x_pos * unit) - log(y_pos * unit)),
    "of the sum of shifted exponentials": (
        log(total_exp(z_n + c * one)), log(total_exp(z_n)) + c * unit, log(total_exp(z_n)),
        EXP_OF_SUM),
    "the gradient of cross-entropy": (
        derivative(cross_entropy(z_n + s * u_n), s), (probabilities - y_n.T) @ u_n,
        (y_n.T - probabilities) @ u_n, one_hot, unfold(softmax)),
    "sigmoid is softmax over two keys": (
        sigmoid(x_1), two_keys, unit - two_keys,
        unfold(sigmoid), unfold(softmax), SPLIT, EXP_OF_SUM),
}  # fmt: skip


@pytest.mark.parametrize("case", LOGARITHMS)
def test_a_law_of_the_logarithm_is_accepted_and_a_false_variant_refused(case, monkeypatch):
    monkeypatch.undo()
    before, true, false, *reasons = LOGARITHMS[case]
    assert theorem(before, true, *reasons).not_run == ()
    refuse(lambda: line(before, false, *reasons), "is not justified")


def test_a_logarithm_needs_a_positive_argument():
    assert shown(theorem(exp(log(A)), A)) == ["each entry of A > 0"]
    assert shown(theorem(log(exp(A)), A)) == []
    refuse(lambda: line(log(zeros(n, n)), log(zeros(n, n))), "never holds")
