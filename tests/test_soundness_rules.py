"""Attacks that once led to a false theorem, kept as refusals; the alarm is off throughout.

Each function tries to derive something false from a true theorem put to a bad use.
"""

import pytest
import sympy as sp
from derivation import *  # noqa: F403
from derivation import justify, proofs
from derivation.kernel.normal import Normal
from derivation.kernel.sorts import sign
from derivation.kernel.terms import fresh, pos
from derivation.letters import size_term
from derivation.matrices import NonZero
from derivation.vocabulary import word

n, m, d, k, h, t = sizes("n m d k h t")
tau, eps, sigma = scalars("tau epsilon sigma", positive=True)
c, s, r = scalars("c s r")
A, B, X, Y = matrix("A", n, n), matrix("B", n, n), matrix("X", n, d), matrix("Y", n, d)
x, y, v = matrix("x", 1), matrix("y", 1), matrix("v", n)
draw = random_matrix("R", 1, n, sigma**2)


@pytest.fixture(autouse=True)
def without_alarm(monkeypatch):
    monkeypatch.setattr(proofs, "torch_is_here", lambda: False)


# ── Theorems are made by qed, from what was checked ───────────────────────────────────────


def step_of_an_induction_as_a_theorem():
    def step(line, claim):
        line.by(y, claim).qed()

    Induction("I", t, x, y).step(step)


def step_that_assumes_what_it_needs_for_every_t():
    def one(t):
        return ones(1, t) @ ones(t, 1)

    def left(t):
        return (one(t) - ones(1)) @ (one(t) - 6 * ones(1)) @ x

    Induction("I", t, left(t), zeros(1)).base(lambda line: line.by(zeros(1))).step(
        lambda line, claim: line.by(zeros(1), given(left(join(t, 1)), zeros(1)))
    ).qed()


def lines_written_over():
    derivation = Derivation("D", X).by(X + 0 * X)
    derivation.lines = ((X, (), ""), (Y, (), ""))


def sides_of_an_induction_written_over():
    induction = Induction("I", t, x, x)
    induction._rhs = x
    induction.rhs = y
    assert (
        induction.base(lambda line: line.by(1 * x).by(x))
        .step(lambda line, claim: line.by(x))
        .qed()
        .rhs
        != y
    )
    raise ProofError("the right side is the one that was given")


# ── Capture ───────────────────────────────────────────────────────────────────────────────


def two_indices_of_one_name():
    u, w = Heads("u", k, 1, 1), Heads("w", h, 1, 1)
    a_h, a_k, b = head("a", h), head("a", k), head("b", h)
    theorem = (
        Derivation("T", over(a_h, u[a_k] @ (w[a_h] - (1 / h) * over(b, w[b])))).by(zeros(1)).qed()
    )
    w2, b2 = Heads("w", k, 1, 1), head("b", k)
    Derivation("F", over(a_k, u[a_k] @ (w2[a_k] - (1 / k) * over(b2, w2[b2])))).by(
        zeros(1), theorem(h=k, w=w2)
    )


def scalar_that_has_the_new_name():
    other = scalars("s′")
    theorem = Derivation("T", derivative(s * x + other * y, s)).by(x).qed()
    Derivation("F", derivative(other * (s * x) + other * y, other)).by(s * x, theorem(x=s * x))


def index_form_put_into_itself():
    form = tabulate(lambda i, j: total(lambda l: entry_of(A, i, l) * entry_of(B, l, j), n), n, n)
    theorem = Derivation("T", form).by(A @ B).qed()
    captured = tabulate(
        lambda i, j: total(
            lambda l: total(lambda q: entry_of(A, i, q) * entry_of(B, q, q), n) * entry_of(B, l, j), n
        ),
        n, n,
    )  # fmt: skip
    Derivation("F", captured).by(A @ B @ B, theorem(A=form))


def heads_inside_an_index_form():
    W, V = Heads("W", h, d, d), Heads("V", h, d, d)
    a = head("a", h)
    word = define(
        "f", lambda x, W: over(head("a", W.family.sizes[0]), x @ W[head("a", W.family.sizes[0])])
    )
    form = tabulate(lambda i, j: entry_of(word(X, W), i, j), n, d)
    theorem = Derivation("T", form).by(word(X, W)).qed()
    assert a
    Derivation("F", form).by(word(X, V), theorem(W=V))


