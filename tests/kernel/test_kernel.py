"""The kernel refuses what is false, takes what is true, and is small.

What was accepted by the checker before it, or by an attack on an earlier form of it, stands here
with the rule that is now in the way.
"""

import ast
import sys
from pathlib import Path

import pytest
import sympy as sp
from derivation import *
from derivation import justify, reading
from derivation.kernel import rules
from derivation.kernel.normal import LAWS
from derivation.kernel.sorts import check
from derivation.kernel.terms import (
    NUM,
    ONE,
    ONLY,
    POSITIVE,
    SIZE,
    UNIT,
    ZERO,
    ProofError,
    Term,
    abstract,
    fun,
    pos,
)  # fmt: skip
from derivation.letters import exact_number as num
from derivation.letters import letter

KERNEL = Path(rules.__file__).parent
n, m, d, h = sizes("n m d h")
A, B, S, X = matrix("A", n, n), matrix("B", n, n), matrix("S", m, n), matrix("X", n, d)
v, w, c = matrix("v", n), matrix("w", n), matrix("c", m)
M, P = mask("M", m, n), permutation("Π", n)
s, t, tau = scalars("s"), scalars("t"), scalars("tau", positive=True)
e, eps = scalars("e"), scalars("epsilon", positive=True)
J, one = ones(n, n), ones(n)
R, Q = random_matrix("R", n, n, 1), random_matrix("Q", n, n, 1)
WORDS = [softmax, masked_softmax, normalise, layer_norm, rms_norm, batch_norm, softmax_one]
EVERY_LAW = [REINDEX, EXP_OF_SUM, SPLIT, ANGLE_ADDITION, SECOND_MOMENTS, COUNT]


def function(x):
    return x.function


def proved(lhs, rhs, *words, laws=EVERY_LAW):
    """The kernel's theorem, by all means that could help."""
    return justify.by_algebra(lhs, rhs, [*WORDS, *words], laws)


def conditions(theorem):
    return sorted(relation for relation, _ in theorem.conditions)


# ── False lines ──────────────────────────────────────────────────────────────────────────────

softmax_of = lambda keys, b: softmax(A @ (keys + one @ b.T).T)
relu_of = entrywise("relu")
root_of_all = lambda x: tabulate(lambda a, b: root_of(entry_of(x, a, b)), *x.shape)
D, both, L = stack(A, S), join(n, m), causal(n)
f = entrywise("f")
FALSE = {
    "one number for each key": (softmax(S + ones(m) @ w.T), softmax(S)),
    "softmax down the columns": (softmax((S + c @ one.T).T).T, softmax(S.T).T),
    "a lost scale": (softmax(tau * S), softmax(S)),
    "a query bias": (softmax((A + one @ v.T) @ B.T), softmax(A @ B.T)),
    "a mask times scores": (softmax(M * (S + c @ one.T)), softmax(M * S)),
    "a mask after softmax": ((M * softmax(S)) @ one, ones(m)),
    "masked and not": (masked_softmax(M, S), softmax(S)),
    "keys by π, values by its inverse": (softmax(S @ P.T) @ P.T @ X, softmax(S) @ X),
    "a permutation is its inverse": (P @ P, identity(n)),
    "two permutations commute": (P @ permutation("Σ", n), permutation("Σ", n) @ P),
    "a causal mask moves": (P @ causal(n) @ P.T, causal(n)),
    "RMSNorm and a shift": (rms_norm(X + v @ ones(d).T, eps), rms_norm(X, eps)),
    "LayerNorm and a bias": (layer_norm(X + one @ matrix("b", d).T, eps), layer_norm(X, eps)),
    "LayerNorm and a scale": (layer_norm(tau * X, eps), layer_norm(X, eps)),
    "two ε": (layer_norm(X, eps), layer_norm(X, 2 * eps)),
    "one and n": (one.T @ one, ones(1)),
    "n and n²": (n * n * v, n * v),
    "J J = J": (J @ J, J),
    "AB = BA": (A @ B, B @ A),
    "(AB)ᵀ = AᵀBᵀ": ((A @ B).T, A.T @ B.T),
    "A ⊙ A = A": (A * A, A),
    "e^(a+b) = e^a + e^b": (exp(A + B), exp(A) + exp(B)),
    "products of exponentials": (exp(A) @ exp(B), exp(A + B)),
    "L + Lᵀ = 11ᵀ": (causal(n) + causal(n).T, J),
    "f is additive": (f(A + B), f(A) + f(B)),
    "f and g": (f(A), entrywise("g")(A)),
    "blocks weighed alike": (
        softmax(stack(S.T, S.T).T) @ stack(X, X), softmax(S) @ X + softmax(S) @ X),
    "stacks swapped": (stack(A, B), stack(B, A)),
    "relu and a sign": (relu_of(-A), -relu_of(A)),
    "cos is odd": (cos(-A), -cos(A)),
    "counting what turns": (
        tabulate(lambda a, b: total(lambda k: entry_of(L @ P.T, k, k), n)), n * ones(1)),
    "relu is even": (relu_of(-A), relu_of(A)),
    "a root of −x": (root_of_all(-A), root_of_all(A)),
    "a derivative at 0": (derivative(softmax(A + s * B), s), B * softmax(A)),
    "Σ k over heads is h": (lambda a, W: (over(a, W[a]), h * W[a]))(head("a", h), Heads("W", h, n, n)),
    # means
    "E[(Ra)³] = 0": (expectation((R @ v) * (R @ v) * (R @ v)), zeros(n)),
    "E[R S⁴] = 0": (expectation(R * Q * Q * Q * Q), zeros(n, n)),
    "E[e^R] = 11ᵀ": (expectation(exp(R)), J),
    "E(RRᵀ) = I": (expectation(R @ R.T), identity(n)),
    "E(RR) = n I": (expectation(R @ R), n * identity(n)),
    "E(R ⊙ R) = 0": (expectation(R * R), zeros(n, n)),
    "E of a quotient": (expectation(normalise(R) * R), zeros(n, n)),
    "E of softmax": (expectation(softmax(R)), softmax(zeros(n, n))),
    "a draw outside a mean": (R @ A, R @ A),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE)
