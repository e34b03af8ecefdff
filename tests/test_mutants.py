"""Each deliberate mistake is the one it says it is, and the notebooks notice it."""

import ast

import pytest
from mutants.operators import KINDS, mutants_of

#: (kind, source, every text that this kind makes of it)
MADE = [
    ("an operator exchanged", "a - b", ["a + b"]),
    ("an operator exchanged", "a @ b * c", ["a * b * c", "a @ b / c"]),
    ("an operator exchanged", "s += a", ["s -= a"]),
    ("an operator exchanged", "'a' * 3 + [b]", []),
    ("a sign", "-x + y", ["x + y"]),
    ("a sign", "a @ b @ c", ["(-(a @ b @ c))"]),
    ("a sign", "x[-1], 3 * normal(4).sign()", []),
    ("a transpose", "(a + b).T", ["(a + b)"]),
    ("a transpose", "q @ k.mT", ["q @ k", "q.mT @ k.mT"]),
    ("a transpose", "x.transpose(1, 2)", ["x"]),
    ("an axis", "x.sum(-1)", ["x.sum(-2)"]),
    ("an axis", "torch.softmax(x, 0)", ["torch.softmax(x, 1)"]),
    ("an axis", "f(x, dim=(2, 3))", ["f(x, dim=(1, 3))"]),
    ("an axis", "softmax(x)", []),
    ("arguments swapped", "attend(q, k, *v)", ["attend(k, q, *v)"]),
    ("arguments swapped", "a @ (b - c)", ["((b - c) @ a)", "a @ ((c - b))"]),
    ("arguments swapped", "error(a, b), x.by(a, b, c), matrix('Q', m, n), f('a', b)", []),
    ("a term or factor dropped", "x * y", ["x", "y"]),
    ("a term or factor dropped", "x - y", ["x", "(-y)"]),
    ("a term or factor dropped", "x / y", ["x"]),
    ("a term or factor dropped", "x**2", ["x"]),
    ("a term or factor dropped", "x and y and z", ["x", "z"]),
    ("off by one", "x[1:n]", ["x[2:n]", "x[1:n + 1]"]),
    ("off by one", "x[-1]", ["x[0]"]),
    ("off by one", "x**2", ["x**3"]),
    ("off by one", "range(3), ones(m), zeros(n)", ["range(4), ones(m), zeros(n)",
                                                   "range(3), ones(n), zeros(n)",
                                                   "range(3), ones(m), zeros(m)"]),
    ("off by one", "normal(8, 16), matrix('Q', m, n)", []),
    ("a bias left out", "nn.Linear(4, 4, bias=False)", ["nn.Linear(4, 4, bias=True)"]),
    ("a bias left out", "x @ W + b_K", ["(x @ W)"]),
    ("a bias left out", "x += self.bias", ["pass"]),
    ("a bias left out", "x + y", []),
    ("a mask inverted", "~seen | late", ["seen | late", "~seen & late"]),
    ("a mask inverted", "s.masked_fill(m, 0)", ["s.masked_fill(~(m), 0)"]),
    ("a mask inverted", "x.tril()", ["x.triu()"]),
    ("a mask inverted", "f(x, is_causal=True, attn_mask=m)", ["f(x, is_causal=False, attn_mask=m)",
                                                              "f(x, is_causal=True, attn_mask=None)"]),
    ("a mask inverted", "where(c, x, y)", ["where(c, y, x)"]),
    ("eval for train", "norm.eval()(x)", ["norm.train()(x)"]),
    ("eval for train", "F.dropout(x, training=True)", ["F.dropout(x, training=False)"]),
    ("a comparison turned", "a < b <= c", ["a >= b <= c", "a < b > c"]),
    ("a comparison turned", "a == b", ["a != b"]),
    ("a comparison turned", "a in b, not c", ["a not in b, not c", "a in b, c"]),
    ("a comparison turned", "assert proved", ["assert not (proved)"]),
    ("a tolerance", "assert x < 1e-12", ["assert x < 1e-06"]),
    ("a tolerance", "allclose(x, y, atol=1e-5)", ["allclose(x, y, atol=10.0)"]),
    ("a tolerance", "1e-9 > x > 1e-12", ["0.001 > x > 1e-12"]),
    ("a tolerance", "x > 1e-5, x < 0.5, layer_norm(x, eps=1e-5)", []),
    ("a statement deleted", "def f(x):\n    return x\nf(1)", ["def f(x):\n    pass\nf(1)",
                                                              "def f(x):\n    return x\npass"]),
    ("a statement deleted", "import a\nassert b\n'words'", []),
]  # fmt: skip


def made(kind, source):
    return [mutant.source for mutant in mutants_of(source) if mutant.kind == kind]


@pytest.mark.parametrize("kind, source, expected", MADE)
def test_it_makes_exactly_this(kind, source, expected):
    assert sorted(made(kind, source)) == sorted(expected)


def test_every_kind_is_shown_here():
    assert {kind for kind, _, expected in MADE if expected} == set(KINDS)


def test_words_are_left_alone():
    quiet = (
        '"""a + b"""\nassert x, f"{a + b} of {c}"\ndef f(y: int | None = 1, z="a - b"):\n    "c"\n'
    )
    assert [mutant.after for mutant in mutants_of(quiet)] == ['assert not (x), f"{a + b} of {c}"']


def test_a_mutant_compiles_and_is_like_no_other():
    source = "for x in range(3):\n    y = x\n    assert y + 1 > x\n"
    mutants = mutants_of(source)
    assert len({mutant.source for mutant in mutants} | {source}) == len(mutants) + 1
    for mutant in mutants:
        ast.parse(mutant.source)


def test_it_says_where_it_is_and_leaves_the_rest():
    source = "é = 'ä'  # why\nx = (a +  # one\n     é - b)\n"
    minus = next(m for m in mutants_of(source) if m.after.endswith("é + b)"))
    assert (minus.kind, minus.line, minus.before) == ("an operator exchanged", 3, "é - b)")
    assert minus.source == source.replace("é - b", "é + b")
    assert not any("(a -  #" in mutant.source for mutant in mutants_of(source))


def test_what_is_no_python_is_an_error():
    with pytest.raises(SyntaxError):
        mutants_of("a +")