def definition_that_binds_what_its_argument_brings():
    slope = define("g", lambda x: derivative(x, s))
    theorem = Derivation("T", slope(X)).by(zeros(n, d), unfold(slope)).qed()
    Derivation("F", X).by(slope(s * X), unfold(slope)).by(zeros(n, d), theorem(X=s * X))


def definition_that_sums_over_the_index_of_its_argument():
    W, Z, a, b = Heads("W", h, d, d), Heads("Z", h, n, d), head("a", h), head("b", h)

    def body(x, W):
        a = head("a", W.family.sizes[0])
        return over(a, x @ W[a])

    word = define("f", body)
    Derivation("F", over(b, Z[b] @ W[b])).by(word(Z[a], W), unfold(word))


# ── Definitions ───────────────────────────────────────────────────────────────────────────


def definition_that_hides_what_the_caller_passes_too():
    define("f", lambda x: A + x)(A)


def definition_that_hides_a_size():
    define("f", lambda x: n * x)(X)


def definition_that_branches_on_a_shape():
    word = define("f", lambda x: x if x.shape[1] == 1 else 2 * x)
    theorem = Derivation("T", word(X)).by(2 * X, unfold(word)).qed()
    Derivation("F", v).by(word(v), unfold(word)).by(2 * v, theorem(X=v))


def numbers_commute_and_so_do_matrices():
    theorem = Derivation("T", x @ y).by(y @ x).qed()
    Derivation("F", A @ B).by(B @ A, theorem(x=A, y=B))


def blocks_of_other_sizes_for_blocks():
    both = matrix("z", join(n, m))
    theorem = Derivation("T", both + both).by(2 * both).qed()
    theorem(z=matrix("y", join(m, n)))


def definition_that_changes():
    factor = [1]
    word = define("f", lambda x: factor[0] * x)
    theorem = Derivation("T", word(X)).by(X, unfold(word)).qed()
    factor[0] = 2
    Derivation("F", Y).by(word(Y), theorem(X=Y).reversed()).by(2 * Y, unfold(word))


def recursion_that_hides_a_scalar():
    recursion("o", lambda z, c_: c * ones(1), lambda previous, t, z, c_: previous)(
        1, sequence("z"), c
    )


def recursion_that_branches():
    z = sequence("z")
    o = recursion("o", lambda z: z[1], lambda previous, t, z: previous if t == 1 else 2 * previous)
    after = join(1, 1)
    Derivation("F", o(after, z)).by(z[1], unfold(o))


# ── Expectations ──────────────────────────────────────────────────────────────────────────


def hypothesis_about_a_draw_used_under_the_mean():
    b = matrix("b", 1)
    Derivation("T", b).by(expectation(b), SECOND_MOMENTS).by(
        expectation(draw @ draw.T), given(b, draw @ draw.T)
    )


def mean_of_a_fixed_vector_cited_for_a_random_one():
    fixed = matrix("x", 1, n)
    theorem = (
        Derivation("T", expectation(fixed @ fixed.T)).by(fixed @ fixed.T, SECOND_MOMENTS).qed()
    )
    theorem(x=draw)


def mean_of_a_fixed_vector_cited_for_one_that_is_random_in_part():
    fixed = matrix("x", 1, n)
    theorem = (
        Derivation("T", expectation(fixed @ fixed.T)).by(fixed @ fixed.T, SECOND_MOMENTS).qed()
    )
    theorem(x=draw + matrix("y", 1, n))


def mean_inside_a_definition():
    mean = define("mean", lambda x: expectation(x))
    fixed = matrix("x", 1, n)
    theorem = Derivation("T", mean(fixed)).by(fixed, unfold(mean), SECOND_MOMENTS).qed()
    theorem(x=draw)


def index_and_letter_of_one_name():
    ix, u = head("R", h), Heads("u", h, 1, 1)
    Derivation("T", expectation(matrix("x", 1, n) @ draw.T) + u[ix]).by(u[ix], SECOND_MOMENTS)


def leaked_index():
    box = []
    tabulate(lambda i, j: box.append(i) or 1, n, n)
    Heads("Z", n, n, d)[box[0]]


def imaginary_unit_in_an_index_form():
    tabulate(lambda i, j: sp.I, n, n)


