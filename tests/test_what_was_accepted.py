"""False lines that an earlier checker let pass, by number, and the rule that is in the way now.

The alarm is off: what refuses is the kernel, or the notation in front of it.
"""

import pytest
import sympy as sp
from derivation import *  # noqa: F403
from derivation import Theorem, justify, proofs
from derivation.letters import Index
from derivation.reasons import Given
from derivation.symbols import Heads

n, m, d, h = sizes("n m d h")
c, s, sigma = scalars("c s"), scalars("s"), scalars("sigma", positive=True)
A, B, J = matrix("A", n, n), matrix("B", n, n), ones(n, n)
X, S, v, w = matrix("X", n, d), matrix("S", m, n), matrix("v", n), matrix("w", 1, n)
F, G, R = matrix("F", d, d), matrix("G", d, d), random_matrix("R", 1, n, 1)


@pytest.fixture(autouse=True)
def without_alarm(monkeypatch):
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)


def refused(write, words):
    with pytest.raises(ProofError) as found:
        write()
    assert words in str(found.value)


def test_1_a_draw_is_no_parameter():
    """Nor does a definition hide a scalar: a word of the kernel is closed."""
    drawn = random_matrix("R", 1, 1, sigma**2)
    hides = define("f", lambda x, W: sigma * x)
    refused(lambda: hides(X, Heads.of(drawn.params[0])), "is a draw")
    refused(lambda: hides(X, Heads("W", h, n, d)), "hides sigma")
    row = recursion("o", lambda W: W[head("a", 1)], lambda before, t, W: before)
    refused(lambda: row(1, Heads.of(random_matrix("R", 1, 1, 1).params[0])), "is a draw")


def test_2_a_scalar_is_what_scalars_makes():
    """No promise of SymPy's is taken: real, positive and whole are said by the kernel's sorts."""
    for promised in (sp.Dummy("e", nonnegative=True), sp.Symbol("e", nonnegative=True)):
        refused(lambda x=promised: x * A, "is not a scalar of the book")


def test_3_nothing_bound_is_captured():
    """What is bound has no name: a divisor under one sum stays apart from the index of another."""
    over_rows = lambda value: tabulate(
        lambda i, j: total(
            lambda k: total(lambda l: entry_of(A, k, l) * value(l), n)
            / total(lambda l: entry_of(A, k, l), n), n))  # fmt: skip
    plain = over_rows(lambda l: entry_of(v, l))
    mixed = over_rows(lambda l: total(lambda u: entry_of(v, u), n))
    refused(lambda: Derivation("T", plain + ones(1)).by(mixed + ones(1)), "not justified")


def test_4_a_draw_is_bound_by_its_mean():
    """Whatever holds of a fixed letter says nothing of a draw: it has no name outside the mean."""
    fixed, mean = expectation(w @ w.T), J / n
    theorem = Derivation("T", fixed).by(expectation(w @ mean @ w.T), given(w, w @ mean)).qed()
    refused(lambda: theorem(w=R), "not random")
    refused(lambda: given(R, R @ mean).proved, "a draw")
    quotient = expectation(normalise(R) * R)
    refused(
        lambda: Derivation("Q", quotient).by(zeros(1, n), SECOND_MOMENTS, unfold(normalise)), ""
    )


def test_5_only_two_moments_are_assumed():
    """E[(Ra)³] is asked for before it is 0; Student's t with three degrees of freedom has none."""
    a = matrix("a", n)
    cube = (R @ a) * (R @ a) * (R @ a)
    refused(lambda: Derivation("T", expectation(cube)).by(zeros(1), SECOND_MOMENTS), "")
    R_1, S_1 = random_matrix("R_1", 1, 1, 1), random_matrix("S_1", 1, 1, 1)
    product = R_1 * S_1 * S_1 * S_1 * S_1
    refused(lambda: Derivation("T", expectation(product)).by(zeros(1), SECOND_MOMENTS), "")


