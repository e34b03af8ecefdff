"""Attacks that once got past the checker, or past a reader of what it prints, and now fail."""

import dataclasses
from types import SimpleNamespace

import pytest
import sympy as sp
from derivation.kernel import rules, terms
from derivation.kernel.terms import Term
from derivation.language.letters import letter
from shared_letters import *

f, p = entrywise("f"), scalars("p", positive=True)
x, y, z = matrix("x", 1), matrix("y", 1), sequence("z", n)
slope = derivative(relu(x + s * y), s)
running = recursion("r", lambda z: z[1], lambda row, t, z: row + z[join(t, 1)])
constant = recursion("r", lambda z: ones(z[1].shape[1]).T, lambda row, t, z: row)
ratio = define("ratio", lambda z, t: tabulate(
    lambda i, j: entry_of(running(t, z), i, j) / entry_of(running(t, z), i, j),
    1, z[1].shape[1]))  # fmt: skip


def draws_of_two_variances():
    """Two equal sides with a draw outside any mean; the draw's variance depends on an index."""
    size, law = letter("n", terms.SIZE), letter("Law", terms.LAW)
    keep = letter("M", terms.fun(terms.pos(size), kind="mask"))
    i = terms.fresh(terms.pos(size))
    d = terms.fresh(Term("DRAW", law, Term("app", keep, i), terms.pos(size)))
    value = Term("app", d, i)
    whole = Term("mul", value, Term("inv", value))
    return rules.by_normal_form(terms.abstract([i, d], whole), terms.abstract([i, d], terms.ONE))


def equal_numbers(write):
    """Prove 1/t = 1/t, where t is the term that ``write`` makes of two numbers."""
    x, y = (letter(name, terms.NUM) for name in "xy")
    below = terms.abstract([x, y], Term("inv", write(x, y)))
    return rules.by_normal_form(below, below)


def power(base, e):
    return Term("pow", base, e)


def root_of_a_square(x, y):
    """A term that is zero, which the kernel sees only when it simplifies a second time."""
    total = Term("add", x, y)
    minus = Term("num", terms.Fraction(-1))
    root = Term("sqrt", Term("inv", power(total, 2)))
    return Term("add", Term("sqrt", power(Term("inv", total), 2)), Term("mul", minus, root))


REFUSED = {
    # a draw may occur only inside a mean, not by itself in a side or a word
    "a draw in a side": (draws_of_two_variances, "only inside a mean"),
    # a divisor is zero if all of its terms cancel
    "a root that vanishes": (lambda: equal_numbers(root_of_a_square), "never holds"),
    # the limit on the size of a line counts the terms into which a power expands
    "large powers": (
        lambda: equal_numbers(
            lambda x, y: power(power(Term("num", terms.Fraction(2)), 9999), 9999)), "too large"),
    # the step of a recursion must be one formula for every step number
    "a recursion that branches on its step": (
        lambda: recursion("x", lambda a, b: a * ones(1, 1),
                          lambda row, t, a, b: row + (a if t % 2 == 0 else b) * ones(1, 1))(n, s, p),
        "must be one formula"),
    # two words may not share a name, even if one of them occurs only in a condition
    "a condition about another word": (
        lambda: line(ratio(z, t) + constant(t, z), ones(n).T + constant(t, z), unfold(ratio)),
        "two things called r"),
    # a digit at the end of a name reads like a subscript
    "a draw like a term of a sequence": (
        lambda: Derivation("T", expectation(z[1].T @ random_matrix("z1", 1, n, p))),
        "prints like an entry"),
    "a number of another class": (lambda: type("Zero", (sp.Integer,), {})(5) * A, "not a scalar"),
    "a note that says it prints": (
        lambda: Derivation("T", A).by(A, note=type("Any", (str,), {})("a")), "one line of words"),
    "an entry at no position": (lambda: tabulate(lambda i, j: entry_of(A, i), n, n), "a row and a column"),
}  # fmt: skip


@pytest.mark.parametrize("attack", REFUSED)
def test_it_is_refused(attack):
    write, words = REFUSED[attack]
    refuse(write, words)


def test_smoothness_is_printed_beside_a_condition_on_a_divisor():
    flat = normalise(derivative(s * f(s * A), s))
    proof = Derivation("flat", flat).by(ones(n, n) / n, unfold(normalise)).qed()
    assert "needs f is smooth" in str(proof) and "sums to zero" in str(proof)