def absolute_value_in_an_index_form():
    tabulate(lambda i, j: sp.Abs(s), n, n)


def mean_of_a_fixed_vector_hidden_in_a_word_of_an_index_form():
    fixed = matrix("x", 1, n)
    mean = define("mean", lambda x: expectation(x))
    form = tabulate(lambda i, j: entry_of(mean(fixed), i, j), 1, n)
    theorem = Derivation("T", form).by(mean(fixed)).by(fixed, unfold(mean), SECOND_MOMENTS).qed()
    theorem(x=draw)


def negative_variance():
    random_matrix("R", 1, 1, -1)


def variance_of_any_sign():
    random_matrix("R", 1, 1, c)


# ── Denominators ──────────────────────────────────────────────────────────────────────────


def hypothesis_for_one_head_taken_for_all():
    Z, a, b = Heads("Z", h, n, d), head("a", h), head("b", h)
    row = ones(d)
    theorem = (
        Derivation("T", normalise(Z[a]) @ row + over(b, normalise(Z[b]) @ row))
        .by((1 + h) * ones(n), unfold(normalise))
        .qed()
    )
    if len(theorem.hypotheses) == 2 and any("for every b" in repr(theorem) for _ in (0,)):
        raise ProofError("both hypotheses are printed, the one for every head among them")


def hypothesis_for_the_index_that_a_citation_brings_in():
    a, b, Z, w = head("a", h), head("b", h), Heads("Z", h, n, d), Heads("w", h, n, d)

    def body(Z, i):
        return normalise(Z[i]) * (Z[i] @ ones(d) @ ones(1, d))

    def summed(x, Z):
        i, width = head("a", Z.family.sizes[0]), Z.family.sizes[2]
        return over(i, normalise(Z[i]) * (Z[i] @ ones(width) @ ones(1, width))) + 0 * x

    word = define("f", summed)
    first = Derivation("T1", word(X, Z)).by(over(a, body(Z, a)), unfold(word)).qed()
    second = Derivation("T2", body(Z, a)).by(Z[a], unfold(normalise)).qed()
    Derivation("F", word(X, Z) + w[a]).by(over(b, Z[b]) + w[a], first, second)


def quotient_that_makes_a_hypothesis_evident():
    z = matrix("z", n)
    inverse = define("inv", lambda x: tabulate(lambda i, j: 1 / entry_of(x, i, j), *x.shape))
    one = define("w", lambda x: x * inverse(x))
    columns = Y - (sp.Integer(1) / d) * Y @ ones(d) @ ones(1, d) + one(z) @ ones(1, d)
    theorem = Derivation("T", normalise(columns) * (columns @ ones(d) @ ones(1, d))).by(
        columns, unfold(normalise)
    )
    if theorem.hypotheses:
        raise ProofError("that no row sums to zero is printed")


def what_is_put_into_a_hypothesis_may_be_undefined():
    y, v, p, x = (matrix(q, n) for q in "yvpx")
    theorem = (
        Derivation("T", y * ones(n)).by(y * (p * x), given(ones(n), p * x)).by(p * (x * y))
        .by(p * (x * v), given(x * y, x * v)).by(v * (p * x)).by(v, given(p * x, ones(n))).qed()
    )  # fmt: skip
    first = Derivation("F1", y).by(v, theorem(p=(1 / c) * ones(n), x=c * ones(n))).qed()
    Derivation("F2", y).by(v, first(c=0))


def letter_of_a_hypothesis_that_hides_a_random_one():
    other = random_matrix("S", 1, n, sigma**2)
    hidden = matrix("R", m, k)
    one = softmax(matrix("B", 1, d)) @ ones(d)
    first = (
        Derivation("T0", one).by(normalise(ones(1, m) @ hidden) @ ones(k), unfold(normalise), unfold(softmax))
        .by(ones(1), unfold(normalise)).qed()
    )  # fmt: skip
    Derivation("T", expectation(draw @ other.T) + one).by(ones(1), SECOND_MOMENTS, first)


def hypothesis_about_a_draw_used_under_a_mean_in_a_word():
    b = matrix("b", 1)
    mean = define("mean", lambda x: expectation(x))
    Derivation("T", mean(b)).by(mean(draw @ draw.T), given(b, draw @ draw.T))


