"""Definitions, recursions and index forms must be single formulas that hide no letter."""

import dataclasses

import pytest
import sympy as sp
from derivation.kernel.terms import fresh, pos
from derivation.language.letters import size_term
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_torch")
x, y, x_1 = matrix("x", 1), matrix("y", 1), matrix("x", n, 1)
W, Z = Heads("W", h, d, d), Heads("Z", h, n, d)
z, wide, row_of_n = sequence("z"), sequence("w", d), matrix("r", 1, n)
F, g, square, b_of_d = matrix("F", d, d), matrix("g", 1, 1), matrix("Y", 2, 2), matrix("u", d)
drawn = Heads.of(random_matrix("R", 1, 1, sigma**2).params[0])


def called(body, *arguments):
    """A function that defines a word with this body and calls it once."""
    return lambda: define("f", body)(*arguments)


def called_twice(body, *calls):
    word = define("f", body)
    return lambda: [word(*arguments) for arguments in calls]


def begun(first, step=lambda row, t, *data: row, at=t, data=()):
    """A function that defines a recursion and calls it for row ``at``."""
    return lambda: recursion("r", first, step)(at, *data)


def begun_twice(first, step, *data):
    row = recursion("r", first, step)
    return lambda: [row(1, z) for z in data]


def one_that_changes():
    factor = [1]
    word = define("f", lambda x: factor[0] * x)
    identical = theorem(word(X), X, unfold(word))
    factor[0] = 2
    return Derivation("F", Y).by(word(Y), identical(X=Y).reversed()).by(2 * Y, unfold(word))


def two_shapes_that_meet(column):
    """At n = 1 a square is also a column, so replacing n must check the definition again."""
    word = define("g", lambda x: 3 * x if x.shape[1] == 1 else 2 * x)
    of_a_square = theorem(word(A), 2 * A, unfold(word))
    of_a_column = theorem(word(x_1), 3 * x_1, unfold(word))
    return of_a_column(n=1, x=y) if column else of_a_square(n=1, A=y)


def a_leaked_index():
    box = []
    table(lambda i, j: box.append(i) or 1)
    return Heads("Z", n, n, d)[box[0]]


def a_word_bound_by_its_argument():
    slope = define("g", lambda x: derivative(x, s))
    nothing = theorem(slope(X), zeros(n, d), unfold(slope))
    return Derivation("F", X).by(slope(s * X), unfold(slope)).by(zeros(n, d), nothing(X=s * X))


def a_sum_over_the_index_of_its_argument():
    def summed(x, W):
        index = head("a", W.shape[0])
        return over(index, x @ W[index])

    word = define("f", summed)
    return line(over(b, Z[b] @ W[b]), word(Z[a], W), unfold(word))


def called_at_two_sizes():
    many = define("many", lambda c, n: (ones(n).T @ ones(n)) @ c.T)
    return line(many(b_of_d, n), many(b_of_d, m))


def an_index_that_is_named_like_a_place():
    word = define("F", lambda x: over(head("i", x.shape[0]), x))
    assert theorem(word(X), n * X, unfold(word))
    return line(word(X), J @ X, unfold(word))


def without_uses(entry, kept=()):
    """The entry without its record of letters, which printed text would therefore lack."""
    return dataclasses.replace(entry, uses=frozenset(kept))


def two_kinds_of_a_word():
    """An index form of w(A) = 2 A without its record of w, a word that is used at two shapes."""
    double = define("w", lambda X: 2 * X)
    double(x)
    letters = lambda e: [b for b in e.uses if not isinstance(b, operations.Operation)]
    forgets = lambda e: without_uses(e, letters(e))
    return table(lambda i, j: forgets(entry_of(double(A), i, j)))


def caught(body):
    """A body that returns twice its first argument whenever the checker refuses ``body``."""

    def read(first, *others):
        try:
            return body(first, *others[:1])
        except ProofError:
            return 2 * first

    return read


first_term = lambda z: z[1]
doubled, tripled = define("f", lambda u: 2 * u), define("f", lambda u: 3 * u)
first_of, masked = define("f", lambda x, W: x), define("f", lambda m, s: masked_softmax(m, s))
by_shape = lambda x: x if x.shape[1] == 1 else 2 * x
by_size = lambda t: (5 if t == 1 else 1) * ones(1, t) @ ones(t, 1)
by_scalar = lambda x, c: 2 * x @ ones(1, c) @ ones(c, 1) if x.shape == (1, 1) else c * x