def test_a_bound_index_is_not_named_like_a_size_in_the_line():
    k = sizes("k")
    line = Derivation("T", k * layer_norm(A, 0)).by(k * layer_norm(p * A, 0), unfold(layer_norm))
    assert "for every l" in str(line) and "Σ_k" not in str(line)


def test_latex_has_no_second_exponent_and_no_second_subscript():
    row = Derivation("T", position_numbers(n).T @ A).by(position_numbers(n).T @ A)
    assert r"^{\top}^{\top}" not in row._repr_latex_()
    word = define("f_a_b", lambda x: x)
    assert r"f_{a,b}\!" in Derivation("T", word(A)).by(word(A))._repr_latex_()


SEARCHED = {
    "no slope at a kink": (slope * slope, y * slope, False),
    "nor of a matrix": (derivative(relu(s * A), s), zeros(n, n), False),
    "a small difference": (A / 10**10, zeros(n, n), True),
    "a smaller one": (exp(A - 30 * ones(n, n)), zeros(n, n), True),
    "a term far away": (z[10], z[9], False),
}


@pytest.mark.parametrize("claim", SEARCHED)
def test_a_search_finds_a_counterexample_only_if_there_is_one(claim):
    lhs, rhs, false = SEARCHED[claim]
    assert bool(counterexample(lhs, rhs, most_instances=60)) == false


def test_large_matrices_and_a_letter_e_are_not_searched():
    large = matrix("Z", 768, 768)
    refuse(lambda: counterexample(large, 2 * large), "too large")
    refuse(lambda: counterexample(softmax(scalars("e") * A), softmax(A)), "Euler")
    assert counterexample(scalars("e") * A, A)


def test_torch_does_not_call_rounding_false():
    shifted = softmax(A + 10**8 * ones(n, n))
    assert Derivation("T", shifted).by(softmax(A), unfold(softmax), EXP_OF_SUM).qed()
    large = 10**4 * A + B
    square = large * large - 10**8 * (A * A) - 2 * 10**4 * (A * B)
    assert Derivation("T", square).by(B * B).qed().not_run == ()


def test_a_line_whose_hypothesis_no_sample_meets_is_marked_as_not_run():
    wrong = Derivation("T", exp(A)).by(zeros(n, n), given(exp(A), zeros(n, n))).qed()
    assert "not run in torch" in str(wrong)


def test_a_line_is_accepted_whatever_came_before():
    """Letters made by binders are ordered by their numbers, not as text, so #10 follows #9."""
    for _ in range(6):
        assert Derivation("T", causal(n) @ ones(n)).by(position_numbers(n), COUNT).qed()


def test_a_theorem_about_the_next_step_is_cited_at_another():
    after = theorem(running(join(t, 1), z), running(t, z) + z[join(t, 1)], unfold(running))
    assert "r[m+1+1]" in str(after(t=join(m, 1)))


# ── A second round of attacks ─────────────────────────────────────────────────────────────────

one = ones(1, 1)
negative = define("w", lambda p: tabulate(lambda i, j: root_of(-p) ** 2 + p, 1, 1))
magnitude = recursion(
    "v", lambda c: tabulate(lambda i, j: root_of(c * c), 1, 1), lambda row, t, c: row
)


def a_position_and_a_number():
    word = define("f", lambda x, at: 2 * x if hasattr(at, "size") else x)
    return word(A, head("a", 1)) - word(A, 1)


def without_its_letters():
    def entry(i, j):
        return dataclasses.replace(entry_of(mask("M", n, n), i, j), uses=frozenset())

    return table(entry)


LATER = {
    "a position and a number in one place": (a_position_and_a_number, "define two words"),
    "a mask that an index form forgets": (without_its_letters, "forgets what M is"),
    "two arguments that are equal": (
        lambda: define("k", lambda x, y: x if x == y else x + y)(A, B), "cannot branch"),
    "a size that is even": (
        lambda: define("k", lambda x: x if x.shape[0].is_even else 2 * x)(A), "one formula"),
    "a body that fails": (lambda: define("k", lambda x: {}[x])(A), "one formula"),
}  # fmt: skip


