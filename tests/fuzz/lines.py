"""Random lines before = claim with reasons: true ones, near misses, arbitrary pairs.

A true line is one of the schemas below on random expressions, inside a random context, with a
few rewrites on top.  A near miss is a true line with one place changed.  Every line has a seed
of its own, from which it is made again.
"""

import random
from dataclasses import dataclass, replace

import sympy as sp
from derivation import *  # noqa: F403  the public vocabulary is under test
from derivation import matrices as ops
from derivation import vocabulary
from derivation.letters import number
from derivation.printing import Text
from derivation.reasons import Given, _title
from derivation.theorems import Instance

from . import values

n, m, d, h, t = sizes("n m d h t")
BOTH = join(n, m)
NEXT = join(t, 1)
tau, eps = scalars("τ ε", positive=True)
sigma = scalars("σ", positive=True)
c_1, c_2, s = scalars("c q s")
PHI, PSI = entrywise("φ"), entrywise("ψ")
EVERY_LAW = (REINDEX, EXP_OF_SUM, SPLIT, ANGLE_ADDITION, SECOND_MOMENTS, COUNT)
KINDS = ("true", "near miss", "arbitrary")
NAMES = {
    n: "n",
    m: "m",
    d: "d",
    h: "h",
    t: "t",
    BOTH: "b",
    NEXT: "u",
    sp.S(1): "1",
    sp.S(2): "2",
    sp.S(3): "3",
}


@dataclass(frozen=True)
class Line:
    """A line to be checked; ``about`` names its schema and what was changed in it.

    ``repairs`` make a world fulfil the equations that the line assumes.
    """

    seed: str
    kind: str
    before: object
    claim: object
    reasons: tuple = ()
    repairs: tuple = ()
    about: str = ""

    def show(self):
        """The line and how to make it again, in plain text."""
        reasons = ", ".join(map(_title, self.reasons)) or "algebra"
        return (
            f"  seed {self.seed} ({self.kind}: {self.about})\n    before   {self.before.show(Text())}\n"
            f"    claim    {self.claim.show(Text())}\n    reasons  {reasons}"
        )


class NoLine(Exception):
    """A choice that fits nowhere: choose again."""


# ── Words of the reader, with their values ────────────────────────────────────────────────

centre = define(
    "centred", lambda x: x - (1 / x.shape[1]) * x @ ones(x.shape[1]) @ ones(1, x.shape[1])
)
gated = define("gated", lambda x, y: sigmoid(x) * (x + y))
attend = define("attend", lambda q, k, v, tau: softmax(tau * q @ k.T) @ v)


def _centred_value(world, x):
    return x - x.sum(1, keepdims=True) / x.shape[1]


def _attend_value(world, q, k, v, scale):
    return values.WORDS[vocabulary.softmax](world, world.scalar(scale) * q @ k.T) @ v


values.WORDS |= {
    centre: _centred_value, attend: _attend_value,
    gated: lambda world, x, y: world.function("sigmoid")(x) * (x + y),
}  # fmt: skip
ABBREVIATIONS = (centre, gated, attend)
PLAIN_WORDS = (softmax, softmax_one, normalise)
NORMS = (layer_norm, rms_norm, batch_norm)


# ── Expressions ───────────────────────────────────────────────────────────────────────────


class Draw(random.Random):
    """A source of random expressions of given shapes."""

    def size(self):
        """A size, most often a symbol."""
        return self.choices((n, m, d, sp.S(1), BOTH, sp.S(2)), (9, 8, 6, 3, 1, 1))[0]

    def symbol(self):
        """A size symbol."""
        return self.choice((n, m, d))

    def letter(self, rows, columns, name=None):
        """A letter; its name tells its shape."""
        return matrix(f"{name or self.choice('ABC')}_{NAMES[rows]}{NAMES[columns]}", rows, columns)

    def mask(self, rows, columns):
        """A mask by its form."""
        options = [mask(f"M_{NAMES[rows]}{NAMES[columns]}", rows, columns), ones(rows, columns)]
        if rows == columns:
            options += [causal(rows), causal(rows), self.permutation(rows)]
        return self.choice(options)

    def permutation(self, size, inverse=True):
        """A permutation, its inverse, or a short word of both."""
        p, q = (permutation(f"{name}_{NAMES[size]}", size) for name in "ΠΦ")
        options = [p, p, q] + [p.T, p @ q, p.T @ q, p @ p, q @ p.T] * inverse
        return self.choice(options)

    def scalar(self):
        """A scalar that may be anything."""
        return self.choice(
            (-1, 2, 3, sp.Rational(1, 2), c_1, c_2, tau, n, 1 / n, 1 / tau, d, c_1 * tau, 2 * m)
        )

    def heads(self, rows, columns, name=None):
        """A letter with an index over h, and that index."""
        a = head(self.choice("ae"), h)
        return Heads(
            f"{name or self.choice('WU')}_h{NAMES[rows]}{NAMES[columns]}", h, rows, columns
        )[a], a

    def leaf(self, rows, columns):
        """An expression without arguments."""
        letters = [lambda: self.letter(rows, columns)] * 7
        special = [
            lambda: ones(rows, columns),
            lambda: self.mask(rows, columns),
            lambda: zeros(rows, columns),
        ]
        if rows == columns:
            special += [
                lambda: identity(rows),
                lambda: self.permutation(rows),
                lambda: causal(rows),
            ] * 2
        if columns == 1:
            special += [lambda: position_numbers(rows)]
            if rows == t or rows == NEXT:
                special += [lambda: sequence("z").prefix(rows)]
        return self.choice(letters + special)()

    def expression(self, rows, columns, depth=2):
        """A random expression of that shape."""
        rows, columns = sp.sympify(rows), sp.sympify(columns)
        if depth <= 0 or self.random() < 0.25:
            return self.leaf(rows, columns)
        again = lambda r=rows, c=columns: self.expression(r, c, depth - 1)  # noqa: E731
        k = self.size()
        options = [
            (8, lambda: again(rows, k) @ again(k, columns)), (6, lambda: again() + again()),
            (3, lambda: self.scalar() * again()), (3, lambda: again(columns, rows).T),
            (4, lambda: hadamard(again(), again())), (2, lambda: again() - again()),
            (1.5, lambda: exp(again())), (1.5, lambda: self.choice((PHI, PSI))(again())),
            (0.5, lambda: self.choice((tanh, relu, cos, sin, sigmoid))(again())),
            (2, lambda: self.choice(PLAIN_WORDS)(again())), (1, lambda: self.choice(NORMS)(again(), eps)),
            (1, lambda: masked_softmax(self.mask(rows, columns), again())),
            (1, lambda: self.over(rows, columns, depth - 1)), (0.7, lambda: centre(again())),
            (0.5, lambda: gated(again(), again())), (1, lambda: self.index_form(rows, columns)),
            (2 * (columns == 1), lambda: again(rows, n) @ ones(n)),
            (3 * (rows == columns), lambda: diag(again(rows, 1))),
            (3, lambda: self.permutation(rows) @ again()), (2, lambda: again() @ self.permutation(columns)),
            (2 * (rows == 1), lambda: last_row(again(n, columns))),
            (20 * (rows == BOTH), lambda: stack(again(n, columns), again(m, columns))),
            (1 * (rows == columns == 1), lambda: self.trace(again(n, n))),
            (0.5, lambda: derivative(self.letter(rows, columns) + s * again(), s)),
        ]  # fmt: skip
        weights, builders = zip(*options)
        return self.choices(builders, weights)[0]()

    def trace(self, x):
        """The trace of a square matrix."""
        one = ones(x.shape[0])
        return one.T @ hadamard(x, identity(x.shape[0])) @ one

    def over(self, rows, columns, depth):
        """A sum over heads."""
        letter, a = self.heads(rows, columns)
        inner = self.expression(rows, columns, depth - 1)
        if a in _bound(inner):
            return letter_sum(letter, a)
        return over(
            a, self.choice((letter, hadamard(letter, inner), softmax(letter), letter + inner))
        )

    def index_form(self, rows, columns):
        """An expression in index form."""
        x, y = self.letter(rows, columns), self.expression(rows, columns, 1)
        left, right = self.letter(rows, d), self.letter(d, columns)
        return self.choice([
            lambda: tabulate(lambda i, j: entry_of(x, i, j) + 2 * entry_of(y, i, j), rows, columns),
            lambda: tabulate(lambda i, j: total(lambda k: entry_of(left, i, k) * entry_of(right, k, j), d), rows, columns),
            lambda: tabulate(lambda i, j: entry_of(x, i, j) * total(lambda k: entry_of(x, i, k) ** 2, columns), rows, columns),
            lambda: tabulate(lambda i, j: exp_of(entry_of(x, i, j)) / total(lambda k: exp_of(entry_of(x, i, k)), columns), rows, columns),
            lambda: tabulate(lambda i, j: total(lambda k: entry_of(x, k, j), rows) / number(rows), rows, columns),
        ])()  # fmt: skip