def test_what_is_false_is_refused(name):
    with pytest.raises(ProofError):
        proved(*FALSE[name])


def test_its_control_is_taken():
    """The same pairs with each right side in place of the left: nothing else refuses them."""
    for name, (_, rhs) in FALSE.items():
        if "draw" not in name and "quotient" not in name:
            assert proved(rhs, rhs)


# ── True lines ───────────────────────────────────────────────────────────────────────────────

C = matrix("C", m, n)
TRUE = {
    "shift": (softmax(S + c @ one.T), softmax(S), []),
    "M ⊙ M = M": (M * M, M, []),
    "M ⊙ masked softmax": (M * masked_softmax(M, S), masked_softmax(M, S), ["≠ 0"]),
    "LN(τX, τ²ε)": (layer_norm(tau * X, tau**2 * eps), layer_norm(X, eps), []),
    "tr PQ = tr QP": (ones(1, m) @ (C * S) @ one, ones(1, n) @ (S.T * C.T) @ ones(m), []),
    "exp(S/2)²": (exp(S / 2) * exp(S / 2), exp(S), []),
    "L + Lᵀ - I": (lambda L: (L + L.T - identity(n), J, []))(causal(n)),
    "cos² + sin²": (cos(A) * cos(A) + sin(A) * sin(A), J, []),
    "relu(τA)": (relu_of(tau * A), tau * relu_of(A), []),
    "tanh is odd": (tanh(-A), -tanh(A), []),
    "a permutation undone": (P.T @ P, identity(n), []),
    "a number leaves a mean": (expectation(2 * softmax(R)), 2 * expectation(softmax(R)), ["exists", "exists"]),
    "E(RRᵀ)": (expectation(R @ R.T), n * identity(n), []),
    "a quotient of quotients": (
        tabulate(lambda a, b: 1 / (1 / entry_of(v, a) + 1 / entry_of(w, a)), n),
        tabulate(lambda a, b: entry_of(v, a) * entry_of(w, a) / (entry_of(v, a) + entry_of(w, a)), n),
        ["≠ 0", "≠ 0", "≠ 0"]),
    "a half of a quotient": (
        tabulate(lambda a, b: 1 / (2 * entry_of(v, a) + 2 * entry_of(w, a)), n),
        tabulate(lambda a, b: 1 / (entry_of(v, a) + entry_of(w, a)) / 2, n), ["≠ 0"]),
    "a sum reindexed, with a sign": (
        one.T @ tanh(P @ v - v), -(one.T @ tanh(P.T @ v - v)), []),
    "d/ds of relu": (
        derivative(relu_of(v + s * w), s), derivative(relu_of(v + s * w), s), ["≠ 0"]),
    "d/ds of a root": (
        derivative(root_of_all(J + s * A), s), A / 2, []),
    "the identity in two blocks": (identity(both) @ D, D, []),
    "the causal mask in two blocks": (
        causal(both) @ ones(both), stack(causal(n) @ one, n * ones(m) + causal(m) @ ones(m)), []),
    "a derivative of a stack": (derivative(stack(s * A, B), s), stack(A, zeros(n, n)), []),
    "rows that sum to 1": (normalise(A) @ one, one, ["≠ 0"]),
    "f(sx) twice": (derivative(f(s * A), s), derivative(f(2 * s * A - s * A), s), ["is smooth"]),
    "ones are counted": (one.T @ one @ v.T, n * v.T, []),
    "one number for every head": (over(head("a", h), A), h * A, []),
    "a diagonal from the left": (diag(v) @ A, (v @ one.T) * A, []),
    "keys in another order": (softmax(S @ P.T), softmax(S) @ P.T, []),
    "a batch in another order": (batch_norm(P @ X, eps), P @ batch_norm(X, eps), []),
    "rows under a mask": (masked_softmax(M, S) @ one, ones(m), ["≠ 0"]),
    "exponentials under a sum": (exp(S + c @ one.T) @ one, exp(c) * (exp(S) @ one), []),
    "d/ds of a product": (derivative((v + s * w) * (v + s * w), s), 2 * v * w, []),
}  # fmt: skip


