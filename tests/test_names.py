"""One name, one meaning, in all that is printed together: what an attack on the print found."""

import pytest
from derivation import *  # noqa: F403
from derivation import causal, exp, identity, proofs, vocabulary
from derivation.letters import PRINTED
from derivation.printing import Text
from test_what_was_accepted import refused

h, n = sizes("h n")


def test_an_instance_is_not_captured_in_print_by_what_is_bound():
    a, W, c = head("a", h), Heads("W", h, n, n), scalars("c")
    theorem = Derivation("T", over(a, c * W[a])).by(c * over(a, W[a])).qed()
    refused(lambda: theorem(c=scalars("a")), "the name a of an index is used for something else")
    s, X, Y = scalars("s"), matrix("X", n, n), matrix("Y", n, n)
    slope = Derivation("T", derivative(exp(s * X), s) * Y).by(X * Y).qed()
    refused(lambda: slope(Y=matrix("s", n, n)), "the name s is used with two shapes or kinds")
    assert slope(Y=matrix("Z", n, n)) and theorem(c=scalars("b"))


def test_a_word_or_a_function_is_not_called_like_what_is_bound():
    s, X, a = scalars("s"), matrix("X", n, n), head("a", h)
    twice = define("s", lambda x: 2 * x)
    refused(
        lambda: Derivation("T", derivative(twice(s * X), s)).by(2 * X, unfold(twice)),
        "called like a letter",
    )
    f = entrywise("a")
    refused(lambda: Derivation("T", over(a, f(X))).by(h * f(X)), "called like a letter")


@pytest.mark.parametrize("words", ["\x1b[8m", "a\r b", "a\u2028b", "a \u202e b", "$ = 3 A$"])
def test_no_note_and_no_name_steers_the_page(words):
    X = matrix("X", n, n)
    refused(lambda: Derivation("T", X + X).by(2 * X, note=words), "words in one row")
    refused(lambda: Derivation(words, X + X), "words in one row")


def test_what_is_needed_of_a_letter_that_was_not_asked_about_holds_of_any_matrix():
    """Its text says neither that C is a permutation, nor that c is positive, nor what f is."""
    X, Y, C = matrix("X", n, n), matrix("Y", n, n), permutation("C", n)
    theorem = Derivation("T", X).by(C.T @ C @ X).by(C.T @ C @ Y, given(C @ X, C @ Y)).by(Y).qed()
    assert not proves(theorem, X, Y, needs=["C X = C Y"])
    c = scalars("c", positive=True)
    theorem = (
        Derivation("T", X)
        .by((1 / c) * (c * X))
        .by((1 / c) * (c * Y), given(c * X, c * Y))
        .by(Y)
        .qed()
    )
    assert not proves(theorem, X, Y, needs=["c X = c Y"])
    B = matrix("B", n, n)
    theorem = Derivation("T", X + B).by(Y + B, given(X, Y)).qed()
    assert proves(theorem, X + B, Y + B, needs=["X = Y"])


def test_what_is_bound_in_print_is_called_like_no_letter():
    letters, A, B = scalars("k l p q r s t u v w"), matrix("A", n, n), matrix("B", n, n)
    k_2 = scalars("k_2")
    product = k_2
    for x in letters:
        product = product * x
    table = tabulate(
        lambda i, j: product * total(lambda a: entry_of(A, i, a) * entry_of(B, a, j), n), n, n
    )
    printed = repr(Derivation("T", table).by(product * A @ B).qed())
    assert "Σ_k_1≤n" in printed and "Σ_k_2" not in printed


def test_base_and_step_of_an_induction_speak_of_one_draw():
    t, A, B, one = sizes("t"), matrix("A", 1), matrix("B", 1), ones(1)
    count = lambda t: ones(1, t) @ ones(t, 1)
    induction = Induction("I", t, A + count(t) @ B - B, 9 * one + count(t) - one)
    other, draw = random_matrix("Q", 1, 1, 9), random_matrix("Q", 1, 1, 1)

    def base(line):
        square = given(A, expectation(other * other))
        return line.by(9 * one + count(1) - one, square, SECOND_MOMENTS)

    def step(line, before):
        line = line.by((A + count(t) @ B - B) + B).by((9 * one + count(t) - one) + B, before)
        square = given(B, expectation(draw * draw))
        return line.by(9 * one + count(join(t, 1)) - one, square, SECOND_MOMENTS)

    induction.base(base).step(step)
    refused(induction.qed, "the name Q is used with two shapes or kinds")