def letter_sum(letter, index):
    """The sum of a letter over its heads."""
    return over(index, letter)


def _bound(x):
    return {y.params[0] for y in x.walk() if y.operation in (ops.OVER, ops.DERIVATIVE)}


# ── Schemas: equations that hold, with the reasons that show it ───────────────────────────

SCHEMAS = {}


def schema(function):
    """Registers draw → (left, right, *reasons)."""
    SCHEMAS[function.__name__.replace("_", " ")] = function
    return function


def _three(g):
    return g.size(), g.size(), g.size()


# algebra


@schema
def distributes_from_the_left(g):
    r, k, c = _three(g)
    A, B, C = g.expression(r, k, 1), g.expression(k, c, 1), g.expression(k, c, 1)
    return A @ (B + C), A @ B + A @ C


@schema
def distributes_from_the_right(g):
    r, k, c = _three(g)
    A, B, C = g.expression(r, k, 1), g.expression(r, k, 1), g.expression(k, c, 1)
    return (A - B) @ C, A @ C - B @ C


@schema
def scalar_moves(g):
    r, k, c = _three(g)
    A, B, a = g.expression(r, k, 1), g.expression(k, c, 1), g.scalar()
    return a * (A @ B), A @ (a * B)


@schema
def scalars_multiply(g):
    r, c, _ = _three(g)
    A, a, b = g.expression(r, c, 1), g.scalar(), g.scalar()
    return a * (b * A) + A, (a * b + 1) * A


@schema
def transpose_of_a_product(g):
    r, k, c = _three(g)
    A, B = g.expression(r, k, 1), g.expression(k, c, 1)
    return (A @ B).T, B.T @ A.T


@schema
def transpose_of_entrywise(g):
    r, c, _ = _three(g)
    A, B = g.expression(r, c, 1), g.expression(r, c, 1)
    return (hadamard(A, B) - 2 * B).T, hadamard(A.T, B.T) - 2 * B.T


@schema
def transpose_of_a_function(g):
    r, c, _ = _three(g)
    A, f = g.expression(r, c, 1), g.choice((PHI, exp, tanh))
    return f(A).T, f(A.T)


@schema
def transpose_of_stack_free_diag(g):
    r = g.size()
    v = g.expression(r, 1, 1)
    return diag(v).T, diag(v)


@schema
def hadamard_with_ones(g):
    r, c, _ = _three(g)
    A = g.expression(r, c)
    return hadamard(ones(r, c), A), A


@schema
def hadamard_commutes(g):
    r, c, _ = _three(g)
    A, B, C = (g.expression(r, c, 1) for _ in range(3))
    return hadamard(A, B + C), hadamard(B, A) + hadamard(C, A)


@schema
def outer_products_multiply(g):
    r, c, _ = _three(g)
    a, b, u, v = g.expression(r, 1, 1), g.letter(c, 1), g.letter(r, 1), g.expression(c, 1, 1)
    return hadamard(a @ b.T, u @ v.T), hadamard(a, u) @ hadamard(b, v).T


@schema
def diagonal_from_the_left(g):
    r, c, _ = _three(g)
    v, A = g.expression(r, 1, 1), g.expression(r, c, 1)
    return diag(v) @ A, hadamard(v @ ones(1, c), A)


@schema
def diagonal_from_the_right(g):
    r, c, _ = _three(g)
    v, A = g.expression(c, 1, 1), g.expression(r, c, 1)
    return A @ diag(v), hadamard(A, ones(r) @ v.T)


@schema
def diagonals_multiply(g):
    r = g.size()
    u, v = g.expression(r, 1, 1), g.expression(r, 1, 1)
    return diag(u) @ diag(v) @ ones(r), hadamard(u, v)


@schema
def diagonal_of_a_matrix(g):
    r = g.size()
    A = g.expression(r, r, 1)
    return hadamard(identity(r), A), diag(hadamard(A, identity(r)) @ ones(r))


@schema
def trace_is_cyclic(g):
    r, k = g.symbol(), g.size()
    A, B = g.expression(r, k, 1), g.expression(k, r, 1)
    return g.trace(A @ B), g.trace(B @ A)


@schema
def trace_of_an_outer_product(g):
    r = g.size()
    u, v = g.expression(r, 1, 1), g.expression(r, 1, 1)
    return g.trace(u @ v.T), v.T @ u


@schema
def inner_product_as_a_sum(g):
    r, c, _ = _three(g)
    A, B = g.letter(r, c), g.expression(r, c, 1)
    return ones(r).T @ hadamard(A, B) @ ones(c), g.trace(A @ B.T)


@schema
def product_of_two_sums(g):
    r, c, _ = _three(g)
    u, v = g.expression(r, 1, 1), g.expression(c, 1, 1)
    return (ones(r).T @ u) @ (ones(c).T @ v), ones(r).T @ (u @ v.T) @ ones(c)


@schema
def ones_count(g):
    r, k, c = _three(g)
    return ones(r, k) @ ones(k, c), number(k) * ones(r, c)


@schema
def centring_is_a_projection(g):
    r, c, _ = _three(g)
    A = g.expression(r, c, 1)
    P = identity(c) - (1 / number(c)) * ones(c, c)
    return A @ P @ P, A - (1 / number(c)) * A @ ones(c) @ ones(1, c)