def test_6_what_is_differentiated_is_smooth():
    """A derivative brings its condition, and one that never holds is refused."""
    f = entrywise("f")
    slope = derivative(f(s * A), s)
    theorem = Derivation("T", slope - slope).by(zeros(n, n)).qed()
    assert [x.show(proofs.Text()) for x in theorem.hypotheses] == ["f is smooth"]
    at_0 = derivative(relu(s * A), s) * zeros(n, n)
    with pytest.raises(ProofError, match="never holds"):
        Derivation("T", at_0).by(zeros(n, n))


def test_7_a_definition_binds_none_of_its_parameters():
    """What is bound has no name that could come in from outside."""
    slope = define("D", lambda f, a: derivative(f, a))
    refused(lambda: slope(softmax(S + s * S), s), "binds its own parameter")
    summed = define("tot", lambda f, i: over(i, f))
    refused(
        lambda: summed(Heads("W", h, n, d)[head("a", h)], head("a", h)), "binds its own parameter"
    )


def test_8_every_parameter_is_printed():
    """What is the same everywhere is said once, what differs where it stands."""
    scale = define("scale", lambda x, c: c * x)
    differ = Derivation("T", scale(X, 1) + X).by(scale(X, 2), unfold(scale)).qed()
    assert "scale(X, 1) + X" in repr(differ) and "= scale(X, 2)" in repr(differ)
    norms = Derivation("T", layer_norm(X, 1) - layer_norm(X, 2))
    assert "LN(X, 1) - LN(X, 2)" in repr(norms) and "LN(X, 1)" in repr(norms.lines[0][0])
    same = Derivation("T", layer_norm(X, 1) - layer_norm(X, 1)).by(zeros(n, d))
    assert "LN(X) - LN(X)" in repr(same) and "with LN(…; 1)" in repr(same)
    assert r"\operatorname{LN}" in same._repr_latex_() and r"\dots;\, 1" in same._repr_latex_()
    block = define("block", lambda x, b, W: x @ W + ones(x.shape[0]) @ b.T, shown=1)
    W, b, b_2 = matrix("W", d, d), matrix("b", d), matrix("b_2", d)
    two = Derivation("T", block(X, b, W) + block(X, b_2, W)).by(block(X, b_2, W) + block(X, b, W))
    assert "block(X, b) + block(X, b_2)" in repr(two) and "with block(…; W)" in repr(two)
    two = Derivation("T", block(X, b, W) + block(X, b, W.T)).by(block(X, b, W.T) + block(X, b, W))
    assert "block(X, b, W) + block(X, b, Wᵀ)" in repr(two), "kept back are the last ones only"


def test_8_a_hypothesis_is_not_about_two_words_of_one_name():
    f, other = define("f", lambda x: 2 * x), define("f", lambda x: 3 * x)
    refused(lambda: Derivation("T", f(v)).by(other(v), given(f(v), other(v))), "two definitions")


def test_9_a_name_in_print_is_no_letter_of_a_hypothesis():
    letters = [matrix(x, n, n) for x in "ABCDEFGHUVWZ"]
    long = sum((softmax(letters[-1] @ A.T @ A) @ A for _ in range(3)), A)
    theorem = (
        Derivation("T", long @ letters[1])
        .by(long @ letters[2], given(letters[1], letters[2]))
        .qed()
    )
    named = [
        row.split()[1] for row in repr(theorem).splitlines() if row.strip().startswith("where")
    ]
    assert named and not {"A", "B", "C", "Z"} & set(named)


@pytest.mark.parametrize("name", ["tanh", "exp", "softmax", "LN", "diag", "E", "cos", "last"])
def test_10_a_word_has_a_name_of_its_own(name):
    refused(lambda: define(name, lambda x: 2 * x), "is called so already")


def test_11_a_hypothesis_cannot_be_left_out_of_the_print():
    class Silent(Given):
        hypotheses = ()

    refused(lambda: Derivation("T", A).by(B, Silent(A, B)), "is no reason")
    line = Derivation("T", A).by(B, Given(A, B)).qed()
    parts = {name: getattr(line, name) for name in line.__slots__[:-1]}
    refused(lambda: Theorem(**parts), "made by qed")
    refused(lambda: Theorem._made(**{**parts, "hypotheses": ()}), "would print otherwise")


def test_11_an_index_of_any_name_is_an_index_like_any_other():
    row = Index("row", n)
    W = Heads("W", n, n, d)
    refused(lambda: Derivation("T", W[row]).by(X), "not justified")


