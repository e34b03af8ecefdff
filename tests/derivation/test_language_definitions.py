"""Definitions, recursions and index forms must be single formulas that hide no letter."""

import dataclasses

import pytest
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_torch")
x, y, x_1 = matrix("x", 1), matrix("y", 1), matrix("x", n, 1)
W, Z = Heads("W", h, d, d), Heads("Z", h, n, d)
z, wide, row_of_n = sequence("z"), sequence("w", d), matrix("r", 1, n)
drawn = Heads.of(random_matrix("R", 1, 1, sigma**2).params[0])


def called(body, *arguments):
    """A function that defines a word with this body and calls it once."""
    return lambda: define("f", body)(*arguments)


def called_twice(body, *calls):
    word = define("f", body)
    return lambda: [word(*arguments) for arguments in calls]


def one_that_changes():
    factor = [1]
    word = define("f", lambda x: factor[0] * x)
    identical = theorem(word(X), X, unfold(word))
    factor[0] = 2
    return Derivation("F", Y).by(word(Y), identical(X=Y).reversed()).by(2 * Y, unfold(word))


def a_leaked_index():
    box = []
    table(lambda i, j: box.append(i) or 1)
    return Heads("Z", n, n, d)[box[0]]


def a_sum_over_the_index_of_its_argument():
    word = define("f", lambda x, W: over(head("a", W.shape[0]), x @ W[head("a", W.shape[0])]))
    return line(over(b, Z[b] @ W[b]), word(Z[a], W), unfold(word))


def caught(body):
    """A body that returns twice its first argument whenever the checker refuses ``body``."""

    def read(first, *others):
        try:
            return body(first, *others[:1])
        except ProofError:
            return 2 * first

    return read


first_term = lambda z: z[1]
slope = define("g", lambda x: derivative(x, s))
sum_over_i = define("F", lambda x: over(head("i", x.shape[0]), x))
no_slope = theorem(slope(X), zeros(n, d), unfold(slope))
#: The entry without its record of letters, which printed text would therefore lack.
without_uses = lambda entry: dataclasses.replace(entry, uses=frozenset())
doubled, tripled = define("f", lambda u: 2 * u), define("f", lambda u: 3 * u)
first_of, masked = define("f", lambda x, W: x), define("f", lambda m, s: masked_softmax(m, s))
by_shape = lambda x: x if x.shape[1] == 1 else 2 * x

test_a_faulty_use_is_refused = refused({
    # letters that a definition hides
    "hides A": called(lambda x: A + x, A),  # the caller passes this letter, too
    "hides n": called(lambda x: n * x, X),
    "hides c": lambda: recursion(
        "r", lambda z, _: c * ones(1), lambda row, t, *data: row)(t, z, c),
    "is a draw": called(lambda x, W: sigma * x, X, drawn),
    "takes a mean": called(lambda x: expectation(x * x), R),
    # definitions that branch
    "cannot branch": {
        "on a shape": called_twice(by_shape, [X], [v]),
        "on an argument": called(lambda x, use: 2 * x if use else x, X, 0),
        "on a size that is large": called(lambda X: X if X.shape[0] > 3 else 2 * X, A),
        "on an expression": called(lambda x, y: x if x == y else x + y, X, X),
        "on heads": called(lambda x, V, W: x if V == W else 2 * x, X, W, W),
        "on an index": called(lambda x, i, j: x if i == j else 2 * x, X, a, a),
        "on two positions": lambda: table(lambda i, j: 1 if i == j else 0),
        "on an entry": lambda: table(lambda i, j: 1 if entry_of(A, i, j) else 0),
    },
    "must be one formula": {
        "the sign of a scalar": called(lambda x, c: x if c.is_positive else -x, X, sigma),
        "a whole number": called(lambda x: int(x.shape[0]) * x, X),
    },
    "neither true nor false": called(lambda x: x if x else 2 * x, X),
    "cannot look at its arguments or change": {
        "what changes": one_that_changes,
        "a refusal that it catches": called(caught(lambda a, b: a + b), A, B),
    },
    "catches the refusal to branch": called(caught(lambda a, c: a if c == 2 else 3 * a), A, 2),
    "binds s, which its argument contains": lambda: line(
        X, slope(s * X), unfold(slope)).by(zeros(n, d), no_slope(X=s * X)),
    "binds a, which its argument contains": a_sum_over_the_index_of_its_argument,
    "define two words": called_twice(
        lambda x, W: W.shape[0] * x, [X, W], [X, Heads("V", h, n, d, k)]),
    "own parameter": called(lambda f, a: derivative(f, a), softmax(S + s * S), s),
    "not justified": lambda: line(sum_over_i(X), J @ X, unfold(sum_over_i)),
    "two definitions": lambda: line(doubled(v), tripled(v), given(doubled(v), tripled(v))),
    "takes a mask first": lambda: masked(mask("M", n, n), A) + masked(A, B),
    "as a family of matrices": lambda: theorem(
        first_of(X, A.params[0]) + X, X + first_of(X, A.params[0]))(A=B),
    # index forms
    "forgets what": {
        "a mask": lambda: table(lambda i, j: without_uses(entry_of(M, i, j)), m, n),
        "a size": lambda: table(lambda i, j: without_uses(entry_of(n * ones(1))), 1, 1)},
    "takes indices made by head": a_leaked_index,
    "may use only its own two indices": lambda: table(lambda i, j: entry_of(W[a], i, j), d, d)
    + table(lambda i, j: a, d, d),
    "these positions run to": lambda: table(lambda i, j: entry_of(A, j, i), n, d),
    "an exponent in an index form": lambda: table(lambda i, j: c ** (i - j)),
})  # fmt: skip


def test_a_formula_defines_one_word_for_arguments_of_all_shapes():
    twice = define("twice", lambda x: 2 * x)
    same = recursion("p", first_term, lambda row, t, z: 2 * row)
    column = theorem(twice(x_1), 2 * x_1, unfold(twice))
    assert column(n=1, x=y).lhs == twice(y)
    assert theorem(twice(A) + twice(A), 4 * A, unfold(twice))
    assert theorem(twice(row_of_n), 2 * row_of_n, unfold(twice))
    assert theorem(sum_over_i(X), n * X, unfold(sum_over_i)), "its index is named like a place"
    assert theorem(same(join(1, 1), wide), 2 * wide[1], unfold(same))(d=1, w=z)
    assert same(1, z).axes == (1, 1) and same(1, wide).axes == (1, d)
    scaled = define("f", lambda x, c: c * x)
    assert theorem(scaled(X, n + 1), (n + 1) * X, unfold(scaled)), "no size, and a scalar"


def test_a_word_may_take_heads_and_masks():
    word = define("f", lambda x, W: W.shape[0] * x)
    assert word(X, Heads("W", h, n, d)).operation is word(A, Heads("V", k, d, n)).operation
    M, N = mask("M", n, n), mask("N", n, n)
    assert masked(M, A).operation is masked(N, B).operation
    assert theorem(masked(M, A), masked_softmax(M, A), unfold(masked))