@schema
def square_of_a_sum(g):
    r, c, _ = _three(g)
    A, B = g.expression(r, c, 1), g.expression(r, c, 1)
    return hadamard(A + B, A + B), hadamard(A, A) + 2 * hadamard(A, B) + hadamard(B, B)


@schema
def one_by_one_commutes(g):
    r = g.size()
    x, A = g.expression(1, 1), g.expression(1, r, 1)
    return x @ A, hadamard(x @ ones(1, r), A)


@schema
def nothing_is_added(g):
    r, c, _ = _three(g)
    A, B = g.expression(r, c), g.expression(r, c, 1)
    return A + B - B + zeros(r, c), A


@schema
def mask_is_its_own_square(g):
    r = g.symbol()
    A, M = g.expression(r, r, 1), g.choice((causal(r), identity(r), g.permutation(r)))
    return hadamard(M, hadamard(M, A)), hadamard(M, A)


# permutations


@schema
def orthogonality(g):
    r, c, _ = _three(g)
    P, A = g.permutation(r), g.expression(r, c)
    return g.choice(((P.T @ P @ A, A), (P @ P.T @ A, A)))


@schema
def inverse_of_a_product(g):
    r, c, _ = _three(g)
    P, Q, A = g.permutation(r), g.permutation(r), g.expression(r, c, 1)
    return (P @ Q).T @ A, Q.T @ (P.T @ A)


@schema
def powers_of_a_permutation(g):
    r, c, _ = _three(g)
    P, A = g.permutation(r, False), g.expression(r, c, 1)
    k = g.randint(1, 3)
    left = A
    for _ in range(k + 1):
        left = P @ left
    return P.T @ left, _power(P, k) @ A


def _power(P, k):
    result = P
    for _ in range(k - 1):
        result = result @ P
    return result


@schema
def permutation_sums(g):
    r, c, _ = _three(g)
    P, A = g.permutation(r), g.expression(r, c, 1)
    return ones(1, r) @ P @ A, ones(1, r) @ A, REINDEX


@schema
def permuted_rows_of_a_function(g):
    r, c, _ = _three(g)
    P, A, f = g.permutation(r), g.expression(r, c, 1), g.choice((PHI, exp, tanh, relu))
    return f(P @ A), P @ f(A)


@schema
def permuted_columns_of_a_function(g):
    r, c, _ = _three(g)
    P, A, f = g.permutation(c), g.expression(r, c, 1), g.choice((PHI, exp, sigmoid))
    return f(A @ P), f(A) @ P


@schema
def permuted_diagonal(g):
    r = g.size()
    P, v = g.permutation(r), g.expression(r, 1, 1)
    return P @ diag(v) @ P.T, diag(P @ v)


@schema
def permuted_hadamard(g):
    r, c, _ = _three(g)
    P, A, B = g.permutation(r), g.expression(r, c, 1), g.expression(r, c, 1)
    return hadamard(P @ A, P @ B), P @ hadamard(A, B)


@schema
def permuted_sum_of_products(g):
    r, c, _ = _three(g)
    P, A, B = g.permutation(r, False), g.letter(r, c), g.letter(r, c)
    return ones(1, r) @ hadamard(P @ A, P @ B), ones(1, r) @ hadamard(A, B), REINDEX


@schema
def permuted_exponentials_summed(g):
    r, c, _ = _three(g)
    P, A = g.permutation(r), g.expression(r, c, 1)
    return ones(1, r) @ exp(P @ A), ones(1, r) @ exp(A), REINDEX


@schema
def conjugated_trace(g):
    r = g.symbol()
    P, A = g.permutation(r), g.letter(r, r)
    return g.trace(P @ A @ P.T), g.trace(A), REINDEX


@schema
def word_of_permuted_rows(g):
    r, c, _ = _three(g)
    w, P, A = g.choice(PLAIN_WORDS), g.permutation(r), g.expression(r, c, 1)
    return w(P @ A), P @ w(A), unfold(w)


@schema
def word_of_permuted_columns(g):
    r, c, _ = _three(g)
    w, P, A = g.choice(PLAIN_WORDS), g.permutation(c), g.expression(r, c, 1)
    return w(A @ P), w(A) @ P, unfold(w), REINDEX


@schema
def masked_word_permuted(g):
    r, c, _ = _three(g)
    P, R, A, M = g.permutation(c, False), g.permutation(r, False), g.letter(r, c), g.mask(r, c)
    return (
        masked_softmax(R @ M @ P, R @ A @ P), R @ masked_softmax(M, A) @ P,
        unfold(masked_softmax), REINDEX,
    )  # fmt: skip


@schema
def norm_of_permuted_rows(g):
    r, c = g.size(), g.symbol()
    w, P, A = g.choice((layer_norm, rms_norm)), g.permutation(r), g.expression(r, c, 1)
    return w(P @ A, eps), P @ w(A, eps), unfold(w)


@schema
def norm_of_permuted_columns(g):
    r, c = g.size(), g.symbol()
    w, P, A = g.choice((layer_norm, rms_norm)), g.permutation(c, False), g.letter(r, c)
    return w(A @ P, eps), w(A, eps) @ P, unfold(w), REINDEX


@schema
def batch_norm_of_permuted_rows(g):
    r, c = g.symbol(), g.size()
    P, A = g.permutation(r, False), g.letter(r, c)
    return batch_norm(P @ A, eps), P @ batch_norm(A, eps), unfold(batch_norm), REINDEX


# exponentials and softmax


@schema
def exponential_of_a_sum(g):
    r, c, _ = _three(g)
    A, B = g.expression(r, c, 1), g.expression(r, c, 1)
    return exp(A + B), hadamard(exp(A), exp(B)), EXP_OF_SUM


@schema
def exponential_of_a_multiple(g):
    r, c, _ = _three(g)
    A = g.expression(r, c, 1)
    return exp(3 * A - A), hadamard(exp(A), exp(A)), EXP_OF_SUM


@schema
def exponentials_cancel(g):
    r, c, _ = _three(g)
    A = g.expression(r, c, 1)
    return hadamard(exp(A), exp(-A)), ones(r, c), EXP_OF_SUM


@schema
def exponential_of_a_half(g):
    r, c, _ = _three(g)
    A = g.expression(r, c, 1)
    half = exp(sp.Rational(1, 2) * A)
    return hadamard(half, half), exp(A), EXP_OF_SUM


@schema
def shift_of_softmax(g):
    r, c, _ = _three(g)
    S, u = g.expression(r, c, 1), g.expression(r, 1, 1)
    return softmax(S + u @ ones(1, c)), softmax(S), unfold(softmax), EXP_OF_SUM


@schema
def shift_of_masked_softmax(g):
    r, c, _ = _three(g)
    S, u, M = g.letter(r, c), g.expression(r, 1, 1), g.mask(r, c)
    return (
        masked_softmax(M, S + u @ ones(1, c)),
        masked_softmax(M, S),
        unfold(masked_softmax),
        EXP_OF_SUM,
    )


@schema
def rows_of_softmax_sum_to_one(g):
    r, c, _ = _three(g)
    S = g.expression(r, c)
    return softmax(S) @ ones(c), ones(r), unfold(softmax)


