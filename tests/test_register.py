"""The register reads what the notebooks say, and refuses what does not agree."""

import nbformat
import pytest
from evidence import check_evidence, read_clauses
from files import Fault
from register import read_register

HEADING = "### Theorem 3.2 · The key bias cancels"
BOX = """\
> **Theorem 3.2 (The key bias cancels).** For every $m$,
> $a = b$.
>
> Row by row.
>
> *Needs:* softmax over the keys;
> the same $b$ on every key.
>
> *Evidence:*
>
> - the two sides: *by hand*, they are the same on every page"""
COLUMNS = "| theorem | hypotheses | proved for | measured against | breaks when |\n" + (
    "|---|---|---|---|---|"
)
ROW = (
    "| [3.2](#the-key-bias-cancels) The key bias cancels | softmax | every $m, n, d$ "
    r"| `nn.MultiheadAttention` | $\|b\|$ differs |"
)


def write(folder, *cells, name="03-a-claim.ipynb"):
    markdown = [nbformat.v4.new_markdown_cell(cell) for cell in cells]
    nbformat.write(nbformat.v4.new_notebook(cells=markdown), folder / name)


def summary(*rows, columns=COLUMNS):
    return "\n".join(["## Summary", "", columns, *rows])


def refusal(folder):
    with pytest.raises(Fault) as refused:
        read_register(folder)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_theorem_is_read_whole(tmp_path):
    write(tmp_path, "# 3 · A claim", f"{HEADING}\n\n{BOX}", summary(ROW))
    [theorem] = read_register(tmp_path)
    [clause] = theorem.evidence
    assert clause.mark == "by hand" and theorem.label == "Theorem 3.2"
    assert theorem.slug == "the-key-bias-cancels"
    assert vars(theorem) == {
        "notebook": tmp_path / "03-a-claim.ipynb",
        "chapter": "3 · A claim",
        "kind": "Theorem",
        "number": "3.2",
        "name": "The key bias cancels",
        "statement": "For every $m$,\n$a = b$.\n\nRow by row.",
        "needs": "softmax over the keys;\nthe same $b$ on every key.",
        "evidence": (clause,),
        "hypotheses": "softmax",
        "proved_for": "every $m, n, d$",
        "measured_against": "`nn.MultiheadAttention`",
        "breaks_when": "$|b|$ differs",
    }


@pytest.mark.parametrize(
    "cells, complaint",
    [
        ([HEADING, BOX, summary()], "a box asks for the row of the summary “[3.2](#the"),
        ([summary(ROW)], "no box makes the row of the summary “[3.2](#the"),
        ([HEADING, summary(ROW)], "no box makes the heading “### Theorem 3.2 ·"),
        ([BOX, summary(ROW)], "a box asks for the heading “### Theorem 3.2 ·"),
        ([HEADING, BOX, summary(ROW, ROW)], "is there twice"),
        ([HEADING, BOX, summary(ROW.replace("#the", "#a"))], "#the-key-bias-cancels"),
        ([HEADING, BOX, summary(ROW + " more |")], "not five cells"),
        ([HEADING, BOX, summary(ROW, columns="| theorem |\n|---|")], "needs the columns"),
        ([HEADING, BOX.split("\n> *Needs", maxsplit=1)[0], summary(ROW)], "“*Needs:* …”"),
        ([HEADING, BOX.split("\n>\n> *Evid", maxsplit=1)[0], summary(ROW)], "“*Evidence:* …”"),
        ([HEADING, BOX.replace("*by hand*", "proved"), summary(ROW)], "has no mark"),
        ([HEADING, BOX.replace("*by hand*", "*checked*"), summary(ROW)], "quotes no evidence"),
        ([HEADING, BOX, BOX, summary(ROW)], "uses “3.2”: Theorem 3.2 in 03-a"),
    ],
)
def test_disagreement_is_refused_in_one_sentence(tmp_path, cells, complaint):
    write(tmp_path, *cells)
    assert complaint in refusal(tmp_path)


def test_a_number_and_a_name_are_used_once_in_the_book(tmp_path):
    cells = [HEADING, BOX, summary(ROW)]
    for other, taken in (("3.2", "“3.2”"), ("4.1", "“the-key-bias-cancels”")):
        folder = tmp_path / other
        folder.mkdir()
        write(folder, *cells, name="03-a.ipynb")
        write(folder, *(cell.replace("3.2", other) for cell in cells), name="04-b.ipynb")
        said = f"04-b.ipynb: Theorem {other} uses {taken}: Theorem 3.2 in 03-a"
        assert said in refusal(folder)


# ---- a mark in a box is held to what its page prints: every box of the book passes --------------

PAGE = """\
Theorem 3.2 (The key bias cancels):
    softmax(Q (K + 1 bᵀ)ᵀ)
  = softmax(Q Kᵀ)                                               -- shift invariance
the running mean, step:
    r[t+1]
  = (1 - m) r[t]                                                -- definition of r
without the mask, line 1 is not justified.
  Claimed: x = y
  It is false: n = 2; x = (0, 1): 1/2 ≠ 1.
PASS  control: another mask: seen in float64, float32
"""

REFUSED = [
    ("all: *checked*, Theorem 3.2", "quotes no evidence"),
    ("all: *checked*, “Theorem 3.3”", "does not print"),
    ("what was refused: *checked*, “without the mask”", "does not print"),
    ("what was claimed: *checked*, “Claimed: x = y”", "does not print"),
    ("half of it: *checked*, “Theorem 3.2” and “the running variance”", "does not print"),
    ("what was measured: *checked*, “another mask”", "does not print"),
    ("only if: *by hand*, it is obvious", "does not say how"),
    ("speed: *measured*, “faster”", "does not print"),
]


@pytest.mark.parametrize(("bullet", "why"), REFUSED)
def test_evidence_that_is_missing_is_refused(bullet, why):
    clauses = read_clauses(f"- {bullet}")
    with pytest.raises(Fault, match=why):
        check_evidence(clauses, PAGE, elsewhere=["Theorem 1.1"])
