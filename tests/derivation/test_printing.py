"""Prints that no notebook shows: brackets, sizes, names and what stands below a derivation."""

import math

import pytest
from shared_letters import *

u, x, Z_h, unit = matrix("u", d), matrix("x", 1), Heads("Z", h, n, n), ones(1, 1)
tot = define("tot", lambda x: x.T @ ones(x.shape[0]))


#: {title: (expression, how it is printed)}
SHOWN = {
    # brackets where they are needed and nowhere else
    "a sum that is taken away": (
        table(lambda i, j: -(entry_of(A, i, j) + entry_of(B, i, j))), "(-(A[i,j] + B[i,j]))[i,j]"),
    "a table that runs out of names": (
        table(lambda i, j: math.prod(scalars("i j p q r s t u v w x y z")) * entry_of(B, i, j)),
        "(B[i_1,i_2] i j p q r s t u v w x y z)[i_1,i_2]"),
    # a size is printed if nothing else in the expression determines it
    "between two factors": (exp(zeros(n, m)) @ exp(zeros(m, d)), "exp(0[n×m]) exp(0)"),
    "what a reader's word sums": (tot(one), "tot(1[n])"),
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


def test_a_bound_name_differs_from_every_letter_around_it():
    """No sum or slope shows where it ends, so its bound name occurs nowhere else in the line."""
    of_t = derivative(exp(c * A), c)
    beside = lambda i, j: entry_of(of_t, i, j) * exp_of(s * entry_of(B, i, j))
    assert "d/ds" not in repr(table(beside))
    product = math.prod(scalars("k_2 k l p q r s t u v w"))
    inner = lambda i, j: total(lambda q: entry_of(A, i, q) * entry_of(B, q, j), n)
    printed = repr(theorem(table(lambda i, j: product * inner(i, j)), product * A @ B))
    assert "Σ_k_1≤n" in printed and "Σ_k_2" not in printed


# ── What stands below the lines, and prints that once misled a reader ────────────────────────

b_1, b_2, W_d = matrix("b", d), matrix("b_2", d), matrix("W", d, d)
word_k = define("k", lambda x: x)
block = define("block", lambda x, b, W: x @ W + ones(x.shape[0]) @ b.T, shown=1)
held = define("q", lambda x, w: x @ w, shown=1)
to_number = define("w", lambda x, y: 2 * x @ (ones(y.shape[0]).T @ y @ ones(y.shape[1])))
two_ways = lambda left, right: line(left + right, right + left)
summed_word = table(lambda i, j: total(lambda p: entry_of(word_k(x)), n), 1, 1)


test_a_line_prints_what_it_says = printed({
    # a parameter is printed once if it is the same in the whole line, else in each call
    "one parameter differs": (
        lambda: two_ways(block(X, b_1, W_d), block(X, b_2, W_d)),
        ["block(X, b) + block(X, b_2)", "with block(…; W)"]),
    "a parameter of every head": (
        lambda: line(over(a, held(A, Z_h[a])), A @ over(a, Z_h[a]), unfold(held)),
        ["with q(…; Z[a]) for every a"]),
    # conditions and hypotheses; a hypothesis prints its sizes, as it may hold at one size only
    "a size that a hypothesis fixes": (
        lambda: theorem(causal(n) @ J, causal(n), given(J, identity(n))),
        ["L[n] 1 1ᵀ\n  = L ", "needs 1[n] 1ᵀ = I"]),
    # kinds and shapes of letters
    # sizes that both sides of a line determine, or neither
    "one side tells": (
        lambda: theorem(softmax(zeros(n, m)), (1 / m) * ones(n, m), unfold(softmax)),
        ["softmax(0[n×m])", "= (1/m) 1 1ᵀ"]),
    # a printed call does not show the sizes of its arguments, so each argument prints its own
    **{said: (lambda y=y: to_number(v, y), [said]) for y, said in (
        (one, "w(v, 1[n])"), (unit, "w(v, 1)"), (v + one, "w(v, v + 1)"))},
    # names
    "an index beside a word": (lambda: theorem(summed_word, n * x, unfold(word_k)), ["Σ_l≤n k(x)"]),
})  # fmt: skip
