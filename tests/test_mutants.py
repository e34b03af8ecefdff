"""Each deliberate mistake is the one it says it is, and what nothing notices is told from the rest."""

import ast
import json

import pytest
from files import Fault
from mutants import run
from mutants.mistakes import KINDS, Mutant, mutants_of
from mutants.places import ROOT, Module, Notebook, all_places, mutants_in
from mutants_page import RECORD, reason, reasons

#: (kind, source, every text that this kind makes of it)
MADE = [
    ("an operator exchanged", "a @ b * c", ["a * b * c", "a @ b / c"]),
    ("an operator exchanged", "x = all(a) and b", ["x = any(a) and b", "x = all(a) or b"]),
    ("an operator exchanged", "assert all(a) and b, 'a' * 3 + [b]", []),
    ("a sign", "-x + y", ["x + y"]),
    ("a sign", "a @ b @ c", ["-(a @ b @ c)"]),
    ("a sign", "attempt(-x, ...), (a * b).abs(), (a @ b)**2, abs(a * b), 3 * normal(4)", []),
    ("a transpose", "(a + b).T", ["a + b"]),
    ("a transpose", "q @ k.mT", ["q @ k", "q.mT @ k.mT"]),
    ("a transpose", "x.transpose(1, 2)", ["x"]),
    ("an axis", "x.sum(-1)", ["x.sum(-2)"]),
    ("an axis", "torch.softmax(x, 0)", ["torch.softmax(x, 1)"]),
    ("an axis", "f(softmax(x), dim=(2, 3))", ["f(softmax(x), dim=(1, 3))"]),
    ("arguments swapped", "attend(q, k, *v)", ["attend(k, q, *v)"]),
    ("arguments swapped", "a / (b - c)", ["(b - c) / a", "a / (c - b)"]),
    ("arguments swapped", "(a - b).square(), error(a, b), matrix('Q', m, n), f('a', b)", []),
    ("a term or factor dropped", "x * y", ["x", "y"]),
    ("a term or factor dropped", "x - y**2", ["x", "-y ** 2", "x - y"]),
    ("a term or factor dropped", "x and y and z", ["x", "z"]),
    ("a term or factor dropped", "assert x and y", []),
    ("off by one", "x[1:n] + x[-1]", ["x[2:n] + x[-1]", "x[1:n + 1] + x[-1]", "x[1:n] + x[0]"]),
    ("off by one", "range(3) if a < b < 2 else 8", ["range(4) if a < b < 2 else 8",
                                                   "range(3) if a < b <= 2 else 8"]),
    ("off by one", "normal(8, 16), matrix('Q', m, n)", []),
    ("a bias left out", "nn.Linear(4, 4, bias=False)", ["nn.Linear(4, 4, bias=True)"]),
    ("a bias left out", "x @ W + b_K + y", ["x @ W + y"]),
    ("a mask inverted", "~seen", ["seen"]),
    ("a mask inverted", "s.masked_fill(m, 0)", ["s.masked_fill(~m, 0)"]),
    ("a mask inverted", "f(tril(x), attn_mask=m)", ["f(triu(x), attn_mask=m)",
                                                    "f(tril(x), attn_mask=None)"]),
    ("a mask inverted", "where(c, x, y)", ["where(c, y, x)"]),
    ("eval for train", "norm.eval()(x)", ["norm.train()(x)"]),
    ("eval for train", "F.dropout(x, training=True)", ["F.dropout(x, training=False)"]),
    ("a comparison turned", "assert a < b <= c", ["assert not a < b <= c"]),
    ("a comparison turned", "x = a if f(b) else not c", ["x = a if not f(b) else not c",
                                                         "x = a if f(b) else c"]),
    ("a comparison turned", "def f():\n    return True", ["def f():\n    return False"]),
    ("a tolerance", "allclose(x, 1, atol=1e-5) < 1e-12", ["allclose(x, 1, atol=1e-05) < 1e-06",
                                                          "allclose(x, 1, atol=10.0) < 1e-12"]),
    ("a tolerance", "x > 1e-5, x < 0.5, layer_norm(x, eps=1e-5)", []),
    ("a statement deleted", "if x:\n    f(1)", ["pass", "if x:\n    pass"]),
    ("a statement deleted", "import a\nassert b\n'words'", []),
]  # fmt: skip