@schema
def value_bias_leaves(g):
    r, k, c = _three(g)
    S, V, b = g.expression(r, k, 1), g.letter(k, c), g.expression(c, 1, 1)
    return softmax(S) @ (V + ones(k) @ b.T), softmax(S) @ V + ones(r) @ b.T, unfold(softmax)


@schema
def softmax_normalises_exponentials(g):
    r, c, _ = _three(g)
    S = g.expression(r, c, 1)
    return normalise(exp(S)), softmax(S), unfold(normalise), unfold(softmax)


@schema
def mask_of_ones(g):
    r, c, _ = _three(g)
    S = g.expression(r, c, 1)
    return masked_softmax(ones(r, c), S), softmax(S), unfold(masked_softmax), unfold(softmax)


@schema
def masked_rows_sum_to_one(g):
    r, c, _ = _three(g)
    S, M = g.expression(r, c, 1), g.mask(r, c)
    return masked_softmax(M, S) @ ones(c), ones(r), unfold(masked_softmax)


@schema
def softmax_one_has_a_rest(g):
    r, c, _ = _three(g)
    S = g.letter(r, c)
    rest = tabulate(lambda i, j: 1 / (1 + total(lambda k: exp_of(entry_of(S, i, k)), c)), r)
    return softmax_one(S) @ ones(c) + rest, ones(r), unfold(softmax_one)


@schema
def normalise_is_scale_free(g):
    r, c, _ = _three(g)
    S, a = g.expression(r, c, 1), g.choice((2, tau, c_1, -1))
    return normalise(a * S), normalise(S), unfold(normalise)


@schema
def normalised_rows_sum_to_one(g):
    r, c, _ = _three(g)
    S = g.expression(r, c, 1)
    return normalise(S) @ ones(c), ones(r), unfold(normalise)


@schema
def normalising_twice(g):
    r, c, _ = _three(g)
    S = g.letter(r, c)
    return normalise(normalise(S)), normalise(S), unfold(normalise)


# norms


@schema
def layer_norm_ignores_a_shift(g):
    r, c = g.size(), g.symbol()
    X, u = g.letter(r, c), g.expression(r, 1, 1)
    return layer_norm(X + u @ ones(1, c), eps), layer_norm(X, eps), unfold(layer_norm)


@schema
def batch_norm_ignores_a_bias(g):
    r, c = g.symbol(), g.size()
    X, b = g.letter(r, c), g.expression(c, 1, 1)
    return batch_norm(X + ones(r) @ b.T, eps), batch_norm(X, eps), unfold(batch_norm)


@schema
def rms_norm_of_centred_rows(g):
    r, c = g.size(), g.symbol()
    X = g.letter(r, c)
    return (
        rms_norm(X - (1 / c) * X @ ones(c, c), eps),
        layer_norm(X, eps),
        unfold(rms_norm),
        unfold(layer_norm),
    )


@schema
def norms_are_odd(g):
    r, c = g.size(), g.size()
    w, X = g.choice(NORMS), g.letter(r, c)
    return w(-X, eps), -w(X, eps), unfold(w)


@schema
def layer_norm_rows_are_centred(g):
    r, c = g.size(), g.symbol()
    return layer_norm(g.letter(r, c), eps) @ ones(c), zeros(r), unfold(layer_norm)


# angles


@schema
def angles_add(g):
    r, c, _ = _three(g)
    A, B = g.expression(r, c, 1), g.letter(r, c)
    return g.choice((
        (cos(A + B), cos(A) * cos(B) - sin(A) * sin(B)), (sin(A + B), sin(A) * cos(B) + cos(A) * sin(B)),
        (cos(A - B), cos(A) * cos(B) + sin(A) * sin(B)), (sin(A - B), sin(A) * cos(B) - cos(A) * sin(B)),
    )) + (ANGLE_ADDITION,)  # fmt: skip


@schema
def even_and_odd(g):
    r, c, _ = _three(g)
    A = g.expression(r, c, 1)
    return g.choice(
        ((cos(-A), cos(A)), (sin(-A), -sin(A)), (cos(A - A) + sin(zeros(r, c)), ones(r, c)))
    ) + (ANGLE_ADDITION,)


# blocks


@schema
def stack_times_stack(g):
    r, c, _ = _three(g)
    A, B, C, D = g.letter(n, r), g.expression(m, r, 1), g.expression(n, c, 1), g.letter(m, c)
    return stack(A, B).T @ stack(C, D), A.T @ C + B.T @ D, SPLIT


@schema
def stack_of_a_function(g):
    c, f = g.size(), g.choice((PHI, exp))
    A, B = g.expression(n, c, 1), g.expression(m, c, 1)
    return f(stack(A, B)), stack(f(A), f(B)), SPLIT


@schema
def stack_times_a_matrix(g):
    k, c = g.size(), g.size()
    A, B, C = g.expression(n, k, 1), g.expression(m, k, 1), g.expression(k, c, 1)
    return stack(A, B) @ C, stack(A @ C, B @ C), SPLIT


@schema
def stacked_rows_of_softmax(g):
    c = g.size()
    A, B = g.expression(n, c, 1), g.expression(m, c, 1)
    return softmax(stack(A, B)), stack(softmax(A), softmax(B)), SPLIT, unfold(softmax)


@schema
def stacked_keys(g):
    r, c, k = _three(g)
    q, K, K_2, V, V_2 = (
        g.letter(r, k),
        g.letter(n, k),
        g.letter(m, k),
        g.letter(n, c),
        g.letter(m, c),
    )
    return exp(q @ stack(K, K_2).T) @ stack(V, V_2), exp(q @ K.T) @ V + exp(q @ K_2.T) @ V_2, SPLIT


@schema
def ones_are_stacked(g):
    c = g.size()
    return ones(BOTH, c), stack(ones(n, c), ones(m, c)), SPLIT


@schema
def stacks_add(g):
    c = g.size()
    A, B, C, D = (g.expression(k, c, 1) for k in (n, m, n, m))
    return stack(A, B) + 2 * stack(C, D), stack(A + 2 * C, B + 2 * D), SPLIT


@schema
def a_joined_range_counts(g):
    A = g.expression(BOTH, BOTH, 1)
    return ones(1, BOTH) @ ones(BOTH) @ ones(1, BOTH) @ A, (n + m) * ones(1, BOTH) @ A


@schema
def causal_mask_in_blocks(g):
    u, v = g.letter(n, 1), g.letter(m, 1)
    return causal(BOTH) @ stack(u, v), stack(causal(n) @ u, ones(m, n) @ u + causal(m) @ v), SPLIT


# causal and last


@schema
def causal_mask_counts(g):
    r, c = g.symbol(), g.size()
    u = g.expression(1, c, 1)
    return causal(r) @ ones(r) @ u, position_numbers(r) @ u, COUNT


@schema
def last_row_of_a_product(g):
    r, k, c = _three(g)
    A, B = g.expression(r, k, 1), g.expression(k, c, 1)
    return last_row(A @ B), last_row(A) @ B


