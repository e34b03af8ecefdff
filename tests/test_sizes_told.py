"""A print tells every size: where no letter does, it stands beside ones, zeros, and their like."""

import pytest
from derivation import *  # noqa: F403
from derivation import causal, exp, identity

n, m, d = sizes("n m d")
X = matrix("X", n, d)
tot = define("tot", lambda x: x.T @ ones(x.shape[0]))

PRINTS = {
    "between two factors": (exp(zeros(n, m)) @ exp(zeros(m, d)), "exp(0[n×m]) exp(0)"),
    "a row of ones that is scaled": ((3 * ones(n)).T @ ones(n), "(3 · 1[n])ᵀ 1"),
    "an entrywise product of rows": ((ones(n).T * ones(n).T) @ ones(n), "(1[n]ᵀ ⊙ 1ᵀ) 1"),
    "a sum of rows": ((ones(n).T + ones(n).T) @ ones(n), "(1[n]ᵀ + 1ᵀ) 1"),
    "the rows of a mask": (causal(n) @ ones(n), "L 1"),
    "the last row, summed": (last_row(causal(n)) @ ones(n), "last(L[n]) 1"),
    "what a reader's word sums": (tot(ones(n)), "tot(1[n])"),
    "a constant in index form": (tabulate(lambda i, j: 1, n, m) @ ones(m), "(1)[i,j≤m] 1"),
    "a block of zeros": (stack(X, zeros(m, d)), "[X; 0[m×d]]"),
    "what a letter tells": (ones(n).T @ X @ ones(d), "1ᵀ X 1"),
    "what a letter tells of a sum": ((X + ones(n, d)) @ ones(d), "(X + 11ᵀ) 1"),
    "what a letter tells of a word": (tot(X), "tot(X)"),
    "what is true of every size": (causal(n) + causal(n).T - identity(n), "L + Lᵀ - I"),
}


@pytest.mark.parametrize("name", PRINTS)
def test_a_size_stands_where_nothing_else_tells_it(name):
    x, shown = PRINTS[name]
    assert repr(x) == shown


def test_both_sides_of_a_line_tell_each_other():
    theorem = Derivation("T", softmax(zeros(n, m))).by((1 / m) * ones(n, m), unfold(softmax)).qed()
    assert "softmax(0[n×m])" in repr(theorem) and "= 1/m 11ᵀ" in repr(theorem)
    theorem = Derivation("T", causal(1)).by(ones(1, 1)).qed()  # true of one row, and no others
    assert "L[1]" in repr(theorem) and "L_{1}" in theorem._repr_latex_()
    sums = Derivation("T", X - X).by(zeros(n, d)).qed()
    assert "  = 0 " in repr(sums)


def test_the_sizes_stand_in_latex_too():
    shown = (exp(zeros(n, m)) @ exp(zeros(m, n)))._repr_latex_()
    assert r"0_{n \times m}" in shown
    assert r"3\,\mathbf{1}_{n}" in ((3 * ones(n)).T @ ones(n))._repr_latex_()
    assert r"j \le m" in (tabulate(lambda i, j: 1, n, m) @ ones(m))._repr_latex_()
    assert r"\mathbf{1}\mathbf{1}_{m}^{\top}" in (X @ ones(d, m) @ ones(m))._repr_latex_()


def test_two_hypotheses_that_differ_print_apart():
    A, count = matrix("A", 1), lambda size: ones(1, size) @ ones(size)
    line = Derivation("T", count(n) + count(m)).by(A + count(m), given(count(n), A))
    printed = repr(line.by(A + A, given(count(m), A)))
    assert "needs 1[n]ᵀ 1 = A" in printed and "needs 1[m]ᵀ 1 = A" in printed


def test_a_hypothesis_says_all_its_sizes():
    """A line is true at any size of its sides; what it rests on is not."""
    C = matrix("C", 1)
    line = Derivation("T", (n * n) * C).by(ones(n).T @ ones(n, n) @ ones(n) @ C)
    line = line.by(ones(n).T @ identity(n) @ ones(n) @ C, given(ones(n, n), identity(n)))
    assert "needs 1[n]1ᵀ = I" in repr(line)


def test_a_size_in_an_index_form_is_mentioned():
    """Of another width it would be false."""
    table = tabulate(lambda i, j: 1 / total(lambda k: 1, n), 1, n)
    line = Derivation("T", normalise(ones(1, n))).by(table, unfold(normalise))
    assert "normalise(1[n]ᵀ)" in repr(line)


def at_places(x):
    """The same, in index form."""
    return tabulate(lambda i, j: 1 * entry_of(x, i, j), *x.shape)


def test_a_table_within_a_word_tells_its_sizes():
    assert repr(at_places(tot(ones(n))) - at_places(tot(ones(m)))) == (
        "tot((1)[k≤n]) - (tot((1)[k≤m]))"
    )
    assert "softmax((0)[l≤n]ᵀ)[i]" in repr(at_places(softmax(zeros(1, n))))
    assert r"k \le n" in at_places(tot(ones(n)))._repr_latex_()
    blocks = at_places(softmax(stack(X, zeros(m, d))))
    assert "[k≤n+m,l]" in repr(blocks)
    told = given(at_places(tot(ones(n))), matrix("A", 1, 1))
    assert "needs tot((1)[k≤n]) = A" in repr(
        Derivation("T", at_places(tot(ones(n)))).by(matrix("A", 1, 1), told)
    )


def test_a_word_of_a_word_is_no_table():
    assert "softmax(softmax(X))[i,j]" in repr(at_places(softmax(softmax(X))))
    v = matrix("v", n)
    assert "tot(tot(v))" in repr(at_places(tot(tot(v))))


def test_what_a_readers_word_takes_need_not_conform():
    """Whether I is as large as X has rows or columns, only the definition knows."""
    w = define("w", lambda x, y: 2 * x @ (ones(y.shape[0]).T @ y @ ones(y.shape[1])))
    v = matrix("v", n)
    shown = [repr(w(v, y)) for y in (ones(n), ones(m), ones(1, 1), v + ones(n), identity(n))]
    assert shown == ["w(v, 1[n])", "w(v, 1[m])", "w(v, 1)", "w(v, v + 1)", "w(v, I[n])"]
    # what it makes is as large as its definition says
    assert repr(w(v, v) + ones(n)) == "w(v, v) + 1"
