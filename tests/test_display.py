"""What a derivation looks like: reasons beside lines, names, breaks, hypotheses."""

import re

from derivation import *
from derivation.display import WIDEST, _broken
from derivation.printing import Latex, Text

n, m, d, h, k, t = sizes("n m d h k t")
tau, eps = scalars("tau epsilon", positive=True)
S, c, X = matrix("S", m, n), matrix("c", m), matrix("X", n, d)
P, M = permutation("Π", n), mask("M", m, n)


def shift():
    return (
        Derivation("shift", softmax(S + c @ ones(n).T))
        .by(softmax(S), unfold(softmax), EXP_OF_SUM, note="the same for every key")
        .qed("Theorem 9.1")
    )


def test_the_checked_reason_is_printed_and_the_note_beside_it():
    latex, text = shift()._repr_latex_(), repr(shift())
    assert r"\text{definition of softmax, $e^{a+b}=e^a e^b$}" in latex
    assert r"\textit{(the same for every key)}" in latex
    assert "definition of softmax, exponential of a sum (the same for every key)" in text
    assert text.startswith("Theorem 9.1 (shift):")


def test_one_aligned_block_with_a_row_for_each_line():
    line = Derivation("shift", softmax(S + c @ ones(n).T)).by(
        softmax(S), unfold(softmax), EXP_OF_SUM
    )
    latex = line._repr_latex_()
    assert latex.startswith("$$\\begin{aligned}") and latex.endswith("\\end{aligned}$$")
    assert latex.count("&=") == 1 and latex.count("&&") == 1


def test_a_reason_too_long_to_stand_beside_its_line_stands_below_it():
    wide = sum((X @ matrix(f"W_{k}", d, d) for k in range(1, 6)), X @ matrix("W_0", d, d))
    note = "a long remark that says why this line is so"
    latex = Derivation("wide", wide).by(wide + 0 * X @ matrix("W_0", d, d), note=note).qed()
    assert r"\small\text{by }\text{algebra}" in latex._repr_latex_()
    assert "&&" not in latex._repr_latex_()


def test_greek_letters_print_as_latex_commands():
    assert P.show(Latex()) == r"\Pi"
    assert matrix("β", d).show(Latex()) == r"\beta"
    assert permutation("Π_m", m).show(Latex()) == r"\Pi_{m}"
    assert matrix("W_Q", d, d).show(Latex()) == "W_{Q}"


def test_brackets_where_they_are_needed_and_nowhere_else():
    A, B, C = (matrix(x, n, n) for x in "ABC")
    shown = {
        (A + B) @ C: "(A + B) C",
        A @ B + C: "A B + C",
        (A @ B).T: "(A B)ᵀ",
        A.T @ B: "Aᵀ B",
        2 * (A + B): "2 (A + B)",
        -(A @ B): "-A B",
        (A * B) @ C: "(A ⊙ B) C",
        A - B: "A - B",
        exp(A).T: "(exp(A))ᵀ",
    }
    assert {x: x.show(Text()) for x in shown} == shown
    assert exp(A).T.show(Latex()) == r"\left(e^{\circ A}\right)^{\top}"


def test_long_lines_break_and_stay_within_the_page():
    terms = [X @ matrix(f"W_{number}", d, d) for number in range(12)]
    theorem = Derivation("long", sum(terms[1:], terms[0])).by(sum(terms[-2::-1], terms[-1])).qed()
    rows = [re.sub(r"  -- .*", "", row) for row in repr(theorem).splitlines()[1:]]
    assert len(rows) == 4 and all(len(row) <= WIDEST + 12 for row in rows)
    assert theorem._repr_latex_().count(r"\qquad + X") == 1


def test_a_long_sum_over_heads_breaks_between_its_factors():
    W, b = (
        {x: Heads(f"W_{x}", h, k, d) for x in "QKVO"},
        {x: Heads(f"b_{x}", h, k, 1) for x in "QKV"},
    )
    a = head("a", h)
    q, key, v = (X @ W[x][a].T + ones(n) @ b[x][a].T for x in "QKV")
    rows = _broken(over(a, softmax(tau * q @ key.T) @ v @ W["O"][a]), {}, Text())
    assert (
        len(rows) == 2 and rows[0].startswith("Σ_a≤h softmax(") and rows[1].startswith("· (X W_V")
    )