@pytest.mark.parametrize("attack", LATER)
def test_a_later_attack_is_refused(attack):
    write, words = LATER[attack]
    refuse(write, words)


@pytest.mark.parametrize("kind", [type(join(n, 1)), type(head("a", n)), type(R.params[0])])
def test_there_is_no_other_kind_of_size_position_or_letter(kind):
    with pytest.raises(TypeError, match="has no subclasses"):
        type("Other", (kind,), {})


def test_a_size_in_a_condition_or_an_argument_alone_is_declared():
    zero = theorem(negative(n), zeros(1, 1), unfold(negative))
    below = tabulate(lambda i, j: 1 / entry_of(negative(n)), 1, 1)
    nothing = Derivation("T", x).by(x @ negative(n) @ below).by(zeros(1, 1), zero()).qed()
    assert "n: a size" in str(nothing())
    proof = Induction("T", t, magnitude(t, n), n * one)
    proof.base(lambda line: line.by(n * one, unfold(magnitude))).step(
        lambda line, claim: line.by(magnitude(t, n), unfold(magnitude)).by(n * one, claim)
    )
    assert "n, t: sizes" in str(proof.qed())


def test_a_numbered_bound_name_does_not_look_like_a_letter():
    letters, k1 = sum(scalars("k l p q r s u v w")), scalars("k1")
    line = Derivation("T", letters * tabulate(lambda i, j: total(lambda x: k1, n), 1, 1))
    assert r"\sum_{k_1=1}" not in line.by(letters * n * k1 * one)._repr_latex_()


def test_an_instance_prints_the_new_sizes_of_remaining_letters():
    W = random_matrix("W", m, k, 1)
    gram = theorem(expectation(W @ W.T), k * identity(m), SECOND_MOMENTS)
    assert "W: m×k random" in str(gram(k=k)) and "W: m×3 random" in str(gram(k=3))
    assert "V: m×n random" in str(gram(W=random_matrix("V", m, n, 1)))


def test_a_refusal_names_hypotheses_and_a_counterexample_its_draws():
    line = Derivation("T", A @ B).by(identity(n), given(A @ B, identity(n)))
    assert "rests on hypotheses" in str(refusal(lambda: line.by(B @ A)))
    g = random_matrix("g", n, 1, 1)
    found = counterexample(expectation((g.T @ g) @ (g.T @ g)), (n * n + 2 * n) * one)
    assert "by fair coins" in repr(found) and "by fair coins" in found._repr_latex_()


def test_a_hypothesis_is_cited_at_a_product():
    kernel = theorem(A @ X + X, X, given(A @ X, zeros(n, d)))
    assert shown(kernel(A=A @ B)) == ["A B X = 0"]


def test_a_long_product_is_compared_in_seconds():
    power, turned = A, A.T
    for _ in range(15):  # the indices of 15 nested sums can be ordered in too many ways to try each
        power, turned = power @ A, turned @ A.T
    assert shown(theorem(power.T, turned)) == []


def test_a_condition_contains_only_the_printed_letters():
    x_1, x1 = scalars("x_1 x1")
    twice = define("twice", lambda A: A + A)
    divided = tabulate(lambda i, j: entry_of(S, i, j) * (2 / x_1) * x_1, m, n)
    hidden = Derivation("T", twice(S)).by(divided, unfold(twice)).by(2 * S).qed()
    refuse(
        lambda: line(x1 * twice(S), 2 * x1 * S, hidden),
        "contains another x_1 than the printed one",
    )
    assert shown(theorem(c * twice(S), 2 * c * S, hidden)) == ["x_1 ≠ 0"]


def test_sizes_of_hypotheses_and_permutations_are_printed_after_every_citation():
    unit, all_v = ones(1, 1), ones(n).T @ v
    proof = Derivation("T", r * unit).by(all_v, given(r * unit, all_v))
    at_two = proof.by(n * s * unit, given(v, s * ones(n))).qed()(n=2)
    doubled = theorem(r * unit + r * unit, 4 * s * unit, at_two)
    assert "v: 2×1" in str(at_two) and "v: 2×1" in str(doubled)
    assert not proves(at_two, r * unit, 2 * s * unit, shown(at_two))
    assert "Π: permutation of 2" in str(theorem(ones(n).T @ P @ ones(n), n * unit)(n=2))
    again = theorem(ones(n).T @ (A - A + identity(n)) @ ones(n), n * unit)(n=m)(m=2)
    assert "A: 2×2" in str(again)