def definition_that_branches_on_a_shape_used_in_the_other_order():
    word = define("f", lambda x: x if x.shape[1] == 1 else 2 * x)
    word(v)
    word(X)


# ── Scalars ───────────────────────────────────────────────────────────────────────────────


def symbol_without_assumptions():
    sp.Symbol("c") * A


def imaginary_symbol():
    sp.Symbol("i", imaginary=True) * A


def maximum():
    sp.Max(s, 0) * A


def sum_of_sympy():
    q = sp.Symbol("q", integer=True, positive=True)
    sp.Sum(c, (q, 1, 3)) * A


def exponent_that_is_a_position():
    tabulate(lambda i, j: c ** (i - j), n, n)


# ── Letters and what they print like ──────────────────────────────────────────────────────


def letter_that_prints_like_the_causal_mask():
    Derivation("F", matrix("L", n, n) + causal(n)).by(2 * causal(n))


def letter_that_prints_like_the_identity():
    Derivation("F", matrix("I", n, n) @ X).by(identity(n) @ matrix("I", n, n) @ X)


def greek_letter_and_its_name():
    Derivation("F", permutation("Π", n) @ X + matrix("Pi", n, n) @ X).by(2 * matrix("Pi", n, n) @ X)


def heads_without_columns():
    Heads("b", h, k)


def head_by_a_number():
    Heads("W", h, k, d)[1]


def weights_for_a_mask():
    masked_softmax(A * A, B)


def norm_without_eps():
    layer_norm(X)


def softmax_of_two():
    softmax(X, Y)


def hadamard_with_a_number():
    hadamard(X, 3)


def stack_with_a_number():
    stack(X, 3)


def exponential_of_a_number():
    exp(3)


def definition_that_makes_a_number():
    define("f", lambda x: 3)(X)


ATTACKS = [
    f for name, f in list(globals().items())
    if callable(f) and getattr(f, "__module__", "") == __name__ and name not in ("without_alarm",)
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda f: f.__name__)
def test_the_attack_is_refused(attack):
    with pytest.raises((ProofError, AttributeError)) as refusal:
        attack()
    assert isinstance(refusal.value, ProofError) or "lines" in str(refusal.value)


def test_the_reversal_of_an_instance_is_made_of_its_own_sides():
    theorem = Derivation("T", A + A).by(2 * A).qed()
    instance = theorem(A=B)
    back = instance.reversed()
    assert (back.lhs, back.rhs) == (instance.rhs, instance.lhs)
    assert not hasattr(instance, "substitution")


def test_true_lines_near_the_attacks_still_pass():
    z = sequence("z")
    Derivation("three blocks", ones(join(join(n, m), d)).T @ ones(join(join(n, m), d))).by(
        (n + m + d) * ones(1)).qed()  # fmt: skip
    mean = Derivation("mean", (1 / n) * ones(n).T @ ones(n)).by(ones(1)).qed()
    assert mean(n=join(m, k)).lhs.shape == (1, 1)
    Derivation("one head", over(head("a", 1), X)).by(X + 0 * X).qed()
    causal_rows = Derivation("causal", masked_softmax(causal(n), A) @ ones(n)).by(
        ones(n), unfold(masked_softmax)).qed()  # fmt: skip
    assert causal_rows.hypotheses == (), "a causal row always sees its own token"
    Derivation("constant form", tabulate(lambda i, j: 1, n, d)).by(ones(n, d)).qed()
    assert z[1].shape == (1, 1)


def test_the_last_position_of_two_blocks_beside_one_of_either():
    from_the_last = last_row(causal(join(n, m)).T)
    Derivation("last", from_the_last + from_the_last).by(2 * from_the_last).qed()
    assert not justify.same(from_the_last, ones(1, join(n, m)))


def test_what_must_not_vanish_midway_is_a_hypothesis_too():
    word = define("w", lambda x: normalise(x))
    first = Derivation("T", word(X)).by(normalise(X), unfold(word)).qed()
    sums_of_rows = X @ ones(d) @ ones(1, d)
    theorem = Derivation("T", word(X) * sums_of_rows).by(X, first, unfold(normalise)).qed()
    assert [h.show(proofs.Text()) for h in theorem.hypotheses] == ["no row of X sums to zero"]