def test_a_draw_inside_another_mean_is_called_by_its_own_law():
    R = random_matrix("R", n, n, 1)
    squares = expectation(R * R * expectation(R * R))
    printed = repr(tabulate(lambda i, j: 1 * entry_of(squares, i, j), n, n))
    assert "R⁽²⁾[i,j]^2" in printed and "S[" not in printed


def test_a_table_never_runs_out_of_names_for_its_indices():
    product = 1
    for x in scalars("i j p q r s t u v w x y z"):
        product = product * x
    A = matrix("A", n, n)
    assert "[i_1,i_2]" in repr(tabulate(lambda i, j: product * entry_of(A, i, j), n, n))


@pytest.mark.parametrize(
    "name", ["softmax", "exp", "LN", "LN_1", "softmax1", "last", "diag", "sum"]
)
def test_no_letter_and_no_word_is_called_like_a_word_of_the_book(name):
    refused(lambda: matrix(name, n, n).function, "prints like a word of the book")
    refused(lambda: define(name, lambda x: x), "choose another name")
    refused(lambda: entrywise(name), "choose another name")


def test_every_word_of_the_book_is_kept_for_it():
    words = {x.name for x in vars(vocabulary).values() if isinstance(x, vocabulary.Word)}
    assert {w.removeprefix("masked ").rstrip("₁") for w in words} <= PRINTED


@pytest.mark.parametrize("name", ["E", "I", "L"])
def test_no_matrix_is_called_like_the_mean_the_identity_or_the_causal_mask(name):
    for letter in (matrix(name, n, n), permutation(name, n)):
        mean = (
            expectation(letter) if name == "E" else letter
        )  # in TeX a mean has a letter of its own
        refused(lambda x=mean: Derivation("T", x), "prints like the book's own")
    number = scalars(name)
    assert Derivation("T", number * matrix("X", n, n))
    refused(lambda: Derivation("T", number * causal(n) @ expectation(matrix("X", n, n))
                               @ identity(n)), "prints like the book's own")  # fmt: skip


def test_no_letter_prints_like_an_entry_of_another_or_like_the_exponential():
    a, W, A = head("a", h), Heads("W", h, n, n), matrix("A", n, n)
    refused(lambda: Derivation("T", over(a, W[a]) + matrix("W_a", n, n)), "an entry of another")
    z = sequence("z", n)
    refused(lambda: Derivation("T", z[n] @ matrix("z_n", n, n)), "an entry of another")
    table = tabulate(lambda i, j: 2 * entry_of(A, i, j), n, n)
    refused(lambda: Derivation("T", scalars("A_ij") * table), "an entry of another")
    assert Derivation("T", matrix("A_ij", n, n) @ A)  # no entries are printed here
    e = scalars("e")
    refused(lambda: Derivation("T", e * exp(A)), "prints like the book's own exp")


def test_a_name_of_several_letters_is_no_product_of_letters():
    s, t, st = scalars("s t st")
    shown = (st * matrix("X", n, n))._repr_latex_()
    assert r"\mathrm{st}" in shown and shown != (s * t * matrix("X", n, n))._repr_latex_()


def test_what_letters_are_is_printed_where_they_are_no_matrices_of_any_kind():
    M, P, c = mask("M", n, n), permutation("P", n), scalars("c", positive=True)
    A = matrix("A", n, n)
    theorem = Derivation("T", c * (M * M) + P.T @ P).by(c * M + identity(n)).qed()
    assert "(M is a mask; P is a permutation; c > 0)" in repr(theorem)
    assert r"c > 0" in theorem._repr_latex_()
    assert "is a" not in repr(Derivation("T", A + A).by(2 * A).qed())
    needed = Derivation("T", P @ A).by(P @ P @ A, given(A, P @ A))
    assert "P is a permutation" in repr(needed)