def test_a_mean_in_a_mean_is_run_in_seconds():
    Q = random_matrix("Q", n, n, 2)
    proof = theorem(expectation(R @ expectation(R.T @ Q)), zeros(n, n), SECOND_MOMENTS)
    assert "not run" not in str(proof)


def test_a_recursion_with_an_index_form_in_a_word_of_its_step_is_not_run():
    squares = define("squares", lambda X: tabulate(lambda i, j: entry_of(X) ** 2))
    row = recursion("r", lambda x: x * ones(1, 1), lambda before, t, x: squares(before))
    proof = theorem(row(join(t, 1), c), squares(row(t, c)), unfold(row))
    assert "not run in torch" in str(proof)


def identity_is_all_ones_at_the_first_place():
    """Prove I = 11ᵀ on condition that u_t ≠ 0, where u_1 = 1 and later u_t are 0."""
    u = recursion("u", lambda: ones(1, 1), lambda before, t: 0 * before)
    after, eye, all_ones = join(t, 1), identity(t), ones(t, t)
    value = ones(t) @ u(t) @ ones(1, t)
    spread = lambda X: ones(after) @ ones(1, t) @ X @ ones(t) @ ones(1, after)
    summed = lambda i, j: total(lambda x: total(lambda y: entry_of(value * eye, x, y), t), t)
    told = spread(value * eye) - tabulate(summed, after, after)
    last = (ones(after) @ u(after) @ ones(1, after)) * ones(after, after)
    no_more = spread(value * all_ones)
    same = Induction("only one", t, value * eye, value * all_ones)
    same.base(lambda line: line.by(ones(1) @ u(1) @ ones(1, 1) * ones(1, 1)))
    same.step(
        lambda line, claim: (
            line.by(told, unfold(u))
            .by(no_more - tabulate(summed, after, after), claim)
            .by(no_more - spread(value * eye))
            .by(no_more - no_more, claim)
            .by(last, unfold(u))
        )
    )
    below = tabulate(lambda i, j: 1 / entry_of(u(t)), t, t)
    whole = (
        Derivation("T", eye).by(below * (value * eye)).by(below * (value * all_ones), same.qed())
    )
    return theorem(eye, all_ones, whole.by(all_ones).qed())


def test_a_size_that_a_condition_depends_on_is_printed():
    assert "I[t]" in str(identity_is_all_ones_at_the_first_place())


def test_proves_refuses_a_condition_on_a_letter_outside_the_statement():
    p, unit = scalars("p", positive=True), ones(1, 1)
    assumes = tabulate(
        lambda i, j: (entry_of(p * unit) - 1) / (entry_of(p * unit) - 1) * entry_of(A, i, j), n, n
    )
    proof = Derivation("T", A).by(assumes).by(A).qed()
    assert shown(proof) == ["p - 1 ≠ 0"]
    assert not proves(proof, A, A, shown(proof))
    printed = Derivation("T", p * A).by(p * assumes).by(p * A).qed()
    assert proves(printed, p * A, p * A, shown(printed))


def test_a_word_may_be_called_derivative():
    same = define("derivative", lambda X: X)
    assert "derivative(A)" in str(theorem(same(A), A, unfold(same)))


def test_a_size_that_a_word_takes_is_always_printed():
    times = define("v", lambda X, p: hadamard(X, ones(X.shape[0], p) @ ones(p, X.shape[1])))
    C = matrix("C", n, m)
    proved = theorem(entries(times(C, n)) - entries(times(C, m)), (n - m) * C, unfold(times))
    assert "v(C; size n)" in str(proved) and "v(C; size m)" in str(proved)


def test_two_conditions_that_differ_in_a_size_are_both_printed():
    count = lambda p: ones(p).T @ ones(p)
    first = lambda z, y, p: count(p) @ z[1]
    grow = lambda row, t, z, y, p: row + count(p) @ z[join(t, 1)] - z[1]
    word, y = recursion("ψ", first, grow), sequence("y", m)
    made = lambda p: word(k, z, y, p)
    twice = lambda p: tabulate(lambda i, j: 1 / (1 / entry_of(made(p), i, j)), 1, n)
    proved = theorem(twice(n) - twice(m), made(n) - made(m))
    assert [f"size {s})" in row for s, row in zip("mn", shown(proved))] == [True, True]