@pytest.mark.parametrize("name", TRUE)
def test_what_is_true_is_taken_and_says_what_it_needs(name):
    lhs, rhs, needs = TRUE[name]
    words = [term for word in WORDS for term in word.terms]
    theorem = rules.by_normal_form(function(lhs), function(rhs), words, LAWS)
    assert conditions(theorem) == needs


def test_linearity_by_laws_that_are_not_named_is_refused():
    with pytest.raises(rules.Differ):
        proved(softmax(S + c @ one.T), softmax(S), laws=[])
    with pytest.raises(rules.Differ):
        rules.by_normal_form(function(softmax(S + c @ one.T)), function(softmax(S)), (), LAWS)


# ── What was accepted once ───────────────────────────────────────────────────────────────────

x, y, p = letter("x", NUM), letter("y", NUM), letter("p", POSITIVE)
size_n = letter("n", SIZE)
i, j, k = (letter(c, pos(size_n)) for c in "ijk")
g = letter("g", fun(NUM))
inv, mul, add = (lambda *a, op=op: Term(op, *a) for op in ("inv", "mul", "add"))
root, app = (lambda *a, op=op: Term(op, *a) for op in ("sqrt", "app"))
made = lambda body, *letters: abstract(letters, body)


def word_of(name, body, *parameters):
    return Term("word", name, abstract(parameters, body))


def test_a_word_hides_nothing():
    hidden = word_of("f", mul(x, y), x)
    with pytest.raises(ProofError, match="hides y"):
        check(app(hidden, x))


def test_a_draw_is_no_parameter_and_no_hypothesis_speaks_of_one():
    draw = Term("DRAW", Term("let", "R_law", Term("LAW")), ONE, pos(UNIT), pos(UNIT))
    with pytest.raises(ProofError, match="a draw"):
        rules.given(function(R), function(R @ J))
    with pytest.raises(ProofError):
        check(app(Term("word", "f", Term("abs", ONE, draw)), ONE))


def test_a_positive_letter_stands_for_what_is_evidently_positive():
    theorem = rules.by_normal_form(made(root(Term("pow", p, 2))), made(p))
    for value in (num(-1), x, add(ONE, root(x)), add(ONE, inv(Term("call", "relu", x)))):
        with pytest.raises(ProofError, match="not evidently positive"):
            rules.instance(theorem, {p: value})
    assert rules.instance(theorem, {p: add(ONE, root(p))})


def test_a_condition_is_carried_with_what_it_needs_itself():
    theorem = rules.by_normal_form(made(mul(y, inv(y))), made(ONE))
    found = rules.instance(theorem, {y: mul(x, inv(x))})
    assert [r for r, _ in found.conditions] == ["≠ 0"]  # x, without which x/x is anything
    with pytest.raises(ProofError, match="never holds"):
        rules.instance(theorem, {y: ZERO})