@schema
def last_row_of_a_function(g):
    r, c, _ = _three(g)
    A, w = g.expression(r, c, 1), g.choice((softmax, normalise))
    return last_row(w(A)), w(last_row(A)), unfold(w)


@schema
def last_row_of_a_stack(g):
    c = g.size()
    A, B = g.expression(n, c, 1), g.expression(m, c, 1)
    return last_row(stack(A, B)), last_row(B)


@schema
def last_row_of_the_causal_mask(g):
    r, c, _ = _three(g)
    A = g.expression(r, c, 1)
    return last_row(causal(r)) @ A, ones(1, r) @ A


@schema
def last_token_sees_all(g):
    r = g.symbol()
    A = g.expression(r, r, 1)
    return (
        last_row(masked_softmax(causal(r), A)),
        softmax(last_row(A)),
        unfold(masked_softmax),
        unfold(softmax),
    )


@schema
def last_position(g):
    r = g.size()
    x = g.expression(1, 1, 1)
    return last_row(position_numbers(r)) @ x, number(r) * x


# heads


@schema
def heads_add(g):
    r, c, _ = _three(g)
    W, a = g.heads(r, c, "W")
    U = Heads(f"U_h{NAMES[r]}{NAMES[c]}", h, r, c)[a]
    return over(a, W + 2 * U), over(a, W) + 2 * over(a, U)


@schema
def constants_leave_a_sum_over_heads(g):
    r, k, c = _three(g)
    W, a = g.heads(k, c)
    X = g.letter(r, k)
    return over(a, X @ W), X @ over(a, W)


@schema
def a_constant_for_every_head(g):
    r, c, _ = _three(g)
    X = g.letter(r, c)
    return over(head("a", h), X), h * X


@schema
def sums_over_heads_exchange(g):
    r, k, c = _three(g)
    a, e = head("a", h), head("e", h)
    W, U = Heads(f"W_h{NAMES[r]}{NAMES[k]}", h, r, k), Heads(f"U_h{NAMES[k]}{NAMES[c]}", h, k, c)
    return over(a, over(e, W[a] @ U[e])), over(e, W[e]) @ over(a, U[a])


@schema
def two_indices_exchange(g):
    r, c, _ = _three(g)
    a, e = head("a", h), head("e", h)
    G = Heads(f"G_hh{NAMES[r]}{NAMES[c]}", h, h, r, c)
    return over(a, over(e, G[a, e])), over(a, over(e, G[e, a]))


@schema
def a_bound_index_is_renamed(g):
    r, c, _ = _three(g)
    W = Heads(f"W_h{NAMES[r]}{NAMES[c]}", h, r, c)
    a, e, f = head("a", h), head("e", h), g.choice((PHI, softmax, exp))
    return over(a, f(W[a])), over(e, f(W[e]))


@schema
def bias_of_every_head(g):
    r, c, _ = _three(g)
    W, a = g.heads(r, c)
    b = Heads(f"b_h{NAMES[c]}1", h, c, 1)[a]
    return (
        over(a, softmax(W) @ ones(c) @ ones(1, c) + ones(r) @ b.T),
        h * ones(r, c) + ones(r) @ over(a, b).T,
        unfold(softmax),
    )


# derivatives


@schema
def derivative_of_a_line(g):
    r, c, _ = _three(g)
    A, B = g.letter(r, c), g.expression(r, c, 1)
    if s in B.free_scalars() or s in _bound(B):
        raise NoLine
    return derivative(A + s * B, s), B


@schema
def product_rule(g):
    r, k, c = _three(g)
    A, B, C, D = g.letter(r, k, "A"), g.letter(r, k, "B"), g.letter(k, c, "A"), g.letter(k, c, "B")
    return derivative((A + s * B) @ (C + s * D), s), B @ C + A @ D


@schema
def derivative_of_a_power(g):
    r, c, _ = _three(g)
    A, B = g.letter(r, c, "A"), g.letter(r, c, "B")
    x = A + s * B
    return derivative(x * x * x, s), 3 * A * A * B


@schema
def derivative_of_an_exponential(g):
    r, c, _ = _three(g)
    A, B = g.letter(r, c, "A"), g.letter(r, c, "B")
    return derivative(exp(A + 2 * s * B), s), 2 * exp(A) * B


@schema
def derivative_of_softmax(g):
    k = g.size()
    z, u = g.letter(1, k, "A"), g.letter(1, k, "B")
    p = softmax(z)
    return derivative(softmax(z + s * u), s), u @ (diag(p.T) - p.T @ p), unfold(softmax)


@schema
def derivative_along_a_shift(g):
    r, c, _ = _three(g)
    S, u = g.letter(r, c), g.letter(r, 1)
    return derivative(softmax(S + s * u @ ones(1, c)), s), zeros(r, c), unfold(softmax)


@schema
def derivative_of_normalise(g):
    k = g.symbol()
    z, u = g.letter(1, k, "A"), g.letter(1, k, "B")
    total_of = normalise(z) @ ones(k)
    return derivative(normalise(z + s * u) @ ones(k), s), total_of - total_of, unfold(normalise)


@schema
def derivative_of_a_word(g):
    r, c, _ = _three(g)
    A, B = g.letter(r, c, "A"), g.letter(r, c, "B")
    return derivative(2 * PHI(A + s * B), s), derivative(PHI(s * B + A) + PHI(A + s * B), s)


# expectations; the shapes are small by nature


def _random(name, r, c):
    return random_matrix(f"{name}_{NAMES[r]}{NAMES[c]}", r, c, sigma**2)


@schema
def mean_of_one_draw(g):
    r, k, c = _three(g)
    A, B = g.letter(r, k), g.letter(r, c)
    return expectation(A @ _random("R", k, c) + B), B, SECOND_MOMENTS


@schema
def mean_of_two_draws(g):
    r, k, c = _three(g)
    return expectation(_random("R", r, k) @ _random("T", k, c)), zeros(r, c), SECOND_MOMENTS


@schema
def mean_of_a_gram_matrix(g):
    r, k, _ = _three(g)
    R = _random("R", r, k)
    return expectation(R @ R.T), number(k) * sigma**2 * identity(r), SECOND_MOMENTS


@schema
def mean_of_a_sandwich(g):
    r, k = g.symbol(), g.size()
    R, A = _random("R", k, r), g.letter(r, r)
    return (
        expectation(R @ A @ R.T),
        sigma**2 * identity(k) @ (ones(k) @ g.trace(A) @ ones(1, k) * identity(k)),
        SECOND_MOMENTS,
    )


@schema
def mean_of_squares(g):
    r, c, _ = _three(g)
    R, A = _random("R", r, c), g.letter(r, c)
    return expectation(hadamard(R, R) + hadamard(R, A)), sigma**2 * ones(r, c), SECOND_MOMENTS


@schema
def variance_of_a_score(g):
    x, y = g.letter(1, n, "A"), g.letter(1, m, "B")
    score = x @ _random("R", n, m) @ y.T
    return expectation(score @ score), sigma**2 * (x @ x.T) @ (y @ y.T), SECOND_MOMENTS


# definitions and index forms