test_it_is_refused = refused({
    # letters that a definition hides
    "hides A": {"a letter that the caller passes, too": called(lambda x: A + x, A)},
    "hides F": {"a matrix": called(lambda u: u @ F, X)},
    "hides g": {"a number of a matrix": called(lambda u: u @ ones(u.shape[1]) @ g, X)},
    "hides tau": {"a scalar": called(lambda u: tau * u, X)},
    "hides n": {"a size": called(lambda x: n * x, X)},
    "hides c": {"a scalar of a recursion": begun(lambda z, _: c * ones(1), data=(z, c))},
    "is a draw": {"a draw": called(lambda x, W: sigma * x, X, drawn)},
    "takes a mean": {"a mean": called(lambda x: expectation(x * x), R)},
    # definitions that branch
    "cannot branch": {
        "a shape": called_twice(by_shape, [X], [v]),
        "a shape, in the other order": called_twice(by_shape, [v], [X]),
        "a size that may be 1": called_twice(by_size, [1], [n]),
        "a size that may be 1, in the other order": called_twice(by_size, [n], [1]),
        "a scalar that may be 1": called_twice(by_scalar, [g, 1], [X, tau]),
        "a size that meets another, square": lambda: two_shapes_that_meet(column=False),
        "a size that meets another, column": lambda: two_shapes_that_meet(column=True),
        "the width of what a recursion begins with": begun_twice(
            lambda z: by_shape(z[1]), lambda row, t, z: row, z, wide),
        "the width of a recursion's row": begun_twice(
            first_term, lambda row, t, z: by_shape(row), z, wide),
        "an argument": called(lambda x, use: 2 * x if use else x, X, 0),
        "a size that is five": called(lambda X: X if X.shape[0] != 5 else 2 * X, X),
        "a size that is large": called(lambda X: X if X.shape[0] > 3 else 2 * X, A),
        "a number of rows": called(lambda x: x if x.shape[0] == 2 else 2 * x, square),
        "a number of heads": called(lambda x, W: x if W.shape[0] == 2 else 2 * x, X, W),
        "two sizes": called(lambda x: x if x.shape[0] == x.shape[1] else 2 * x, X),
        "half": called(lambda x, c: x if c != sp.S.Half else 2 * x, X, s),
        "what is made of a scalar": called(lambda x, c: x if 2 * c + 1 == 3 else 2 * x, X, s),
        "a power of a size": called(lambda x: x if x.shape[0] ** 2 == 4 else 2 * x, X),
        "which scalar it is": called(lambda x, c: x if c == sigma else 2 * x, X, sigma),
        "a scalar in a table of Python's": called(lambda x, c: {2: x}.get(c, 2 * x), X, s),
        "a size among others": called(lambda x: x if x.shape[0] in (1, 2) else 2 * x, X),
        "which expressions it takes": called(lambda x, y: x if x == y else x + y, X, X),
        "what is made of expressions": called(
            lambda x, y: x if softmax(x) == softmax(y) else x + y, X, X),
        "which heads": called(lambda x, V, W: x if V == W else 2 * x, X, W, W),
        "which index": called(lambda x, i, j: x if i == j else 2 * x, X, a, a),
        "a size that is joined": called(
            lambda x: x if join(x.shape[0], 1) == join(x.shape[1], 1) else 2 * x, X),
        "SymPy, which could compare": called(lambda x, c: x if sp.sqrt(c) != 2 else 2 * x, X, s),
        "a step, on its number": begun(
            first_term, lambda row, t, z: row if t == 1 else 2 * row, n, (z,)),
        "a step, on a late number": begun(
            first_term, lambda row, t, z: row if t != 4 else 2 * row, n, (z,)),
        "two positions": lambda: table(lambda i, j: 1 if i == j else 0),
        "an entry": lambda: table(lambda i, j: 1 if entry_of(A, i, j) else 0),
    },
    "must be one formula": {
        "a step, on whether its number is even": begun(
            first_term, lambda row, t, z: row + z[1] if t % 2 == 0 else row, n, (z,)),
        "a size that is even": called(lambda x: x if x.shape[0].is_even else 2 * x, A),
        "a body that fails": called(lambda x: {}[x], A),
        "the kind of a scalar": called(lambda x, c: 2 * x if c.is_Symbol else 3 * x, X, s + 1),
        "the sign of a scalar": called(lambda x, c: x if c.is_positive else -x, X, sigma),
        "a whole number": called(lambda x: int(x.shape[0]) * x, X),
        "steps of Python's": called(lambda x: sum((x for _ in range(x.shape[0])), x), X),
    },
    "neither true nor false": {
        "an expression for a truth": called(lambda x: x if x else 2 * x, X)},
    "cannot look at its arguments or change": {
        "what changes": one_that_changes,
        "a refusal that it catches": called(caught(lambda a, b: a + b), A, B),
        "a shape that does not fit, caught": called(caught(lambda a, b: a @ b), A, A),
        "an argument that it knows": called(lambda a: a if a is A else 2 * a, A),
        "how its argument prints": called(lambda a: 2 * a if "ʼ" in repr(a) else a, A),
        "the parts of its argument": called(lambda a: a if a.args else 2 * a, A @ B),
    },
    "catches the refusal to branch": {
        "a comparison that it catches": called(
            caught(lambda a, c: a if c == 2 else 3 * a), A, 2),
        "two arguments that it compares, and catches": called(
            caught(lambda a, b: a if a == b else 3 * a), A, A),
        "a step that it catches": begun(
            first_term, caught(lambda row, t: row if t == 2 else 3 * row), 2, (z,)),
    },
    "binds s, which its argument contains": {
        "a scalar that its argument brings": a_word_bound_by_its_argument},
    "binds a, which its argument contains": {
        "an index that its argument brings": a_sum_over_the_index_of_its_argument},
    "define two words": {
        "a position or a number": called_twice(
            lambda x, at: 2 * x if hasattr(at, "size") else x, [A, head("a", 1)], [A, 1]),
        "a number or a matrix": called_twice(
            lambda c: 2 * c if hasattr(c, "shape") else c * ones(1, 1), [ones(1, 1)], [1]),
        "heads of one index, and of two": called_twice(
            lambda x, W: W.shape[0] * x, [X, W], [X, Heads("V", h, n, d, k)])},
    # names that a definition binds, and the name of the definition
    "own parameter": {
        "its own scalar": called(lambda f, a: derivative(f, a), softmax(S + s * S), s),
        "its own index": called(lambda f, i: over(i, f), Z[a], a),
    },
    "not justified": {"an index named like a place": an_index_that_is_named_like_a_place},
    "many(u; size n)[j] = ": {"a size that no matrix tells": called_at_two_sizes},
    "keeps its name": {"another name": lambda: setattr(masked, "name", "softmax")},
    "two definitions": {
        "one name for two words": lambda: line(doubled(A), tripled(A)),
        "one name in a hypothesis": lambda: line(
            doubled(v), tripled(v), given(doubled(v), tripled(v))),
    },
    "takes a mask first": {
        "weights for a mask, read again": lambda: masked(mask("M", n, n), A) + masked(A, B)},
    "makes 3, not an expression": {"a number for its value": called(lambda x: 3, X)},
    "as a family of matrices": {
        "an expression for its heads": lambda: theorem(
            first_of(X, A.params[0]) + X, X + first_of(X, A.params[0]))(A=B)},
    # index forms
    "forgets what": {
        "a mask": lambda: table(lambda i, j: without_uses(entry_of(M, i, j)), m, n),
        "a size": lambda: table(lambda i, j: without_uses(entry_of(n * ones(1))), 1, 1),
        "a word": two_kinds_of_a_word},
    "takes indices made by head": {"a leaked index": a_leaked_index},
    "may use only its own two indices": {
        "a free index": lambda: table(lambda i, j: entry_of(W[a], i, j), d, d)
        + table(lambda i, j: a, d, d)},
    "these positions run to": {
        "an index of another range": lambda: table(lambda i, j: entry_of(A, j, i), n, d)},
    "is a float": {"a float": lambda: table(lambda i, j: 0.1 * entry_of(A, i, j))},
    "is not a scalar": {"an imaginary unit": lambda: table(lambda i, j: sp.I)},
    "an exponent in an index form": {"a position for an exponent": lambda: table(lambda i, j: c ** (i - j))},
})  # fmt: skip