def test_what_recurs_in_long_lines_gets_a_name_that_is_free():
    A = matrix("A", n, d)
    wide = layer_norm(A @ matrix("W_1", d, d) + X @ matrix("W_2", d, d), eps)
    theorem = Derivation("names", wide + 2 * wide + 3 * wide).by(6 * wide).qed()
    text = repr(theorem)
    assert "where B = LN(" in text and "where A" not in text
    assert r"\text{where } B = " in theorem._repr_latex_()


def test_hypotheses_are_printed():
    theorem = Derivation("rows", masked_softmax(M, S) @ ones(n)).by(ones(m), unfold(masked_softmax))
    assert "needs no row of M ⊙ exp(S) sums to zero" in repr(theorem.qed())
    assert r"\text{needs } \text{no row of }M \odot" in theorem.qed()._repr_latex_()


def test_hypotheses_are_printed_before_qed_as_well():
    line = Derivation("rows", masked_softmax(M, S) @ ones(n)).by(ones(m), unfold(masked_softmax))
    assert "needs no row of M ⊙ exp(S) sums to zero" in repr(line)


def test_a_hypothesis_about_each_head_says_for_every():
    A, B, a = Heads("A", h, m, n), Heads("B", h, m, n), head("a", h)
    rows = Derivation("rows", masked_softmax(M, S) @ ones(n)).by(ones(m), unfold(masked_softmax))
    cited = Derivation("heads", over(a, masked_softmax(M, A[a] + B[a]) @ ones(n))).by(
        over(a, ones(m)), rows.qed()(S=A[a] + B[a])
    )
    assert "needs no row of M ⊙ exp(A[a] + B[a]) sums to zero for every a" in repr(cited.qed())


def test_a_name_for_what_depends_on_a_head_carries_the_head():
    A, B, a = Heads("A", h, n, n), Heads("B", h, n, n), head("a", h)
    wide = softmax(tau * A[a] @ B[a].T @ A[a])
    theorem = Derivation("n", over(a, wide @ wide + 2 * wide @ wide)).by(over(a, 3 * wide @ wide))
    assert "where C[a] = softmax(" in repr(theorem) and "C[a] C[a]" in repr(theorem)


def test_an_assumed_equation_is_printed():
    theorem = Derivation("given", P @ X).by(X, given(P @ X, X)).qed()
    assert "needs Π X = X" in repr(theorem)


def test_random_letters_print_what_is_assumed_of_them():
    draw = random_matrix("R", 1, n, 2)
    theorem = Derivation("mean", expectation(draw)).by(zeros(1, n), SECOND_MOMENTS).qed()
    assert "the entries of R are independent, of mean 0" in repr(theorem)
    cited = Derivation("cited", expectation(random_matrix("U", 1, n, 2)) @ X).by(
        zeros(1, n) @ X, theorem(R=random_matrix("U", 1, n, 2))
    )
    assert "the entries of U are independent" in repr(cited.qed())


def test_a_number_is_not_repeated_when_one_theorem_is_cited_twice():
    T, e = matrix("T", m, n), matrix("e", m)
    twice = Derivation("twice", softmax(S + c @ ones(n).T) + softmax(T + e @ ones(n).T)).by(
        softmax(S) + softmax(T), shift()(), shift()(S=T, c=e)
    )
    assert repr(twice).count("Theorem 9.1 (shift)") == 1


def test_a_recursion_says_which_scalars_it_depends_on():
    t, b, mu = sizes("t"), scalars("b"), sequence("mu")
    total = recursion("r", lambda mu, b: mu[1] + b * ones(1), lambda r, t, mu, b: r + mu[t])
    assert [repr(total(t, mu, b)), repr(total(t, mu, 0))] == ["r[t](mu, b)", "r[t](mu, 0)"]


def test_a_derivation_that_has_only_begun_shows_where():
    n = sizes("n")
    assert "& A + A" in Derivation("T", matrix("A", n) + matrix("A", n))._repr_latex_()