@schema
def definition_of_a_word(g):
    r, c, _ = _three(g)
    x, y = g.expression(r, c, 1), g.expression(r, c, 1)
    return g.choice((
        (gated(x, y), sigmoid(x) * y + x * sigmoid(x), unfold(gated)),
        (centre(x), x - (1 / number(c)) * x @ ones(c, c), unfold(centre)),
        (centre(x) @ ones(c), zeros(r), unfold(centre)),
        (centre(centre(x)), centre(x), unfold(centre)),
    ))  # fmt: skip


@schema
def attention_ignores_a_key_bias(g):
    r, k, c = _three(g)
    q, K, V, b = g.letter(r, d), g.letter(k, d), g.letter(k, c), g.letter(d, 1)
    return (
        attend(q, K + ones(k) @ b.T, V, tau), attend(q, K, V, tau),
        unfold(attend), unfold(softmax), EXP_OF_SUM,
    )  # fmt: skip


@schema
def attention_to_permuted_keys(g):
    r, k, c = _three(g)
    q, K, V, P = g.letter(r, d), g.letter(k, d), g.letter(k, c), g.permutation(k, False)
    return (
        attend(q, P @ K, P @ V, tau),
        attend(q, K, V, tau),
        unfold(attend),
        unfold(softmax),
        REINDEX,
    )


@schema
def index_form_of_a_letter(g):
    r, c, _ = _three(g)
    X = g.expression(r, c, 1)
    return tabulate(lambda i, j: entry_of(X, i, j), r, c), X


@schema
def index_form_of_a_product(g):
    r, k, c = _three(g)
    A, B = g.letter(r, k), g.letter(k, c)
    return A @ B, tabulate(
        lambda i, j: total(lambda l: entry_of(B, l, j) * entry_of(A, i, l), k), r, c
    )


@schema
def index_form_of_a_transpose(g):
    r, c, _ = _three(g)
    A = g.expression(c, r, 1)
    return tabulate(lambda i, j: entry_of(A, j, i) + 1, r, c), A.T + ones(r, c)


@schema
def index_form_of_softmax(g):
    r, c, _ = _three(g)
    S = g.letter(r, c)
    form = tabulate(
        lambda i, j: exp_of(entry_of(S, i, j)) / total(lambda l: exp_of(entry_of(S, i, l)), c), r, c
    )
    return form, softmax(S), unfold(softmax)


@schema
def index_form_of_a_double_sum(g):
    r, c, _ = _three(g)
    A, B = g.letter(r, c), g.letter(r, c)
    form = tabulate(
        lambda i, j: total(lambda k: total(lambda l: entry_of(A, k, l) * entry_of(B, k, l), c), r)
    )
    return form, g.trace(A @ B.T)


# sequences


@schema
def a_prefix_grows(g):
    z = sequence("z")
    start = g.choice((ones(t), position_numbers(t)))
    return stack(start, ones(1)).T @ z.prefix(NEXT), start.T @ z.prefix(t) + z[NEXT], SPLIT


@schema
def a_prefix_ends(g):
    z = sequence("z", d)
    return g.choice(
        ((last_row(z.prefix(t)), z[t]), (z.prefix(1), z[1]), (last_row(z.prefix(NEXT)), z[NEXT]))
    )


@schema
def exponentials_of_a_prefix(g):
    z, x = sequence("z"), g.letter(1, 1)
    return (
        exp(z.prefix(t) - ones(t) @ x), exp(z.prefix(t)) @ exp(-x), EXP_OF_SUM,
    )  # fmt: skip


# ── Hypotheses and citations ──────────────────────────────────────────────────────────────


class Repair:
    """Gives letters values that fulfil an equation; ``uses`` are the expressions it speaks of."""

    def __init__(self, values_of, *uses):
        self.values_of, self.uses = values_of, uses

    def __call__(self, world):
        return self.values_of(world)


def _is(letter, expression):
    """The letter takes the value of an expression."""
    return Repair(lambda world: {letter.params[0]: world(expression)}, letter, expression)


@schema
def symmetric_by_hypothesis(g):
    r, c = g.symbol(), g.size()
    A, X = g.letter(r, r, "H"), g.expression(r, c, 1)
    return A.T @ X, A @ X, given(A.T, A), _is(A, A + A.T)


@schema
def centred_by_hypothesis(g):
    r, k = g.size(), g.symbol()
    X, b = g.letter(r, k, "H"), g.expression(1, 2, 1)
    centred = X - (1 / k) * X @ ones(k, k)
    return X @ ones(k) @ b, zeros(r, 2), given(X @ ones(k), zeros(r)), _is(X, centred)


@schema
def equal_by_hypothesis(g):
    r, c, _ = _three(g)
    A, B, f = g.letter(r, c, "H"), g.expression(r, c, 1), g.choice((PHI, softmax, lambda x: x))
    if A in B.walk():
        raise NoLine
    return f(A) + B, f(B) + B, given(A, B), _is(A, B)


@schema
def commuting_by_hypothesis(g):
    r, c = g.symbol(), g.size()
    A, B, X = g.letter(r, r, "H"), g.letter(r, r, "J"), g.letter(r, c)
    return A @ A @ B @ X, A @ B @ A @ X, given(A @ B, B @ A), _is(B, A @ A + 2 * A)


@schema
def idempotent_by_hypothesis(g):
    r, c = g.symbol(), g.size()
    A, X = g.letter(r, r, "H"), g.letter(r, c)
    return X.T @ A @ A @ X, X.T @ A @ X, given(A @ A, A), _is(A, (1 / r) * ones(r, r))


@schema
def sum_by_hypothesis(g):
    r, c, _ = _three(g)
    A, B, C, X = g.letter(r, c, "H"), g.letter(r, c, "J"), g.letter(r, c, "C"), g.letter(r, c, "A")
    return A + X + B, C + X, given(A + B, C), _is(C, A + B)


