"""A name has one meaning in everything that is printed together.

Most cases were once attacks on the checker.
"""

import pytest
from derivation.language import vocabulary
from derivation.language.letters import PRINTED
from derivation.proving.reasons import Given
from shared_letters import *

pytestmark = pytest.mark.usefixtures("without_torch")
W, U, V = Heads("W", h, n, n), Heads("U", h, n, n), Heads("V", h, n, n)
Z, v, x = matrix("Z", n, n), matrix("v", n), matrix("x", 1)
z, L, e = sequence("z", n), causal(n), scalars("e")
twice, thrice = define("f", lambda x: 2 * x), define("f", lambda x: 3 * x)
phi, prime, at = entrywise("p"), head("a'", h), scalars("c")
steps = recursion("c", lambda: ones(1), lambda row, t: row + ones(1))


def start(x):
    return lambda: Derivation("T", x())


def scaled():
    return theorem(over(a, c * W[a]), c * over(a, W[a]))


def slope():
    return theorem(derivative(exp(s * A), s) * Z, A * Z)


def words_within_two_tables():
    proof = line(2 * A, entries(twice(A)), unfold(twice)).by(3 * A - A, unfold(twice))
    return proof.by(entries(thrice(A)) - A, unfold(thrice))


def a_word_called_like_a_bound_scalar():
    called_s = define("s", lambda x: 2 * x)
    return line(derivative(called_s(s * A), s), 2 * A, unfold(called_s))


def bound_beside(**letters):
    return theorem(over(a, V[b]) @ U[prime], h * V[b] @ U[prime])(**letters)


def a_condition_about_another_word():
    """The running sum called r occurs only in the condition, beside another word called r."""
    constant = recursion("r", lambda z: ones(z[1].shape[1]).T, lambda row, t, z: row)
    ratio = define("ratio", lambda z, t: entries(of_itself(running(t, z))))
    return line(ratio(z, t) + constant(t, z), one.T + constant(t, z), unfold(ratio))


def two_recursions_in_conditions():
    """Two recursions called r, a running sum and 0, would print the same condition r ≠ 0."""
    y, known, x = sequence("y", m), [], matrix("x", 1, 1)
    nothing = recursion("r", lambda z: z[1] - z[1], lambda row, t, z: row + row)
    nothing(t, sequence("q"))
    words = [define(f"w_{k}", lambda X, k=k: k * X) for k in (2, 3)]
    for k, word, row in zip((2, 3), words, (running(t, y), nothing(t, y))):
        whole = k * x @ of_itself(row @ ones(m))
        known.append(line(word(x), whole, unfold(word)).by(k * x).qed())
    proof = line(words[0](x) + words[1](x), 2 * x + words[1](x), known[0]())
    return proof.by(5 * x, known[1]())


running = recursion("r", lambda z: z[1], lambda row, t, z: row + z[join(t, 1)])
of_itself = lambda x: tabulate(lambda i, j: entry_of(x, i, j) / entry_of(x, i, j), *x.shape)
PLACES = table(lambda i, j: 2 * entry_of(A, i, j) * entry_of(v, i))
test_it_is_refused = refused({
    # bound names
    "the name a of an index is used for something else": lambda: scaled()(c=scalars("a")),
    "the name s of an index": start(lambda: derivative(s * W[head("s", h)], s)),
    "or has the name of a letter": {
        "a word called like a bound scalar": a_word_called_like_a_bound_scalar,
        "a function called like an index": lambda: line(
            over(a, entrywise("a")(A)), h * entrywise("a")(A)),
        "a function called like a scalar": start(
            lambda: scalars("p") * table(lambda i, j: phi(entry_of(A, i, j)))),
    },
    "s is bound within itself": start(
        lambda: derivative(derivative(exp(s * A), s) @ (s * A), s)),
    "used free and bound": lambda: bound_beside(b=a),
    # two letters of one name
    "used with two shapes or kinds": {
        "two shapes": start(lambda: matrix("X", n, d) @ matrix("X", d, n)),
        "a permutation and a matrix": start(lambda: permutation("A", n) @ A),
        "a mask and a matrix": start(lambda: mask("A", n, n) + A),
        "a letter in Greek and by name": start(
            lambda: permutation("Π", n) @ A + matrix("Pi", n, n) @ A),
        "a slope along the name of a matrix": lambda: slope()(Z=matrix("s", n, n)),
        "two scalars": start(lambda: derivative(s * scalars("s", positive=True) * A, s)),
        "a scalar and a size": start(lambda: derivative(scalars("n") * n * A, scalars("n"))),
    },
    "prints like another": {
        "a subscript and none": start(lambda: matrix("x_1", n, n) + matrix("x1", n, n)),
    },
    # words, and the book's own symbols
    "used with two definitions": words_within_two_tables,
    "two things called r": a_condition_about_another_word,
    "two words r": two_recursions_in_conditions,
    "prints like the book's own": {
        "a scalar L": start(lambda: derivative(scalars("L") * L, scalars("L"))),
        "a scalar E": start(
            lambda: table(lambda i, j: scalars("E") * entry_of(expectation(R * R), i, j))),
        "a matrix E": start(lambda: expectation(matrix("E", n, n))),
        "a permutation L": start(lambda: permutation("L", n)),
    },
    "prints like the book's own exp": start(lambda: e * exp(A)),
    "prints like the slope of p": start(lambda: scalars("p'") * phi(A)),
    # letters that look like printed entries
    "prints like an entry of another letter": {
        "a head": start(lambda: over(a, W[a]) + matrix("W_a", n, n)),
        "a head with a subscript": start(
            lambda: over(a, Heads("W_Q", h, n, n)[a]) + matrix("W_Q_a", n, n)),
        "a term of a sequence": start(lambda: z[n] @ matrix("z_n", n, n)),
        "a draw like a term": start(
            lambda: expectation(z[1].T @ random_matrix("z1", 1, n, scalars("p", positive=True)))),
        "a place of a recursion": start(lambda: steps(1) + matrix("c_1", 1, 1)),
        **{f"an entry of a table, {name}": start(lambda name=name: scalars(name) * PLACES)
           for name in ("A_ij", "A_3_j", "v_3", "v_α", "A_1")},
    },
})  # fmt: skip