def test_a_theorem_is_cited_at_a_mean():
    A, R = matrix("A", n, n), random_matrix("R", n, n, 4)
    cited = Derivation("T", A + A).by(2 * A).qed()(A=expectation(R * R))
    assert "(the entries of R are independent, of mean 0 and of variance 4)" in repr(cited)


def test_what_is_bound_is_not_bound_once_more_within():
    """A sum and a slope reach as far as their product in print: which of the two is meant?"""
    a, W, X, s = head("a", h), Heads("W", h, n, n), matrix("X", n, n), scalars("s")
    refused(lambda: Derivation("T", over(a, over(a, X) @ W[a])), "a is bound within itself")
    twice = derivative(derivative(exp(s * X), s) @ (s * X), s)
    refused(lambda: Derivation("T", twice), "s is bound within itself")
    b, U, V = head("b", h), Heads("U", h, n, n), Heads("V", h, n, n)
    primed = head("a'", h)
    theorem = Derivation("T", over(a, V[b]) @ U[primed]).by(h * V[b] @ U[primed]).qed()
    refused(lambda: theorem(b=a), "used free and bound")
    assert theorem(b=head("c", h))


def test_words_within_an_index_form_have_one_meaning_too():
    A = matrix("A", n, n)
    f, g = define("f", lambda x: 2 * x), define("f", lambda x: 3 * x)
    of = lambda word: tabulate(lambda i, j: entry_of(word(A), i, j), n, n)
    proof = Derivation("T", 2 * A).by(of(f), unfold(f)).by(3 * A - A, unfold(f))
    refused(lambda: proof.by(of(g) - A, unfold(g)), "used with two definitions")
    E, R = scalars("E"), random_matrix("R", n, n, 1)
    mean = tabulate(lambda i, j: E * entry_of(expectation(R * R), i, j), n, n)
    refused(lambda: Derivation("T", mean), "prints like the book's own")
    phi = entrywise("p")
    table = tabulate(lambda i, j: phi(entry_of(A, i, j)), n, n)
    refused(lambda: Derivation("T", scalars("p") * table), "called like a letter")


def test_a_recursion_prints_at_a_place_and_a_function_at_a_number():
    c = recursion("c", lambda: ones(1), lambda row, t: row + ones(1))
    refused(lambda: Derivation("T", c(1) + matrix("c_1", 1, 1)), "an entry of another letter")
    assert Derivation("T", c(1) + matrix("c_0", 1, 1))
    f, at = entrywise("f"), scalars("c")
    g = f(at * ones(1))
    one = tabulate(lambda i, j: entry_of(g) / entry_of(g), n, n)
    assert "needs f(c) ≠ 0" in repr(Derivation("T", one).by(ones(n, n)))
    refused(lambda: Derivation("T", scalars("f'") * f(matrix("X", n, n))), "prints like the slope")


def test_a_name_given_to_what_recurs_is_no_letter_without_its_subscript():
    a, W, V = head("a", h), Heads("Wlong", h, n, n), Heads("Vlong", h, n, n)
    X, Y, A_a = matrix("X", n, n), matrix("Y", n, n), matrix("A_a", n, n)
    q = softmax(W[a] @ X @ V[a].T)
    line = Derivation("T", over(a, q @ Y @ q.T @ A_a @ q @ Y))
    printed = repr(line.by(over(a, 2 * q @ Y @ q.T @ A_a @ q @ Y) / 2).qed())
    assert "where B[a] = softmax" in printed


def test_a_quotient_that_is_taken_away_is_no_factor():
    A, B = matrix("A", n, n), matrix("B", n, n)
    table = tabulate(lambda i, j: entry_of(A, i, j) * (-entry_of(B, i, j) / n), n, n)
    assert repr(table) == "(A[i,j] (-B[i,j]/n))[i,j]"
    assert r"3 \cdot \frac{1}{2}" in (3 * (matrix("A", n, n) / 2))._repr_latex_()