def test_a_single_formula_is_one_word_at_all_shapes():
    twice = define("twice", lambda x: 2 * x)
    same = recursion("p", first_term, lambda row, t, z: 2 * row)
    column = theorem(twice(x_1), 2 * x_1, unfold(twice))
    assert column(n=1, x=y).lhs == twice(y)
    assert theorem(twice(A) + twice(A), 4 * A, unfold(twice))
    assert theorem(twice(row_of_n), 2 * row_of_n, unfold(twice))
    assert theorem(same(join(1, 1), wide), 2 * wide[1], unfold(same))(d=1, w=z)
    assert same(1, z).axes == (1, 1) and same(1, wide).axes == (1, d)
    scaled = define("f", lambda x, c: c * x)
    assert theorem(scaled(X, n + 1), (n + 1) * X, unfold(scaled)), "no size, and a scalar"


def test_a_definition_may_be_an_index_form():
    twice = define("f", lambda x: tabulate(lambda i, j: 2 * entry_of(x, i, j), *x.shape))
    assert twice(X) == twice(X) and theorem(twice(X), 2 * X, unfold(twice))


def test_a_word_may_take_heads_and_masks():
    word = define("f", lambda x, W: W.shape[0] * x)
    assert word(X, Heads("W", h, n, d)).operation is word(A, Heads("V", k, d, n)).operation
    M, N = mask("M", n, n), mask("N", n, n)
    assert masked(M, A).operation is masked(N, B).operation
    assert theorem(masked(M, A), masked_softmax(M, A), unfold(masked))


def test_a_word_takes_named_functions_in_the_order_of_their_names():
    names = ["f_5", "f_2", "f_8", "f_1", "f_7", "f_4", "f_6", "f_3"]
    word = define("w", lambda x: sum((entrywise(f)(x) for f in names[1:]), entrywise(names[0])(x)))
    term = word(X).entry(*map(fresh, (pos(size_term(n)), pos(size_term(d)))))
    taken = [next(iter(x.letters)).args[0] for x in term.args[1:9]]
    assert taken == sorted(names)