def test_a_definition_by_an_index_form_is_one_word():
    twice = define("f", lambda x: tabulate(lambda i, j: 2 * entry_of(x, i, j), *x.shape))
    assert twice(X) == twice(X)
    Derivation("twice", twice(X)).by(2 * X, unfold(twice)).qed()


def test_a_hypothesis_for_every_head_is_dropped_where_there_is_one():
    Z, a = Heads("Z", h, n, d), head("a", h)
    theorem = (
        Derivation("T", over(a, normalise(Z[a]) @ ones(d))).by(h * ones(n), unfold(normalise)).qed()
    )
    assert "for every a" in repr(theorem)
    assert [x.bound for x in theorem(h=1).hypotheses] == [()]
    assert "sums to zero" in theorem(h=1).hypotheses[0].show(proofs.Text())


def hypotheses_of(line):
    return [h.show(proofs.Text()) for h in line.hypotheses]


def test_a_word_that_is_not_unfolded_needs_nothing_of_what_it_divides_by():
    part = define("f", lambda x, c: (1 / c) * x)
    start = Derivation("T", part(X, c) + part(X, c))
    assert hypotheses_of(start.by(2 * part(X, c))) == []
    assert hypotheses_of(start.by((2 / c) * X, unfold(part))) == ["c 1 ≠ 0"]


def test_a_derivative_needs_what_its_divisor_is_at_zero():
    line = Derivation("T", derivative(normalise(X + 2 * Y + A @ X + s * X) @ ones(d), s))
    line.by(zeros(n), unfold(normalise))
    assert hypotheses_of(line) == ["no row of X + 2 Y + A X sums to zero"]
    nothing_left = Derivation("T", derivative(normalise(s * X) @ ones(d), s))
    with pytest.raises(ProofError):
        nothing_left.by(zeros(n), unfold(normalise))


def test_a_position_is_a_positive_number_and_may_be_divided_by():
    both, order = join(n, m), permutation("Π", n)

    def inverses(size, start=0):
        return tabulate(lambda i, j: 1 / (start + i), size)

    for before, claim, *reasons in [
        (inverses(n) * position_numbers(n), ones(n)),
        ((order @ inverses(n)) * (order @ position_numbers(n)), ones(n)),
        (last_row(inverses(both)), (1 / (n + m)) * ones(1)),
        (inverses(both), stack(inverses(n), inverses(m, start=n)), SPLIT),
    ]:
        assert Derivation("T", before).by(claim, *reasons).qed().hypotheses == ()


def test_what_is_positive_and_what_is_not_negative_by_its_form():
    a, b = entry_of(x), entry_of(y)
    e, nothing = exp_of(a), total(lambda i: 0, n)
    summed = total(lambda i: exp_of(entry_of(v, i)), n)
    for term in (e, e**2, e**-3, 1 + e, e * tau, e + b**2, e + nothing, 1 / e, summed, n * e):
        assert sign(term.term) == "+", term
    for term in (
        0 * a,
        nothing,
        b**2,
        e * b**2,
        b**2 + a**4,
        total(lambda i: entry_of(v, i) ** 2, n),
    ):
        assert sign(term.term) == "0" or sign(term.term) is None and not Normal().poly(term.term), (
            term
        )
    for term in (
        a,
        -e,
        e - 1,
        a**3,
        a**-3,
        a * b,
        1 + a,
        c * e,
        1 / a,
        total(lambda i: entry_of(v, i), n),
    ):
        assert sign(term.term) is None, term


def test_what_an_index_form_divides_by_is_printed():
    u = matrix("u", n)
    theorem = Derivation("F", tabulate(lambda i, j: 1 / entry_of(u, i), n) * u).by(ones(n)).qed()
    assert hypotheses_of(theorem) == ["u[k] ≠ 0 for every k"]


def test_a_mean_and_a_derivative_in_an_index_form():
    square = tabulate(lambda i, j: entry_of(expectation(draw @ draw.T)))
    theorem = Derivation("T", square).by(n * sigma**2 * ones(1), SECOND_MOMENTS).qed()
    assert theorem.assumptions
    twice = define("k", lambda x: 2 * x)
    slope = tabulate(lambda i, j: entry_of(derivative(twice(s * X), s), i, j), n, d)
    assert Derivation("S", slope).by(2 * X, unfold(twice)).qed()
    same = Derivation("T", tabulate(lambda i, j: entry_of(X, i, j), n, d)).by(X).qed()
    assert justify.same(same(X=derivative(s * Y, s)).lhs, Y)


