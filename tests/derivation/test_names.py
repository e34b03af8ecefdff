"""One name, one meaning, in all that is printed together: what an attack on the print found."""

import pytest
from derivation import vocabulary
from derivation.letters import PRINTED
from derivation.reasons import Given
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_alarm")
W, U, V = Heads("W", h, n, n), Heads("U", h, n, n), Heads("V", h, n, n)
Z, v, x = matrix("Z", n, n), matrix("v", n), matrix("x", 1)
z, L, e = sequence("z", n), causal(n), scalars("e")
twice, thrice = define("f", lambda x: 2 * x), define("f", lambda x: 3 * x)
phi, prime, at = entrywise("p"), head("a'", h), scalars("c")
steps = recursion("c", lambda: ones(1), lambda row, t: row + ones(1))


def table(entry, rows=n, columns=n):
    return tabulate(entry, rows, columns)


def within(x):
    """The same, in index form."""
    return table(lambda i, j: entry_of(x, i, j))


def start(x):
    return lambda: Derivation("T", x() if callable(x) else x)


def scaled():
    return theorem(over(a, c * W[a]), c * over(a, W[a]))


def slope():
    return theorem(derivative(exp(s * A), s) * Z, A * Z)


def words_within_two_tables():
    proof = line(2 * A, within(twice(A)), unfold(twice)).by(3 * A - A, unfold(twice))
    return proof.by(within(thrice(A)) - A, unfold(thrice))


def a_word_called_like_a_bound_scalar():
    called_s = define("s", lambda x: 2 * x)
    return line(derivative(called_s(s * A), s), 2 * A, unfold(called_s))


def bound_beside(**letters):
    return theorem(over(a, V[b]) @ U[prime], h * V[b] @ U[prime])(**letters)


PLACES = table(lambda i, j: 2 * entry_of(A, i, j) * entry_of(v, i))
AN_ENTRY, TWO_KINDS = "prints like an entry of another letter", "used with two shapes or kinds"
REFUSED = {
    # what is bound
    "an index called like a scalar": (
        lambda: scaled()(c=scalars("a")), "the name a of an index is used for something else"),
    "a slope along the name of a matrix": (lambda: slope()(Z=matrix("s", n, n)), TWO_KINDS),
    "a word called like a bound scalar": (
        a_word_called_like_a_bound_scalar, "or called like a letter"),
    "a function called like an index": (
        lambda: line(over(a, entrywise("a")(A)), h * entrywise("a")(A)), "or called like a letter"),
    "an index bound within itself": (start(lambda: over(a, over(a, A) @ W[a])), "a is bound within"),
    "a scalar bound within itself": (
        start(lambda: derivative(derivative(exp(s * A), s) @ (s * A), s)), "s is bound within itself"),
    "an index free and bound": (lambda: bound_beside(b=a), "used free and bound"),
    "two scalars of one name": (
        start(lambda: derivative(s * scalars("s", positive=True) * A, s)), TWO_KINDS),
    "a scalar and a size of one name": (
        start(lambda: derivative(scalars("n") * n * A, scalars("n"))), TWO_KINDS),
    "a scalar and an index of one name": (
        start(lambda: derivative(s * W[head("s", h)], s)), "the name s of an index"),
    "a scalar like the causal mask": (
        start(lambda: derivative(scalars("L") * L, scalars("L"))), "prints like the book's own"),
    # two letters
    "two shapes of a name": (start(lambda: matrix("X", n, d) @ matrix("X", d, n)), TWO_KINDS),
    "a permutation and a matrix": (start(lambda: permutation("A", n) @ A), TWO_KINDS),
    "a mask and a matrix": (start(lambda: mask("A", n, n) + A), TWO_KINDS),
    "a letter in Greek and by name": (
        start(lambda: permutation("Π", n) @ A + matrix("Pi", n, n) @ A), TWO_KINDS),
    "two subscripts": (start(matrix("R_12", n, n) + matrix("R_1_2", n, n)), "prints like another"),
    "a subscript and none": (start(matrix("x_1", n, n) + matrix("x1", n, n)), "prints like another"),
    # words
    "words within an index form": (words_within_two_tables, "used with two definitions"),
    "a function and a scalar": (
        start(lambda: scalars("p") * table(lambda i, j: phi(entry_of(A, i, j)))), "like a letter"),
    "a mean and a scalar": (
        start(lambda: table(lambda i, j: scalars("E") * entry_of(expectation(R * R), i, j))),
        "prints like the book's own"),
    "an exponential and a scalar": (start(lambda: e * exp(A)), "prints like the book's own exp"),
    "a slope and a letter": (start(lambda: scalars("p'") * phi(A)), "prints like the slope of p"),
    # entries
    "a head": (start(lambda: over(a, W[a]) + matrix("W_a", n, n)), AN_ENTRY),
    "a head with a subscript": (
        start(lambda: over(a, Heads("W_Q", h, n, n)[a]) + matrix("W_Q_a", n, n)), AN_ENTRY),
    "a term of a sequence": (start(lambda: z[n] @ matrix("z_n", n, n)), AN_ENTRY),
    "a place of a recursion": (start(lambda: steps(1) + matrix("c_1", 1, 1)), AN_ENTRY),
    "an entry of a table": (start(lambda: scalars("A_ij") * PLACES), AN_ENTRY),
    **{f"an entry at a fixed place, {name}": (
        start(lambda name=name: scalars(name) * PLACES), AN_ENTRY)
       for name in ("A_3j", "v_3", "v_α", "A_1")},
}  # fmt: skip


