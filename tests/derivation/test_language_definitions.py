"""Definitions, recursions and index forms must be single formulas that hide no letter."""

import dataclasses

import pytest
import sympy as sp
from derivation.kernel.terms import fresh, pos
from derivation.language import operations
from derivation.language.letters import size_term
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_torch")
x, y, x_1 = matrix("x", 1), matrix("y", 1), matrix("x", n, 1)
W, Z = Heads("W", h, d, d), Heads("Z", h, n, d)
z, wide, row_of_n, b_of_d = sequence("z"), sequence("w", d), matrix("r", 1, n), matrix("u", d)
drawn = Heads.of(random_matrix("R", 1, 1, sigma**2).params[0])


def called(body, *arguments):
    """A function that defines a word with this body and calls it once."""
    return lambda: define("f", body)(*arguments)


def called_twice(body, *calls):
    word = define("f", body)
    return lambda: [word(*arguments) for arguments in calls]


def begun(first, step, *data, at=t):
    """A function that defines a recursion and calls it for row ``at``."""
    return lambda: recursion("r", first, step)(at, *data)


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


def a_word_bound_by_its_argument():
    slope = define("g", lambda x: derivative(x, s))
    nothing = theorem(slope(X), zeros(n, d), unfold(slope))
    return Derivation("F", X).by(slope(s * X), unfold(slope)).by(zeros(n, d), nothing(X=s * X))


def a_sum_over_the_index_of_its_argument():
    word = define("f", lambda x, W: over(head("a", W.shape[0]), x @ W[head("a", W.shape[0])]))
    return line(over(b, Z[b] @ W[b]), word(Z[a], W), unfold(word))


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
many = define("many", lambda c, n: (ones(n).T @ ones(n)) @ c.T)

test_it_is_refused = refused({
    # letters that a definition hides
    "hides A": called(lambda x: A + x, A),  # the caller passes this letter, too
    "hides n": called(lambda x: n * x, X),
    "hides c": begun(lambda z, _: c * ones(1), lambda row, t, *data: row, z, c),
    "is a draw": called(lambda x, W: sigma * x, X, drawn),
    "takes a mean": called(lambda x: expectation(x * x), R),
    # definitions that branch
    "cannot branch": {
        "on a shape": called_twice(by_shape, [X], [v]),
        "on a size that may be 1": called_twice(by_size, [1], [n]),
        "on the width of a row": begun(first_term, lambda row, t, z: by_shape(row), z),
        "on an argument": called(lambda x, use: 2 * x if use else x, X, 0),
        "on a size that is large": called(lambda X: X if X.shape[0] > 3 else 2 * X, A),
        "on a scalar, by a dict": called(lambda x, c: {2: x}.get(c, 2 * x), X, s),
        "on an expression": called(lambda x, y: x if x == y else x + y, X, X),
        "on heads": called(lambda x, V, W: x if V == W else 2 * x, X, W, W),
        "on an index": called(lambda x, i, j: x if i == j else 2 * x, X, a, a),
        "on a size that is joined": called(
            lambda x: x if join(x.shape[0], 1) == join(x.shape[1], 1) else 2 * x, X),
        "by SymPy": called(lambda x, c: x if sp.sqrt(c) != 2 else 2 * x, X, s),
        "on a late number of a step": begun(
            first_term, lambda row, t, z: row if t != 4 else 2 * row, z, at=n),
        "on two positions": lambda: table(lambda i, j: 1 if i == j else 0),
        "on an entry": lambda: table(lambda i, j: 1 if entry_of(A, i, j) else 0),
    },
    "must be one formula": {
        "a step by its parity": begun(
            first_term, lambda row, t, z: row + z[1] if t % 2 == 0 else row, z, at=n),
        "the sign of a scalar": called(lambda x, c: x if c.is_positive else -x, X, sigma),
        "a whole number": called(lambda x: int(x.shape[0]) * x, X),
    },
    "neither true nor false": called(lambda x: x if x else 2 * x, X),
    "cannot look at its arguments or change": {
        "what changes": one_that_changes,
        "a refusal that it catches": called(caught(lambda a, b: a + b), A, B),
        "how its argument prints": called(lambda a: 2 * a if "ʼ" in repr(a) else a, A),
    },
    "catches the refusal to branch": {
        "a comparison": called(caught(lambda a, c: a if c == 2 else 3 * a), A, 2),
        "two arguments": called(caught(lambda a, b: a if a == b else 3 * a), A, A),
        "a step": begun(first_term, caught(lambda row, t: row if t == 2 else 3 * row), z, at=2),
    },
    "binds s, which its argument contains": a_word_bound_by_its_argument,
    "binds a, which its argument contains": a_sum_over_the_index_of_its_argument,
    "define two words": {
        "a position or a number": called_twice(
            lambda x, at: 2 * x if hasattr(at, "size") else x, [A, head("a", 1)], [A, 1]),
        "heads of one index, and of two": called_twice(
            lambda x, W: W.shape[0] * x, [X, W], [X, Heads("V", h, n, d, k)])},
    "own parameter": called(lambda f, a: derivative(f, a), softmax(S + s * S), s),
    "not justified": an_index_that_is_named_like_a_place,
    "many(u; size n)[j] = ": lambda: line(many(b_of_d, n), many(b_of_d, m)),
    "keeps its name": lambda: setattr(masked, "name", "softmax"),
    "two definitions": lambda: line(doubled(v), tripled(v), given(doubled(v), tripled(v))),
    "takes a mask first": lambda: masked(mask("M", n, n), A) + masked(A, B),
    "makes 3, not an expression": called(lambda x: 3, X),
    "as a family of matrices": lambda: theorem(
        first_of(X, A.params[0]) + X, X + first_of(X, A.params[0]))(A=B),
    # index forms
    "forgets what": {
        "a mask": lambda: table(lambda i, j: without_uses(entry_of(M, i, j)), m, n),
        "a size": lambda: table(lambda i, j: without_uses(entry_of(n * ones(1))), 1, 1),
        "a word": two_kinds_of_a_word},
    "takes indices made by head": a_leaked_index,
    "may use only its own two indices": lambda: table(lambda i, j: entry_of(W[a], i, j), d, d)
    + table(lambda i, j: a, d, d),
    "these positions run to": lambda: table(lambda i, j: entry_of(A, j, i), n, d),
    "is a float": lambda: table(lambda i, j: 0.1 * entry_of(A, i, j)),
    "an exponent in an index form": lambda: table(lambda i, j: c ** (i - j)),
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