def _theorems():
    """Theorems to cite, proved here: name → (theorem, draw → what its letters stand for)."""
    S, c, P, R = matrix("S", m, n), matrix("c", m), permutation("Π", n), permutation("R", m)
    X, b, x = matrix("X", n, d), matrix("b", d), matrix("x", 1)
    a, W = head("a", h), Heads("W", h, d, d)
    M = mask("M", m, n)
    one = lambda k: ones(1, k)  # noqa: E731

    def proved(name, before, claim, *reasons):
        return Derivation(name, before).by(claim, *reasons).qed()

    def shape(g, *letters):
        r, c, k = _three(g)
        return {"S": lambda: g.expression(r, c, 1), "c": lambda: g.expression(r, 1, 1), "X": lambda: g.expression(r, c, 1),
                "b": lambda: g.expression(c, 1, 1), "Π": lambda: g.permutation(c), "R": lambda: g.permutation(r),
                "V": lambda: g.expression(c, k, 1), "M": lambda: g.mask(r, c), "P": lambda: g.permutation(r)}  # fmt: skip

    def meant(*names):
        def of(g):
            makers = shape(g)
            return {name: makers[name]() for name in names}

        return of

    def square(g):
        r, c, _ = _three(g)
        return {"X": g.expression(r, c, 1), "Π": g.permutation(r)}

    def of_heads(g):
        r, c, _ = _three(g)
        return {"X": g.expression(r, c, 1), "W": Heads(f"K_h{NAMES[c]}{NAMES[c]}", h, c, c)}

    return {
        "shift": (proved("shift", softmax(S + c @ one(n)), softmax(S), unfold(softmax), EXP_OF_SUM), meant("S", "c")),
        "row sums": (proved("row sums", softmax(S) @ ones(n), ones(m), unfold(softmax)), meant("S")),
        "columns": (proved("columns", softmax(S @ P), softmax(S) @ P, unfold(softmax), REINDEX), meant("S", "Π")),
        "rows": (proved("rows", softmax(R @ S), R @ softmax(S), unfold(softmax)), meant("S", "R")),
        "masked": (proved("masked", masked_softmax(M, S) @ ones(n), ones(m), unfold(masked_softmax)), meant("M", "S")),
        "norm": (proved("norm", layer_norm(X + ones(n) @ (b.T @ ones(d)) @ one(d), eps), layer_norm(X, eps), unfold(layer_norm)), meant("X", "b")),
        "orthogonal": (proved("orthogonal", P.T @ P @ X, X), square),
        "batch": (proved("batch", batch_norm(X + ones(n) @ b.T, eps), batch_norm(X, eps), unfold(batch_norm)), meant("X", "b")),
        "normal": (proved("normal", normalise(S) @ ones(n), ones(m), unfold(normalise)), meant("S")),
        "double": (proved("double", exp(2 * x), exp(x) @ exp(x), EXP_OF_SUM), lambda g: {"x": g.expression(1, 1)}),
        "slope": (proved("slope", derivative(X + s * (P @ X), s), P @ X), square),
        "heads": (proved("heads", over(a, X @ W[a]), X @ over(a, W[a])), of_heads),
        "function": (proved("function", PHI(P @ X), P @ PHI(X)), square),
        "multiples": (proved("multiples", (1 / c_1) * X + tau * X, (1 / c_1 + tau) * X),
                      lambda g: {"X": g.expression(g.size(), g.size(), 1), "c": g.choice((c_2, 2, tau, c_1 - c_2)),
                                 "τ": g.choice((tau, 3, tau**2))}),
        "index form": (proved("index form", tabulate(lambda i, j: total(lambda k: entry_of(X, i, k) * entry_of(X, j, k), d), n, n), X @ X.T),
                       lambda g: {"X": g.expression(g.size(), g.size(), 1)}),
    }  # fmt: skip


_PROVED = {}


def theorems():
    """The theorems to cite, proved once."""
    if not _PROVED:
        _PROVED.update(_theorems())
    return _PROVED


@schema
def citation(g):
    theorem, meant = g.choice(list(theorems().values()))
    instance = theorem(**meant(g))
    return instance.lhs, instance.rhs, instance


@schema
def citation_backwards(g):
    theorem, meant = g.choice(list(theorems().values()))
    instance = theorem(**meant(g)).reversed()
    return instance.lhs, instance.rhs, instance


# ── Contexts and rewrites ─────────────────────────────────────────────────────────────────


def _context(g, r, c):
    """A place in a larger expression for one of shape r × c."""
    k = g.size()
    A, B, C = g.letter(r, c), g.letter(k, r), g.letter(c, k)
    P, other = g.permutation(r), g.expression(r, c, 1)
    return g.choice([
        lambda x: x + A, lambda x: A - x, lambda x: B @ x, lambda x: x @ C, lambda x: x.T, lambda x: 2 * x,
        lambda x: hadamard(A, x), PHI, exp, softmax, lambda x: layer_norm(x, eps), lambda x: P @ x,
        lambda x: x + other, lambda x: over(head("o", h), x), lambda x: gated(x, A), last_row, lambda x: centre(x),
        lambda x: normalise(x), lambda x: masked_softmax(ones(*x.shape), x),
    ])  # fmt: skip


def in_context(g, left, right):
    """The two sides in the same place of a larger expression."""
    while g.random() < 0.45:
        place = _context(g, *left.shape)
        left, right = place(left), place(right)
    return left, right


def _swap_terms(g, x):
    if x.operation is ops.SUM_OF or x.operation is ops.HADAMARD:
        args = list(x.args)
        g.shuffle(args)
        return x.rebuilt(args)


def _open_product(g, x):
    if x.operation is ops.PRODUCT_OF:
        for k, y in enumerate(x.args):
            if y.operation is ops.SUM_OF:
                return ops.plus(
                    *[ops.product(*x.args[:k], term, *x.args[k + 1 :]) for term in y.args]
                )


def _open_transpose(g, x):
    if x.operation is ops.TRANSPOSE and x.args[0].operation in (ops.PRODUCT_OF, ops.SUM_OF):
        args = [y.T for y in x.args[0].args]
        return (
            ops.product(*args[::-1]) if x.args[0].operation is ops.PRODUCT_OF else ops.plus(*args)
        )


#: Rewrites that hold at any place: draw, x → x written otherwise, or None.
REWRITES = [
    _swap_terms, _open_product, _open_transpose, lambda g, x: x.T.T, lambda g, x: 2 * x - x,
    lambda g, x: identity(x.shape[0]) @ x, lambda g, x: x @ identity(x.shape[1]),
    lambda g, x: hadamard(x, ones(*x.shape)), lambda g, x: x + zeros(*x.shape),
    lambda g, x: (lambda P: P.T @ P @ x)(g.permutation(x.shape[0], False)),
    lambda g, x: (lambda A: x + A - A)(g.letter(*x.shape)),
]  # fmt: skip


def replaced_at(x, place, new):
    """x with the sub-expression at a path of argument numbers replaced."""
    if not place:
        return new
    k, *rest = place
    return x.rebuilt([*x.args[:k], replaced_at(x.args[k], rest, new), *x.args[k + 1 :]])


def places(x, path=()):
    """(path, sub-expression) of x and all below it."""
    yield path, x
    for k, y in enumerate(x.args):
        yield from places(y, (*path, k))


def rewritten(g, x):
    """x with one place written otherwise."""
    for _ in range(6):
        path, y = g.choice(list(places(x)))
        new = g.choice(REWRITES)(g, y) if y.shape[0] in NAMES and y.shape[1] in NAMES else None
        if new is not None:
            return replaced_at(x, path, new)
    return x


# ── Near misses ───────────────────────────────────────────────────────────────────────────


def _sign(g, x):
    return -x


def _transpose(g, x):
    if x.operation is ops.TRANSPOSE:
        return x.args[0]
    return x.T


def _axis(g, x):
    if x.operation.defined and x.args:
        return x.operation.build(*[y.T for y in x.args], *map(vocabulary.argument_of, x.params)).T


def _index(g, x):
    if x.operation is ops.OVER:
        index = x.params[0]
        other = head("e" if index.args[0].name == "a" else "a", h)
        return over(other, x.args[0])  # the old index is free now


def _one_index_for_both(g, x):
    if x.operation is ops.LETTER and len(x.params) == 3:
        return ops.Expression(
            ops.LETTER, params=[x.params[0], x.params[1], x.params[1]], shape=x.shape
        )