def test_a_stack_in_an_index_form_says_where_its_blocks_end():
    blocks = lambda top, below: entries(stack(ones(top), zeros(below)))
    one, other = blocks(n, join(m, k)), blocks(join(n, m), k)
    total_of = lambda x: ones(x.shape[0]).T @ x
    proved = str(theorem(total_of(one) - total_of(other), -m * ones(1, 1), SPLIT))
    assert "1, l≤n; 0" in proved and "1, l≤n+m; 0" in proved


def test_an_index_form_prints_what_a_word_takes_in_its_order():
    y = sequence("y", n)
    scaled = define("w", lambda X, p, b: p * X + ones(X.shape[0]) @ b[1])
    taken = theorem(entries(scaled(A, c, y)), entries(c * A + ones(n) @ y[1]), unfold(scaled))
    assert "w(A, c, y)[i,j]" in str(taken)
    row = recursion("u", lambda p, b: p * b[1], lambda row, t, p, b: row + p * b[join(t, 1)])
    grown = theorem(
        entries(row(join(t, 1), c, y)), entries(row(t, c, y) + c * y[join(t, 1)]), unfold(row)
    )
    assert "u(c, y)[t+1,i]" in str(grown)


def test_a_matrix_of_a_billion_rows_is_not_run():
    large = ones(10**9)
    assert "too large" in str(theorem(large + large, 2 * large))
    refuse(lambda: line(large + large, 3 * large), "no instance could be evaluated")


def test_a_bound_index_is_not_named_like_a_word():
    word = define("k", lambda x: x)
    summed = tabulate(lambda i, j: total(lambda p: entry_of(word(x)), n))
    proof = theorem(summed, n * x, unfold(word))
    assert "Σ_l≤n k(x)" in str(proof) and "Σ_l≤2 k(1)" in str(proof(n=2, x=ones(1, 1)))
    at = define("i", lambda X: X + X)
    told = theorem(entries(at(A)), entries(2 * A), unfold(at))
    assert "(i(A)[j,p])[j,p]" in str(told)


def test_an_abbreviation_is_not_named_like_a_word_in_a_condition():
    zero, word = zeros(1, 1), recursion("A", lambda: zeros(1, 1), lambda row, t: row + row)
    same = Induction("A is zero", t, word(t), zero)
    same.base(lambda line: line.by(zero, unfold(word)))
    same.step(
        lambda line, claim: line.by(word(t) + word(t), unfold(word)).by(zero + zero, claim).by(zero)
    )
    inverse = tabulate(lambda i, j: 1 / entry_of(word(t)), 1, 1)
    start = Derivation("T", ones(1, 1)).by(word(t) @ inverse).by(zero @ inverse, same.qed())
    one_is_zero = start.by(zero).qed()
    rows = matrix("X", t, n)
    shown_in_full = softmax(rows @ matrix("K", n, n) @ rows.T) @ rows @ v
    fourth = shown_in_full * shown_in_full * shown_in_full * shown_in_full
    proof = Derivation("T", fourth).by(fourth * (ones(t) @ ones(1, 1)))
    printed = str(proof.by(fourth * (ones(t) @ zero), one_is_zero()).by(zeros(t)).qed()())
    assert "where" in printed and "where A =" not in printed


def test_proves_refuses_a_hypothesis_on_letters_outside_the_statement():
    U, W, J_n = matrix("U", n, 1), matrix("W", 1, n), ones(n, n)
    rank_one, square = given(U @ W, A), theorem(U @ W, A, given(U @ W, A))
    lhs, rhs = A @ J_n @ A, A * (J_n @ A @ J_n)
    proof = Derivation("T", lhs).by(U @ W @ J_n @ U @ W, square().reversed())
    proof = proof.by((U @ W) * (J_n @ (U @ W) @ J_n)).by(rhs, rank_one).qed()
    assert not proves(proof, lhs, rhs, shown(proof))


