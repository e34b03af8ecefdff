"""Definitions, recursions and index forms: each is one formula, and hides nothing."""

import pytest
import sympy as sp
from derivation.kernel.terms import fresh, pos
from derivation.letters import size_term
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_alarm")
x, y, x_1 = matrix("x", 1), matrix("y", 1), matrix("x", n, 1)
W, Z = Heads("W", h, d, d), Heads("Z", h, n, d)
z, wide, g, F = sequence("z"), sequence("w", d), matrix("g", 1, 1), matrix("F", d, d)
drawn = random_matrix("R", 1, 1, sigma**2)


def table(entry, rows=n, columns=n):
    return tabulate(entry, rows, columns)


def two_forms(first, second):
    """One word, called at two shapes."""
    word = define("f", lambda x: x if x.shape[1] == 1 else 2 * x)
    return word(first), word(second)


def one_that_changes():
    factor = [1]
    word = define("f", lambda x: factor[0] * x)
    identical = theorem(word(X), X, unfold(word))
    factor[0] = 2
    return Derivation("F", Y).by(word(Y), identical(X=Y).reversed()).by(2 * Y, unfold(word))


def two_shapes_that_meet(at):
    """A square and a column meet at 1 × 1; what is put for sizes asks the definition again."""
    word = define("g", lambda x: 3 * x if x.shape[1] == 1 else 2 * x)
    square, column = (
        theorem(word(A), 2 * A, unfold(word)),
        theorem(word(x_1), 3 * x_1, unfold(word)),
    )
    return square(n=1, A=y) if at == "square" else column(n=1, x=y)


def two_widths_of_a_recursion():
    step = lambda before, t, z: (2 if z.family.sizes[1] == 1 else 3) * before
    row = recursion("o", first_term, step)
    three = theorem(row(join(1, 1), wide), 3 * wide[1], unfold(row))
    return row(join(1, 1), z) and three(d=1, w=z)


def indices_leaked():
    box = []
    table(lambda i, j: box.append(i) or 1)
    return Heads("Z", n, n, d)[box[0]]


def a_draw_in_a_recursion():
    row = recursion("o", lambda W: W[head("a", 1)], lambda before, t, W: before)
    return row(1, Heads.of(random_matrix("R", 1, 1, 1).params[0]))


def summed(x, W):
    index = head("a", W.family.sizes[0])
    return over(index, x @ W[index])


def a_word_bound_by_its_argument():
    slope = define("g", lambda x: derivative(x, s))
    nothing = theorem(slope(X), zeros(n, d), unfold(slope))
    return Derivation("F", X).by(slope(s * X), unfold(slope)).by(zeros(n, d), nothing(X=s * X))


def a_sum_over_the_index_of_its_argument():
    word = define("f", summed)
    return line(over(b, Z[b] @ W[b]), word(Z[a], W), unfold(word))


def called_at_two_sizes():
    many, u = define("many", lambda c, n: (ones(n).T @ ones(n)) @ c.T), matrix("u", d)
    return line(many(u, n), many(u, m))


def an_index_that_is_named_like_a_place():
    word = define("F", lambda x: over(head("i", x.shape[0]), x))
    assert theorem(word(X), n * X, unfold(word))
    return line(word(X), J @ X, unfold(word))


doubled, tripled = define("f", lambda u: 2 * u), define("f", lambda u: 3 * u)
mean_of, first_of = define("mean", expectation), define("f", lambda x, W: x)
either = define("w", lambda c: 2 * c if hasattr(c, "shape") else c * ones(1, 1))
first_term = lambda z: z[1]
by_step = recursion("o", first_term, lambda row, t, z: row if t == 1 else 2 * row)


rows_alone = define("f", lambda x: x if x.shape[0] == 1 else 2 * x)
wide_first = recursion(
    "r", lambda z: z[1] if z[1].shape[1] == 1 else 2 * z[1], lambda row, t, z: row
)
wide_row = recursion("r", first_term, lambda row, t, z: row if row.shape[1] == 1 else 2 * row)
masked = define("f", lambda m, s: masked_softmax(m, s))


def a_size_and_one(first, then):
    """A word that branches on whether a size, or a scalar, is the number 1."""
    f = define("f", lambda t: (5 if t == 1 else 1) * ones(1, t) @ ones(t, 1))
    return f(first), f(then)


def a_recursion_on_a_size_and_one():
    r = recursion(
        "r", lambda m: (5 if m == 1 else 1) * ones(1, m) @ ones(m, 1), lambda row, t, m: row
    )
    return r(t, 1), r(1, n)


def a_scalar_and_one():
    f = define("f", lambda x, c: 2 * x @ ones(1, c) @ ones(c, 1) if x.shape == (1, 1) else c * x)
    return f(matrix("Y", 1, 1), 1), f(X, tau)