def test_positive_is_more_than_non_zero():
    inverse = word("inverse", lambda x, i, j, s: 1 / s(i, j), None,
                   needs=lambda x: [NonZero(x.args[0])])  # fmt: skip
    root = word("root", lambda x, i, j, s: 1 / root_of(s(i, j)), None,
                needs=lambda x: [NonZero(x.args[0], positive=True)])  # fmt: skip
    careless = word("careless", lambda x, i, j, s: 1 / root_of(s(i, j)), None,
                    needs=lambda x: [NonZero(x.args[0])])  # fmt: skip
    line = Derivation("T", root(X) * X * inverse(X)).by(root(X), unfold(inverse))
    assert hypotheses_of(line) == ["each entry of X ≠ 0"]
    line.by(root(X.T).T, unfold(root))
    assert hypotheses_of(line) == ["each entry of X > 0"]
    line = Derivation("T", careless(X)).by(careless(X.T).T, unfold(careless))
    assert sorted(hypotheses_of(line)) == ["X[k,l] ≥ 0 for every k, l", "each entry of X ≠ 0"]


# ── What stands for a letter ──────────────────────────────────────────────────────────────


def test_letters_may_stand_for_matrices_of_other_sizes():
    S, e = matrix("S", m, n), matrix("e", m)
    theorem = (
        Derivation("shift", softmax(S + e @ ones(n).T))
        .by(softmax(S), unfold(softmax), EXP_OF_SUM)
        .qed()
    )
    assert theorem(S=matrix("S", h, k), e=matrix("e", h)).lhs.shape == (h, k)


@pytest.mark.parametrize("fewer", [Heads("V", n, d, k), X])
def test_heads_stand_for_heads_with_as_many_indices(fewer):
    W, a, b = Heads("W", h, n, d, k), head("a", h), head("b", n)
    theorem = Derivation("T", W[a, b] + W[a, b]).by(2 * W[a, b]).qed()
    with pytest.raises(ProofError, match="a family of heads"):
        theorem(W=fewer)


def test_what_is_assumed_of_draws_is_remembered_when_theorems_are_cited():
    fixed, mean = matrix("x", 1, n), expectation(draw @ draw.T)
    square = Derivation("T1", mean).by(n * sigma**2 * ones(1), SECOND_MOMENTS).qed()
    rows = Derivation("T2", softmax(fixed) @ ones(n)).by(ones(1), unfold(softmax)).qed()
    assert square.assumptions and not rows.assumptions
    both = Derivation("T", mean + softmax(fixed) @ ones(n))
    theorem = both.by(n * sigma**2 * ones(1) + ones(1), square, rows).qed()
    assert theorem.assumptions
    for x in (rows, theorem):
        with pytest.raises(ProofError, match="not random"):
            x(x=draw)


def test_what_is_divided_by_under_a_mean_may_be_fixed_and_not_random():
    fixed, square = matrix("x", 1, n), draw @ draw.T
    line = Derivation("T", expectation(normalise(fixed) @ ones(n) @ square))
    line.by(expectation(square), unfold(normalise))
    assert hypotheses_of(line) == ["no row of x sums to zero"]
    with pytest.raises(ProofError, match="mean of a quotient"):
        Derivation("F", expectation(normalise(draw) @ ones(n) @ square)).by(
            expectation(square), unfold(normalise)
        )


def test_heads_with_more_indices_make_another_kind_of_a_word():
    word = define("f", lambda x, W: W.family.sizes[0] * x)
    one, two = word(X, Heads("W", h, n, d)), word(X, Heads("V", h, n, d, k))
    assert one.operation is not two.operation and one.operation.word is two.operation.word