def test_names_that_do_not_clash_are_accepted():
    assert line(A + A, 2 * A).qed("Theorem 3.2b").title == "Theorem 3.2b (T)"
    assert (
        slope()(Z=matrix("Y", n, n)) and scaled()(c=scalars("b")) and bound_beside(b=head("c", h))
    )
    for x in (
        matrix("A_ij", n, n) @ A,  # no entries are printed here
        steps(1) + matrix("c_0", 1, 1),
        over(a, Heads("W_Q", h, n, n)[a]) + matrix("W_K", n, n),  # no letter is called W here
        scalars("E") * A,  # no mean is printed here
    ):
        assert Derivation("T", x)
    layer = lambda x, at=a: over(at, softmax(x @ W[at]) @ x)
    assert line(layer(layer(A)), layer(layer(A), b)), "heads within heads"
    assert line(layer(layer(P @ A)) - layer(layer(P @ A)), zeros(n, n))
    same = define("derivative", lambda X: X)
    assert "derivative(A)" in str(theorem(same(A), A, unfold(same)))


# ── Single names ─────────────────────────────────────────────────────────────────────────────

UNPRINTABLE = "t²s|Rᵀ|a b|x__2|W_|А|ϵ|f'g|E=1|argumentʼ|ς|σg|А_Q|soft\u200bmax".split("|")
WORDS = (
    "softmax exp Det Softmax inverse logit swish median Attention xbar Alpha norm GELU_2".split()
)
BOOKS_OWN = "softmax exp LN LN_1 softmax1 last diag sum softmax_1 softmax_L".split()
NO_NAMES = ["two words", "f g", "f²", ""]
STEERING = ["\x1b[8m", "a\r b", "a\u2028b", "a \u202e b", "$ = 3 A$", r"\\ &= 3 A", "}", "{",
            "x)\n  = 3 A", "T:\n    A + A", 3]  # fmt: skip


def named(names, make):
    return {repr(name): lambda name=name: make(name) for name in names}


#: Names that can be confused, belong to the book, are malformed or contain control characters.
test_a_bad_name_is_refused = refused({
    "no name of a letter": named(UNPRINTABLE, lambda q: matrix(q, n, n))
    | {"of an index": lambda: head("t²s", n), "of a permutation": lambda: permutation("W_", n)},
    "the book already uses the name": named(
        [*BOOKS_OWN, *"EIL", "tanh", "cos"], lambda q: define(q, lambda x: x))
    | {"of a function": lambda: entrywise("softmax")},
    "a word cannot be called": named(NO_NAMES, lambda q: define(q, lambda x: x)),
    "a function cannot be called": named([*NO_NAMES, "f'"], entrywise),
    "in Latin and Greek letters": {
        "a title with a Cyrillic letter": lambda: Derivation("definition of sоftmax", A),
        "a hypothesis with a Cyrillic letter": lambda: Given(A, B, "аlgebra"),
        "a title that closes its quotation marks": lambda: Derivation("T”, algebra, “", A)},
    'must be like "Theorem 3.2"': named(
        ["algebra", "definition of softmax", "Theorem", "Theorem 3.2 (x)"],
        lambda q: line(A + A, 2 * A).qed(q)),
    "a note must be one line of words": named(
        [*STEERING, type("Any", (str,), {})("a")], lambda words: Derivation("T", A + A).by(2 * A, note=words)),
    "one line of words": {
        "a title": lambda: Derivation("}", A + A),
        "a hypothesis": lambda: Given(A, B, "{"),
        "a label": lambda: line(A + A, 2 * A).qed("a\r b"),
    },
})  # fmt: skip


@pytest.mark.parametrize("name", WORDS)
def test_a_letter_never_looks_like_a_word(name):
    """A letter named like a word is printed in italics or quotation marks, a word in neither."""
    x, (base, *_) = matrix(name, n, n) @ (A + B), name.split("_")
    assert repr(x).startswith(f'"{base}"') and rf"\mathit{{{base}}}" in x._repr_latex_()


REASONS = ["algebra", "by algebra", "definition  of softmax", "induction on n", "Lemma 1"]


@pytest.mark.parametrize("name", REASONS)
def test_the_title_of_a_lemma_is_printed_in_quotation_marks(name):
    lemma = Derivation(name, softmax(A)).by(softmax(A) + 0 * A).qed()
    assert f"-- “{' '.join(name.split())}”" in repr(lemma())


def test_every_word_of_the_book_is_a_reserved_name():
    words = {x.name for x in vars(vocabulary).values() if isinstance(x, vocabulary.Word)}
    assert {w.removeprefix("masked ").rstrip("₁") for w in words} <= PRINTED


def test_no_letter_prints_like_an_entry_in_a_condition():
    y, inverse = matrix("y", n), tabulate(lambda i, j: 1 / entry_of(v, i), n)
    proof = Derivation("T", y * v).by(y * v * inverse * v).by(y * v).qed()
    assert shown(proof(y=matrix("w", n))) == ["v[k] ≠ 0 for every k"]
    refuse(lambda: proof(y=matrix("v1", n)), "prints like an entry")