def test_a_condition_says_its_range_where_no_letter_tells_it():
    c, m = scalars("c"), sizes("m")
    x = tabulate(lambda i, j: 1 / (c - i), n, 1)
    y = tabulate(lambda i, j: total(lambda k: 1 / (c - k), m), n, 1)
    printed = repr(Derivation("T", y + x + y).by(2 * y + x))
    assert "for every k≤n" in printed and "for every k≤m" in printed


@pytest.mark.parametrize("name", ["Alpha", "Iota", "X_Rho", "ς"])
def test_no_letter_looks_like_a_latin_one(name):
    refused(lambda: matrix(name, n, n), "")


@pytest.mark.parametrize("name", ["algebra", "definition of softmax", "induction on n", "Lemma 1"])
def test_no_proof_is_called_like_another_reason(name):
    refused(lambda: Derivation(name, matrix("X", n, n)), "print like another reason")


def test_a_needed_equation_speaks_of_no_word_of_another_reader(monkeypatch):
    """Their recursion and their f, within an index form, may be any."""
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)  # the alarm looks for letters, long
    t, u, v = sizes("t"), matrix("u", 1, 1), matrix("v", 1, 1)
    c = recursion("c", lambda: ones(1), lambda row, t: row)
    one = Induction("I", t, c(t), ones(1)).base(lambda line: line.by(ones(1), unfold(c)))
    one = one.step(lambda line, before: line.by(c(t), unfold(c)).by(ones(1), before)).qed()
    line = Derivation("T", u).by(ones(1) @ u).by(c(n) @ u, one(t=n).reversed())
    line = line.by(c(n) @ v, given(c(n) @ u, c(n) @ v)).by(v, one(t=n))
    assert not proves(line.qed(), u, v, needs=["c[n] u = c[n] v"])
    f, X, Y = define("f", lambda x: x), matrix("X", n, n), matrix("Y", n, n)
    of = lambda x: tabulate(lambda i, j: entry_of(f(x), i, j), n, n)
    line = Derivation("T", X).by(of(X), unfold(f)).by(of(Y), given(of(X), of(Y))).by(Y, unfold(f))
    needed = [hypothesis.show(Text()) for hypothesis in line.hypotheses]
    assert not proves(line.qed(), X, Y, needs=needed)


def test_no_letter_prints_like_an_entry_at_a_fixed_place():
    A, v = matrix("A", n, n), matrix("v", n)
    table = tabulate(lambda i, j: 2 * entry_of(A, i, j) * entry_of(v, i), n, n)
    for name in ("A_3j", "v_3", "v_α", "A_1"):
        refused(lambda name=name: Derivation("T", scalars(name) * table), "an entry of another")
    a, W = head("a", h), Heads("W_Q", h, n, n)
    refused(lambda: Derivation("T", over(a, W[a]) + matrix("W_Q_a", n, n)), "an entry of another")
    assert Derivation("T", over(a, W[a]) + matrix("W_K", n, n))  # no letter is called W here


def test_a_copy_of_a_draw_is_called_like_no_letter():
    R, other = random_matrix("R", n, n, 1), matrix("R'", n, n)
    squares = expectation(R * R * expectation(R * R))
    printed = repr(tabulate(lambda i, j: entry_of(other, i, j) * entry_of(squares, i, j), n, n))
    assert "R⁽²⁾[i,j]^2" in printed and "R'[i,j]" in printed


@pytest.mark.parametrize(
    "label", ["algebra", "definition of softmax", "Theorem", "Theorem 3.2 (x)"]
)
def test_a_label_is_a_number(label):
    X = matrix("X", n, n)
    refused(lambda: Derivation("T", X + X).by(2 * X).qed(label), 'is like "Theorem 3.2"')
    assert Derivation("T", X + X).by(2 * X).qed("Theorem 3.2b").title == "Theorem 3.2b (T)"


def test_a_letter_that_only_a_number_mentions_is_said_to_be_a_size():
    """Were n any number, n 1/n Z = Z would need it not to vanish."""
    m = sizes("m")
    for Z, told in ((matrix("Z", m, m), True), (matrix("Z", n, m), False)):
        theorem = Derivation("T", n * ((1 / n) * Z)).by(Z).qed()
        assert ("(n is a size)" in repr(theorem)) is told