def branching(name, body, *arguments):
    return lambda: define(name, body)(*arguments)


ANOTHER = "is another here: a definition is one formula"
REFUSED = {
    # what a definition hides
    "a letter that the caller passes, too": (lambda: define("f", lambda x: A + x)(A), "do not agree"),
    "a matrix": (lambda: define("f", lambda u: u @ F)(X), "do not conform"),
    "a number of a matrix": (lambda: define("f", lambda u: u @ ones(u.shape[1]) @ g)(X), "hides g"),
    "a permutation": (lambda: define("f", lambda u: P @ u)(X), "do not conform"),
    "a scalar": (lambda: define("f", lambda u: tau * u)(X), "hides tau"),
    "a size": (lambda: define("f", lambda x: n * x)(X), "hides n"),
    "a scalar beside a draw": (lambda: define("f", lambda x, W: sigma * x)(X, Z), "hides sigma"),
    "a scalar of a recursion": (
        lambda: recursion("o", lambda z, c_: c * ones(1), lambda row, t, z, c_: row)(1, z, c),
        "hides c"),
    "a draw": (lambda: define("f", lambda x, W: sigma * x)(X, Heads.of(drawn.params[0])), "is a draw"),
    "a draw of a recursion": (a_draw_in_a_recursion, "is a draw"),
    "a mean": (lambda: define("Var", lambda x: expectation(x * x))(R), "takes a mean"),
    "a mean in a hypothesis": (
        lambda: line(mean_of(x), mean_of(y), given(x, y)), "takes a mean"),
    "a mean in an index form": (
        lambda: table(lambda i, j: entry_of(mean_of(w.T), i, j), 1), "takes a mean"),
    # what it branches on
    "a shape": (lambda: two_forms(X, v), ANOTHER),
    "a shape, in the other order": (lambda: two_forms(v, X), ANOTHER),
    "what changes": (one_that_changes, ANOTHER),
    "a size that meets another, square": (lambda: two_shapes_that_meet("square"), ANOTHER),
    "a size that meets another, column": (lambda: two_shapes_that_meet("column"), ANOTHER),
    "a size that may be 1": (lambda: a_size_and_one(1, n), ANOTHER),
    "a size that may be 1, in the other order": (lambda: a_size_and_one(n, 1), ANOTHER),
    "a size of a recursion that may be 1": (a_recursion_on_a_size_and_one, ANOTHER),
    "a scalar that may be 1": (a_scalar_and_one, ANOTHER),
    "the width of a sequence": (two_widths_of_a_recursion, ANOTHER),
    "a row and a column, which meet in a number": (
        lambda: (rows_alone(matrix("r", 1, n)), rows_alone(x_1)), ANOTHER),
    "the width of what a recursion begins with": (
        lambda: (wide_first(1, z), wide_first(1, wide)), ANOTHER),
    "the width of a recursion's row": (lambda: (wide_row(1, z), wide_row(1, wide)), ANOTHER),
    "an argument": (branching("f", lambda x, use: 2 * x if use else x, X, 0), "cannot branch"),
    "a number of rows": (
        branching("f", lambda x: x if x.shape[0] == 2 else 2 * x, matrix("Y", 2, 2)), "cannot branch"),
    "the kind of a scalar": (
        branching("f", lambda x, c: 2 * x if c.is_Symbol else 3 * x, X, s + 1), "cannot branch"),
    "the sign of a scalar": (
        branching("f", lambda x, c: x if c.is_positive else -x, X, sigma), "cannot branch"),
    "which scalar it is": (
        branching("f", lambda x, c: x if c == sigma else 2 * x, X, sigma), "cannot branch"),
    "a recursion, on its scalar": (
        lambda: recursion("r", lambda b: b * ones(1) if b else ones(1), lambda row, t, b: row)(t, 0),
        "cannot branch"),
    "a step, on its scalar": (
        lambda: recursion("r", lambda b: ones(1), lambda row, t, b: row if b != 1 else 2 * row)(t, 1),
        "cannot branch"),
    "a step, on its number": (
        lambda: by_step(n, z), "cannot branch"),
    "a size that is 1": (
        lambda: define("f", lambda X: X if X.shape[0] == 1 else 2 * X)(A), "cannot branch"),
    "two sizes": (
        lambda: define("f", lambda X, Y: X if X.shape[0] == Y.shape[1] else 2 * X)(S, A),
        "cannot branch"),
    "a scalar that is 2": (
        lambda: define("f", lambda X, c: X if c == 2 else 3 * X)(S, s), "cannot branch"),
    "a size that is compared": (
        lambda: define("f", lambda X: X if X.shape[0] > 3 else 2 * X)(A), "is one formula"),
    "a number or a matrix": (lambda: (either(ones(1, 1)), either(1)), "define two words"),
    "two positions": (lambda: table(lambda i, j: 1 if i == j else 0), "cannot branch"),
    "an entry": (lambda: table(lambda i, j: 1 if entry_of(A, i, j) else 0), "cannot branch"),
    # what it binds, and what it is called
    "its own scalar": (
        lambda: define("D", lambda f, a: derivative(f, a))(softmax(S + s * S), s), "own parameter"),
    "its own index": (lambda: define("tot", lambda f, i: over(i, f))(Z[a], a), "own parameter"),
    "a scalar that its argument brings": (a_word_bound_by_its_argument, ANOTHER),
    "an index that its argument brings": (a_sum_over_the_index_of_its_argument, ANOTHER),
    "an index named like a place": (an_index_that_is_named_like_a_place, "not justified"),
    "another name": (lambda: setattr(masked, "name", "softmax"), "keeps its name"),
    "one name for two words": (lambda: line(doubled(A), tripled(A)), "two definitions"),
    "one name in a hypothesis": (
        lambda: line(doubled(v), tripled(v), given(doubled(v), tripled(v))), "two definitions"),
    "a size that no matrix tells": (called_at_two_sizes, "many(u; n)[j] = "),
    "weights for a mask, read again": (
        lambda: masked(mask("M", n, n), A) + masked(A, B), "takes a mask first"),
    "a number for its value": (lambda: define("f", lambda x: 3)(X), "makes 3, not an expression"),
    "an expression for its heads": (
        lambda: theorem(first_of(X, A.params[0]) + X, X + first_of(X, A.params[0]))(A=B),
        "as a family of matrices"),
    # index forms
    "a leaked index": (indices_leaked, "takes indices made by head"),
    "a free index": (
        lambda: table(lambda i, j: entry_of(W[a], i, j), d, d) + table(lambda i, j: a, d, d),
        "may use the two indices it is given"),
    "an index of another range": (lambda: table(lambda i, j: entry_of(A, j, i), n, d), "another range"),
    "a float": (lambda: table(lambda i, j: 0.1 * entry_of(A, i, j)), "is a float"),
    "an imaginary unit": (lambda: table(lambda i, j: sp.I), "I is not a scalar"),
    "an absolute value": (lambda: table(lambda i, j: sp.Abs(s)), "Abs(s) is not a scalar"),
    "a position for an exponent": (lambda: table(lambda i, j: c ** (i - j)), "for exponents"),
}  # fmt: skip