@pytest.mark.parametrize("attack", REFUSED)
def test_it_is_refused(attack):
    refuse(*REFUSED[attack])


def test_other_names_are_taken():
    assert line(A + A, 2 * A).qed("Theorem 3.2b").title == "Theorem 3.2b (T)"
    assert (
        slope()(Z=matrix("Y", n, n)) and scaled()(c=scalars("b")) and bound_beside(b=head("c", h))
    )
    for x in (
        matrix("A_ij", n, n) @ A,  # no entries are printed here
        steps(1) + matrix("c_0", 1, 1),
        over(a, Heads("W_Q", h, n, n)[a]) + matrix("W_K", n, n),  # no letter is called W here
    ):
        assert Derivation("T", x)


# ── Names by themselves ──────────────────────────────────────────────────────────────────────

UNPRINTABLE = "t²s|Rᵀ|a b|x__2|W_|А|ϵ|f'g|E=1|Rabs|xbar|argumentʼ|ς".split("|")
LATIN = ["Alpha", "Iota", "X_Rho"]
BOOKS_OWN = "softmax exp LN LN_1 softmax1 last diag sum softmax_1 softmax_L".split()
NO_NAMES = ["two words", "f g", "f²", ""]
BAD = [
    *[(make, name, words) for words, names in
      (("no name of a letter", UNPRINTABLE), ("prints like a Latin letter", LATIN))
      for name in names for make in (lambda q: matrix(q, n, n), lambda q: head(q, n),
                                     lambda q: permutation(q, n))],
    *[(lambda q: matrix(q, n, n).function, name, "like a word of the book") for name in BOOKS_OWN],
    *[(lambda q: define(q, lambda x: x), name, "choose another name")
      for name in (*BOOKS_OWN, "E", "I", "L", "tanh", "cos")],
    *[(entrywise, name, "choose another name") for name in (*BOOKS_OWN, "E", "I", "L")],
    *[(lambda q: define(q, lambda x: x), name, "a word cannot be called") for name in NO_NAMES],
    *[(entrywise, name, "a function cannot be called") for name in (*NO_NAMES, "f'")],
    *[(lambda q: Derivation(q, A), name, "print like another reason")
      for name in ("algebra", "definition of softmax", "induction on n", "Lemma 1")],
    *[(lambda q: line(A + A, 2 * A).qed(q), name, 'is like "Theorem 3.2"')
      for name in ("algebra", "definition of softmax", "Theorem", "Theorem 3.2 (x)")],
]  # fmt: skip


@pytest.mark.parametrize("give, name, words", BAD)
def test_a_bad_name_is_refused(give, name, words):
    """What looks like something else, belongs to the book, or is no name or label at all."""
    refuse(lambda: give(name), words)


def test_every_word_of_the_book_is_kept_for_it():
    words = {x.name for x in vars(vocabulary).values() if isinstance(x, vocabulary.Word)}
    assert {w.removeprefix("masked ").rstrip("₁") for w in words} <= PRINTED


@pytest.mark.parametrize("name", ["E", "I", "L"])
def test_no_matrix_is_called_like_the_mean_the_identity_or_the_causal_mask(name):
    for letter in (matrix(name, n, n), permutation(name, n)):
        # in TeX a mean has a letter of its own
        refuse(start(expectation(letter) if name == "E" else letter), "prints like the book's own")
    if name == "E":
        assert Derivation("T", scalars(name) * A)
    else:
        refuse(start(scalars(name) * A), "prints like the book's own")
    beside = lambda: scalars(name) * L @ expectation(A) @ identity(n)
    refuse(start(beside), "prints like the book's own")


STEERING = ["\x1b[8m", "a\r b", "a\u2028b", "a \u202e b", "$ = 3 A$", r"\\ &= 3 A", "}", "{",
            "x)\n  = 3 A", "T:\n    A + A", 3]  # fmt: skip


@pytest.mark.parametrize("words", STEERING)
def test_no_note_and_no_name_steers_the_page(words):
    sum_ = Derivation("T", A + A)
    refuse(lambda: sum_.by(2 * A, note=words), "a note is words in one row")
    refuse(lambda: Derivation(words, A + A), "words in one row")
    refuse(lambda: Given(A, B, words), "words in one row")
    refuse(lambda: line(A + A, 2 * A).qed(words), "words in one row")
