"""What an attack on the kernel tried, in terms of its own; and that the kernel is small.

What was accepted by an earlier checker stands here with the rule that is now in the way.
"""

import ast
import sys
from pathlib import Path

import pytest
from derivation import reading
from derivation.kernel import sorts
from shared_terms import *

KERNEL = Path(rules.__file__).parent


def test_a_word_hides_nothing():
    with pytest.raises(ProofError, match="hides y"):
        sorts.check(app(word_of("f", mul(x, y), x), x))


def test_a_draw_is_no_parameter_and_no_hypothesis_speaks_of_one():
    R = draw()
    with pytest.raises(ProofError, match="a draw is bound by a mean"):
        rules.given(made(app(R, ONLY)), made(mul(num(2), app(R, ONLY))))
    with pytest.raises(ProofError, match="hides R_law"):
        sorts.check(app(Term("word", "f", Term("abs", ONE, R.args[1])), ONE))


def test_a_positive_letter_stands_for_what_is_evidently_positive():
    theorem = equal(root(power(p, 2)), p)
    for value in (num(-1), x, add(ONE, root(x)), add(ONE, inv(relu(x)))):
        with pytest.raises(ProofError, match="not evidently positive"):
            rules.instance(theorem, {p: value})
    assert rules.instance(theorem, {p: add(ONE, root(p))})


def test_a_condition_is_carried_with_what_it_needs_itself():
    theorem = equal(quotient(y), ONE)
    found = rules.instance(theorem, {y: quotient(x)})
    assert needs(found) == ["≠ 0"], "x, without which x/x is anything"
    with pytest.raises(ProofError, match="never holds"):
        rules.instance(theorem, {y: ZERO})


def test_a_condition_is_not_simplified_through_a_word_unnoticed():
    assert needs(equal(quotient(app(word_of("w", quotient(x), x), x)), ONE)) == ["≠ 0"]


def test_words_are_read_once():
    w = word_of("w", quotient(x), x)
    assert needs(equal(app(w, x), ONE, words=iter([w]))) == ["≠ 0"]


def test_a_hole_is_filled_by_what_fits_it():
    theorem, hole = equal(root(power(p, 2)), p, p), letter("hole", fun(POSITIVE))
    assert rules.congruence(theorem, made(app(hole, ONE)), hole)
    with pytest.raises(ProofError, match="not evidently positive"):
        rules.congruence(theorem, made(app(hole, x)), hole)


def test_a_smooth_function_stays_free():
    square, chained = slope(mul(app(g, y), app(g, y)), y, x), slope(app(g, y), y, x)
    with pytest.raises(ProofError, match="stays free"):
        equal(square, mul(num(2), app(g, x), chained), g)


def test_a_smooth_letter_stands_for_what_is_smooth():
    chained = slope(app(g, y), y, x)
    kink = made(root(power(y, 2)), y)
    assert "≠ 0" in needs(rules.instance(equal(chained, chained), {g: kink}))


def test_a_delta_leaves_the_variance_of_a_draw_and_free_denominators_alone():
    variance, mask_of = (
        letter("u", fun(pos(n), kind="positive")),
        letter("b", fun(NUM, kind="mask")),
    )
    D = draw("D", app(variance, j), (pos(n),))
    here = Term("delta", i, j)
    masked = mean(mul(here, app(mask_of, app(D, k))), D)
    with pytest.raises(rules.Differ):
        equal(power(masked, 2), masked)
    flag = letter("F", fun(pos(n), kind="mask"))
    q = mul(here, inv(power(app(flag, j), 2)))
    with pytest.raises(rules.Differ):
        equal(root(add(q, y)), root(add(q, mul(y, app(flag, i)))))


