"""Each deliberate mistake is the one it says it is, and the notebooks notice it."""

import ast
import os
import subprocess
import sys

import nbformat
import pytest
from mutants import record
from mutants.notebooks import cells_of, draw, in_a_child, pieces
from mutants.operators import KINDS, mutants_of
from mutants.record import KILLED, ROOT, SURVIVED, TIMED_OUT
from nbformat.v4 import new_code_cell, new_notebook, new_output

#: What `make test` tries of `make nightly ONLY=mutants`.
SAMPLE = [ROOT / "notebooks" / "00-exercises.ipynb"]

#: (kind, source, every text that this kind makes of it)
MADE = [
    ("an operator exchanged", "a - b", ["a + b"]),
    ("an operator exchanged", "a @ b * c", ["a * b * c", "a @ b / c"]),
    ("an operator exchanged", "s += a", ["s -= a"]),
    ("an operator exchanged", "'a' * 3 + [b]", []),
    ("a sign", "-x + y", ["x + y"]),
    ("a sign", "attempt(-x, ...), attempt(-y, z)", ["attempt(-x, ...), attempt(y, z)"]),
    ("a sign", "a @ b @ c", ["(-(a @ b @ c))"]),
    ("a sign", "x[-1], 3 * normal(4).sign()", []),
    ("a sign", "(a * b).abs(), (a @ b)**2, abs(a * b)", []),
    ("a transpose", "(a + b).T", ["(a + b)"]),
    ("a transpose", "q @ k.mT", ["q @ k", "q.mT @ k.mT"]),
    ("a transpose", "x.transpose(1, 2)", ["x"]),
    ("an axis", "x.sum(-1)", ["x.sum(-2)"]),
    ("an axis", "torch.softmax(x, 0)", ["torch.softmax(x, 1)"]),
    ("an axis", "f(x, dim=(2, 3))", ["f(x, dim=(1, 3))"]),
    ("an axis", "softmax(x)", []),
    ("arguments swapped", "attend(q, k, *v)", ["attend(k, q, *v)"]),
    ("arguments swapped", "a @ (b - c)", ["((b - c) @ a)", "a @ ((c - b))"]),
    ("arguments swapped", "(a - b).square(), abs(a - b)", []),
    ("arguments swapped", "P @ P @ P, normal(4, seed=a - b)", []),
    ("arguments swapped", "error(a, b), x.by(a, b, c), x.swapaxes(1, 2), matrix('Q', m, n), f('a', b)", []),
    ("a term or factor dropped", "x * y", ["x", "y"]),
    ("a term or factor dropped", "x - y", ["x", "(-y)"]),
    ("a term or factor dropped", "x / y", ["x"]),
    ("a term or factor dropped", "x**2", ["x"]),
    ("a term or factor dropped", "x and y and z", ["x", "z"]),
    ("a term or factor dropped", "assert x and y", []),
    ("a term or factor dropped", "3 * normal(4)", ["3"]),
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


# ---- what runs a notebook with them ----------------------------------------------------


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # that it has threads
@pytest.mark.parametrize(
    "work, fate, words",
    [
        (lambda: "", SURVIVED, ""),
        (lambda: "other stdout", KILLED, "other stdout"),
        (lambda: 1 / 0, KILLED, "ZeroDivisionError: division by zero"),
        (lambda: os._exit(3), KILLED, "the process ended with 768"),
        (lambda: all(iter(int, 1)) or [None for _ in iter(int, 1)], TIMED_OUT, "not done in 1 s"),
    ],
)
def test_a_child_says_how_it_went(work, fate, words):
    assert in_a_child(work, 1) == (fate, words)


def a_notebook(path, *cells):
    """A file with code cells, each a source and what it prints."""
    made = [new_code_cell("import math", execution_count=1, id="imports")]
    for number, (source, printed) in enumerate(cells, 1):
        outputs = [new_output("stream", name="stdout", text=printed)] if printed else []
        made.append(
            new_code_cell(source, outputs=outputs, execution_count=number + 1, id=f"cell-{number}")
        )
    nbformat.write(new_notebook(cells=made), path)
    return path


def made_in(record_file, *options):
    """The command, run on some notebooks; what it says, its exit code, its record."""
    run = subprocess.run(
        [sys.executable, ROOT / "tests" / "mutants" / "run.py", "--workers", "1", "--record",
         record_file, *options],
        env=os.environ | {"MPLBACKEND": "agg"}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert "Traceback" not in run.stderr, run.stderr
    return run.stdout, run.returncode, record.read(record_file)


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Two throw-away notebooks, one of which does not pass as it is, with every mutant."""
    folder = tmp_path_factory.mktemp("notebooks")
    loop = "total = 0\nfor k in range(3):\n    total += k\nprint(total)"
    check = "from_above = total < 1e-3 or total - 0\nassert total == 3 and from_above"
    right = a_notebook(folder / "right.ipynb", (loop, "3\n"), (check, ""))
    wrong = a_notebook(folder / "wrong.ipynb", (loop, "4\n"))
    return made_in(folder / "mutants.json", "--per-notebook", "100", right, wrong)


def test_what_a_notebook_notices_is_told_from_what_it_does_not(small):
    said, code, kept = small
    entry = kept["parts"]["notebooks"]["places"]["right"]
    tried = record.summed(entry["tried"].values())
    assert code == 1 and sum(tried.values()) == entry["possible"] == 17
    assert entry["tried"]["an operator exchanged"] == {KILLED: 1, TIMED_OUT: 0, SURVIVED: 1}
    unnoticed = {(one["piece"], one["after"]) for one in entry["survivors"]}
    assert ("cell-2", "from_above = total < 1e-3 or total + 0") in unnoticed
    assert not any("print" in after or "range" in after for _, after in unnoticed)
    assert "WHY?" in said and "Mend the check, or say in tests/mutants/equivalent.yml" in said


def test_a_notebook_that_does_not_pass_is_named_and_not_counted(small):
    said, _, kept = small
    assert "wrong.ipynb does not pass as it is: as it is: cell cell-1: other stdout" in said
    assert "wrong" not in kept["parts"]["notebooks"]["places"]


def test_it_draws_every_kind_in_its_turn():
    cells = cells_of(ROOT / "notebooks" / "03-softmax-ignores-the-key-bias.ipynb")
    possible, drawn = draw(cells, len(KINDS), "any")
    kinds = [mutant.kind for mutants in drawn.values() for mutant in mutants]
    assert len(kinds) == len(KINDS) < possible and len(set(kinds)) >= len(KINDS) - 1
    assert draw(cells, 20, "any") == draw(cells, 20, "any") != draw(cells, 20, "other")
    assert all(cells[number].mutated for number in drawn)
    assert not any(c.mutated for c in cells if "plt.show()" in c.source or "import" in c.source)


@pytest.mark.nightly
def test_a_notebook_of_the_book_notices_what_is_drawn(tmp_path):
    """A small part of ``make nightly ONLY=mutants``, with the same draw."""
    said, code, kept = made_in(tmp_path / "mutants.json", *map(str, SAMPLE))
    places = kept["parts"]["notebooks"]["places"]
    assert code == 0 and list(places) == [path.stem for path in SAMPLE], said
    assert record.rate(record.summed(record.totals(places).values())) >= 0.75


# ---- the record, the reasons and the page ----------------------------------------------


def test_every_reason_fits_the_book_as_it_is():
    for name, entries in record.reasons().get("notebooks", {}).items():
        where = pieces(ROOT / "notebooks" / f"{name}.ipynb")
        assert list(record.stale(entries, where, mutants_of)) == [], name
        assert all(entry["why"].strip().endswith(".") for entry in entries), name


def test_a_reason_whose_cell_changed_is_found():
    entry = {"piece": "a", "digest": record.digest("x + y"), "kind": "an operator exchanged",
             "before": "x + y", "after": "x - y", "why": "A reason."}  # fmt: skip
    stale = lambda **where: list(record.stale([entry], where, mutants_of))
    assert stale(a="x + y") == []
    assert stale(a="x + y ") == ["a has changed: is the mutant “x - y” still equivalent?"]
    assert stale(b="x + y") == ["there is no a any more"]
    entry["after"] = "x * y"
    assert stale(a="x + y") == ["a has no mutant “x * y” of “x + y”"]


def test_whatever_the_record_did_not_notice_has_a_reason():
    """Each was read: it makes no difference, and `equivalent.yml` says why."""
    kept = record.read()
    assert set(kept["parts"]) == set(record.PARTS)
    for part, there in kept["parts"].items():
        fates = record.summed(record.totals(there["places"]).values())
        assert record.rate(fates) >= 0.9, part
        assert all(one["why"] for entry in there["places"].values() for one in entry["survivors"])