def test_11_what_an_underscore_reaches_makes_no_theorem():
    """Of what a derivation keeps, the kernel believes its own theorem only."""
    line = Derivation("T", A).by(A + 0 * A)
    line._lines = ((A, (), ""), (B, (), ""))
    refused(line.qed, "would print otherwise")
    assumed = Derivation("T", A)
    assumed._local = (hypothesis := given(A, B),)
    assumed.by(B, hypothesis)._local = ()
    assert "needs A = B" in repr(assumed.qed())


def test_12_a_free_and_a_bound_index_are_told_apart():
    W, a, b = Heads("W", h, n, d), head("a", h), head("b", h)
    theorem = Derivation("T", over(b, W[b]) + W[a]).by(W[a] + over(b, W[b])).qed()
    one = theorem(a=head("a", 1), h=1)
    assert repr(one.lhs) == "W[1] + W[1]"


def test_a_theorem_about_any_scale_is_cited_at_a_number_and_at_a_size():
    Q, K, V, b = matrix("Q", m, d), matrix("K", n, d), matrix("V", n, d), matrix("b", d)
    attend = define("attend", lambda Q, K, V, tau: softmax(tau * Q @ K.T) @ V)
    tau = scalars("tau")
    biased = lambda t: attend(Q, K + ones(n) @ b.T, V, t)
    theorem = Derivation("T", biased(tau)).by(
        attend(Q, K, V, tau), unfold(attend), unfold(softmax), EXP_OF_SUM).qed()  # fmt: skip
    for t in (1, 2, n, sp.Rational(1, 2), -tau):
        line = Derivation("U", biased(t)).by(attend(Q, K, V, t), theorem(tau=t))
        assert line.qed().hypotheses == ()


