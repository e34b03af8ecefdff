"""Prints that no notebook shows: brackets, sizes, names and what stands below a derivation."""

import math

import pytest
from shared_letters import *

x, Q, V = matrix("x", 1), random_matrix("Q", n, n, 1), random_matrix("V", n, n, 1)
tot = define("tot", lambda x: x.T @ ones(x.shape[0]))
b_1, b_2, W_d = matrix("b", d), matrix("b_2", d), matrix("W", d, d)
word_k = define("k", lambda x: x)
block = define("block", lambda x, b, W: x @ W + ones(x.shape[0]) @ b.T, shown=1)
to_number = define("w", lambda x, y: 2 * x @ (ones(y.shape[0]).T @ y @ ones(y.shape[1])))
summed_word = table(lambda i, j: total(lambda p: entry_of(word_k(x)), n), 1, 1)
product = math.prod(scalars("k_2 k l p q r s t u v w"))
inner = lambda i, j: total(lambda q: entry_of(A, i, q) * entry_of(B, q, j), n)
of_c = derivative(exp(c * A), c)


def apart():
    """Draws of equal mean and variance may differ in E(exp R), as their laws are unknown."""
    one, two = expectation(exp(R)), expectation(exp(Q))
    return line(expectation(exp(R) - exp(Q)), one - two, LINEARITY)


#: {title: (function, parts of its printed result[, parts not in it])}; some misled a reader once
PRINTED = {
    # brackets where they are needed and nowhere else
    "a sum that is taken away": (
        lambda: table(lambda i, j: -(entry_of(A, i, j) + entry_of(B, i, j))),
        ["(-(A[i,j] + B[i,j]))[i,j]"]),
    "a table that runs out of names": (
        lambda: table(lambda i, j: math.prod(scalars("i j p q r s t u v w x y z")) * entry_of(B, i, j)),
        ["(B[i_1,i_2] i j p q r s t u v w x y z)[i_1,i_2]"]),
    # a size is printed if nothing else in the expression determines it
    "between two factors": (
        lambda: exp(zeros(n, m)) @ exp(zeros(m, d)), ["exp(0[n×m]) exp(0)"]),
    "what a reader's word sums": (lambda: tot(one), ["tot(1[n])"]),
    # no sum or slope shows where it ends, so its bound name occurs nowhere else in the line
    "a slope along a name that is used": (
        lambda: table(lambda i, j: entry_of(of_c, i, j) * exp_of(s * entry_of(B, i, j))),
        ["d/d"], ["d/ds"]),
    "a sum whose index has a name that is used": (
        lambda: theorem(table(lambda i, j: product * inner(i, j)), product * A @ B),
        ["Σ_k_1≤n"], ["Σ_k_2"]),
    "an index beside a word": (
        lambda: theorem(summed_word, n * x, unfold(word_k)), ["Σ_l≤n k(x)"]),
    # a parameter is printed once if it is the same in the whole line, else in each call
    "one parameter differs": (
        lambda: line(block(X, b_1, W_d) + block(X, b_2, W_d), block(X, b_2, W_d) + block(X, b_1, W_d)),
        ["block(X, b) + block(X, b_2)", "with block(…; W)"]),
    # a hypothesis prints its sizes, as it may hold at one size only
    "a size that a hypothesis fixes": (
        lambda: theorem(causal(n) @ J, causal(n), given(J, identity(n))),
        ["L[n] 1 1ᵀ\n  = L ", "needs 1[n] 1ᵀ = I"]),
    # sizes that both sides of a line determine, or neither
    "one side tells": (
        lambda: theorem(softmax(zeros(n, m)), (1 / m) * ones(n, m), unfold(softmax)),
        ["softmax(0[n×m])", "= (1/m) 1 1ᵀ"]),
    # a printed call does not show the sizes of its arguments, so each argument prints its own
    **{said: (lambda y=y: to_number(v, y), [said]) for y, said in (
        (one, "w(v, 1[n])"), (ones(1, 1), "w(v, 1)"), (v + one, "w(v, v + 1)"))},
    # draws
    "two laws of one variance": (
        apart, ["needs E(exp(R[k,l])) exists", "needs E(exp(Q[k,l])) exists"]),
    "the law of what stands for it": (lambda: apart().qed()(R=V), ["E(exp(V))"], ["E(exp(R"]),
    "what is assumed at a mean": (
        lambda: theorem(A + A, 2 * A)(A=expectation(R * R)),
        ["the entries of R are independent,\n  of mean 0 and of variance 1"]),
}  # fmt: skip


@pytest.mark.parametrize("name", PRINTED)
def test_expressions_and_lines_are_printed_unambiguously(name):
    write, said, *unsaid = PRINTED[name]
    found = repr(write())
    assert [part for part in said if part not in found] == [], found
    assert [part for parts in unsaid for part in parts if part in found] == [], found


def test_latex_contains_the_expected_parts():
    for expression, part in (
        (scalars("st_1_out") * A, r"\mathit{st}_{1,\mathrm{out}}\,A"),
        (define("f_a_b", lambda x: x)(A), r"f_{a,b}\!"),
        (0 * matrix("u", d).T, r"0 \times u"),
    ):
        assert part in expression._repr_latex_()