RULES = Module("notebooks/derivation/kernel/rules.py"), ["tests/derivation/test_kernel.py"]
EXERCISES = Notebook("notebooks/00-exercises.ipynb")
SOFTMAX = Notebook("notebooks/03-softmax-ignores-the-key-bias.ipynb")


@pytest.mark.parametrize("kind, source, expected", MADE)
def test_it_makes_exactly_this(kind, source, expected):
    made = [mutant.source for mutant in mutants_of(source) if mutant.kind == kind]
    assert sorted(made) == sorted(expected)


def test_every_kind_is_shown_here():
    assert {kind for kind, _, expected in MADE if expected} == set(KINDS)


def test_words_are_left_alone_and_the_place_is_told():
    source = (
        '"""a + b"""\ndef f(y: int | None = 1, z="a - b"):\n    raise A(b * c)\n\nx = (é +\n  y)\n'
    )
    told = [(m.line, m.before, m.after) for m in mutants_of(source) if "deleted" not in m.kind]
    assert told == [(5, "x = é + y", after) for after in ("x = é - y", "x = é", "x = y")]


def test_each_kind_has_its_turn():
    mutants = list(mutants_in(SOFTMAX))
    chosen = run.drawn(mutants, len(KINDS), "any")
    possible = {mutant.kind for _, mutant in mutants}
    assert {mutant.kind for _, mutant in chosen} == possible and len(possible) > 8
    assert (
        chosen == run.drawn(mutants, len(KINDS), "any") != run.drawn(mutants, len(KINDS), "other")
    )


def test_what_draws_or_prints_is_left():
    assert {"00-exercises", "kernel.sums", "alarm"} < {place.name for place in all_places()}
    assert not any("plt.show()" in text for text in SOFTMAX.pieces.values())
    assert mutants_of("def show(x):\n    return x + 1", RULES[0].is_left) == []


def test_a_piece_that_is_put_back_changes_nothing():
    module = Module("notebooks/derivation/operations.py")
    text = ast.unparse(ast.parse((ROOT / module.path).read_text(encoding="utf-8")))
    for name, piece in module.pieces.items():
        assert ast.unparse(ast.parse(module.with_piece(name, piece.rstrip()))) == text


@pytest.mark.nightly
@pytest.mark.parametrize("place, judge", [RULES, (EXERCISES, EXERCISES.judge)])
def test_what_is_noticed_is_told_from_what_is_not(place, judge):
    """A mistake, and the same piece without one, written as a mutant is."""
    mistake = next(one for one in mutants_in(place) if one[1].kind == "a comparison turned")
    same = ast.unparse(ast.parse(place.pieces[mistake[0]]))
    none = (mistake[0], Mutant("none", 1, "", "", same))
    assert list(run.unnoticed(place, [mistake, none], judge)) == [none]


@pytest.mark.nightly
def test_tests_that_fail_anyway_are_no_judge():
    with pytest.raises(Fault, match="Without a mistake these tests fail: tests/none.py"):
        list(run.unnoticed(RULES[0], [], ["tests/none.py"]))


def test_every_reason_fits_the_book_as_it_is():
    """A digest that differs: is what the entry says of its piece still true?"""
    for place in all_places():
        for entry in reasons()[place.part].get(place.name, ()):
            if entry["digest"]:  # or its line is no longer there
                assert run.digest(place.pieces[entry["piece"]]) == entry["digest"], entry
            assert entry["why"].endswith("."), entry


def test_whatever_the_record_did_not_notice_has_a_reason():
    for part, there in json.loads(RECORD.read_text(encoding="utf-8")).items():
        assert len(there["survivors"]) <= sum(there["made"].values()) / 10, part
        assert all(reason(part, one) for one in there["survivors"]), part