TRUE = {
    "two letters": (A @ X, B @ X, given(A, B)),
    "orthonormal columns": ((X @ F).T @ X @ G, F.T @ G, given(X.T @ X, identity(d))),
    "orthonormal, in the middle": (S @ X @ X.T @ A, S @ A, given(X @ X.T, identity(n))),
    "a sum that vanishes": (v.T @ ones(n) @ w, zeros(1, n), given(v.T @ ones(n), zeros(1))),
    "a mask": (lambda M: (M * masked_softmax(M, S), masked_softmax(M, S)))(mask("M", m, n)),
    "L + Lᵀ - I": (causal(n) + causal(n).T - identity(n), J, ORDER),
    "E over softmax": (
        expectation(softmax(R) + R + w), expectation(softmax(R)) + w, LINEARITY, SECOND_MOMENTS),
    "a number of rows and one more": (
        ones(join(n, 1)).T @ ones(join(n, 1)), (n + 1) * ones(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", TRUE)
def test_a_true_line_that_was_refused(name):
    before, claim, *reasons = TRUE[name]
    extra = [unfold(masked_softmax)] if name == "a mask" else []
    assert Derivation("T", before).by(claim, *reasons, *extra).qed()


@pytest.mark.parametrize(
    "name", ["two letters", "orthonormal columns", "a sum that vanishes", "L + Lᵀ - I"]
)
def test_and_torch_runs_it(name, monkeypatch):
    monkeypatch.undo()
    before, claim, *reasons = TRUE[name]
    assert Derivation("T", before).by(claim, *reasons).qed().not_run == ()


# ── What an attack through the notation found ────────────────────────────────────────────────


def test_a_definition_means_the_same_where_two_shapes_meet():
    """A square and a column meet at 1 × 1; what is put for sizes asks the definition again."""
    x, y = matrix("x", n, 1), matrix("y", 1)
    word = define("g", lambda x: 3 * x if x.shape[1] == 1 else 2 * x)
    square = Derivation("square", word(A)).by(2 * A, unfold(word)).qed()
    column = Derivation("column", word(x)).by(3 * x, unfold(word)).qed()
    refused(lambda: square(n=1, A=y), "is another here")
    refused(lambda: column(n=1, x=y), "is another here")


def test_and_so_does_a_recursion():
    step = lambda before, t, z: (2 if z.family.sizes[1] == 1 else 3) * before
    row = recursion("o", lambda z: z[1], step)
    wide = (
        Derivation("T", row(join(1, 1), sequence("z", d)))
        .by(3 * sequence("z", d)[1], unfold(row))
        .qed()
    )
    refused(
        lambda: row(join(1, 1), sequence("z")) and wide(d=1, z=sequence("z")),
        "is another here",
    )
    same = recursion("p", lambda z: z[1], lambda before, t, z: 2 * before)
    two = (
        Derivation("T", same(join(1, 1), sequence("z", d)))
        .by(2 * sequence("z", d)[1], unfold(same))
        .qed()
    )
    assert two(d=1, z=sequence("z"))


def test_a_theorem_of_a_word_is_cited_where_two_of_its_shapes_meet():
    word = define("twice", lambda x: 2 * x)
    y, v_1 = matrix("y", 1), matrix("x", n, 1)
    column = Derivation("column", word(v_1)).by(2 * v_1, unfold(word)).qed()
    assert word(A) and column(n=1, x=y).lhs == word(y)


def test_a_mean_stands_outside_of_definitions():
    centred = define("Var", lambda x: expectation(x * x) - expectation(x) * expectation(x))
    refused(lambda: centred(R), "takes a mean")


def test_an_index_named_like_an_entrys_place_is_another():
    summed = define("F", lambda x: over(head("i", x.shape[0]), x))
    refused(lambda: Derivation("T", summed(X)).by(J @ X, unfold(summed)), "not justified")
    assert Derivation("T", summed(X)).by(n * X, unfold(summed)).qed()


def test_what_is_assumed_of_draws_comes_through_a_hypothesis():
    Q = random_matrix("Q", n, n, sigma**2)
    square = expectation(Q * Q)
    first = Derivation("T", A).by(sigma**2 * J, given(A, square), SECOND_MOMENTS).qed()
    second = Derivation("U", square).by(sigma**2 * J, first(A=square)).qed()
    assert not second.hypotheses and "the entries of Q are independent" in repr(second)
    assert "of variance sigma**2" in repr(second)
    assert not proofs.proves(second, square, sigma**2 * J)


def test_a_word_keeps_its_name():
    word = define("f", lambda x: 2 * x)
    with pytest.raises(AttributeError, match="keeps its name"):
        word.name = "softmax"
    for name in ("softmax", "LN", "exp", "I", "two words", ""):
        refused(
            lambda name=name: entrywise(name) if name != "two words" else define(name, lambda x: x),
            "",
        )


PRINTS = {
    "a sum that is taken away": (
        tabulate(lambda i, j: -(entry_of(A, i, j) + entry_of(B, i, j)), n, n), "(-(A[i,j] + B[i,j]))[i,j]"),
    "a size that is a sum": (
        tabulate(lambda i, j: 2 * entry_of(position_numbers(join(n, m))), 1, 1), "2 (n+m)"),
    "how many ones before a sum": (ones(n).T @ (ones(n) + ones(n)), "1[n]ᵀ (1 + 1)"),
    "a norm by itself": (layer_norm(X, 2), "LN(X, 2)"),
    "where two positions coincide": (
        tabulate(lambda i, j: 2 * entry_of(identity(n), i, j), n, n), "(2 [i = j])[i≤n,j≤n]"),
    "a sign in an index form": (tabulate(lambda i, j: entry_of(A, i, j) - entry_of(J, i, j), n, n), "(A[i,j] - 1)[i,j]"),
    "a number in an index form": (tabulate(lambda i, j: entry_of(-3 * J, i, j), n, n), "(-3)[i≤n,j≤n]"),
    "how many ones": (ones(n).T @ ones(n) - ones(m).T @ ones(m), "1[n]ᵀ 1 - 1[m]ᵀ 1"),
    "a matrix of ones, turned": (ones(n, m).T, "11ᵀ"),
    "a mask of one entry": (masked_softmax(ones(1, 1), matrix("x", 1)), "softmax[(1)](x)"),
    "two numbers": (3 * (4 * X), "3 · 4 X"),
    "where a stack is asked": (
        tabulate(lambda i, j: entry_of(stack(v, v), i), join(n, n), n), "({v[k]; v[l]}[i])[i≤n+n,j≤n]"),
    "a scalar named i": (tabulate(lambda i, j: scalars("i") * entry_of(A, i, j), n, n), "(i A[j,p])[j,p]"),
}  # fmt: skip


@pytest.mark.parametrize("name", PRINTS)
def test_the_print_says_what_it_is(name):
    x, shown = PRINTS[name]
    assert repr(x) == shown


def test_a_wide_sum_over_heads_keeps_its_brackets():
    a = head("a", h)
    Wide, Last = Heads("Value", h, n, n), matrix("Weight_u", n, n)
    letters = [matrix(f"Weight_{x}", n, n) for x in "pqrsvwx"]
    left, right = Wide[a], Last
    for x in letters:
        left, right = left @ x, right @ x
    line = repr(Derivation("T", over(a, left + right)))
    assert "Σ_a≤h (" in line and line.rstrip().endswith(")")


# ── What a further attack found: the letters and the numbers stand for more than they said ──


def test_draws_of_one_variance_may_have_different_laws():
    """Mean 0 and a variance do not settle E(exp R): a law is a letter of the kernel."""
    one, two = random_matrix("R", n, n, 1), random_matrix("Q", n, n, 1)
    start = Derivation("T", expectation(exp(one)))
    refused(lambda: start.by(expectation(exp(two))), "not justified")
    apart = Derivation("T", expectation(exp(one) - exp(two))).by(
        expectation(exp(one)) - expectation(exp(two)), LINEARITY
    )
    assert "needs E(exp(R[k,l])) exists" in repr(apart)
    assert "needs E(exp(Q[k,l])) exists" in repr(apart)
    cited = apart.qed()(R=random_matrix("V", n, n, 1))
    assert "E(exp(V))" in repr(cited) and "E(exp(R" not in repr(cited)


def test_a_condition_that_moments_fulfil_says_whose():
    """The row sums of E(R ⊙ R) do not vanish because of the variance, which is printed."""
    drawn = random_matrix("R", n, n, sigma**2)
    theorem = Derivation("T", normalise(expectation(drawn * drawn)) @ ones(n)).by(
        ones(n), unfold(normalise)
    )
    assert "the entries of R are independent, of mean 0 and of variance sigma**2" in repr(theorem)


@pytest.mark.parametrize(
    "name",
    [
        "t²s",
        "Rᵀ",
        "a b",
        "x__2",
        "W_",
        "А",
        "ϵ",
        "f'g",
        "E=1",
        "Rabs",
        "xbar",
        "argumentʼ",
    ],
)
def test_a_letter_prints_as_it_is_written(name):
    """No blank, no sign of a power or a transpose, no letter that looks like a Latin one."""
    refused(lambda: matrix(name, n, n), "no name of a letter")
    refused(lambda: head(name, n), "no name of a letter")
    refused(lambda: permutation(name, n), "no name of a letter")


@pytest.mark.parametrize("one, other", [("R_12", "R_1_2"), ("x_1", "x1")])
def test_two_letters_do_not_look_alike(one, other):
    refused(lambda: Derivation("T", matrix(one, n, n) + matrix(other, n, n)), "prints like another")


def test_what_a_derivative_binds_has_a_name_of_its_own():
    positive, size = scalars("s", positive=True), scalars("n")
    refused(lambda: Derivation("T", derivative(s * positive * A, s)), "two shapes or kinds")
    refused(lambda: Derivation("T", derivative(size * n * A, size)), "two shapes or kinds")
    refused(lambda: Derivation("T", derivative(s * Heads("W", h, n, n)[head("s", h)], s)), "name")
    big = scalars("L")
    refused(lambda: Derivation("T", derivative(big * causal(n), big)), "prints like")


def test_a_note_is_words():
    for note in ("x)\n  = 3 A", r"\\ &= 3 A", "}", 3):
        refused(lambda note=note: Derivation("T", A + A).by(2 * A, note=note), "a note is words")


def test_a_definition_is_one_formula():
    """A branch in Python would be read once, for whatever stood there first."""
    chosen = define("chosen", lambda x, use: 2 * x if use else x)
    refused(lambda: chosen(X, 0), "cannot branch")
    by_size = define("by_size", lambda x: x if x.shape[0] == 2 else 2 * x)
    refused(lambda: by_size(matrix("Y", 2, 2)), "cannot branch")
    refused(lambda: tabulate(lambda i, j: 1 if i == j else 0, n, n), "cannot branch")
    refused(lambda: tabulate(lambda i, j: 1 if entry_of(A, i, j) else 0, n, n), "cannot branch")


def test_functions_and_words_are_not_called_like_softmax_or_a_slope():
    for name in ("softmax_1", "softmax_L", "f'", "f g"):
        refused(lambda name=name: entrywise(name), "call")
    for name in ("softmax_1", "softmax_L", "f g", "f²"):
        refused(lambda name=name: define(name, lambda x: x), "")


def test_a_theorem_prints_all_that_it_was_proved_with():
    """Made by hand without its conditions, or without the variance of its draws, it is refused."""
    whole = tabulate(lambda i, j: entry_of(v, i) / entry_of(v, i), n)
    drawn = random_matrix("R", n, n, 1)
    for lhs, rhs, laws in (
        (whole, ones(n), []),
        (expectation(drawn * drawn), ones(n, n), [SECOND_MOMENTS]),
    ):
        proved = justify.by_algebra(lhs, rhs, (), laws)
        parts = {"name": "T", "label": "", "lhs": lhs, "rhs": rhs, "proof": (), "not_run": ()}
        lines = (lhs, (), ""), (rhs, (), "")
        refused(
            lambda p=proved, parts=parts, lines=lines: Theorem._made(
                p, **parts, lines=lines, hypotheses=(), random=()
            ),
            "would print otherwise",
        )
    plain = Derivation("T", ones(n) + ones(n)).by(2 * ones(n)).qed()
    assert proofs.proves(plain, 2 * ones(n), 2 * ones(n))
    assert not proofs.proves(plain, whole + ones(n), 2 * ones(n)), "it does not say v ≠ 0"


def test_what_is_cited_prints():
    twice = Derivation("T", A + A).by(2 * A).qed()
    assert "A + A" in repr(twice()) and twice()._repr_latex_()


def test_a_true_line_is_not_called_false():
    """By rounding, by a difference quotient too coarse, or at a place where nothing is defined."""
    lines = [
        (derivative(exp(100 * s * A), s), 100 * A, ()),
        (exp(1000 * A) + exp(1000 * A), 2 * exp(1000 * A), ()),
        (sequence("z", d)[33] * 2, 2 * sequence("z", d)[33], ()),
    ]
    for lhs, rhs, reasons in lines:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(proofs, "torch_is_here", lambda: True)
            assert Derivation("T", lhs).by(rhs, *reasons).qed()
    assert "0 instances" in repr(counterexample(normalise(A - A), A))


def test_what_is_bound_is_called_like_no_letter_around_it():
    """The scope of a sum, or of d/ds, is not printed: so its name is free in the whole of it."""
    t, k = scalars("t k")
    product = tabulate(
        lambda i, j: entry_of(derivative(exp(t * A), t), i, j) * exp_of(s * entry_of(B, i, j)), n, n
    )
    assert "d/ds" not in repr(product)
    sums = tabulate(
        lambda i, j: total(lambda q: entry_of(A, i, q), n) * total(lambda q: k * entry_of(B, q, j), n),
        n, n,
    )  # fmt: skip
    assert "Σ_k" not in repr(sums)


def test_a_row_prints_otherwise_than_a_column():
    column = tabulate(lambda i, j: 2 * entry_of(v, i), n, 1)
    row = tabulate(lambda i, j: 2 * entry_of(v, j), 1, n)
    assert (repr(column), repr(row)) == ("(2 v[i])[i]", "(2 v[i])[i]ᵀ")
    assert "}^{\\top}" in row._repr_latex_() and "top" not in column._repr_latex_()


def test_a_size_that_no_matrix_tells_is_printed():
    many = define("many", lambda c, n: (ones(n).T @ ones(n)) @ c.T)
    u = matrix("u", d)
    refused(lambda: Derivation("T", many(u, n)).by(many(u, m)), "many(u; n)[j] = ")
    apart = tabulate(
        lambda i, j: entry_of(many(u, n), None, j) - entry_of(many(u, m), None, j), 1, d
    )
    assert "many(u; n)[i] - many(u; m)[i]" in repr(apart)
    scaled_ones = 2 * ones(n).T @ ones(n) - 2 * ones(m).T @ ones(m)
    assert "1[n]ᵀ 1" in repr(scaled_ones) and "1[m]ᵀ 1" in repr(scaled_ones)


def test_a_draw_keeps_its_name_in_a_condition():
    key, query = random_matrix("k", n, n, 4), random_matrix("R", n, n, 1)
    line = Derivation("T", expectation(exp(key) + query)).by(
        expectation(exp(key)), LINEARITY, SECOND_MOMENTS
    )
    assert "needs E(exp(k[l,p])) exists for every l, p" in repr(line)


def test_what_a_word_keeps_to_itself_says_which_heads_it_is_of():
    a, W = head("a", h), Heads("W", h, n, n)
    word = define("q", lambda x, w: x @ w, shown=1)
    line = Derivation("T", over(a, word(A, W[a]))).by(A @ over(a, W[a]), unfold(word))
    assert "with q(…; W[a]) for every a" in repr(line)


def test_names_and_labels_are_words():
    for text in ("T:\n    A + A", r"T} \\ = 3", "{"):
        refused(lambda text=text: Derivation(text, A), "words in one row")
        refused(lambda text=text: Derivation("T", A + A).by(2 * A).qed(text), "words in one row")
        refused(lambda text=text: Given(A, B, text), "words in one row")


def test_an_expression_of_another_kind_is_none():
    class Loud(type(A)):
        def show(self, *_, **__):
            return "3 A"

    twice = 2 * A
    loud = Loud(twice.operation, twice.args, twice.params, twice.shape)
    refused(lambda: Derivation("T", A + A).by(loud), "an expression of the book is wanted")


def test_no_branch_of_a_definition_is_lost():
    """Not only at numbers: the body is read again wherever the word is called."""
    for body, c in (
        (lambda x, c: 2 * x if c.is_Symbol else 3 * x, s + 1),
        (lambda x, c: x if c.is_positive else -x, sigma),
        (lambda x, c: x if c == sigma else 2 * x, sigma),
    ):
        word = define("f", body)
        refused(lambda word=word, c=c: word(X, c), "cannot branch")
    t = sizes("t")
    starts = recursion("r", lambda b: b * ones(1) if b else ones(1), lambda row, t, b: row)
    refused(lambda: starts(t, 0), "cannot branch")
    steps = recursion("r", lambda b: ones(1), lambda row, t, b: row if b != 1 else 2 * row)
    refused(lambda: steps(t, 1), "cannot branch")


def test_a_theorem_about_draws_is_cited_at_other_variances():
    drawn = random_matrix("R", n, n, sigma**2)
    squares = Derivation("T", expectation(drawn * drawn)).by(sigma**2 * J, SECOND_MOMENTS).qed()
    assert squares(sigma=2).rhs == 4 * J and "variance 4" in repr(squares(sigma=2))
    by_size = random_matrix("Q", n, n, 1 / n)
    mean = Derivation("T", expectation(by_size * by_size)).by(J / n, SECOND_MOMENTS).qed()
    assert "1/3" in repr(mean(n=3)) and mean(n=join(n, m))


def test_a_quotient_whose_divisor_turns_out_to_be_zero_is_refused():
    """Found by the fuzz: LN of equal features is 0, and normalise divides by its row sums."""
    divided = layer_norm(normalise(layer_norm(stack(J, J).T, 1)), 1)
    laws = [REINDEX, EXP_OF_SUM, SPLIT, ANGLE_ADDITION, SECOND_MOMENTS, COUNT]
    refused(
        lambda: Derivation("T", divided).by(
            rms_norm(normalise(layer_norm(ones(n, n), 1)), 1) @ ones(n, join(n, n)),
            unfold(layer_norm), unfold(rms_norm), unfold(normalise), *laws,
        ),
        "",
    )  # fmt: skip
