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
Z, v, x, z = matrix("Z", n, n), matrix("v", n), matrix("x", 1), sequence("z", n)
e = scalars("e")
twice, thrice = define("f", lambda x: 2 * x), define("f", lambda x: 3 * x)
phi, prime = entrywise("p"), head("a'", h)
steps = recursion("c", lambda: ones(1), lambda row, t: row + ones(1))
running = recursion("r", lambda z: z[1], lambda row, t, z: row + z[join(t, 1)])
of_itself = lambda x: tabulate(lambda i, j: entry_of(x, i, j) / entry_of(x, i, j), *x.shape)
slope = theorem(derivative(exp(s * A), s) * Z, A * Z)
bound = theorem(over(a, V[b]) @ U[prime], h * V[b] @ U[prime])
PLACES = table(lambda i, j: 2 * entry_of(A, i, j) * entry_of(v, i))


def start(x):
    return lambda: Derivation("T", x())


def a_condition_about_another_word():
    """The running sum called r occurs only in the condition, beside another word called r."""
    constant = recursion("r", lambda z: ones(z[1].shape[1]).T, lambda row, t, z: row)
    ratio = define("ratio", lambda z, t: entries(of_itself(running(t, z))))
    return line(ratio(z, t) + constant(t, z), one.T + constant(t, z), unfold(ratio))


test_a_faulty_use_is_refused = refused({
    # bound names
    "the name s of an index": start(lambda: derivative(s * W[head("s", h)], s)),
    "s is bound within itself": start(
        lambda: derivative(derivative(exp(s * A), s) @ (s * A), s)),
    "used free and bound": lambda: bound(b=a),
    # two letters of one name
    "used with two shapes or kinds": {
        "two shapes": start(lambda: matrix("X", n, d) @ matrix("X", d, n)),
        "a mask and a matrix": start(lambda: mask("A", n, n) + A),
        "a letter in Greek and by name": start(lambda: P @ A + matrix("Pi", n, n) @ A),
        "a slope along the name of a matrix": lambda: slope(Z=matrix("s", n, n)),
        "a subscript and none": start(lambda: matrix("x_1", n, n) + matrix("x1", n, n)),
    },
    # words, and the book's own symbols
    "used with two definitions": lambda: line(2 * A, entries(twice(A)), unfold(twice)).by(
        3 * A - A, unfold(twice)).by(entries(thrice(A)) - A, unfold(thrice)),
    "two things called r": a_condition_about_another_word,
    "prints like the book's own": {
        "a scalar E": start(
            lambda: table(lambda i, j: scalars("E") * entry_of(expectation(R * R), i, j))),
        "a scalar e": start(lambda: e * exp(A)),
    },
    "prints like the slope of p": start(lambda: scalars("p'") * phi(A)),
    # letters that look like printed entries
    "prints like an entry of another letter": {
        "a term of a sequence": start(lambda: z[n] @ matrix("z_n", n, n)),
        "a place of a recursion": start(lambda: steps(1) + matrix("c_1", 1, 1)),
        **{f"an entry of a table, {name}": start(lambda name=name: scalars(name) * PLACES)
           for name in ("A_ij", "A_3_j", "v_α", "A_1")},
    },
})  # fmt: skip


def test_names_that_do_not_clash_are_accepted():
    assert line(A + A, 2 * A).qed("Theorem 3.2b").title == "Theorem 3.2b (T)"
    assert slope(Z=matrix("Y", n, n)) and bound(b=head("c", h))
    for x in (
        matrix("A_ij", n, n) @ A,  # no entries are printed here
        steps(1) + matrix("c_0", 1, 1),
        over(a, Heads("W_Q", h, n, n)[a]) + matrix("W_K", n, n),  # no letter is called W here
        scalars("E") * A,  # no mean is printed here
    ):
        assert Derivation("T", x)


# ── Single names ─────────────────────────────────────────────────────────────────────────────

UNPRINTABLE = ["t²s", "a b", "x__2", "W_", "А", "f'g", "argumentʼ", "soft\u200bmax"]
STEERING = ["\x1b[8m", "a \u202e b", "$ = 3 A$", "}", "x)\n  = 3 A", 3]


def named(names, make):
    return {repr(name): lambda name=name: make(name) for name in names}


#: Names that can be confused, belong to the book, are malformed or contain control characters.
test_a_bad_name_is_refused = refused({
    "no name of a letter": named(UNPRINTABLE, lambda q: matrix(q, n, n))
    | {"of an index": lambda: head("t²s", n), "of a permutation": lambda: permutation("W_", n)},
    "the book already uses the name": named(
        ["softmax", "LN_1", "softmax1", "last", "softmax_L", *"EIL", "cos"],
        lambda q: define(q, lambda x: x)) | {"of a function": lambda: entrywise("softmax")},
    "a word cannot be called": named(["two words", "f²", ""], lambda q: define(q, lambda x: x)),
    "a function cannot be called": named(["f g", "", "f'"], entrywise),
    "in Latin and Greek letters": {
        "a title with a Cyrillic letter": lambda: Derivation("definition of sоftmax", A),
        "a hypothesis with a Cyrillic letter": lambda: Given(A, B, "аlgebra"),
        "a title that closes its quotation marks": lambda: Derivation("T”, algebra, “", A)},
    'must be like "Theorem 3.2"': named(
        ["definition of softmax", "Theorem", "Theorem 3.2 (x)"], line(A + A, 2 * A).qed),
    "one line of words": named(
        [*STEERING, type("Any", (str,), {})("a")], lambda q: Derivation("T", A).by(1 * A, note=q))
    | {"a title": lambda: Derivation("}", A + A), "a hypothesis": lambda: Given(A, B, "{"),
       "a label": lambda: line(A + A, 2 * A).qed("a\r b")},
})  # fmt: skip


@pytest.mark.parametrize("name", ["softmax", "Alpha", "GELU_2"])
def test_a_letter_never_looks_like_a_word(name):
    """A letter named like a word is printed in italics or quotation marks, a word in neither."""
    x, (base, *_) = matrix(name, n, n) @ (A + B), name.split("_")
    assert repr(x).startswith(f'"{base}"') and rf"\mathit{{{base}}}" in x._repr_latex_()


def test_every_word_of_the_book_is_a_reserved_name():
    words = {x.name for x in vars(vocabulary).values() if isinstance(x, vocabulary.Word)}
    assert {w.removeprefix("masked ").rstrip("₁") for w in words} <= PRINTED


def test_no_letter_prints_like_an_entry_in_a_condition():
    y, inverse = matrix("y", n), tabulate(lambda i, j: 1 / entry_of(v, i), n)
    proof = Derivation("T", y * v).by(y * v * inverse * v).by(y * v).qed()
    assert shown(proof(y=matrix("w", n))) == ["v[k] ≠ 0 for every k"]
    refuse(lambda: proof(y=matrix("v1", n)), "prints like an entry")