def _dropped(g, x):
    if x.operation in (ops.SUM_OF, ops.PRODUCT_OF) and len(x.args) > 1:
        args = list(x.args)
        args.pop(g.randrange(len(args)))
        return args[0] if len(args) == 1 else x.rebuilt(args)
    return x.args[0] if x.operation is ops.SCALED else None


def _swapped(g, x):
    if len(x.args) > 1:
        i, j = g.sample(range(len(x.args)), 2)
        if x.args[i].shape != x.args[j].shape and x.operation is not ops.PRODUCT_OF:
            return None  # such an expression cannot be written down
        args = list(x.args)
        args[i], args[j] = args[j], args[i]
        return x.rebuilt(args)


def _factor(g, x):
    return g.choice((2, sp.Rational(1, 2), n, 1 / d, tau)) * x


def _swapped_size(g, x):
    if x.operation is ops.SCALED and x.params[0].free_symbols & {n, m, d, h}:
        old = sorted(x.params[0].free_symbols & {n, m, d, h}, key=str)[0]
        return x.params[0].xreplace({old: g.choice([k for k in (n, m, d) if k != old])}) * x.args[0]


def _off_by_one(g, x):
    if x.operation is ops.SCALED:
        return (x.params[0] + g.choice((1, -1))) * x.args[0]
    if x.operation is ops.POSITIONS:
        return x - ones(*x.shape)
    if x.operation is ops.TERM:
        family, at = x.params
        return ops.Sequence.of(family)[NEXT if at != NEXT else t]
    if x.operation is ops.PREFIX:
        return x - ones(*x.shape) if x.shape[1] == 1 else None


def _wrong_letter(g, x):
    if x.operation is ops.LETTER and len(x.params) == 1 and x.params[0].kind == "matrix":
        return g.letter(*x.shape)


def _permutation(g, x):
    if x.operation is ops.PERMUTATION:
        return g.choice((x.T, x @ x, identity(x.shape[0]), g.permutation(x.shape[0])))


def _missing_bias(g, x):
    if x.operation is ops.SUM_OF:
        return x.args[0]


def _other_word(g, x):
    if x.operation.word in PLAIN_WORDS:
        return g.choice([w for w in PLAIN_WORDS if w is not x.operation.word])(*x.args)
    if x.operation.word in NORMS:
        return g.choice([w for w in NORMS if w is not x.operation.word])(*x.args, eps)
    if x.operation.word is masked_softmax:
        return softmax(x.args[1])


def _other_eps(g, x):
    if x.operation.word in NORMS:
        return x.operation.word(x.args[0], 2 * x.params[0])


def _squared(g, x):
    return hadamard(x, x)


def _ones(g, x):
    return g.choice((ones, zeros))(*x.shape)


def _first_for_both(g, x):
    if len(x.args) == 2 and x.args[0].shape == x.args[1].shape:
        return x.rebuilt([x.args[0], x.args[0]])


def _entry_for_product(g, x):
    if x.operation is ops.PRODUCT_OF and len(x.args) == 2 and x.args[0].shape == x.args[1].shape:
        return hadamard(*x.args)


def _diagonal(g, x):
    if x.shape[0] == x.shape[1]:
        return hadamard(x, identity(x.shape[0]))


def _other_function(g, x):
    swap = {exp: PHI, PHI: PSI, cos: sin, sin: cos}
    name = x.operation.name
    for old, new in swap.items():
        if name == old(x).operation.name:
            return new(x.args[0])


def _blocks(g, x):
    if x.operation is ops.LAST_ROW and x.args[0].operation is ops.STACK:
        return last_row(x.args[0].args[0])


def _inside_out(g, x):
    """f(g(x)) for g(f(x))."""
    inner = x.args[0] if len(x.args) == 1 else None
    if inner is not None and len(inner.args) == 1 and x.shape == inner.shape == inner.args[0].shape:
        return inner.rebuilt([x.rebuilt([inner.args[0]])])


MUTATIONS = [_sign, _transpose, _axis, _index, _one_index_for_both, _dropped, _swapped, _factor, _swapped_size,
             _off_by_one, _wrong_letter, _permutation, _missing_bias, _other_word, _other_eps, _squared, _ones,
             _first_for_both, _entry_for_product, _diagonal, _other_function, _blocks, _inside_out]  # fmt: skip


def mutated(g, x):
    """(x with one place changed, the name of the change)."""
    for _ in range(40):
        mutation = g.choice(MUTATIONS)
        path, y = g.choice(list(places(x)))
        try:
            new = mutation(g, y)
        except KeyError:  # a shape that has no letters
            continue
        if new is not None and new.shape == y.shape and new != y:
            return replaced_at(x, path, new), mutation.__name__[1:].replace("_", " ")
    raise NoLine


# ── Lines ─────────────────────────────────────────────────────────────────────────────────


def _true(g):
    name = g.choice(list(SCHEMAS))
    left, right, *more = SCHEMAS[name](g)
    reasons = tuple(r for r in more if not isinstance(r, Repair))
    repairs = tuple(r for r in more if isinstance(r, Repair))
    before, claim = in_context(g, left, right)
    if g.random() < 0.5 and not any(isinstance(r, (Instance, Given)) for r in reasons):
        before, claim = claim, before
    for _ in range(g.choice((0, 0, 1, 2))):
        claim = rewritten(g, claim)
    return Line("", "true", before, claim, reasons, repairs, name)


def _widened(g, line):
    """The line with all the reasons there are."""
    words = {x.operation.word for side in (line.before, line.claim) for x in side.walk()} - {None}
    kept = [r for r in line.reasons if isinstance(r, (Instance, Given))]
    definitions = [unfold(w) for w in sorted(words, key=lambda w: w.name)]
    return replace(
        line, reasons=(*kept, *definitions, *EVERY_LAW), about=line.about + "; every reason"
    )


def _near_miss(g):
    line = _true(g)
    claim, change = mutated(g, line.claim)
    line = replace(line, kind="near miss", claim=claim, about=f"{line.about}; {change}")
    return _widened(g, line) if g.random() < 0.5 else line


def _arbitrary(g):
    """Two expressions over few letters, small enough to coincide at times."""
    r, c = g.choice((n, m, sp.S(1))), g.choice((n, m, sp.S(1)))
    before, claim = (g.expression(r, c, g.choice((1, 1, 2))) for _ in range(2))
    line = Line("", "arbitrary", before, claim, (), (), "two expressions")
    return _widened(g, line)


MAKERS = {"true": _true, "near miss": _near_miss, "arbitrary": _arbitrary}
WEIGHTS = {"true": 4, "near miss": 5, "arbitrary": 1}
LARGEST = 30  # sub-expressions on a side


def line_of(seed):
    """The line of a seed, which is a string "base:number"."""
    g = Draw(seed)
    kind = g.choices(list(WEIGHTS), WEIGHTS.values())[0]
    while True:
        try:
            line = MAKERS[kind](g)
        except (NoLine, ProofError, KeyError):  # what cannot be written down is no line
            continue
        if max(len(list(line.before.walk())), len(list(line.claim.walk()))) <= LARGEST:
            return replace(line, seed=seed)