def test_a_condition_is_not_simplified_through_a_word_unnoticed():
    quotient = app(word_of("w", mul(x, inv(x)), x), x)
    theorem = rules.by_normal_form(made(mul(quotient, inv(quotient))), made(ONE))
    assert conditions(theorem) == ["≠ 0"]


def test_words_are_read_once():
    w = word_of("w", mul(x, inv(x)), x)
    assert conditions(rules.by_normal_form(made(app(w, x)), made(ONE), iter([w]))) == ["≠ 0"]


def test_a_hole_is_filled_by_what_fits_it():
    theorem = rules.by_normal_form(made(root(Term("pow", p, 2)), p), made(p, p))
    hole = letter("hole", fun(POSITIVE))
    assert rules.congruence(theorem, made(app(hole, ONE)), hole)
    with pytest.raises(ProofError, match="not evidently positive"):
        rules.congruence(theorem, made(app(hole, x)), hole)


def test_a_smooth_function_stays_free():
    slope = lambda body: Term("deriv", made(body, y), x)
    both = (
        made(slope(mul(app(g, y), app(g, y))), g),
        made(mul(num(2), app(g, x), slope(app(g, y))), g),
    )
    with pytest.raises(ProofError, match="stays free"):
        rules.by_normal_form(*both)


def test_a_smooth_letter_stands_for_what_is_smooth():
    slope = Term("deriv", made(app(g, y), y), x)
    theorem = rules.by_normal_form(made(slope), made(slope))
    kink = made(root(Term("pow", y, 2)), y)
    assert "≠ 0" in conditions(rules.instance(theorem, {g: kink}))


def test_a_delta_leaves_the_variance_of_a_draw_and_free_denominators_alone():
    variance, mask_of = (
        letter("u", fun(pos(size_n), kind="positive")),
        letter("b", fun(NUM, kind="mask")),
    )
    draw = letter(
        "D", Term("DRAW", Term("let", "R_law", Term("LAW")), app(variance, j), pos(size_n))
    )
    mean = Term("mean", made(mul(Term("delta", i, j), app(mask_of, app(draw, k))), draw))
    with pytest.raises(rules.Differ):
        rules.by_normal_form(made(Term("pow", mean, 2)), made(mean))
    flag = letter("F", fun(pos(size_n), kind="mask"))
    q = mul(Term("delta", i, j), inv(Term("pow", app(flag, j), 2)))
    with pytest.raises(rules.Differ):
        rules.by_normal_form(made(root(add(q, y))), made(root(add(q, mul(y, app(flag, i))))))


def test_names_mean_one_thing():
    with pytest.raises(ProofError, match="two things called A"):
        proved(matrix("A", m, n) @ A, matrix("A", m, n) @ A)
    two = define("g", lambda S: 2 * S)(A) - define("g", lambda S: 3 * S)(A)
    with pytest.raises(ProofError, match="two things called g"):
        justify.by_algebra(two, two)
    for name in ("#1", "x) + (y", "2", "", "cos"):
        bad = Term("let", name, NUM)
        with pytest.raises(ProofError):
            rules.by_normal_form(made(bad), made(bad))


def test_nothing_but_a_rule_makes_a_theorem():
    theorem = rules.by_normal_form(made(x), made(x))
    for forge in (
        lambda: rules.Theorem(made(x), made(y)),
        lambda: setattr(theorem, "rhs", made(y)),
        lambda: delattr(theorem, "conditions"),
        lambda: type("Mine", (rules.Theorem,), {}),
        lambda: type("Mine", (Term,), {"__eq__": lambda a, b: True}),
        lambda: x.__init__("num", ONE),
        lambda: Term("let", "x", NUM, POSITIVE),
        lambda: Term("num", 0.5),
        lambda: Term("lit", True),
        lambda: rules.chain(theorem, object()),
        lambda: rules.congruence(theorem, object(), x),
        lambda: rules.for_every(rules.given(made(x), made(ZERO)), [object()]),
        lambda: rules.instance(theorem, {x: 1}),
    ):
        with pytest.raises((ProofError, AttributeError, TypeError)):
            forge()


def test_a_permutation_is_one_of_positions_and_has_a_name():
    real = letter("r", fun(NUM, kind="perm"))
    nameless = Term("FUN", "perm", pos(size_n), pos(size_n))
    for moved in (Term("move", real, 1, x), Term("move", nameless, 1, i)):
        with pytest.raises(ProofError):
            check(moved)