@pytest.mark.parametrize("attack", REFUSED)
def test_it_is_refused(attack):
    refuse(*REFUSED[attack])


def test_what_is_one_formula_is_one_word_at_all_shapes():
    twice, same = (
        define("twice", lambda x: 2 * x),
        recursion("p", first_term, lambda r, t, z: 2 * r),
    )
    column = theorem(twice(x_1), 2 * x_1, unfold(twice))
    assert twice(A) and column(n=1, x=y).lhs == twice(y) and twice(matrix("r", 1, n))
    assert theorem(same(join(1, 1), wide), 2 * wide[1], unfold(same))(d=1, w=z)
    row = recursion("r", first_term, lambda row, t, z: row + z[1])
    assert row(1, z).shape == (1, 1) and row(1, wide).shape == (1, d)
    scaled = define("f", lambda x, c: c * x)
    assert theorem(scaled(X, n + 1), (n + 1) * X, unfold(scaled)), "no size, and a scalar"


def test_a_definition_may_be_an_index_form():
    twice = define("f", lambda x: tabulate(lambda i, j: 2 * entry_of(x, i, j), *x.shape))
    assert twice(X) == twice(X) and theorem(twice(X), 2 * X, unfold(twice))


def test_a_word_of_heads_and_of_masks():
    word = define("f", lambda x, W: W.family.sizes[0] * x)
    of_two, of_three = word(X, Heads("W", h, n, d)), word(X, Heads("V", h, n, d, k))
    assert of_two.operation is not of_three.operation
    assert of_two.operation.word is of_three.operation.word
    M, N = mask("M", n, n), mask("N", n, n)
    assert masked(M, A).operation is masked(N, B).operation
    assert theorem(masked(M, A), masked_softmax(M, A), unfold(masked))


def test_a_word_takes_the_functions_that_it_names_in_order_of_their_names():
    names = ["f_5", "f_2", "f_8", "f_1", "f_7", "f_4", "f_6", "f_3"]
    word = define("w", lambda x: sum((entrywise(f)(x) for f in names[1:]), entrywise(names[0])(x)))
    term = word(X).entry(*map(fresh, (pos(size_term(n)), pos(size_term(d)))))
    taken = [next(iter(x.letters)).args[0] for x in term.args[1:9]]
    assert taken == sorted(names)