def test_names_mean_one_thing():
    double, triple = (word_of("g", mul(num(q), x), x) for q in (2, 3))
    for one, other, name in (
        (app(letter("A", fun(NUM)), x), app(A, i), "A"), (x, letter("x", POSITIVE), "x"),
        (app(double, x), app(triple, x), "g"), (Term("let", "cos", NUM), ONE, "cos"),
    ):  # fmt: skip
        with pytest.raises(ProofError, match=f"two things called {name}"):
            equal(add(one, other), add(one, other))
    for name in ("#1", "x) + (y", "2", ""):
        bad = Term("let", name, NUM)
        with pytest.raises(ProofError, match="has no name"):
            equal(bad, bad)


THEOREM = equal(x, x)
FORGERIES = {
    "made by hand": (lambda: rules.Theorem(made(x), made(y)), "takes no arguments"),
    "another side": (lambda: setattr(THEOREM, "rhs", made(y)), "immutable"),
    "without conditions": (lambda: delattr(THEOREM, "conditions"), "immutable"),
    "another kind": (lambda: type("Mine", (rules.Theorem,), {}), "no other Theorem"),
    "terms that are all equal": (
        lambda: type("Mine", (Term,), {"__eq__": lambda a, b: True}), "no other Term"),
    "a term made again": (lambda: x.__init__("num", ONE), "no term is made of"),
    "two sorts": (lambda: Term("let", "x", NUM, POSITIVE), "no term is made of"),
    "a float": (lambda: Term("num", 0.5), "no term is made of"),
    "a float for a number": (lambda: num(0.5), "not an exact number"),
    "a boolean": (lambda: Term("lit", True), "no term is made of"),
    "no theorem": (lambda: rules.chain(THEOREM, object()), "no theorem"),
    "no context": (lambda: rules.congruence(THEOREM, object(), x), "of the equation's sort"),
    "no letter": (
        lambda: rules.for_every(rules.given(made(x), made(ZERO)), [object()]), "no term"),
    "no value": (lambda: rules.instance(THEOREM, {x: 1}), "no term"),
}  # fmt: skip


@pytest.mark.parametrize("forgery", FORGERIES)
def test_nothing_but_a_rule_makes_a_theorem(forgery):
    forge, words = FORGERIES[forgery]
    with pytest.raises((ProofError, AttributeError, TypeError), match=words):
        forge()


def test_a_permutation_is_one_of_positions_and_has_a_name():
    numbers, nameless = letter("r", fun(NUM, kind="perm")), Term("FUN", "perm", pos(n), pos(n))
    for wrong in (moved(x, by=numbers), moved(i, by=nameless)):
        with pytest.raises(ProofError, match="no sort of functions|moves nothing"):
            sorts.check(wrong)


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
        equal(add(one, other), add(one, other))
    frames = [entry.frame.f_locals for entry in refused.traceback]
    assert not any(isinstance(v, rules.Theorem) for local in frames[1:] for v in local.values())


# ── Its size, and what it stands on ──────────────────────────────────────────────────────────


def test_it_is_read_in_one_sitting():
    """At most a thousand lines, in the files of chapter 0; a line of each kind is counted once."""
    assert {path.stem for path in KERNEL.glob("*.py")} == {*reading.KERNEL, "__init__"}
    assert reading.lines_of_code((KERNEL / "__init__.py").read_text(encoding="utf-8")) == 0
    assert sum(lines for lines, _ in reading.kernel().values()) <= 1000
    counted = 'def f():\n    """Says."""\n\n    # why\n    return [\n        1,  # one\n    ]\n'
    assert reading.lines_of_code(counted) == 4


def test_it_imports_nothing_else_of_the_project():
    for path in KERNEL.glob("*.py"):
        nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
        froms = [(n.level, n.module or "") for n in nodes if isinstance(n, ast.ImportFrom)]
        plain = {a.name for n in nodes if isinstance(n, ast.Import) for a in n.names}
        outside = {module.split(".")[0] for level, module in froms if not level}
        assert plain <= sys.stdlib_module_names, path.name
        assert outside <= sys.stdlib_module_names | {"sympy"}, path.name
        own = [(level, (KERNEL / f"{module}.py").exists()) for level, module in froms if level]
        assert set(own) <= {(1, True)}, path.name