def test_an_index_and_a_sequence_may_stand_for_others_of_other_sizes():
    W, a, z = Heads("W", h, n, d), head("a", h), sequence("z", d)
    theorem = Derivation("T", W[a] + ones(n) @ z[1]).by(ones(n) @ z[1] + W[a]).qed()
    instance = theorem(a=head("b", k), z=sequence("y", m), W=Heads("V", k, n, m))
    assert repr(instance.lhs) == "V[b] + 1 y[1]" and instance.lhs.shape == (n, m)
    assert repr(theorem(a=head("a", 1), h=1).lhs) == "W[1] + 1 z[1]"
    for wrong in ({"a": 1}, {"a": X}, {"z": X}, {"a": head("b", k), "h": m},
                  {"z": sequence("y", m), "d": k}, {"z": sequence("y", m), "W": W}):  # fmt: skip
        with pytest.raises(ProofError, match="T: "):
            theorem(**wrong)


def test_a_sequence_brings_its_width_and_a_fixed_axis_is_asked():
    z = sequence("z", d)
    theorem = Derivation("T", z[1] + z[1]).by(2 * z[1]).qed()
    assert theorem(z=sequence("y", m)).lhs.shape == (1, m)
    row, joined = matrix("row", 1, n), matrix("J", join(m, n), d)
    theorem = Derivation("T", joined @ ones(d) @ row).by(joined @ (ones(d) @ row)).qed()
    assert theorem(J=matrix("K", join(m, n), k), row=matrix("b", 1, n)).lhs.shape == (join(m, n), n)
    with pytest.raises(ProofError, match=r"row has an axis of 1, which cannot be m here"):
        theorem(row=matrix("b", m, n))
    with pytest.raises(ProofError, match=r"J has an axis of m \+ n, which cannot be k here"):
        theorem(J=matrix("K", k, d))


def test_a_word_takes_the_functions_that_it_names_in_order_of_their_names():
    names = ["f_5", "f_2", "f_8", "f_1", "f_7", "f_4", "f_6", "f_3"]
    word = define("w", lambda x: sum((entrywise(f)(x) for f in names[1:]), entrywise(names[0])(x)))
    term = word(X).entry(*map(fresh, (pos(size_term(n)), pos(size_term(d)))))
    taken = [next(iter(x.letters)).args[0] for x in term.args[1:9]]
    assert taken == sorted(names)


@pytest.mark.parametrize("along", [n, tau, 2 * s, s + r, sp.Integer(1), "s"], ids=str)
def test_a_derivative_is_taken_along_a_real_scalar_symbol(along):
    with pytest.raises(ProofError, match="real scalar symbol"):
        derivative(X, along)


def test_no_expression_stands_for_a_family_inside_a_definition():
    word = define("f", lambda x, W: x)
    theorem = Derivation("T", word(X, A.params[0]) + X).by(X + word(X, A.params[0])).qed()
    with pytest.raises(ProofError, match="as a family of matrices"):
        theorem(A=B)


def test_two_scalars_that_are_bound_get_two_new_names():
    theorem = Derivation("T", derivative(derivative(s * r * X, s), r)).by(X).qed()
    instance = theorem(X=s * r * X)
    (outer,), (inner,) = instance.lhs.params, instance.lhs.args[0].params
    assert len({outer, inner, s, r}) == 4 and {s, r} <= instance.lhs.free_scalars()
    assert justify.same(instance.lhs, instance.rhs)


Q, R = permutation("Q", n), permutation("R", n)


@pytest.mark.parametrize("image", [R, R.T, Q @ R, (Q @ R).T, Q.T @ R @ Q, identity(n)], ids=repr)
def test_what_stands_for_a_permutation_inside_an_index_form(image):
    P = permutation("Π", n)
    form = tabulate(lambda i, j: entry_of(P @ X, i, j), n, d)
    theorem = Derivation("T", form).by(P @ X).qed()
    instance = theorem(**{"Π": image})
    assert justify.same(instance.lhs, image @ X) and justify.same(instance.rhs, image @ X)
    assert not justify.same(instance.lhs, Q @ X)


def test_a_word_that_takes_a_mask_is_one_word_for_every_mask():
    M, N = mask("M", n, n), mask("N", n, n)
    word = define("f", lambda m, s: masked_softmax(m, s))
    assert word(M, A).operation is word(N, B).operation
    Derivation("T", word(M, A)).by(masked_softmax(M, A), unfold(word)).qed()
    with pytest.raises(ProofError):
        word(A, B)


def test_a_scalar_of_a_word_may_be_a_number_that_is_no_size():
    word = define("f", lambda x, c: c * x)
    Derivation("T", word(X, n + 1)).by((n + 1) * X, unfold(word)).qed()