def test_letters_are_read_once():
    """What changes while it is read would generalise a letter that a hypothesis speaks of."""
    assumed, reads = rules.given(made(x), made(ZERO)), iter([[y], [x]])

    class Changing:
        def __iter__(self):
            return iter(next(reads))

    assert rules.for_every(assumed, Changing()).lhs == made(x, y)


def test_no_theorem_is_left_where_one_was_refused():
    one, other = letter("a", NUM), letter("a", POSITIVE)
    with pytest.raises(ProofError, match="two things called a") as refused:
        rules.by_normal_form(made(add(one, other)), made(add(one, other)))
    frames = [entry.frame.f_locals for entry in refused.traceback]
    assert not any(isinstance(v, rules.Theorem) for local in frames[1:] for v in local.values())


def test_a_hypothesis_is_kept_and_binds_its_letters():
    assumed = rules.given(made(x), made(ZERO))
    assert rules.reverse(assumed).hypotheses == assumed.hypotheses
    with pytest.raises(ProofError, match="a hypothesis speaks of x"):
        rules.for_every(assumed, [x])


def test_a_sum_binds_before_anything_is_put_in():
    """Σ_k (Σ_l A_kl v_l) / (Σ_l A_kl) is not Σ_k (Σ_l A_kl Σ_u v_u) / (Σ_l A_kl)."""
    over_rows = lambda value: tabulate(
        lambda a, b: total(
            lambda k: (
                total(lambda l: entry_of(A, k, l) * value(l), n)
                / total(lambda l: entry_of(A, k, l), n)
            ),
            n,
        )
    )
    lhs, rhs = (
        over_rows(lambda l: entry_of(v, l)),
        over_rows(lambda l: total(lambda u: entry_of(v, u), n)),
    )
    with pytest.raises(rules.Differ):
        proved(lhs, rhs)


def test_sums_that_are_opened_twice_keep_their_coefficients():
    """Found in a prototype: a factor 2 came in by a sum reopened under other names."""
    q = matrix("q", n)
    inner = lambda k: entry_of(q, k) / (entry_of(q, k) + 2 * entry_of(v, k))
    body = tabulate(lambda a, b: total(lambda k: exp_of(s * entry_of(w, k)) * inner(k), n))
    slope = derivative(body, s)
    right = tabulate(lambda a, b: total(lambda k: entry_of(w, k) * inner(k), n))
    assert proved(slope, right)
    with pytest.raises(rules.Differ):
        proved(slope, 2 * right)


def test_a_free_and_a_bound_index_do_not_hang():
    a, W = head("a", h), Heads("W", h, n, d)
    theorem = Derivation("T", over(head("b", h), W[head("b", h)]) + W[a]).by(
        W[a] + over(head("b", h), W[head("b", h)])
    )
    proved_by_kernel = justify.by_algebra(theorem.lines[0][0], theorem.lines[1][0])
    index = letter("a", pos(letter("h", SIZE)))
    assert rules.instance(proved_by_kernel, {index: ONLY, letter("h", SIZE): UNIT})


def test_exact_numbers_only():
    with pytest.raises(ProofError):
        num(0.5)
    with pytest.raises(ProofError, match="not a scalar of the book"):
        sp.Dummy("e", nonnegative=True) * A  # a promise that nobody keeps


# ── Its size, and what it stands on ──────────────────────────────────────────────────────────


def test_it_is_read_in_one_sitting():
    """At most a thousand lines, in the files that chapter 0 lists; a line of each kind is counted once."""
    assert {path.stem for path in KERNEL.glob("*.py")} == {*reading.KERNEL, "__init__"}
    assert reading.lines_of_code((KERNEL / "__init__.py").read_text(encoding="utf-8")) == 0
    assert sum(lines for lines, _ in reading.kernel().values()) <= 1000
    counted = 'def f():\n    """Says."""\n\n    # why\n    return [\n        1,  # one\n    ]\n'
    assert reading.lines_of_code(counted) == 4


def test_it_imports_nothing_else_of_the_project():
    for path in KERNEL.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                root_of = (node.module or "").split(".")[0]
                own = node.level == 1 and (KERNEL / f"{node.module}.py").exists()
                assert own or root_of in sys.stdlib_module_names | {"sympy"}, (
                    path.name,
                    node.module,
                )
            if isinstance(node, ast.Import):
                assert all(a.name in sys.stdlib_module_names for a in node.names), path.name