def test_a_number_with_a_capital_letter_is_declared():
    X_, N = scalars("X", positive=True), sizes("N")
    P_, Q_ = matrix("A", N, N), matrix("B", N, N)
    assert "X > 0" in str(theorem(A @ (X_ * B), X_ * (A @ B)))
    assert "A, B: N×N" in str(theorem(P_ @ (N * Q_), N * (P_ @ Q_)))


def test_swapping_two_sizes_twice_changes_nothing():
    swapped = theorem(matrix("A", m, n) @ ones(n), matrix("A", m, n) @ ones(n))(m=n, n=m)
    assert "A: n×m" in str(swapped) and "A: m×n" in str(swapped(m=n, n=m))


@pytest.mark.parametrize("claim", [
    lambda x: (softmax(x), ones(1, 1), unfold(softmax)),
    lambda x: (layer_norm(x, p), zeros(1, 1), unfold(layer_norm)),
    lambda x: (x @ matrix("y", 1, 1), matrix("y", 1, 1) @ x)])  # fmt: skip
def test_a_line_that_holds_only_for_one_entry_prints_that_size(claim):
    assert "x: 1×1" in str(line(*claim(matrix("x", 1, 1)))) or "x, y: 1×1" in str(line(*claim(x)))


def test_a_constructor_refuses_what_its_builder_refuses():
    kind, row = type(A), ones(m).T
    product, letter_ = (A @ B).operation, R.params[0]
    refuse(lambda: (ones(n, m) @ ones(m)).rebuilt([row, ones(n)]), "do not conform")
    refuse(lambda: kind(product, [row, ones(n)]), "do not conform")
    refuse(lambda: kind(A.operation, [], [letter_.func("R", "draw", (n, n))]), "one of matrix")
    refuse(lambda: letter_.func("R", "matrix", (n, n), 7), "a random one has a variance")
    refuse(lambda: kind((A + B).operation, [A, row]), "do not agree")
    refuse(lambda: kind(softmax(A).operation, [A, A]), "takes 1 expression")


def test_layers_with_heads_are_stacked():
    """The outer sum is printed over a', so that its heads differ from those of the inner sum."""
    W = Heads("W", h, n, n)
    layer = lambda x: over(a, softmax(x @ W[a]) @ x)
    twice = layer(layer(A))
    assert "Σ_a'≤h" in repr(twice) and "W[a']" in repr(twice)
    assert line(layer(layer(P @ A)) - layer(layer(P @ A)), zeros(n, n))
    renamed = over(head("b", h), softmax(layer(A) @ W[head("b", h)]) @ layer(A))
    assert line(twice, renamed)


class Two(int):
    """A whole number that claims to be a different rational number."""

    is_Rational, p, q = True, 3, 1
    is_Add = is_Symbol = is_Mul = is_Pow = False


class OfAnother:
    """An imitation letter with the name "z" and the term of another letter."""

    name, kind, size, sizes = "z", "sequence", n, (sp.S.Naturals, n)

    def __init__(self, other):
        self.term = other.term

    def atoms(self, kind):
        return set()


def test_an_expression_accepts_no_imitations_of_letters_or_numbers():
    kind = type(A)
    assert kind((2 * A).operation, [A], [Two(2)]).function == (2 * A).function
    refuse(lambda: line(2 * A, 3 * A), "is false")
    for made in (permutation("Q", n), sequence("y", n)[1]):
        refuse(
            lambda made=made: kind(made.operation, [], [OfAnother(made.params[0])]), "not a scalar"
        )
    refuse(lambda: kind(z[1].operation, [], [z[1].params[0], sp.S.Half]), "not a size")
    refuse(lambda: kind(layer_norm(A, p).operation, [A], [0.5]), "is a float")
    refuse(lambda: kind(causal(n).operation, [A], [s], wanted=(n, n)), "and nothing else")
    refuse(lambda: kind(A.operation, [B], A.params), "a family of matrices and no expression")
    refuse(lambda: kind(ones(n).operation), "two sizes")
    refuse(lambda: setattr(softmax, "shown", 0), "keeps its shown")


def test_unfold_accepts_no_imitation_of_a_word():
    forged = SimpleNamespace(name="softmax", terms=layer_norm.terms)
    refuse(lambda: type(unfold(softmax))(forged), "a word that has a definition")
    refuse(lambda: unfold(log), "a word that has a definition")
